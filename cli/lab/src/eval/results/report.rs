//! What the results in a folder add up to: a table, a summary in JSON, and pictures.

use std::path::Path;

use anyhow::Result;
use terminal::console::visible;
use terminal::failure::Failure;

use crate::Lab;
use crate::eval::EvalArgs;
use crate::eval::results::pictures::{self, Picture};
use crate::eval::results::records::Records;
use crate::eval::results::summary::{Measure, pictures_of, summaries};
use crate::eval::results::{outputs, tables};

/// Writes the files of the folder, and prints the table or the summary.
pub fn finish(lab: &Lab, args: &EvalArgs, records: &mut Records) -> Result<()> {
    // Other parts of the work may have ended meanwhile.
    records.reload()?;
    let summaries = summaries(records.all());
    if summaries.is_empty() && args.shard.is_none() {
        return Err(Failure::new("every task was left out", "see the notes above for what is missing").into());
    }
    // Names come from files.
    let text = visible(&tables::markdown(&summaries));
    outputs::write(records.folder(), outputs::TABLE, text.as_bytes())?;
    let summary = serde_json::to_string_pretty(&summaries)? + "\n";
    outputs::write(records.folder(), outputs::SUMMARY, summary.as_bytes())?;
    for group in pictures_of(&summaries) {
        let of_measure =
            |measure| group.iter().filter(|summary| summary.measure() == measure).collect::<Vec<_>>();
        draw(records.folder(), pictures::of_scores(&of_measure(Measure::Score)))?;
        draw(records.folder(), pictures::of_agreement(&of_measure(Measure::Agreement)))?;
        draw(records.folder(), pictures::of_predictions(&of_measure(Measure::Prediction)))?;
        draw(records.folder(), pictures::of_retention(&of_measure(Measure::Retention)))?;
        draw(records.folder(), pictures::of_attention_loss(&of_measure(Measure::AttentionLoss)))?;
    }
    draw(records.folder(), pictures::of_needles(records.all()))?;
    if args.json {
        return lab.console.print_json(&summaries);
    }
    lab.console.print(&text)?;
    lab.console.note(&format!("results, table and pictures: {}", records.folder().display()));
    Ok(())
}

/// Writes each picture.
fn draw(folder: &Path, pictures: Vec<Picture>) -> Result<()> {
    for Picture { name, svg } in pictures {
        outputs::write(folder, &format!("{name}.svg"), svg.as_bytes())?;
    }
    Ok(())
}
