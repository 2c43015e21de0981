//! A long document with facts at known depths, made of the project's own sentences: what `demo` asks about and evaluations count on.
//!
//! The task is that of figure 2 of the RazorAttention paper: "Mary's favorite number is 34251." somewhere in a long text, and later
//! "What is Mary's favorite number?". Kinds of facts, names and words are those the embedded model was trained on
//! (`models/needle/facts.py`; every tenth name was kept out of training facts and is not used here either); the questions read the same
//! to any other model. Everything follows from the options: the same seed and token counter give the same document.

use std::ops::Range;

/// What a fact is about. Names in `--kinds` and tables are those of [`FactKind::name`].
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

    /// A lower-case word for tables and options.
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

/// The kinds of the demo besides the paper's numbers: those the embedded model answers most surely at 8 K tokens. Pass keys and phone
/// numbers lose a digit now and then; cities, colors and hiding places are confused with what the filler says of such things.
pub const DEMO_KINDS: [FactKind; 5] =
    [FactKind::Secret, FactKind::Code, FactKind::Food, FactKind::Animal, FactKind::Born];

/// One statement in the document and the question that is answered by it.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// What it is about.
    pub kind: FactKind,
    /// The sentence as it stands in the document.
    pub text: String,
    /// The question to ask.
    pub question: String,
    /// The whole expected answer; the embedded model answers with the sentence itself.
    pub answer: String,
    /// What must appear in an answer for it to count as right: the number, word or place.
    pub key: String,
    /// Where it stands: share of the document's tokens before it, 0 at the beginning, 1 at the end.
    pub depth: f64,
}

impl Fact {
    /// Whether an answer states the fact: its number or word, and not merely as part of another.
    pub fn is_answered_by(&self, answer: &str) -> bool {
        answer.split(|c: char| !c.is_alphanumeric()).any(|word| word == self.key)
    }
}

/// What document to make.
#[derive(Clone, Debug)]
pub struct DocumentOptions {
    /// Length of the document in tokens of the model that is asked; the document comes within a sentence of it.
    pub tokens: usize,
    /// How many facts it states. They are spread evenly from 5 % to 97 % of the document.
    pub facts: usize,
    /// Everything random follows from it.
    pub seed: u64,
    /// Kinds to take the facts from, in turn, in an order that the seed decides.
    pub kinds: Vec<FactKind>,
    /// Start with the two facts of the paper's figure: Mary's favorite number is 34251, Bob's is 7690.
    pub paper_pair: bool,
}

impl Default for DocumentOptions {
    /// The demo: 8192 tokens, six facts, the paper's pair among them. The embedded model answers about 97 % of such questions with its
    /// whole cache (24 seeds of this length), and all six of this seed.
    fn default() -> Self {
        Self { tokens: 8192, facts: 6, seed: 2, kinds: DEMO_KINDS.to_vec(), paper_pair: true }
    }
}

/// A document and the facts in it, in the order in which they stand.
#[derive(Clone, Debug, PartialEq)]
pub struct DemoDocument {
    /// Sentences separated by spaces and, now and then, an empty line.
    pub text: String,
    /// The facts, shallowest first.
    pub facts: Vec<Fact>,
}

/// Depth of the first and of the last fact; the last one lies within any sensible recent window.
const DEPTHS: Range<f64> = 0.05..0.97;

/// Share of sentences that begin a new paragraph.
const PARAGRAPHS: f64 = 0.1;

impl DemoDocument {
    /// Makes the document of these options. `count_tokens` gives the number of tokens of a piece of text in the model that will be
    /// asked (without special tokens); it is called a few times a sentence.
    ///
    /// A length too small for the facts gives the facts alone: all of them are always stated.
    pub fn generate(options: &DocumentOptions, count_tokens: &dyn Fn(&str) -> usize) -> Self {
        let mut random = Random::new(options.seed);
        let mut facts = choose_facts(options, &mut random);
        let stated: Vec<(String, usize)> =
            facts.iter().map(|fact| sized(&mut random, &fact.text, count_tokens)).collect();
        let of_facts: usize = stated.iter().map(|(_, tokens)| tokens).sum();
        let filler = options.tokens.saturating_sub(of_facts);

        let mut text = String::new();
        let mut written = 0;
        let mut push = |(piece, tokens): (String, usize), written: &mut usize| {
            text.push_str(if text.is_empty() { piece.trim_start() } else { &piece });
            *written += tokens;
        };
        let mut filled = 0;
        let mut next = 0;
        let mut misses = 0;
        // A sentence that does not fit is followed by tries of shorter ones; after that many the rest is too short for any.
        while misses < 16 {
            let place =
                DEPTHS.start + (DEPTHS.end - DEPTHS.start) * next as f64 / (facts.len().max(2) - 1) as f64;
            if next < facts.len() && written as f64 >= place * options.tokens as f64 {
                facts[next].depth = written as f64;
                push(stated[next].clone(), &mut written);
                next += 1;
                continue;
            }
            let sentence = filler_sentence(&mut random);
            let piece = sized(&mut random, &sentence, count_tokens);
            if filled + piece.1 > filler {
                misses += 1;
                continue;
            }
            filled += piece.1;
            push(piece, &mut written);
        }
        for index in next..facts.len() {
            facts[index].depth = written as f64;
            push(stated[index].clone(), &mut written);
        }
        for fact in &mut facts {
            fact.depth /= written.max(1) as f64;
        }
        Self { text, facts }
    }
}

/// A sentence with the separator before it, and its tokens.
fn sized(random: &mut Random, sentence: &str, count_tokens: &dyn Fn(&str) -> usize) -> (String, usize) {
    let separator = if random.unit() < PARAGRAPHS { "\n\n" } else { " " };
    let piece = format!("{separator}{sentence}");
    // Counted behind a full stop, because many vocabularies join it with the line breaks that follow.
    let tokens = count_tokens(&format!(".{piece}")).saturating_sub(count_tokens("."));
    (piece, tokens.max(1))
}

/// The facts of a document, no two about the same person or thing.
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
    let mut turn = 0;
    let mut misses = 0;
    // More facts than there are different names and things would never end: then there are fewer of them.
    while facts.len() < options.facts && !kinds.is_empty() && misses < 1000 {
        let kind = kinds[turn % kinds.len()];
        turn += 1;
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

/// Whom or what a fact of this kind is about.
fn subject(kind: FactKind, random: &mut Random) -> &'static str {
    match kind {
        FactKind::PassKey => "pass key",
        FactKind::Code => random.seen(ITEMS),
        FactKind::Hidden => random.any(OBJECTS),
        _ => random.seen(NAMES),
    }
}

/// What is said of it.
fn value(kind: FactKind, random: &mut Random) -> String {
    match kind {
        FactKind::Number => random.digits(3..7),
        FactKind::PassKey => random.digits(5..9),
        FactKind::Code => random.digits(3..8),
        FactKind::Phone => random.digits(6..9),
        FactKind::Born => (1850 + random.below(176)).to_string(),
        FactKind::Secret => random.seen(WORDS).to_owned(),
        FactKind::City => random.seen(CITIES).to_owned(),
        FactKind::Hidden => random.any(PLACES).to_owned(),
        FactKind::Color => random.any(COLORS).to_owned(),
        FactKind::Food => random.any(FOODS).to_owned(),
        FactKind::Animal => random.any(ANIMALS).to_owned(),
    }
}

/// The sentence and the question of a fact; its depth is not known yet.
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
    Fact { kind, answer: text.clone(), text, question, key: value, depth: 0.0 }
}

/// One sentence that states nothing anybody asks about. Digits stand only in facts, as in the paper's example: a model as small as the
/// embedded one otherwise goes on with a number of the filler now and then.
fn filler_sentence(random: &mut Random) -> String {
    let (a, b) = (random.any(ADJECTIVES), random.any(ADJECTIVES));
    let (n1, n2) = (random.any(NOUNS), random.any(NOUNS));
    let verb = random.any(VERBS);
    let time = random.any(TIMES);
    match random.below(20) {
        0..5 => format!("{time} the {a} {n1} {verb} the {b} {n2}."),
        5..9 => format!("The {a} {n1} {verb} {} {n2} near the {}.", with_article(b), random.any(NOUNS)),
        9..12 => format!("{} {verb} the {a} {n1} in {}.", random.any(NAMES), random.any(CITIES)),
        12..14 => format!(
            "There were {} {n1}s and {} {n2}s in the {a} {}.",
            random.any(COUNTS),
            random.any(COUNTS),
            random.any(NOUNS)
        ),
        14..16 => format!(
            "The {n1} was {a}, the {n2} was {b}, and nobody {verb} the {} {}.",
            random.any(ADJECTIVES),
            random.any(NOUNS)
        ),
        _ => format!(
            "{time} {} and {} {verb} the {a} {n1}, and the {b} {n2} was {}.",
            random.any(NAMES),
            random.any(NAMES),
            random.any(ADJECTIVES)
        ),
    }
}

/// "a small" but "an old".
fn with_article(adjective: &str) -> String {
    let vowel = adjective.starts_with(['a', 'e', 'i', 'o', 'u']);
    format!("{} {adjective}", if vowel { "an" } else { "a" })
}

/// SplitMix64: small, and the same on every machine.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// 0 up to, not including, `n`. The bias of the multiplication is below 2^-50 for the short lists here.
    fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    /// 0 up to, not including, 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn any(&mut self, list: &[&'static str]) -> &'static str {
        list[self.below(list.len())]
    }

    /// One of those that occur in training facts: the eighth of every ten does not.
    fn seen(&mut self, list: &[&'static str]) -> &'static str {
        loop {
            let index = self.below(list.len());
            if index % 10 != 7 {
                return list[index];
            }
        }
    }

    /// A number of that many digits that does not begin with 0.
    fn digits(&mut self, lengths: Range<usize>) -> String {
        let length = lengths.start + self.below(lengths.len());
        (0..length)
            .map(|place| {
                let digit = if place == 0 { 1 + self.below(9) } else { self.below(10) };
                char::from(b'0' + digit as u8)
            })
            .collect()
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// People.
const NAMES: &[&str] = &[
    "Mary",
    "Bob",
    "Alice",
    "John",
    "Sarah",
    "Tom",
    "Emma",
    "David",
    "Laura",
    "Peter",
    "Anna",
    "James",
    "Linda",
    "Robert",
    "Susan",
    "Michael",
    "Karen",
    "William",
    "Nancy",
    "Richard",
    "Lisa",
    "Joseph",
    "Betty",
    "Thomas",
    "Helen",
    "Charles",
    "Sandra",
    "Daniel",
    "Donna",
    "Matthew",
    "Carol",
    "Anthony",
    "Ruth",
    "Mark",
    "Sharon",
    "Donald",
    "Michelle",
    "Steven",
    "Kevin",
    "Brian",
    "George",
    "Edward",
    "Ronald",
    "Timothy",
    "Jason",
    "Jeffrey",
    "Ryan",
    "Jacob",
    "Gary",
    "Nicholas",
    "Eric",
    "Jonathan",
    "Stephen",
    "Larry",
    "Justin",
    "Scott",
    "Brandon",
    "Benjamin",
    "Samuel",
    "Gregory",
    "Frank",
    "Alexander",
    "Raymond",
    "Patrick",
    "Jack",
    "Dennis",
    "Jerry",
    "Tyler",
    "Aaron",
    "Jose",
    "Adam",
    "Henry",
    "Nathan",
    "Douglas",
    "Zachary",
    "Kyle",
    "Walter",
    "Ethan",
    "Jeremy",
    "Harold",
    "Keith",
    "Christian",
    "Roger",
    "Noah",
    "Gerald",
    "Carl",
    "Terry",
    "Sean",
    "Austin",
    "Arthur",
    "Lawrence",
    "Jesse",
    "Dylan",
    "Bryan",
    "Joe",
    "Jordan",
    "Billy",
    "Bruce",
    "Albert",
    "Willie",
    "Gabriel",
    "Logan",
    "Alan",
    "Juan",
    "Wayne",
    "Roy",
    "Ralph",
    "Randy",
    "Eugene",
    "Vincent",
    "Russell",
    "Elijah",
    "Louis",
    "Bobby",
    "Philip",
    "Johnny",
    "Amy",
    "Angela",
    "Melissa",
    "Brenda",
    "Rebecca",
    "Stephanie",
    "Kathleen",
    "Amanda",
    "Cynthia",
    "Diane",
    "Julie",
    "Joyce",
    "Victoria",
    "Kelly",
    "Christina",
    "Joan",
    "Evelyn",
    "Lauren",
    "Judith",
    "Olivia",
    "Martha",
    "Cheryl",
    "Megan",
    "Andrea",
    "Hannah",
    "Jacqueline",
    "Ann",
    "Jean",
    "Kathryn",
    "Gloria",
    "Teresa",
    "Doris",
    "Sara",
    "Janice",
    "Julia",
    "Marie",
    "Madison",
    "Grace",
    "Judy",
    "Theresa",
    "Beverly",
    "Denise",
    "Marilyn",
    "Amber",
    "Danielle",
    "Rose",
    "Brittany",
    "Diana",
    "Abigail",
    "Natalie",
    "Jane",
    "Lori",
    "Alexis",
    "Tiffany",
    "Kayla",
    "Maria",
    "Ingrid",
    "Omar",
    "Priya",
    "Wei",
    "Yuki",
    "Lars",
    "Fatima",
    "Carlos",
    "Elena",
    "Ivan",
    "Nadia",
    "Hugo",
    "Chloe",
    "Felix",
    "Greta",
    "Oscar",
    "Sofia",
    "Ahmed",
    "Leila",
    "Marco",
    "Bianca",
    "Pavel",
    "Irina",
    "Kenji",
    "Mei",
    "Sven",
    "Astrid",
    "Dmitri",
    "Olga",
    "Rahul",
    "Anika",
];

/// Where they live.
const CITIES: &[&str] = &[
    "Paris",
    "London",
    "Berlin",
    "Madrid",
    "Rome",
    "Vienna",
    "Oslo",
    "Helsinki",
    "Dublin",
    "Lisbon",
    "Athens",
    "Warsaw",
    "Prague",
    "Budapest",
    "Moscow",
    "Cairo",
    "Nairobi",
    "Lagos",
    "Delhi",
    "Mumbai",
    "Tokyo",
    "Kyoto",
    "Seoul",
    "Beijing",
    "Shanghai",
    "Sydney",
    "Melbourne",
    "Toronto",
    "Montreal",
    "Boston",
    "Chicago",
    "Denver",
    "Dallas",
    "Seattle",
    "Portland",
    "Miami",
    "Atlanta",
    "Houston",
    "Phoenix",
    "Havana",
    "Lima",
    "Bogota",
    "Santiago",
    "Geneva",
    "Zurich",
    "Munich",
    "Hamburg",
    "Bremen",
    "Leipzig",
    "Dresden",
    "Lyon",
    "Nice",
    "Turin",
    "Milan",
    "Venice",
    "Naples",
    "Porto",
    "Seville",
    "Valencia",
    "Krakow",
    "Riga",
    "Vilnius",
    "Tallinn",
    "Istanbul",
    "Ankara",
    "Tehran",
    "Baghdad",
    "Damascus",
    "Amman",
    "Doha",
    "Dubai",
    "Manila",
    "Jakarta",
    "Bangkok",
    "Hanoi",
];

/// Things with a code.
const ITEMS: &[&str] = &[
    "safe",
    "vault",
    "garage",
    "cellar",
    "attic",
    "library",
    "museum",
    "laptop",
    "printer",
    "server",
    "archive",
    "locker",
    "cabinet",
    "warehouse",
    "laboratory",
    "gate",
    "kitchen",
    "office",
    "studio",
    "harbor",
    "station",
    "castle",
    "tower",
    "bridge",
    "tunnel",
    "garden",
    "greenhouse",
    "hangar",
    "workshop",
    "bakery",
    "theater",
    "chapel",
    "school",
    "hospital",
    "hotel",
    "market",
    "bank",
    "ship",
    "train",
    "truck",
    "elevator",
    "suitcase",
    "desk",
    "drawer",
    "phone",
    "tablet",
    "router",
    "camera",
    "telescope",
    "engine",
    "boiler",
    "factory",
    "mine",
    "farm",
    "stable",
    "dock",
    "lighthouse",
];

/// Secret words.
const WORDS: &[&str] = &[
    "apple", "river", "mountain", "silver", "candle", "forest", "dragon", "pepper", "violin", "orange",
    "marble", "thunder", "pencil", "rabbit", "window", "lemon", "copper", "island", "button", "cactus",
    "blanket", "feather", "hammer", "jacket", "kettle", "ladder", "magnet", "needle", "onion", "parrot",
    "quartz", "ribbon", "saddle", "turtle", "umbrella", "velvet", "walnut", "zebra", "anchor", "basket",
    "castle", "desert", "ember", "falcon", "ginger", "harvest", "igloo", "jungle", "lantern", "meadow",
    "nectar", "oyster", "pumpkin", "raven", "salmon", "tulip", "valley", "willow", "yellow", "acorn",
    "beacon", "cobalt", "dolphin", "eagle", "flame", "glacier", "hazel", "ivory", "jasmine", "koala",
    "lavender", "mango", "nutmeg", "olive", "peach", "quill", "rocket", "spider", "tiger", "unicorn",
    "vanilla", "whale", "amber", "birch", "coral", "daisy", "emerald", "fox", "granite", "honey", "iris",
    "jade", "kiwi", "lotus", "maple", "north", "opal", "pearl",
];

/// What is hidden.
const OBJECTS: &[&str] = &[
    "key", "map", "ring", "letter", "book", "coin", "lamp", "watch", "sword", "crown", "diary", "ticket",
    "photo", "passport", "wallet", "flute", "mirror", "knife", "compass", "bottle", "statue", "painting",
    "necklace", "umbrella", "notebook", "hat", "glove", "scarf", "clock", "bell",
];

/// Where it is hidden.
const PLACES: &[&str] = &[
    "kitchen",
    "garden",
    "cellar",
    "attic",
    "library",
    "garage",
    "barn",
    "tower",
    "chapel",
    "bathroom",
    "bedroom",
    "office",
    "stable",
    "workshop",
    "greenhouse",
    "hallway",
    "basement",
    "balcony",
    "pantry",
    "closet",
    "theater",
    "museum",
    "bakery",
    "school",
    "hospital",
    "station",
    "harbor",
    "castle",
    "forest",
    "cave",
];

/// Favorite colors.
const COLORS: &[&str] = &[
    "red",
    "blue",
    "green",
    "yellow",
    "purple",
    "orange",
    "black",
    "white",
    "brown",
    "pink",
    "gray",
    "silver",
    "gold",
    "turquoise",
    "violet",
    "crimson",
];

/// Favorite animals.
const ANIMALS: &[&str] = &[
    "dog", "cat", "horse", "parrot", "rabbit", "hamster", "turtle", "goat", "snake", "lizard", "donkey",
    "pony", "canary", "ferret", "duck", "goose",
];

/// Favorite food.
const FOODS: &[&str] = &[
    "pizza",
    "pasta",
    "soup",
    "rice",
    "bread",
    "cheese",
    "salad",
    "curry",
    "sushi",
    "noodles",
    "pancakes",
    "chocolate",
    "dumplings",
    "tacos",
    "lasagna",
    "stew",
    "waffles",
    "risotto",
    "falafel",
    "omelette",
];

/// For the filler.
const ADJECTIVES: &[&str] = &[
    "old", "small", "quiet", "large", "green", "broken", "narrow", "bright", "heavy", "wooden", "empty",
    "strange", "famous", "distant", "little",
];

/// For the filler.
const COUNTS: &[&str] = &[
    "two",
    "three",
    "five",
    "seven",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "fifteen",
    "twenty",
    "thirty",
    "fifty",
    "sixty",
    "ninety",
    "a hundred",
    "a thousand",
];

/// For the filler.
const NOUNS: &[&str] = &[
    "house", "road", "river", "boat", "garden", "bird", "teacher", "farmer", "doctor", "child", "village",
    "hill", "window", "table", "market", "bridge", "story", "song", "cloud", "field", "horse", "train",
    "letter", "machine", "student", "baker", "sailor", "painter", "neighbor", "tree",
];

/// For the filler.
const VERBS: &[&str] = &[
    "saw",
    "found",
    "watched",
    "followed",
    "painted",
    "visited",
    "remembered",
    "described",
    "crossed",
    "passed",
    "noticed",
    "admired",
    "left",
    "repaired",
];

/// For the filler.
const TIMES: &[&str] = &[
    "In the morning",
    "At night",
    "Last week",
    "During the summer",
    "After lunch",
    "On Sunday",
    "Before dawn",
    "Later that day",
    "In the winter",
    "Many years ago",
    "Yesterday",
    "One evening",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// A token for each word and each mark, about as many as a real vocabulary makes.
    fn words(text: &str) -> usize {
        text.split_whitespace().map(|word| 1 + usize::from(!word.ends_with(char::is_alphanumeric))).sum()
    }

    fn options(tokens: usize, facts: usize, seed: u64) -> DocumentOptions {
        DocumentOptions { tokens, facts, seed, ..DocumentOptions::default() }
    }

    #[test]
    fn the_demo_states_every_fact_once_at_its_depth() {
        let document = DemoDocument::generate(&DocumentOptions::default(), &words);
        let length = words(&document.text);
        assert!((8160..=8200).contains(&length), "{length} tokens");
        assert_eq!(document.facts.len(), 6);
        for (fact, wanted) in document.facts.iter().zip([0.05, 0.234, 0.418, 0.602, 0.786, 0.97]) {
            let places: Vec<_> = document.text.match_indices(&fact.text).collect();
            assert_eq!(places.len(), 1, "{}", fact.text);
            let before = words(&document.text[..places[0].0]) as f64 / length as f64;
            assert!((before - fact.depth).abs() < 0.003, "{}", fact.text);
            assert!((fact.depth - wanted).abs() < 0.006, "{}", fact.depth);
            assert!(fact.answer.contains(&fact.key) && fact.question.ends_with('?'));
        }
        let texts: Vec<&str> = document.facts.iter().map(|f| f.text.as_str()).collect();
        assert!(texts.contains(&"Mary's favorite number is 34251."));
        assert!(texts.contains(&"Bob's favorite number is 7690."));
    }

    #[test]
    fn a_number_within_another_is_not_the_answer() {
        let document = DemoDocument::generate(&DocumentOptions::default(), &words);
        let fact = document.facts.iter().find(|fact| fact.key == "34251").expect("the paper's fact");
        assert!(fact.is_answered_by("Mary's favorite number is 34251."));
        assert!(!fact.is_answered_by("Mary's favorite number is 342510."));
        assert!(!fact.is_answered_by("3425 1"));
    }

    #[test]
    fn the_same_options_give_the_same_document_and_another_seed_another() {
        let made = |seed| DemoDocument::generate(&options(500, 4, seed), &words);
        assert_eq!(made(7), made(7));
        assert_ne!(made(7).text, made(8).text);
    }

    /// A change of generator or lists changes every number that was measured on its documents: this text says so.
    #[test]
    fn a_short_document_reads_like_this() {
        let document = DemoDocument::generate(&options(40, 1, 1), &words);
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
            let document = DemoDocument::generate(&many, &words);
            assert_eq!(document.facts.len(), 40);
            assert!(document.facts.is_sorted_by(|a, b| a.depth < b.depth));
            let mut questions: Vec<&str> = document.facts.iter().map(|f| f.question.as_str()).collect();
            questions.sort_unstable();
            questions.dedup();
            assert_eq!(questions.len(), 40);
        }
    }

    #[test]
    fn odd_options_end_and_keep_their_facts() {
        let short = DemoDocument::generate(&options(0, 3, 1), &words);
        assert_eq!(short.facts.len(), 3);
        assert!(short.facts.iter().all(|fact| short.text.contains(&fact.text)));
        let none = DemoDocument::generate(&options(100, 0, 1), &words);
        assert!(none.facts.is_empty() && !none.text.is_empty());
        let one = DemoDocument::generate(&options(100, 1, 1), &words);
        assert_eq!(one.facts.len(), 1);
        // There is one pass key, so there cannot be five facts about it.
        let only =
            DocumentOptions { kinds: vec![FactKind::PassKey], paper_pair: false, ..options(100, 5, 1) };
        assert_eq!(DemoDocument::generate(&only, &words).facts.len(), 1);
        let nothing = DocumentOptions { kinds: Vec::new(), ..only };
        assert!(DemoDocument::generate(&nothing, &words).facts.is_empty());
        // A counter that finds no tokens must not make it run for ever.
        let blind = DemoDocument::generate(&options(300, 2, 1), &|_| 0);
        assert_eq!(blind.facts.len(), 2);
    }
}
