//! Formulas in one line: `a/b`, `x^2`, `√(x)`, `∑_(i=1)^n i`. The parts of a formula are put together when they end, so
//! that a deep one needs no recursion.

/// Deepest parts that have a meaning of their own.
const MAX_DEPTH: usize = 128;

/// What an element of a formula does with the parts in it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    /// Writes them one behind the other.
    Row,
    /// The first above the second.
    Fraction,
    /// A fraction without a line: binomial coefficients.
    Stack,
    /// A base with a lowered part, a raised part, or both in this order.
    Lowered,
    Raised,
    Both,
    /// Raised and lowered parts, then the base that they stand before.
    Before,
    /// The root of all parts.
    SquareRoot,
    /// A base and the degree of its root.
    Root,
    /// The degree of a root and its base.
    RootOf,
    /// A sum, integral or product: lowered part, raised part, and what it is about. The sign is written first.
    Nary(String),
    /// Parts between brackets, with separators.
    Fenced {
        open: String,
        close: String,
        separator: String,
    },
    /// Rows of cells, and a row of them.
    Matrix,
    Cells,
    /// A sign above the parts.
    Accent(String),
    /// Not written.
    Hidden,
}

/// A part that is complete.
#[derive(Clone, Debug, Default)]
struct FormulaPart {
    text: String,
    /// Whether it needs no brackets.
    is_atomic: bool,
    /// Whether it begins and ends with a word, such as `sin`.
    starts_word: bool,
    ends_word: bool,
    /// Whether it ends with a raised or lowered part.
    ends_script: bool,
    /// Whether it begins and ends with a fraction: `1/2 x` is not `1/(2x)`, and `x 1/2` not `x1/2`.
    starts_fraction: bool,
    ends_fraction: bool,
    /// Whether it is rows in brackets, which others around them replace.
    is_matrix: bool,
}

impl FormulaPart {
    fn token(text: &str) -> FormulaPart {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_word = text.chars().count() > 1 && text.chars().all(char::is_alphabetic);
        let is_atomic = text.chars().count() == 1
            || text.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '∞' | '′'))
            || text.chars().all(|c| c.is_numeric() || c == ',');
        FormulaPart { is_atomic, starts_word: is_word, ends_word: is_word, text, ..FormulaPart::default() }
    }

    /// A formula that is a line already: one symbol, number or word, or a part between brackets, needs no others.
    fn line(text: &str) -> FormulaPart {
        let is_number = text.chars().all(|c| c.is_numeric() || matches!(c, '.' | ','));
        let is_atomic = text.chars().count() == 1
            || is_number
            || text.chars().all(char::is_alphabetic)
            || is_bracketed(text.trim_start_matches(['√', '∛', '∜']));
        FormulaPart { is_atomic, ..FormulaPart::atom(text.to_owned()) }
    }

    fn atom(text: String) -> FormulaPart {
        FormulaPart { text, is_atomic: true, ..FormulaPart::default() }
    }

    /// The part where only one symbol may stand.
    fn grouped(&self) -> String {
        if self.is_atomic && !self.ends_script { self.text.clone() } else { format!("({})", self.text) }
    }

    fn push(&mut self, other: FormulaPart) {
        if self.text.is_empty() {
            *self = other;
            return;
        }
        if other.text.is_empty() {
            return;
        }
        let (last, first) = (self.text.chars().next_back(), other.text.chars().next());
        let (last, first) = (last.unwrap_or(' '), first.unwrap_or(' '));
        let is_relation = |text: &str| text.chars().count() == 1 && text.contains(is_relation);
        let touches = last.is_alphanumeric() && (first.is_alphanumeric() || "√∛∜".contains(first));
        let needs_gap =
            touches && (self.ends_word || other.starts_word || (last.is_numeric() && first.is_numeric()));
        // Raised and lowered parts may stand before their base.
        let needs_gap = needs_gap || (self.ends_script && (first.is_alphanumeric() || "_^".contains(first)));
        let may_go_on = first.is_alphanumeric() || "([{√∛∜".contains(first);
        let may_lead = last.is_alphanumeric() || ")]}".contains(last);
        let needs_gap = needs_gap || (self.ends_fraction && may_go_on) || (other.starts_fraction && may_lead);
        let needs_gap = needs_gap || is_relation(&other.text) || is_relation(&last.to_string());
        if needs_gap && last != ' ' && first != ' ' {
            self.text.push(' ');
        }
        self.text.push_str(&other.text);
        (self.is_atomic, self.is_matrix) = (false, false);
        self.ends_word = other.ends_word;
        self.ends_script = other.ends_script;
        self.ends_fraction = other.ends_fraction;
    }
}

/// Whether one pair of brackets is around a text.
fn is_bracketed(text: &str) -> bool {
    let mut depth = 0_usize;
    let ends = text.char_indices().filter_map(|(i, c)| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        (depth == 0).then_some(i + c.len_utf8())
    });
    text.starts_with('(') && ends.take(1).eq([text.len()])
}

fn is_relation(c: char) -> bool {
    "=<>≤≥≠≈≡∼≅→⇒⇔↔∈∉⊂⊆∝".contains(c)
}

/// A formula that is being read.
#[derive(Debug, Default)]
pub(crate) struct Formula {
    open: Vec<(Shape, Vec<FormulaPart>)>,
    done: Vec<FormulaPart>,
    /// Open elements that are too deep to have a meaning.
    too_deep: usize,
}

impl Formula {
    /// Begins an element.
    pub(crate) fn open(&mut self, shape: Shape) {
        match self.open.len() < MAX_DEPTH {
            true => self.open.push((shape, Vec::new())),
            false => self.too_deep += 1,
        }
    }

    /// Changes what the innermost element does, when something within it says so.
    pub(crate) fn reshape(&mut self, change: impl FnOnce(&mut Shape)) {
        if let Some((shape, _)) = self.open.last_mut().filter(|_| self.too_deep == 0) {
            change(shape);
        }
    }

    /// Appends a number, a name or a sign.
    pub(crate) fn token(&mut self, text: &str) {
        let text: String = text.chars().filter(|c| !matches!(c, '\u{2061}'..='\u{2064}')).collect();
        if !text.trim().is_empty() {
            self.push(FormulaPart::token(&text));
        }
    }

    /// Appends a part that is written as a line already.
    pub(crate) fn line(&mut self, text: &str) {
        self.push(FormulaPart::line(text));
    }

    fn push(&mut self, part: FormulaPart) {
        match self.open.last_mut() {
            Some((Shape::Row | Shape::SquareRoot, parts)) if !parts.is_empty() => parts[0].push(part),
            Some((_, parts)) => parts.push(part),
            None => self.done.push(part),
        }
    }

    /// Ends the innermost element.
    pub(crate) fn close(&mut self) {
        if self.too_deep > 0 {
            self.too_deep -= 1;
        } else if let Some((shape, parts)) = self.open.pop()
            && shape != Shape::Hidden
        {
            self.push(shape.write(parts));
        }
    }

    /// The formula in one line.
    pub(crate) fn finish(mut self) -> String {
        self.too_deep = 0;
        while !self.open.is_empty() {
            self.close();
        }
        let mut whole = FormulaPart::default();
        self.done.into_iter().for_each(|part| whole.push(part));
        whole.text
    }
}

impl Shape {
    fn write(self, parts: Vec<FormulaPart>) -> FormulaPart {
        let mut parts = parts.into_iter();
        let mut next = || parts.next().unwrap_or_default();
        match self {
            Shape::Row => {
                let mut row = next();
                parts.for_each(|part| row.push(part));
                row
            }
            Shape::Fraction => {
                let (above, below) = (next(), next());
                FormulaPart {
                    text: format!("{}/{}", above.grouped(), below.grouped()),
                    starts_fraction: true,
                    ends_fraction: true,
                    ..FormulaPart::default()
                }
            }
            Shape::Stack => {
                let (above, below) = (next(), next());
                FormulaPart::atom(format!("binom({}, {})", above.text, below.text))
            }
            Shape::Lowered => {
                let (base, below) = (next(), next());
                scripts(base, &below, &FormulaPart::default())
            }
            Shape::Raised => {
                let (base, above) = (next(), next());
                accent(&base, &above.text).unwrap_or_else(|| scripts(base, &FormulaPart::default(), &above))
            }
            Shape::Both => {
                let (base, below, above) = (next(), next(), next());
                scripts(base, &below, &above)
            }
            Shape::Before => {
                let (below, above, base) = (next(), next(), next());
                let mut part = scripts(FormulaPart::default(), &below, &above);
                part.text.push_str(&base.text);
                FormulaPart { ends_script: false, ..part }
            }
            Shape::SquareRoot => root(&FormulaPart::default(), &next()),
            Shape::Root => {
                let (base, degree) = (next(), next());
                root(&degree, &base)
            }
            Shape::RootOf => {
                let (degree, base) = (next(), next());
                root(&degree, &base)
            }
            Shape::Nary(sign) => {
                let (below, above, body) = (next(), next(), next());
                let mut part = scripts(FormulaPart::token(&sign), &below, &above);
                let gap = if body.text.is_empty() { "" } else { " " };
                part.text.extend([gap, &body.text]);
                let FormulaPart { ends_word, ends_script, ends_fraction, .. } = body;
                FormulaPart { is_atomic: false, ends_word, ends_script, ends_fraction, ..part }
            }
            Shape::Fenced { open, close, separator } => {
                let separator = match separator.trim() {
                    "" => String::new(),
                    sign @ ("," | ";") => format!("{sign} "),
                    sign => format!(" {sign} "),
                };
                let without_brackets = |part: FormulaPart| match part.is_matrix {
                    true => part.text[1..part.text.len() - 1].to_owned(),
                    false => part.text,
                };
                let inner: Vec<String> = parts.map(without_brackets).collect();
                FormulaPart::atom(format!("{open}{}{close}", inner.join(&separator)))
            }
            Shape::Matrix => {
                let rows: Vec<String> = parts.map(|part| part.text).collect();
                FormulaPart { is_matrix: true, ..FormulaPart::atom(format!("[{}]", rows.join("; "))) }
            }
            Shape::Cells => {
                let cells: Vec<String> = parts.map(|part| part.text).collect();
                FormulaPart::atom(cells.join(", "))
            }
            Shape::Accent(sign) => {
                let base = next();
                accent(&base, &sign).unwrap_or(base)
            }
            Shape::Hidden => FormulaPart::default(),
        }
    }
}

/// A part with a sign above it. `None` if the sign is no accent.
fn accent(base: &FormulaPart, sign: &str) -> Option<FormulaPart> {
    let name = match sign {
        "^" | "\u{302}" | "ˆ" => "hat",
        "~" | "\u{303}" | "˜" => "tilde",
        "¯" | "\u{304}" | "\u{305}" | "‾" | "_" | "\u{332}" => "bar",
        "→" | "\u{20d7}" => "vec",
        "˙" | "\u{307}" | "." => "dot",
        "¨" | "\u{308}" => "ddot",
        _ => return None,
    };
    let text = format!("{name}({})", base.text);
    Some(FormulaPart { text, is_atomic: true, starts_word: true, ..FormulaPart::default() })
}

fn scripts(base: FormulaPart, below: &FormulaPart, above: &FormulaPart) -> FormulaPart {
    let mut text = if base.text.is_empty() { String::new() } else { base.grouped() };
    for (sign, part) in [('_', below), ('^', above)] {
        // A prime is raised already.
        if part.text.chars().all(|c| matches!(c, '′' | '″' | '\'')) {
            text.push_str(&part.text);
        } else {
            text.push(sign);
            text.push_str(&part.grouped());
        }
    }
    FormulaPart { ends_script: true, starts_word: base.starts_word, ..FormulaPart::atom(text) }
}

fn root(degree: &FormulaPart, base: &FormulaPart) -> FormulaPart {
    let text = match degree.text.as_str() {
        "" | "2" => format!("√({})", base.text),
        "3" => format!("∛({})", base.text),
        "4" => format!("∜({})", base.text),
        degree => format!("root({degree}, {})", base.text),
    };
    FormulaPart::atom(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A formula from brackets: `f[a][b]` is a fraction, `^[x][2]` a power, and so on.
    fn check(source: &str, wanted: &str) {
        let mut formula = Formula::default();
        let mut chars = source.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '[' => formula.open(Shape::Row),
                ']' => formula.close(),
                '{' => {
                    let shape = match chars.next() {
                        Some('f') => Shape::Fraction,
                        Some('^') => Shape::Raised,
                        Some('_') => Shape::Lowered,
                        Some('b') => Shape::Both,
                        Some('r') => Shape::RootOf,
                        Some('s') => Shape::Nary("∑".to_owned()),
                        Some('(') => {
                            Shape::Fenced { open: "(".into(), close: ")".into(), separator: ", ".into() }
                        }
                        Some('m') => Shape::Matrix,
                        Some('c') => Shape::Cells,
                        _ => Shape::Accent("→".to_owned()),
                    };
                    formula.open(shape);
                }
                '}' => formula.close(),
                c if c.is_alphanumeric() => {
                    let mut token = String::from(c);
                    while let Some(next) = chars.next_if(|next| next.is_alphanumeric()) {
                        token.push(next);
                    }
                    formula.token(&token);
                }
                c => formula.token(&c.to_string()),
            }
        }
        assert_eq!(formula.finish(), wanted, "{source}");
    }

    #[test]
    fn formulas_are_written_in_a_line() {
        check("{f[1][2]}", "1/2");
        check("{f[a+b][{f[c][d]}]}", "(a+b)/(c/d)");
        check("{^[10][4]}", "10^4");
        check("{^[x][n+1]}y", "x^(n+1) y");
        check("{^[{_[x][i]}][2]}", "(x_i)^2");
        check("{b[x][i][2]}", "x_i^2");
        check("{r[3][27]}", "∛(27)");
        check("{r[][x+1]}", "√(x+1)");
        check("{s[i=1][n][i]}", "∑_(i = 1)^n i");
        check("{s[0][1][{^[x][2]}]}d", "∑_0^1 x^2 d");
        check("{s[0][1][{f[a][2]}]}d", "∑_0^1 a/2 d");
        check("{_[log][10]}5=y", "log_10 5 = y");
        check("{f[1][2]}x+2{f[1][2]}", "1/2 x+2 1/2");
        check("{f[1][x+1]}{^[y][2]}{f[a][b]}{f[c][d]}({f[1][2]})", "1/(x+1) y^2 a/b c/d (1/2)");
        check("sin x", "sin x");
        check("2a b", "2ab");
        check("{([a][b]}", "(a, b)");
        check("{m{c[1][0]}{c[0][1]}}", "[1, 0; 0, 1]");
        check("{v[a]}", "vec(a)");
    }

    #[test]
    fn deep_and_open_formulas_end() {
        let mut formula = Formula::default();
        (0..100_000).for_each(|_| formula.open(Shape::Fraction));
        formula.token("x");
        assert!(formula.finish().contains('x'));
    }
}
