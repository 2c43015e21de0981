//! Converts documents in a child process: the converters read untrusted files, and one of them is a whole PDF
//! interpreter. Whatever happens to the child, this process goes on.

mod bundle;

use std::borrow::Cow;

use crate::office::{docx, encrypted, odf, pptx, rtf, xlsx};
use crate::plain::{csv, decode, notebook, subtitles};
use crate::web::{epub, html, mail};
use crate::{Converted, Kind, Options, Problem, marks, package, pdf};

pub(crate) use self::bundle::Parts;

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

/// A text file of this name.
///
/// # Errors
/// It is not text.
pub(crate) fn text_file(name: &str, kind: Kind, bytes: &[u8]) -> Result<Converted, Problem> {
    Ok(without_marks(marked_text(name, kind, bytes)?))
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

#[cfg(unix)]
pub(crate) use self::child::convert;
#[cfg(not(unix))]
pub(crate) use self::thread::convert;

#[cfg(unix)]
mod child {
    use std::io::{self, BufReader, BufWriter, Read, Write};
    use std::time::{Duration, Instant};

    use fork::{Child, Ending};
    use outline::Outline;
    use serde::{Deserialize, Serialize};

    use super::{STACK_BYTES, detect_and_convert};
    use crate::{Converted, Kind, Limits, Note, Options, Problem};

    /// More memory for each byte of the file, in bytes.
    const MEMORY_PER_BYTE: u64 = 16;
    /// More time for each byte of the file, in microseconds.
    const MICROSECONDS_PER_BYTE: u64 = 1;
    /// Maximum length of a reply without the text.
    const MAX_HEAD_BYTES: u64 = 64 << 20;

    /// What the child sends before the text.
    #[derive(Serialize, Deserialize)]
    struct Head {
        result: Result<(Kind, Option<usize>, Vec<Note>, Outline), Problem>,
        text_bytes: u64,
    }

    /// Converts a document in a child process. Without a kind, it is an archive, which is looked into there.
    ///
    /// # Errors
    /// It is no document, or cannot be converted within the limits.
    pub(crate) fn convert(
        kind: Option<Kind>,
        bytes: &[u8],
        options: &Options,
    ) -> Result<(Kind, Converted), Problem> {
        let limits = &options.limits;
        let time = limits.time + Duration::from_micros(bytes.len() as u64 * MICROSECONDS_PER_BYTE);
        let memory = limits.memory_bytes.saturating_add(bytes.len() as u64 * MEMORY_PER_BYTE);
        let limits_of_child = fork::Limits { stack_bytes: STACK_BYTES, memory_bytes: memory };
        let child = Child::start(limits_of_child, |socket| {
            // For a parent that is gone and cannot keep the deadline, where the child does not end with it.
            fork::limit_time(Some(time.as_secs() as u32 + 2));
            let result = detect_and_convert(kind, bytes, options);
            // An error means that the parent is gone.
            let _ = write_reply(&mut BufWriter::new(socket), result);
        });
        let child = child.map_err(|error| failed(&format!("no process for it: {error}")))?;
        let reply = read_reply(&mut BufReader::new(child.channel(Instant::now() + time)), limits);
        reply.unwrap_or_else(|error| {
            Err(match (child.end(), error.kind()) {
                (Ending::OutOfMemory, _) => Problem::OutOfMemory { limit: memory },
                (Ending::StackOverflow, _) => Problem::TooDeep,
                (Ending::OutOfTime, _) | (_, io::ErrorKind::TimedOut) => {
                    Problem::TooSlow { seconds: time.as_secs() }
                }
                (Ending::Panicked, _) => failed("the converter does not understand it"),
                (_, io::ErrorKind::InvalidData) => failed("the reply of its process is invalid"),
                _ => failed("its process ended unexpectedly"),
            })
        })
    }

    fn failed(why: &str) -> Problem {
        Problem::Failed { why: why.to_owned() }
    }

    fn write_reply(out: &mut impl Write, result: Result<(Kind, Converted), Problem>) -> io::Result<()> {
        let (result, text) = match result {
            Ok((kind, Converted { text, pages, notes, outline })) => {
                (Ok((kind, pages, notes, outline)), text)
            }
            // The error of a read in memory is a damaged file, and cannot be sent.
            Err(Problem::Read(error)) => (Err(Problem::Damaged { what: error.to_string() }), String::new()),
            Err(problem) => (Err(problem), String::new()),
        };
        let head = serde_json::to_vec(&Head { result, text_bytes: text.len() as u64 })?;
        out.write_all(&(head.len() as u64).to_le_bytes())?;
        out.write_all(&head)?;
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// Reads the reply of a child that is not trusted. Memory is taken as the bytes arrive.
    fn read_reply(from: &mut impl Read, limits: &Limits) -> io::Result<Result<(Kind, Converted), Problem>> {
        let mut length = [0; 8];
        from.read_exact(&mut length)?;
        let head = read_bytes(from, u64::from_le_bytes(length), MAX_HEAD_BYTES)?;
        let Head { result, text_bytes } = serde_json::from_slice(&head)?;
        let text = read_bytes(from, text_bytes, limits.bytes)?;
        let text = String::from_utf8(text).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        if result.as_ref().is_ok_and(|(_, _, _, outline)| !outline.is_of(&text)) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(result.map(|(kind, pages, notes, outline)| (kind, Converted { text, pages, notes, outline })))
    }

    fn read_bytes(from: &mut impl Read, length: u64, limit: u64) -> io::Result<Vec<u8>> {
        if length > limit {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut bytes = Vec::new();
        match from.take(length).read_to_end(&mut bytes)? as u64 == length {
            true => Ok(bytes),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// For systems where a process cannot be forked. There, only a panic is an error.
#[cfg(not(unix))]
mod thread {
    use super::{STACK_BYTES, detect_and_convert};
    use crate::{Converted, Kind, Options, Problem};

    /// Converts a document on a thread of its own. Without a kind, it is an archive, which is looked into there.
    ///
    /// # Errors
    /// It is no document, or cannot be converted.
    pub(crate) fn convert(
        kind: Option<Kind>,
        bytes: &[u8],
        options: &Options,
    ) -> Result<(Kind, Converted), Problem> {
        let failed = |why: &str| Problem::Failed { why: why.to_owned() };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
            let work = || detect_and_convert(kind, bytes, options);
            let thread = thread.spawn_scoped(scope, work).map_err(|error| failed(&error.to_string()))?;
            thread.join().unwrap_or_else(|_| Err(failed("the converter does not understand it")))
        })
    }
}
