//! Formats numbers, sizes and flags for people.

use std::time::{Duration, SystemTime};

use ggml::Type;
use longhand::error::Shortage;
use longhand::setup::Offer;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// `512 B`, `4.0 KiB`, `1.21 GiB`.
pub fn bytes(bytes: usize) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // Use the next unit where this one would show 1024.0.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = if value < 10.0 { 2 } else { 1 };
    format!("{value:.decimals$} {}", UNITS[unit])
}

/// The size of a file, as [`bytes`] writes it.
pub fn file_size(size: u64) -> String {
    bytes(usize::try_from(size).unwrap_or(usize::MAX))
}

/// `12.8 of 24.0 GiB`; the unit of a part is left out where it is that of the whole.
pub fn bytes_of(part: usize, whole: usize) -> String {
    let (part, whole) = (bytes(part), bytes(whole));
    let units = (part.split_once(' '), whole.split_once(' '));
    match units {
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number} of {whole}"),
        _ => format!("{part} of {whole}"),
    }
}

/// A size as the value of a flag, exactly: `24GiB`, `1500MiB`, `1000000B`.
pub fn bytes_flag(bytes: usize) -> String {
    match bytes {
        bytes if bytes.is_multiple_of(1 << 30) => format!("{}GiB", bytes >> 30),
        bytes if bytes.is_multiple_of(1 << 20) => format!("{}MiB", bytes >> 20),
        bytes => format!("{bytes}B"),
    }
}

/// The types of keys and values: `q8_0/iq4_nl`, or one name if they are equal.
pub fn types((k, v): (Type, Type)) -> String {
    if k == v { k.name().to_owned() } else { format!("{}/{}", k.name(), v.name()) }
}

/// A word of a command line as a shell reads it: in quotes where it needs them.
pub fn shell_word(word: &str) -> String {
    if cfg!(windows) { word_of_windows(word) } else { word_of_unix(word) }
}

/// In single quotes.
fn word_of_unix(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=,%+@".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// In double quotes: these are what both the command prompt and PowerShell know.
fn word_of_windows(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=+\\".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => {
            // Backslashes before a quote are read as half as many.
            let doubled = |part: &str| part.to_owned() + &part[part.trim_end_matches('\\').len()..];
            let parts: Vec<String> = word.split('"').map(doubled).collect();
            format!("\"{}\"", parts.join("\\\""))
        }
    }
}

/// `8,192`
pub fn count(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `8.3 s`, `2 min 05 s`, `1 h 02 min`
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        ..10.0 => format!("{seconds:.1} s"),
        ..59.5 => format!("{seconds:.0} s"),
        ..3600.0 => format!("{} min {:02} s", seconds as u64 / 60, seconds as u64 % 60),
        _ => format!("{} h {:02} min", seconds as u64 / 3600, seconds as u64 / 60 % 60),
    }
}

/// How long ago something was: `12 s`, `5 min`, `3 h`, `4 days`
pub fn age(age: Duration) -> String {
    match age.as_secs() {
        seconds @ ..60 => format!("{seconds} s"),
        seconds @ ..3600 => format!("{} min", seconds / 60),
        seconds @ ..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

/// The time since then; none if the clock was set back.
pub fn since(time: SystemTime) -> Duration {
    SystemTime::now().duration_since(time).unwrap_or_default()
}

/// Tokens per second: `1,234`, `87.3`, `4.21`; `-` if nothing was measured.
pub fn speed(per_second: f64) -> String {
    match per_second {
        p if p.is_nan() || p <= 0.0 => "-".into(),
        ..10.0 => format!("{per_second:.2}"),
        ..1000.0 => format!("{per_second:.1}"),
        _ => count(per_second.round() as usize),
    }
}

/// `29.1 %`
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// How much of something is done, without a fraction and never too much: `43 %`
pub fn whole_percent(share: f64) -> String {
    // Not `42 %` of what is 43 % but for a rounding error.
    format!("{:.0} %", (share * 100.0 + 1e-6).floor().clamp(0.0, 100.0))
}

/// Tokens per second; 0 if no time passed.
pub fn rate(tokens: usize, time: Duration) -> f64 {
    let seconds = time.as_secs_f64();
    if seconds > 0.0 { tokens as f64 / seconds } else { 0.0 }
}

/// A text behind a label, in lines of at most `width` columns where its words allow that. Later lines are indented.
pub fn labelled(label: &str, text: &str, width: usize) -> String {
    let indent = label.width();
    let (mut lines, mut line) = (String::new(), String::new());
    for word in text.split_whitespace() {
        if !line.is_empty() && indent + line.width() + 1 + word.width() > width {
            lines += &format!("{line}\n{}", " ".repeat(indent));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    format!("{label}{lines}{line}\n")
}

/// Columns that a text takes on a terminal.
pub fn columns(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// A line in several of at most `width` columns where its words allow that. White space within them stays.
pub fn wrapped(line: &str, width: usize) -> String {
    indented(line, width, 0)
}

/// The same with spaces before the lines that follow the first one.
fn indented(line: &str, width: usize, indent: usize) -> String {
    let (mut out, mut column, mut start) = (String::new(), 0, 0);
    for word in line.split_inclusive(' ') {
        let word_columns = columns(word.trim_end_matches(' '));
        if word_columns > 0 && column > start && column + word_columns > width {
            out.truncate(out.trim_end_matches(' ').len());
            out += &format!("\n{}", " ".repeat(indent));
            (column, start) = (indent, indent);
        }
        out += word;
        column += columns(word);
    }
    out
}

/// A text whose lines are each in several of at most `width` columns where their words allow that. They are indented like
/// the text behind a label, which ends with two spaces. Lines with colours stay as they are.
pub fn fitted(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        let is_colored = line.contains('\x1b');
        if is_colored || columns(line.trim_end()) <= width {
            out += line;
        } else {
            let indent = line.len() - line.trim_start().len();
            let behind = |gap: usize| line.len() - line[indent + gap..].trim_start().len();
            let label = line[indent..].find("  ").map_or(indent, behind);
            let label = columns(&line[..label]);
            out += &indented(line, width, if label <= width / 2 { label } else { indent });
        }
        out += end;
    }
    out
}

/// `part / whole`; 0 if `whole` is 0.
pub fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The flags of an offer.
pub fn offer_flags(offer: &Offer) -> String {
    let mut flags = Vec::new();
    flags.extend(offer.policy.map(|policy| format!("--policy {policy}")));
    flags.extend(offer.percent.map(|percent| format!("--kv-budget {percent}%")));
    flags.extend(offer.types.map(|(k, v)| format!("-ctk {} -ctv {}", k.name(), v.name())));
    flags.extend(offer.streaming.then(|| "--prefill streaming".to_owned()));
    flags.join(" ")
}

/// The text of a shortage of memory, with units.
pub fn memory_text(shortage: &Shortage) -> String {
    let Shortage { context, needed, free, on_device, bound, reserved } = *shortage;
    let reserved = match reserved {
        0 => String::new(),
        size => format!("; {} are reserved for other sessions", bytes(size)),
    };
    format!(
        "a context of {} tokens needs {} besides the weights{}, but only {} are free{}{reserved}",
        count(context),
        bytes(needed),
        if on_device { " on the GPU" } else { "" },
        bytes(free),
        bound.map_or(String::new(), |bound| bound.to_string())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(word_of_unix("razor:buffer=4000,ratio=5"), "razor:buffer=4000,ratio=5");
        assert_eq!(word_of_unix("my model.gguf"), "'my model.gguf'");
        assert_eq!(word_of_unix("it's"), r"'it'\''s'");
        assert_eq!(word_of_unix(""), "''");
        assert_eq!(word_of_windows(r"docs\a.md"), r"docs\a.md");
        assert_eq!(word_of_windows(r"C:\My Texts\it's.md"), r#""C:\My Texts\it's.md""#);
        assert_eq!(word_of_windows(r#"say "yes""#), r#""say \"yes\"""#);
        assert_eq!(word_of_windows(r"C:\My Texts\"), r#""C:\My Texts\\""#);
        assert_eq!(word_of_windows(r#"a\"b"#), r#""a\\\"b""#);
        assert_eq!(word_of_windows("a,b"), r#""a,b""#);
    }

    #[test]
    fn labelled_texts_fit_their_lines() {
        assert_eq!(labelled("a  ", "one two three", 10), "a  one two\n   three\n");
        assert_eq!(labelled("a  ", "one two three", 9), "a  one\n   two\n   three\n");
        assert_eq!(labelled("", "  one   two ", 80), "one two\n");
        assert_eq!(labelled("a ", "", 80), "a \n");
    }

    #[test]
    fn lists_fit_the_terminal() {
        let list = "tokens    1 of 2\nfile      a b  c\n";
        assert_eq!(fitted(list, 80), list);
        assert_eq!(
            fitted("read      12 tokens, 34 t/s\nnext\n", 20),
            "read      12 tokens,\n          34 t/s\nnext\n"
        );
        assert_eq!(fitted("  one two three", 10), "  one two\n  three");
        assert_eq!(fitted("a very long label  text", 12), "a very long\nlabel  text");
        assert_eq!(fitted("temp    0    a long help\n", 16), "temp    0    a\n        long\n        help\n");
        let colored = "\x1b[36mone two three\x1b[0m\n";
        assert_eq!(fitted(colored, 8), colored);
    }

    #[test]
    fn wrapped_lines_keep_their_white_space() {
        assert_eq!(wrapped("  one  two three", 10), "  one  two\nthree");
        assert_eq!(wrapped("/a/long/path with words", 6), "/a/long/path\nwith\nwords");
        assert_eq!(wrapped("short", 80), "short");
        assert_eq!(wrapped("日本 日本 a", 6), "日本\n日本 a");
        assert_eq!(wrapped("中文 中文", 8), "中文\n中文");
    }

    #[test]
    fn sizes_and_times() {
        assert_eq!(
            [bytes(0), bytes(1023), bytes(1024), bytes(1 << 20)],
            ["0 B", "1023 B", "1.00 KiB", "1.00 MiB"]
        );
        assert_eq!(bytes_of(13 << 30, 24 << 30), "13.0 of 24.0 GiB");
        assert_eq!(bytes_of(13 << 20, 24 << 30), "13.0 MiB of 24.0 GiB");
        assert_eq!([24 << 30, 1500 << 20, 7].map(bytes_flag), ["24GiB", "1500MiB", "7B"]);
        assert_eq!([bytes((1 << 20) - 1), bytes(24 << 30)], ["1.00 MiB", "24.0 GiB"]);
        assert_eq!([count(7), count(1000), count(1234567)], ["7", "1,000", "1,234,567"]);
        let secs = |s| duration(Duration::from_secs_f64(s));
        assert_eq!(
            [secs(0.04), secs(42.2), secs(125.0), secs(3720.0)],
            ["0.0 s", "42 s", "2 min 05 s", "1 h 02 min"]
        );
        assert_eq!([speed(0.0), speed(4.211), speed(87.34), speed(1234.4)], ["-", "4.21", "87.3", "1,234"]);
    }
}
