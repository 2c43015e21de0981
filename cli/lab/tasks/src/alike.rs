//! Questions about one of many places that are alike, so that the words of question and answer do not tell which sentence
//! says it: neighbouring paragraphs have the same words, and the same value stands at several places, of which one is right.
//!
//! The text around them is essays where there are any, or else sentences that say nothing.

use std::fmt;

use crate::haystack::{background, fill};
use crate::random::PythonRandom;
use crate::sentences::sentences;
use crate::{Data, Sample, SampleOptions, TaskError};

/// Tokens that a model may answer with: a sentence, or several.
pub const fn answer_tokens(task: AlikeTask) -> usize {
    if let AlikeTask::Several = task { 128 } else { 32 }
}

/// Paragraphs that are alike.
const PARAGRAPHS: usize = 12;

const INSTRUCTION: &str = "Read the following text. A question about it follows.\n\n";

/// Names of villages. No other word of the texts is like one.
#[rustfmt::skip] // one name a line is too long
const VILLAGES: [&str; 16] = [
    "Aldmoor", "Brenwick", "Carrowby", "Dunfold", "Elmsworth", "Fernhithe", "Garstead", "Holmbury",
    "Inverlay", "Kelstow", "Lanforth", "Morbridge", "Norwell", "Oakhurst", "Penridge", "Quarley",
];
const RIVERS: [&str; 4] = ["Tarn", "Wey", "Ouse", "Severn"];
const KEEPERS: [&str; 4] = ["Hall", "Ward", "Price", "Fox"];
/// Few, so that each stands in several paragraphs.
const YEARS: [&str; 4] = ["1784", "1826", "1843", "1871"];
const COLORS: [&str; 4] = ["red", "brown", "white", "black"];

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlikeTask {
    /// The year of a bridge, in the words of the text. The village is named in another sentence of the paragraph.
    Year,
    /// The same in other words.
    Paraphrase,
    /// A color: a common word that many sentences have.
    Word,
    /// Yes or no: words that the text does not have.
    YesNo,
    /// The code of a locker among sentences that differ in digits only. Each code is that of several lockers.
    Key,
    /// The same where another sentence names the locker.
    Repeated,
    /// Three facts about a village, each in a sentence of the answer.
    Several,
}

impl AlikeTask {
    /// All of them.
    pub const ALL: [AlikeTask; 7] = [
        AlikeTask::Year,
        AlikeTask::Paraphrase,
        AlikeTask::Word,
        AlikeTask::YesNo,
        AlikeTask::Key,
        AlikeTask::Repeated,
        AlikeTask::Several,
    ];
}

impl fmt::Display for AlikeTask {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            AlikeTask::Year => "year",
            AlikeTask::Paraphrase => "paraphrase",
            AlikeTask::Word => "word",
            AlikeTask::YesNo => "yes_no",
            AlikeTask::Key => "key",
            AlikeTask::Repeated => "repeated",
            AlikeTask::Several => "several",
        })
    }
}

/// A paragraph and what is asked about it.
struct Paragraph {
    text: String,
    question: String,
    /// The answers, and what of the paragraph says so: it stands there once.
    answers: Vec<(&'static str, String)>,
}

/// Generates samples. `count` returns the number of tokens of a text, without special tokens.
///
/// A prompt with its answer is at most half a percent shorter than `options.tokens`, and never longer.
///
/// # Errors
/// The length is out of range, or the essays are damaged.
pub fn samples(
    task: AlikeTask,
    options: &SampleOptions,
    data: &Data,
    count: &dyn Fn(&str) -> usize,
) -> Result<Vec<Sample>, TaskError> {
    options.check()?;
    let background = background(data)?;
    let mut random = PythonRandom::new(options.seed);
    let sample = |_| {
        let paragraphs = paragraphs(task, &mut random);
        let asked = &paragraphs[random.below(paragraphs.len())];
        let question = format!("\n\n{}", asked.question);
        let build = |text: &str| spread(&paragraphs, text);
        let count = |context: &String| count(&[context, question.as_str()].concat());
        let filled = fill(&background, options.tokens.saturating_sub(answer_tokens(task)), &build, &count)
            .map_err(|minimum| TaskError::TooShort {
                tokens: options.tokens,
                minimum: minimum + answer_tokens(task),
            })?;
        let start = filled.text.find(&asked.text).unwrap_or(0);
        let needle = |(_, says): &(&str, String)| {
            let at = start + asked.text.find(says).unwrap_or(0);
            at..at + says.len()
        };
        Ok(Sample {
            needles: asked.answers.iter().map(needle).collect(),
            context: filled.text,
            answer_prefix: String::new(),
            references: asked.answers.iter().map(|(answer, _)| (*answer).to_owned()).collect(),
            tokens: filled.tokens + answer_tokens(task),
            question,
        })
    };
    (0..options.samples).map(sample).collect()
}

/// 1 if the answer has the right words as whole words, otherwise 0. Yes and no must come first.
pub fn score(task: AlikeTask, answer: &str, references: &[String]) -> f64 {
    let words = answer.split(|sign: char| !sign.is_alphanumeric()).filter(|word| !word.is_empty());
    let looked_at = if task == AlikeTask::YesNo { 1 } else { usize::MAX };
    let words: Vec<&str> = words.take(looked_at).collect();
    let is_said = |right: &String| words.iter().any(|word| right.eq_ignore_ascii_case(word));
    f64::from(references.iter().all(is_said))
}

/// Paragraphs about different things, in a random order.
fn paragraphs(task: AlikeTask, random: &mut PythonRandom) -> Vec<Paragraph> {
    match task {
        AlikeTask::Key | AlikeTask::Repeated => lockers(task, random),
        _ => villages(task, random),
    }
}

fn villages(task: AlikeTask, random: &mut PythonRandom) -> Vec<Paragraph> {
    let mut villages = VILLAGES.to_vec();
    random.shuffle(&mut villages);
    let village = |name: &str| {
        let (river, keeper) = (*random.choice(&RIVERS), *random.choice(&KEEPERS));
        let (bridge, school) = (*random.choice(&YEARS), *random.choice(&YEARS));
        let (mill, roof) = (*random.choice(&COLORS), *random.choice(&COLORS));
        let (library, may_borrow) = *random.choice(&[("open", "yes"), ("closed", "no")]);
        let text = format!(
            "{name} lies on the river {river}. A stone bridge was built there in {bridge}. The school opened in {school}. \
             The door of the mill is {mill}, and that of the inn is not. Mr. {keeper} keeps the inn, which has a {roof} \
             roof. On Sundays the library is {library}."
        );
        let built = (bridge, format!("built there in {bridge}"));
        let door = (mill, format!("mill is {mill}"));
        let (question, answers) = match task {
            AlikeTask::Year => (format!("When was the stone bridge in {name} built?"), vec![built]),
            AlikeTask::Paraphrase => (
                format!("In which year could people at {name} cross the water on foot for the first time?"),
                vec![built],
            ),
            AlikeTask::Word => (
                format!("What color is the entrance of the place in {name} where grain is ground?"),
                vec![door],
            ),
            AlikeTask::Several => (
                format!(
                    "Answer three questions about {name}, each in a sentence of its own. When was the stone bridge built? What \
                     color is the door of the mill? When did the school open?"
                ),
                vec![built, door, (school, format!("opened in {school}"))],
            ),
            _ => (
                format!(
                    "Can somebody from {name} borrow a book at the end of the week, on a Sunday? Answer with yes or no."
                ),
                vec![(may_borrow, format!("library is {library}"))],
            ),
        };
        Paragraph { text, question, answers }
    };
    villages.into_iter().take(PARAGRAPHS).map(village).collect()
}

fn lockers(task: AlikeTask, random: &mut PythonRandom) -> Vec<Paragraph> {
    // Numbers with the same digits.
    let mut lockers =
        ["4417", "4471", "4741", "7441", "1447", "1474", "1744", "7144", "7414", "4147", "4174", "4714"];
    random.shuffle(&mut lockers);
    let locker = |number: &str| {
        let code = *random.choice(&["82913", "82931", "81923", "28913"]);
        let keeper = *random.choice(&KEEPERS);
        let text = match task {
            AlikeTask::Key => format!("The code of locker {number} in the hall is {code}."),
            _ => format!(
                "Locker {number} in the hall belongs to Mr. {keeper}. The code that opens it is {code}."
            ),
        };
        Paragraph {
            text,
            question: format!("What is the code of locker {number} in the hall?"),
            answers: vec![(code, format!("is {code}"))],
        }
    };
    lockers.into_iter().map(locker).collect()
}

/// The paragraphs at equal distances in a text.
fn spread(paragraphs: &[Paragraph], text: &str) -> String {
    let sentences = sentences(text);
    let end = |index: usize| sentences.len() * index / (paragraphs.len() + 1);
    let around = |index: usize| sentences[end(index)..end(index + 1)].join(" ");
    let mut out = INSTRUCTION.to_owned() + &around(0);
    for (index, paragraph) in paragraphs.iter().enumerate() {
        out += &format!("\n\n{}\n\n{}", paragraph.text, around(index + 1));
    }
    out.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> usize {
        text.split_whitespace().count()
    }

    #[test]
    fn the_right_place_is_one_of_several() {
        let options = SampleOptions { tokens: 2000, samples: 6, seed: 3 };
        let data = Data::open(None).unwrap();
        for task in AlikeTask::ALL {
            let samples = samples(task, &options, &data, &words).unwrap();
            assert_eq!(samples.len(), 6);
            for sample in &samples {
                let needle = &sample.needles[0];
                assert_eq!(sample.needles.len(), if task == AlikeTask::Several { 3 } else { 1 });
                for (needle, answer) in sample.needles.iter().zip(&sample.references) {
                    let says = &sample.context[needle.clone()];
                    assert!(says.contains(answer.as_str()) || task == AlikeTask::YesNo, "{task}: {says}");
                    assert!(sample.context.matches(answer.as_str()).count() > 1 || task == AlikeTask::YesNo);
                }
                assert!((1980..=2000).contains(&sample.tokens), "{task}: {} tokens", sample.tokens);
                // The name of what is asked about stands there once, before the place or in its sentence.
                let name = sample
                    .question
                    .split([' ', ',', '?'])
                    .find(|word| VILLAGES.contains(word) || word.len() == 4 && word.parse::<u32>().is_ok());
                let places: Vec<_> = sample.context.match_indices(name.unwrap()).collect();
                assert!(places.len() == 1 && places[0].0 < needle.start, "{task}: {places:?}");
                assert!(needle.start - places[0].0 < 400);
            }
        }
        let short = SampleOptions { tokens: 100, ..options };
        let error = samples(AlikeTask::Year, &short, &data, &words).unwrap_err();
        assert!(error.to_string().starts_with("100 tokens are too few"), "{error}");
    }

    #[test]
    fn answers_are_compared_by_words() {
        let right = |answer| [String::from(answer)];
        assert_eq!(score(AlikeTask::Year, " 1843.", &right("1843")), 1.0);
        assert_eq!(score(AlikeTask::Year, " 18430", &right("1843")), 0.0);
        assert_eq!(score(AlikeTask::YesNo, "Yes, there is no", &right("yes")), 1.0);
        assert_eq!(score(AlikeTask::YesNo, "Yes, there is no", &right("no")), 0.0);
        assert_eq!(score(AlikeTask::Word, "", &right("red")), 0.0);
        let several = ["1843", "red", "1871"].map(String::from);
        assert_eq!(score(AlikeTask::Several, "In 1843. It is red. In 1871.", &several), 1.0);
        assert_eq!(score(AlikeTask::Several, "In 1843. It is red.", &several), 0.0);
    }
}
