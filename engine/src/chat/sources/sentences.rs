//! Sentences of a text, as byte ranges. A line of a table, an item of a list and a heading count as sentences. Lines of
//! prose that were broken at a width are read on.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

/// Lines of prose that are shorter than this many bytes end what they are in.
const BROKEN_LINE: usize = 40;
/// A sentence that is longer, in bytes, is one of a text without full stops: its lines count.
const MAX_SENTENCE: usize = 600;
/// Abbreviations behind which a sentence goes on, also with a capital letter. Those that may end one, such as "St.", are not
/// among them.
const ABBREVIATIONS: &[&str] = &[
    "Mr", "Mrs", "Ms", "Messrs", "Mx", "Dr", "Prof", "Rev", "Hon", "Capt", "Lt", "Sgt", "Maj", "Sen", "Gov",
    "Mme", "Mlle", "Mgr", "Hr", "Hrn", "Dipl", "Sra", "Srta", "Dra", "Dott", "cf", "Cf", "vs", "viz", "e.g",
    "i.e", "ca", "bzw", "ggf", "inkl", "vgl", "Vgl", "z.B", "d.h",
];
/// Abbreviations behind which a sentence goes on with a number. Alone they may be words: "No. He left."
const REFERENCES: &[&str] = &[
    "No", "Nos", "Nr", "Nrn", "Fig", "Figs", "Eq", "Eqs", "Sec", "Art", "Abs", "Ziff", "Vol", "Ch", "Chap",
    "Ref", "Refs", "Abb", "Tab", "Kap", "Bd", "pp", "p",
];
/// Months that German writes behind a day with a full stop, without those that are English words, too.
const MONTHS: &[&str] =
    &["Januar", "Jänner", "Februar", "März", "Mai", "Juni", "Juli", "Oktober", "Dezember"];

/// The sentences of a text in their order, without the white space around them.
///
/// ```
/// let text = "# Boats\n\nThe old boat crossed the river in the early\nmorning. It sank.\n- one\n- two\n| a | b |\n";
/// let of = |range: &std::ops::Range<usize>| text[range.clone()].to_owned();
/// let sentences: Vec<String> = longhand::sources::sentences(text).iter().map(of).collect();
/// assert_eq!(sentences[0], "# Boats");
/// assert_eq!(sentences[3..], ["- one", "- two", "| a | b |"]);
/// ```
pub fn sentences(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut block: Option<Range<usize>> = None;
    let mut previous = "";
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let range = start..start + line.len();
        start = range.end;
        let goes_on = block.is_some() && goes_on(previous, line);
        match (&mut block, goes_on) {
            (Some(block), true) => block.end = range.end,
            (before, _) => {
                if let Some(block) = before.replace(range) {
                    add_block(text, block, &mut found);
                }
            }
        }
        previous = line;
    }
    if let Some(block) = block {
        add_block(text, block, &mut found);
    }
    found
}

/// Whether a line goes on with the one before it.
fn goes_on(previous: &str, line: &str) -> bool {
    let (before, line) = (previous.trim(), line.trim());
    !before.is_empty()
        && !line.is_empty()
        && !stands_alone(before)
        && !begins(line)
        && before.len() >= BROKEN_LINE
}

/// Whether nothing follows a line that belongs to it.
fn stands_alone(line: &str) -> bool {
    line.starts_with(['#', '|']) || line.contains('\t')
}

/// Whether a line begins something: a list item, a heading, a line of a table, a quotation, a block of code.
fn begins(line: &str) -> bool {
    let rest = line.trim_start_matches(|sign: char| sign.is_ascii_digit());
    let is_numbered = rest.len() < line.len() && line.len() - rest.len() <= 3 && rest.starts_with([')', '.']);
    let is_item = is_numbered && rest[1..].starts_with(char::is_whitespace);
    let mark = line.chars().next().unwrap_or(' ');
    let has_mark = "-*+•◦‣–".contains(mark) && line[mark.len_utf8()..].starts_with(char::is_whitespace);
    is_item || has_mark || stands_alone(line) || line.starts_with(['>', '`'])
}

/// Adds the sentences of lines that belong together.
fn add_block(text: &str, block: Range<usize>, found: &mut Vec<Range<usize>>) {
    // A line break ends a sentence otherwise. The bytes stay where they are.
    let joined = text[block.clone()].replace(['\n', '\r'], " ");
    let mut bounds = joined.split_sentence_bound_indices().peekable();
    let mut start = 0;
    while let Some((at, sentence)) = bounds.next() {
        let end = at + sentence.len();
        let joins = |next: &str| is_abbreviated(sentence, next) && end - start + next.len() <= MAX_SENTENCE;
        if bounds.peek().is_some_and(|(_, next)| joins(next)) {
            continue;
        }
        let range = block.start + start..block.start + end;
        start = end;
        if range.len() <= MAX_SENTENCE {
            add(text, range, found);
            continue;
        }
        let mut line_start = range.start;
        for line in text[range].split_inclusive('\n') {
            add(text, line_start..line_start + line.len(), found);
            line_start += line.len();
        }
    }
}

/// Whether a full stop at the end of `sentence` is that of an item's number, an abbreviation or a day, so that `next` belongs to
/// it.
fn is_abbreviated(sentence: &str, next: &str) -> bool {
    let Some(before) = sentence.trim_end().strip_suffix('.') else { return false };
    let number = before.trim_start();
    if (1..=3).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit()) {
        return true;
    }
    // A letter of Chinese or Japanese is a word. Their sentences have other full stops.
    let is_cjk = |sign: char| sign >= '\u{2e80}';
    if sentence.ends_with('.') && next.starts_with(is_cjk) {
        return true;
    }
    let is_apart = |sign: char| sign.is_whitespace() || "([{\"„“»«".contains(sign) || is_cjk(sign);
    let word = before.rsplit(is_apart).next().unwrap_or_default();
    let is_day = word.parse::<u8>().is_ok_and(|day| (1..=31).contains(&day));
    let month = next.split(|sign: char| !sign.is_alphabetic()).next().unwrap_or_default();
    ABBREVIATIONS.contains(&word)
        || REFERENCES.contains(&word) && next.starts_with(|sign: char| sign.is_ascii_digit())
        || is_day && MONTHS.contains(&month)
}

/// Adds a sentence, unless it has no letters and no digits.
fn add(text: &str, range: Range<usize>, found: &mut Vec<Range<usize>>) {
    let part = &text[range.clone()];
    if part.contains(char::is_alphanumeric) {
        let start = range.end - part.trim_start().len();
        found.push(start..start + part.trim().len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let found: Vec<&str> = sentences(text).into_iter().map(|range| &text[range]).collect();
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn lines_of_prose_are_read_on_and_others_stand_alone() {
        check("", &[]);
        check(" \n\n---\n", &[]);
        check("It rained. Mary's number is 7!\n\nReally?", &["It rained.", "Mary's number is 7!", "Really?"]);
        let broken = "The old boat crossed the quiet river, and then\nit sank in the rain. Nobody saw it.";
        check(
            broken,
            &["The old boat crossed the quiet river, and then\nit sank in the rain.", "Nobody saw it."],
        );
        check("A heading\nThe text below it.", &["A heading", "The text below it."]);
        check("# One\ntwo\n- a b c\n- d\n1. E\n12) f", &["# One", "two", "- a b c", "- d", "1. E", "12) f"]);
        check(
            "7. Go on. Then stop.\nIt was 7. Then eight.",
            &["7. Go on.", "Then stop.", "It was 7.", "Then eight."],
        );
        check("| a | 1 |\n| b | 2 |\nname\tvalue\n", &["| a | 1 |", "| b | 2 |", "name\tvalue"]);
        check("一。二三。", &["一。", "二三。"]);
        check("The price is 3.14 in 2020.\r\nNext.\r\n", &["The price is 3.14 in 2020.", "Next."]);
    }

    #[test]
    fn abbreviations_end_no_sentence() {
        let whole = [
            "The locker belongs to Mr. Smith, not to (Mrs. Jones).",
            "Prof. Dr. Meyer wrote it (cf. Fig. 3 Overview, No. 7 Rome).",
            "Art. 5 Abs. 2 Satz 1 gilt z.B. Montags seit dem 3. März 2024.",
            "公司Harrow Mills Ltd.和Dr. Okafor签订的。",
        ];
        whole.iter().for_each(|text| check(text, &[text]));
        check(&format!("{} {}", whole[0], whole[1]), &whole[..2]);
        let apart = [
            "So did I.",
            "I can't.",
            "The book is Mary's.",
            "It needs vitamin C.",
            "It was 37 °C.",
            "He lives in Main St.",
            "The score was 3.",
            "April was cold.",
            "They left in March 3.",
            "Really?",
            "No.",
            "Il y en a.",
            "Nobody came.",
        ];
        check(&apart.join(" "), &apart);
        check("A heading of Mr.\n\nSmith came.", &["A heading of Mr.", "Smith came."]);
        let endless = "Mr. ".repeat(1000);
        assert!(sentences(&endless).iter().all(|range| range.len() <= MAX_SENTENCE));
    }

    #[test]
    fn a_text_without_full_stops_is_cut_at_its_lines() {
        let line = format!("{}\n", "word ".repeat(20).trim());
        let text = line.repeat(10);
        assert_eq!(sentences(&text).len(), 10);
        assert!(sentences(&text).iter().all(|range| text[range.clone()] == *line.trim()));
    }
}
