//! What parts of Office Open XML draw of data: charts and diagrams.

use std::collections::HashMap;

use super::chart::Chart;
use super::diagram::Diagram;
use super::relations::Relations;
use crate::Problem;
use crate::package::Archive;
use crate::package::xml::Element;
use crate::writer::Writer;

/// The charts and diagrams of a part, by the ids of its references.
#[derive(Debug, Default)]
pub(super) struct Drawings {
    charts: HashMap<String, Chart>,
    diagrams: HashMap<String, Diagram>,
}

impl Drawings {
    /// Reads those that a part refers to. Damage leaves one out.
    ///
    /// # Errors
    /// The archive unpacks to too much.
    pub(super) fn of(archive: &mut Archive, relations: &Relations) -> Result<Drawings, Problem> {
        Ok(Drawings {
            charts: relations.read_all(archive, "chart", Chart::read)?,
            diagrams: relations.read_all(archive, "diagramData", Diagram::read)?,
        })
    }

    /// Writes what an element `chart` or `relIds` means. Returns whether it has numbers or text.
    pub(super) fn write(&self, element: &Element, writer: &mut Writer) -> bool {
        let chart = element.attribute("id").and_then(|id| self.charts.get(&id));
        let diagram = element.attribute("dm").and_then(|id| self.diagrams.get(&id));
        match (chart, diagram) {
            (Some(chart), _) => chart.write(writer),
            (None, Some(diagram)) => diagram.write(writer),
            (None, None) => return false,
        }
        true
    }
}
