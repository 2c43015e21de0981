//! Questions about documents: SQuAD and HotpotQA.

use std::path::Path;

use serde::Deserialize;

use super::damaged;
use super::files::read_json;
use crate::TaskError;

/// Questions, and the documents of all of them.
#[derive(Debug)]
pub(crate) struct Questions {
    /// Sorted, without duplicates.
    pub(crate) documents: Vec<String>,
    pub(crate) questions: Vec<Question>,
}

/// A question. Documents are indices.
#[derive(Debug, PartialEq)]
pub(crate) struct Question {
    pub(crate) question: String,
    pub(crate) answers: Vec<String>,
    /// The documents that the answer is in, and for HotpotQA those that look like it.
    pub(crate) documents: Vec<usize>,
    /// Other documents about the same matter.
    pub(crate) related: Vec<usize>,
}

#[derive(Deserialize)]
struct Squad {
    data: Vec<Article>,
}

#[derive(Deserialize)]
struct Article {
    paragraphs: Vec<Paragraph>,
}

#[derive(Deserialize)]
struct Paragraph {
    context: String,
    qas: Vec<SquadQuestion>,
}

#[derive(Deserialize)]
struct SquadQuestion {
    question: String,
    answers: Vec<SquadAnswer>,
    #[serde(default)]
    is_impossible: bool,
}

#[derive(Deserialize)]
struct SquadAnswer {
    text: String,
}

#[derive(Deserialize)]
struct HotpotQuestion {
    question: String,
    answer: String,
    /// Titles and sentences.
    context: Vec<(String, Vec<String>)>,
}

/// Documents of a question of HotpotQA.
const HOTPOT_DOCUMENTS: usize = 10;

impl Questions {
    /// The questions of SQuAD that have an answer.
    pub(super) fn squad(path: &Path) -> Result<Questions, TaskError> {
        let articles = read_json::<Squad>(path)?.data;
        let paragraphs = articles.iter().flat_map(|article| &article.paragraphs);
        let documents = sorted(paragraphs.map(|paragraph| paragraph.context.clone()).collect());
        let mut questions = Vec::new();
        for article in articles {
            let related: Vec<usize> =
                article.paragraphs.iter().map(|paragraph| index(&documents, &paragraph.context)).collect();
            for paragraph in article.paragraphs {
                let document = index(&documents, &paragraph.context);
                let related: Vec<usize> =
                    related.iter().copied().filter(|&other| other != document).collect();
                for qa in paragraph.qas.into_iter().filter(|qa| !qa.is_impossible) {
                    questions.push(Question {
                        question: qa.question,
                        answers: qa.answers.into_iter().map(|answer| answer.text).collect(),
                        documents: vec![document],
                        related: related.clone(),
                    });
                }
            }
        }
        Questions { documents, questions }.checked(path)
    }

    /// The questions of HotpotQA.
    pub(super) fn hotpotqa(path: &Path) -> Result<Questions, TaskError> {
        let all: Vec<HotpotQuestion> = read_json(path)?;
        let texts: Vec<Vec<String>> = all
            .iter()
            .map(|question| {
                let document = |(title, text): &(String, Vec<String>)| format!("{title}\n{}", text.concat());
                question.context.iter().map(document).collect()
            })
            .collect();
        let documents = sorted(texts.concat());
        let questions = all.into_iter().zip(texts).map(|(question, texts)| Question {
            question: question.question,
            answers: vec![question.answer],
            documents: texts.iter().map(|text| index(&documents, text)).collect(),
            related: Vec::new(),
        });
        let questions = questions.collect();
        Questions { documents, questions }.checked(path)
    }

    fn checked(self, path: &Path) -> Result<Questions, TaskError> {
        for (number, question) in self.questions.iter().enumerate() {
            if question.answers.is_empty() {
                return Err(damaged(path, format!("question {number} has no answer")));
            }
            if question.documents.len() > HOTPOT_DOCUMENTS {
                let problem = format!("question {number} has more than {HOTPOT_DOCUMENTS} documents");
                return Err(damaged(path, problem));
            }
        }
        Ok(self)
    }
}

fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort_unstable();
    texts.dedup();
    texts
}

/// The index of a document, which is among them.
fn index(documents: &[String], document: &str) -> usize {
    documents.partition_point(|other| other.as_str() < document)
}
