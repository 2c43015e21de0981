//! Prints the results of `bench` as a table, or as JSON with llama-bench's keys and some more.

use anyhow::Result;
use kernels::machine::Arithmetic;
use longhand::{DeviceKind, Engine};
use models::gguf::TensorInfo;
use serde_json::{Value, json};
use terminal::format;
use terminal::table::Table;

use crate::app::App;
use crate::commands::bench::measure::{Measurement, Statistics};
use crate::commands::bench::{BenchArgs, Fill, Output};

/// What all measurements have in common.
pub struct Report<'a> {
    /// The loaded model.
    pub engine: &'a Engine,
    /// Name of the model.
    pub name: String,
    /// Path of its file.
    pub file: String,
    /// Measured memory bandwidth in bytes per second.
    pub bandwidth: f64,
    /// What the processors can compute, where all is computed there.
    pub arithmetic: Option<Arithmetic>,
    /// The arguments.
    pub args: &'a BenchArgs,
}

impl Report<'_> {
    /// Prints all measurements.
    pub fn print(&self, app: &App, measurements: &[Measurement]) -> Result<()> {
        match self.args.output() {
            Output::Json => {
                let objects: Vec<Value> =
                    measurements.iter().map(|measurement| self.object(measurement)).collect();
                return app.console.print_json(&objects);
            }
            Output::Md => app.console.print_report(&self.table(measurements).markdown())?,
            Output::Csv => app.console.print_report(&self.table(measurements).csv())?,
        }
        if self.args.output() == Output::Md {
            app.console.print(&self.machine())?;
        }
        Ok(())
    }

    /// Bytes of weights that a decode step reads. Of embeddings it reads one row, unless they are the output matrix too.
    /// Of the experts it reads those that are chosen.
    fn weight_bytes(&self) -> usize {
        let file = self.engine.file();
        let only_one_row = |name: &str| match name {
            "token_embd.weight" => !self.engine.spec().tied_output,
            _ => ["position_embd.weight", "per_layer_token_embd.weight"].contains(&name),
        };
        let tensors = file.tensors().iter().filter(|tensor| !only_one_row(&tensor.name));
        let read = |tensor: &TensorInfo| match self.engine.spec().experts {
            Some(experts) if tensor.name.contains("_exps.") => {
                tensor.bytes / experts.count as u64 * experts.used as u64
            }
            _ => tensor.bytes,
        };
        tensors.map(read).sum::<u64>() as usize
    }

    /// Bytes per second that a generation reads at least; `None` for prompts, whose tokens share the weights
    /// they read.
    fn bytes_per_second(&self, measurement: &Measurement) -> Option<f64> {
        (measurement.test.generate > 0)
            .then(|| measurement.speed().mean * (self.weight_bytes() + measurement.kv_bytes) as f64)
    }

    /// What was measured of the machine: no test can be faster than its bytes and its operations allow.
    fn machine(&self) -> String {
        let mut text = format!("\nmeasured: {:.1} GB/s of memory", self.bandwidth / 1e9);
        if let Some(Arithmetic { floats, bytes }) = self.arithmetic {
            text += &format!(", {:.0} billion operations a second in f32", floats / 1e9);
            if let Some(bytes) = bytes {
                text += &format!(", {:.0} in integers of 8 bits", bytes / 1e9);
            }
        }
        text + "\n"
    }

    fn possible_operations(&self) -> Option<Value> {
        self.arithmetic.map(|Arithmetic { floats, bytes }| json!({ "f32": floats, "int8": bytes }))
    }

    fn operations_per_second(measurement: &Measurement) -> f64 {
        measurement.speed().mean * measurement.operations
    }

    fn model_bytes(&self) -> u64 {
        self.engine.file().tensors().iter().map(|tensor| tensor.bytes).sum()
    }

    fn table(&self, measurements: &[Measurement]) -> Table {
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
            ">ms/token",
            ">p99 ms",
            ">KV",
            ">of full",
            ">GB/s",
            ">of memory",
            ">GOP/s",
            ">of arithmetic",
            ">compressing",
        ]);
        for measurement in measurements {
            let Statistics { mean, deviation } = measurement.speed();
            let bytes_per_second = self.bytes_per_second(measurement);
            let operations = Self::operations_per_second(measurement);
            let step = |percent| {
                let time = measurement.step_percentile(percent);
                time.map_or_else(|| "-".into(), |time| format!("{:.1}", time.as_secs_f64() * 1e3))
            };
            table.row([
                self.name.clone(),
                format::bytes(self.model_bytes() as usize),
                format!("{:.2} M", self.engine.spec().parameters() as f64 / 1e6),
                self.backend(),
                self.engine.threads().to_string(),
                self.args.types.types().0.name().to_owned(),
                self.args.types.types().1.name().to_owned(),
                measurement.policy.to_string(),
                measurement.test.to_string(),
                format!("{mean:.2} ± {deviation:.2}"),
                step(50),
                step(99),
                format::bytes(measurement.kv_bytes),
                format::percent(format::share(measurement.kv_bytes, measurement.kv_full)),
                bytes_per_second.map_or_else(|| "-".into(), |rate| format!("{:.1}", rate / 1e9)),
                bytes_per_second.map_or_else(|| "-".into(), |rate| format::percent(rate / self.bandwidth)),
                format!("{:.1}", operations / 1e9),
                self.arithmetic.map_or_else(|| "-".into(), |can| format::percent(operations / can.best())),
                format!("{:.1} ms", measurement.compressing.as_secs_f64() * 1e3),
            ]);
        }
        table
    }

    /// llama-bench's names of the backends that compute.
    fn backend(&self) -> String {
        let mut names: Vec<&str> = self.engine.devices().iter().map(DeviceKind::backend).collect();
        names.sort_unstable();
        names.dedup();
        if names.is_empty() { "CPU".to_owned() } else { names.join(",") }
    }

    fn object(&self, measurement: &Measurement) -> Value {
        let (speed, nanoseconds) = (measurement.speed(), measurement.nanoseconds());
        let spec = self.engine.spec();
        json!({
            "build_number": 0,
            "build_commit": format!("longhand {}", env!("CARGO_PKG_VERSION")),
            "backends": self.backend(),
            "n_gpu_layers": self.engine.layers_on_devices(),
            "layers_by_device": self.engine.placement().counts(),
            "n_cpu_moe": self.engine.placement().host_experts_of(spec),
            "residual_on_host": self.engine.placement().has_host_residual(),
            "model_filename": self.file,
            "model_type": self.name,
            "model_size": self.model_bytes(),
            "model_n_params": spec.parameters(),
            "n_batch": self.args.chunk.tokens(),
            "n_ubatch": self.args.chunk.tokens(),
            "n_threads": self.engine.threads(),
            "type_k": self.args.types.types().0.name(),
            "type_v": self.args.types.types().1.name(),
            "n_prompt": measurement.test.prompt,
            "n_gen": measurement.test.generate,
            "n_depth": measurement.test.depth,
            "avg_ns": nanoseconds.mean.round() as u64,
            "stddev_ns": nanoseconds.deviation.round() as u64,
            "avg_ts": speed.mean,
            "stddev_ts": speed.deviation,
            "samples_ns": measurement.times.iter().map(|time| time.as_nanos() as u64).collect::<Vec<_>>(),
            "samples_ts": measurement.samples(),
            "step_median_ns": measurement.step_percentile(50).map(|time| time.as_nanos() as u64),
            "step_p99_ns": measurement.step_percentile(99).map(|time| time.as_nanos() as u64),
            "policy": measurement.policy.to_string(),
            "compress_ns": measurement.compressing.as_nanos() as u64,
            "prefill": self.args.prefill.name(),
            "fill": if self.args.fill == Fill::Random { "random" } else { "prefill" },
            "kv_heads": spec.all_kv_heads(),
            "retrieval_heads": measurement.retrieval_heads,
            "kv_bytes": measurement.kv_bytes,
            "kv_bytes_full": measurement.kv_full,
            "kv_share": format::share(measurement.kv_bytes, measurement.kv_full),
            "weight_bytes_per_token": self.weight_bytes(),
            "bytes_per_token": self.weight_bytes() + measurement.kv_bytes,
            "bytes_per_second": self.bytes_per_second(measurement),
            "memory_bytes_per_second": self.bandwidth,
            "operations_per_token": measurement.operations,
            "operations_per_second": Self::operations_per_second(measurement),
            "possible_operations_per_second": self.possible_operations(),
            "logits_hash": format!("{:016x}", measurement.logits_hash),
        })
    }
}
