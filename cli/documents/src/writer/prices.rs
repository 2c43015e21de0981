//! Prices whose cents are raised: `12⁹⁹ €` is 12.99 €, not a power.

/// Signs and names that stand before or after an amount.
const CURRENCIES: &[&str] = &[
    "€", "$", "£", "¥", "EUR", "Euro", "Euros", "euro", "euros", "USD", "US$", "dollar", "dollars", "GBP",
    "CHF", "Fr.", "PLN", "zł", "CZK", "Kč", "SEK", "kr",
];

/// Whether a raised text may be the cents of the amount before it.
pub(crate) fn may_be_cents(before: &str, raised: &str) -> bool {
    let rest = without_amount(before);
    raised.len() == 2
        && raised.bytes().all(|c| c.is_ascii_digit())
        && before[rest.len()..].contains(|c: char| c.is_ascii_digit())
        // 5 × 10¹² € is a power.
        && !rest.trim_end().ends_with(['×', '·', '*', '^'])
}

/// Whether a text ends with a currency and an amount.
pub(crate) fn ends_with_price(before: &str) -> bool {
    let rest = without_amount(before).trim_end();
    CURRENCIES
        .iter()
        .filter_map(|currency| Some((currency, rest.strip_suffix(currency)?)))
        .any(|(currency, rest)| !begins_with_letter(currency) || !rest.ends_with(char::is_alphanumeric))
}

/// Whether a text begins with a currency.
pub(crate) fn begins_with_currency(after: &str) -> bool {
    CURRENCIES
        .iter()
        .filter_map(|currency| Some((currency, after.strip_prefix(currency)?)))
        .any(|(currency, rest)| !begins_with_letter(currency) || !rest.starts_with(char::is_alphanumeric))
}

/// Cents behind an amount.
pub(crate) fn cents(before: &str, raised: &str) -> String {
    let point = if before.ends_with(['.', ',']) { "" } else { "." };
    format!("{point}{raised}")
}

fn without_amount(text: &str) -> &str {
    text.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | ','))
}

fn begins_with_letter(currency: &str) -> bool {
    currency.starts_with(char::is_alphabetic)
}
