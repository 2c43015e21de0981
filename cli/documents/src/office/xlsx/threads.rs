//! Remarks of several people on a cell, one below the other, as newer programs of Microsoft store them.

use std::collections::HashMap;

use crate::package::xml::{self, Piece};

/// How the author of a remark begins that is a copy of a thread.
pub(super) const AUTHOR: &str = "tc=";

/// The names of people by their ids. What comes before damage counts.
pub(super) fn people(text: &str, part: &str) -> HashMap<String, String> {
    let mut people = HashMap::new();
    let _ = xml::read(part, text, |piece| {
        if let Piece::Start(element) = piece
            && element.name == "person"
        {
            let name = element.attribute("displayName").filter(|name| !name.trim().is_empty());
            people.extend(element.attribute("id").zip(name));
        }
        Ok(())
    });
    people
}

/// The remarks with the names of their cells; none if the part is damaged, as the copies of all remarks are whole then.
pub(super) fn read(text: &str, part: &str, people: &HashMap<String, String>) -> Vec<(String, String)> {
    let (mut remarks, mut in_text, mut depth) = (Vec::<(String, String, String)>::new(), false, 0_usize);
    let is_whole = xml::read(part, text, |piece| {
        match piece {
            Piece::Start(element) => {
                depth += 1;
                in_text = element.name == "text";
                if element.name == "threadedComment" {
                    let person = element.attribute("personId").and_then(|id| people.get(&id));
                    let author = person.map_or(String::new(), |name| format!("{} comments: ", name.trim()));
                    let cell = element.attribute("ref").unwrap_or_default();
                    remarks.push((cell, author, String::new()));
                }
            }
            Piece::End(_) => (in_text, depth) = (false, depth.saturating_sub(1)),
            Piece::Text(text) => {
                if let Some((.., remark)) = remarks.last_mut().filter(|_| in_text) {
                    remark.push_str(&text);
                }
            }
        }
        Ok(())
    });
    let remarks = remarks
        .into_iter()
        .filter(|(.., remark)| is_whole.is_ok() && depth == 0 && !remark.trim().is_empty());
    remarks.map(|(cell, author, remark)| (cell, author + &remark)).collect()
}
