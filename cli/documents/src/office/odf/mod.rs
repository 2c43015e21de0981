//! OpenDocument (ISO 26300): texts, spreadsheets and presentations.

mod body;
mod charts;
mod encrypted;
mod styles;

use self::body::{Body, Object};
use self::charts::Chart;
use self::encrypted::Encrypted;
use self::styles::Styles;
use crate::package::{Archive, archive};
use crate::plain::decode;
use crate::web::html;
use crate::{Converted, Options, Problem};

const CONTENT: &str = "content.xml";
const STYLES: &str = "styles.xml";
const MANIFEST: &str = "META-INF/manifest.xml";

/// Converts a document.
///
/// # Errors
/// It is damaged or encrypted, has too much text, or not the slides or sheets that are chosen.
pub(crate) fn convert(bytes: &[u8], options: &Options) -> Result<Converted, Problem> {
    if !bytes.starts_with(b"PK") {
        return flat(&decode::text(bytes)?.text, options);
    }
    let mut package = Package::open(bytes, options.password.as_deref())?;
    let content = package.text(CONTENT)?;
    let mut styles = Styles::default();
    let common = if package.archive.has(STYLES) { package.text(STYLES)? } else { String::new() };
    styles.read(&common, STYLES)?;
    styles.read(&content, CONTENT)?;
    let mut body = Body::new(styles, options);
    // Formulas and charts are parts of their own.
    body.read(&content, |object| {
        let part = format!("{}/{CONTENT}", object.trim_start_matches("./").trim_end_matches('/'));
        let text = package.text(&part).ok()?;
        let is_formula = text.contains("<math") || text.contains("<math:math");
        match is_formula {
            true => Some(Object::Formula(html::to_text(&text, true, &mut |_, _| None).0)),
            false => Chart::read(&text).map(Object::Chart),
        }
    })?;
    read_headers(&mut body, &common, options)?;
    finish(body, options)
}

/// A package, some or all entries of which may be encrypted.
struct Package<'a> {
    archive: Archive<'a>,
    encrypted: Encrypted,
}

impl<'a> Package<'a> {
    fn open(bytes: &'a [u8], password: Option<&str>) -> Result<Package<'a>, Problem> {
        let mut archive = Archive::new(bytes)?;
        let encrypted = match archive.text(MANIFEST) {
            Ok(manifest) if manifest.contains("encryption-data") => Encrypted::of(&manifest, password)?,
            _ => Encrypted::default(),
        };
        Ok(Package { archive, encrypted })
    }

    /// The text of an entry.
    fn text(&mut self, name: &str) -> Result<String, Problem> {
        let bytes = self.archive.bytes(name)?;
        match self.encrypted.packed(name, &bytes)? {
            Some(packed) => self.archive.unpacked_text(name, &packed),
            None => archive::text(name, &bytes),
        }
    }
}

/// A document that is a single file of XML.
fn flat(content: &str, options: &Options) -> Result<Converted, Problem> {
    let mut styles = Styles::default();
    styles.read(content, CONTENT)?;
    let mut body = Body::new(styles, options);
    body.read(content, |_| None)?;
    read_headers(&mut body, content, options)?;
    finish(body, options)
}

/// Reads the headers and footers, unless only a part of the document is read.
fn read_headers(body: &mut Body, styles: &str, options: &Options) -> Result<(), Problem> {
    if options.selection.is_none() { body.read_headers(styles) } else { Ok(()) }
}

fn finish(body: Body, options: &Options) -> Result<Converted, Problem> {
    let max_bytes = options.limits.bytes;
    let chosen = body.chosen()?;
    let (text, counts) = body.finish();
    match text.len() as u64 > max_bytes {
        true => Err(Problem::TooLong { limit: max_bytes }),
        false => {
            let notes = chosen.into_iter().chain(counts.notes()).collect();
            Ok(Converted { text, notes, ..Converted::default() })
        }
    }
}
