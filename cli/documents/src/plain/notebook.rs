//! Notebooks of Jupyter: text, code and what the code wrote. Pictures are counted.

use serde_json::Value;

use super::decode;
use crate::counts::Counts;
use crate::web::html;
use crate::{Converted, Problem, marks};

/// Converts a notebook.
///
/// # Errors
/// It is no notebook, or longer than `max_bytes`.
pub(crate) fn convert(bytes: &[u8], max_bytes: u64) -> Result<Converted, Problem> {
    let text = decode::text(bytes)?.text;
    let notebook: Value =
        serde_json::from_str(&text).map_err(|error| Problem::Damaged { what: error.to_string() })?;
    let language = notebook
        .pointer("/metadata/kernelspec/language")
        .or_else(|| notebook.pointer("/metadata/language_info/name"));
    let language = language.and_then(Value::as_str).unwrap_or_default();
    let sheets = notebook.get("worksheets").and_then(Value::as_array);
    // Old notebooks have their cells in sheets.
    let old = sheets.into_iter().flatten().filter_map(|sheet| sheet.get("cells"));
    let cells = notebook.get("cells").into_iter().chain(old).filter_map(Value::as_array).flatten();
    let (mut written, mut counts) = (String::new(), Counts::default());
    for cell in cells {
        let kind = cell.get("cell_type").and_then(Value::as_str).unwrap_or_default();
        let source = lines(cell.get("source").or_else(|| cell.get("input")));
        match kind {
            "code" => {
                push(&mut written, &fenced(language, &source));
                let outputs = cell.get("outputs").and_then(Value::as_array).into_iter().flatten();
                outputs.for_each(|output| push(&mut written, &shown(output, &mut counts)));
            }
            "heading" => {
                let level = cell.get("level").and_then(Value::as_u64).unwrap_or(1).clamp(1, 6);
                push(&mut written, &marks::markdown(&format!("{} {source}", "#".repeat(level as usize))));
            }
            _ => push(&mut written, &marks::markdown(&source)),
        }
        if written.len() as u64 > max_bytes {
            return Err(Problem::TooLong { limit: max_bytes });
        }
    }
    Ok(Converted { text: written, notes: counts.notes(), ..Converted::default() })
}

fn push(written: &mut String, text: &str) {
    let text = text.trim_end();
    if !text.trim().is_empty() {
        written.push_str(if written.is_empty() { "" } else { "\n" });
        written.push_str(text);
        written.push('\n');
    }
}

/// A text, or one of several lines.
fn lines(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(lines)) => lines.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}

fn fenced(language: &str, code: &str) -> String {
    if code.trim().is_empty() {
        return String::new();
    }
    // The fence is longer than those in the code.
    let longest = code.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}", code.trim_end())
}

/// What an output shows. As in Jupyter, a page goes before a picture, and a picture before plain text.
fn shown(output: &Value, counts: &mut Counts) -> String {
    let page = output.get("data").and_then(|data| data.get("text/html"));
    if let Some(page) = page {
        // The title of an output is not shown.
        let (_, text, of_page) = html::to_parts(&lines(Some(page)), false, &mut |_, _| None);
        let has_picture = of_page.pictures > 0;
        counts.add(of_page);
        if has_picture || !text.trim().is_empty() {
            return text;
        }
    }
    fenced("", &shown_as_text(output, counts))
}

/// What an output without a page says as text.
fn shown_as_text(output: &Value, counts: &mut Counts) -> String {
    if let Some(traceback) = output.get("traceback").and_then(Value::as_array) {
        let lines: Vec<&str> = traceback.iter().filter_map(Value::as_str).collect();
        return without_colors(&lines.join("\n"));
    }
    // Newer notebooks have the forms of an output under a name.
    let data = output.get("data").unwrap_or(output);
    let is_picture =
        |name: &String| name.starts_with("image/") || ["png", "jpeg", "svg"].contains(&name.as_str());
    let has_picture = data.as_object().is_some_and(|data| data.keys().any(is_picture));
    if has_picture {
        counts.pictures += 1;
        // `<Figure size 640x480>` says nothing.
        return String::new();
    }
    let text = ["text/markdown", "text/latex", "text/plain", "text"].iter().find_map(|name| data.get(name));
    match (text, data.get("application/json")) {
        (None, Some(json)) => json.to_string(),
        _ => without_colors(&lines(text)),
    }
}

/// A text without the control sequences of terminals. Of a line that was written over the last state stays.
fn without_colors(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut chars = text.chars();
    let mut is_over = false;
    while let Some(c) = chars.next() {
        match c {
            '\r' => is_over = true,
            '\u{1b}' => {
                if chars.as_str().starts_with('[') {
                    chars.by_ref().skip(1).find(|c| c.is_ascii_alphabetic());
                }
            }
            c if c.is_control() && c != '\n' && c != '\t' => {}
            c => {
                if std::mem::take(&mut is_over) && c != '\n' {
                    kept.truncate(kept.rfind('\n').map_or(0, |end| end + 1));
                }
                kept.push(c);
            }
        }
    }
    kept
}
