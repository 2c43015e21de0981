//! `longhand inspect`: the content of any GGUF file, including those that longhand cannot run.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::Args;
use longhand::{EngineError, EngineOptions};
use models::gguf::{GgufFile, Value};
use models::invisible::escape_name;
use models::spec::{Experts, KvHeads, ModelSpec};
use models::tokenizer::Tokenizer;
use serde_json::{Map, json};
use terminal::format;
use terminal::progress::ProgressBar;
use terminal::table::Table;

use crate::app::App;
use crate::models::args::ModelFileArgs;

/// Elements shown of an array.
const SHOWN_ELEMENTS: usize = 8;

/// Show metadata, tensors and sizes of a model file. Works with every GGUF file.
#[derive(Debug, Args)]
pub struct InspectArgs {
    #[command(flatten)]
    model: ModelFileArgs,
    /// Print one JSON object; long arrays are cut
    #[arg(long)]
    json: bool,
    /// With --json: do not cut arrays
    #[arg(long, requires = "json")]
    all: bool,
    /// Print the model's fingerprint too, by which longhand tells models apart. This reads the whole file
    #[arg(long)]
    fingerprint: bool,
}

/// Runs the command.
pub fn run(app: &App, args: &InspectArgs) -> Result<()> {
    let file = args.model.source(app)?.open()?;
    let name = file
        .path()
        .map_or_else(|| models::embedded::EMBEDDED_NAME.to_owned(), |path| path.display().to_string());
    let fingerprint = args.fingerprint.then(|| fingerprint(app, &file)).transpose()?;
    if args.json {
        let mut object = object(&name, &file, if args.all { usize::MAX } else { SHOWN_ELEMENTS });
        if let Some(fingerprint) = fingerprint {
            object["fingerprint"] = fingerprint.into();
        }
        file.check_complete()?;
        return app.console.print_json(&object);
    }
    let text = text(&name, &file, fingerprint.as_deref());
    file.check_complete()?;
    Ok(app.console.print_report(&text)?)
}

/// The model's description, or why the model cannot be run.
pub fn spec(file: &GgufFile) -> Result<ModelSpec, String> {
    let spec = ModelSpec::from_gguf(file).map_err(|error| error.kind().to_string())?;
    models::spec::ModelTensors::from_gguf(file, &spec).map_err(|error| error.kind().to_string())?;
    Ok(spec)
}

/// The fingerprint of the model. Ctrl-C stops it.
fn fingerprint(app: &App, file: &GgufFile) -> Result<String, EngineError> {
    let (threads, flag) = (EngineOptions::default().threads(), app.interrupt.flag());
    let mut bar = ProgressBar::new(&app.console, "reading the model");
    let mut go_on = |done: u64| {
        bar.show_bytes(done, weight_bytes(file));
        !flag.is_set()
    };
    let fingerprint = app.interrupt.computing(|| file.fingerprint(threads, &mut go_on));
    file.check_complete()?;
    Ok(fingerprint.ok_or(ggml::Error::Interrupted)?)
}

fn weight_bytes(file: &GgufFile) -> u64 {
    file.tensors().iter().map(|tensor| tensor.bytes).sum()
}

/// Bytes of all files of a model.
pub fn file_bytes(file: &GgufFile) -> usize {
    (0..file.shards()).map(|i| file.shard_bytes(i).len()).sum()
}

fn text(name: &str, file: &GgufFile, fingerprint: Option<&str>) -> String {
    let mut out = format!(
        "{name}: GGUF version {}, {}{}{}\n",
        file.version(),
        format::bytes(file_bytes(file)),
        if file.shards() > 1 { format!(" in {} files", file.shards()) } else { String::new() },
        match file.file_type() {
            none if none.is_empty() => none,
            file_type => format!(", {file_type}"),
        },
    );
    if let Some(fingerprint) = fingerprint {
        out += &format!("fingerprint {fingerprint}\n");
    }
    match spec(file) {
        Ok(spec) => {
            out += &format!(
                "{}: {} parameters, {} layers{}, width {}, {} query and {} KV heads of {}{}, feed-forward {}{}, \
                 vocabulary {}, context {}\n",
                spec.arch.name(),
                format::count(spec.parameters() as usize),
                spec.n_layers,
                match spec.attention_layers() {
                    all if all == spec.n_layers => String::new(),
                    some => format!(" ({some} of them attend, the others keep a state)"),
                },
                spec.n_embd,
                spec.n_heads,
                spec.n_kv_heads,
                spec.head_dim,
                other_heads_text(&spec),
                spec.n_ff,
                spec.experts.map_or(String::new(), |experts| experts_text(&experts, spec.n_ff)),
                spec.n_vocab,
                spec.n_ctx_train
            );
        }
        Err(why) => out += &format!("cannot be run here: {why}\n"),
    }
    match Tokenizer::from_gguf(file) {
        Ok(tokenizer) => {
            out += &format!(
                "tokenizer: {} tokens, {} of them end an answer\n",
                format::count(tokenizer.n_vocab()),
                tokenizer.eog_tokens().len()
            );
        }
        Err(why) => out += &format!("no usable tokenizer: {why}\n"),
    }

    out += "\n";
    let mut table = Table::new(["key", "type", "value"]);
    for (key, value) in file.metadata() {
        table.row([escape_name(key), value.type_name(), value.to_string()]);
    }
    out += &table.plain();

    /// Totals of the tensors of one type.
    #[derive(Default)]
    struct Totals {
        tensors: usize,
        bytes: u64,
    }
    let mut types: BTreeMap<&str, Totals> = BTreeMap::new();
    let mut table = Table::new(["tensor", "type", ">shape", ">bytes"]);
    for tensor in file.tensors() {
        let totals = types.entry(tensor.ty.name()).or_default();
        totals.tensors += 1;
        totals.bytes += tensor.bytes;
        let dims: Vec<String> = tensor.dims.iter().map(u64::to_string).collect();
        table.row([
            escape_name(&tensor.name),
            tensor.ty.name().to_owned(),
            dims.join(" x "),
            format::bytes(tensor.bytes as usize),
        ]);
    }
    if !file.tensors().is_empty() {
        out += &format!("\n{}\n", table.plain());
        for (ty, Totals { tensors, bytes }) in types {
            out += &format!("{tensors} tensors of {ty}: {}\n", format::bytes(bytes as usize));
        }
    }
    out += &format!("{} tensors: {}\n", file.tensors().len(), format::bytes(weight_bytes(file) as usize));
    out
}

fn object(name: &str, file: &GgufFile, shown: usize) -> serde_json::Value {
    let metadata: Map<String, serde_json::Value> =
        file.metadata().map(|(key, value)| (key.to_owned(), metadata(value, shown))).collect();
    let tensors: Vec<serde_json::Value> = file
        .tensors()
        .iter()
        .map(|tensor| {
            json!({
                "name": tensor.name,
                "type": tensor.ty.name(),
                "shape": tensor.dims,
                "bytes": tensor.bytes,
                "offset": tensor.offset,
                "part": tensor.shard,
            })
        })
        .collect();
    let mut object = json!({
        "file": name,
        "version": file.version(),
        "parts": file.shards(),
        "bytes": file_bytes(file),
        "weight_bytes": weight_bytes(file),
        "type": file.file_type(),
    });
    match spec(file) {
        Ok(spec) => {
            object["model"] = json!({
                "architecture": spec.arch.name(),
                "name": spec.name,
                "parameters": spec.parameters(),
                "layers": spec.n_layers,
                "attention_layers": spec.attention_layers(),
                "embedding": spec.n_embd,
                "heads": spec.n_heads,
                "kv_heads": spec.n_kv_heads,
                "head_dim": spec.head_dim,
                "feed_forward": spec.n_ff,
                "experts": spec.experts.map(|experts| json!({
                    "count": experts.count,
                    "used": experts.used,
                    "feed_forward": experts.width(spec.n_ff),
                })),
                "vocabulary": spec.n_vocab,
                "context": spec.n_ctx_train,
            });
        }
        Err(why) => object["cannot_be_run"] = why.into(),
    }
    object["metadata"] = metadata.into();
    object["tensors"] = tensors.into();
    object
}

/// The heads of local layers, where they are others.
fn other_heads_text(spec: &ModelSpec) -> String {
    let heads = spec.local_layers.as_ref().and_then(|local| local.heads);
    heads.map_or(String::new(), |KvHeads { count, dim }| format!(" ({count} of {dim} in local layers)"))
}

/// The experts of a model whose other feed-forward networks have the width `n_ff`.
fn experts_text(experts: &Experts, n_ff: usize) -> String {
    format!(", {} of {} experts of {}", experts.used, experts.count, experts.width(n_ff))
}

fn metadata(value: &Value, shown: usize) -> serde_json::Value {
    match value {
        Value::Bool(v) => (*v).into(),
        Value::F32(_) | Value::F64(_) => float(value.as_float().unwrap_or(f64::NAN)),
        Value::String(s) => lossy_text(s.as_bytes()),
        Value::Array(array) => {
            let element = |i| array.get(i).map_or(serde_json::Value::Null, |value| metadata(&value, shown));
            let first: Vec<serde_json::Value> = (0..array.len().min(shown)).map(element).collect();
            match first.len() == array.len() {
                true => first.into(),
                false => json!({"length": array.len(), "first": first}),
            }
        }
        other => other.as_int().map_or(serde_json::Value::Null, integer),
    }
}

/// A number, or text if it is not finite, because JSON has no such numbers.
fn float(value: f64) -> serde_json::Value {
    serde_json::Number::from_f64(value).map_or_else(|| value.to_string().into(), serde_json::Value::Number)
}

fn integer(value: i128) -> serde_json::Value {
    match (i64::try_from(value), u64::try_from(value)) {
        (Ok(value), _) => value.into(),
        (_, Ok(value)) => value.into(),
        _ => value.to_string().into(),
    }
}

/// Text, with invalid UTF-8 replaced by U+FFFD.
fn lossy_text(bytes: &[u8]) -> serde_json::Value {
    String::from_utf8_lossy(bytes).into_owned().into()
}
