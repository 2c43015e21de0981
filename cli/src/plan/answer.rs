//! The answer of `plan`: yes, partly or no, with the best choice of policy and types, the command that runs it, and
//! the few choices that come next.

use std::cmp::Reverse;

use longhand::setup::{Forecast, HostExperts, SessionForecast};
use serde_json::{Value, json};

use super::{PlanArgs, Row};
use crate::args::session::PrefillArg;
use crate::format;
use crate::recipes::rank;
use crate::table::Table;

/// Most rows of the short table.
const ROWS: usize = 5;

/// A possible choice of policy and types.
struct Choice<'a> {
    row: &'a Row,
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

/// The answer to whether a session fits.
pub struct Answer<'a> {
    args: &'a PlanArgs,
    forecast: &'a Forecast,
    /// All possible choices, best first.
    choices: Vec<Choice<'a>>,
    /// The number of the best choice that fits, else of the one that fits the longest context.
    best: usize,
    /// Whether it fits; `None` where the memory is not known.
    fits: Option<bool>,
}

impl<'a> Answer<'a> {
    /// Chooses among the rows; `None` if all of them are impossible.
    pub fn choose(args: &'a PlanArgs, forecast: &'a Forecast, rows: &'a [Row]) -> Option<Answer<'a>> {
        let mut choices: Vec<Choice> = rows
            .iter()
            .enumerate()
            .filter_map(|(number, row)| {
                let forecast = row.plan.as_ref().ok()?;
                let session = &forecast.planned.session;
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
        let fits =
            |choice: &Choice| forecast.target().fits(&choice.forecast.planned, forecast.spec().n_layers);
        let (best, fits) = match candidates().find(|(_, choice)| fits(choice) != Some(false)) {
            Some((best, choice)) => (best, fits(choice)),
            None => {
                let closest = candidates().max_by_key(|(number, choice)| {
                    let plan = &choice.forecast.planned.bytes;
                    // Bytes that even the placement with the fewest layers on the GPU lacks.
                    let lacking =
                        if forecast.target().holds(plan) { 0 } else { forecast.target().total(plan) };
                    (choice.forecast.longest_context, Reverse(lacking), Reverse(*number))
                });
                (closest?.0, Some(false))
            }
        };
        Some(Answer { args, forecast, choices, best, fits })
    }

    /// Whether it fits; `None` where the memory is not known.
    pub fn fits(&self) -> Option<bool> {
        self.fits
    }

    /// Whether the best choice uses a head profile.
    pub fn uses_profile(&self) -> bool {
        self.choices[self.best].forecast.planned.session.policy.uses_profile()
    }

    /// Whether nothing fits, but the GPU holds some of the layers.
    fn fits_partly(&self) -> bool {
        let SessionForecast { planned, longest_context } = self.choices[self.best].forecast;
        let target = self.forecast.target();
        let holds = target.holds(&planned.bytes) && target.host_holds(&planned.bytes);
        self.fits == Some(false) && *longest_context == 0 && holds && planned.placement.on_device() > 0
    }

    /// The sentence, and the command.
    pub fn text(&self) -> String {
        let best = &self.choices[self.best];
        let (target, context) = (self.forecast.target(), self.forecast.context());
        let needed = target.total(&best.forecast.planned.bytes);
        let name = best.name();
        let longest = format::count(best.forecast.longest_context);
        let trained = match self.forecast.spec().n_ctx_train {
            trained if trained < best.forecast.longest_context => {
                format!(" (trained for {})", format::count(trained))
            }
            _ => String::new(),
        };
        let mut text = match (self.fits, target.limit) {
            (Some(true), Some(limit)) => {
                let of = format::bytes_of(needed, limit);
                format!("Yes: {name} needs {of}; longest context {longest} tokens{trained}\n")
            }
            (Some(false), Some(limit)) if self.fits_partly() => self.parts(limit),
            (Some(false), Some(limit)) => format!("No: {}\n{}", self.shortage(limit), self.change()),
            _ => format!(
                "Not known: {name} needs {} for {} tokens; give the memory with --memory or --gpu\n",
                format::bytes(needed),
                format::count(context)
            ),
        };
        if let Some(command) = self.command() {
            text += &format!("\n  {command}\n");
        }
        if self.fits != Some(false) || self.fits_partly() {
            text += &self.placement_notes();
        }
        if best.rank.is_none() {
            text += &format!(
                "\nnote: in our tests {} lost more answers than other ways of saving as much memory; without --policy \
                 they are shown\n",
                best.row.wanted.given
            );
        }
        text
    }

    /// What the best choice needs besides the GPU's memory.
    fn placement_notes(&self) -> String {
        let planned = &self.choices[self.best].forecast.planned;
        let (plan, placement) = (&planned.bytes, planned.placement);
        if placement.on_device() == 0 {
            return String::new();
        }
        let mut notes = String::new();
        let split = placement.split_layers(self.forecast.spec());
        if split > 0 {
            notes += &format!(
                "\nnote: {split} of the {} layers on the GPU have their experts on the CPU (--n-cpu-moe)\n",
                placement.on_device()
            );
        }
        let has_host_layers = placement.on_device() < self.forecast.spec().n_layers;
        if !has_host_layers && split == 0 && !placement.has_host_residual() {
            return notes;
        }
        notes += &format!("\nmain memory: {}", format::bytes(plan.total() - plan.weights.mapped));
        if placement.has_host_residual() {
            notes += &format!(
                ", {} of it for the activations of the document while it is read: the GPU has no room for them",
                format::bytes(plan.host.residual)
            );
        }
        notes + "\n"
    }

    /// How many layers the GPU holds.
    fn parts(&self, limit: usize) -> String {
        let best = &self.choices[self.best];
        format!(
            "Partly: with {} tokens {} of {} layers fit the GPU's {} ({}). The others run on the CPU, which is slower\n",
            format::count(self.forecast.context()),
            best.forecast.planned.placement.on_device(),
            self.forecast.target().wanted_layers(self.forecast.spec().n_layers),
            format::bytes(limit),
            best.name()
        )
    }

    /// What is missing for the choice that fits the longest text.
    fn shortage(&self, limit: usize) -> String {
        let (target, layers) = (self.forecast.target(), self.forecast.spec().n_layers);
        let tokens = format::count(self.forecast.context());
        let best = &self.choices[self.best];
        let name = best.name();
        let planned = &best.forecast.planned;
        if let Some(free) = target.host_limit.filter(|_| !target.host_holds(&planned.bytes)) {
            let needed = planned.bytes.total() - planned.bytes.weights.mapped;
            return format!(
                "{tokens} tokens need {} of main memory ({name})",
                format::bytes_of(needed, free)
            );
        }
        if target.holds(&planned.bytes) {
            let (some, all) = (planned.placement.on_device(), target.wanted_layers(layers));
            return format!(
                "with {tokens} tokens only {some} of {all} layers fit the GPU's {} ({name})",
                format::bytes(limit)
            );
        }
        let needed = target.total(&planned.bytes);
        let place = if target.device.is_some() { "GPU memory" } else { "memory" };
        format!("{tokens} tokens need {} of {place} ({name})", format::bytes_of(needed, limit))
    }

    /// The smallest change with which it fits.
    fn change(&self) -> String {
        match self.choices[self.best].forecast.longest_context {
            0 if self.forecast.target().device.is_some() => {
                let layers = self.forecast.spec().n_layers;
                let experts = match self.forecast.target().host_experts {
                    HostExperts::Count(count) if self.forecast.spec().experts.is_some() && count < layers => {
                        ", fewer experts on the GPU (--n-cpu-moe)"
                    }
                    _ => "",
                };
                format!("use a smaller file type{experts}, or fewer layers on the GPU (-ngl)\n")
            }
            0 => "the weights alone do not fit: use a smaller model or a smaller file type\n".to_owned(),
            longest => format!("It fits with {} tokens:\n", format::count(longest)),
        }
    }

    /// Tokens of the session that fits.
    fn context(&self) -> usize {
        match self.fits {
            Some(false) if !self.fits_partly() => self.choices[self.best].forecast.longest_context,
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
        if args.prefill == PrefillArg::Streaming {
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
            let planned = &forecast.planned;
            table.row([
                row.wanted.name(),
                format::types(row.types),
                format::bytes(target.total(&planned.bytes)),
                super::report::fits_cell(self.forecast, planned),
                match target.limit {
                    Some(_) => format::count(forecast.longest_context),
                    None => "?".to_owned(),
                },
            ]);
        }
        table.fitted(width)
    }

    /// The choices of [`Answer::table`], best first. Of those that the user did not ask for, each needs less than those
    /// before it, and one at most leaves layers on the CPU.
    fn shown(&self) -> Vec<&Choice<'a>> {
        let target = self.forecast.target();
        let needed = |choice: &Choice| target.total(&choice.forecast.planned.bytes);
        let wanted_layers = target.wanted_layers(self.forecast.spec().n_layers);
        let has_all_layers = |choice: &Choice| choice.forecast.planned.placement.on_device() == wanted_layers;
        // What is never advised is shown only if nothing else was asked for.
        let has_advised = self.choices[0].rank.is_some();
        let mut shown: Vec<&Choice> = Vec::new();
        for (number, choice) in self.choices.iter().enumerate() {
            let is_advised = choice.rank.is_some() || !has_advised;
            let saves = shown.iter().all(|other| needed(choice) < needed(other))
                && (shown.is_empty() || has_all_layers(choice));
            let has_room = shown.len() < ROWS - 1 || (shown.len() < ROWS && number >= self.best);
            let is_useful = is_advised && has_room && (saves || !self.args.policy.is_empty());
            if number == self.best || is_useful {
                shown.push(choice);
            }
        }
        shown
    }

    /// The answer as JSON.
    pub fn object(&self) -> Value {
        let best = &self.choices[self.best];
        json!({
            "fits": self.fits,
            "policy": best.row.wanted.given,
            "kv_budget": best.row.wanted.kv_budget(),
            "type_k": best.row.types.0.name(),
            "type_v": best.row.types.1.name(),
            "context": self.context(),
            "needed": self.forecast.target().total(&best.forecast.planned.bytes),
            "command": self.command(),
        })
    }
}
