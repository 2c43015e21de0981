//! Text that the content of a page gives in place of its glyphs (`/ActualText`): letters that are drawings, ligatures, a
//! hyphen at the end of a line. The interpreter does not hand it over, but it does hand over the number of a part of
//! the content. So each part that has a text gets a number that stands for it.

use std::borrow::Cow;

use hayro_interpret::hayro_syntax::object::{Dict, FromBytes, Name, String as PdfString};
use hayro_interpret::hayro_syntax::page::Resources;
use memchr::memmem;

use super::file::text_string;

const KEY: &[u8] = b"/ActualText";
/// Numbers from this one downwards stand for texts; documents have positive ones.
const FIRST_NUMBER: i32 = -1_000_000_000;
/// Dictionaries within that of a part of the content that are looked into.
const MAX_INNER: usize = 4;
/// Texts that are in no dictionary, after which no more are looked for.
const MAX_BROKEN: usize = 100;
/// The dictionary begins at most so many bytes before its text, and is not longer than so many.
const MAX_BEFORE: usize = 1 << 10;
const MAX_LENGTH: usize = 32 << 10;

/// The content of a page with numbers for its texts.
pub(super) struct ActualText<'a> {
    pub(super) content: Cow<'a, [u8]>,
    pub(super) texts: Vec<String>,
}

impl ActualText<'_> {
    /// Which text a number stands for, if it stands for one.
    pub(super) fn index(number: i32) -> Option<usize> {
        usize::try_from(FIRST_NUMBER.checked_sub(number)?).ok()
    }

    /// Reads a content with these resources. Its texts come after others.
    pub(super) fn of<'a>(content: &'a [u8], resources: &Resources<'_>, texts: Vec<String>) -> ActualText<'a> {
        let mut found = ActualText { content: Cow::Borrowed(content), texts };
        found.replace_dictionaries(content);
        let properties = &resources.properties;
        for name in properties.keys() {
            if let Some(text) = properties.get::<Dict<'_>>(&*name).and_then(|properties| text_of(&properties))
            {
                found.replace_name(&name, text);
            }
        }
        found
    }

    /// The dictionary that stands for a text, which is added.
    fn number(&mut self, text: String) -> String {
        self.texts.push(text);
        format!("<</MCID {}>>", FIRST_NUMBER.saturating_sub_unsigned(self.texts.len() as u32 - 1))
    }

    /// Replaces the dictionaries with texts before `BDC`.
    fn replace_dictionaries(&mut self, content: &[u8]) {
        let (mut copied, mut from, mut replaced) = (0, 0, Vec::new());
        let mut broken = 0;
        while let Some(at) = memmem::find(&content[from..], KEY) {
            let at = from + at;
            from = at + KEY.len();
            let Some((start, end, text)) = dictionary_around(content, at) else {
                broken += 1;
                if broken == MAX_BROKEN {
                    break;
                }
                continue;
            };
            if start >= copied && content[end..].trim_ascii_start().starts_with(b"BDC") {
                replaced.extend_from_slice(&content[copied..start]);
                replaced.extend(self.number(text).bytes());
                (copied, from) = (end, end);
            }
        }
        if copied > 0 {
            replaced.extend_from_slice(&content[copied..]);
            self.content = Cow::Owned(replaced);
        }
    }

    /// Replaces the name of a dictionary with a text, before `BDC`.
    fn replace_name(&mut self, name: &Name<'_>, text: String) {
        let name = [b"/", &**name].concat();
        let number = self.number(text);
        let content = std::mem::take(&mut self.content);
        let (mut copied, mut from, mut replaced) = (0, 0, Vec::new());
        while let Some(at) = memmem::find(&content[from..], &name) {
            let (start, end) = (from + at, from + at + name.len());
            from = end;
            let after = content[end..].trim_ascii_start();
            if after.len() < content.len() - end && after.starts_with(b"BDC") {
                replaced.extend_from_slice(&content[copied..start]);
                replaced.extend(number.bytes());
                copied = end;
            }
        }
        replaced.extend_from_slice(&content[copied..]);
        self.content = Cow::Owned(replaced);
    }
}

/// The dictionary that has the key at `at`: where it begins and ends, and its text.
fn dictionary_around(content: &[u8], at: usize) -> Option<(usize, usize, String)> {
    let first = at.saturating_sub(MAX_BEFORE);
    let mut before = at;
    for _ in 0..MAX_INNER {
        let start = first + memmem::rfind(&content[first..before], b"<<")?;
        if let Some(dictionary) = Dict::from_bytes(&content[start..content.len().min(start + MAX_LENGTH)]) {
            let end = start + dictionary.data().len();
            if end > at {
                return Some((start, end, text_of(&dictionary)?));
            }
        }
        before = start + 1;
    }
    None
}

fn text_of(dictionary: &Dict<'_>) -> Option<String> {
    dictionary.get::<PdfString<'_>>(&KEY[1..]).map(|text| text_string::decode(&text))
}
