//! What is not in the text of a document, counted while it is converted.

use crate::Note;

/// Longest name in a note, in characters, and most names in it.
const MAX_NAME: usize = 80;
const MAX_NAMES: usize = 5;

/// What was left out of a text, or could not be read.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Places with text that a reader does not see.
    pub(crate) hidden: usize,
    /// Places with white text, which a reader may not see.
    pub(crate) white: usize,
    /// Deletions that were tracked.
    pub(crate) deletions: usize,
    /// Pictures, charts and drawings.
    pub(crate) pictures: usize,
    /// Small boxes beside text that are drawn.
    pub(crate) drawn_boxes: usize,
    /// Pages that are mostly pictures.
    pub(crate) picture_pages: usize,
    /// Pages that are missing or damaged.
    pub(crate) damaged_pages: usize,
    /// Forms that only Adobe's programs show.
    pub(crate) dynamic_forms: usize,
    /// Formulas that are objects of other programs.
    pub(crate) formulas: usize,
    /// Characters that are not known.
    pub(crate) unknown_characters: usize,
    /// Characters that only the programs of fonts tell.
    pub(crate) characters_of_programs: usize,
    /// Rows of tables that lost their columns.
    pub(crate) unfilled_rows: usize,
    /// Characters of pages that nobody sees.
    pub(crate) hidden_characters: usize,
    /// Places of pages whose numbers differ from the text for copying.
    pub(crate) other_numbers: usize,
    /// Drawings that repeat others too often.
    pub(crate) repeated_drawings: usize,
    /// Slides and sheets that are hidden.
    pub(crate) hidden_parts: usize,
    /// Places whose number the document makes in a way that is not known.
    pub(crate) unknown_numbers: usize,
    /// Places whose number is in digits, because its numerals are not known.
    pub(crate) unknown_numerals: usize,
    /// Places that a style sheet may hide, which is not known.
    pub(crate) unread_styles: usize,
    /// Formulas of cells without a result.
    pub(crate) no_results: usize,
    /// Rows that repeat the one above.
    pub(crate) repeated_rows: usize,
    /// Chapters that the book names and does not have, or that cannot be read.
    pub(crate) missing_chapters: Names,
    /// Headings of the table of contents whose places the book does not have.
    pub(crate) lost_headings: Names,
    /// Pages that are in the book, but not in its order of reading.
    pub(crate) unordered_chapters: usize,
    /// Files of an archive, or attachments, that are not read.
    pub(crate) skipped_files: Names,
}

/// Names, of which only the first are kept.
#[derive(Debug, Default)]
pub(crate) struct Names {
    first: Vec<String>,
    count: usize,
}

impl Names {
    pub(crate) fn push(&mut self, name: &str) {
        self.count += 1;
        if self.first.len() < MAX_NAMES {
            let name = name.chars().take(MAX_NAME).map(|c| if c.is_control() { '\u{fffd}' } else { c });
            self.first.push(name.collect());
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Appends the first of several names.
    fn add(&mut self, count: usize, first: &[String]) {
        first.iter().for_each(|name| self.push(name));
        self.count = self.count.saturating_add(count.saturating_sub(first.len()));
    }

    fn note(self, note: impl FnOnce(usize, Vec<String>) -> Note) -> Option<Note> {
        (self.count > 0).then(|| note(self.count, self.first))
    }
}

/// What was left out of several documents together: their notes of the same kind as one. Other notes are not among
/// them.
pub fn total<'a>(notes: impl IntoIterator<Item = &'a Note>) -> Vec<Note> {
    let mut counts = Counts::default();
    for note in notes {
        counts.add_note(note);
    }
    counts.notes()
}

impl Counts {
    /// Appends what a note says. Returns whether it is one of those that are counted.
    pub(crate) fn add_note(&mut self, note: &Note) -> bool {
        let (count, more) = match note {
            Note::HiddenText { places } => (&mut self.hidden, *places),
            Note::WhiteText { places } => (&mut self.white, *places),
            Note::Deletions { places } => (&mut self.deletions, *places),
            Note::HiddenCharacters { characters } => (&mut self.hidden_characters, *characters),
            Note::OtherNumbers { places } => (&mut self.other_numbers, *places),
            Note::RepeatedDrawings { drawings } => (&mut self.repeated_drawings, *drawings),
            Note::HiddenParts { parts } => (&mut self.hidden_parts, *parts),
            Note::Pictures { pictures } => (&mut self.pictures, *pictures),
            Note::DrawnBoxes { boxes } => (&mut self.drawn_boxes, *boxes),
            Note::PicturePages { pages } => (&mut self.picture_pages, *pages),
            Note::DamagedPages { pages } => (&mut self.damaged_pages, *pages),
            Note::DynamicForms { forms } => (&mut self.dynamic_forms, *forms),
            Note::UnreadFormulas { formulas } => (&mut self.formulas, *formulas),
            Note::UnknownGlyphs { glyphs } => (&mut self.unknown_characters, *glyphs),
            Note::CharactersOfPrograms { characters } => (&mut self.characters_of_programs, *characters),
            Note::LostColumns { rows } => (&mut self.unfilled_rows, *rows),
            Note::UnknownNumbers { places } => (&mut self.unknown_numbers, *places),
            Note::UnknownNumerals { places } => (&mut self.unknown_numerals, *places),
            Note::UnreadStyles { places } => (&mut self.unread_styles, *places),
            Note::NoResults { cells } => (&mut self.no_results, *cells),
            Note::RepeatedRows { rows } => (&mut self.repeated_rows, *rows),
            Note::UnorderedChapters { chapters } => (&mut self.unordered_chapters, *chapters),
            Note::MissingChapters { count, names } => {
                self.missing_chapters.add(*count, names);
                return true;
            }
            Note::LostHeadings { count, names } => {
                self.lost_headings.add(*count, names);
                return true;
            }
            Note::SkippedFiles { count, names } => {
                self.skipped_files.add(*count, names);
                return true;
            }
            _ => return false,
        };
        *count = count.saturating_add(more);
        true
    }

    /// Appends those of a part.
    pub(crate) fn add(&mut self, part: Counts) {
        for note in part.notes() {
            self.add_note(&note);
        }
    }

    /// The notes that say it.
    pub(crate) fn notes(self) -> Vec<Note> {
        let count = |count: usize, note: fn(usize) -> Note| (count > 0).then(|| note(count));
        [
            count(self.hidden, |places| Note::HiddenText { places }),
            count(self.white, |places| Note::WhiteText { places }),
            count(self.deletions, |places| Note::Deletions { places }),
            count(self.hidden_characters, |characters| Note::HiddenCharacters { characters }),
            count(self.other_numbers, |places| Note::OtherNumbers { places }),
            count(self.repeated_drawings, |drawings| Note::RepeatedDrawings { drawings }),
            count(self.hidden_parts, |parts| Note::HiddenParts { parts }),
            count(self.pictures, |pictures| Note::Pictures { pictures }),
            count(self.drawn_boxes, |boxes| Note::DrawnBoxes { boxes }),
            count(self.picture_pages, |pages| Note::PicturePages { pages }),
            count(self.damaged_pages, |pages| Note::DamagedPages { pages }),
            count(self.dynamic_forms, |forms| Note::DynamicForms { forms }),
            count(self.formulas, |formulas| Note::UnreadFormulas { formulas }),
            count(self.unknown_characters, |glyphs| Note::UnknownGlyphs { glyphs }),
            count(self.characters_of_programs, |characters| Note::CharactersOfPrograms { characters }),
            count(self.unfilled_rows, |rows| Note::LostColumns { rows }),
            count(self.unknown_numbers, |places| Note::UnknownNumbers { places }),
            count(self.unknown_numerals, |places| Note::UnknownNumerals { places }),
            count(self.unread_styles, |places| Note::UnreadStyles { places }),
            count(self.no_results, |cells| Note::NoResults { cells }),
            count(self.repeated_rows, |rows| Note::RepeatedRows { rows }),
            self.missing_chapters.note(|count, names| Note::MissingChapters { count, names }),
            self.lost_headings.note(|count, names| Note::LostHeadings { count, names }),
            count(self.unordered_chapters, |chapters| Note::UnorderedChapters { chapters }),
            self.skipped_files.note(|count, names| Note::SkippedFiles { count, names }),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_of_several_documents_are_added() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let notes = [
            Note::HiddenText { places: 2 },
            Note::CutOff,
            Note::SkippedFiles { count: 7, names: names(&["a", "b"]) },
            Note::HiddenText { places: 3 },
            Note::SkippedFiles { count: 1, names: names(&["c"]) },
        ];
        let total: Vec<String> = total(&notes).iter().map(ToString::to_string).collect();
        assert_eq!(
            total,
            [
                "text that a reader does not see was left out in 5 places",
                "8 files in it left out: a, b, c, …"
            ]
        );
    }
}
