//! Numbers by their digits.

use super::code::Token;

/// Most decimals of a code.
const MAX_DECIMALS: usize = 30;
/// Digits that a number without a format has at most.
const DIGITS: usize = 11;
/// Integers below this keep all digits without a format: numbers of things and people.
const MAX_INTEGER: f64 = 1e15;

/// A number without a format.
pub(super) fn general(number: f64) -> String {
    let size = number.abs();
    if size != 0.0 && number.fract() == 0.0 && size < MAX_INTEGER {
        return format!("{number}");
    }
    if size != 0.0 && !(1e-9..1e11).contains(&size) && number.is_finite() {
        let text = format!("{number:.5E}");
        let (digits, exponent) = text.split_once('E').unwrap_or((&text, "0"));
        let digits =
            if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
        return format!("{digits}E{sign}{exponent:0>2}");
    }
    let before = if size >= 1.0 { (size.log10().floor() as usize).saturating_add(1) } else { 1 };
    let (whole, part) = rounded(size, DIGITS.saturating_sub(before.saturating_add(1)));
    let part = part.trim_end_matches('0');
    let sign = if number < 0.0 { "-" } else { "" };
    if part.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{part}") }
}

/// The digits of a number before and behind the point. Halves are rounded up, as people see them.
pub(super) fn rounded(number: f64, decimals: usize) -> (String, String) {
    // The shortest digits that mean the number.
    let text = format!("{number}");
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    if part.len() <= decimals {
        return (whole.to_owned(), format!("{part:0<decimals$}"));
    }
    let mut digits: Vec<u8> = [whole.as_bytes(), &part.as_bytes()[..decimals]].concat();
    if part.as_bytes()[decimals] >= b'5' {
        let nines = digits.iter().rev().take_while(|digit| **digit == b'9').count();
        let at = digits.len() - nines;
        digits[at..].fill(b'0');
        match at.checked_sub(1) {
            Some(at) => digits[at] += 1,
            None => digits.insert(0, b'1'),
        }
    }
    let split = digits.len() - decimals;
    let text = |digits: &[u8]| String::from_utf8_lossy(digits).into_owned();
    (text(&digits[..split]), text(&digits[split..]))
}

/// A number by its digits.
pub(super) fn decimal(tokens: &[Token], number: f64) -> String {
    if tokens.contains(&Token::Slash) && tokens.iter().any(|token| matches!(token, Token::Digit(_))) {
        return fraction(tokens, number);
    }
    let percents = tokens.iter().filter(|token| **token == Token::Percent).count().min(4) as i32;
    let mut number = number * 100f64.powi(percents);
    let exponent_at =
        tokens.iter().position(|token| matches!(token, Token::Exponent(_))).unwrap_or(tokens.len());
    let point =
        tokens.iter().position(|token| *token == Token::Point).unwrap_or(exponent_at).min(exponent_at);
    let is_digit = |token: &Token| matches!(token, Token::Digit(_));
    let last_digit = tokens[..exponent_at].iter().rposition(is_digit);
    let last_whole = tokens[..point].iter().rposition(is_digit);
    // Commas behind the last digit divide by a thousand each; those between digits separate thousands.
    let commas = |from: usize, to: usize| {
        tokens.get(from..to).unwrap_or_default().iter().take_while(|t| **t == Token::Comma).count()
    };
    let scale = last_digit.map_or(0, |at| commas(at + 1, exponent_at))
        + if point < exponent_at { last_whole.map_or(0, |at| commas(at + 1, point)) } else { 0 };
    number /= 1000f64.powi(scale.min(10) as i32);
    let is_separated = last_whole.is_some_and(|last| tokens[..last].contains(&Token::Comma));
    let decimals: Vec<char> = tokens[point..exponent_at]
        .iter()
        .filter_map(|token| match token {
            Token::Digit(c) => Some(*c),
            _ => None,
        })
        .take(MAX_DECIMALS)
        .collect();
    let wholes: Vec<char> = tokens[..point]
        .iter()
        .filter_map(|token| match token {
            Token::Digit(c) => Some(*c),
            _ => None,
        })
        .collect();
    let mut exponent = 0;
    if exponent_at < tokens.len() && number != 0.0 {
        let step = wholes.len().max(1) as i32;
        exponent = number.log10().floor() as i32;
        exponent = if step > 1 { exponent.div_euclid(step) * step } else { exponent };
        number /= 10f64.powi(exponent);
    }
    let (whole, part) = rounded(number, decimals.len());
    // Digits of `#` are not written when they are zeros at the end.
    let optional = decimals.iter().rev().take_while(|c| **c != '0').count();
    let trimmed = part.trim_end_matches('0').len().max(part.len() - optional);
    let part = &part[..trimmed];
    let zeros = wholes.iter().filter(|c| **c == '0').count();
    let whole = if whole == "0" { "" } else { &whole };
    let whole = format!("{whole:0>zeros$}");
    let mut written = String::new();
    let mut placed = 0;
    let mut has_point = false;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Text(text) => written.push_str(text),
            Token::Percent => written.push('%'),
            Token::General => written.push_str(&general(number)),
            Token::Digit(_) if at < point => {
                // The first place has all digits for which there are no places.
                let left = wholes.len() - placed - 1;
                let until = whole.len().saturating_sub(left);
                let from = if placed == 0 { 0 } else { whole.len().saturating_sub(left + 1) };
                for (i, digit) in whole[..until].char_indices().skip(from) {
                    written.push(digit);
                    let rest = whole.len() - i - 1;
                    if is_separated && rest > 0 && rest % 3 == 0 {
                        written.push(',');
                    }
                }
                placed += 1;
            }
            Token::Point if at == point => {
                has_point = true;
                if !part.is_empty() || decimals.is_empty() {
                    written.push('.');
                }
            }
            Token::Digit(_) if has_point && at < exponent_at => {
                let index = tokens[point..at].iter().filter(|token| is_digit(token)).count();
                written.extend(part.chars().nth(index));
            }
            Token::Exponent(has_plus) => {
                let digits = tokens[at..].iter().filter(|token| is_digit(token)).count().min(8);
                let sign = if exponent < 0 {
                    "-"
                } else if *has_plus {
                    "+"
                } else {
                    ""
                };
                written.push_str(&format!("E{sign}{:0digits$}", exponent.abs()));
            }
            _ => {}
        }
    }
    written
}

/// A number as `1 3/4`.
pub(super) fn fraction(tokens: &[Token], number: f64) -> String {
    let slash = tokens.iter().position(|token| *token == Token::Slash).unwrap_or(0);
    let is_digit = |token: &&Token| matches!(token, Token::Digit(_));
    let digits = tokens[slash..].iter().filter(is_digit).count().clamp(1, 4);
    // A number before the fraction has a gap behind it.
    let has_whole =
        tokens[..slash].iter().any(|token| matches!(token, Token::Text(text) if text.contains(' ')));
    let (whole, rest) = if has_whole { (number.trunc(), number.fract()) } else { (0.0, number) };
    let fixed = tokens[slash + 1..].iter().find_map(|token| match token {
        Token::Text(text) => text.trim().parse::<u32>().ok().filter(|below| *below > 0),
        _ => None,
    });
    let max = 10u32.pow(digits as u32) - 1;
    let error = |below: u32| ((rest * f64::from(below)).round() / f64::from(below) - rest).abs();
    let below = fixed.unwrap_or_else(|| {
        (1..=max)
            .reduce(|best, next| if error(next) < error(best) - 1e-12 { next } else { best })
            .unwrap_or(1)
    });
    let above = (rest * f64::from(below)).round();
    match (whole, above) {
        (whole, above) if above == f64::from(below) && has_whole => general(whole + 1.0),
        (whole, 0.0) => general(whole),
        (0.0, above) => format!("{above}/{below}"),
        (whole, above) => format!("{} {above}/{below}", general(whole)),
    }
}
