//! Formulas. Their groups are the elements of Office Math Markup Language, each with an `m` before its name: `{\mf` is a
//! fraction, and `{\mr` a run of text.

use std::mem;

use super::{Destination, Reader};

impl Destination {
    fn is_of_formula(self) -> bool {
        matches!(self, Destination::Formula | Destination::Part | Destination::Run)
    }
}

impl Reader {
    /// Begins a formula, or a part of the one that is open. Returns what the group is.
    pub(super) fn begin_formula(&mut self, word: &str) -> Option<Destination> {
        match self.group.destination {
            Destination::Skipped | Destination::Alternatives | Destination::Run => None,
            Destination::Formula | Destination::Part => match word.strip_prefix('m')? {
                "r" => {
                    self.name.clear();
                    Some(Destination::Run)
                }
                name => {
                    name.clone_into(&mut self.part);
                    self.math.begin(name, None);
                    Some(Destination::Part)
                }
            },
            _ => (word == "moMath").then_some(Destination::Formula),
        }
    }

    /// Ends a formula, a part or a run of one.
    pub(super) fn end_formula(&mut self) {
        match self.group.destination {
            Destination::Run => {
                let run = mem::take(&mut self.name);
                self.math.token(&run);
            }
            Destination::Part => self.math.end(),
            _ => {
                let text = mem::take(&mut self.math).finish();
                self.group.destination = self.destination_around(Destination::is_of_formula);
                if !text.is_empty() {
                    self.write(&text);
                }
            }
        }
    }

    /// Ends the formula that is open where the file ends.
    pub(super) fn end_open_formula(&mut self) {
        while self.group.destination.is_of_formula() {
            self.close_destination();
            self.group = self.groups.pop().unwrap_or_default();
        }
    }
}
