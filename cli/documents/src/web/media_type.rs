//! What a server says that a document is, such as `text/html; charset=utf-8`.

use std::borrow::Cow;
use std::path::Path;

use encoding_rs::Encoding;

use crate::kind;

/// Kinds of text that bytes do not tell, with the names of files that do.
const KINDS: &[(&str, &str)] = &[
    ("text/html", "page.html"),
    ("application/xhtml+xml", "page.xhtml"),
    ("text/markdown", "text.md"),
    ("text/csv", "table.csv"),
    ("text/tab-separated-values", "table.tsv"),
    ("text/vtt", "subtitles.vtt"),
    ("message/rfc822", "message.eml"),
    ("application/x-ipynb+json", "notebook.ipynb"),
];

/// The name of a file of the kind of text that a document at an address is. Where the type says nothing, that is the path of
/// the address.
pub(crate) fn file_name<'a>(address: &'a str, media_type: &str) -> &'a str {
    let kind = media_type.split(';').next().unwrap_or_default().trim();
    match KINDS.iter().find(|(known, _)| kind.eq_ignore_ascii_case(known)) {
        Some((_, name)) => name,
        None => address.split(['?', '#']).next().unwrap_or_default(),
    }
}

/// Whether an address ends as a document does that is no text, so that a page in its place is something else.
pub(crate) fn names_a_document(address: &str) -> bool {
    let path = Path::new(address.split(['?', '#']).next().unwrap_or_default());
    let is_pdf = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("pdf"));
    is_pdf || kind::is_named_as_document(path)
}

/// A text as UTF-8, where its type names another encoding. A text that is UTF-8 is not changed, whatever its type says.
pub(crate) fn decode<'a>(bytes: &'a [u8], media_type: &str) -> Cow<'a, [u8]> {
    let parameters = media_type.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let charset = parameters.into_iter().find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
    let encoding =
        charset.and_then(|(_, label)| Encoding::for_label(label.trim().trim_matches('"').as_bytes()));
    match encoding {
        Some(encoding) if std::str::from_utf8(bytes).is_err() => {
            Cow::Owned(encoding.decode(bytes).0.into_owned().into_bytes())
        }
        _ => Cow::Borrowed(bytes),
    }
}

/// Whether a page with this text is made by its scripts, so that only a browser shows it.
pub(crate) fn needs_browser(page: &[u8], text: &str) -> bool {
    /// A page of people has more characters, or hardly more code than text.
    const MIN_CHARACTERS: usize = 400;
    const MAX_CODE_PER_TEXT: usize = 20;
    let length = text.chars().filter(|c| !c.is_whitespace()).take(MIN_CHARACTERS).count();
    if length == MIN_CHARACTERS {
        return false;
    }
    let has_script = memchr::memmem::find(&page.to_ascii_lowercase(), b"<script").is_some();
    let says_so = text.to_ascii_lowercase().contains("javascript");
    has_script && (says_so || length * MAX_CODE_PER_TEXT < page.len())
}
