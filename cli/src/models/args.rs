//! Flags for the model and its threads.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use hub::{self, HubModel};
use longhand::{ModelSource, SetupOptions};
use models::shapes::{FileType, ModelShape};
use terminal::values;

use crate::app::App;
use crate::args::device::{DeviceArgs, Shares};
use crate::args::habits::llama::UnusedArgs;
use crate::failure::Failure;
use crate::models::{local_models, source};

/// Flags of commands that open a model.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Model")]
pub struct ModelArgs {
    /// GGUF file (any part of a split one), or the name of a model in `longhand models` [default: the small
    /// built-in model]
    // Only `eval` takes several. Elsewhere the error about two models says more than clap's about a flag.
    #[arg(id = "model", short = 'm', long, value_name = "MODEL")]
    models: Vec<PathBuf>,
    /// Number of CPU threads [default: one for each logical core, which is also the maximum]
    #[arg(short = 't', long, value_parser = values::threads)]
    threads: Option<usize>,
    /// Use weights as they are in the file: needs less memory, but is slower
    #[arg(long)]
    no_repack: bool,
    /// Attend to long texts in f32, not in integers, as processors with VNNI, AVX2 or ARM's dot products do. A little more
    /// exact, and slower; not measured on ARM. Without effect on other processors, on GPUs, and on saved conversations, which
    /// go on as they began
    #[arg(long)]
    no_int8: bool,
    #[command(flatten)]
    other: OtherModels,
    #[command(flatten)]
    pub device: DeviceArgs,
    #[command(flatten)]
    unused: UnusedArgs,
}

/// Models that are not the path or name of a file.
#[derive(Clone, Debug, Args)]
struct OtherModels {
    /// Model from Hugging Face, also -hf: downloaded once, then found again without a network. Without QUANT, a file
    /// that is there already is used [default QUANT of a download: Q4_K_M, else Q8_0, else the first file]
    #[arg(long, value_name = "OWNER/REPOSITORY[:QUANT]", value_parser = hub::parse)]
    hf_repo: Option<HubModel>,
    /// With -hf: compare the file that is here with its checksum, and download it again if it is damaged or not the
    /// latest
    #[arg(long, requires = "hf_repo")]
    redownload: bool,
    /// The model where none is given. Only settings set it: see `config`.
    #[arg(long, hide = true, value_name = "FILE")]
    default_model: Option<PathBuf>,
    /// Folders with model files, besides the caches of other programs.
    #[arg(long, hide = true, value_name = "FOLDER")]
    model_folders: Vec<PathBuf>,
}

impl OtherModels {
    /// The model that is given, else the default one, else the embedded one. `flags` and `argument` are paths
    /// or names.
    fn source(&self, app: &App, flags: &[PathBuf], argument: Option<&Path>) -> Result<ModelSource, Failure> {
        let hub = self.hf_repo.as_ref().map(HubModel::to_string);
        let paths = flags.iter().map(PathBuf::as_path).chain(argument);
        let given = paths.clone().map(|path| path.display().to_string());
        if let [first, second, ..] = &given.chain(hub).collect::<Vec<_>>()[..] {
            return Err(Failure::usage(
                format!("two models are given: {first} and {second}"),
                "name the model once: with -m, with -hf or as the first argument",
            ));
        }
        if let Some(model) = &self.hf_repo {
            return Ok(ModelSource::File(hub::path(&app.console, &app.interrupt, model, self.redownload)?));
        }
        source(paths.last().or(self.default_model.as_deref()), &self.model_folders)
    }
}

/// The model of commands that only read its file.
#[derive(Debug, Args)]
pub struct ModelFileArgs {
    #[command(flatten)]
    argument: ModelArg,
    /// GGUF file, or the name of a model in `longhand models` [default: the built-in model]
    #[arg(short = 'm', long, value_name = "MODEL", conflicts_with = "model_arg")]
    model: Option<PathBuf>,
    #[command(flatten)]
    other: OtherModels,
}

impl ModelFileArgs {
    /// The model that is given, else the default one, else the embedded one.
    ///
    /// # Errors
    /// A name that several models have, or none; a download that fails.
    pub fn source(&self, app: &App) -> Result<ModelSource, Failure> {
        self.other.source(app, self.model.as_slice(), self.argument.path.as_deref())
    }
}

/// The model as a positional argument.
#[derive(Clone, Debug, Args)]
pub struct ModelArg {
    /// Model file (GGUF) or name, the same as -m MODEL
    #[arg(id = "model_arg", value_name = "MODEL")]
    pub path: Option<PathBuf>,
}

impl ModelArgs {
    /// The model given by -m, by -hf or by a positional argument, else the default one, else the embedded one.
    ///
    /// # Errors
    /// Two models are given; a name that several models have, or none; a download that fails.
    pub fn source(&self, app: &App, argument: Option<&Path>) -> Result<ModelSource, Failure> {
        self.other.source(app, &self.models, argument)
    }

    /// All models given by -m and -hf, else the default one, else the embedded one.
    ///
    /// # Errors
    /// A name that several models have, or none; a download that fails.
    #[cfg(feature = "lab")]
    pub fn sources(&self, app: &App) -> Result<Vec<ModelSource>, Failure> {
        if self.models.is_empty() {
            return Ok(vec![self.source(app, None)?]);
        }
        let folders = &self.other.model_folders;
        let named = self.models.iter().map(|model| source(Some(model), folders));
        let path = |model| {
            Ok(ModelSource::File(hub::path(&app.console, &app.interrupt, model, self.other.redownload)?))
        };
        let hub = self.other.hf_repo.iter().map(path);
        named.chain(hub).collect()
    }

    /// The model that a text names as these flags do: a path, a name of `longhand models`, or `-hf` and a repository.
    ///
    /// # Errors
    /// A name that several models have, or none; a download that fails.
    pub fn named(&self, app: &App, text: &str) -> Result<ModelSource, Failure> {
        let hub = ["-hf", "--hf-repo"].iter().find_map(|flag| text.strip_prefix(flag));
        if let Some(repository) = hub.filter(|rest| rest.starts_with([' ', '='])) {
            let model = hub::parse(repository[1..].trim())?;
            return Ok(ModelSource::File(hub::path(&app.console, &app.interrupt, &model, false)?));
        }
        source(Some(Path::new(text)), &self.other.model_folders)
    }

    /// Whether a text is the name of a model on this machine, not only a part of one.
    pub fn is_name(&self, text: &str) -> bool {
        local_models::is_name(text, &self.other.model_folders)
    }

    /// Adds models that were given without a flag.
    pub fn add(&mut self, models: Vec<PathBuf>) {
        self.models.extend(models);
    }

    /// Folders with model files, besides the caches of other programs.
    pub fn folders(&self) -> &[PathBuf] {
        &self.other.model_folders
    }

    /// Whether a flag names the model.
    pub fn is_named(&self) -> bool {
        !self.models.is_empty() || self.other.hf_repo.is_some()
    }

    /// How the model was given, as words of a command line; empty where none was.
    pub fn model_words(&self, argument: Option<&Path>) -> Vec<String> {
        match (&self.other.hf_repo, self.models.first().map(PathBuf::as_path).or(argument)) {
            (Some(model), _) => vec!["-hf".to_owned(), model.to_string()],
            (None, Some(path)) => vec![path.display().to_string()],
            (None, None) => Vec::new(),
        }
    }

    /// Other flags that were given, as words of a command line.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if let Some(threads) = self.threads {
            words.extend(["-t".to_owned(), threads.to_string()]);
        }
        if self.no_repack {
            words.push("--no-repack".to_owned());
        }
        if self.no_int8 {
            words.push("--no-int8".to_owned());
        }
        words.extend(self.device.words());
        words
    }

    /// Setup options with these flags. Prints a note for each flag without effect, and connects to the servers of `--rpc`.
    ///
    /// # Errors
    /// Where such a server cannot be used.
    pub fn setup_options(&self, app: &App) -> Result<SetupOptions> {
        self.device.add_servers()?;
        for note in self.unused.notes() {
            app.console.note(&format!("note: {note}"));
        }
        let options = SetupOptions {
            threads: self.threads,
            repack: !self.no_repack,
            int8: !self.no_int8,
            device: self.device.device.clone(),
            gpu_layers: self.device.n_gpu_layers,
            host_experts: self.device.n_cpu_moe,
            gpu_shares: self.device.tensor_split.clone().map_or(Vec::new(), |Shares(shares)| shares),
            gpu_memory: self.device.memory.clone(),
            interrupt: app.interrupt.flag(),
            ..SetupOptions::default()
        };
        let threads = options.engine().threads();
        if self.threads.is_some_and(|asked| asked > threads) {
            app.console.note(&format!(
                "note: {threads} threads compute, one for each processor that can be used; more would be slower"
            ));
        }
        Ok(options)
    }
}

/// Help about `--shape`, which begins with `what`.
pub fn shape_help(what: &str) -> String {
    let shapes: Vec<&str> = ModelShape::all().iter().map(|shape| shape.name).collect();
    let types: Vec<&str> = FileType::ALL.iter().map(|file_type| file_type.name()).collect();
    format!(
        "{what}: {}. Optionally with a number of layers after an @, and with a file type after a colon: {} [default: q4_k_m]",
        shapes.join(", "),
        types.join(", ")
    )
}
