//! Downloads a model. A thread does the work, so that Ctrl-C is obeyed at any moment; the thread stops when it finds
//! that nobody listens any more. What is there of a file is kept, and the next start goes on from it. One program at
//! a time downloads a file: it holds a lock. A file gets its name when the checksum of what is on the disk is right.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use longhand::files::folders;
use terminal::console::Console;
use terminal::failure::Failure;
use terminal::format;
use terminal::interrupt::Interrupt;
use terminal::progress::ProgressBar;

use crate::HubModel;
use crate::cache::Repository;
use crate::choose::{Choice, NoChoice, choose};
use crate::part::{self, PartialFile};
use crate::patience::{Again, Patience};
use crate::server::{MIN_RATE, Refusal, RemoteFile, Revision, Server};

/// How often Ctrl-C is looked for, and while the thread waits, whether somebody listens.
const POLL: Duration = Duration::from_millis(50);
/// Most quantisations in an error.
const SHOWN: usize = 40;

/// What the thread reports.
enum Event {
    Note(String),
    /// Work on this many bytes begins, of which the second number is done.
    Begin(&'static str, u64, u64),
    /// Bytes that are done.
    Done(u64),
    /// There is nothing new.
    Waiting,
}

/// Downloads a model. Files that are here are kept; with `checks`, only if their checksum is right. Returns the path of
/// its file, or of the first part of a split one.
pub fn download(
    console: &Console,
    interrupt: &Interrupt,
    model: &HubModel,
    hub: &Path,
    checks: bool,
) -> Result<PathBuf, Failure> {
    let (events, receive) = mpsc::channel();
    let (model, repository) = (model.clone(), Repository::new(hub, &model.folder_name()));
    let worker = thread::Builder::new().name("download".to_owned()).spawn(move || {
        let download = Download { server: Server::from_environment()?, model, repository, checks, events };
        download.run()
    });
    let worker = worker.map_err(|error| {
        Failure::new(
            format!("cannot start a thread: {error}"),
            "end other programs, or raise the limit of threads",
        )
    })?;
    let mut bar: Option<(ProgressBar, u64, u64)> = None;
    interrupt.generating(|| {
        loop {
            match receive.recv_timeout(POLL) {
                Ok(Event::Note(text)) => {
                    bar = None;
                    console.note(&text);
                }
                Ok(Event::Begin(title, total, done)) => {
                    bar = Some((ProgressBar::new(console, title), total, done));
                }
                Ok(Event::Done(done)) => {
                    if let Some((bar, total, before)) = &mut bar {
                        bar.show_transfer(*before, done, *total);
                    }
                }
                Ok(Event::Waiting) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if interrupt.is_pressed() {
                return Err(Failure::interrupted().with_hint("run the command again: the download resumes"));
            }
        }
        worker
            .join()
            .unwrap_or_else(|_| Err(Failure::new("the download failed", "this is a bug; please report it")))
    })
}

struct Download {
    server: Server,
    model: HubModel,
    repository: Repository,
    /// Whether the checksums of files that are here are compared.
    checks: bool,
    events: Sender<Event>,
}

impl Download {
    fn run(&self) -> Result<PathBuf, Failure> {
        let revision = self.revision()?;
        let files = self.files(&revision)?;
        self.repository.prepare().map_err(|error| on_disk(&self.repository.blobs(), &error))?;
        check_space(&self.repository.blobs(), self.missing(&files))?;
        for file in &files {
            self.fetch(&revision.sha, file)?;
        }
        let publish = || {
            let publish =
                |file: &RemoteFile| self.repository.publish(&revision.sha, &file.path, &file.checksum);
            let paths = files.iter().map(publish).collect::<io::Result<Vec<PathBuf>>>()?;
            self.repository.set_main(&revision.sha)?;
            paths.into_iter().next().ok_or_else(|| io::Error::other("there is no file"))
        };
        publish().map_err(|error| on_disk(&self.repository.blobs(), &error))
    }

    /// The files of the repository. A server that asks for it is asked again.
    fn revision(&self) -> Result<Revision, Failure> {
        let mut patience = Patience::default();
        loop {
            match self.server.revision(&self.model.repository) {
                Ok(revision) => return Ok(revision),
                Err(refusal) if matches!(refusal.again, Again::After(_)) => {
                    self.wait(&mut patience, refusal, 0)?;
                }
                Err(refusal) => return Err(refusal.failure),
            }
        }
    }

    /// Waits until a request can be made again. `brought` are the bytes that this one has added.
    ///
    /// # Errors
    /// The refusal's, if the request would fail again; those of [`Self::report`].
    fn wait(&self, patience: &mut Patience, refusal: Refusal, brought: u64) -> Result<(), Failure> {
        let Some(pause) = patience.pause(refusal.again, brought) else { return Err(refusal.failure) };
        match refusal.again {
            Again::After(_) => {
                let time = format::duration(pause);
                self.report(Event::Note(format!("{}; waiting {time} as it asks", refusal.failure)))?;
            }
            Again::Stalled => self.report(Event::Note(format!("{}; connecting again", refusal.failure)))?,
            Again::FromStart => self.report(Event::Note(format!("{}; beginning anew", refusal.failure)))?,
            Again::Soon | Again::Never => {}
        }
        let begin = Instant::now();
        loop {
            self.report(Event::Waiting)?;
            let left = pause.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(POLL));
        }
    }

    /// The files of the model.
    fn files(&self, revision: &Revision) -> Result<Vec<RemoteFile>, Failure> {
        let HubModel { repository, quant } = &self.model;
        let paths = revision.paths();
        let choice =
            choose(&paths, repository, quant.as_deref()).map_err(|reason| no_choice(&self.model, &reason))?;
        self.note_choice(&choice)?;
        revision.files(&choice.parts).map_err(|path| {
            Failure::new(
                format!("{} gives no checksum of {path} in {repository}", self.server.host()),
                "download the file in another way, and give its path with -m",
            )
        })
    }

    /// Says what a name leaves open.
    fn note_choice(&self, choice: &Choice) -> Result<(), Failure> {
        let HubModel { repository, .. } = &self.model;
        let taken = choice.parts.first().copied().unwrap_or_default();
        if !choice.others.is_empty() {
            let others = listed(&choice.others, 3);
            self.report(Event::Note(format!(
                "note: {repository} has several models, and {taken} is taken; for another one give its file's name, such as \
                 -hf {repository}:{others}"
            )))?;
        }
        if !choice.is_sure {
            self.report(Event::Note(format!(
                "note: {repository} has no other model than {taken}, whose name is that of a draft for another model"
            )))?;
        }
        Ok(())
    }

    /// Bytes of the files that are not on the disk yet.
    fn missing(&self, files: &[RemoteFile]) -> u64 {
        let length = |path: PathBuf| fs::metadata(path).map_or(0, |found| found.len());
        let missing = |file: &RemoteFile| match self.repository.has(&file.checksum, file.size) {
            true => 0,
            false => file.size.saturating_sub(length(self.repository.part(&file.checksum))),
        };
        files.iter().map(missing).fold(0, u64::saturating_add)
    }

    /// Downloads a file, unless it is there. Another program that downloads the same file is waited for.
    fn fetch(&self, commit: &str, file: &RemoteFile) -> Result<(), Failure> {
        let (blob, path) = (self.repository.blob(&file.checksum), self.repository.part(&file.checksum));
        let failed = |error: io::Error| on_disk(&path, &error);
        let lock = self.repository.lock_file(&file.checksum).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                self.report(Event::Note(format!("another program downloads {}; waiting for it", file.path)))?;
                lock.lock().map_err(failed)?;
                self.report(Event::Waiting)?;
            }
            // Not every file system knows locks.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        while !self.is_here(file)? {
            let mut part = PartialFile::open(&path, file.size).map_err(failed)?;
            let before = part.length();
            self.announce(file, before)?;
            self.receive_all(commit, file, &mut part).map_err(|error| error.of(&path))?;
            self.report(Event::Begin("checking", file.size, 0))?;
            if part.finish(|read| self.report_read(read)).map_err(failed)? == file.checksum {
                fs::rename(&path, &blob).map_err(|error| on_disk(&blob, &error))?;
                return Ok(());
            }
            fs::remove_file(&path).map_err(failed)?;
            if before == 0 {
                return Err(Failure::new(
                    format!("{} was damaged on its way: its checksum is another one", file.path),
                    "run the command again; a proxy of the network may change what is sent",
                ));
            }
            self.report(Event::Note(
                "what was there of the file is damaged; it is downloaded anew".to_owned(),
            ))?;
        }
        Ok(())
    }

    /// Whether a file is here, whole, and undamaged as far as it is compared.
    fn is_here(&self, file: &RemoteFile) -> Result<bool, Failure> {
        let blob = self.repository.blob(&file.checksum);
        let failed = |error: io::Error| on_disk(&blob, &error);
        if !self.repository.has(&file.checksum, file.size) {
            if fs::symlink_metadata(&blob).is_ok() {
                self.report(Event::Note(format!(
                    "{} is here, but not whole; it is downloaded again",
                    file.path
                )))?;
            }
            return Ok(false);
        }
        if !self.checks {
            return Ok(true);
        }
        self.report(Event::Begin("checking", file.size, 0))?;
        let mut opened = File::open(&blob).map_err(failed)?;
        let found = part::checksum(&mut opened, |read| self.report_read(read)).map_err(failed)?;
        let is_right = found == file.checksum;
        self.report(Event::Note(match is_right {
            true => format!("{} is undamaged: its checksum is right", file.path),
            false => format!("{} is damaged: its checksum is another one; it is downloaded again", file.path),
        }))?;
        Ok(is_right)
    }

    fn announce(&self, file: &RemoteFile, before: u64) -> Result<(), Failure> {
        let size = format::bytes(file.size as usize);
        let host = self.server.host();
        self.report(Event::Note(match before {
            0 => format!("downloading {} ({size}) from {host}", file.path),
            _ => {
                let before = format::bytes(before as usize);
                format!("downloading {} ({size}) from {host}: {before} are there", file.path)
            }
        }))?;
        self.report(Event::Begin("downloading", file.size, before))
    }

    /// Receives the rest of a file. A connection that ends too early is made again.
    fn receive_all(&self, commit: &str, file: &RemoteFile, part: &mut PartialFile) -> Result<(), Trouble> {
        let mut patience = Patience::default();
        // The most that was there: a server that begins anew each time brings nothing.
        let mut most = part.length();
        while part.length() < file.size {
            match self.receive(commit, file, part) {
                Err(Trouble::Server(refusal)) => {
                    let begins_anew = refusal.again == Again::FromStart;
                    let brought = part.length().saturating_sub(most);
                    self.wait(&mut patience, refusal, brought)?;
                    if begins_anew {
                        part.empty()?;
                    }
                    most = most.max(part.length());
                }
                received => received?,
            }
        }
        Ok(())
    }

    /// Receives what one connection gives.
    fn receive(&self, commit: &str, file: &RemoteFile, part: &mut PartialFile) -> Result<(), Trouble> {
        let opened = self.server.open(&self.model.repository, commit, file, part.length());
        let (begins, mut body) = opened.map_err(Trouble::Server)?;
        // A server that does not know ranges sends what is there, too.
        let mut known = part.length().saturating_sub(begins);
        let mut bytes = vec![0; 1 << 18];
        let patience = self.server.patience();
        let enough = MIN_RATE * patience.as_secs();
        let (mut since, mut arrived) = (Instant::now(), 0);
        while part.length() < file.size {
            let count = body.read(&mut bytes).map_err(|error| self.server.broke_off(error))?;
            if count == 0 {
                let early = io::Error::new(io::ErrorKind::UnexpectedEof, "it ends too early");
                return Err(self.server.broke_off(early).into());
            }
            let skipped = usize::try_from(known).unwrap_or(usize::MAX).min(count);
            known -= skipped as u64;
            let left = usize::try_from(file.size - part.length()).unwrap_or(usize::MAX);
            part.append(&bytes[skipped..count.min(left.saturating_add(skipped))])?;
            self.report(Event::Done(part.length()))?;
            arrived += count as u64;
            if since.elapsed() >= patience {
                if arrived < enough {
                    return Err(self.server.stalled().into());
                }
                (since, arrived) = (Instant::now(), 0);
            }
        }
        Ok(())
    }

    /// Says what is going on.
    ///
    /// # Errors
    /// Nobody listens any more, as after Ctrl-C: the work is to stop. A chat goes on, and the lock must become free.
    fn report(&self, event: Event) -> Result<(), Failure> {
        self.events.send(event).map_err(|_| Failure::interrupted())
    }

    /// The same for bytes that a checksum was computed of.
    fn report_read(&self, read: u64) -> io::Result<()> {
        self.report(Event::Done(read)).map_err(io::Error::other)
    }
}

/// Why a file does not arrive.
enum Trouble {
    Server(Refusal),
    /// A server that is not asked again, or nobody who waits for it.
    GivenUp(Failure),
    Disk(io::Error),
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Trouble {
        Trouble::Server(refusal)
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Trouble {
        Trouble::GivenUp(failure)
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Disk(error)
    }
}

impl Trouble {
    /// The error of the file that is written to `path`.
    fn of(self, path: &Path) -> Failure {
        match self {
            Trouble::Server(refusal) => refusal.failure,
            Trouble::GivenUp(failure) => failure,
            Trouble::Disk(error) => on_disk(path, &error),
        }
    }
}

/// The error of a file or folder that cannot be written.
fn on_disk(path: &Path, error: &io::Error) -> Failure {
    let hint = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space, and run the command again: the download resumes; or set HF_HUB_CACHE to a folder \
             on another disk"
        }
        io::ErrorKind::FileTooLarge => {
            "raise the limit on the size of files (`ulimit -f`), and run the command again: the download resumes; or set \
             HF_HUB_CACHE to a folder on a disk whose file system allows larger files"
        }
        _ => "set HF_HUB_CACHE to a folder that can be written to",
    };
    Failure::new(format!("{}: {error}", path.display()), hint)
}

/// Refuses a download for which the disk of `folder` has no space.
fn check_space(folder: &Path, needed: u64) -> Result<(), Failure> {
    if let Some(free) = folders::free_bytes(folder)
        && free < needed
    {
        let (needed, free) = (format::bytes(needed as usize), format::bytes(free as usize));
        return Err(Failure::new(
            format!("{}: {needed} are needed, but only {free} are free", folder.display()),
            "free some space, or set HF_HUB_CACHE to a folder on another disk",
        ));
    }
    Ok(())
}

fn no_choice(model: &HubModel, reason: &NoChoice) -> Failure {
    let HubModel { repository, quant } = model;
    match reason {
        NoChoice::NoModels => Failure::new(
            format!("{repository} has no GGUF file"),
            "look for a repository whose name ends in GGUF; many models have one",
        ),
        NoChoice::Unknown(known) => {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            Failure::usage(
                format!("{repository} has no {}", quant.as_deref().unwrap_or_default()),
                format!("there are: {}", listed(&known, SHOWN)),
            )
        }
        NoChoice::Parts(found, all) => Failure::new(
            format!("{model} has {all} parts, and only {found} of them are in the repository"),
            "choose another quantisation",
        ),
        NoChoice::TooManyParts(count) => Failure::new(
            format!("{model} has {} parts, which is more than any model has", format::count(*count)),
            "choose another quantisation",
        ),
    }
}

/// Names as a list, of which at most `shown` are shown.
fn listed(names: &[&str], shown: usize) -> String {
    let more = if names.len() > shown { ", …" } else { "" };
    format!("{}{more}", names[..names.len().min(shown)].join(", "))
}
