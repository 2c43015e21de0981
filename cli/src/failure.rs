//! How errors are reported: `error: what and where`, then `hint: what to do`, and the exit code (see
//! [`Failure`]). Hints of the libraries are data; this file turns them into sentences with flags.

use std::error::Error;
use std::io;

use documents::{DocumentError, Problem};
use longhand::error::{ConstraintError, SamplerError};
use longhand::heads::HeadsError;
use longhand::setup::Offers;
use longhand::{EngineError, Hint};
use models::LoadError;
use models::chat::ChatError;
use models::shapes::ShapeError;
use models::tokenizer::TokenizerError;
use terminal::failure::ANSWERED_NO;
pub use terminal::failure::Failure;
use terminal::format::{memory_text, offer_flags};
use terminal::{console, format, suggest};

/// The error of a first text that does not fit the context. The offers are for a context that it fits.
pub fn context_too_small(message: String, offers: &Offers) -> Failure {
    let larger = format!("-c {}", offers.context);
    let hint = match &offers.offers[..] {
        [offer] if offer_flags(offer).is_empty() => {
            let (bytes, free) = (format::bytes(offer.bytes), free_text(offers));
            format!("give a larger context with {larger} ({bytes}{free}), or leave out -c")
        }
        [] => format!(
            "it needs {larger}, for which the memory, or the KV budget that was set, is not enough; give a part \
             of the text, or use a smaller model"
        ),
        _ => format!("give a larger context with {larger} and {}", offers_text(offers)),
    };
    Failure::new(message, hint)
}

/// A failure whose hint is what fits instead, if anything does.
pub fn or_offer(failure: Failure, offers: &Offers) -> Failure {
    match offers.offers.is_empty() {
        true => failure,
        false => failure.with_hint(&format!("this fits: {}", offers_text(offers))),
    }
}

/// An error with a hint. [`hinted!`] lists all types that are one.
pub trait Hinted: Listed + Error + Sized + 'static {
    /// What to do about it, as a sentence with flags; `None` where nothing better than the text is known.
    fn hint_with_flags(&self) -> Option<String>;

    /// The exit code of the program: 2 for errors that only the arguments can cause, else 1.
    fn exit_code(&self) -> u8 {
        1
    }

    /// The error as a failure of a command.
    fn into_failure(self) -> Failure {
        let hint = self.hint_with_flags().unwrap_or_else(|| "see `longhand help`".to_owned());
        Failure::new(message(&self), hint).with_exit_code(self.exit_code())
    }
}

/// A type whose hint is found where it is the cause of another error, too.
pub trait Listed {}

/// Lists the types of [`Hinted`]. One that is not listed does not compile.
macro_rules! hinted {
    ($($error:ty),* $(,)?) => {
        $(impl Listed for $error {})*

        /// For each type the hint of an error, if it has that type.
        const HINTED: &[fn(&(dyn Error + 'static)) -> Option<String>] = &[$(of::<$error>),*];
    };
}

hinted![
    Failure,
    EngineError,
    ggml::Error,
    HeadsError,
    SamplerError,
    ConstraintError,
    LoadError,
    TokenizerError,
    ChatError,
    ShapeError,
    DocumentError,
];

fn of<E: Hinted>(error: &(dyn Error + 'static)) -> Option<String> {
    error.downcast_ref::<E>()?.hint_with_flags()
}

impl Hinted for Failure {
    fn hint_with_flags(&self) -> Option<String> {
        Some(self.hint().to_owned())
    }
}

impl Hinted for EngineError {
    fn hint_with_flags(&self) -> Option<String> {
        match self {
            EngineError::Load(error) => error.hint_with_flags(),
            EngineError::NotFinite { .. } => Some(format!(
                "{}. `longhand inspect -hf OWNER/REPOSITORY:QUANT --redownload` compares a file of Hugging Face with its \
                 checksum",
                self.hint()?
            )),
            _ => self.hint().as_ref().map(hint_text),
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            EngineError::Policy { .. }
            | EngineError::UnusedProfile { .. }
            | EngineError::NoHeadScores { .. }
            | EngineError::IncompleteProfile { .. }
            | EngineError::Sampling(_)
            | EngineError::Compute(
                ggml::Error::NoCuda(_)
                | ggml::Error::NoHip(_)
                | ggml::Error::NoMetal(_)
                | ggml::Error::NoVulkan(_)
                | ggml::Error::NoSuchGpu { .. },
            ) => 2,
            #[cfg(feature = "rpc")]
            EngineError::Compute(ggml::Error::NoSuchRpcDevice { .. }) => 2,
            _ => 1,
        }
    }
}

impl Hinted for ggml::Error {
    fn hint_with_flags(&self) -> Option<String> {
        Hint::for_compute(self).as_ref().map(hint_text)
    }
}

impl Hinted for HeadsError {
    fn hint_with_flags(&self) -> Option<String> {
        Some(hint_text(&self.hint()))
    }
}

impl Hinted for SamplerError {
    fn hint_with_flags(&self) -> Option<String> {
        Some(hint_text(&self.hint()))
    }

    fn exit_code(&self) -> u8 {
        2
    }
}

impl Hinted for ConstraintError {
    fn hint_with_flags(&self) -> Option<String> {
        Some(hint_text(&self.hint()))
    }

    fn exit_code(&self) -> u8 {
        2
    }
}

impl Hinted for LoadError {
    /// A damaged file that Hugging Face has is fetched again.
    fn hint_with_flags(&self) -> Option<String> {
        let name = self.path().filter(|_| self.is_damage()).and_then(hub::name_of);
        Some(match name {
            Some(name) => format!(
                "{}. `longhand inspect -hf {name} --redownload` compares the file with its checksum, and downloads it again if \
                 it is damaged",
                self.hint()
            ),
            None => self.hint().to_owned(),
        })
    }
}

impl Hinted for TokenizerError {
    fn hint_with_flags(&self) -> Option<String> {
        Some(self.hint().to_owned())
    }
}

impl Hinted for ChatError {
    fn hint_with_flags(&self) -> Option<String> {
        Some(self.hint().to_owned())
    }
}

impl Hinted for ShapeError {
    /// With the name that is most like one that is not known.
    fn hint_with_flags(&self) -> Option<String> {
        Some(match self {
            ShapeError::UnknownShape { found, known } | ShapeError::UnknownFileType { found, known } => {
                suggest::did_you_mean(found, known.split(", ")) + &self.hint()
            }
            ShapeError::Layers { .. } => self.hint(),
        })
    }

    fn exit_code(&self) -> u8 {
        2
    }
}

impl Hinted for DocumentError {
    fn hint_with_flags(&self) -> Option<String> {
        Some(match self.problem {
            Problem::Empty => format!("{}, or leave -f out to ask without a document", self.hint()),
            Problem::Encrypted => {
                "give its password with --password-file FILE, or save a copy without it".to_owned()
            }
            Problem::NoDocuments | Problem::NoMatch => {
                format!("{}, or read them all with --all-files", self.hint())
            }
            _ => self.hint().to_owned(),
        })
    }
}

/// `--policy snapkv (1.21 GiB), or --prefill streaming (3.1 GiB); 6.0 GiB are free on the GPU`
fn offers_text(offers: &Offers) -> String {
    let all: Vec<String> = (offers.offers.iter())
        .map(|offer| format!("{} ({})", offer_flags(offer), format::bytes(offer.bytes)))
        .collect();
    all.join(", or ") + &free_text(offers)
}

/// `; 6.0 GiB are free on the GPU`, if that is known.
fn free_text(offers: &Offers) -> String {
    let place = if offers.on_gpu { " on the GPU" } else { "" };
    offers.free.map(|free| format!("; {} are free{place}", format::bytes(free))).unwrap_or_default()
}

/// The text of an error. The error that memory is not enough has units here.
pub fn message(error: &(dyn Error + 'static)) -> String {
    match error.downcast_ref() {
        Some(EngineError::Memory(shortage)) => memory_text(shortage),
        _ => error.to_string(),
    }
}

/// What the program prints and returns after an error.
#[derive(Debug, PartialEq)]
pub struct Report {
    /// `error: …` and `hint: …`, each on a line; empty where there is nothing to print.
    pub text: String,
    /// Exit code.
    pub exit_code: u8,
}

/// Whether whoever read stdout has closed it.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let is_closed = |io: &io::Error| io.kind() == io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(is_closed))
}

/// How an error is reported. A closed stdout is success, with no text.
pub fn report(error: &anyhow::Error) -> Report {
    if is_closed_pipe(error) {
        return Report { text: String::new(), exit_code: 0 };
    }
    if error.downcast_ref::<Failure>().is_some_and(|failure| failure.exit_code() == ANSWERED_NO) {
        return Report { text: String::new(), exit_code: ANSWERED_NO };
    }
    let interrupted =
        error.chain().any(|cause| cause.downcast_ref::<EngineError>().is_some_and(EngineError::is_interrupt));
    if interrupted {
        return report(&Failure::interrupted().into());
    }
    if let Some(failure) = error.downcast_ref::<Failure>().filter(|failure| failure.is_silent()) {
        return Report { text: String::new(), exit_code: failure.exit_code() };
    }
    let exit_code = match error.downcast_ref::<Failure>() {
        Some(failure) => failure.exit_code(),
        None => error.downcast_ref::<EngineError>().map_or(1, Hinted::exit_code),
    };
    let mut messages = String::new();
    for cause in error.chain().map(message) {
        if messages.is_empty() {
            messages = cause;
        } else if !messages.contains(&cause) {
            // The error's own text does not quote its cause.
            messages = format!("{messages}: {cause}");
        }
    }
    let io_hint = || error.chain().find_map(|cause| cause.downcast_ref().map(Hint::for_io));
    let mut text = format!("error: {}\n", messages.trim_end());
    if let Some(hint) = error
        .chain()
        .find_map(|cause| HINTED.iter().find_map(|hint| hint(cause)))
        .or_else(|| io_hint().as_ref().map(hint_text))
    {
        text.push_str(&format!("hint: {hint}\n"));
    }
    Report { text: console::visible(&text), exit_code }
}

/// Prints an error. Returns the exit code of the program.
pub fn print(error: &anyhow::Error) -> u8 {
    let report = report(error);
    console::print_error(&report.text);
    report.exit_code
}

/// How an error is reported after which the program ends at once. Takes no lock and needs little memory: another
/// thread, or this one, may have failed anywhere.
pub fn report_fatal(error: &ggml::Error) -> Report {
    let mut text = format!("error: {error}\n");
    if let Some(hint) = Hint::for_compute(error) {
        text += &format!("hint: {}\n", hint_text(&hint));
    }
    Report { text: console::visible(&text), exit_code: 1 }
}

/// A hint as a sentence with flags and commands. Hints about neither have the library's text.
fn hint_text(hint: &Hint) -> String {
    let text = match hint {
        Hint::LargerContext { tokens } => {
            return format!(
                "give a larger context with -c {tokens} (`longhand plan` shows its memory), or a shorter text"
            );
        }
        Hint::LessMemory { on_device: false } => {
            "use a smaller context (-c), a smaller KV budget (--kv-budget) or a smaller model"
        }
        Hint::LessMemory { on_device: true } => {
            "use a smaller context (-c), a smaller KV budget (--kv-budget) or fewer layers on the GPU (-ngl, 0 for none), \
             or allow more GPU memory (--memory)"
        }
        Hint::SmallerSession { on_device: false } => {
            "use another --policy, smaller types (-ctk q8_0 -ctv q8_0) or a smaller context (-c); `longhand plan` \
             shows their memory"
        }
        Hint::SmallerSession { on_device: true } => {
            "use another --policy, smaller types (-ctk q8_0 -ctv q8_0), a smaller context (-c) or fewer layers on the \
             GPU (-ngl, 0 for none); `longhand plan` shows their memory"
        }
        Hint::LeaveDeviceMemoryFree => {
            "other programs may use the same GPU: leave more of its memory to them with --memory, or use --device cpu"
        }
        Hint::FewerThreads => {
            "use fewer threads (-t), or raise the limit on processes (`ulimit -u`, or pids.max of the container)"
        }
        Hint::UseCpu => "use --device cpu to compute without a GPU",
        Hint::Restart => "start the program again; if the error comes back, use --device cpu",
        Hint::ListDevices => "`longhand devices` lists the GPUs",
        Hint::NameServer => {
            "name the servers with --rpc HOST:PORT; `longhand devices --rpc HOST:PORT` lists their devices"
        }
        Hint::StartServer => {
            "start the server there (`longhand rpc-server`) and check that no firewall blocks it, then run this again; \
             `longhand chat --resume` continues a conversation that was kept"
        }
        Hint::InstallCublas => {
            "install NVIDIA's cuBLAS of the release that is missing: package libcublas-13-0 or `pip install nvidia-cublas` \
             for libcublas.so.13, libcublas-12-9 or `pip install nvidia-cublas-cu12` for libcublas.so.12. What pip installs \
             is found with its lib folder in LD_LIBRARY_PATH. Or use a quantised model, or --device cpu"
        }
        Hint::LargerBudget => {
            "use a larger budget (--kv-budget or --keep), a smaller context (-c), smaller types (-ctk q8_0 -ctv q8_0), \
             or a head profile with fewer retrieval heads"
        }
        Hint::SmallerParameters => {
            "use smaller parameters or a larger context (-c), or let --keep ROWS set the parameters"
        }
        Hint::OtherPolicy(name) => return format!("use another policy, for example --policy {name}"),
        Hint::GiveHeadProfile => {
            "give a head profile with --heads FILE, or make one with `longhand heads calibrate`"
        }
        Hint::MakeHeadProfile => {
            "make a head profile of this model with `longhand heads calibrate` or `longhand heads import`"
        }
        Hint::MakeRowPredictors => {
            "make a head profile with `longhand heads calibrate --row-predictors`, or use another policy"
        }
        Hint::OmitHeadProfile => {
            "leave out the head profile (--heads), or add heads=off to the policy to use one window for all heads"
        }
        Hint::PolicyWithProfile => "leave out --heads, or use a policy with heads=on",
        Hint::OmitThinking => {
            "leave out --think; --think hide and /think hide only hide what the model thinks"
        }
        Hint::OmitHeadShares => "leave out induction= and echo= to use the selection in the profile",
        Hint::WindowsFromWeights => {
            "use --policy razor, which computes its windows from the weights; for heads=on, give a profile with \
             --heads FILE"
        }
        Hint::LongerPeriod => "use a larger --period",
        Hint::OtherTensorType { cpu_can: true } => {
            "use a model file quantised to another type, or --device cpu"
        }
        other => return other.to_string(),
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use ggml::Type;
    use longhand::generation::{Sampler, SamplerOptions};
    use longhand::setup::Offer;

    use super::*;

    #[test]
    fn hints_are_on_a_line_of_their_own() {
        let error = anyhow::Error::from(Failure::new("bad", "good")).context("file x");
        let expected = Report { text: "error: file x: bad\nhint: good\n".to_owned(), exit_code: 1 };
        assert_eq!(report(&error), expected);
        assert_eq!(report(&anyhow::anyhow!("bad\x1b[2J")).text, "error: bad␛[2J\n");
    }

    #[test]
    fn offers_name_their_flags_and_memory() {
        let streaming = Offer { streaming: true, bytes: 1 << 30, ..Offer::default() };
        let smaller = Offer {
            policy: Some("snapkv"),
            percent: Some(30),
            streaming: true,
            types: Some((Type::Q8_0, Type::Q4_0)),
            bytes: 1 << 20,
        };
        let hint = |offers: Vec<Offer>| {
            let offers = Offers { context: 4096, on_gpu: false, free: Some(6 << 30), offers };
            let context = context_too_small("too small".into(), &offers).hint().to_owned();
            [context, or_offer(Failure::new("memory", "less"), &offers).hint().to_owned()]
        };
        assert_eq!(
            hint(vec![Offer { bytes: 1 << 20, ..Offer::default() }])[0],
            "give a larger context with -c 4096 (1.00 MiB; 6.00 GiB are free), or leave out -c"
        );
        let both = "--prefill streaming (1.00 GiB), or --policy snapkv --kv-budget 30% -ctk q8_0 -ctv q4_0 \
                    --prefill streaming (1.00 MiB); 6.00 GiB are free";
        assert_eq!(
            hint(vec![streaming, smaller]),
            [format!("give a larger context with -c 4096 and {both}"), format!("this fits: {both}")]
        );
        assert_eq!(hint(vec![])[1], "less");
    }

    #[test]
    fn errors_have_exit_codes() {
        assert_eq!(report(&Failure::usage("a", "b").into()).exit_code, 2);
        assert_eq!(report(&Failure::interrupted().into()).exit_code, 130);
        let pipe = Err::<(), _>(io::Error::from(io::ErrorKind::BrokenPipe)).context("writing");
        assert_eq!(report(&pipe.expect_err("an error")), Report { text: String::new(), exit_code: 0 });
        let policy = "rasor".parse::<longhand::policy::PolicyChoice>().expect_err("no such policy");
        let Report { text, exit_code } = report(&policy.into());
        assert!(exit_code == 2 && text.contains("\nhint: use one of full, "), "{text}");
    }

    #[test]
    fn errors_of_every_library_have_a_hint() {
        let load = || LoadError::MissingKey { key: "k".into() };
        let shape = models::shapes::ModelShape::parse("x").expect_err("no shape");
        let options = SamplerOptions { top_p: 2.0, ..SamplerOptions::greedy() };
        for error in [
            anyhow::Error::from(load()),
            EngineError::from(load()).into(),
            EngineError::ContextFull { needed: 2, context: 1 }.into(),
            EngineError::from(ggml::Error::Device("lost".into())).into(),
            ggml::Error::NoSuchGpu { index: 1, gpus: 1 }.into(),
            HeadsError::Version { found: 2, known: 1 }.into(),
            TokenizerError::Missing { key: "k" }.into(),
            ChatError::NoAnswer.into(),
            shape.into(),
            Sampler::new(options).expect_err("out of range").into(),
            ConstraintError::Json { what: "x".into() }.into(),
            io::Error::from(io::ErrorKind::NotFound).into(),
        ] {
            for error in [report(&error).text, report(&error.context("outside")).text] {
                assert_eq!(error.matches("\nhint: ").count(), 1, "{error}");
            }
        }
    }

    #[test]
    fn every_hint_has_a_text() {
        for (hint, part) in [
            (Hint::LargerContext { tokens: 4096 }, "-c 4096"),
            (Hint::LessMemory { on_device: false }, "--kv-budget"),
            (Hint::LessMemory { on_device: true }, "-ngl"),
            (Hint::SmallerSession { on_device: false }, "longhand plan"),
            (Hint::SmallerSession { on_device: true }, "-ngl"),
            (Hint::LeaveDeviceMemoryFree, "--memory"),
            (Hint::FewerThreads, "-t"),
            (Hint::UseCpu, "--device cpu"),
            (Hint::Restart, "--device cpu"),
            (Hint::ListDevices, "`longhand devices`"),
            (Hint::InstallCublas, "--device cpu"),
            (Hint::NameServer, "--rpc HOST:PORT"),
            (Hint::StartServer, "`longhand rpc-server`"),
            (Hint::LargerBudget, "-ctk q8_0 -ctv q8_0"),
            (Hint::SmallerParameters, "--keep ROWS"),
            (Hint::OtherPolicy("snapkv"), "--policy snapkv"),
            (Hint::GiveHeadProfile, "--heads FILE"),
            (Hint::MakeHeadProfile, "`longhand heads import`"),
            (Hint::MakeRowPredictors, "--row-predictors"),
            (Hint::OmitHeadProfile, "--heads"),
            (Hint::PolicyWithProfile, "heads=on"),
            (Hint::OmitThinking, "--think"),
            (Hint::OmitHeadShares, "induction="),
            (Hint::WindowsFromWeights, "--policy razor"),
            (Hint::LongerPeriod, "--period"),
            (Hint::OtherTensorType { cpu_can: true }, "--device cpu"),
            (Hint::OtherTensorType { cpu_can: false }, "quantised to another type"),
            (Hint::CacheTypes(vec![ggml::Type::F16, ggml::Type::F32]), "f16, f32"),
            (Hint::OtherModel, "another model"),
            (Hint::CheckPath, "check the path"),
            (Hint::FreeDiskSpace, "free some space"),
            (Hint::advice("read again"), "read again"),
        ] {
            let text = hint_text(&hint);
            assert!(text.contains(part), "{hint:?}: {text}");
        }
    }
}
