//! How an error reaches the user: `error: what, where`, then `hint: what to do`, and an exit code (1 failure, 2 wrong
//! usage, 130 interrupted). The libraries' hints are data; here they become sentences with the program's flags.

use std::error::Error;
use std::io;

use longhand::SamplerError;
use longhand::heads::HeadsError;
use longhand::text::sanitize_for_terminal;
use longhand::{EngineError, Hint};
use models::LoadError;
use models::chat::ChatError;
use models::gguf::GgufFile;
use models::shapes::ShapeError;
use models::tokenizer::TokenizerError;

use crate::format;

/// An error of the program itself: what was wrong, what to do about it, and the exit code.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    message: String,
    hint: String,
    code: u8,
}

impl Failure {
    /// Something failed although the arguments are right.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure { message: message.into(), hint: hint.into(), code: 1 }
    }

    /// The arguments are wrong.
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure { code: 2, ..Failure::new(message, hint) }
    }

    /// The user stopped the program.
    pub fn interrupted() -> Failure {
        Failure { code: 130, ..Failure::new("interrupted", "nothing was kept; run it again to start over") }
    }

    /// The same failure with the name of the file it was found in, if the file is on disk.
    pub fn found_in(self, file: &GgufFile) -> Failure {
        match file.path() {
            Some(path) => Failure { message: format!("{}: {}", path.display(), self.message), ..self },
            None => self,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Failure {
        let hint = error.hint().map_or_else(|| "see `longhand help`".to_owned(), |hint| sentence(&hint));
        Failure { code: exit_code(&error), ..Failure::new(message_of(&error), hint) }
    }
}

impl From<ChatError> for Failure {
    fn from(error: ChatError) -> Failure {
        Failure::new(error.to_string(), error.hint())
    }
}

impl From<TokenizerError> for Failure {
    fn from(error: TokenizerError) -> Failure {
        Failure::new(error.to_string(), error.hint())
    }
}

impl From<ShapeError> for Failure {
    fn from(error: ShapeError) -> Failure {
        Failure::usage(error.to_string(), error.hint())
    }
}

impl From<SamplerError> for Failure {
    fn from(error: SamplerError) -> Failure {
        Failure::usage(error.to_string(), sentence(&error.hint()))
    }
}

/// These errors are always caused by the arguments.
fn exit_code(error: &EngineError) -> u8 {
    match error {
        EngineError::Policy { .. }
        | EngineError::UnusedProfile { .. }
        | EngineError::NoHeadScores { .. }
        | EngineError::Sampling(_)
        | EngineError::Compute(ggml::Error::NoCuda(_) | ggml::Error::NoSuchGpu { .. }) => 2,
        _ => 1,
    }
}

/// An error's text, sizes as people read them.
fn message_of(error: &(dyn Error + 'static)) -> String {
    match error.downcast_ref() {
        Some(EngineError::Memory { context, needed, free, on_device }) => format!(
            "a context of {} tokens needs {} besides the weights{}, but {} are free",
            format::count(*context),
            format::bytes(*needed),
            if *on_device { " on the GPU" } else { "" },
            format::bytes(*free)
        ),
        _ => error.to_string(),
    }
}

/// The text to print and the exit code. If the reader of stdout is gone, that is success and the text is empty.
pub fn report(error: &anyhow::Error) -> (String, u8) {
    let broken_pipe = |cause: &(dyn Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(broken_pipe) {
        return (String::new(), 0);
    }
    let interrupted =
        error.chain().any(|cause| cause.downcast_ref::<EngineError>().is_some_and(EngineError::is_interrupt));
    if interrupted {
        return report(&Failure::interrupted().into());
    }
    let code = match error.downcast_ref::<Failure>() {
        Some(failure) => failure.code,
        None => error.downcast_ref::<EngineError>().map_or(1, exit_code),
    };
    // A cause that an error's own text quotes is not repeated.
    let mut message = String::new();
    for cause in error.chain().map(message_of) {
        if message.is_empty() {
            message = cause;
        } else if !message.contains(&cause) {
            message = format!("{message}: {cause}");
        }
    }
    let system = || error.chain().find_map(|cause| cause.downcast_ref().map(Hint::for_io));
    let mut text = format!("error: {}\n", message.trim_end());
    if let Some(hint) = error.chain().find_map(hint_of).or_else(|| system().as_ref().map(sentence)) {
        text.push_str(&format!("hint: {hint}\n"));
    }
    (sanitize_for_terminal(&text).into_owned(), code)
}

/// What an error of a known type says to do.
fn hint_of(error: &(dyn Error + 'static)) -> Option<String> {
    fn of<E: Error + 'static>(
        error: &(dyn Error + 'static),
        hint: fn(&E) -> Option<String>,
    ) -> Option<String> {
        error.downcast_ref().and_then(hint)
    }
    of::<Failure>(error, |failure| Some(failure.hint.clone()))
        .or_else(|| of::<EngineError>(error, |error| error.hint().as_ref().map(sentence)))
        .or_else(|| of::<ggml::Error>(error, |error| Hint::for_compute(error).as_ref().map(sentence)))
        .or_else(|| of::<HeadsError>(error, |error| Some(sentence(&error.hint()))))
        .or_else(|| of::<SamplerError>(error, |error| Some(sentence(&error.hint()))))
        .or_else(|| of::<LoadError>(error, |error| Some(error.hint().to_owned())))
        .or_else(|| of::<TokenizerError>(error, |error| Some(error.hint().to_owned())))
        .or_else(|| of::<ChatError>(error, |error| Some(error.hint().to_owned())))
        .or_else(|| of::<ShapeError>(error, |error| Some(error.hint())))
}

/// A hint as a sentence with the program's flags and commands. Hints that need none are the library's own words.
fn sentence(hint: &Hint) -> String {
    let text = match hint {
        Hint::LargerContext { tokens } => {
            return format!(
                "give a larger context with -c {tokens} (`longhand plan` says what it costs), or a shorter text"
            );
        }
        Hint::LessMemory { on_device: false } => {
            "give a smaller context (-c), a smaller KV budget (--kv-budget) or a smaller model"
        }
        Hint::LessMemory { on_device: true } => {
            "give a smaller context (-c), a smaller KV budget (--kv-budget), fewer layers on the GPU (-ngl), or allow more \
             of its memory (--memory)"
        }
        Hint::SmallerSession { on_device: false } => {
            "see `longhand plan` for what takes less: a policy, -ctk q8_0 -ctv q8_0, a smaller -c"
        }
        Hint::SmallerSession { on_device: true } => {
            "see `longhand plan` for what takes less: a policy, -ctk q8_0 -ctv q8_0, a smaller -c; or leave layers on the CPU with \
             -ngl"
        }
        Hint::LeaveDeviceMemoryFree => {
            "other programs may use the same GPU; leave more of its memory free with --memory, or use --device cpu"
        }
        Hint::UseCpu => "use --device cpu to compute without a GPU",
        Hint::Restart => "start again; if the error comes back, use --device cpu",
        Hint::ListDevices => "`longhand devices` lists the GPUs",
        Hint::InstallCublas => {
            "install NVIDIA's package libcublas-13-0, or `pip install nvidia-cublas` and add its lib folder to \
             LD_LIBRARY_PATH; or use a quantised model, or --device cpu"
        }
        Hint::LargerBudget => {
            "give a larger budget (--kv-budget or --keep), a smaller context (-c), smaller types (-ctk q8_0 -ctv q8_0), or \
             let fewer heads keep everything"
        }
        Hint::SmallerParameters => {
            "give smaller parameters, a larger context (-c), or a budget: --keep ROWS sets them all"
        }
        Hint::OtherPolicy(name) => return format!("use another policy, for example --policy {name}"),
        Hint::GiveHeadProfile => {
            "give a head profile with --heads FILE, or make one with `longhand heads calibrate`"
        }
        Hint::MakeHeadProfile => {
            "make a head profile of this model with `longhand heads calibrate` or `longhand heads import`"
        }
        Hint::OmitHeadProfile => {
            "leave the head profile (--heads) out, or add heads=off to the policy: one window for all heads"
        }
        Hint::PolicyWithProfile => "leave --heads out, or use a policy with heads=on",
        Hint::OmitHeadShares => "leave induction= and echo= out: the profile's own selection is used",
        Hint::WindowsFromWeights => {
            "use --policy razor, which computes its windows from the weights; for heads=on, give a profile with --heads FILE"
        }
        Hint::LongerPeriod => "give a larger --period",
        Hint::OtherTensorType { cpu_can: true } => {
            "use a model file quantised to another type, or --device cpu"
        }
        plain => return plain.to_string(),
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn hints_are_on_a_line_of_their_own() {
        let error = anyhow::Error::from(Failure::new("bad", "good")).context("file x");
        assert_eq!(report(&error), ("error: file x: bad\nhint: good\n".to_owned(), 1));
        assert_eq!(report(&anyhow::anyhow!("bad\x1b[2J")).0, "error: bad␛[2J\n");
    }

    #[test]
    fn exit_codes() {
        assert_eq!(report(&Failure::usage("a", "b").into()).1, 2);
        assert_eq!(report(&Failure::interrupted().into()).1, 130);
        let pipe = Err::<(), _>(io::Error::from(io::ErrorKind::BrokenPipe)).context("writing");
        assert_eq!(report(&pipe.expect_err("an error")), (String::new(), 0));
        let policy = "rasor".parse::<longhand::policy::PolicyChoice>().expect_err("no such policy");
        let (text, code) = report(&policy.into());
        assert!(code == 2 && text.contains("\nhint: use one of full, "), "{text}");
    }

    #[test]
    fn errors_of_every_library_have_a_hint() {
        let load = || LoadError::MissingKey { key: "k".into() };
        let shape = models::shapes::ModelShape::parse("x").expect_err("no shape");
        let options = longhand::SamplerOptions { top_p: 2.0, ..longhand::SamplerOptions::greedy() };
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
            longhand::Sampler::new(options).expect_err("out of range").into(),
            io::Error::from(io::ErrorKind::NotFound).into(),
        ] {
            for error in [report(&error).0, report(&error.context("outside")).0] {
                assert_eq!(error.matches("\nhint: ").count(), 1, "{error}");
            }
        }
    }

    #[test]
    fn every_hint_has_a_sentence() {
        for (hint, part) in [
            (Hint::LargerContext { tokens: 4096 }, "-c 4096"),
            (Hint::LessMemory { on_device: false }, "--kv-budget"),
            (Hint::LessMemory { on_device: true }, "-ngl"),
            (Hint::SmallerSession { on_device: false }, "longhand plan"),
            (Hint::SmallerSession { on_device: true }, "-ngl"),
            (Hint::LeaveDeviceMemoryFree, "--memory"),
            (Hint::UseCpu, "--device cpu"),
            (Hint::Restart, "--device cpu"),
            (Hint::ListDevices, "`longhand devices`"),
            (Hint::InstallCublas, "--device cpu"),
            (Hint::LargerBudget, "-ctk q8_0 -ctv q8_0"),
            (Hint::SmallerParameters, "--keep ROWS"),
            (Hint::OtherPolicy("snapkv"), "--policy snapkv"),
            (Hint::GiveHeadProfile, "--heads FILE"),
            (Hint::MakeHeadProfile, "`longhand heads import`"),
            (Hint::OmitHeadProfile, "--heads"),
            (Hint::PolicyWithProfile, "heads=on"),
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
            let text = sentence(&hint);
            assert!(text.contains(part), "{hint:?}: {text}");
        }
    }
}
