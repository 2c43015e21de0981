//! How text looks: attributes, and one of the terminal's own colours.

/// Attributes and a colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    pub bold: bool,
    pub dim: bool,
    pub italic: bool,
    pub underlined: bool,
    /// An ANSI colour: 31 is red, 32 green, 36 cyan.
    pub color: Option<u8>,
}

impl Style {
    /// As the terminal shows text by itself.
    pub const PLAIN: Style = Style { bold: false, dim: false, italic: false, underlined: false, color: None };
    /// Less bright.
    pub const DIM: Style = Style { dim: true, ..Style::PLAIN };
    /// In heavy letters.
    pub const BOLD: Style = Style { bold: true, ..Style::PLAIN };

    /// In a colour.
    pub const fn color(color: u8) -> Style {
        Style { color: Some(color), ..Style::PLAIN }
    }

    /// The control sequence that sets this style and nothing else.
    pub fn sequence(self) -> String {
        let attributes = [(self.bold, 1), (self.dim, 2), (self.italic, 3), (self.underlined, 4)];
        let set = attributes.into_iter().filter_map(|(is_set, code)| is_set.then_some(code));
        let codes: String = set.chain(self.color).map(|code| format!(";{code}")).collect();
        format!("\x1b[0{codes}m")
    }
}
