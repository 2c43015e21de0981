//! Where in the documents an answer comes from, in words: documents, pages, sections and sentences.

use longhand::outline::{Location, Outline};
use longhand::saved::SavedChat;
use longhand::sources::{Passage, Sources};
use longhand::text::{is_terminal_control, split_thinking};
use longhand::{Chat, EngineError};
use serde_json::{Value, json};

use crate::app::App;

/// Sources of an answer that are looked for.
const LIMIT: usize = 5;
/// Sources that the line below an answer names, and what they weigh at least beside the first one.
const LINE: usize = 3;
const LINE_SHARE: f32 = 0.2;
/// Longest sentence that is shown, in characters.
const MAX_TEXT: usize = 400;

/// Where an answer comes from.
#[derive(Clone, Debug, Default)]
pub struct AnswerSources {
    /// The best first.
    pub found: Vec<Passage>,
    /// Why there are none.
    pub missing: Option<String>,
}

impl AnswerSources {
    /// Finds the sources of the last answer.
    ///
    /// # Errors
    /// Those of [`Chat::sources`].
    pub fn of_last_answer(app: &App, chat: &mut Chat) -> Result<AnswerSources, EngineError> {
        let sources = app.interrupt.computing(|| chat.sources(LIMIT))?;
        let answer = chat.conversation().last().and_then(|(_, answer)| *answer);
        Ok(AnswerSources::new(&sources, &chat.document_texts(), &chat.document_outlines(), answer))
    }

    /// The sources of an answer of a chat, by its turn, counted from 0. `None` where they were not found out.
    pub fn of_turn(chat: &Chat, turn: usize) -> Option<AnswerSources> {
        let sources = chat.sources_of(turn)?;
        let (_, answer) = *chat.conversation().get(turn)?;
        Some(AnswerSources::new(sources, &chat.document_texts(), &chat.document_outlines(), answer))
    }

    /// Those of the last answer, where they were found out.
    pub fn kept_of_last_answer(chat: &Chat) -> Option<AnswerSources> {
        AnswerSources::of_turn(chat, chat.conversation().len().checked_sub(1)?)
    }

    /// The same of a saved conversation.
    pub fn of_saved_turn(saved: &SavedChat, turn: usize) -> Option<AnswerSources> {
        let sources = saved.sources_of(turn)?;
        let (_, answer) = *saved.turns().get(turn)?;
        Some(AnswerSources::new(sources, &saved.document_texts(), &saved.document_outlines(), answer))
    }

    /// Sources of an answer among these texts and their outlines.
    fn new(sources: &Sources, texts: &[&str], outlines: &[&Outline], answer: Option<&str>) -> AnswerSources {
        let answer = split_thinking(answer.unwrap_or_default()).1;
        let found = sources.found.iter().map(|source| Passage::new(source, texts, outlines, answer));
        AnswerSources { found: found.collect(), missing: sources.missing.map(|why| why.to_string()) }
    }

    /// `from: report.pdf p. 12, p. 31; notes.md, Rent`; `None` where nothing is to be said.
    pub fn line(&self) -> Option<String> {
        let Some(first) = self.found.first() else {
            return self.missing.as_ref().map(|why| format!("from: {why}"));
        };
        let mut groups: Vec<(Option<&str>, Vec<String>)> = Vec::new();
        for source in self.found.iter().take(LINE).filter(|source| source.weight >= first.weight * LINE_SHARE)
        {
            let document = source.document.as_deref();
            let inside = Location { document: None, ..source.location() }.to_string();
            match groups.iter_mut().find(|(known, _)| *known == document) {
                Some((_, parts)) if parts.contains(&inside) => {}
                Some((_, parts)) => parts.push(inside),
                None => groups.push((document, vec![inside])),
            }
        }
        let group = |(document, mut parts): (Option<&str>, Vec<String>)| {
            parts.retain(|part| !part.is_empty());
            let gap = match (document, source_is_page(&parts)) {
                (None, _) => "",
                (Some(_), true) => " ",
                (Some(_), false) => ", ",
            };
            let parts = parts.join(", ");
            let gap = if parts.is_empty() { "" } else { gap };
            format!("{}{gap}{parts}", document.unwrap_or_default())
        };
        let line =
            groups.into_iter().map(group).filter(|group| !group.is_empty()).collect::<Vec<_>>().join("; ");
        match line.is_empty() {
            // Of texts of which nothing is known.
            true => Some(format!("from: {}", quoted(&first.text))),
            false => Some(format!("from: {line}")),
        }
    }

    /// The sentences with where they stand, one below the other, each with what of the answer comes from there.
    pub fn list(&self) -> String {
        if let Some(why) = &self.missing {
            return format!("{why}\n");
        }
        let source = |(i, source): (usize, &Passage)| {
            let location = source.location().to_string();
            let gap = if location.is_empty() { "" } else { " " };
            let percent = (source.weight * 100.0).round();
            let statements = source.statements.iter().map(|said| format!("   answer: {}\n", quoted(said)));
            let statements: String = statements.collect();
            format!("{}. {location}{gap}({percent} %)\n   {}\n{statements}", i + 1, shown(source))
        };
        self.found.iter().enumerate().map(source).collect()
    }

    /// The sources as JSON.
    pub fn json(&self) -> Value {
        json!(self.found)
    }

    /// The sources as items of a list in Markdown.
    pub fn markdown(&self) -> String {
        let item = |source: &Passage| {
            let location = one_line(&source.location().to_string(), MAX_TEXT);
            let colon = if location.is_empty() { "" } else { ": " };
            let statements = source.statements.iter().map(|said| format!("  - answer: {}\n", quoted(said)));
            format!("- {location}{colon}{}\n{}", shown(source), statements.collect::<String>())
        };
        self.found.iter().map(item).collect()
    }
}

fn source_is_page(parts: &[String]) -> bool {
    parts.first().is_some_and(|part| part.starts_with("p. "))
}

/// A sentence in quotes, in one line, not too long.
fn quoted(text: &str) -> String {
    format!("\u{201c}{}\u{201d}", one_line(text, MAX_TEXT))
}

/// The sentence in one line, not too long.
fn shown(source: &Passage) -> String {
    one_line(&source.text, MAX_TEXT)
}

/// A text in one line of at most so many characters, without control characters and those that turn what follows around: it
/// may be quoted in a file that others look at.
pub fn one_line(text: &str, max: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = line.chars().map(|c| if is_terminal_control(c) { '\u{fffd}' } else { c }).collect();
    match line.char_indices().nth(max) {
        Some((end, _)) => format!("{}\u{2026}", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(document: &str, page: Option<usize>, section: Option<&str>, weight: f32) -> Passage {
        Passage {
            part: 0,
            range: 0..1,
            document: Some(document.to_owned()).filter(|document| !document.is_empty()),
            page,
            section: section.map(str::to_owned),
            text: "The\nrent.".to_owned(),
            weight,
            statements: Vec::new(),
        }
    }

    #[test]
    fn quoted_documents_control_no_terminal() {
        assert_eq!(
            one_line("The \u{1b}[31mrent\n is\t\u{202e}900\u{7}.", 40),
            "The \u{fffd}[31mrent is \u{fffd}900\u{fffd}."
        );
        assert_eq!(one_line("one two", 3), "one\u{2026}");
    }

    #[test]
    fn statements_stand_below_their_sources() {
        let statements = vec!["It costs\n900.".to_owned(), "In \u{1b}[1mRome.".to_owned()];
        let found = vec![
            Passage { statements, ..source("a.pdf", Some(2), None, 0.9) },
            source("a.pdf", Some(3), None, 0.1),
        ];
        let sources = AnswerSources { found, missing: None };
        assert_eq!(
            sources.list(),
            "1. a.pdf p. 2 (90 %)\n   The rent.\n   answer: “It costs 900.”\n   answer: “In \u{fffd}[1mRome.”\n\
             2. a.pdf p. 3 (10 %)\n   The rent.\n"
        );
        assert_eq!(
            sources.markdown(),
            "- a.pdf p. 2: The rent.\n  - answer: “It costs 900.”\n  - answer: “In \u{fffd}[1mRome.”\n\
             - a.pdf p. 3: The rent.\n"
        );
    }

    #[test]
    fn the_line_names_pages_and_sections_once() {
        let line = |found: Vec<Passage>| AnswerSources { found, missing: None }.line();
        let page = |page, weight| source("a.pdf", Some(page), None, weight);
        assert_eq!(
            line(vec![page(12, 0.5), page(31, 0.3), page(12, 0.2)]).as_deref(),
            Some("from: a.pdf p. 12, p. 31")
        );
        assert_eq!(line(vec![page(12, 0.9), page(31, 0.05)]).as_deref(), Some("from: a.pdf p. 12"));
        let mixed =
            vec![source("b.md", None, Some("Rent"), 0.4), page(2, 0.4), source("c.txt", None, None, 0.2)];
        assert_eq!(line(mixed).as_deref(), Some("from: b.md, Rent; a.pdf p. 2; c.txt"));
        assert_eq!(
            line(vec![source("", None, None, 1.0)]).as_deref(),
            Some("from: \u{201c}The rent.\u{201d}")
        );
        assert_eq!(line(Vec::new()), None);
        let missing = AnswerSources { missing: Some("nothing points anywhere".into()), ..Default::default() };
        assert_eq!(missing.line().as_deref(), Some("from: nothing points anywhere"));
    }
}
