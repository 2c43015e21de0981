//! How many right answers are flagged, and how many inventions are found: documents and answers of several kinds and
//! languages. In `pairs.txt` a right answer begins with `+`, one with an invention with `-`; the invention is in braces. Behind
//! `~` is what is computed or changed in a right answer, so that it does not stand there; behind `?` nothing is counted but the
//! answer.

use std::sync::Arc;

use lookup::absent::Known;

struct Counts {
    answers: usize,
    flagged: usize,
    lines: Vec<String>,
}

#[test]
fn inventions_are_found_and_right_answers_left_alone() {
    check("pairs.txt", include_str!("pairs.txt"), 90.0);
}

/// Answers about other matters, in other forms and other languages: they were written before anybody knew what is found in
/// them.
#[test]
fn it_is_so_in_answers_that_nothing_was_made_for() {
    check("unseen.txt", include_str!("unseen.txt"), 85.0);
}

fn check(name: &str, pairs: &str, min_found: f64) {
    let mut right = Counts { answers: 0, flagged: 0, lines: Vec::new() };
    let mut wrong = Counts { answers: 0, flagged: 0, lines: Vec::new() };
    let (mut known, mut title) = (Known::new(), "");
    for line in pairs.lines() {
        let Some((kind, text)) = line.split_once(' ') else { continue };
        match kind {
            "#" => (known, title) = (Known::new(), text),
            "D" => known.add_document(&text.replace("\\n", "\n")),
            "Q" => known.add_question(text),
            "+" => {
                // What does not stand there is flagged, although it is right.
                let (text, computed) = text.split_once(" ~").unwrap_or((text, ""));
                let text = text.replace("\\n", "\n");
                let found = absent(&known, &text);
                right.answers += 1;
                if !found.is_empty() {
                    right.flagged += 1;
                    right.lines.push(format!("{title}: {found:?} in: {text} ({computed})"));
                }
            }
            "-" => {
                let text = text.trim_end_matches(" ?");
                let inventions: Vec<&str> = text
                    .split("{{")
                    .skip(1)
                    .filter_map(|rest| rest.split_once("}}"))
                    .map(|(inside, _)| inside)
                    .collect();
                let text = text.replace("{{", "").replace("}}", "");
                let found = absent(&known, &text);
                for invention in inventions {
                    wrong.answers += 1;
                    let is_found = found
                        .iter()
                        .any(|found| invention.contains(found.as_str()) || found.contains(invention));
                    if is_found {
                        wrong.flagged += 1;
                    } else {
                        wrong.lines.push(format!("{title}: {invention} in: {text} (found {found:?})"));
                    }
                }
            }
            _ => panic!("{line}"),
        }
    }
    let share = |counts: &Counts| 100.0 * counts.flagged as f64 / counts.answers as f64;
    println!(
        "{name}: right answers with a false alarm: {} of {} ({:.1} %)",
        right.flagged,
        right.answers,
        share(&right)
    );
    right.lines.iter().for_each(|line| println!("  {line}"));
    println!("inventions found: {} of {} ({:.1} %)", wrong.flagged, wrong.answers, share(&wrong));
    wrong.lines.iter().for_each(|line| println!("  missed: {line}"));
    assert!(right.answers >= 50 && wrong.answers >= 30);
    assert!(share(&right) < 5.0);
    assert!(share(&wrong) > min_found);
}

fn absent(known: &Known, answer: &str) -> Vec<String> {
    known.absent_from(answer).into_iter().map(|absent| answer[absent.range].to_owned()).collect()
}

/// However an answer arrives, the same of it is marked.
#[test]
fn pieces_of_a_line_give_the_same() {
    let mut known = Known::new();
    let mut lines = 0;
    for line in include_str!("pairs.txt").lines() {
        let Some((kind, text)) = line.split_once(' ') else { continue };
        match kind {
            "#" => known = Known::new(),
            "D" => known.add_document(text),
            "Q" => known.add_question(text),
            _ => {
                let text = text.replace("{{", "").replace("}}", "");
                for text in text.split("\\n").filter(|text| !text.starts_with("```")) {
                    let whole = marked(&known, &[text]);
                    let chars: Vec<String> = text.chars().map(String::from).collect();
                    let pieces: Vec<&str> = chars.iter().map(String::as_str).collect();
                    assert_eq!(marked(&known, &pieces), whole);
                    lines += 1;
                }
            }
        }
    }
    assert!(lines > 100);
}

fn marked(known: &Known, pieces: &[&str]) -> String {
    let mut line = Arc::new(known.clone()).line();
    let mut out = String::new();
    for (i, piece) in pieces.iter().enumerate() {
        for (text, stands) in line.push(piece, i + 1 == pieces.len()) {
            out += &if stands { text } else { format!("[{text}]") };
        }
    }
    out
}

/// Whatever a document or an answer is, it is read.
#[test]
fn any_text_is_read() {
    let text: Vec<char> = include_str!("pairs.txt").chars().collect();
    let signs: Vec<char> = "\"“„»«.,'’-–/:()[]*_|#@0９٣年\u{301}\u{202f}\0\u{fdd0}İßﬁ😀".chars().collect();
    let mut state = 7u32;
    let mut random = |below: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize % below
    };
    for _ in 0..400 {
        let start = random(text.len() - 200);
        let mut piece = text[start..start + random(200)].to_vec();
        for _ in 0..random(20) {
            piece.insert(random(piece.len() + 1), signs[random(signs.len())]);
        }
        let piece: String = piece.into_iter().collect();
        let mut known = Known::new();
        known.add_document(&piece.chars().take(60).collect::<String>());
        for absent in known.absent_from(&piece) {
            assert!(!piece[absent.range].trim().is_empty());
        }
        let shown = marked(&known, &[&piece.replace('\n', " ")]);
        assert_eq!(shown.replace(['[', ']'], ""), piece.replace('\n', " ").replace(['[', ']'], ""));
        lookup::find(&piece, "a b", 10);
    }
}
