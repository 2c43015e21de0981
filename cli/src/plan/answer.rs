//! The answer of `plan`: yes or no, with the best choice of policy and types, the command that runs it, and
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
    /// The number of the best choice that fits, else of the one that fits the longest text.
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
                let longest = candidates()
                    .max_by_key(|(number, choice)| (choice.forecast.longest_context, Reverse(*number)));
                (longest?.0, Some(false))
            }
        };
        Some(Answer { args, forecast, choices, best, fits })
    }

    /// Whether it fits; `None` where the memory is not known.
    pub fn fits(&self) -> Option<bool> {
        self.fits
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
                format!("Yes: {name} needs {of}; longest document {longest} tokens{trained}\n")
            }
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
        let placement = best.forecast.planned.placement;
        let split = placement.split_layers(self.forecast.spec());
        if self.fits != Some(false) && split > 0 {
            text += &format!(
                "\nnote: {split} of the {} layers on the GPU have their experts on the CPU (--n-cpu-moe)\n",
                placement.on_device()
            );
        }
        if self.fits != Some(false) && placement.has_host_residual() {
            text += &format!(
                "\nnote: while the document is read, its activations take {} of main memory: the GPU has no room\n",
                format::bytes(best.forecast.planned.bytes.host.residual)
            );
        }
        if best.rank.is_none() {
            text += &format!(
                "\nnote: {} answered fewer questions about long texts in our tests; `full` and `razor` did not\n",
                best.row.wanted.given
            );
        }
        text
    }

    /// What is missing for the choice that fits the longest text.
    fn shortage(&self, limit: usize) -> String {
        let (target, layers) = (self.forecast.target(), self.forecast.spec().n_layers);
        let tokens = format::count(self.forecast.context());
        let best = &self.choices[self.best];
        let name = best.name();
        let planned = &best.forecast.planned;
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
                format!(
                    "the weights do not all fit on the GPU: use a smaller file type{experts}, or fewer layers on the \
                     GPU (-ngl)\n"
                )
            }
            0 => "the weights alone do not fit: use a smaller model or a smaller file type\n".to_owned(),
            longest => format!("It fits with {} tokens:\n", format::count(longest)),
        }
    }

    /// Tokens of the session that fits.
    fn context(&self) -> usize {
        match self.fits {
            Some(false) => self.choices[self.best].forecast.longest_context,
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
            Some(shape) => words.push(format!("{}.gguf", shape.replace(':', "-"))),
            None => words.extend(args.model.model_words(args.model_arg.path.as_deref())),
        }
        words.extend(["-f", "DOCUMENT", "-c", &context.to_string()].map(str::to_owned));
        let mut flag = |name: &str, value: String| words.extend([name.to_owned(), value]);
        // Settings may name another policy. A smaller type than the default would fit too.
        flag("--policy", row.wanted.given.clone());
        if let Some(percent) = row.wanted.percent {
            flag("--kv-budget", format!("{percent}%"));
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
        let mut table = Table::new(["policy", "KV type", ">needs", ">fits", ">longest document"]);
        // What is never advised is shown only if nothing else was asked for.
        let ranked = self.choices.iter().filter(|choice| choice.rank.is_some()).count();
        let shown = if ranked == 0 { self.choices.len() } else { ranked };
        let last = self.best.max(shown.min(ROWS) - 1);
        for Choice { row, forecast, .. } in
            self.choices[..last].iter().take(ROWS - 1).chain([&self.choices[last]])
        {
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

    /// The answer as JSON.
    pub fn object(&self) -> Value {
        let best = &self.choices[self.best];
        json!({
            "fits": self.fits,
            "policy": best.row.wanted.given,
            "type_k": best.row.types.0.name(),
            "type_v": best.row.types.1.name(),
            "context": self.context(),
            "needed": self.forecast.target().total(&best.forecast.planned.bytes),
            "command": self.command(),
        })
    }
}
