//! What a cell shows if the file has its value and no text for it.

use crate::package::xml::Element;

/// The value of a cell.
#[derive(Debug)]
pub(super) enum Value {
    /// As text.
    Known(String),
    /// A formula without a result.
    Formula(String),
}

impl Value {
    /// The value that a cell has, if it has one.
    pub(super) fn of(element: &Element) -> Option<Value> {
        let value = |name: &str| element.attribute_of(&format!("office:{name}"));
        let known = match value("value-type").unwrap_or_default().as_str() {
            "float" => value("value"),
            "percentage" => value("value").map(|share| percent(&share)),
            "currency" => value("value").map(|amount| match value("currency") {
                Some(currency) => format!("{amount} {currency}"),
                None => amount,
            }),
            "date" => value("date-value").map(|date| date.replacen('T', " ", 1)),
            "time" => value("time-value").map(|time| clock(&time).unwrap_or(time)),
            "boolean" => value("boolean-value").map(|is_true| is_true.to_uppercase()),
            _ => value("string-value"),
        };
        let formula = || Some(format!("={}", without_prefix(&element.attribute_of("table:formula")?)));
        known.map(Value::Known).or_else(|| formula().map(Value::Formula))
    }

    pub(super) fn into_text(self) -> String {
        match self {
            Value::Known(text) | Value::Formula(text) => text,
        }
    }
}

/// `0.256` as `25.6%`. What is no number stays.
pub(in crate::office::odf) fn percent(share: &str) -> String {
    match share.parse::<f64>() {
        // Digits that only the computation makes are rounded away.
        Ok(share) if share.is_finite() => format!("{}%", (share * 1e14).round() / 1e12),
        _ => share.to_owned(),
    }
}

/// `PT13H05M00S` as `13:05:00`, and `PT9H30M` as `09:30`.
pub(super) fn clock(time: &str) -> Option<String> {
    let (hours, rest) = time.strip_prefix("PT")?.split_once('H')?;
    let (minutes, rest) = rest.split_once('M')?;
    let seconds = rest.strip_suffix('S');
    let is_number = |part: &str| part.starts_with(|c: char| c.is_ascii_digit());
    let is_known = is_number(hours) && is_number(minutes) && seconds.map_or(rest.is_empty(), is_number);
    let seconds = seconds.map_or(String::new(), |seconds| format!(":{seconds:0>2}"));
    is_known.then(|| format!("{hours:0>2}:{minutes:0>2}{seconds}"))
}

/// A formula without the name of its language: `of:=SUM(…)` as `SUM(…)`.
fn without_prefix(formula: &str) -> &str {
    formula
        .split_once('=')
        .filter(|(before, _)| before.is_empty() || before.ends_with(':'))
        .map_or(formula, |(_, formula)| formula)
}
