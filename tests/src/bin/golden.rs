//! Runs a folder of golden cases through the engine's own code and prints `N passed, N failed, N skipped`.
//!
//! Usage: `cargo run --release -p tests --bin golden -- DIR`. The folder holds `index.json`, a JSON file a policy and arrays in
//! NumPy's format; `tests/README.md` describes it. A policy that the engine does not have is skipped, and said so.

use anyhow::{Context as _, Result, bail, ensure};
use engine::alibi::{self, ScopeOptions};
use engine::calibrate::{Occurrences, Pattern, score_heads};
use engine::heads::{self, SelectionRule};
use engine::kv::{Layout, PolicyChoice, Store};
use ggml::{Backend, Context, GraphAllocator, Tensor, Type};
use kernels::graph::{self, HeadShape, LaneState, MAX_LANES};
use serde_json::Value;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tests::npy::Array;

/// What outputs may differ by; kept sets must be equal.
const TOLERANCE: f64 = 1e-4;
/// How many differences are printed.
const SHOWN: usize = 10;

fn main() -> ExitCode {
    let Some(dir) = std::env::args_os().nth(1) else {
        eprintln!("usage: golden DIR");
        return ExitCode::from(2);
    };
    match run(Path::new(&dir)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(dir: &Path) -> Result<bool> {
    let runner = Runner { dir, backend: Backend::cpu(1, Arc::new(AtomicBool::new(false)))? };
    let index = read_json(&dir.join("index.json"))?;
    let policies = index["policies"].as_object().context("index.json names no policies")?;
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (policy, entry) in policies {
        let file = read_json(&dir.join(entry["file"].as_str().context("a policy without a file")?))?;
        let cases = file["cases"].as_array().context("no cases")?;
        let (mut good, mut without) = (0, 0);
        for case in cases {
            let name = case["name"].as_str().unwrap_or("?");
            match runner.case(policy, case).with_context(|| format!("{policy}/{name}")) {
                Ok(true) => good += 1,
                Ok(false) => without += 1,
                Err(error) => {
                    failed += 1;
                    if failed <= SHOWN {
                        println!("FAILED {error:#}");
                    }
                }
            }
        }
        passed += good;
        skipped += without;
        println!(
            "{policy}: {good} of {} passed{}",
            cases.len(),
            if without > 0 { format!(", {without} skipped: not in this engine") } else { String::new() }
        );
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    Ok(failed == 0)
}

fn read_json(path: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))
}

struct Runner<'a> {
    dir: &'a Path,
    backend: Backend,
}

/// A case's arrays: keys and values `[n_kv, n, d]`, one query `[n_head, d]`.
struct Rows {
    k: Array,
    v: Array,
    q: Array,
}

impl Rows {
    fn n(&self) -> usize {
        self.k.shape[1]
    }

    fn shape(&self) -> HeadShape {
        let [n_kv_heads, _, head_dim] = self.k.shape[..] else { unreachable!("checked when read") };
        let group = self.q.shape[0] / n_kv_heads;
        HeadShape { head_dim, n_kv_heads, group, scale: 1.0 / (head_dim as f32).sqrt() }
    }

    /// Token `t` of `rows` as `[head_dim, n_kv]`.
    fn token(rows: &Array, t: usize) -> Vec<f32> {
        let [heads, n, d] = rows.shape[..] else { unreachable!("checked when read") };
        (0..heads).flat_map(|head| rows.data[(head * n + t) * d..][..d].to_vec()).collect()
    }
}

impl Runner<'_> {
    /// Whether the case passed; `false` if the engine has nothing for it.
    fn case(&self, policy: &str, case: &Value) -> Result<bool> {
        let p = &case["params"];
        match policy {
            "streaming_llm" => {
                let choice = format!("streaming:sinks={},window={},slack=0", p["n_sink"], p["recent"]);
                self.retention(case, &choice, None)?;
            }
            "razor" | "stream_razor" => {
                let choice =
                    format!("razor:buffer={},ratio={},sinks={},slack=0", p["S0"], p["C"], p["n_sink"]);
                let retrieval = p["retrieval"].as_array().context("retrieval")?;
                let retrieval = retrieval
                    .iter()
                    .map(|flag| flag.as_bool().context("a flag"))
                    .collect::<Result<Vec<_>>>()?;
                self.retention(case, &choice, Some(&retrieval))?;
            }
            "head_selection" => head_selection(case)?,
            "induction_echo" => self.induction_echo(case)?,
            "formulas" if case["name"] == "razor_window" => razor_window(case)?,
            "alibi_scope" => self.alibi_scope(case)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn array(&self, case: &Value, name: &str) -> Result<Array> {
        let file = case["inputs"][name].as_str().with_context(|| format!("no input {name}"))?;
        Array::read(&self.dir.join(file))
    }

    fn rows(&self, case: &Value) -> Result<Rows> {
        let rows = Rows { k: self.array(case, "K")?, v: self.array(case, "V")?, q: self.array(case, "q")? };
        ensure!(
            rows.k.shape.len() == 3 && rows.k.shape == rows.v.shape && rows.q.shape.len() == 2,
            "shapes of K, V, q"
        );
        Ok(rows)
    }

    /// Keeps rows by a policy, first all at once and then as the case says, and compares what is kept, the compensation
    /// entries and the attention over them.
    fn retention(&self, case: &Value, choice: &str, retrieval: Option<&[bool]>) -> Result<()> {
        let rows = self.rows(case)?;
        let choice: PolicyChoice = choice.parse()?;
        let shape = rows.shape();
        let layout = Layout::from_flags(
            (1, shape.n_kv_heads, shape.head_dim),
            choice.policy().bounds(),
            |_, head| retrieval.is_some_and(|flags| flags[head]),
            rows.n(),
            (Type::F32, Type::F32),
        )?;
        let expected = &case["expected"];
        let prefill = case["params"]["prefill"].as_u64().map_or(rows.n(), |n| n as usize);

        let mut store = Store::new(layout, &self.backend)?;
        let mut allocator = GraphAllocator::new(&self.backend.buffer_type());
        self.fill(&mut store, &rows, prefill, &mut allocator)?;
        for t in prefill..rows.n() {
            self.append(&mut store, &rows, t, &mut allocator)?;
            if store.is_due() {
                store.evict(&self.backend, &mut allocator)?;
            }
            if let Some(lengths) = expected["len_per_step"].as_array() {
                let have: Vec<usize> = store.positions(0).iter().map(Vec::len).collect();
                let want = &lengths[t - prefill];
                let want: Vec<usize> = match want.as_array() {
                    Some(heads) => heads.iter().map(|n| n.as_u64().unwrap_or(0) as usize).collect(),
                    None => vec![want.as_u64().context("a length")? as usize; have.len()],
                };
                ensure!(have == want, "after token {t}: {have:?} rows are kept, {want:?} expected");
            }
            if expected["kept_mid_step"].as_u64() == Some((t - prefill) as u64) {
                compare_kept(&store, &expected["kept_mid"])?;
            }
        }
        compare_kept(&store, &expected["kept"])?;
        if let Some(entries) = expected["comp"].as_array() {
            compare_entries(&store, entries)?;
        }
        let out = self.attend(&store, &rows, &mut allocator)?;
        let want = numbers(&expected["out"])?;
        close("attention", out.iter().map(|x| f64::from(*x)), &want)
    }

    /// The first `n` tokens at once, as exact prefill does.
    fn fill(&self, store: &mut Store, rows: &Rows, n: usize, allocator: &mut GraphAllocator) -> Result<()> {
        let shape = rows.shape();
        let ctx = Context::new(2);
        let tensors =
            [&rows.k, &rows.v].map(|_| ctx.tensor(Type::F32, [shape.head_dim, n, shape.n_kv_heads]));
        ctx.allocate(&self.backend.buffer_type())?;
        for (tensor, array) in tensors.iter().zip([&rows.k, &rows.v]) {
            for head in 0..shape.n_kv_heads {
                let data = &array.data[head * rows.n() * shape.head_dim..][..n * shape.head_dim];
                tensor.write(4 * head * n * shape.head_dim, data)?;
            }
        }
        store.take_layer(0, (&tensors[0], &tensors[1]), n, &self.backend, allocator)?;
        store.finish_exact(n);
        Ok(())
    }

    fn append(&self, store: &mut Store, rows: &Rows, t: usize, allocator: &mut GraphAllocator) -> Result<()> {
        let shape = rows.shape();
        let ctx = Context::new(8);
        let [k, v] = ["k", "v"].map(|name| ctx.input(name, Type::F32, [shape.head_dim, shape.n_kv_heads, 1]));
        let state = lane_state(&ctx);
        let done = graph::append(&ctx, (&k, &v), &store.lanes(0), &state);
        let ready = allocator.prepare(ctx.graph(&[&done])?)?;
        k.write(0, &Rows::token(&rows.k, t))?;
        v.write(0, &Rows::token(&rows.v, t))?;
        fill_state(&state, store)?;
        self.backend.compute(&ready)?;
        store.advance(1);
        Ok(())
    }

    fn attend(&self, store: &Store, rows: &Rows, allocator: &mut GraphAllocator) -> Result<Vec<f32>> {
        let shape = rows.shape();
        let ctx = Context::new(8);
        let q = ctx.input("q", Type::F32, [shape.head_dim, rows.q.shape[0], 1]);
        let nothing = ctx.input("nothing", Type::F32, [1]);
        let state = lane_state(&ctx);
        let out =
            graph::attend(&ctx, shape, &q, (&nothing, 0), &store.lanes(0), &state, self.backend.threads());
        let out: Tensor = out.output();
        let ready = allocator.prepare(ctx.graph(&[&out])?)?;
        q.write(0, &rows.q.data)?;
        fill_state(&state, store)?;
        self.backend.compute(&ready)?;
        Ok(out.to_vec()?)
    }

    fn alibi_scope(&self, case: &Value) -> Result<()> {
        let p = &case["params"];
        let number = |key: &str| p[key].as_f64().with_context(|| key.to_owned());
        let (n_heads, head) = (number("n_head")? as usize, number("head")? as usize);
        let slopes = alibi::slopes(n_heads);
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
            let scope =
                alibi::scope((&wq, &wk), (&gamma, &bias), slopes[head], number("logit_scale")?, &options);
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
        let shape = HeadShape {
            head_dim: *head_dim,
            n_kv_heads: *n_kv_heads,
            group: heads / n_kv_heads,
            scale: 1.0 / (*head_dim as f32).sqrt(),
        };
        let queries: Vec<f32> = (0..*n).flat_map(|t| Rows::token(&q, t)).collect();
        for (occurrences, suffix) in [(Occurrences::All, "all"), (Occurrences::Last, "last")] {
            let p = &case["params"];
            let pattern = Pattern {
                prefix: p["n_prefix"].as_u64().context("n_prefix")? as usize,
                period: p["period"].as_u64().context("period")? as usize,
                occurrences,
            };
            let scores = score_heads(shape, pattern, &queries, &k.data, &self.backend)?;
            for (name, have) in [("induction", scores.induction), ("echo", scores.echo)] {
                let key = format!("{name}_{suffix}");
                close(&key, have.iter().map(|x| f64::from(*x)), &numbers(&case["expected"][&key])?)?;
            }
        }
        Ok(())
    }
}

fn lane_state(ctx: &Context) -> LaneState {
    LaneState {
        rows: ctx.input("rows", Type::I32, [MAX_LANES, 1]),
        log_weights: ctx.input("log_weights", Type::F32, [MAX_LANES, 1]),
        positions: ctx.input("positions", Type::I32, [1]),
        layer: 0,
    }
}

fn fill_state(state: &LaneState, store: &Store) -> Result<()> {
    let (rows, weights) = store.state();
    state.rows.write(0, &rows)?;
    if state.log_weights.is_allocated() {
        state.log_weights.write(0, &weights)?;
    }
    Ok(())
}

fn compare_kept(store: &Store, expected: &Value) -> Result<()> {
    let heads = expected.as_array().context("kept")?;
    for (head, (have, want)) in store.positions(0).iter().zip(heads).enumerate() {
        let want: Vec<u32> = want
            .as_array()
            .context("kept")?
            .iter()
            .map(|row| row.as_u64().unwrap_or(u64::MAX) as u32)
            .collect();
        ensure!(*have == want, "KV head {head} keeps {have:?}, {want:?} expected");
    }
    Ok(())
}

fn compare_entries(store: &Store, expected: &[Value]) -> Result<()> {
    for (head, (have, want)) in store.compensation(0)?.into_iter().zip(expected).enumerate() {
        let Some((k, v, count)) = have else {
            ensure!(want.is_null(), "KV head {head} has no compensation entry");
            continue;
        };
        ensure!(
            want["n_dropped"].as_u64() == Some(count as u64),
            "KV head {head}: {count} rows stand behind the entry"
        );
        for (name, sum) in [("k", k), ("v", v)] {
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
    let picked = heads::select::select(&shape, &scores("induction")?, &scores("echo")?, &rule)?;
    for (name, flags, columns) in
        [("heads", picked.query_heads, shape.heads()), ("kv", picked.kv_heads, shape.kv_heads())]
    {
        let have: Vec<[u64; 2]> = (0..flags.len())
            .filter(|i| flags[*i])
            .map(|i| [(i / columns) as u64, (i % columns) as u64])
            .collect();
        let want: Vec<[u64; 2]> = serde_json::from_value(case["expected"][name].clone())?;
        ensure!(have == want, "{name}: {have:?} are picked, {want:?} expected");
    }
    Ok(())
}

fn razor_window(case: &Value) -> Result<()> {
    let inputs: Vec<[f64; 3]> = serde_json::from_value(case["inputs"].clone())?;
    let expected: Vec<usize> = serde_json::from_value(case["expected"].clone())?;
    for ([seen, buffer, ratio], want) in inputs.into_iter().zip(expected) {
        let choice: PolicyChoice = format!("razor:buffer={buffer},ratio={ratio}").parse()?;
        let bounds = choice.policy().bounds().context("razor bounds heads")?;
        let have = bounds.window(seen as usize);
        ensure!(
            have == want,
            "window of {seen} tokens with buffer {buffer}, ratio {ratio}: {have}, {want} expected"
        );
    }
    Ok(())
}

/// All numbers of a nested array, in order.
fn numbers(value: &Value) -> Result<Vec<f64>> {
    match value {
        Value::Array(items) => Ok(items.iter().map(numbers).collect::<Result<Vec<_>>>()?.concat()),
        Value::Number(number) => Ok(vec![number.as_f64().context("a number")?]),
        other => bail!("{other} is not a number"),
    }
}

fn close(what: &str, have: impl ExactSizeIterator<Item = f64>, want: &[f64]) -> Result<()> {
    ensure!(have.len() == want.len(), "{what}: {} numbers, {} expected", have.len(), want.len());
    for (i, (have, want)) in have.zip(want).enumerate() {
        ensure!((have - want).abs() <= TOLERANCE, "{what}: number {i} is {have}, {want} expected");
    }
    Ok(())
}
