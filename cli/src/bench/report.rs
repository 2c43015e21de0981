//! What `bench` prints: a table for people and documents, or objects with llama-bench's names and some of our own.

use anyhow::Result;
use longhand::Engine;
use serde_json::{Value, json};

use super::measure::Case;
use super::{BenchArgs, Fill, Output};
use crate::app::App;
use crate::format;
use crate::table::Table;

/// What all cases have in common.
pub struct Report<'a> {
    /// The model.
    pub engine: &'a Engine,
    /// What it is called.
    pub name: String,
    /// Its file.
    pub file: String,
    /// Measured bytes per second.
    pub bandwidth: f64,
    /// The settings.
    pub args: &'a BenchArgs,
}

impl Report<'_> {
    /// Prints all cases.
    pub fn print(&self, app: &App, cases: &[Case]) -> Result<()> {
        match self.args.output {
            Output::Json => {
                let objects: Vec<Value> = cases.iter().map(|case| self.object(case)).collect();
                return app.console.print_json(&objects);
            }
            Output::Md => app.console.print_foreign(&self.table(cases).markdown())?,
            Output::Csv => app.console.print_foreign(&self.table(cases).csv())?,
        }
        if self.args.output == Output::Md {
            app.console.print(&format!("\nmemory bandwidth measured: {:.1} GB/s\n", self.bandwidth / 1e9))?;
        }
        Ok(())
    }

    /// Bytes of weights that a decode step reads: all matrices, of the token embedding only where it is the output too.
    fn weight_bytes(&self) -> usize {
        let file = self.engine.file();
        let looked_up = |name: &str| name == "token_embd.weight" && !self.engine.spec().tied_output;
        let bytes: u64 =
            file.tensors().iter().filter(|tensor| !looked_up(&tensor.name)).map(|tensor| tensor.bytes).sum();
        bytes as usize
    }

    /// Bytes per second that the tokens of a generation need at least; nothing can be said of prompts, whose tokens share.
    fn moved(&self, case: &Case) -> Option<f64> {
        (case.test.generate > 0).then(|| case.speed().0 * (self.weight_bytes() + case.kv_bytes) as f64)
    }

    fn model_bytes(&self) -> u64 {
        self.engine.file().tensors().iter().map(|tensor| tensor.bytes).sum()
    }

    fn table(&self, cases: &[Case]) -> Table {
        let mut table = Table::new([
            "model",
            ">size",
            ">params",
            "backend",
            ">threads",
            "type_k",
            "type_v",
            "policy",
            "test",
            ">t/s",
            ">KV",
            ">of full",
            ">GB/s",
            ">of memory",
            ">compressing",
        ]);
        for case in cases {
            let (mean, deviation) = case.speed();
            let moved = self.moved(case);
            table.row([
                self.name.clone(),
                format::bytes(self.model_bytes() as usize),
                format!("{:.2} M", self.engine.spec().parameters() as f64 / 1e6),
                self.backend().into(),
                self.engine.threads().to_string(),
                self.args.types.types().0.name().to_owned(),
                self.args.types.types().1.name().to_owned(),
                case.policy.to_string(),
                case.test.to_string(),
                format!("{mean:.2} ± {deviation:.2}"),
                format::bytes(case.kv_bytes),
                format::percent(format::share(case.kv_bytes, case.kv_full)),
                moved.map_or_else(|| "-".into(), |moved| format!("{:.1}", moved / 1e9)),
                moved.map_or_else(|| "-".into(), |moved| format::percent(moved / self.bandwidth)),
                format!("{:.1} ms", case.compressing.as_secs_f64() * 1e3),
            ]);
        }
        table
    }

    /// What computes, in llama.cpp's words.
    fn backend(&self) -> &'static str {
        if self.engine.layers_on_device() > 0 { "CUDA" } else { "CPU" }
    }

    fn object(&self, case: &Case) -> Value {
        let ((speed, speed_deviation), (ns, ns_deviation)) = (case.speed(), case.nanoseconds());
        let moved = self.moved(case);
        let spec = self.engine.spec();
        json!({
            "build_number": 0,
            "build_commit": format!("longhand {}", env!("CARGO_PKG_VERSION")),
            "backends": self.backend(),
            "n_gpu_layers": self.engine.layers_on_device(),
            "model_filename": self.file,
            "model_type": self.name,
            "model_size": self.model_bytes(),
            "model_n_params": spec.parameters(),
            "n_batch": self.args.chunk.tokens(),
            "n_ubatch": self.args.chunk.tokens(),
            "n_threads": self.engine.threads(),
            "type_k": self.args.types.types().0.name(),
            "type_v": self.args.types.types().1.name(),
            "n_prompt": case.test.prompt,
            "n_gen": case.test.generate,
            "n_depth": case.test.depth,
            "avg_ns": ns.round() as u64,
            "stddev_ns": ns_deviation.round() as u64,
            "avg_ts": speed,
            "stddev_ts": speed_deviation,
            "samples_ns": case.times.iter().map(|time| time.as_nanos() as u64).collect::<Vec<_>>(),
            "samples_ts": case.samples(),
            "policy": case.policy.to_string(),
            "compress_ns": case.compressing.as_nanos() as u64,
            "prefill": self.args.prefill.name(),
            "fill": if self.args.fill == Fill::Random { "random" } else { "prefill" },
            "kv_heads": spec.n_layers * spec.n_kv_heads,
            "retrieval_heads": case.retrieval_heads,
            "kv_bytes": case.kv_bytes,
            "kv_bytes_full": case.kv_full,
            "kv_share": format::share(case.kv_bytes, case.kv_full),
            "weight_bytes_per_token": self.weight_bytes(),
            "bytes_per_token": self.weight_bytes() + case.kv_bytes,
            "bytes_per_second": moved,
            "memory_bytes_per_second": self.bandwidth,
            "logits_hash": format!("{:016x}", case.logits_hash),
        })
    }
}
