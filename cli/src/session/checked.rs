//! What of an answer stands in no document and no question of its conversation.

use std::sync::Arc;

use longhand::Chat;
use longhand::text::split_thinking;
use lookup::absent::{Absent, Known};
use serde_json::{Value, json};

use crate::session::sources::one_line;

/// What a note names, and the characters of each.
const MAX_NAMED: usize = 5;
const MAX_TEXT: usize = 60;

/// What stands in the documents of a chat. It is found out again only where they change.
#[derive(Default)]
pub struct Checker {
    documents: Option<Known>,
    /// The lengths of the texts that were read.
    texts: Vec<usize>,
}

impl Checker {
    /// What stands in the documents and in the questions up to now. `None` where there are no documents.
    pub fn known(&mut self, chat: &Chat) -> Option<Arc<Known>> {
        let texts = chat.document_texts();
        if texts.iter().all(|text| text.is_empty()) {
            return None;
        }
        let lengths: Vec<usize> = texts.iter().map(|text| text.len()).collect();
        if self.texts != lengths {
            (self.documents, self.texts) = (None, lengths);
        }
        let documents = self.documents.get_or_insert_with(|| {
            let mut known = Known::new();
            texts.into_iter().for_each(|text| known.add_document(text));
            known
        });
        let mut known = documents.clone();
        known.add(chat.preamble().system().unwrap_or_default());
        chat.read_document_names().iter().for_each(|name| known.add(name));
        chat.conversation().iter().for_each(|(question, _)| known.add_question(question));
        Some(Arc::new(known))
    }
}

/// `not in the documents: 1,540; Peter Anderson`; `None` where everything stands there.
pub fn line(known: &Known, answer: &str) -> Option<String> {
    let text = split_thinking(answer).1;
    let absent = known.absent_from(text);
    let mut named: Vec<String> = Vec::new();
    for Absent { range, .. } in &absent {
        let shown = one_line(&text[range.clone()], MAX_TEXT);
        if !named.contains(&shown) {
            named.push(shown);
        }
    }
    let more = named.len().saturating_sub(MAX_NAMED);
    named.truncate(MAX_NAMED);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    (!named.is_empty()).then(|| format!("not in the documents: {}{more}", named.join("; ")))
}

/// The same as JSON: what each is, and its bytes in the answer. `null` where there are no documents.
pub fn json(known: Option<&Known>, answer: &str) -> Value {
    let Some(known) = known else { return Value::Null };
    let object = |absent: Absent| {
        json!({
            "text": &answer[absent.range.clone()],
            "kind": absent.kind.name(),
            "start": absent.range.start,
            "end": absent.range.end,
        })
    };
    known.absent_from(answer).into_iter().map(object).collect()
}
