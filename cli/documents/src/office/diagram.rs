//! Diagrams of Office (SmartArt): their texts as a list, as deep as the parts of the diagram are within each other.

use std::collections::{HashMap, HashSet};

use crate::package::xml::{self, Element, Piece};
use crate::writer::Writer;

/// The texts of a diagram with their depths, in the order in which they are read.
#[derive(Debug, Default)]
pub(super) struct Diagram(Vec<(usize, String)>);

/// A diagram while it is read.
#[derive(Default)]
struct Reader {
    /// The points with their texts, and their places by their ids.
    points: Vec<String>,
    places: HashMap<String, usize>,
    /// Points within points, each with its number among them.
    within: Vec<(usize, usize, usize)>,
    in_text: bool,
}

impl Diagram {
    /// Reads a diagram, if it has text.
    pub(super) fn read(text: &str, part: &str) -> Option<Diagram> {
        let mut reader = Reader::default();
        // What comes before damage counts.
        let _ = xml::read(part, text, |piece| {
            match piece {
                Piece::Start(element) => reader.start(&element),
                Piece::End(name) if name == "t" => reader.in_text = false,
                // Paragraphs of a point are one item.
                Piece::End(name) if name == "p" => reader.text(" "),
                Piece::Text(text) if reader.in_text => reader.text(&text),
                _ => {}
            }
            Ok(())
        });
        let items = reader.items();
        (!items.is_empty()).then_some(Diagram(items))
    }

    /// Writes the texts as a list.
    pub(super) fn write(&self, writer: &mut Writer) {
        writer.paragraph();
        for (depth, text) in &self.0 {
            writer.item(*depth, "-");
            writer.text(text);
        }
        writer.end_item();
        writer.paragraph();
    }
}

impl Reader {
    fn start(&mut self, element: &Element) {
        match element.name.as_str() {
            "pt" => {
                let id = element.attribute("modelId").unwrap_or_default();
                self.places.insert(id, self.points.len());
                self.points.push(String::new());
            }
            "t" => self.in_text = true,
            "cxn" if element.attribute("type").is_none_or(|kind| kind == "parOf") => {
                let place = |name: &str| element.attribute(name).and_then(|id| self.places.get(&id).copied());
                if let (Some(outer), Some(inner)) = (place("srcId"), place("destId")) {
                    let order = element.attribute("srcOrd").and_then(|order| order.parse().ok()).unwrap_or(0);
                    self.within.push((outer, order, inner));
                }
            }
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        self.points.iter_mut().last().into_iter().for_each(|point| point.push_str(text));
    }

    /// The points that have a text: those within each other from the outermost on, then those that are in none.
    fn items(mut self) -> Vec<(usize, String)> {
        // The last one of the stack is next.
        self.within.sort_unstable_by(|a, b| b.cmp(a));
        let mut inner: HashMap<usize, Vec<usize>> = HashMap::new();
        for (outer, _, point) in &self.within {
            inner.entry(*outer).or_default().push(*point);
        }
        let is_within: HashSet<usize> = self.within.iter().map(|(_, _, point)| *point).collect();
        let (outermost, others): (Vec<usize>, Vec<usize>) =
            (0..self.points.len()).rev().partition(|point| !is_within.contains(point));
        // Points that are within each other in a ring are in `others` only.
        let mut next: Vec<(usize, usize)> =
            others.into_iter().chain(outermost).map(|point| (point, 0)).collect();
        let (mut items, mut known) = (Vec::new(), HashSet::new());
        while let Some((point, depth)) = next.pop() {
            if !known.insert(point) {
                continue;
            }
            let text = std::mem::take(&mut self.points[point]);
            let text = text.trim();
            // The diagram itself is a point without a text.
            let below = if text.is_empty() { depth } else { depth + 1 };
            if !text.is_empty() {
                items.push((depth, text.to_owned()));
            }
            next.extend(inner.remove(&point).unwrap_or_default().into_iter().map(|point| (point, below)));
        }
        items
    }
}
