//! The answer of `plan`: yes, partly or no, with the best choice of policy and types, the command that runs it, and
//! the few choices that come next.

use std::cmp::Reverse;

use longhand::setup::recipes::rank;
use longhand::setup::{Forecast, GpuLayers, HostExperts, SessionForecast};
use serde_json::{Value, json};
use terminal::format;
use terminal::prefill::PrefillArg;
use terminal::reporter::{layers_without_groups, nothing_fits, portable_operations};
use terminal::table::Table;

use crate::commands::plan::{PlanArgs, PlanRow};

/// Most rows of the short table.
const ROWS: usize = 5;

/// A possible choice of policy and types.
struct Choice<'a> {
    row: &'a PlanRow,
    forecast: &'a SessionForecast,
    /// See [`rank`].
    rank: Option<usize>,
    /// The number of the row.
    number: usize,
}

impl Choice<'_> {
    /// `razor + q8_0`
    fn name(&self) -> String {
        format!("{} + {}", self.row.wanted.name(), format::types(self.row.types))
    }
}

/// Whether a session fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It fits, with all the layers on the GPU that were wanted there.
    Yes,
    /// The GPU holds some of these layers, and main memory the others.
    Partly,
    /// It does not fit.
    No,
    /// The memory is not known.
    Unknown,
}

impl Verdict {
    /// Whether a plan fits.
    pub fn of(forecast: &Forecast, session: &SessionForecast) -> Verdict {
        let target = forecast.target();
        let (plan, placement) = (session.plan(), session.placement());
        let holds = target.holds(plan) && target.host_holds(plan);
        match target.fits(plan, placement, forecast.spec().n_layers) {
            None => Verdict::Unknown,
            Some(true) => Verdict::Yes,
            Some(false) if holds && placement.on_devices() > 0 => Verdict::Partly,
            Some(false) => Verdict::No,
        }
    }
}

/// The answer to whether a session fits.
pub struct Answer<'a> {
    args: &'a PlanArgs,
    forecast: &'a Forecast,
    /// All possible choices, best first.
    choices: Vec<Choice<'a>>,
    /// The number of the best choice with this verdict. If it is no, the choice that fits the longest context.
    best: usize,
    verdict: Verdict,
}

impl<'a> Answer<'a> {
    /// Chooses among the rows; `None` if all of them are impossible.
    pub fn choose(args: &'a PlanArgs, forecast: &'a Forecast, rows: &'a [PlanRow]) -> Option<Answer<'a>> {
        let mut choices: Vec<Choice> = rows
            .iter()
            .enumerate()
            .filter_map(|(number, row)| {
                let forecast = row.plan.as_ref().ok()?;
                let session = forecast.session();
                let rank = rank(&session.policy, row.wanted.percent, session.types, session.context);
                Some(Choice { row, forecast, rank, number })
            })
            .collect();
        // Choices without a rank are there only if the user has asked for them.
        choices.sort_unstable_by_key(|choice| (choice.rank.unwrap_or(usize::MAX), choice.number));
        let first = choices.first()?;
        let unranked = first.rank.is_none();
        let candidates =
            || choices.iter().enumerate().filter(|(_, choice)| unranked || choice.rank.is_some());
        let find = |verdict: Verdict| {
            let found = candidates().find(|(_, choice)| Verdict::of(forecast, choice.forecast) == verdict);
            found.map(|(number, _)| (number, verdict))
        };
        let closest = || {
            let key = |(number, choice): &(usize, &Choice)| {
                let needed = forecast.target().total(choice.forecast.plan());
                (choice.forecast.longest_context, Reverse(needed), Reverse(*number))
            };
            candidates().max_by_key(key).map(|(number, _)| (number, Verdict::No))
        };
        let known = find(Verdict::Yes).or_else(|| find(Verdict::Unknown)).or_else(|| find(Verdict::Partly));
        let (best, verdict) = known.or_else(closest)?;
        Some(Answer { args, forecast, choices, best, verdict })
    }

    /// Whether it fits.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Whether the best choice uses a head profile.
    pub fn uses_profile(&self) -> bool {
        self.best().session().policy.uses_profile()
    }

    fn best(&self) -> &SessionForecast {
        self.choices[self.best].forecast
    }

    /// The sentence, and the command.
    pub fn text(&self) -> String {
        let best = &self.choices[self.best];
        let (target, context) = (self.forecast.target(), self.forecast.context());
        let needed = target.total(best.forecast.plan());
        let name = best.name();
        let longest = format::count(best.forecast.longest_context);
        let trained = match self.forecast.spec().n_ctx_train {
            trained if trained < best.forecast.longest_context => {
                format!(" (trained for {})", format::count(trained))
            }
            _ => String::new(),
        };
        let mut text = match (self.verdict, target.limit()) {
            (Verdict::Yes, Some(limit)) => {
                let of = format::bytes_of(needed, limit);
                format!("Yes: {name} needs {of}; longest context {longest} tokens{trained}\n")
            }
            (Verdict::Partly, Some(limit)) => self.parts(limit),
            (Verdict::No, Some(limit)) => format!("No: {}\n{}", self.shortage(limit), self.change()),
            _ => format!(
                "Not known: {name} needs {} for {} tokens; give the memory with --memory or --gpu\n",
                format::bytes(needed),
                format::count(context)
            ),
        };
        if let Some(command) = self.command() {
            text += &format!("\n  {command}\n");
        }
        if self.verdict != Verdict::No {
            text += &self.placement_notes();
        }
        if let Some(exact) = best.forecast.exact_layers(self.forecast.spec()) {
            text += &format!("\n{}", layers_without_groups(exact, self.forecast.spec().n_layers));
        }
        if best.rank.is_none() {
            let given = &best.row.wanted.given;
            let note = match best.forecast.session().policy.name() {
                "kvzap" | "kvzip-plus" => format!("{given} was tested on a small model and short texts only"),
                _ => {
                    format!("in our tests {given} lost more answers than other ways of saving as much memory")
                }
            };
            text += &format!("\nnote: {note}");
            text += if self.args.policy.is_empty() { "\n" } else { "; without --policy they are shown\n" };
        }
        text
    }

    /// What the best choice needs besides the GPU's memory.
    fn placement_notes(&self) -> String {
        let best = self.best();
        let (plan, placement) = (best.plan(), best.placement());
        if placement.on_devices() == 0 {
            return String::new();
        }
        let mut notes = String::new();
        if let Some(reason) = self.forecast.target().portable_reason(self.forecast.spec()) {
            notes += &format!("\n{}\n", portable_operations(&reason));
        }
        notes += &self.layers_of_devices();
        let split = placement.split_layers(self.forecast.spec());
        if split > 0 {
            notes += &format!(
                "\nnote: {split} of the {} layers on the GPU have their experts on the CPU (--n-cpu-moe)\n",
                placement.on_devices()
            );
        }
        let has_host_layers = placement.on_devices() < self.forecast.spec().n_layers;
        if !has_host_layers && split == 0 && !placement.has_host_residual() {
            return notes;
        }
        notes += &format!("\nmain memory: {}", format::bytes(plan.total()));
        if placement.has_host_residual() {
            notes += &format!(
                ", {} of it for the activations of the document while it is read: the GPU has no room for them",
                format::bytes(plan.host.residual)
            );
        }
        notes + "\n"
    }

    /// `GPU's`, or `GPUs'` of several.
    fn gpus(&self) -> &'static str {
        if self.forecast.target().devices.len() > 1 { "GPUs'" } else { "GPU's" }
    }

    /// What each of several GPUs has.
    fn layers_of_devices(&self) -> String {
        let (best, target) = (self.best(), self.forecast.target());
        if target.devices.len() < 2 {
            return String::new();
        }
        let devices = target.devices.iter().zip(best.placement().counts()).enumerate();
        let lines = devices.map(|(number, (device, layers))| {
            let needed = target.device_total(best.plan(), number);
            let memory = match device.limit {
                Some(limit) => format::bytes_of(needed, limit),
                None => format::bytes(needed),
            };
            format!("\n{}: {layers} layer{}, {memory}", device.kind, if layers == 1 { "" } else { "s" })
        });
        lines.collect::<String>() + "\n"
    }

    /// How many layers the GPU holds.
    fn parts(&self, limit: usize) -> String {
        let best = self.best();
        let mut text = format!(
            "Partly: with {} tokens {} of {} layers fit the {} {} ({}). The others run on the CPU, which is slower\n",
            format::count(self.forecast.context()),
            best.placement().on_devices(),
            self.forecast.target().wanted_layers(self.forecast.spec().n_layers),
            self.gpus(),
            format::bytes(limit),
            self.choices[self.best].name()
        );
        let longest = self
            .choices
            .iter()
            .filter(|choice| choice.rank.is_some())
            .max_by_key(|choice| (choice.forecast.longest_context, Reverse(choice.number)));
        if let Some(longest) = longest.filter(|choice| choice.forecast.longest_context > 0) {
            text += &format!(
                "With {} tokens all layers fit ({})\n",
                format::count(longest.forecast.longest_context),
                longest.name()
            );
        }
        text
    }

    /// What is missing for the choice that fits the longest context.
    fn shortage(&self, limit: usize) -> String {
        let target = self.forecast.target();
        let plan = self.best().plan();
        if !target.devices.is_empty() && self.best().placement().on_devices() == 0 {
            let what = nothing_fits(target.fewest_layers());
            return format!("{what} the {} {}", self.gpus(), format::bytes(limit));
        }
        let (needed, limit, place) = match target.host_limit.filter(|_| !target.host_holds(plan)) {
            Some(free) => (plan.total(), free, "main memory"),
            None if !target.devices.is_empty() => (target.total(plan), limit, "GPU memory"),
            None => (target.total(plan), limit, "memory"),
        };
        format!(
            "{} tokens need {} of {place} ({})",
            format::count(self.forecast.context()),
            format::bytes_of(needed, limit),
            self.choices[self.best].name()
        )
    }

    /// The smallest change with which it fits.
    fn change(&self) -> String {
        let target = self.forecast.target();
        match self.best().longest_context {
            0 if !target.host_holds(self.best().plan()) => {
                "use a smaller model or a smaller file type\n".to_owned()
            }
            0 if !target.devices.is_empty() => {
                let layers = self.forecast.spec().n_layers;
                let experts = match target.host_experts {
                    HostExperts::Count(count) if self.forecast.spec().experts.is_some() && count < layers => {
                        ", fewer experts on the GPU (--n-cpu-moe)"
                    }
                    _ => "",
                };
                let layers = match target.layers {
                    GpuLayers::Count(count) if count > target.fewest_layers() => {
                        ", or fewer layers on the GPU (-ngl)"
                    }
                    _ => ", or the CPU (--device cpu)",
                };
                format!("use a smaller file type{experts}{layers}\n")
            }
            0 => "the weights alone do not fit: use a smaller model or a smaller file type\n".to_owned(),
            longest => format!("It fits with {} tokens:\n", format::count(longest)),
        }
    }

    /// Tokens of the session that fits.
    fn context(&self) -> usize {
        match self.verdict {
            Verdict::No => self.best().longest_context,
            _ => self.forecast.context(),
        }
    }

    /// The command that runs the best choice; `None` if nothing fits.
    fn command(&self) -> Option<String> {
        let context = Some(self.context()).filter(|context| *context > 0)?;
        let args = self.args;
        let row = self.choices[self.best].row;
        let mut words = vec!["longhand".to_owned(), "chat".to_owned()];
        match &args.shape {
            Some(_) => words.push("MODEL.gguf".to_owned()),
            None => words.extend(args.model.model_words(args.model_arg.path.as_deref())),
        }
        words.extend(["-f", "DOCUMENT", "-c", &context.to_string()].map(str::to_owned));
        let mut flag = |name: &str, value: String| words.extend([name.to_owned(), value]);
        // Settings may name another policy. A smaller type than the default would fit too.
        flag("--policy", row.wanted.given.clone());
        if let Some(budget) = row.wanted.kv_budget() {
            flag("--kv-budget", budget);
        }
        for (name, ty) in [("-ctk", row.types.0), ("-ctv", row.types.1)] {
            if ty != longhand::SessionOptions::default().types.0 {
                flag(name, ty.name().to_owned());
            }
        }
        if let Some(heads) = &args.heads {
            flag("--heads", heads.display().to_string());
        }
        if args.prefill != PrefillArg::Exact {
            flag("--prefill", args.prefill.name().to_owned());
        }
        for more in [args.budget.words(), args.chunk.words(), args.model.words()] {
            words.extend(more);
        }
        Some(words.iter().map(|word| format::shell_word(word)).collect::<Vec<_>>().join(" "))
    }

    /// The best choices, and the one of the answer, as a table of at most `width` columns.
    pub fn table(&self, width: usize) -> String {
        let target = self.forecast.target();
        let mut table = Table::new(["policy", "KV type", ">needs", ">fits", ">longest context"]);
        for Choice { row, forecast, .. } in self.shown() {
            table.row([
                row.wanted.name(),
                format::types(row.types),
                format::bytes(target.total(forecast.plan())),
                fits_cell(self.forecast, forecast),
                match target.limit() {
                    Some(_) => format::count(forecast.longest_context),
                    None => "?".to_owned(),
                },
            ]);
        }
        table.fitted(width)
    }

    /// The choices of [`Answer::table`], best first: those that the user asked for, else a few. Each of the few has room
    /// for a longer context than those before it. Where that is equal, it leaves more layers on the GPU, or needs less.
    fn shown(&self) -> Vec<&Choice<'a>> {
        if !self.args.policy.is_empty() {
            return self.choices.iter().collect();
        }
        let gain = |choice: &Choice| {
            let session = choice.forecast;
            let needed = self.forecast.target().total(session.plan());
            (session.longest_context, session.placement().on_devices(), Reverse(needed))
        };
        let mut shown: Vec<&Choice> = Vec::new();
        // What is never advised is shown only if there is nothing else.
        let has_advised = self.choices[0].rank.is_some();
        for (number, choice) in self.choices.iter().enumerate() {
            let is_advised = choice.rank.is_some() || !has_advised;
            let is_useful = is_advised && shown.iter().all(|other| gain(choice) > gain(other));
            let has_room = shown.len() < ROWS - 1 || (shown.len() < ROWS && number >= self.best);
            if number == self.best || (is_useful && has_room) {
                shown.push(choice);
            }
        }
        shown
    }

    /// The answer as JSON.
    pub fn object(&self) -> Value {
        let best = &self.choices[self.best];
        let (fits, verdict) = match self.verdict {
            Verdict::Yes => (Some(true), "yes"),
            Verdict::Partly => (Some(false), "partly"),
            Verdict::No => (Some(false), "no"),
            Verdict::Unknown => (None, "unknown"),
        };
        json!({
            "fits": fits,
            "verdict": verdict,
            "policy": best.row.wanted.given,
            "kv_budget": self.args.kv_budget(&best.row.wanted),
            "type_k": best.row.types.0.name(),
            "type_v": best.row.types.1.name(),
            "context": self.context(),
            "needed": self.forecast.target().total(best.forecast.plan()),
            "command": self.command(),
        })
    }
}

/// Whether a plan fits: `yes`, `no`, `?`, how many layers the GPU holds, or how many it holds without their experts.
pub fn fits_cell(forecast: &Forecast, session: &SessionForecast) -> String {
    let placement = session.placement();
    match Verdict::of(forecast, session) {
        Verdict::Yes => match placement.split_layers(forecast.spec()) {
            0 => "yes".into(),
            split => format!("yes, {split} without experts"),
        },
        Verdict::Partly => {
            let wanted = forecast.target().wanted_layers(forecast.spec().n_layers);
            format!("{} of {wanted} layers", placement.on_devices())
        }
        Verdict::No => "no".into(),
        Verdict::Unknown => "?".into(),
    }
}
