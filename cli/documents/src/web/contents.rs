//! Tables of contents of books: what they lead to, and how they call it.

use std::mem;

use crate::package::xml::{self, Piece};

/// Longest name of a chapter that is read, in bytes.
const MAX_NAME: usize = 300;

/// A reference of a table of contents.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Reference {
    pub(super) href: String,
    /// The name of the chapter. Lists of pages and of landmarks have none.
    pub(super) name: Option<String>,
}

/// The references of a table of contents (`nav` of EPUB 3, NCX of EPUB 2). What comes before damage counts.
pub(super) fn references(part: &str, text: &str) -> Vec<Reference> {
    let mut references: Vec<Reference> = Vec::new();
    // Whether each open list is one of chapters, and whether the entry of an NCX is.
    let (mut lists, mut is_chapter) = (Vec::new(), false);
    let (mut name, mut in_name, mut link) = (String::new(), false, None);
    let _ = xml::read(part, text, |piece| {
        match piece {
            Piece::Start(element) => match element.name.as_str() {
                "nav" => lists.push(element.attribute("type").is_none_or(|kind| kind == "toc")),
                "navPoint" | "pageTarget" | "navTarget" => is_chapter = element.name == "navPoint",
                "text" => (name, in_name) = (String::new(), true),
                "content" => {
                    let name = Some(mem::take(&mut name)).filter(|_| is_chapter);
                    references.extend(element.attribute("src").map(|href| Reference { href, name }));
                }
                "a" => {
                    link = element.attribute("href");
                    (name, in_name) = (String::new(), true);
                }
                _ => {}
            },
            Piece::End(end) => match end.as_str() {
                "nav" => _ = lists.pop(),
                "text" => in_name = false,
                "a" => {
                    in_name = false;
                    let is_chapter = lists.last().copied().unwrap_or(true);
                    let name = Some(mem::take(&mut name)).filter(|_| is_chapter);
                    references.extend(link.take().map(|href| Reference { href, name }));
                }
                _ => {}
            },
            Piece::Text(text) if in_name && name.len() + text.len() <= MAX_NAME => name.push_str(&text),
            Piece::Text(_) => {}
        }
        Ok(())
    });
    references.retain(|reference| is_local(&reference.href));
    for reference in &mut references {
        let words =
            reference.name.iter().flat_map(|name| name.split_whitespace()).collect::<Vec<_>>().join(" ");
        reference.name = Some(words).filter(|words| !words.is_empty());
    }
    references
}

/// Whether a reference leads to another file of the book.
fn is_local(href: &str) -> bool {
    !href.contains("://") && !href.starts_with(['#', '?']) && !href.starts_with("mailto:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, wanted: &[(&str, Option<&str>)]) {
        let found = references("toc", text);
        let found: Vec<_> =
            found.iter().map(|reference| (reference.href.as_str(), reference.name.as_deref())).collect();
        assert_eq!(found, wanted, "{text}");
    }

    #[test]
    fn references_have_the_names_of_chapters() {
        check(
            "<html><nav epub:type='toc'><h1>no</h1><a href='1.xhtml'>The <i>first</i>\n one</a><a href='https://x/y'>no</a><a href='2.xhtml'/></nav>\
             <nav epub:type='page-list'><a href='1.xhtml#p7'>7</a></nav></html>",
            &[("1.xhtml", Some("The first one")), ("2.xhtml", None), ("1.xhtml#p7", None)],
        );
        check(
            "<ncx><docTitle><text>no</text></docTitle><navMap><navPoint><navLabel><text>One</text></navLabel><content src='1.html'/>\
             <navPoint><navLabel><text>Two</text></navLabel><content src='1.html#b'/></navPoint></navPoint></navMap>\
             <pageList><pageTarget><navLabel><text>7</text></navLabel><content src='1.html#p'/></pageTarget></pageList></ncx>",
            &[("1.html", Some("One")), ("1.html#b", Some("Two")), ("1.html#p", None)],
        );
        check("<nav><a href='1.html'>One</a><a href='2.html'>Two", &[("1.html", Some("One"))]);
    }
}
