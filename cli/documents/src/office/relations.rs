//! How the parts of an Office Open XML package name each other.

use std::collections::HashMap;

use crate::Problem;
use crate::package::xml::{self, Piece};
use crate::package::{Archive, percent_decode, resolve};

/// What a part refers to.
#[derive(Clone, Debug)]
pub(super) struct Relation {
    /// How the part calls it.
    pub(super) id: String,
    /// What it is: the last part of its type, such as `styles`.
    pub(super) kind: String,
    /// The entry.
    pub(super) target: String,
}

/// The references of a part to other parts; those to other files are left out.
#[derive(Clone, Debug, Default)]
pub(super) struct Relations(Vec<Relation>);

impl Relations {
    /// Those of a part; of the package for an empty name. Damage ends them.
    ///
    /// # Errors
    /// The archive unpacks to too much.
    pub(super) fn of(archive: &mut Archive, part: &str) -> Result<Relations, Problem> {
        let (folder, name) = part.rsplit_once('/').unwrap_or(("", part));
        let own = resolve(folder, &format!("_rels/{name}.rels"));
        let Some(text) = archive.text_if_whole(&own)? else { return Ok(Relations::default()) };
        let mut relations = Vec::new();
        // What comes before damage counts.
        let _ = xml::read(&own, &text, |piece| {
            let Piece::Start(element) = piece else { return Ok(()) };
            let is_outside = element.attribute("TargetMode").is_some_and(|mode| mode == "External");
            if let (Some(id), Some(kind), Some(target), false) =
                (element.attribute("Id"), element.attribute("Type"), element.attribute("Target"), is_outside)
            {
                let kind = kind.rsplit('/').next().unwrap_or_default().to_owned();
                let target = [resolve(folder, &target), resolve(folder, &percent_decode(&target))]
                    .into_iter()
                    .find(|target| archive.has(target));
                relations.extend(target.map(|target| Relation { id, kind, target }));
            }
            Ok(())
        });
        Ok(Relations(relations))
    }

    /// What is read of all entries of a kind, by their ids. Those that cannot be read are left out.
    ///
    /// # Errors
    /// The archive unpacks to too much.
    pub(super) fn read_all<T>(
        &self,
        archive: &mut Archive,
        kind: &str,
        read: impl Fn(&str, &str) -> Option<T>,
    ) -> Result<HashMap<String, T>, Problem> {
        let mut all = HashMap::new();
        for relation in self.all(kind) {
            if let Some(text) = archive.text_if_whole(&relation.target)? {
                all.extend(read(&text, &relation.target).map(|read| (relation.id.clone(), read)));
            }
        }
        Ok(all)
    }

    /// The entry of an id.
    pub(super) fn target(&self, id: &str) -> Option<&str> {
        self.0.iter().find(|relation| relation.id == id).map(|relation| relation.target.as_str())
    }

    /// The first entry of a kind.
    pub(super) fn of_kind(&self, kind: &str) -> Option<&str> {
        self.all(kind).next().map(|relation| relation.target.as_str())
    }

    /// All references of a kind.
    pub(super) fn all(&self, kind: &str) -> impl Iterator<Item = &Relation> {
        self.0.iter().filter(move |relation| relation.kind == kind)
    }
}

/// The entry with the document itself: the one of this name, or that which the package names.
///
/// # Errors
/// There is none, or the archive unpacks to too much.
pub(super) fn main_part(archive: &mut Archive, usual: &str) -> Result<String, Problem> {
    let relations = Relations::of(archive, "")?;
    if let Some(target) = relations.of_kind("officeDocument") {
        return Ok(target.to_owned());
    }
    match archive.has(usual) {
        true => Ok(usual.to_owned()),
        false => Err(Problem::Damaged { what: "it has no document".to_owned() }),
    }
}
