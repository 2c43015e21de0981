//! Converts documents in a child process: the converters read untrusted files, and one of them is a whole PDF
//! interpreter. Whatever happens to the child, this process goes on.

mod bundle;
mod confined;

use std::borrow::Cow;

use crate::office::{docx, encrypted, odf, pptx, rtf, xlsx};
use crate::plain::{csv, decode, notebook, subtitles};
use crate::selection::Chooser;
use crate::web::{epub, html, mail};
use crate::{Converted, Kind, Options, Problem, Selection, Unit, marks, package, pdf};

pub(crate) use self::bundle::Parts;
pub(crate) use self::confined::convert;
pub use self::confined::{DOCUMENT, serve};

/// Stack of a conversion.
const STACK_BYTES: usize = 64 << 20;

/// Converts a document in this process. Without a kind it is an archive, which is looked into.
///
/// # Errors
/// It cannot be converted, or has more text than [`Limits::bytes`](crate::Limits::bytes). Hostile files can do worse:
/// panic, overflow the stack, take all memory, or never end.
#[doc(hidden)]
pub fn convert_in_process(
    kind: impl Into<Option<Kind>>,
    bytes: &[u8],
    options: &Options,
) -> Result<Converted, Problem> {
    Ok(detect_and_convert(kind.into(), bytes, options)?.1)
}

fn convert_whole(kind: Kind, bytes: &[u8], options: &Options) -> Result<Converted, Problem> {
    Ok(without_marks(convert_within(kind, bytes, options, 0)?))
}

/// A text file of this name, or pages of it, which form feeds separate.
///
/// # Errors
/// It is not text, or does not have the pages that are chosen.
pub(crate) fn text_file(
    name: &str,
    kind: Kind,
    bytes: &[u8],
    selection: Option<&Selection>,
) -> Result<Converted, Problem> {
    let mut converted = marked_text(name, kind, bytes)?;
    if selection.is_some() {
        if kind != Kind::Text || !converted.text.contains('\u{c}') {
            return Err(Problem::NoParts);
        }
        let mut chooser = Chooser::new(selection, Unit::Page);
        converted.text = converted.text.split_inclusive('\u{c}').filter(|_| chooser.takes_next()).collect();
        converted.notes.extend(chooser.note()?);
    }
    Ok(without_marks(converted))
}

fn without_marks(converted: Converted) -> Converted {
    let (text, outline) = marks::take(converted.text);
    Converted { text, outline, ..converted }
}

/// The same for a document within others: so many are around it.
fn convert_within(kind: Kind, bytes: &[u8], options: &Options, depth: usize) -> Result<Converted, Problem> {
    let limits = &options.limits;
    let has_parts = matches!(kind, Kind::Pdf | Kind::Epub | Kind::OpenDocument | Kind::Pptx | Kind::Xlsx);
    if options.selection.is_some() && !has_parts {
        return Err(Problem::NoParts);
    }
    match kind {
        Kind::Text | Kind::Markdown => marked_text("", kind, bytes),
        Kind::Html => html::convert(bytes, limits.bytes),
        Kind::Pdf => pdf::convert(bytes, options),
        Kind::Docx => docx::convert(bytes, Parts::new(options, depth)),
        Kind::Epub => epub::convert(bytes, options),
        Kind::OpenDocument => odf::convert(bytes, options),
        Kind::Rtf => rtf::convert(bytes, limits.bytes),
        Kind::Pptx => pptx::convert(bytes, options),
        Kind::Xlsx => xlsx::convert(bytes, options),
        Kind::Csv => csv::convert(bytes, limits.bytes),
        Kind::Notebook => notebook::convert(bytes, limits.bytes),
        Kind::Subtitles => subtitles::convert(bytes, limits.bytes),
        Kind::Mail => mail::convert(bytes, Parts::new(options, depth)),
        Kind::Archive => bundle::convert(bytes, Parts::new(options, depth)),
    }
}

/// A text file of this name, with marks where a page or a heading begins.
fn marked_text(name: &str, kind: Kind, bytes: &[u8]) -> Result<Converted, Problem> {
    let converted = decode::file(name, kind, bytes)?;
    let text = match kind {
        Kind::Markdown => marks::markdown(&converted.text),
        _ => marks::form_feeds(converted.text),
    };
    Ok(Converted { text, ..converted })
}

/// The same with the kind. Without one, it is an archive, which is looked into.
fn detect_and_convert(
    kind: Option<Kind>,
    bytes: &[u8],
    options: &Options,
) -> Result<(Kind, Converted), Problem> {
    let (kind, bytes) = open(kind, bytes, options)?;
    Ok((kind, convert_whole(kind, &bytes, options)?))
}

/// What a document is, and its bytes. Without a kind it is an archive, decrypted where an office program has encrypted it.
///
/// # Errors
/// It is damaged, or encrypted and the password is not known.
fn open<'a>(
    kind: Option<Kind>,
    bytes: &'a [u8],
    options: &Options,
) -> Result<(Kind, Cow<'a, [u8]>), Problem> {
    if let Some(kind) = kind {
        return Ok((kind, Cow::Borrowed(bytes)));
    }
    let package = match encrypted::is_container(bytes) {
        true => Cow::Owned(encrypted::decrypt(bytes, options.password.as_deref())?),
        false => Cow::Borrowed(bytes),
    };
    Ok((package::kind(&package)?, package))
}
