//! `qa`: a question about one of many documents.

use std::ops::ControlFlow;

use super::growing::{self, Budget, DraftSample, Growing};
use crate::data::{Question, Questions};
use crate::python::list;
use crate::random::PythonRandom;
use crate::{Data, DataFile, Sample, SampleOptions, TaskError};

pub(super) const ANSWER_TOKENS: usize = 32;

const INSTRUCTION: &str = "Answer the question based on the given documents. Only give me the answer and do not \
    output any other words.\n\n";

/// Where the questions come from.
#[derive(Clone, Copy)]
pub(super) enum QuestionTask {
    Squad,
    HotpotQa,
}

pub(super) fn samples(
    task: QuestionTask,
    options: &SampleOptions,
    data: &Data,
    count: &dyn Fn(&str) -> usize,
) -> Result<Vec<Sample>, TaskError> {
    let (questions, file) = match task {
        QuestionTask::Squad => (data.squad()?, DataFile::Squad),
        QuestionTask::HotpotQa => (data.hotpotqa()?, DataFile::HotpotQa),
    };
    if options.samples > questions.questions.len() {
        return Err(TaskError::TooFewQuestions {
            samples: options.samples,
            questions: questions.questions.len(),
            path: data.path(file)?.to_owned(),
        });
    }
    if options.samples == 0 {
        return Ok(Vec::new());
    }
    let mut documents = Documents {
        questions,
        order: questions.documents.iter().map(String::as_str).collect(),
        seed: options.seed,
        random: PythonRandom::new(options.seed),
    };
    let budget = Budget { tokens: options.tokens, reserved: ANSWER_TOKENS };
    growing::samples(&mut documents, options.samples, budget, count)
}

struct Documents<'a> {
    questions: &'a Questions,
    /// Sorted at first. A prompt with all documents shuffles them for the following ones too, as in the script.
    order: Vec<&'a str>,
    seed: u64,
    random: PythonRandom,
}

impl Growing for Documents<'_> {
    fn increment(&self) -> usize {
        10
    }

    fn grow(&self, size: usize) -> ControlFlow<usize, usize> {
        match size + self.increment() {
            next if next > self.order.len() => ControlFlow::Break(self.order.len()),
            next => ControlFlow::Continue(next),
        }
    }

    fn draft(&mut self, sample: usize, size: usize) -> Option<DraftSample> {
        let question = &self.questions.questions[sample];
        let mut shuffler = PythonRandom::new(self.seed);
        let chosen = if size < self.order.len() {
            let mut chosen = self.choose(question, size)?;
            shuffler.shuffle(&mut chosen);
            chosen
        } else {
            shuffler.shuffle(&mut self.order);
            self.order.clone()
        };
        let numbered = chosen.iter().enumerate().map(|(i, text)| format!("Document {}:\n{text}", i + 1));
        let context = format!(
            "{INSTRUCTION}The following are given documents.\n\n{}\n\n{INSTRUCTION}",
            numbered.collect::<Vec<_>>().join("\n\n")
        );
        let answers = question.answers.clone();
        let own = question.documents.iter().filter_map(|index| {
            let document = self.questions.documents.get(*index)?;
            let at = context.find(document.as_str())?;
            Some(at..at + document.len())
        });
        let own: Vec<_> = own.collect();
        let draft =
            DraftSample::new(context, &format!("Question: {}", question.question), " Answer:", answers);
        Some(draft.with_answers_in(own))
    }

    fn answer(&self, references: &[String]) -> String {
        format!(" {}", list(references))
    }
}

impl<'a> Documents<'a> {
    /// So many documents: those of the question, then related ones, then any others. `None` if the question has
    /// more documents of its own.
    fn choose(&mut self, question: &Question, size: usize) -> Option<Vec<&'a str>> {
        let Question { documents, related, .. } = question;
        let others = size.checked_sub(documents.len())?;
        let mut chosen = documents.clone();
        if others > related.len() {
            chosen.extend(related);
            let rest: Vec<usize> = (0..self.order.len()).filter(|index| !chosen.contains(index)).collect();
            let sample = self.random.sample(rest.len(), others - related.len());
            chosen.extend(sample.into_iter().map(|index| rest[index]));
        } else {
            let sample = self.random.sample(related.len(), others);
            chosen.extend(sample.into_iter().map(|index| related[index]));
        }
        Some(chosen.into_iter().map(|index| self.order[index]).collect())
    }
}
