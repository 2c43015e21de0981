//! OpenDocument (ISO 26300): texts, spreadsheets and presentations.

mod body;
mod styles;

use self::body::Body;
use self::styles::Styles;
use crate::package::Archive;
use crate::plain::decode;
use crate::web::html;
use crate::{Converted, Problem};

const CONTENT: &str = "content.xml";
const STYLES: &str = "styles.xml";
const MANIFEST: &str = "META-INF/manifest.xml";

/// Converts a document.
///
/// # Errors
/// It is damaged or encrypted, or has more than `max_bytes` of text.
pub(crate) fn convert(bytes: &[u8], max_bytes: u64) -> Result<Converted, Problem> {
    if !bytes.starts_with(b"PK") {
        return flat(&decode::text(bytes)?.text, max_bytes);
    }
    let mut archive = Archive::new(bytes)?;
    if archive.text(MANIFEST).is_ok_and(|manifest| manifest.contains("encryption-data")) {
        return Err(Problem::Encrypted);
    }
    let content = archive.text(CONTENT)?;
    let mut styles = Styles::default();
    if archive.has(STYLES) {
        styles.read(&archive.text(STYLES)?, STYLES)?;
    }
    styles.read(&content, CONTENT)?;
    let mut body = Body::new(styles, max_bytes);
    // Formulas and charts are parts of their own.
    body.read(&content, |object| {
        let part = format!("{}/{CONTENT}", object.trim_start_matches("./").trim_end_matches('/'));
        let text = archive.text(&part).ok()?;
        let is_formula = text.contains("<math") || text.contains("<math:math");
        is_formula.then(|| html::to_text(&text, true).0)
    })?;
    finish(body, max_bytes)
}

/// A document that is a single file of XML.
fn flat(content: &str, max_bytes: u64) -> Result<Converted, Problem> {
    let mut styles = Styles::default();
    styles.read(content, CONTENT)?;
    let mut body = Body::new(styles, max_bytes);
    body.read(content, |_| None)?;
    finish(body, max_bytes)
}

fn finish(body: Body, max_bytes: u64) -> Result<Converted, Problem> {
    let (text, counts) = body.finish();
    match text.len() as u64 > max_bytes {
        true => Err(Problem::TooLong { limit: max_bytes }),
        false => Ok(Converted { text, notes: counts.notes(), ..Converted::default() }),
    }
}
