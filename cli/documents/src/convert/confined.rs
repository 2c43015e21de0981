//! A conversion in a child process: what it gets, what it sends back, and how it may fail.

use std::borrow::Cow;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use child::{Child, Ending, Work};
use outline::Outline;

use super::{STACK_BYTES, detect_and_convert};
use crate::{Converted, Kind, Limits, Note, Options, Problem};

/// The name of this work.
pub const DOCUMENT: &str = "document";

/// More memory for each byte of the file, in bytes.
const MEMORY_PER_BYTE: u64 = 16;
/// More time for each byte of the file, in microseconds.
const MICROSECONDS_PER_BYTE: u64 = 1;
/// Maximum length of a reply without the text.
const MAX_HEAD_BYTES: u64 = 64 << 20;

/// A document to be converted. Without a kind, it is an archive, which is looked into.
struct Conversion<'a> {
    kind: Option<Kind>,
    bytes: Cow<'a, [u8]>,
    options: Cow<'a, Options>,
    /// Maximum time.
    time: Duration,
}

impl Work for Conversion<'_> {
    const NAME: &'static str = DOCUMENT;

    fn write(&self, to: &mut dyn Write) -> io::Result<()> {
        write_part(to, &serde_json::to_vec(&(self.kind, &*self.options, self.time))?)?;
        write_part(to, &self.bytes)
    }

    fn read(from: &mut dyn Read) -> io::Result<Self> {
        let (kind, options, time) = serde_json::from_slice(&read_part(from, u64::MAX)?)?;
        let bytes = read_part(from, u64::MAX)?.into();
        Ok(Conversion { kind, bytes, options: Cow::Owned(options), time })
    }

    fn run(&self, _: &mut dyn Read, output: &mut dyn Write) -> io::Result<()> {
        // For a parent that is gone and cannot keep the deadline, where the child does not end with it.
        child::limit_time(Some(self.time.as_secs() as u32 + 2));
        let result = detect_and_convert(self.kind, &self.bytes, &self.options);
        write_reply(&mut BufWriter::new(output), result)
    }
}

/// Converts a document in a process that was started for it ([`child::requested`]), and ends the process.
pub fn serve() -> ! {
    child::serve::<Conversion>()
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
    let limits_of_child = child::Limits { stack_bytes: STACK_BYTES, memory_bytes: memory };
    let work = Conversion { kind, bytes: Cow::Borrowed(bytes), options: Cow::Borrowed(options), time };
    let child = match Child::start(limits_of_child, &work) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            return unconfined(|| detect_and_convert(kind, bytes, options));
        }
        started => started.map_err(no_process)?,
    };
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

/// Converts on a thread of this process, for programs that cannot be started as a worker, where the system cannot fork. Only a
/// panic is an error there, so this is said.
fn unconfined(
    convert: impl FnOnce() -> Result<(Kind, Converted), Problem> + Send,
) -> Result<(Kind, Converted), Problem> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, convert);
        let thread = thread.map_err(no_process)?;
        let converted = thread.join().unwrap_or_else(|_| Err(failed("the converter does not understand it")));
        converted.map(|(kind, converted)| {
            let notes = [converted.notes, vec![Note::Unconfined]].concat();
            (kind, Converted { notes, ..converted })
        })
    })
}

fn failed(why: &str) -> Problem {
    Problem::Failed { why: why.to_owned() }
}

fn no_process(error: io::Error) -> Problem {
    Problem::NoProcess { why: error.to_string() }
}

fn write_reply(out: &mut impl Write, result: Result<(Kind, Converted), Problem>) -> io::Result<()> {
    let (result, text) = match result {
        Ok((kind, Converted { text, pages, notes, outline })) => (Ok((kind, pages, notes, outline)), text),
        // The error of a read in memory is a damaged file, and cannot be sent.
        Err(Problem::Read(error)) => (Err(Problem::Damaged { what: error.to_string() }), String::new()),
        Err(problem) => (Err(problem), String::new()),
    };
    write_part(out, &serde_json::to_vec(&result)?)?;
    write_part(out, text.as_bytes())?;
    out.flush()
}

/// Reads the reply of a child that is not trusted. Memory is taken as the bytes arrive.
fn read_reply(from: &mut impl Read, limits: &Limits) -> io::Result<Result<(Kind, Converted), Problem>> {
    let result: Result<(Kind, Option<usize>, Vec<Note>, Outline), Problem> =
        serde_json::from_slice(&read_part(from, MAX_HEAD_BYTES)?)?;
    let text = String::from_utf8(read_part(from, limits.bytes)?)
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    if result.as_ref().is_ok_and(|(_, _, _, outline)| !outline.is_of(&text)) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(result.map(|(kind, pages, notes, outline)| (kind, Converted { text, pages, notes, outline })))
}

/// Writes bytes with their number before them.
fn write_part(to: &mut (impl Write + ?Sized), part: &[u8]) -> io::Result<()> {
    to.write_all(&(part.len() as u64).to_le_bytes())?;
    to.write_all(part)
}

/// Reads what [`write_part`] wrote, if it has no more bytes than the limit.
fn read_part(from: &mut (impl Read + ?Sized), limit: u64) -> io::Result<Vec<u8>> {
    let mut length = [0; 8];
    from.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > limit {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    match from.take(length).read_to_end(&mut bytes)? as u64 == length {
        true => Ok(bytes),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Selection;

    /// What another process reads is what was written.
    #[test]
    fn a_conversion_is_handed_over_whole() {
        let options = Options {
            limits: Limits { bytes: 7, files: 8, time: Duration::from_millis(9), memory_bytes: 10 },
            all_files: true,
            selection: Some(Selection::parse("3,10-12,20-").expect("numbers")),
            password: Some("a secret".into()),
            media_type: Some("text/html".into()),
        };
        for kind in [None, Some(Kind::Pdf)] {
            let sent = Conversion {
                kind,
                bytes: Cow::Borrowed(b"\x00content\xff"),
                options: Cow::Borrowed(&options),
                time: Duration::from_millis(12_345),
            };
            let mut bytes = Vec::new();
            sent.write(&mut bytes).expect("written");
            let mut from = bytes.as_slice();
            let received = Conversion::read(&mut from).expect("read");
            assert!(from.is_empty());
            assert_eq!((received.kind, received.time), (sent.kind, sent.time));
            assert_eq!(received.bytes, sent.bytes);
            assert_eq!(format!("{:?}", received.options), format!("{options:?}"));
            Conversion::read(&mut &bytes[..bytes.len() - 1]).err().expect("cut off");
        }
    }

    // Real converters would all be compiled again, into the program of these tests.
    #[test]
    fn a_conversion_without_a_process_is_told() {
        let (_, converted) = unconfined(|| Ok((Kind::Html, Converted::default()))).expect("a document");
        assert_eq!(converted.notes, [Note::Unconfined]);
        let problem = unconfined(|| panic!("a mistake")).expect_err("no document");
        assert!(matches!(problem, Problem::Failed { .. }), "{problem:?}");
    }
}
