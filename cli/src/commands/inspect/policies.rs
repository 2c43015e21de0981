//! `longhand policies`: the cache policies with their parameters. `longhand help policies` prints the same.

use anyhow::Result;
use clap::Args;
use longhand::policy::{COMMON_PARAMETERS, PolicyEntry, policies};
use terminal::format;

use crate::app::App;

/// List the cache policies and their parameters.
#[derive(Debug, Args)]
#[command(long_about = catalogue())]
pub struct PoliciesArgs {}

/// Runs the command.
pub fn run(app: &App, _: &PoliciesArgs) -> Result<()> {
    // Longer lines are hard to read.
    const WIDEST: usize = 100;
    let (text, width) = (catalogue() + "\n", app.console.width());
    let width = if width == usize::MAX { width } else { width.min(WIDEST) };
    let text = format::fitted(&text, width);
    Ok(app.console.print(&text)?)
}

fn catalogue() -> String {
    let mut text = String::from(
        "The KV cache holds one row for each token, in every KV head of every layer. A cache policy decides which rows \
         a head keeps; the others are evicted. Without --policy, `ask`, `chat`, `read` and `serve` use auto: everything is kept if it fits \
         the memory; otherwise the closest cache that fits is used, and a note says which. Choose another one with\n\
         \n  --policy NAME\n  --policy NAME:parameter=value,parameter=value\n\n\
         for example --policy razor:buffer=4000,ratio=5. The list shows each parameter with its default. \
         Retrieval heads are those that look things up far back in the text: see `longhand help heads`.\n",
    );
    for entry in policies() {
        text += &format!("\n{}: {}\n", entry.name, entry.summary);
        for parameter in entry.parameters {
            let default = parameter.format_value(entry.default(parameter));
            let choices = match parameter.choices {
                [] => String::new(),
                choices => format!(" ({})", choices.join(", ")),
            };
            text += &format!("  {}={default}: {}{choices}\n", parameter.name, parameter.description);
        }
    }
    text += "\nevery policy but full:\n";
    for parameter in COMMON_PARAMETERS {
        let others = policies().filter(|entry| entry.factory.is_some() && entry.default(parameter) != 0.0);
        let other = |entry: &PolicyEntry| {
            format!("{} in {}", parameter.format_value(entry.default(parameter)), entry.name)
        };
        let others: Vec<String> = others.map(other).collect();
        let (name, description, choices) =
            (parameter.name, parameter.description, parameter.choices.join(", "));
        text += &format!("  {name}=off: {description} ({choices}); {}\n", others.join(", "));
    }
    text += "\nHow a text is read is another choice: see --prefill in `longhand help ask`. docs/policies.md says what policies and \
             ways of reading have cost where that was measured.\n";
    text.trim_end().to_owned()
}
