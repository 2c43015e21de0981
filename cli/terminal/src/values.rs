//! Parses values of flags: `100k` tokens, `24GiB`, `30%`.

use ggml::Type;
use kernels::RowType;
use kernels::graph::tensor_type;
use longhand::policy::KvBudget;

use crate::failure::Failure;
use crate::suggest::did_you_mean;

/// A whole number, which may be negative.
pub fn integer(text: &str) -> Result<i64, Failure> {
    let wrong = |_| Failure::usage("not a whole number", "give a number such as 64, 0 or -1");
    text.trim().parse().map_err(wrong)
}

/// A number of tokens: `8192`, `100k` (100,000), `1m`.
pub fn tokens(text: &str) -> Result<usize, Failure> {
    let lower = text.trim().to_ascii_lowercase();
    let (number, factor) = match lower.strip_suffix(['k', 'm']) {
        Some(number) if lower.ends_with('k') => (number, 1000.0),
        Some(number) => (number, 1_000_000.0),
        None => (lower.as_str(), 1.0),
    };
    match scaled(number, factor) {
        Some(value) if value.fract() != 0.0 => Err(Failure::usage(
            "not a whole number of tokens",
            "give a whole number, for example 8192, 100k or 1.5k",
        )),
        Some(value) if value <= i32::MAX as f64 => Ok(value as usize),
        Some(_) => Err(Failure::usage("too many tokens", "give at most 2147483647")),
        None => Err(Failure::usage(
            "not a number of tokens",
            "give a number, for example 8192 or 100k (k is 1000)",
        )),
    }
}

/// Bytes below which a number without a unit is refused: it was probably meant in GiB or MiB.
const SMALLEST_BARE: f64 = 1048576.0;

/// A number of bytes: `24GiB` or `24G` (2³⁰), `24GB` (10⁹), or a large number without a unit.
pub fn bytes(text: &str) -> Result<usize, Failure> {
    let lower = text.trim().to_ascii_lowercase();
    let digits = lower.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(lower.len());
    let (number, unit) = lower.split_at(digits);
    let binary = |power| 1024f64.powi(power);
    let factor = match unit {
        "" | "b" => 1.0,
        "k" | "kib" => binary(1),
        "m" | "mib" => binary(2),
        "g" | "gib" => binary(3),
        "t" | "tib" => binary(4),
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        _ => f64::NAN,
    };
    if let Some(number) = bare_number(&lower) {
        let hint = format!("give the unit: {number}GiB or {number}MiB");
        return Err(Failure::usage(format!("not a size: {number} what?"), hint));
    }
    match scaled(number.trim(), factor) {
        Some(value) if value < 1e18 => Ok(value as usize),
        _ => Err(Failure::usage("not a size", "give a size, for example 24GiB, 512MiB or 24GB")),
    }
}

/// A number that lacks its unit.
fn bare_number(text: &str) -> Option<f64> {
    scaled(text.trim(), 1.0).filter(|number| (f64::MIN_POSITIVE..SMALLEST_BARE).contains(number))
}

/// A share from 0 to 1: `0.15` or `15%`.
pub fn share(text: &str) -> Result<f64, Failure> {
    let text = text.trim();
    let value = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|value| value / 100.0),
        None => text.parse::<f64>(),
    };
    match value {
        Ok(value) if (0.0..=1.0).contains(&value) => Ok(value),
        _ => Err(Failure::usage("not a share", "give a number from 0 to 1, for example 0.15")),
    }
}

/// A KV budget: a size, or with % a share of the full cache.
pub fn budget(text: &str) -> Result<KvBudget, Failure> {
    if let Some(percent) = text.trim().strip_suffix('%') {
        return match percent.trim().parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(KvBudget::Share(percent / 100.0)),
            Ok(percent) if percent > 100.0 => Err(Failure::usage(
                "the budget is more than a full cache takes",
                "leave it out to keep everything, or give a share of the full cache up to 100%",
            )),
            Ok(0.0) => Err(Failure::usage("the budget is 0", "give a share above 0, for example 30%")),
            _ => Err(Failure::usage("not a budget", "give a share of the full cache, for example 30%")),
        };
    }
    if let Some(number) = bare_number(text) {
        let percent = if number <= 1.0 { number * 100.0 } else { number };
        return Err(Failure::usage(
            format!("not a budget: {number} what?"),
            format!("give the unit: {number}GiB or {number}MiB, or {percent}% of the full cache"),
        ));
    }
    match bytes(text) {
        Ok(bytes) if bytes > 0 => Ok(KvBudget::Bytes(bytes)),
        _ => Err(Failure::usage(
            "not a budget",
            "give a size, for example 2GiB, or a share of the full cache, for example 30%",
        )),
    }
}

/// A type of keys or values.
pub fn cache_type(text: &str) -> Result<Type, Failure> {
    let ty = RowType::from_name(text).map(tensor_type);
    ty.ok_or_else(|| {
        let suggestion = did_you_mean(text, RowType::ALL.iter().map(|ty| ty.name()));
        Failure::usage("no such type", format!("use {}", RowType::names())).with_suggestion(&suggestion)
    })
}

/// A number of threads.
pub fn threads(text: &str) -> Result<usize, Failure> {
    match text.parse() {
        Ok(threads @ 1..=512) => Ok(threads),
        _ => Err(Failure::usage(
            "not a number of threads",
            "give a number from 1 to 512, or leave out -t to use all processors",
        )),
    }
}

/// A count that is not zero.
pub fn positive(text: &str) -> Result<usize, Failure> {
    match tokens(text)? {
        0 => Err(Failure::usage("must not be 0", "give at least 1")),
        count => Ok(count),
    }
}

/// A number of digits with an optional point, times a factor. `None` if the result is not finite.
fn scaled(number: &str, factor: f64) -> Option<f64> {
    let plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let value = number.parse::<f64>().ok().filter(|_| plain)? * factor;
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_suffixes_are_parsed() {
        assert_eq!(tokens("8192"), Ok(8192));
        assert_eq!(tokens("100k"), Ok(100_000));
        assert_eq!(tokens("1.5K"), Ok(1500));
        assert_eq!(tokens("1m"), Ok(1_000_000));
        assert_eq!(bytes("24GiB"), Ok(24 << 30));
        assert_eq!(bytes("24g"), Ok(24 << 30));
        assert_eq!(bytes("24 GB"), Ok(24_000_000_000));
        assert_eq!(bytes("1048576"), Ok(1 << 20));
        assert_eq!((bytes("1024B"), bytes("0")), (Ok(1024), Ok(0)));
        assert_eq!(share("15%"), Ok(0.15));
        for bad in ["", "k", "-1", "1e9", "nan", "inf", "1.2.3", "3000m", "12x", "1.5"] {
            assert!(tokens(bad).is_err_and(|error| !error.hint().is_empty()), "{bad}");
        }
        for bad in ["", "GiB", "-1GiB", "1XB", "9999999TiB"] {
            assert!(bytes(bad).is_err_and(|error| !error.hint().is_empty()), "{bad}");
        }
        assert_eq!(budget("30%"), Ok(KvBudget::Share(0.3)));
        assert_eq!(budget("2GiB"), Ok(KvBudget::Bytes(2 << 30)));
        for bad in ["", "0", "0%", "130%", "0.3", "2XB", "-1GiB"] {
            assert!(budget(bad).is_err_and(|error| !error.hint().is_empty()), "{bad}");
        }
        for (text, hint) in [("24", "24GiB or 24MiB"), ("1.5", "1.5GiB or 1.5MiB"), ("1024", "1024MiB")] {
            let error = bytes(text).expect_err("no unit");
            assert!(error.to_string().ends_with("what?") && error.hint().contains(hint), "{error}");
        }
        // Each remedy is accepted.
        assert_eq!(budget("100%"), Ok(KvBudget::Share(1.0)));
        for (text, hint) in
            [("200%", "leave it out"), ("0%", "30%"), ("x%", "30%"), ("-5%", "30%"), ("nan%", "30%")]
        {
            let error = budget(text).expect_err(text);
            assert!(error.hint().contains(hint) && !error.hint().contains("0.15"), "{text}: {error}");
        }
        for (text, percent) in [("2", "or 2% of"), ("0.3", "or 30% of")] {
            assert!(budget(text).is_err_and(|error| error.hint().contains(percent)), "{text}");
        }
        for bad in ["", "1.1", "-0.1", "nan", "101%"] {
            assert!(share(bad).is_err(), "{bad}");
        }
    }
}
