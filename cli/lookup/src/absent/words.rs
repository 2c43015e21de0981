//! Words that say nothing about documents: function words, by which languages are told apart, and words that are always
//! written with a capital letter.

/// A language whose rules for capital letters are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    English,
    /// All nouns have capital letters.
    German,
    French,
    Spanish,
    Italian,
    Portuguese,
    Dutch,
}

/// Frequent words of each language that others do not have, or seldom.
const FUNCTION_WORDS: &[(Language, &[&str])] = &[
    (
        Language::English,
        &[
            "the", "of", "and", "is", "what", "which", "who", "does", "are", "was", "with", "for", "that",
            "how", "many", "when", "where", "to", "by", "this",
        ],
    ),
    (
        Language::German,
        &[
            "der", "die", "das", "und", "ist", "nicht", "ein", "eine", "mit", "von", "fur", "wie", "wer",
            "welche", "welcher", "auf", "den", "dem", "wird", "im", "wann", "wo",
        ],
    ),
    (
        Language::French,
        &[
            "le", "la", "les", "des", "est", "et", "dans", "pour", "que", "qui", "quel", "quelle", "du",
            "une", "sur", "avec", "au", "aux", "combien",
        ],
    ),
    (
        Language::Spanish,
        &[
            "el", "los", "las", "del", "es", "y", "en", "para", "que", "cual", "quien", "cuanto", "cuando",
            "una", "con", "por", "su", "se",
        ],
    ),
    (
        Language::Italian,
        &[
            "il", "gli", "della", "del", "e", "di", "che", "per", "con", "una", "quale", "chi", "quanto",
            "sono", "nel", "alla", "dei", "le",
        ],
    ),
    (
        Language::Portuguese,
        &[
            "o", "os", "as", "do", "da", "e", "em", "para", "que", "qual", "quem", "quanto", "uma", "com",
            "por", "ao", "dos", "no", "na",
        ],
    ),
    (
        Language::Dutch,
        &[
            "de", "het", "een", "van", "en", "is", "niet", "met", "voor", "wat", "wie", "hoe", "welke", "op",
            "zijn", "dat", "wordt", "te",
        ],
    ),
];

/// The language of these folded words; `None` if it is none of these, or too few words tell.
pub(super) fn language<'a>(words: impl Iterator<Item = &'a str>) -> Option<Language> {
    let (mut counts, mut all) = ([0usize; 7], 0usize);
    for word in words {
        all += 1;
        for ((_, list), count) in FUNCTION_WORDS.iter().zip(&mut counts) {
            *count += usize::from(list.contains(&word));
        }
    }
    let (best, count) = counts.iter().enumerate().max_by_key(|(_, count)| **count)?;
    let is_clear = counts.iter().enumerate().all(|(other, n)| other == best || n * 5 <= count * 4);
    (*count >= 2 && count * 12 >= all && is_clear).then(|| FUNCTION_WORDS[best].0)
}

/// Whether a folded word, written with a capital letter, is no name that a document would have to have: days, months,
/// peoples and languages, parts of documents, titles, common abbreviations.
pub(super) fn is_ordinary(word: &str) -> bool {
    super::dates::month(word).is_some()
        || super::numbers::of_word(word).is_some()
        || FUNCTION_WORDS.iter().any(|(_, list)| list.contains(&word))
        || super::numbers::scale(word).is_some()
        || ORDINARY.contains(&word)
        // `Mondays`
        || word.strip_suffix('s').is_some_and(|day| day.ends_with("day") && ORDINARY.contains(&day))
}

/// Whether a folded word stands before a name: what follows is no beginning of a sentence, despite its full stop.
pub(super) fn is_title(word: &str) -> bool {
    [
        "dr", "mr", "mrs", "ms", "prof", "st", "sr", "jr", "sra", "dra", "mme", "mlle", "hr", "fr", "sig",
        "dott", "rev", "gen", "col", "capt", "lt", "sen", "gov",
    ]
    .contains(&word)
}

#[rustfmt::skip]
const ORDINARY: &[&str] = &[
    "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday",
    "montag", "dienstag", "mittwoch", "donnerstag", "freitag", "samstag", "sonnabend", "sonntag",
    "lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche",
    "american", "americans", "british", "english", "french", "german", "germans", "spanish", "italian", "dutch",
    "european", "europeans", "chinese", "japanese", "russian", "indian", "swiss", "austrian", "portuguese",
    "african", "asian", "latin", "greek", "roman", "christian", "jewish", "muslim", "western", "eastern",
    "internet", "web", "god", "earth", "ok", "okay", "yes", "no", "not", "true", "false", "none", "all", "only",
    "must", "any", "im", "ive", "ill", "id", "however", "therefore", "thus", "also", "additionally", "finally",
    "furthermore", "moreover", "overall", "total", "both", "each", "every", "other", "another", "it", "its", "he", "she", "they",
    "we", "you", "your", "our", "his", "her", "their", "in", "on", "at", "from", "if", "as", "an", "be", "can",
    "section", "sections", "chapter", "chapters", "article", "articles", "page", "pages", "table", "figure", "fig",
    "appendix", "annex", "part", "step", "note", "notes", "clause", "paragraph", "schedule", "exhibit", "item",
    "question", "answer", "document", "documents", "text", "source", "line", "column", "row", "version", "vol",
    "summary", "conclusion", "introduction", "overview", "example", "key", "points", "option", "abstract",
    "mr", "mrs", "ms", "dr", "prof", "sir", "lady", "lord", "president", "director", "professor", "doctor",
    "herr", "frau", "madame", "monsieur", "senor", "senora", "signor", "signora",
    "king", "queen", "prince", "princess", "emperor", "empress", "pope", "bishop", "saint", "duke", "duchess", "dame",
    "captain", "general", "judge", "minister", "chancellor", "mayor", "councillor", "secretary", "chairman", "chairwoman",
    "roi", "reine", "pape", "rey", "reina", "papa", "re", "regina", "rei", "rainha", "koning", "koningin",
    "bc", "bce", "ad", "ce", "utc", "gmt", "cet", "est", "pst", "fy", "christmas", "easter",
    "usa", "us", "uk", "eu", "un", "tv", "pdf", "html", "url", "api", "faq", "ceo", "cfo", "cto", "gdp", "vat",
    "am", "pm", "ai", "it", "hr", "pr", "phd", "gmbh", "ag", "inc", "ltd", "llc", "corp", "plc", "co", "kg",
    "kapitel", "abschnitt", "seite", "tabelle", "abbildung", "artikel", "anhang", "absatz", "ziffer", "punkt",
    "chapitre", "tableau", "annexe", "capitulo", "seccion", "pagina", "tabla", "articulo", "capitolo", "articolo",
    "je", "vous", "il", "elle", "non", "oui", "si", "ja", "nein", "sie", "ihr", "ihre", "ihnen", "es", "euro", "eur", "usd",
    "chf", "gbp", "jpy", "cny", "sek", "nok", "dkk", "pln", "czk", "huf", "cad", "aud", "inr", "brl", "rub",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_are_told_apart() {
        for (text, expected) in [
            ("what is the rent of the flat", Some(Language::English)),
            ("wie hoch ist die miete", Some(Language::German)),
            ("quelle est la date du contrat", Some(Language::French)),
            ("que es el precio del contrato", Some(Language::Spanish)),
            ("hoe hoog is de huur van het huis", Some(Language::Dutch)),
            ("mary paul", None),
        ] {
            assert_eq!(language(text.split(' ')), expected, "{text}");
        }
    }
}
