//! The golden runner. A golden case holds keys, values, queries and parameters, and the results of a
//! reference for them. The runner passes them to the engine's store, kernels, calibration and head selection,
//! and compares the results.
//!
//! A folder of cases holds `index.json`, a JSON file for each policy, and arrays in NumPy's format, or all of them in
//! `cases.zip.br`; `golden/policies/cases/README.md` describes them. Cases of policies that the engine does not have are
//! skipped and counted.

use std::ops::Range;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use ggml::{Backend, Context, Tensor, Type};
use kernels::graph::{Append, Appended, Attend, AttentionShape, Gain, GraphLane, LaneInputs, MAX_LANES};
use longhand::heads::{self, SelectionRule};
use longhand::testing::alibi::{self, HeadWeights, ScopeOptions};
use longhand::testing::backends::Backends;
use longhand::testing::calibrate::{Occurrences, Pattern, score_heads};
use longhand::testing::forward::{operation_tensors, predict_scores, record_attention};
use longhand::testing::kv::policy::{Event, Pool, Recent, paper_formulas};
use longhand::testing::kv::{
    CompensationSums, LaneValues, LayerRows, Layout, PolicyChoice, Store, StoreOptions, gram_shape,
};
use longhand::testing::placement::{Place, Placement};
use longhand::testing::scratch::first_text_chunks;
use longhand::testing::workspace::Workspace;
use longhand::{DeviceKind, DeviceOptions};
use serde_json::Value;

use crate::case_files::CaseFiles;
use crate::npy::Array;

/// Maximum difference of outputs. Kept positions must be equal. By Vulkan, sums of attention weights were up to 1.8e-4 apart on
/// the CPU. On an H200, whose matrix units multiply in f16, outputs were up to 3.1e-3 apart. HIP and Metal multiply in f16 too,
/// and were never tried.
fn tolerance() -> f64 {
    let is_portable = |device: &DeviceKind| {
        matches!(device, DeviceKind::Hip(_) | DeviceKind::Metal(_) | DeviceKind::Vulkan(_))
    };
    match (crate::devices().iter().any(is_portable), crate::is_gpu()) {
        (true, true) => 6e-3,
        (true, false) => 3e-4,
        (false, _) => 1e-4,
    }
}
/// Maximum number of failures that are printed.
const MAX_PRINTED: usize = 10;
/// The layer of cases that name none. Some policies skip the first two layers.
const DEFAULT_LAYER: usize = 2;

/// More layers than any case has.
const MAX_LAYERS: usize = 256;

/// Numbers of cases by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Cases with the expected results.
    pub passed: usize,
    /// Cases with other results, and cases that cannot be run.
    pub failed: usize,
    /// Cases of policies that the engine does not have.
    pub skipped: usize,
}

/// Runs all cases of a folder on `devices`, or on the host if there is none, and prints the results. Each device but the
/// last one has one layer.
pub fn run(dir: &Path, devices: &[DeviceKind]) -> Result<Counts> {
    let start = |kind: &DeviceKind| DeviceOptions::all(*kind).backend();
    let backends = devices.iter().map(start).collect::<Result<Vec<_>, _>>()?;
    let mut counts = vec![1; devices.len()];
    if let Some(last) = counts.last_mut() {
        *last = MAX_LAYERS + 1 - devices.len();
    }
    let backends = Backends::new(Backend::cpu(1)?, backends, Placement::over(MAX_LAYERS, &counts));
    let runner = Runner { files: CaseFiles::open(dir)?, backends };
    let index = runner.files.json("index.json")?;
    let policies = index["policies"].as_object().context("index.json names no policies")?;
    let mut counts = Counts::default();
    for (policy, entry) in policies {
        let file = runner.files.json(entry["file"].as_str().context("a policy without a file")?)?;
        let cases = file["cases"].as_array().context("no cases")?;
        let (mut passed, mut skipped) = (0, 0);
        for case in cases {
            let name = case["name"].as_str().unwrap_or("?");
            match runner.case(policy, case).with_context(|| format!("{policy}/{name}")) {
                Ok(true) => passed += 1,
                Ok(false) => skipped += 1,
                Err(error) => {
                    counts.failed += 1;
                    if counts.failed <= MAX_PRINTED {
                        println!("FAILED {error:#}");
                    }
                }
            }
        }
        counts.passed += passed;
        counts.skipped += skipped;
        println!(
            "{policy}: {passed} of {} passed{}",
            cases.len(),
            if skipped > 0 { format!(", {skipped} skipped: not in this engine") } else { String::new() }
        );
    }
    let Counts { passed, failed, skipped } = counts;
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    Ok(counts)
}

struct Runner {
    files: CaseFiles,
    /// The layers are on the devices under test, if there are any.
    backends: Backends,
}

/// A case's arrays: keys and values `[n_kv, n, d]`; one new query `[n_head, d]`. If the policy uses them, also the queries of
/// the last tokens `[n_head, rows, d]`, what predicts scores `[n_kv, numbers]`, each query head's part of the output matrix
/// `[n_head, d, m]`, and attention's input `[n, m]`.
struct Rows {
    k: Array,
    v: Array,
    queries: Option<Array>,
    predictors: Option<Array>,
    output: Option<Array>,
    inputs: Option<Array>,
    q: Array,
}

impl Rows {
    fn n(&self) -> usize {
        self.k.shape[1]
    }

    fn shape(&self) -> AttentionShape {
        let [n_kv_heads, _, head_dim] = self.k.shape[..] else { unreachable!("checked when read") };
        AttentionShape::plain(self.q.shape[0], n_kv_heads, head_dim)
    }

    /// Number of tokens in `from..to` that have queries. They are the last ones.
    fn with_queries(&self, from: usize, to: usize) -> usize {
        let first = self.queries.as_ref().map_or(self.n(), |queries| self.n() - queries.shape[1]);
        to.saturating_sub(first.max(from))
    }

    /// Tokens `from..to` of `rows` `[heads, rows, d]`, in ggml's order `[d, heads, tokens]`. `rows` holds the
    /// last of `n` tokens.
    fn tokens(rows: &Array, n: usize, from: usize, to: usize) -> Vec<f32> {
        let [heads, count, d] = rows.shape[..] else { unreachable!("checked when read") };
        let row = |t: usize, head: usize| &rows.data[(head * count + t + count - n) * d..][..d];
        (from..to).flat_map(|t| (0..heads).flat_map(move |head| row(t, head).to_vec())).collect()
    }
}

/// A case that runs a policy.
struct Retention<'a> {
    case: &'a Value,
    choice: String,
    retrieval: Option<Vec<bool>>,
    layer: usize,
    /// Tokens of the exact prefill.
    prefill: usize,
    /// Tokens computed at a time where the text is read a second time.
    second_reading: Option<usize>,
    /// Sizes of the chunks after it; a chunk of one token is a decode step.
    chunks: Vec<usize>,
}

impl Runner {
    /// Runs a case; `false` if the engine does not have the policy. An error if a result differs.
    fn case(&self, policy: &str, case: &Value) -> Result<bool> {
        match policy {
            "head_selection" => head_selection(case)?,
            "induction_echo" => self.induction_echo(case)?,
            "formulas" => return formula(case),
            "alr" => self.attention_loss(case)?,
            "alibi_scope" => self.alibi_scope(case)?,
            _ => match retention(policy, case)? {
                Some(retention) => self.retain(&retention)?,
                None => return Ok(false),
            },
        }
        Ok(true)
    }

    fn array(&self, case: &Value, name: &str) -> Result<Array> {
        let file = case["inputs"][name].as_str().with_context(|| format!("no input {name}"))?;
        self.files.array(file)
    }

    fn rows(&self, case: &Value) -> Result<Rows> {
        let [queries, predictors, output, inputs] =
            ["Q", "M", "W", "H"].map(|name| case["inputs"][name].as_str().map(|_| self.array(case, name)));
        let rows = Rows {
            k: self.array(case, "K")?,
            v: self.array(case, "V")?,
            queries: queries.transpose()?,
            predictors: predictors.transpose()?,
            output: output.transpose()?,
            inputs: inputs.transpose()?,
            q: self.array(case, "q")?,
        };
        ensure!(
            rows.k.shape.len() == 3 && rows.k.shape == rows.v.shape && rows.q.shape.len() == 2,
            "shapes of K, V, q"
        );
        ensure!(rows.queries.as_ref().is_none_or(|queries| queries.shape.len() == 3), "shape of Q");
        Ok(rows)
    }

    /// Runs a policy as the case says. Compares kept positions, compensation entries, accumulated attention,
    /// and the output of attention over the kept rows.
    fn retain(&self, retention: &Retention) -> Result<()> {
        let Retention { case, choice, retrieval, layer, prefill, second_reading, chunks } = retention;
        let (layer, expected) = (*layer, &case["expected"]);
        let rows = self.rows(case)?;
        // A lag longer than the text evicts nothing, but the engine refuses one longer than the session.
        let lag = case["params"]["lag"].as_u64().unwrap_or(0) as usize;
        let context = rows.n().max(lag);
        let store_options = StoreOptions { context, types: (Type::F32, Type::F32), reserve: Some(rows.n()) };
        let layout = Layout::from_flags(
            layer + 1,
            rows.shape(),
            &choice.parse::<PolicyChoice>()?,
            |_, head| retrieval.as_ref().is_some_and(|flags| flags[head]),
            store_options,
        )?;
        let mut store = Store::new(layout, &self.backends)?;
        let predictors = rows.predictors.as_ref().map_or(&[][..], |predictors| &predictors.data);
        store.set_row_predictors(|_| predictors.to_vec())?;
        let mut workspace = Workspace::new(&self.backends);
        if *prefill > 0 {
            self.exact_prefill(&mut store, &rows, layer, *prefill, *second_reading, &mut workspace)?;
        }
        let mut from = *prefill;
        for (step, chunk) in chunks.iter().copied().enumerate() {
            let layer_rows = store.rows(layer);
            let (tokens, state) = (from..from + chunk, store.state());
            self.write(&layer_rows, &rows, layer, tokens, from, &state, &mut workspace)?;
            store.advance(chunk);
            let event = if chunk == 1 { Event::Step } else { Event::Chunk };
            store.compress(event, false, &self.backends, &mut workspace)?;
            from += chunk;
            if let Some(lengths) = expected["len_per_step"].as_array() {
                let have: Vec<usize> = store.positions(layer).iter().map(Vec::len).collect();
                let want = &lengths[step];
                let want: Vec<usize> = match want.as_array() {
                    Some(heads) => heads.iter().map(|n| n.as_u64().unwrap_or(0) as usize).collect(),
                    None => vec![want.as_u64().context("a length")? as usize; have.len()],
                };
                ensure!(have == want, "after {from} tokens: {have:?} rows are kept, {want:?} expected");
            }
            if expected["kept_mid_step"].as_u64() == Some(step as u64) {
                compare_kept(&store, layer, &expected["kept_mid"])?;
            }
        }
        compare_kept(&store, layer, &expected["kept"])?;
        if let Some(entries) = expected["comp"].as_array() {
            compare_entries(&store, layer, entries)?;
        }
        if let Some(heads) = expected["acc"].as_array() {
            let accumulated = store.accumulated_attention(layer)?;
            ensure!(accumulated.len() == heads.len(), "accumulated attention of {} heads", accumulated.len());
            for (have, want) in accumulated.into_iter().zip(heads) {
                let have = have.context("no accumulated attention")?;
                close("accumulated attention", have.iter().map(|x| f64::from(*x)), &numbers(want)?)?;
            }
        }
        let out = self.attend(&store, &rows, layer, &mut workspace)?;
        close("attention", out.iter().map(|x| f64::from(*x)), &numbers(&expected["out"])?)
    }

    fn place(&self, layer: usize) -> Place {
        self.backends.placement().of(layer)
    }

    fn backend(&self, layer: usize) -> &Backend {
        self.backends.at(self.place(layer))
    }

    /// Fills the store with the first `n` tokens, as exact prefill does. These are read a second time in chunks of at
    /// most `second_reading` tokens, whose keys and queries are the same.
    fn exact_prefill(
        &self,
        store: &mut Store,
        rows: &Rows,
        layer: usize,
        n: usize,
        second_reading: Option<usize>,
        workspace: &mut Workspace,
    ) -> Result<()> {
        let shape = rows.shape();
        let ctx = Context::new(4);
        let chunks = second_reading.map_or_else(Vec::new, |len| first_text_chunks(n, len, true));
        let repeated = chunks.into_iter().filter_map(|chunk| Some((chunk.tokens, chunk.scored?)));
        let repeated: Vec<_> = repeated.collect();
        let capacity = n + repeated.iter().map(|(tokens, _)| tokens.len()).max().unwrap_or(0);
        let [k, v] = [(); 2].map(|()| ctx.tensor(Type::F32, [shape.head_dim, capacity, shape.n_kv_heads]));
        let complete = GraphLane {
            accumulated: Some(ctx.tensor(Type::F32, [capacity, shape.n_kv_heads])),
            ..GraphLane::new(k, v, (0..shape.n_kv_heads as u32).collect::<Vec<_>>())
        };
        let grams = rows.output.as_ref().map(|_| ctx.tensor(Type::F32, gram_shape(shape)));
        ctx.allocate(&self.backend(layer).buffer_type())?;
        if let (Some(grams), Some(output)) = (&grams, &rows.output) {
            grams.write(0, &gram_matrices(output, shape))?;
        }
        complete.tensors().try_for_each(Tensor::clear)?;
        let recorders = vec![store.prefill_recorder(layer, &complete)];
        let layer_rows = LayerRows { lanes: vec![complete.clone()], recorders, states: None, means: None };
        self.write(&layer_rows, rows, layer, 0..n, 0, &LaneValues::uniform(layer + 1, 0), workspace)?;
        if let Some(accumulated) = complete.accumulated.as_ref().filter(|_| !repeated.is_empty()) {
            accumulated.clear()?;
        }
        for (tokens, part) in repeated {
            let recorders = vec![store.reconstruction_recorder(layer, &complete)];
            let layer_rows =
                LayerRows { lanes: vec![complete.clone()], recorders, states: None, means: None }
                    .scored(part, grams.as_ref());
            self.write(&layer_rows, rows, layer, tokens, n, &LaneValues::uniform(layer + 1, n), workspace)?;
        }
        store.fill_layer(layer, &complete, n, &self.backends, workspace)?;
        store.finish_exact(n);
        Ok(())
    }

    /// Appends the rows of `tokens`, whose positions begin at `at`, to the live rows. Stores queries, accumulates attention
    /// and predicts scores.
    #[allow(clippy::too_many_arguments)]
    fn write(
        &self,
        to: &LayerRows,
        rows: &Rows,
        layer: usize,
        tokens: Range<usize>,
        at: usize,
        live: &LaneValues,
        workspace: &mut Workspace,
    ) -> Result<()> {
        let shape = rows.shape();
        let n = tokens.len();
        let form = self.backends.form(self.place(layer), shape);
        let ctx = Context::new(16 + operation_tensors(form, shape.group, to, n));
        let [k, v] = ["k", "v"].map(|name| ctx.input(name, Type::F32, [shape.head_dim, shape.n_kv_heads, n]));
        let state = lane_state(&ctx, layer, n);
        let positions = &state.positions;
        let append = Append { k: &k, v: &v, lanes: &to.lanes, inputs: &state };
        let stored = form.nodes(&ctx, append);
        let known = rows.with_queries(tokens.start, tokens.end);
        let n_heads = shape.n_kv_heads * shape.group;
        let q = ctx.input("queries", Type::F32, [shape.head_dim, n_heads, known.max(1)]);
        let input =
            rows.inputs.as_ref().map(|inputs| ctx.input("input", Type::F32, [inputs.shape[1], known.max(1)]));
        let mut effects = vec![stored.clone()];
        // The keys of these cases count as keys before RoPE.
        let scorers = to.recorders.iter().flat_map(|recorder| &recorder.scorers);
        effects.extend(predict_scores(&ctx, form, [&k, &v], scorers, &state));
        let attend = Attend {
            shape,
            queries: (&q).into(),
            appended: Appended { node: &stored, rows: n },
            lanes: &to.lanes,
            inputs: &state,
            groups: None,
            int8: false,
        };
        if known > 0 {
            for recorder in &to.recorders {
                record_attention(&ctx, form, attend, recorder, input.as_ref(), &mut effects);
            }
        }
        let ready = workspace.prepare(self.place(layer), ctx.graph(&effects.iter().collect::<Vec<_>>())?)?;
        k.write(0, &Rows::tokens(&rows.k, rows.n(), tokens.start, tokens.end))?;
        v.write(0, &Rows::tokens(&rows.v, rows.n(), tokens.start, tokens.end))?;
        if let (Some(queries), true) = (&rows.queries, q.is_allocated()) {
            q.write(0, &Rows::tokens(queries, rows.n(), tokens.end - known, tokens.end))?;
        }
        if let (Some(inputs), Some(input)) = (&rows.inputs, input.filter(Tensor::is_allocated)) {
            let width = inputs.shape[1];
            input.write(0, &inputs.data[(tokens.end - known) * width..tokens.end * width])?;
        }
        if positions.is_allocated() {
            positions.write(0, &(at as i32..(at + n) as i32).collect::<Vec<_>>())?;
        }
        live.write(&state)?;
        Ok(self.backend(layer).compute(&ready)?)
    }

    fn attend(
        &self,
        store: &Store,
        rows: &Rows,
        layer: usize,
        workspace: &mut Workspace,
    ) -> Result<Vec<f32>> {
        let shape = rows.shape();
        let form = self.backends.form(self.place(layer), shape);
        let lanes = store.rows(layer).lanes;
        let tensors = lanes.iter().map(|lane| form.max_tensors(lane, shape.group, 1));
        let ctx = Context::new(8 + tensors.sum::<usize>());
        let q = ctx.input("q", Type::F32, [shape.head_dim, rows.q.shape[0], 1]);
        let nothing = ctx.input("nothing", Type::F32, [1]);
        let state = lane_state(&ctx, layer, 1);
        let attend = Attend {
            shape,
            queries: (&q).into(),
            appended: Appended { node: &nothing, rows: 0 },
            lanes: &lanes,
            inputs: &state,
            groups: None,
            int8: false,
        };
        // The last node of portable attention is none that computes.
        let out: Tensor = ctx.cont(&form.nodes(&ctx, attend)).output();
        let ready = workspace.prepare(self.place(layer), ctx.graph(&[&out])?)?;
        q.write(0, &rows.q.data)?;
        store.state().write(&state)?;
        self.backend(layer).compute(&ready)?;
        Ok(out.to_vec()?)
    }

    /// Compares the attention loss of key norms. Norms may differ by less than f32 resolves, so all is computed in f64.
    fn attention_loss(&self, case: &Value) -> Result<()> {
        let rows = self.rows(case)?;
        let AttentionShape { head_dim, group, scale, .. } = rows.shape();
        let key = |head: usize, t: usize| &rows.k.data[(head * rows.n() + t) * head_dim..][..head_dim];
        let dot =
            |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
        let have: Vec<f64> = (rows.q.data.chunks_exact(head_dim).enumerate())
            .map(|(head, q)| {
                let keys = || (0..rows.n()).map(|t| key(head / group, t));
                let logits: Vec<f64> = keys().map(|key| dot(key, q) * f64::from(scale)).collect();
                let largest = logits.iter().copied().fold(f64::MIN, f64::max);
                let total: f64 = logits.iter().map(|x| (x - largest).exp()).sum();
                let attention: Vec<f64> = logits.iter().map(|x| (x - largest).exp() / total).collect();
                let norms: Vec<f64> = keys().map(|key| dot(key, key).sqrt()).collect();
                paper_formulas::attention_loss(&attention, &norms)
            })
            .collect();
        close("attention loss", have.into_iter(), &numbers(&case["expected"]["alr"])?)
    }

    fn alibi_scope(&self, case: &Value) -> Result<()> {
        let p = &case["params"];
        let number = |key: &str| p[key].as_f64().with_context(|| key.to_owned());
        let (n_heads, head) = (number("n_head")? as usize, number("head")? as usize);
        let slopes = alibi::slopes(n_heads, 8.0);
        close("slopes", slopes.iter().copied(), &numbers(&case["expected"]["slopes"])?)?;
        ensure!(slopes[head] == number("slope")?, "the slope of head {head} is {}", slopes[head]);
        // The file has [d_model, head_dim] in C order, the engine takes rows of d_model.
        let matrix = |name: &str| -> Result<Vec<f32>> {
            let Array { shape, data } = self.array(case, name)?;
            let [d_model, head_dim] = shape[..] else { bail!("shape of {name}") };
            Ok((0..head_dim * d_model).map(|at| data[at % d_model * head_dim + at / d_model]).collect())
        };
        let (wq, wk) = (matrix("Wq")?, matrix("Wk")?);
        let (gamma, bias) = (self.array(case, "gamma")?.data, self.array(case, "b")?.data);
        for (key, rigorous) in [("scope", false), ("scope_rigorous", true)] {
            let options = ScopeOptions { epsilon: number("eps")?, rigorous };
            let (slope, scale) = (slopes[head], number("logit_scale")?);
            let weights =
                HeadWeights { wq: &wq, wk: &wk, gamma: &gamma, bias: &bias, slope, scale, clamp: None };
            let scope = alibi::scope(&weights, &options);
            close(key, [scope].into_iter(), &numbers(&case["expected"][key])?)?;
            let keep = alibi::window(scope, usize::MAX);
            let expected = case["expected"]["keep_last"].as_u64().context("keep_last")?;
            ensure!(rigorous || keep as u64 == expected, "{keep} tokens are kept, {expected} expected");
        }
        Ok(())
    }

    fn induction_echo(&self, case: &Value) -> Result<()> {
        let (q, k) = (self.array(case, "Q")?, self.array(case, "K")?);
        let ([heads, n, head_dim], [n_kv_heads, _, _]) = (&q.shape[..], &k.shape[..]) else {
            bail!("shapes of Q and K");
        };
        let shape = AttentionShape::plain(*heads, *n_kv_heads, *head_dim);
        let queries = Rows::tokens(&q, *n, 0, *n);
        for (occurrences, suffix) in [(Occurrences::All, "all"), (Occurrences::Last, "last")] {
            let p = &case["params"];
            let pattern = Pattern {
                prefix: p["n_prefix"].as_u64().context("n_prefix")? as usize,
                period: p["period"].as_u64().context("period")? as usize,
                occurrences,
            };
            let scores = score_heads(shape, pattern, &queries, &k.data, self.backend(0))?;
            for (name, have) in [("induction", scores.induction), ("echo", scores.echo)] {
                let key = format!("{name}_{suffix}");
                close(&key, have.iter().map(|x| f64::from(*x)), &numbers(&case["expected"][&key])?)?;
            }
        }
        Ok(())
    }
}

/// How to run a case of a policy; `None` if the engine does not have the policy.
fn retention<'a>(policy: &str, case: &'a Value) -> Result<Option<Retention<'a>>> {
    let p = &case["params"];
    let count = |key: &str| p[key].as_u64().map(|n| n as usize).with_context(|| key.to_owned());
    let text = |key: &str| p[key].as_str().with_context(|| key.to_owned());
    let n = count_of(case, "n")?;
    let lag = |name: &str| -> Result<String> {
        let weight = match p["v_weight"].as_f64() {
            Some(weight) if name != "lag-l2" => format!(",v_weight={weight}"), // lag-l2 reads no values
            _ => String::new(),
        };
        Ok(format!("{name}:sinks={},lag={},ratio={}{weight}", p["sink"], p["lag"], p["ratio"]))
    };
    let switch = |key: &str| if p[key].as_bool() == Some(true) { "on" } else { "off" };
    let or = |key: &str, default: u64| p[key].as_u64().unwrap_or(default);
    let protected = || format!("sinks={},recent={}", or("n_sink", 0), or("n_recent", 0));
    let mode = || if p["mode"] == "literal" { "literal" } else { "entropy" };
    let choice = match policy {
        "streaming_llm" => format!("streaming:sinks={},window={},slack=0", p["n_sink"], p["recent"]),
        "razor" | "stream_razor" => {
            format!("razor:buffer={},ratio={},sinks={},slack=0", p["S0"], p["C"], p["n_sink"])
        }
        "l2" if p["keep"].is_u64() => format!("l2:rows={},slack=0,{}", p["keep"], protected()),
        "stream_l2" if p["keep_ratio"].is_null() => format!("l2:rows={},slack=0", p["prune_after"]),
        "l2" | "stream_l2" => {
            let (keep, after) = (&p["keep_ratio"], &p["prune_after"]);
            format!(
                "l2:keep={keep},after={after},skip={},{}",
                skipped_layers(&p["skip_layers"])?,
                protected()
            )
        }
        "lagkv" => lag("lagkv")?,
        "localkv" => lag("locallag")?,
        "lag_l2" => lag("lag-l2")?,
        "stream_lagkv" => match text("variant")? {
            "lagkv" => lag("lagkv")?,
            "localkv" => lag("locallag")?,
            "l2" => lag("lag-l2")?,
            _ => return Ok(None),
        },
        "snapkv" | "slimkv" | "slimkv_sum" => {
            let (name, combine) = match policy {
                "snapkv" => ("snapkv", String::new()),
                _ => ("slimkv", format!(",combine={}", text("combine")?)),
            };
            let pool = text("pool")?;
            let (window, capacity, kernel) = (&p["window"], &p["capacity"], &p["kernel"]);
            format!("{name}:window={window},capacity={capacity},kernel={kernel},pool={pool}{combine}")
        }
        "ahakv" => {
            let (budget, recent, kernel) = (&p["budget"], &p["recent"], &p["kernel"]);
            format!("ahakv:budget={budget},recent={recent},kernel={kernel},lambda={}", mode())
        }
        "stream_ahakv" => {
            let budget = count("selected")? + count("recent")?;
            format!(
                "ahakv:budget={budget},recent={},kernel={},lambda={}",
                p["recent"],
                or("kernel", 5),
                mode()
            )
        }
        "kvzip" | "stream_kvzip" | "kvzip_plus" | "stream_kvzip_plus" => {
            let name = if policy.ends_with("plus") { "kvzip-plus" } else { "kvzip" };
            let (capacity, recent, later) = (&p["capacity"], &p["recent"], or("later", 0));
            format!("{name}:heads=off,capacity={capacity},recent={recent},later={later},slack=0")
        }
        "kvzap" | "stream_kvzap" => {
            format!("kvzap:heads=off,capacity={},recent={},slack=0", p["capacity"], p["recent"])
        }
        "h2o" => format!("h2o:heavy={},recent={}", p["heavy"], p["recent"]),
        "stream_h2o" => format!("h2o:heavy={},recent={}", p["selected"], p["recent"]),
        "tova" | "stream_tova" => {
            format!("tova:capacity={},protect_last={}", p["capacity"], switch("protect_last"))
        }
        _ => return Ok(None),
    };
    let retrieval = match p["retrieval"].as_array() {
        Some(flags) => {
            Some(flags.iter().map(|flag| flag.as_bool().context("a flag")).collect::<Result<_>>()?)
        }
        None => None,
    };
    // The rules of these two are defined for chunks, not for exact prefill.
    let prefill = p["prefill"].as_u64().map_or(n, |n| n as usize);
    let (prefill, chunks) = match policy {
        "stream_lagkv" => (0, serde_json::from_value(p["chunks"].clone())?),
        "stream_l2" => (0, std::iter::once(prefill).chain(vec![1; n - prefill]).collect()),
        _ => (prefill, vec![1; n - prefill]),
    };
    let layer = p["layer"].as_u64().map_or(DEFAULT_LAYER, |layer| layer as usize);
    let second_reading = p["chunk"].as_u64().map(|len| len as usize);
    Ok(Some(Retention { case, choice, retrieval, layer, prefill, second_reading, chunks }))
}

/// The Gram matrices of a layer ([`gram_shape`]) whose query heads have these parts of the output matrix, `[n_head, d, m]`.
fn gram_matrices(output: &Array, shape: AttentionShape) -> Vec<f32> {
    let (d, width) = (shape.head_dim, output.shape[2]);
    let dot = |a: &[f32], b: &[f32]| {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>() as f32
    };
    let unit = || (0..d * d).map(|at| f32::from(at % (d + 1) == 0));
    let mut grams = Vec::new();
    for of_group in output.data.chunks_exact(d * width * shape.group) {
        for rows in of_group.chunks_exact(d * width).map(|head| head.chunks_exact(width)) {
            grams.extend(rows.clone().flat_map(|a| rows.clone().map(move |b| dot(a, b))));
        }
        grams.extend(unit());
    }
    grams
}

/// The number of first layers that the L2 policy leaves alone, where a case does not say otherwise: two.
fn skipped_layers(layers: &Value) -> Result<usize> {
    let Some(layers) = layers.as_array() else { return Ok(2) };
    let first = layers.iter().enumerate().all(|(number, layer)| layer.as_u64() == Some(number as u64));
    ensure!(first, "skip_layers: only first layers can be left out");
    Ok(layers.len())
}

fn count_of(value: &Value, key: &str) -> Result<usize> {
    value[key].as_u64().map(|n| n as usize).with_context(|| key.to_owned())
}

fn lane_state(ctx: &Context, layer: usize, n: usize) -> LaneInputs {
    LaneInputs {
        rows: ctx.input("rows", Type::I32, [MAX_LANES, layer + 1]),
        log_weights: ctx.input("log_weights", Type::F32, [MAX_LANES, layer + 1]),
        positions: ctx.input("positions", Type::I32, [n]),
        layer,
    }
}

/// Compares kept positions. A flat list is the expectation for the first head.
fn compare_kept(store: &Store, layer: usize, expected: &Value) -> Result<()> {
    let have = store.positions(layer);
    let heads = expected.as_array().context("kept")?;
    let want: Vec<Vec<u32>> = match heads.first() {
        Some(first) if first.is_array() => serde_json::from_value(expected.clone())?,
        _ => vec![serde_json::from_value(expected.clone())?],
    };
    for (head, (have, want)) in have.iter().zip(&want).enumerate() {
        ensure!(have == want, "KV head {head} keeps {have:?}, {want:?} expected");
    }
    Ok(())
}

fn compare_entries(store: &Store, layer: usize, expected: &[Value]) -> Result<()> {
    let entries = store.compensation(layer)?;
    ensure!(entries.len() == expected.len(), "compensation of {} heads", entries.len());
    for (head, (have, want)) in entries.into_iter().zip(expected).enumerate() {
        let Some(CompensationSums { keys, values, rows: count }) = have else {
            ensure!(want.is_null(), "KV head {head} has no compensation entry");
            continue;
        };
        ensure!(
            want["n_dropped"].as_u64() == Some(count as u64),
            "KV head {head}: the entry stands for {count} rows"
        );
        for (name, sum) in [("k", keys), ("v", values)] {
            let mean = sum.iter().map(|x| f64::from(*x) / count as f64);
            close(&format!("mean {name} of KV head {head}"), mean, &numbers(&want[name])?)?;
        }
    }
    Ok(())
}

fn head_selection(case: &Value) -> Result<()> {
    let p = &case["params"];
    let size = |key: &str| p[key].as_u64().map(|n| n as usize).with_context(|| key.to_owned());
    let shape = heads::HeadShape::new(size("n_layer")?, size("n_head")?, size("n_kv")?)?;
    let rule = SelectionRule {
        induction: p["ind_frac"].as_f64().context("ind_frac")?,
        echo: p["echo_frac"].as_f64().context("echo_frac")?,
        group_max: p["per_kv_group"].as_bool().context("per_kv_group")?,
    };
    let scores = |key: &str| -> Result<Vec<f32>> {
        Ok(numbers(&case["inputs"][key])?.into_iter().map(|x| x as f32).collect())
    };
    let selected = heads::select(&shape, &scores("induction")?, &scores("echo")?, &rule)?;
    for (name, flags, columns) in
        [("heads", selected.query_heads, shape.heads()), ("kv", selected.kv_heads, shape.kv_heads())]
    {
        let have: Vec<[u64; 2]> = (0..flags.len())
            .filter(|i| flags[*i])
            .map(|i| [(i / columns) as u64, (i % columns) as u64])
            .collect();
        let want: Vec<[u64; 2]> = serde_json::from_value(case["expected"][name].clone())?;
        ensure!(have == want, "{name}: {have:?} are selected, {want:?} expected");
    }
    Ok(())
}

/// Evaluates a formula; `false` if the engine does not have it. An error if a result differs.
fn formula(case: &Value) -> Result<bool> {
    let inputs = case["inputs"].as_array().context("inputs")?;
    let expected = case["expected"].as_array().context("expected")?;
    ensure!(inputs.len() == expected.len(), "as many results as inputs");
    for (input, want) in inputs.iter().zip(expected) {
        let number = |i: usize| input[i].as_f64().context("a number");
        let have: Vec<f64> = match case["name"].as_str() {
            Some("razor_window") => {
                let (window, share) = (number(1)? as usize, 1.0 / number(2)?);
                let recent = Recent { sinks: 0, window, share, slack: None };
                vec![recent.window(number(0)? as usize) as f64]
            }
            Some("lag_len") => {
                let [n, sinks, lag] = [number(0)? as usize, number(1)? as usize, number(2)? as usize];
                vec![paper_formulas::lagkv_length(n, sinks, lag, number(3)?) as f64]
            }
            Some("aha_gain") => {
                let [seen, budget, head_dim] =
                    [number(0)? as usize, number(1)? as usize, number(2)? as usize];
                [Gain::Entropy { budget }, Gain::Literal { budget }]
                    .map(|gain| gain.at(seen, head_dim))
                    .to_vec()
            }
            Some("pool") => {
                let x: Vec<f32> = serde_json::from_value(input[0].clone())?;
                let pool = if input[2] == "max" { Pool::Max } else { Pool::Average };
                pool.over(&x, number(1)? as usize).into_iter().map(f64::from).collect()
            }
            _ => return Ok(false),
        };
        close(&format!("{} of {input}", case["name"]), have.into_iter(), &numbers(want)?)?;
    }
    Ok(true)
}

/// The numbers of a nested array, flattened.
fn numbers(value: &Value) -> Result<Vec<f64>> {
    match value {
        Value::Array(items) => Ok(items.iter().map(numbers).collect::<Result<Vec<_>>>()?.concat()),
        Value::Number(number) => Ok(vec![number.as_f64().context("a number")?]),
        other => bail!("{other} is not a number"),
    }
}

fn close(what: &str, have: impl ExactSizeIterator<Item = f64>, want: &[f64]) -> Result<()> {
    ensure!(have.len() == want.len(), "{what}: {} numbers, {} expected", have.len(), want.len());
    let tolerance = tolerance();
    for (i, (have, want)) in have.zip(want).enumerate() {
        ensure!((have - want).abs() <= tolerance, "{what}: number {i} is {have}, {want} expected");
    }
    Ok(())
}
