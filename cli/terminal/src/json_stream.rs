//! A JSON object with one array whose elements are printed as soon as they are known.

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;

use crate::console::Console;

/// An object that is printed in three parts: the fields before the array, its elements one by one, and the
/// fields after it. Together they are what [`Console::print_json`] prints of the whole object.
pub struct JsonStream {
    elements: usize,
}

impl JsonStream {
    /// Prints the fields `before` and the beginning of the array `name`.
    pub fn begin(console: &Console, before: &Value, name: &str) -> Result<JsonStream> {
        let fields = fields(before)?;
        console.print_json_text(&format!("{{{fields},\n  {}: [", Value::from(name)))?;
        Ok(JsonStream { elements: 0 })
    }

    /// Prints an element.
    pub fn push(&mut self, console: &Console, element: &impl Serialize) -> Result<()> {
        let comma = if self.elements > 0 { "," } else { "" };
        let text = serde_json::to_string_pretty(element)?.replace('\n', "\n    ");
        console.print_json_text(&format!("{comma}\n    {text}"))?;
        self.elements += 1;
        Ok(())
    }

    /// Prints the end of the array and the fields `after`.
    pub fn end(self, console: &Console, after: &Value) -> Result<()> {
        let end = if self.elements > 0 { "\n  ]" } else { "]" };
        console.print_json_text(&format!("{end},{}\n}}\n", fields(after)?))
    }
}

/// The fields of an object with at least one, each on a line, without the braces.
fn fields(object: &Value) -> Result<String> {
    let text = serde_json::to_string_pretty(object)?;
    let fields = text.strip_prefix('{').and_then(|text| text.strip_suffix("\n}"));
    Ok(fields.unwrap_or_default().to_owned())
}
