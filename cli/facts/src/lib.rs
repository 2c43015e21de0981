//! Generated documents with facts at known depths, for `demo` and `recall`. Knows no files and no engine.
//!
//! The task is that of figure 2 of the RazorAttention paper: "Mary's favorite number is 34251." stands
//! somewhere in a long text, and the question is "What is Mary's favorite number?". Kinds of facts, names and
//! words are those that the embedded model was trained on (`models/needle/facts.py`). Every tenth name was
//! held out of its training facts and is not used here either. The same options and the same token counter
//! give the same document.

#![forbid(unsafe_code)]

#[rustfmt::skip] // one word a line is too long
mod words;

use std::ops::Range;

use models::random::Random;

use self::words::{
    ADJECTIVES, ANIMALS, CITIES, COLORS, COUNTS, FOODS, ITEMS, NAMES, NOUNS, OBJECTS, PLACES, TIMES, VERBS,
    WORDS,
};

/// What a fact is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactKind {
    /// "Mary's favorite number is 34251."
    Number,
    /// "The pass key is 9078648." At most one in a document.
    PassKey,
    /// "The secret word of Mary is river."
    Secret,
    /// "The code of the vault is 4471."
    Code,
    /// "The phone number of Mary is 5550147."
    Phone,
    /// "Mary lives in Paris."
    City,
    /// "The key is hidden in the garden."
    Hidden,
    /// "Mary's favorite color is blue."
    Color,
    /// "Mary's favorite food is rice."
    Food,
    /// "Mary's favorite animal is goat."
    Animal,
    /// "Mary was born in 1964."
    Born,
}

impl FactKind {
    /// Every kind, in the order of the declaration.
    pub const ALL: [FactKind; 11] = [
        FactKind::Number,
        FactKind::PassKey,
        FactKind::Secret,
        FactKind::Code,
        FactKind::Phone,
        FactKind::City,
        FactKind::Hidden,
        FactKind::Color,
        FactKind::Food,
        FactKind::Animal,
        FactKind::Born,
    ];

    /// Its name in `--kinds`.
    pub fn name(self) -> &'static str {
        match self {
            FactKind::Number => "number",
            FactKind::PassKey => "passkey",
            FactKind::Secret => "secret",
            FactKind::Code => "code",
            FactKind::Phone => "phone",
            FactKind::City => "city",
            FactKind::Hidden => "hidden",
            FactKind::Color => "color",
            FactKind::Food => "food",
            FactKind::Animal => "animal",
            FactKind::Born => "born",
        }
    }
}

/// The kinds of facts that the embedded model answers most reliably at 8192 tokens, besides favorite numbers.
/// It drops a digit of some pass keys and phone numbers, and confuses cities, colors and hiding places with
/// those of the filler.
pub const DEMO_KINDS: [FactKind; 5] =
    [FactKind::Secret, FactKind::Code, FactKind::Food, FactKind::Animal, FactKind::Born];

/// A statement in a document, and a question about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// What it is about.
    pub kind: FactKind,
    /// The sentence in the document.
    pub text: String,
    /// The question.
    pub question: String,
    /// The number, word or place that a correct answer contains.
    pub key: String,
    /// Share of the document's tokens that come before it: 0 at the beginning, 1 at the end.
    pub depth: f64,
}

impl Fact {
    /// Whether an answer contains the key as a whole word.
    pub fn is_answered_by(&self, answer: &str) -> bool {
        answer.split(|c: char| !c.is_alphanumeric()).any(|word| word == self.key)
    }

    /// The same of others: so many statements of this kind with the same key, about different persons or things.
    pub fn of_others(&self, count: usize, seed: u64) -> Vec<Fact> {
        let mut random = Random(seed);
        let mut facts = vec![self.clone()];
        // There may be fewer names and things than that.
        for _ in 0..100 {
            let fact = state(self.kind, subject(self.kind, &mut random), self.key.clone());
            if facts.len() <= count && facts.iter().all(|known| known.text != fact.text) {
                facts.push(fact);
            }
        }
        facts.split_off(1)
    }
}

/// How a document is generated.
#[derive(Clone, Debug)]
pub struct DocumentOptions {
    /// Length in tokens of the model; the document is at most one sentence shorter.
    pub tokens: usize,
    /// Number of facts, spread evenly from 5 % to 97 % of the document.
    pub facts: usize,
    /// Random seed.
    pub seed: u64,
    /// Kinds of facts, used in rotation in a random order.
    pub kinds: Vec<FactKind>,
    /// Whether to include the two facts of the paper's figure: Mary's favorite number is 34251, Bob's is
    /// 7690.
    pub paper_pair: bool,
}

impl Default for DocumentOptions {
    /// The document of the demo. With a full cache, the embedded model answers about 97 % of the questions
    /// about such documents (24 seeds), and all six of this seed.
    fn default() -> Self {
        Self { tokens: 8192, facts: 6, seed: 2, kinds: DEMO_KINDS.to_vec(), paper_pair: true }
    }
}

/// A document and the facts in it.
#[derive(Clone, Debug, PartialEq)]
pub struct FactDocument {
    /// Sentences separated by a space or an empty line.
    pub text: String,
    /// The facts, in the order of the text.
    pub facts: Vec<Fact>,
}

/// Depths of the first and of the last fact. The last one is in the recent window of any common policy.
const DEPTHS: Range<f64> = 0.05..0.97;

/// Share of sentences that begin a new paragraph.
const PARAGRAPHS: f64 = 0.1;

/// A filler sentence that does not fit is replaced by another one, which may be shorter. After this many
/// failures the document is complete.
const MAX_MISSES: usize = 16;

/// A sentence with the separator before it.
#[derive(Clone)]
struct Piece {
    text: String,
    tokens: usize,
}

impl FactDocument {
    /// Generates a document. `count_tokens` returns the number of tokens of a text, without special tokens;
    /// it is called twice for each sentence.
    ///
    /// All facts are in the document, even if it becomes longer than `options.tokens`.
    pub fn generate(options: &DocumentOptions, count_tokens: &dyn Fn(&str) -> usize) -> Self {
        let mut random = Random(options.seed);
        let mut facts = choose_facts(options, &mut random);
        let fact_pieces: Vec<Piece> =
            facts.iter().map(|fact| piece(&mut random, &fact.text, count_tokens)).collect();
        let fact_tokens: usize = fact_pieces.iter().map(|piece| piece.tokens).sum();
        let mut filler_tokens = options.tokens.saturating_sub(fact_tokens);

        let mut text = String::new();
        let mut written = 0;
        let mut push = |piece: &Piece, written: &mut usize| {
            text.push_str(if text.is_empty() { piece.text.trim_start() } else { &piece.text });
            *written += piece.tokens;
        };
        let mut next = 0;
        let mut misses = 0;
        while misses < MAX_MISSES {
            let depth =
                DEPTHS.start + (DEPTHS.end - DEPTHS.start) * next as f64 / (facts.len().max(2) - 1) as f64;
            if next < facts.len() && written as f64 >= depth * options.tokens as f64 {
                facts[next].depth = written as f64;
                push(&fact_pieces[next], &mut written);
                next += 1;
                continue;
            }
            let sentence = filler_sentence(&mut random);
            let filler = piece(&mut random, &sentence, count_tokens);
            if filler.tokens > filler_tokens {
                misses += 1;
                continue;
            }
            filler_tokens -= filler.tokens;
            push(&filler, &mut written);
        }
        for index in next..facts.len() {
            facts[index].depth = written as f64;
            push(&fact_pieces[index], &mut written);
        }
        for fact in &mut facts {
            fact.depth /= written.max(1) as f64;
        }
        Self { text, facts }
    }
}

/// Adds a random separator before a sentence and counts its tokens.
fn piece(random: &mut Random, sentence: &str, count_tokens: &dyn Fn(&str) -> usize) -> Piece {
    let separator = if random.unit() < PARAGRAPHS { "\n\n" } else { " " };
    let text = format!("{separator}{sentence}");
    // Counted after a full stop, because many vocabularies have tokens of a full stop and line breaks.
    let tokens = count_tokens(&format!(".{text}")).saturating_sub(count_tokens("."));
    Piece { text, tokens: tokens.max(1) }
}

/// Chooses facts, no two of them about the same person or thing.
fn choose_facts(options: &DocumentOptions, random: &mut Random) -> Vec<Fact> {
    let mut kinds = options.kinds.clone();
    random.shuffle(&mut kinds);
    let mut facts: Vec<Fact> = Vec::with_capacity(options.facts);
    let mut about: Vec<&str> = Vec::new();
    if options.paper_pair {
        for (name, number) in [("Mary", "34251"), ("Bob", "7690")] {
            about.push(name);
            facts.push(state(FactKind::Number, name, number.to_owned()));
        }
    }
    let mut attempt = 0;
    let mut misses = 0;
    // There may be fewer names and things than facts were asked for. Then the document has fewer facts.
    while facts.len() < options.facts && !kinds.is_empty() && misses < 1000 {
        let kind = kinds[attempt % kinds.len()];
        attempt += 1;
        let subject = subject(kind, random);
        if about.contains(&subject) {
            misses += 1;
            continue;
        }
        about.push(subject);
        let value = value(kind, random);
        facts.push(state(kind, subject, value));
    }
    facts.truncate(options.facts);
    random.shuffle(&mut facts);
    facts
}

/// The person or thing that a fact of this kind is about.
fn subject(kind: FactKind, random: &mut Random) -> &'static str {
    match kind {
        FactKind::PassKey => "pass key",
        FactKind::Code => trained(random, ITEMS),
        FactKind::Hidden => any(random, OBJECTS),
        _ => trained(random, NAMES),
    }
}

/// The number, word or place that a fact of this kind states.
fn value(kind: FactKind, random: &mut Random) -> String {
    match kind {
        FactKind::Number => digits(random, 3..7),
        FactKind::PassKey => digits(random, 5..9),
        FactKind::Code => digits(random, 3..8),
        FactKind::Phone => digits(random, 6..9),
        FactKind::Born => (1850 + random.below(176)).to_string(),
        FactKind::Secret => trained(random, WORDS).to_owned(),
        FactKind::City => trained(random, CITIES).to_owned(),
        FactKind::Hidden => any(random, PLACES).to_owned(),
        FactKind::Color => any(random, COLORS).to_owned(),
        FactKind::Food => any(random, FOODS).to_owned(),
        FactKind::Animal => any(random, ANIMALS).to_owned(),
    }
}

/// The sentence and the question of a fact. Its depth is set later.
fn state(kind: FactKind, subject: &str, value: String) -> Fact {
    let (text, question) = match kind {
        FactKind::Number | FactKind::Color | FactKind::Food | FactKind::Animal => (
            format!("{subject}'s favorite {} is {value}.", kind.name()),
            format!("What is {subject}'s favorite {}?", kind.name()),
        ),
        FactKind::PassKey => (format!("The pass key is {value}."), "What is the pass key?".to_owned()),
        FactKind::Secret => (
            format!("The secret word of {subject} is {value}."),
            format!("What is the secret word of {subject}?"),
        ),
        FactKind::Code => {
            (format!("The code of the {subject} is {value}."), format!("What is the code of the {subject}?"))
        }
        FactKind::Phone => (
            format!("The phone number of {subject} is {value}."),
            format!("What is the phone number of {subject}?"),
        ),
        FactKind::City => (format!("{subject} lives in {value}."), format!("Where does {subject} live?")),
        FactKind::Hidden => {
            (format!("The {subject} is hidden in the {value}."), format!("Where is the {subject} hidden?"))
        }
        FactKind::Born => (format!("{subject} was born in {value}."), format!("When was {subject} born?")),
    };
    Fact { kind, text, question, key: value, depth: 0.0 }
}

/// A sentence without a fact. It has no digits, as in the paper's example: a model as small as the embedded
/// one would sometimes answer with a number of the filler.
fn filler_sentence(random: &mut Random) -> String {
    let (a, b) = (any(random, ADJECTIVES), any(random, ADJECTIVES));
    let (n1, n2) = (any(random, NOUNS), any(random, NOUNS));
    let verb = any(random, VERBS);
    let time = any(random, TIMES);
    match random.below(20) {
        0..5 => format!("{time} the {a} {n1} {verb} the {b} {n2}."),
        5..9 => format!("The {a} {n1} {verb} {} {n2} near the {}.", with_article(b), any(random, NOUNS)),
        9..12 => format!("{} {verb} the {a} {n1} in {}.", any(random, NAMES), any(random, CITIES)),
        12..14 => format!(
            "There were {} {n1}s and {} {n2}s in the {a} {}.",
            any(random, COUNTS),
            any(random, COUNTS),
            any(random, NOUNS)
        ),
        14..16 => format!(
            "The {n1} was {a}, the {n2} was {b}, and nobody {verb} the {} {}.",
            any(random, ADJECTIVES),
            any(random, NOUNS)
        ),
        _ => format!(
            "{time} {} and {} {verb} the {a} {n1}, and the {b} {n2} was {}.",
            any(random, NAMES),
            any(random, NAMES),
            any(random, ADJECTIVES)
        ),
    }
}

/// `a small`, `an old`.
fn with_article(adjective: &str) -> String {
    let vowel = adjective.starts_with(['a', 'e', 'i', 'o', 'u']);
    format!("{} {adjective}", if vowel { "an" } else { "a" })
}

fn any(random: &mut Random, list: &[&'static str]) -> &'static str {
    list[random.below(list.len())]
}

/// One of the words in the training facts of the embedded model: the eighth of every ten was held out.
fn trained(random: &mut Random, list: &[&'static str]) -> &'static str {
    loop {
        let index = random.below(list.len());
        if index % 10 != 7 {
            return list[index];
        }
    }
}

/// A number with a random count of digits. It does not begin with 0.
fn digits(random: &mut Random, lengths: Range<usize>) -> String {
    let length = lengths.start + random.below(lengths.len());
    (0..length)
        .map(|place| {
            let digit = if place == 0 { 1 + random.below(9) } else { random.below(10) };
            char::from(b'0' + digit as u8)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One token for each word and each punctuation mark, about as in a real vocabulary.
    fn count_words(text: &str) -> usize {
        text.split_whitespace().map(|word| 1 + usize::from(!word.ends_with(char::is_alphanumeric))).sum()
    }

    fn options(tokens: usize, facts: usize, seed: u64) -> DocumentOptions {
        DocumentOptions { tokens, facts, seed, ..DocumentOptions::default() }
    }

    #[test]
    fn the_default_document_states_every_fact_once_at_its_depth() {
        let document = FactDocument::generate(&DocumentOptions::default(), &count_words);
        let length = count_words(&document.text);
        assert!((8160..=8200).contains(&length), "{length} tokens");
        assert_eq!(document.facts.len(), 6);
        for (fact, wanted) in document.facts.iter().zip([0.05, 0.234, 0.418, 0.602, 0.786, 0.97]) {
            let places: Vec<_> = document.text.match_indices(&fact.text).collect();
            assert_eq!(places.len(), 1, "{}", fact.text);
            let before = count_words(&document.text[..places[0].0]) as f64 / length as f64;
            assert!((before - fact.depth).abs() < 0.003, "{}", fact.text);
            assert!((fact.depth - wanted).abs() < 0.006, "{}", fact.depth);
            assert!(fact.text.contains(&fact.key) && fact.question.ends_with('?'));
        }
        let texts: Vec<&str> = document.facts.iter().map(|f| f.text.as_str()).collect();
        assert!(texts.contains(&"Mary's favorite number is 34251."));
        assert!(texts.contains(&"Bob's favorite number is 7690."));
    }

    #[test]
    fn an_answer_must_contain_the_key_as_a_whole_word() {
        let document = FactDocument::generate(&DocumentOptions::default(), &count_words);
        let fact = document.facts.iter().find(|fact| fact.key == "34251").expect("the paper's fact");
        assert!(fact.is_answered_by("Mary's favorite number is 34251."));
        assert!(!fact.is_answered_by("Mary's favorite number is 342510."));
        assert!(!fact.is_answered_by("3425 1"));
    }

    #[test]
    fn others_are_said_to_have_the_same() {
        let fact = state(FactKind::Number, "Mary", "34251".to_owned());
        let others = fact.of_others(3, 7);
        assert_eq!(others.len(), 3);
        assert!(others.iter().all(|other| other.key == "34251" && !other.text.contains("Mary")));
        assert!(others[0].text != others[1].text);
        // There is one pass key.
        assert!(state(FactKind::PassKey, "pass key", "123".to_owned()).of_others(3, 7).is_empty());
    }

    #[test]
    fn the_seed_determines_the_document() {
        let generate = |seed| FactDocument::generate(&options(500, 4, seed), &count_words);
        assert_eq!(generate(7), generate(7));
        assert_ne!(generate(7).text, generate(8).text);
    }

    /// If this text changes, all results that were measured on generated documents are no longer comparable.
    #[test]
    fn a_seed_gives_this_text() {
        let document = FactDocument::generate(&options(40, 1, 1), &count_words);
        assert_eq!(
            document.text,
            "There were twelve bridges and fifteen doctors in the strange table. Mary's favorite number is 34251.\n\n\
             Helen saw the wooden horse in Kyoto. The bright road crossed an empty tree near the table."
        );
    }

    #[test]
    fn no_two_facts_are_about_the_same_thing() {
        for seed in 0..20 {
            let many = DocumentOptions { kinds: FactKind::ALL.to_vec(), ..options(1000, 40, seed) };
            let document = FactDocument::generate(&many, &count_words);
            assert_eq!(document.facts.len(), 40);
            assert!(document.facts.is_sorted_by(|a, b| a.depth < b.depth));
            let mut questions: Vec<&str> = document.facts.iter().map(|f| f.question.as_str()).collect();
            questions.sort_unstable();
            questions.dedup();
            assert_eq!(questions.len(), 40);
        }
    }

    #[test]
    fn extreme_options_give_a_document() {
        let short = FactDocument::generate(&options(0, 3, 1), &count_words);
        assert_eq!(short.facts.len(), 3);
        assert!(short.facts.iter().all(|fact| short.text.contains(&fact.text)));
        let none = FactDocument::generate(&options(100, 0, 1), &count_words);
        assert!(none.facts.is_empty() && !none.text.is_empty());
        let one = FactDocument::generate(&options(100, 1, 1), &count_words);
        assert_eq!(one.facts.len(), 1);
        // There is one pass key, so there cannot be five facts about it.
        let only =
            DocumentOptions { kinds: vec![FactKind::PassKey], paper_pair: false, ..options(100, 5, 1) };
        assert_eq!(FactDocument::generate(&only, &count_words).facts.len(), 1);
        let nothing = DocumentOptions { kinds: Vec::new(), ..only };
        assert!(FactDocument::generate(&nothing, &count_words).facts.is_empty());
        // The generator ends even if the counter finds no tokens.
        let uncounted = FactDocument::generate(&options(300, 2, 1), &|_| 0);
        assert_eq!(uncounted.facts.len(), 2);
    }
}
