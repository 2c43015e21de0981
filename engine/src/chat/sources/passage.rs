//! A source with its text and where it stands: what a reader is shown, and what programs get.

use std::ops::Range;

use outline::{Begins, Location, Mark, Outline};
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use super::Source;

/// A source with its text and where it stands.
///
/// It serialises as `document`, `page`, `section`, `start`, `end`, `text`, `weight` and `statements`: bytes of the text that has it,
/// and the weight in four digits.
///
/// ```
/// use longhand::outline::{Begins, Outline};
/// use longhand::sources::{Passage, Source};
///
/// let mut outline = Outline::default();
/// outline.push(0, Begins::Document("boat.txt".into()));
/// let source = Source { part: 0, range: 10..18, weight: 0.5, statements: vec![0..10] };
/// let passage = Passage::new(&source, &["It rains. It sank. It rests."], &[&outline], "It is sunk. Why?");
/// assert_eq!((passage.document.as_deref(), passage.text.as_str()), (Some("boat.txt"), "It sank."));
/// assert_eq!(passage.statements, ["It is sunk"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Passage {
    /// The text that has it: see [`Source::part`].
    pub part: usize,
    /// Its bytes there.
    pub range: Range<usize>,
    /// The name of the document. Of several with the same name it says which one: `notes.txt (2 of 2)`.
    pub document: Option<String>,
    /// The page or slide, counted from 1.
    pub page: Option<usize>,
    /// The title of the section.
    pub section: Option<String>,
    /// The sentence.
    pub text: String,
    /// How much speaks for it, as a share of all sources, from 0 to 1.
    pub weight: f32,
    /// Sentences of the answer that come from here: see [`Source::statements`].
    pub statements: Vec<String>,
}

impl Passage {
    /// A source of this answer, without thoughts, in one of these texts, by their outlines.
    pub fn new(source: &Source, texts: &[&str], outlines: &[&Outline], answer: &str) -> Passage {
        let text = texts.get(source.part).copied().unwrap_or_default();
        let outline = outlines.get(source.part);
        let location = outline.map(|outline| outline.location(text, source.range.start)).unwrap_or_default();
        let statements = source.statements.iter().filter_map(|range| answer.get(range.clone()));
        let statements = statements.filter(|statement| !statement.is_empty());
        Passage {
            part: source.part,
            range: source.range.clone(),
            document: location.document.map(|name| named(name, outlines, source)),
            page: location.page,
            section: location.section.map(str::to_owned),
            text: text.get(source.range.clone()).unwrap_or_default().to_owned(),
            weight: source.weight,
            statements: statements.map(str::to_owned).collect(),
        }
    }

    /// Where it stands.
    pub fn location(&self) -> Location<'_> {
        Location { document: self.document.as_deref(), page: self.page, section: self.section.as_deref() }
    }
}

impl Serialize for Passage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Passage", 8)?;
        object.serialize_field("document", &self.document)?;
        object.serialize_field("page", &self.page)?;
        object.serialize_field("section", &self.section)?;
        object.serialize_field("start", &self.range.start)?;
        object.serialize_field("end", &self.range.end)?;
        object.serialize_field("text", &self.text)?;
        object.serialize_field("weight", &((f64::from(self.weight) * 1e4).round() / 1e4))?;
        object.serialize_field("statements", &self.statements)?;
        object.end()
    }
}

/// The name of the document that has a source. Of several documents with the same name it also says which one, in the order
/// in which they were given.
fn named(name: &str, outlines: &[&Outline], source: &Source) -> String {
    let of_part = |(part, outline): (usize, &&Outline)| {
        let is_named = |Mark(start, begins): &Mark| match begins {
            Begins::Document(other) if other == name => Some((part, *start)),
            _ => None,
        };
        outline.marks().iter().filter_map(is_named).collect::<Vec<_>>()
    };
    let alike: Vec<(usize, usize)> = outlines.iter().enumerate().flat_map(of_part).collect();
    let number = alike.iter().filter(|start| **start <= (source.part, source.range.start)).count();
    if alike.len() > 1 { format!("{name} ({number} of {})", alike.len()) } else { name.to_owned() }
}
