//! `/show`: what is read, and the text of a page, a section or a document as the model reads it.

use std::ops::Range;
use std::path::is_separator;

use anyhow::Result;
use longhand::Chat;
use longhand::outline::{Begins, Mark, Outline, OutlinePart};
use terminal::format;

use super::texts;
use crate::failure::Failure;
use crate::session::sources::AnswerSources;

/// Longest text that is shown, in bytes.
const MAX_TEXT: usize = 20_000;
/// Lines of the list of what is read.
const MAX_LINES: usize = 200;
/// Text around a source, in bytes.
const AROUND: usize = 600;

/// Something that can be shown.
struct Shown<'a> {
    text: &'a str,
    range: Range<usize>,
    /// What it is called where several are meant.
    name: String,
}

/// Shows what is asked for. Returns what to print.
///
/// # Errors
/// Where it is not there, or several have the name.
pub fn show(chat: &Chat, asked: &str) -> Result<String> {
    let texts = texts(chat);
    if texts.is_empty() {
        return Err(Failure::new("there are no documents to show", "/read FILE reads one").into());
    }
    if asked.is_empty() {
        return Ok(list(&texts));
    }
    if let Some(number) = asked.strip_prefix("source").filter(|rest| rest.is_empty() || rest.starts_with(' '))
    {
        return around_source(chat, number.trim());
    }
    let found: Vec<Shown> = texts.iter().flat_map(|(text, outline)| meant(text, outline, asked)).collect();
    match &found[..] {
        [] => Err(Failure::new(
            format!("no page, section or document is called {asked}"),
            "/show lists them; /find WORDS searches the text",
        )
        .into()),
        [one] => Ok(format!("{}\n{}", one.name, cut(&one.text[one.range.clone()]))),
        several => {
            let names: Vec<&str> = several.iter().take(5).map(|shown| shown.name.as_str()).collect();
            let more = if several.len() > names.len() { ", \u{2026}" } else { "" };
            Err(Failure::new(
                format!(
                    "{} places are called {asked}: {}{more}",
                    format::count(several.len()),
                    names.join("; ")
                ),
                "name the document too, for example: /show report.pdf 12",
            )
            .into())
        }
    }
}

/// What is meant in a text: a page, a section, or a document; of a document that is named before it, if there is one.
fn meant<'a>(text: &'a str, outline: &'a Outline, asked: &str) -> Vec<Shown<'a>> {
    let asked = asked.to_lowercase();
    let documents = documents(text, outline);
    let named: Vec<Inside> = documents
        .iter()
        .filter_map(|(name, range)| Some((*name, range.clone(), begins_with_name(&asked, name)?)))
        .collect();
    let found = meant_inside(text, outline, &named);
    if !found.is_empty() {
        return found;
    }
    // The name of a document may be the beginning of a title.
    let all: Vec<Inside> =
        documents.iter().map(|(name, range)| (*name, range.clone(), asked.as_str())).collect();
    meant_inside(text, outline, &all)
}

/// A document, its bytes, and what is asked for in it; nothing if it is the document.
type Inside<'a> = (&'a str, Range<usize>, &'a str);

fn meant_inside<'a>(text: &'a str, outline: &'a Outline, inside: &[Inside]) -> Vec<Shown<'a>> {
    let mut found = Vec::new();
    for (name, range, rest) in inside {
        if rest.is_empty() {
            found.push(Shown { text, range: range.clone(), name: (*name).to_owned() });
        } else if let Some(page) = page_number(rest) {
            found.extend(page_of(text, outline, range, page));
        }
    }
    if !found.is_empty() {
        return found;
    }
    let (mut exact, mut other) = (Vec::new(), Vec::new());
    for (_, range, rest) in inside {
        for (title, shown) in sections(text, outline, range) {
            let title = title.to_lowercase();
            if title == *rest {
                exact.push(shown);
            } else if title.contains(rest) {
                other.push(shown);
            }
        }
    }
    if exact.is_empty() { other } else { exact }
}

/// What follows the name of a document, or the last part of its path, with or without its ending.
fn begins_with_name<'t>(asked: &'t str, name: &str) -> Option<&'t str> {
    let name = name.to_lowercase();
    let last = name.rsplit(is_separator).next().unwrap_or_default().to_owned();
    let stem = last.rsplit_once('.').map_or(last.clone(), |(stem, _)| stem.to_owned());
    let after = |name: &String| {
        let rest = asked.strip_prefix(name.as_str()).filter(|_| !name.is_empty())?;
        (rest.is_empty() || rest.starts_with([' ', ',', ':'])).then(|| rest.trim_matches([' ', ',', ':']))
    };
    [name, last, stem].iter().find_map(after)
}

/// `12`, `p. 12`, `page 12`
fn page_number(asked: &str) -> Option<usize> {
    let number = asked.trim_start_matches(|c: char| c.is_alphabetic() || c == '.' || c == ' ');
    let word = asked[..asked.len() - number.len()].trim_end_matches(['.', ' ']);
    ["", "p", "page", "slide", "seite", "s"].contains(&word).then(|| number.parse().ok())?
}

/// Names of documents and their bytes. A text of which nothing is known is one document without a name.
fn documents<'a>(text: &'a str, outline: &'a Outline) -> Vec<(&'a str, Range<usize>)> {
    let starts: Vec<(&str, usize)> = outline
        .marks()
        .iter()
        .filter_map(|Mark(start, begins)| match begins {
            Begins::Document(name) => Some((name.as_str(), *start)),
            _ => None,
        })
        .collect();
    let mut documents = Vec::new();
    if starts.first().is_none_or(|(_, start)| *start > 0) {
        documents.push(("", 0..starts.first().map_or(text.len(), |(_, start)| *start)));
    }
    for (i, (name, start)) in starts.iter().enumerate() {
        let end = starts.get(i + 1).map_or(text.len(), |(_, next)| *next);
        // An archive or a folder holds no text before its first document.
        if end > *start {
            documents.push((*name, *start..end));
        }
    }
    documents
}

fn page_of<'a>(text: &'a str, outline: &'a Outline, within: &Range<usize>, page: usize) -> Option<Shown<'a>> {
    let pages = || {
        outline.marks().iter().filter_map(|Mark(start, begins)| match begins {
            Begins::Page(number) if within.contains(start) => Some((*number, *start)),
            _ => None,
        })
    };
    let (_, start) = pages().find(|(number, _)| *number == page)?;
    let end = pages().find(|(_, next)| *next > start).map_or(within.end, |(_, next)| next);
    let name = outline.location(text, start).to_string();
    Some(Shown { text, range: start..end, name })
}

/// Titles of sections, with their text and that of the sections within them.
fn sections<'a>(text: &'a str, outline: &'a Outline, within: &Range<usize>) -> Vec<(&'a str, Shown<'a>)> {
    let mut headings = outline.parts(text);
    headings.retain(|part| part.level.is_some() && within.contains(&part.range.start));
    let section = |(i, OutlinePart { range, location, level }): (usize, &OutlinePart<'a>)| {
        let next = headings[i + 1..].iter().find(|next| next.level <= *level);
        let range = range.start..next.map_or(within.end, |next| next.range.start);
        let document = location.document.map_or_else(String::new, |document| format!("{document}, "));
        let title = location.section.unwrap_or_default();
        (title, Shown { text, range, name: format!("{document}{title}") })
    };
    headings.iter().enumerate().map(section).collect()
}

/// What is read: documents with their pages and sections.
fn list(texts: &[(&str, &Outline)]) -> String {
    let (mut lines, mut left_out) = (Vec::new(), 0);
    let mut push = |line: &dyn Fn() -> String| match lines.len() < MAX_LINES {
        true => lines.push(line()),
        false => left_out += 1,
    };
    for (text, outline) in texts {
        for (name, range) in documents(text, outline) {
            let within = |start: &usize| range.contains(start);
            let marks = || outline.marks().iter().filter(|mark| within(&mark.0));
            let pages = marks().filter(|mark| matches!(mark.1, Begins::Page(_))).count();
            let pages = match pages {
                0 => String::new(),
                1 => "1 page, ".to_owned(),
                pages => format!("{} pages, ", format::count(pages)),
            };
            let name = if name.is_empty() { "documents" } else { name };
            let characters = text[range.clone()].chars().count();
            push(&|| format!("{name}: {pages}{} characters", format::count(characters)));
            for Mark(start, begins) in marks() {
                if let Begins::Heading(level) = begins {
                    push(&|| {
                        let location = outline.location(text, *start);
                        let page = location.page.map_or_else(String::new, |page| format!(" (p. {page})"));
                        let title = location.section.unwrap_or("(no title)");
                        format!("{}{title}{page}", "  ".repeat((*level).min(6)))
                    });
                }
            }
        }
    }
    if left_out > 0 {
        lines.push(format!("\u{2026} and {} more", format::count(left_out)));
    }
    lines.join("\n") + "\n"
}

/// The text around a source of the last answer.
fn around_source(chat: &Chat, number: &str) -> Result<String> {
    let none = || Failure::new("the last answer has no source", "/sources says why");
    let sources = AnswerSources::kept_of_last_answer(chat).filter(|sources| !sources.found.is_empty());
    let sources = sources.ok_or_else(none)?;
    let number = if number.is_empty() { Some(1) } else { number.parse::<usize>().ok() };
    let source = number.and_then(|number| sources.found.get(number.checked_sub(1)?)).ok_or_else(|| {
        let count = sources.found.len();
        Failure::usage(format!("the last answer has {count} sources"), "for example: /show source 1")
    })?;
    let mut texts = chat.document_texts().into_iter().zip(chat.document_outlines());
    let (text, outline) = texts.nth(source.part).ok_or_else(none)?;
    Ok(format!("{}\n{}\n", source.location(), around(text, outline, &source.range)))
}

/// A place with the text around it, which ends where its document does.
fn around(text: &str, outline: &Outline, place: &Range<usize>) -> String {
    let documents = documents(text, outline);
    let document = documents.iter().find(|(_, range)| range.contains(&place.start));
    let document = document.map_or(0..text.len(), |(_, range)| range.clone());
    let boundary =
        |at: usize| (0..=at.min(document.end)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let start = boundary(place.start.saturating_sub(AROUND).max(document.start));
    let end = boundary(place.end + AROUND);
    let starts = if start > document.start { "\u{2026}" } else { "" };
    let ends = if end < document.end { "\u{2026}" } else { "" };
    format!("{starts}{}{ends}", text[start..end].trim())
}

/// A text that is not too long, with an end of the line. What is left out is said.
fn cut(text: &str) -> String {
    let text = text.trim_matches('\n').trim_end();
    match text.char_indices().map(|(at, _)| at).find(|at| *at >= MAX_TEXT) {
        Some(end) => {
            let left = format::count(text[end..].chars().count());
            format!(
                "{}\n(\u{2026} and {left} characters more; `longhand text FILE` prints all)\n",
                &text[..end]
            )
        }
        None => format!("{text}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(asked: &str) -> Vec<String> {
        let text = "page one\npage two\n# Rent\nx\n## Late rent\ny\n# End\nz\n";
        let mut outline = Outline::default();
        outline.push(0, Begins::Document("dir/report.pdf".into()));
        outline.push(0, Begins::Page(1));
        outline.push(9, Begins::Page(2));
        outline.push(18, Begins::Document("lease.md".into()));
        for (heading, level) in [("# Rent", 1), ("## Late", 2), ("# End", 1)] {
            outline.push(text.find(heading).expect("a heading"), Begins::Heading(level));
        }
        meant(text, &outline, asked).into_iter().map(|shown| text[shown.range].to_owned()).collect()
    }

    #[test]
    fn the_text_around_a_place_is_that_of_its_document() {
        let text = format!("{}\nThe rent is 900.\n\nthe next document", "ä".repeat(AROUND));
        let mut outline = Outline::default();
        outline.push(0, Begins::Document("a".into()));
        outline.push(2 * AROUND + 1, Begins::Document("lease.md".into()));
        let end = text.find("the next").expect("there");
        outline.push(end, Begins::Document("c".into()));
        let place = |words: &str| text.find(words).map(|at| at..at + words.len()).expect("there");
        assert_eq!(around(&text, &outline, &place("rent")), "The rent is 900.");
        assert_eq!(around(&text, &outline, &place("next")), "the next document");
        let long = around(&text, &Outline::default(), &place("rent"));
        assert!(long.starts_with("\u{2026}ä") && long.ends_with("the next document"), "{long}");
    }

    #[test]
    fn pages_and_sections_are_meant() {
        for (asked, expected) in [
            ("2", &["page two\n"][..]),
            ("p. 2", &["page two\n"]),
            ("report.pdf 1", &["page one\n"]),
            ("Report page 1", &["page one\n"]),
            ("dir/report.pdf", &["page one\npage two\n"]),
            ("rent", &["# Rent\nx\n## Late rent\ny\n"]),
            ("lease.md, late", &["## Late rent\ny\n"]),
            ("en", &["# Rent\nx\n## Late rent\ny\n", "## Late rent\ny\n", "# End\nz\n"]),
            ("report.pdf rent", &[]),
            ("3", &[]),
            ("nowhere", &[]),
        ] {
            assert_eq!(found(asked), expected, "{asked}");
        }
    }
}
