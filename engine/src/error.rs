//! Errors of the engine, and what a caller can do about them.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use ggml::Type;
pub use ggml::{NoCuda, NoHip, NoMetal, NoVulkan};
use models::LoadError;
use models::chat::ChatError;
use models::tokenizer::TokenizerError;

use crate::devices::memory::MemoryBound;
use crate::heads::{HeadsError, ProfileGap};
pub use crate::session::generate::constraint::ConstraintError;
pub use crate::session::generate::sampler::SamplerError;

/// An error of the engine. The text says what was wrong and where; [`EngineError::hint`] says what to do.
///
/// ```
/// use longhand::{Hint, policy::PolicyChoice};
///
/// let error = "razor:buffer=none".parse::<PolicyChoice>().expect_err("not a number");
/// assert!(error.to_string().contains("`none` is not a number"));
/// assert!(matches!(error.hint(), Some(Hint::Advice(_))));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The model file cannot be used.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The head profile cannot be used.
    #[error(transparent)]
    Heads(#[from] HeadsError),
    /// A computation failed.
    #[error(transparent)]
    Compute(#[from] ggml::Error),
    /// The text has more tokens than the session's context.
    #[error("{needed} tokens do not fit a context of {context}")]
    ContextFull {
        /// Number of tokens of the text.
        needed: usize,
        /// The session's context in tokens.
        context: usize,
    },
    /// The file has no usable vocabulary.
    #[error("{}{error}", in_file(path))]
    Tokenizer {
        /// The model's file, where it is one on disk.
        path: Option<PathBuf>,
        /// What is wrong.
        error: TokenizerError,
    },
    /// The vocabulary has more tokens than the model has embeddings.
    #[error("{}the vocabulary has {tokens} tokens, but the model only {rows}", in_file(path))]
    Vocabulary {
        /// The model's file, where it is one on disk.
        path: Option<PathBuf>,
        /// Tokens of the vocabulary.
        tokens: usize,
        /// Tokens the model has embeddings for.
        rows: usize,
    },
    /// The chat template cannot be used, or refuses the conversation.
    #[error("{}{error}", in_file(path))]
    Chat {
        /// The model's file, where it is one on disk.
        path: Option<PathBuf>,
        /// What is wrong.
        error: ChatError,
    },
    /// A session file holds no conversation that can go on.
    #[error("{}: no conversation that can be continued: {reason}", path.display())]
    SavedChat {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A sampling option makes no sense.
    #[error(transparent)]
    Sampling(#[from] SamplerError),
    /// Answers cannot be given a shape.
    #[error(transparent)]
    Constraint(#[from] ConstraintError),
    /// A head profile was given that is not used.
    #[error("a head profile is given, but the policy {policy} does not use it: {reason}")]
    UnusedProfile {
        /// The policy.
        policy: String,
        /// Why.
        reason: String,
    },
    /// A head profile has no scores from which a policy could select heads.
    #[error("{}: it has no induction and echo scores to select heads by", path.display())]
    NoHeadScores {
        /// The file.
        path: PathBuf,
    },
    /// A head profile lacks what a policy needs.
    #[error("{}: it has no {gap}, which the policy needs", path.display())]
    IncompleteProfile {
        /// The file.
        path: PathBuf,
        /// What it lacks.
        gap: ProfileGap,
    },
    /// A session does not fit the memory that is free.
    #[error("{0}")]
    Memory(Shortage),
    /// The model computed numbers that are not finite.
    #[error("{}", not_finite(origin))]
    NotFinite {
        /// Where that begins; `None` where it was not found.
        origin: Option<NotFiniteOrigin>,
    },
    /// A computation failed that answers of several sessions took part in.
    #[error("answers that are computed together: {reason}")]
    Batch {
        /// What is wrong.
        reason: String,
        /// What to do, where that is known.
        hint: Option<Hint>,
    },
    /// A token is outside the vocabulary.
    #[error("token {token} is outside the vocabulary of {vocabulary} tokens")]
    Token {
        /// The token.
        token: u32,
        /// Size of the vocabulary.
        vocabulary: usize,
    },
    /// A session file cannot be read, used or written.
    #[error("{}: {what}", path.display())]
    Snapshot {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
        /// What to do.
        hint: Hint,
    },
    /// A policy does not exist, or its parameters cannot be used.
    #[error("policy `{given}`: {reason}")]
    Policy {
        /// The policy as it was given.
        given: String,
        /// What is wrong with it.
        reason: String,
        /// What to do.
        hint: Hint,
    },
    /// A setting cannot be used.
    #[error("{what}: {reason}")]
    Setting {
        /// The setting.
        what: String,
        /// What is wrong with it.
        reason: String,
        /// What to do.
        hint: Hint,
    },
}

impl EngineError {
    /// What the caller can do about the error; `None` where nothing better than the text is known.
    pub fn hint(&self) -> Option<Hint> {
        match self {
            EngineError::Load(error) => Some(Hint::advice(error.hint())),
            EngineError::Heads(error) => Some(error.hint()),
            EngineError::Compute(error) => Hint::for_compute(error),
            EngineError::ContextFull { needed, .. } => Some(Hint::LargerContext { tokens: *needed }),
            EngineError::Tokenizer { error, .. } => Some(Hint::advice(error.hint())),
            EngineError::Vocabulary { .. } => Some(Hint::advice(
                "the file is damaged or put together from two models; convert the model again",
            )),
            EngineError::Chat { error: ChatError::NoThinkingSwitch, .. } => Some(Hint::OmitThinking),
            EngineError::Chat { error, .. } => Some(Hint::advice(error.hint())),
            EngineError::SavedChat { .. } => Some(Hint::advice(
                "the file is damaged or was made by another program; start a new conversation with another file",
            )),
            EngineError::Sampling(error) => Some(error.hint()),
            EngineError::Constraint(error) => Some(error.hint()),
            EngineError::UnusedProfile { .. } => Some(Hint::PolicyWithProfile),
            EngineError::NoHeadScores { .. } => Some(Hint::OmitHeadShares),
            EngineError::IncompleteProfile { gap: ProfileGap::RowShares, .. } => {
                Some(Hint::advice("calibrate the model again, or use the policy with heads=on"))
            }
            EngineError::IncompleteProfile { gap: ProfileGap::RowPredictors, .. } => {
                Some(Hint::MakeRowPredictors)
            }
            EngineError::Batch { hint, .. } => hint.clone(),
            EngineError::Memory(shortage) => Some(Hint::SmallerSession { on_device: shortage.on_device }),
            EngineError::NotFinite { .. } => Some(Hint::advice(
                "the model file is damaged, or its numbers overflow: download or convert it again, or use another one",
            )),
            EngineError::Token { vocabulary, .. } => {
                Some(Hint::advice(format!("use token numbers below {vocabulary}")))
            }
            EngineError::Snapshot { hint, .. }
            | EngineError::Policy { hint, .. }
            | EngineError::Setting { hint, .. } => Some(hint.clone()),
        }
    }

    /// Whether the computation was stopped by its interrupt flag.
    pub fn is_interrupt(&self) -> bool {
        matches!(self, EngineError::Compute(ggml::Error::Interrupted))
    }
}

/// How much memory a session needs, and how much there is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shortage {
    /// Tokens of the session.
    pub context: usize,
    /// Bytes that it needs.
    pub needed: usize,
    /// Bytes that are free.
    pub free: usize,
    /// Whether it is the device's memory, not the host's.
    pub on_device: bool,
    /// What limits the host's memory; `None` for the device's.
    pub bound: Option<MemoryBound>,
    /// Bytes that other sessions of this process were promised.
    pub reserved: usize,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Shortage { context, needed, free, on_device, bound, reserved } = self;
        let place = if *on_device { " on the GPU" } else { "" };
        write!(
            f,
            "a context of {context} tokens needs {needed} bytes besides the weights{place}, but {free} are free"
        )?;
        bound.map_or(Ok(()), |bound| write!(f, "{bound}"))?;
        match reserved {
            0 => Ok(()),
            reserved => write!(f, "; {reserved} are reserved for other sessions"),
        }
    }
}

/// Where numbers stop being finite.
///
/// ```
/// let origin = longhand::error::NotFiniteOrigin { tensor: "blk.3.ffn_down.weight".into(), layer: Some(3), layers: 24 };
/// assert_eq!(origin.to_string(), "blk.3.ffn_down.weight (layer 3 of 24)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotFiniteOrigin {
    /// The weight, by its name in the model file, with which the first of them were computed.
    pub tensor: String,
    /// Its layer, counted from 0; `None` for embeddings, the last norm and the output matrix.
    pub layer: Option<usize>,
    /// Layers of the model.
    pub layers: usize,
}

impl fmt::Display for NotFiniteOrigin {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.layer {
            Some(layer) => write!(f, "{} (layer {layer} of {})", self.tensor, self.layers),
            None => f.write_str(&self.tensor),
        }
    }
}

fn not_finite(origin: &Option<NotFiniteOrigin>) -> String {
    match origin {
        Some(origin) => format!("the model's numbers are not finite from {origin} on"),
        None => "the model's numbers are not finite".into(),
    }
}

/// The beginning of a message about a file.
fn in_file(path: &Option<PathBuf>) -> String {
    path.as_ref().map_or(String::new(), |path| format!("{}: ", path.display()))
}

/// What a caller can do about an error, as data: a program turns it into its own flags, buttons or calls.
/// `Display` gives plain words that name no flag of any program.
///
/// ```
/// use longhand::Hint;
///
/// fn button(hint: &Hint) -> String {
///     match hint {
///         Hint::LargerContext { tokens } => format!("Use {tokens} tokens"),
///         other => other.to_string(), // plain words
///     }
/// }
/// assert_eq!(button(&Hint::LargerContext { tokens: 4096 }), "Use 4096 tokens");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Hint {
    /// Make the session with a larger context, or give it a shorter text.
    LargerContext {
        /// Smallest context in tokens that the text fits.
        tokens: usize,
    },
    /// Use less memory.
    LessMemory {
        /// Whether a bound on a device's memory was reached: fewer layers there, or a higher bound, helps
        /// too.
        on_device: bool,
    },
    /// Plan a session that takes less memory.
    SmallerSession {
        /// Whether it is the device's memory: fewer layers there help too.
        on_device: bool,
    },
    /// Leave more of the GPU's memory to other programs.
    LeaveDeviceMemoryFree,
    /// Compute with fewer threads, or let the system allow more.
    FewerThreads,
    /// Compute without a GPU.
    UseCpu,
    /// Start the program again; compute without a GPU if the error comes back.
    Restart,
    /// Choose one of the GPUs that are there.
    ListDevices,
    /// Install NVIDIA's cuBLAS.
    InstallCublas,
    /// Give the KV store a larger budget, or let it need less.
    LargerBudget,
    /// Give the policy smaller parameters.
    SmallerParameters,
    /// Use this policy, or another one.
    OtherPolicy(&'static str),
    /// Give a head profile of the model.
    GiveHeadProfile,
    /// Make a new head profile for the model.
    MakeHeadProfile,
    /// Make a head profile with row predictors, or use a policy that needs none.
    MakeRowPredictors,
    /// Give no head profile.
    OmitHeadProfile,
    /// Give no head profile, or use a policy that has one.
    PolicyWithProfile,
    /// Leave it to the model whether it thinks.
    OmitThinking,
    /// Give the policy no shares of heads: the profile's own selection is used.
    OmitHeadShares,
    /// Calibrate nothing: the model uses ALiBi, so the policy `razor` computes its windows from the weights.
    WindowsFromWeights,
    /// Calibrate with a longer period of random tokens.
    LongerPeriod,
    /// Store keys and values as one of these types.
    CacheTypes(Vec<Type>),
    /// Use a model file whose weights have another type.
    OtherTensorType {
        /// Whether the CPU can compute with the weights as they are.
        cpu_can: bool,
    },
    /// Use another model.
    OtherModel,
    /// Check that the path is right, and that it is a file that can be read or written.
    CheckPath,
    /// Free space on the disk, or use another path.
    FreeDiskSpace,
    /// Name the servers that have the devices.
    NameServer,
    /// Start the server, or another version of it, and go on.
    StartServer,
    /// Advice in plain words.
    Advice(Cow<'static, str>),
}

impl Hint {
    /// Advice in plain words.
    pub fn advice(text: impl Into<Cow<'static, str>>) -> Hint {
        Hint::Advice(text.into())
    }

    /// What a caller can do about a failure to read or write a file.
    pub fn for_io(error: &io::Error) -> Hint {
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Hint::FreeDiskSpace,
            ErrorKind::FileTooLarge => Hint::advice("raise the limit on the size of files (`ulimit -f`)"),
            _ => Hint::CheckPath,
        }
    }

    /// What a caller can do about a failed computation; `None` where nothing better than the text is known.
    pub fn for_compute(error: &ggml::Error) -> Option<Hint> {
        Some(match error {
            ggml::Error::OutOfMemory { .. } => Hint::LessMemory { on_device: false },
            ggml::Error::OverBudget { .. } => Hint::LessMemory { on_device: true },
            ggml::Error::Threads { .. } => Hint::FewerThreads,
            ggml::Error::NoCuda(_)
            | ggml::Error::NoHip(_)
            | ggml::Error::NoMetal(_)
            | ggml::Error::NoVulkan(_) => Hint::UseCpu,
            ggml::Error::NoCublas(_) => Hint::InstallCublas,
            ggml::Error::NoProducts(_) => Hint::OtherTensorType { cpu_can: true },
            ggml::Error::NoSuchGpu { .. } => Hint::ListDevices,
            #[cfg(feature = "rpc")]
            ggml::Error::NoSuchRpcDevice { .. } => Hint::NameServer,
            #[cfg(feature = "rpc")]
            ggml::Error::Rpc { problem, .. } => for_server(problem),
            ggml::Error::Device(_) | ggml::Error::Aborted { out_of_memory: false, .. } => Hint::Restart,
            ggml::Error::Aborted { out_of_memory: true, .. } => Hint::LeaveDeviceMemoryFree,
            _ => return None,
        })
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Hint::LargerContext { tokens } => {
                return write!(f, "use a context of at least {tokens} tokens, or a shorter text");
            }
            Hint::LessMemory { on_device: false } => {
                "use a smaller context, a smaller KV budget or a smaller model"
            }
            Hint::LessMemory { on_device: true } => {
                "use a smaller context or a smaller KV budget, put fewer layers or none on the device, or allow more of its memory"
            }
            Hint::SmallerSession { on_device: false } => {
                "use a policy that keeps less, smaller cache types or a smaller context"
            }
            Hint::SmallerSession { on_device: true } => {
                "use a policy that keeps less, smaller cache types or a smaller context, or put fewer layers or none on the device"
            }
            Hint::LeaveDeviceMemoryFree => {
                "other programs may use the same GPU; leave more of its memory free, or compute on the CPU"
            }
            Hint::FewerThreads => "use fewer threads, or raise the limit on processes",
            Hint::UseCpu => "compute on the CPU",
            Hint::Restart => "start again; if the error comes back, compute on the CPU",
            Hint::ListDevices => "choose one of the GPUs of this machine",
            Hint::InstallCublas => {
                "install NVIDIA's cuBLAS of the release that is missing where the loader finds it, use a quantised model, or compute on the CPU"
            }
            Hint::LargerBudget => {
                "use a larger KV budget, a smaller context, smaller cache types, or let fewer heads keep everything"
            }
            Hint::SmallerParameters => "use smaller parameters, a larger context, or a budget, which sets them all",
            Hint::OtherPolicy(name) => return write!(f, "use another policy, for example {name}"),
            Hint::GiveHeadProfile => "give a head profile of this model, or make one by calibration",
            Hint::MakeHeadProfile => "make a new head profile for this model, by calibration or from a published head map",
            Hint::MakeRowPredictors => "calibrate the model with row predictors, or use another policy",
            Hint::OmitHeadProfile => "give no head profile, or use the policy with heads=off",
            Hint::PolicyWithProfile => "give no head profile, or use a policy with heads=on",
            Hint::OmitThinking => "leave it to the model whether it thinks",
            Hint::OmitHeadShares => "leave the policy's shares of heads out, and the profile's own selection is used",
            Hint::WindowsFromWeights => {
                "use the policy razor, which computes its windows from the weights; with heads=on, give a head profile"
            }
            Hint::LongerPeriod => "use a longer period",
            Hint::CacheTypes(types) => {
                let names: Vec<String> = types.iter().map(Type::to_string).collect();
                return write!(f, "use one of the types {}", names.join(", "));
            }
            Hint::OtherTensorType { cpu_can: false } => "use a model file quantised to another type",
            Hint::OtherTensorType { cpu_can: true } => {
                "use a model file quantised to another type, or compute on the CPU"
            }
            Hint::OtherModel => "use another model",
            Hint::CheckPath => "check the path, and that it is a file that you may read or write",
            Hint::FreeDiskSpace => "free some space on the disk, or use another path",
            Hint::NameServer => "name the servers that have the devices",
            Hint::StartServer => {
                "start the server and check that no firewall blocks it, then run this again: what was saved is still there"
            }
            Hint::Advice(text) => text,
        })
    }
}

/// What to do about a server.
#[cfg(feature = "rpc")]
fn for_server(problem: &ggml::rpc::RpcProblem) -> Hint {
    use ggml::rpc::RpcProblem;
    match problem {
        RpcProblem::Address => {
            Hint::advice("give the name or number of a machine, a colon and a port: gpu-box:50052")
        }
        RpcProblem::Unresolved(_) => Hint::advice("check the name, or give the number of the machine"),
        RpcProblem::Silent(_) => Hint::advice(
            "it may be busy with another client (llama.cpp's server takes one at a time), or another program has this port",
        ),
        RpcProblem::NotRpc | RpcProblem::Version { .. } => Hint::advice(
            "run the same version of this program there, or a server of llama.cpp with the same protocol",
        ),
        RpcProblem::Twice => Hint::advice("name each server once"),
        RpcProblem::Devices(_) => Hint::advice("start the server with one device or more"),
        _ => Hint::StartServer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heads::HeadShape;
    pub use crate::session::generate::sampler::SamplerError;

    /// Every hint, so that each text is checked.
    fn hints() -> Vec<Hint> {
        vec![
            Hint::LargerContext { tokens: 100 },
            Hint::LessMemory { on_device: false },
            Hint::LessMemory { on_device: true },
            Hint::SmallerSession { on_device: false },
            Hint::SmallerSession { on_device: true },
            Hint::LeaveDeviceMemoryFree,
            Hint::FewerThreads,
            Hint::UseCpu,
            Hint::Restart,
            Hint::ListDevices,
            Hint::InstallCublas,
            Hint::LargerBudget,
            Hint::SmallerParameters,
            Hint::OtherPolicy("snapkv"),
            Hint::GiveHeadProfile,
            Hint::MakeHeadProfile,
            Hint::MakeRowPredictors,
            Hint::OmitHeadProfile,
            Hint::PolicyWithProfile,
            Hint::OmitThinking,
            Hint::OmitHeadShares,
            Hint::WindowsFromWeights,
            Hint::LongerPeriod,
            Hint::CacheTypes(vec![Type::F16, Type::F32]),
            Hint::OtherTensorType { cpu_can: true },
            Hint::OtherTensorType { cpu_can: false },
            Hint::OtherModel,
            Hint::CheckPath,
            Hint::FreeDiskSpace,
            Hint::NameServer,
            Hint::StartServer,
            Hint::advice("read the text again"),
        ]
    }

    fn heads_errors() -> Vec<HeadsError> {
        let what = || "induction".to_owned();
        let model = HeadShape::new(2, 4, 2).expect("a shape");
        let share = || HeadsError::Share { what: "a share", value: 2.0 };
        vec![
            HeadsError::Io { action: "read", path: "heads.json".into(), source: ErrorKind::NotFound.into() },
            HeadsError::In { path: "heads.json".into(), error: Box::new(share()) },
            HeadsError::TooLarge { path: "heads.json".into(), limit: 10 },
            HeadsError::UnknownMap { name: what() },
            HeadsError::Malformed { format: "head profile", what: what(), hint: Hint::MakeHeadProfile },
            HeadsError::Version { found: 2, known: 1 },
            HeadsError::Shape { what: "the map", found: what(), model },
            HeadsError::Fingerprint { found: "a1".into(), model: "b2".into() },
            HeadsError::NoModel { layers: 0, heads: 4, kv_heads: 3 },
            HeadsError::Length { what: what(), found: 1, needed: 2 },
            HeadsError::NotFinite { what: what(), layer: 0, head: 1 },
            share(),
        ]
    }

    fn engine_errors() -> Vec<EngineError> {
        let mut errors = vec![
            LoadError::MissingKey { key: "llama.block_count".into() }.into(),
            ggml::Error::OutOfMemory { what: "weights".into(), bytes: 1, device: "CPU".into() }.into(),
            ggml::Error::OverBudget {
                what: "weights".into(),
                bytes: 2,
                device: "CUDA0".into(),
                used: 0,
                limit: 1,
            }
            .into(),
            ggml::Error::NoCuda(ggml::NoCuda::NotBuilt).into(),
            ggml::Error::NoHip(ggml::NoHip::NotBuilt).into(),
            ggml::Error::NoMetal(ggml::NoMetal::NotBuilt).into(),
            ggml::Error::NoVulkan(ggml::NoVulkan::NotBuilt).into(),
            ggml::Error::NoCublas("not found".into()).into(),
            ggml::Error::NoProducts("tq1_0").into(),
            ggml::Error::NoSuchGpu { index: 1, gpus: 1 }.into(),
            ggml::Error::Device("lost".into()).into(),
            #[cfg(feature = "rpc")]
            ggml::Error::NoSuchRpcDevice { index: 1, devices: 1 }.into(),
            ggml::Error::Aborted { message: "out of memory".into(), out_of_memory: true }.into(),
            ggml::Error::Aborted { message: "assertion failed".into(), out_of_memory: false }.into(),
            EngineError::ContextFull { needed: 40, context: 32 },
            EngineError::Token { token: 9, vocabulary: 8 },
            EngineError::Snapshot {
                path: "session".into(),
                what: "its checksum is wrong".into(),
                hint: Hint::CheckPath,
            },
            EngineError::Policy { given: "razor".into(), reason: "wrong".into(), hint: Hint::LargerBudget },
            EngineError::Setting { what: "context".into(), reason: "wrong".into(), hint: Hint::OtherModel },
        ];
        errors.extend(heads_errors().into_iter().map(EngineError::from));
        errors.extend(constraint_errors().map(EngineError::from));
        #[cfg(feature = "rpc")]
        errors.extend(server_errors());
        errors
    }

    fn constraint_errors() -> [ConstraintError; 6] {
        let what = "wrong".to_owned();
        [
            ConstraintError::Json { what: what.clone() },
            ConstraintError::Schema { at: "#".into(), what: what.clone() },
            ConstraintError::Grammar { what: what.clone() },
            ConstraintError::Unsatisfiable { why: what.clone() },
            ConstraintError::TooComplex { what: what.clone() },
            ConstraintError::Tokens { what },
        ]
    }

    #[cfg(feature = "rpc")]
    fn server_errors() -> impl Iterator<Item = EngineError> {
        use ggml::rpc::RpcProblem;
        let problems = [
            RpcProblem::Address,
            RpcProblem::Unresolved("unknown".into()),
            RpcProblem::Unreachable("refused".into()),
            RpcProblem::Silent(10),
            RpcProblem::NotRpc,
            RpcProblem::Version { found: "6.0.0".into(), needed: "7.0.0".into() },
            RpcProblem::Devices(0),
            RpcProblem::Twice,
            RpcProblem::WrongAnswer("0".into()),
            RpcProblem::Lost("reset".into()),
        ];
        problems.map(|problem| ggml::Error::Rpc { server: "box".into(), problem }.into()).into_iter()
    }

    /// No flag, no command of the program and no hint is in a library's text.
    #[track_caller]
    fn check_plain(text: &str) {
        let flag = |word: &str| {
            let word = word.trim_start_matches(['(', '`']);
            word.strip_prefix('-')
                .is_some_and(|rest| rest.starts_with(|c: char| c == '-' || c.is_alphabetic()))
        };
        assert!(!text.is_empty() && !text.contains("hint") && !text.contains("longhand "), "{text}");
        assert!(!text.split_whitespace().any(flag), "{text}");
    }

    #[test]
    fn every_error_has_a_hint() {
        for error in engine_errors() {
            assert!(error.hint().is_some(), "{error}");
        }
        assert_eq!(EngineError::from(ggml::Error::Interrupted).hint(), None);
    }

    #[test]
    fn error_texts_have_no_hints_and_no_flags() {
        // ggml's own texts may name the flags of other programs.
        for error in engine_errors().iter().filter(|error| !matches!(error, EngineError::Compute(_))) {
            check_plain(&error.to_string());
        }
        check_plain(&SamplerError { option: "top-p", value: 2.0, range: "between 0 and 1" }.to_string());
    }

    #[test]
    fn hints_have_no_flags() {
        let of_errors = engine_errors().into_iter().filter_map(|error| error.hint());
        for hint in hints().into_iter().chain(of_errors) {
            check_plain(&hint.to_string());
        }
    }
}
