//! Fields of DOCX and RTF: what they show, and what they only say to the program. Old forms are fields, too.

use super::docx::auto_numbers;
use crate::writer::symbols::{self, EMPTY, TICKED};

/// Longest instruction that is used, in bytes.
const MAX_INSTRUCTION: usize = 4096;
/// Most choices of a form that are used.
const MAX_CHOICES: usize = 1000;
/// Deepest parts of a formula in a field.
const MAX_DEPTH: usize = 16;

/// A field that is open.
#[derive(Debug, Default)]
pub(super) struct Field {
    instruction: String,
    /// Whether text is shown.
    pub(super) has_text: bool,
    /// The box of a form, and whether it is ticked.
    pub(super) is_ticked: Option<bool>,
    /// The choices of a form.
    choices: Vec<String>,
    /// The number of the choice that is shown.
    pub(super) chosen: Option<usize>,
}

/// What a field says when it ends.
#[derive(Debug, PartialEq)]
pub(super) enum Shown {
    /// Nothing besides what is in the file.
    Nothing,
    /// This text.
    Text(String),
    /// A character that is not known.
    Unknown,
    /// A formula that cannot be read.
    Formula,
    /// The number that a field of this name and with these arguments counts.
    Number(String, String),
}

impl Field {
    pub(super) fn instruction(&mut self, text: &str) {
        if self.instruction.len() + text.len() <= MAX_INSTRUCTION {
            self.instruction.push_str(text);
        }
    }

    pub(super) fn choice(&mut self, choice: String) {
        if self.choices.len() < MAX_CHOICES {
            self.choices.push(choice);
        }
    }

    /// Whether its result is text of the document. Fields that ask for a text or set one only keep it.
    pub(super) fn shows_result(&self) -> bool {
        let name = self.instruction.split_whitespace().next().unwrap_or_default();
        !["SET", "ASK"].iter().any(|other| name.eq_ignore_ascii_case(other))
    }

    /// What the field shows where it ends.
    pub(super) fn finish(self) -> Shown {
        if let Some(is_ticked) = self.is_ticked {
            return Shown::Text((if is_ticked { TICKED } else { EMPTY }).to_owned());
        }
        // What it makes is there already.
        if self.has_text {
            return Shown::Nothing;
        }
        let instruction = self.instruction.trim();
        let (name, rest) = instruction.split_once(char::is_whitespace).unwrap_or((instruction, ""));
        match name.to_ascii_uppercase().as_str() {
            "FORMDROPDOWN" => {
                let choice = self.choices.get(self.chosen.unwrap_or_default());
                choice.map_or(Shown::Nothing, |choice| Shown::Text(choice.clone()))
            }
            "SYMBOL" => symbol(rest).map_or(Shown::Unknown, |sign| Shown::Text(sign.into())),
            name if auto_numbers::is_number(name) => Shown::Number(name.to_owned(), rest.to_owned()),
            "EQ" => equation(rest).map_or(Shown::Formula, Shown::Text),
            _ => Shown::Nothing,
        }
    }
}

/// The character of `61 \f Symbol`.
fn symbol(text: &str) -> Option<char> {
    let mut words = text.split(|c: char| c.is_whitespace() || c == '"').filter(|word| !word.is_empty());
    let number = words.next()?;
    let hexadecimal = number.strip_prefix("0x").or_else(|| number.strip_prefix("0X"));
    let number =
        hexadecimal.map_or_else(|| number.parse().ok(), |digits| u32::from_str_radix(digits, 16).ok())?;
    let font = text.split_once("\\f").map_or("", |(_, after)| after.trim_start());
    let font = match font.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => font.split_whitespace().next(),
    };
    symbols::sign(font.unwrap_or_default(), number)
}

/// A formula such as `\f(1,2)`, in one line.
fn equation(text: &str) -> Option<String> {
    let mut reader = Equation { rest: text.trim(), depth: 0 };
    let written = reader.sequence()?;
    reader.rest.is_empty().then_some(written)
}

struct Equation<'a> {
    rest: &'a str,
    depth: usize,
}

impl Equation<'_> {
    /// What is written up to the end of an operand.
    fn sequence(&mut self) -> Option<String> {
        let mut written = String::new();
        while let Some(c) = self.rest.chars().next() {
            match c {
                ',' | ';' | ')' if self.depth > 0 => break,
                '\\' => written.push_str(&self.function()?),
                c => {
                    written.push(c);
                    self.rest = &self.rest[c.len_utf8()..];
                }
            }
        }
        Some(written)
    }

    /// A function with its options and operands.
    fn function(&mut self) -> Option<String> {
        let at = self.rest.find('(')?;
        let name = self.rest[..at].to_ascii_lowercase().replace(' ', "");
        if self.depth >= MAX_DEPTH || name.matches('\\').count() > 4 {
            return None;
        }
        self.rest = &self.rest[at + 1..];
        self.depth += 1;
        let mut operands = vec![self.sequence()?];
        while let Some(rest) = self.rest.strip_prefix([',', ';']) {
            self.rest = rest;
            operands.push(self.sequence()?);
        }
        self.rest = self.rest.strip_prefix(')')?;
        self.depth -= 1;
        let group = |text: &str| match text.trim() {
            text if text.chars().all(char::is_alphanumeric) => text.to_owned(),
            text => format!("({text})"),
        };
        match (name.as_str(), operands.as_slice()) {
            (name, [above, below]) if name.starts_with("\\f") => {
                Some(format!("{}/{}", group(above), group(below)))
            }
            (name, [base]) if name.starts_with("\\r") => Some(format!("√({base})")),
            (name, [degree, base]) if name.starts_with("\\r") => Some(match degree.trim() {
                "" | "2" => format!("√({base})"),
                degree => format!("root({degree}, {base})"),
            }),
            (name, [text]) if name.starts_with("\\s\\up") => Some(format!("^{}", group(text))),
            (name, [text]) if name.starts_with("\\s\\do") => Some(format!("_{}", group(text))),
            (name, [text]) if name.starts_with("\\b") => Some(format!("({text})")),
            (name, texts) if name.starts_with("\\l") => Some(texts.join(", ")),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_of_fields_are_written_in_a_line() {
        for (text, wanted) in [
            (r"\f(1,2)", Some("1/2")),
            (r"\f(a+b;\r(3,x))", Some("(a+b)/(root(3, x))")),
            (r"10\s\up8(6)", Some("10^6")),
            (r"\r(,x)", Some("√(x)")),
            (r"\o(a,b)", None),
            (r"\f(1,2", None),
        ] {
            assert_eq!(equation(text).as_deref(), wanted, "{text}");
        }
        assert_eq!(equation(&r"\f(".repeat(100_000)), None);
    }

    #[test]
    fn symbols_of_fields_are_those_of_their_font() {
        assert_eq!(symbol(r#"254 \f "Wingdings" \s 10"#), Some('☒'));
        assert_eq!(symbol(r"0x61 \f Symbol"), Some('α'));
        assert_eq!(symbol("65"), Some('A'));
    }

    #[test]
    fn what_a_field_shows_already_is_not_written_again() {
        let field = |instruction: &str, has_text: bool| {
            let mut field = Field { has_text, ..Field::default() };
            field.instruction(instruction);
            field.choice("red".to_owned());
            field.finish()
        };
        for (instruction, shown) in [
            (r"symbol 254 \f Wingdings", "☒"),
            (r"SYMBOL 0xFE \f Wingdings", "☒"),
            (r"EQ \f(1,2)", "1/2"),
            ("FORMDROPDOWN", "red"),
        ] {
            assert_eq!(field(instruction, false), Shown::Text(shown.to_owned()), "{instruction}");
            assert_eq!(field(instruction, true), Shown::Nothing, "{instruction}");
        }
    }
}
