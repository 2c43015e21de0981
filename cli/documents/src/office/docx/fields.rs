//! Fields of DOCX: what they show, and what they only say to the program. Old forms are fields, too.

use super::auto_numbers;
use crate::package::xml::Element;
use crate::writer::symbols::{self, EMPTY, TICKED};

/// Longest instruction that is used.
const MAX_INSTRUCTION: usize = 4096;
/// Deepest parts of a formula in a field.
const MAX_DEPTH: usize = 16;

/// A field that is open.
#[derive(Debug, Default)]
struct Field {
    instruction: String,
    /// Whether what is shown has begun, and whether there is any.
    shows: bool,
    has_text: bool,
    /// The box of a form, and whether it is ticked.
    is_ticked: Option<bool>,
    /// The choices of a form.
    choices: Vec<String>,
    chosen: usize,
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

/// The open fields, the innermost last.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<Field>);

impl Fields {
    pub(super) fn begin(&mut self) {
        self.0.push(Field::default());
    }

    /// What follows is shown.
    pub(super) fn separate(&mut self) {
        self.0.iter_mut().last().into_iter().for_each(|field| field.shows = true);
    }

    /// Text is shown.
    pub(super) fn show_text(&mut self) {
        self.0.iter_mut().for_each(|field| field.has_text = true);
    }

    /// Whether text is an instruction here.
    pub(super) fn hide_text(&self) -> bool {
        self.0.iter().any(|field| !field.shows)
    }

    /// Whether the text is the number of a page.
    pub(super) fn is_page_number(&self) -> bool {
        self.0.iter().any(|field| is_page_number(&field.instruction))
    }

    pub(super) fn instruction(&mut self, text: &str) {
        if let Some(field) = self.0.last_mut()
            && field.instruction.len() + text.len() <= MAX_INSTRUCTION
        {
            field.instruction.push_str(text);
        }
    }

    /// A property of an old form.
    pub(super) fn property(&mut self, element: &Element) {
        let Some(field) = self.0.last_mut() else { return };
        let number = || element.attribute("val").and_then(|value| value.parse().ok());
        match element.name.as_str() {
            "checkBox" => field.is_ticked = field.is_ticked.or(Some(false)),
            // It may follow what the box was at first.
            "checked" => field.is_ticked = Some(element.is_on()),
            "default" if field.is_ticked.is_some() => field.is_ticked = Some(element.is_on()),
            "result" | "default" => field.chosen = number().unwrap_or(field.chosen),
            "listEntry" if field.choices.len() < 1000 => field.choices.extend(element.attribute("val")),
            _ => {}
        }
    }

    /// Ends the innermost field.
    pub(super) fn end(&mut self) -> Shown {
        self.0.pop().map_or(Shown::Nothing, Field::finish)
    }
}

/// Whether an instruction shows the number of a page, or how many there are.
fn is_page_number(instruction: &str) -> bool {
    let name = instruction.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
    matches!(name.as_str(), "PAGE" | "NUMPAGES" | "SECTIONPAGES")
}

impl Field {
    fn finish(self) -> Shown {
        if let Some(is_ticked) = self.is_ticked {
            return Shown::Text((if is_ticked { TICKED } else { EMPTY }).to_owned());
        }
        let (name, rest) =
            self.instruction.trim().split_once(char::is_whitespace).unwrap_or((self.instruction.trim(), ""));
        match name.to_ascii_uppercase().as_str() {
            "FORMDROPDOWN" => {
                self.choices.get(self.chosen).map_or(Shown::Nothing, |choice| Shown::Text(choice.clone()))
            }
            "SYMBOL" if !self.has_text => {
                symbol(rest).map_or(Shown::Unknown, |sign| Shown::Text(sign.into()))
            }
            name if auto_numbers::is_number(name) && !self.has_text => {
                Shown::Number(name.to_owned(), rest.to_owned())
            }
            // Word keeps what an equation looks like elsewhere.
            "EQ" if !self.has_text => equation(rest).map_or(Shown::Formula, Shown::Text),
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
pub(in crate::office) fn equation(text: &str) -> Option<String> {
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
}
