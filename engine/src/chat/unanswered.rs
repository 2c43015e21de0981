//! Questions without an answer: the program was killed, or an answer failed, and then the next question came.
//!
//! They stay in the conversation as they are. A chat template may demand that roles alternate, so it gets them and the
//! question behind them as one message of the user, as if the user had sent them together.

use models::chat::Message;

use super::Turn;
use super::preamble::SEPARATOR;

/// The messages as chat templates get them: questions that follow each other are one.
pub(super) fn alternating(messages: &[Message]) -> Vec<Message> {
    let mut merged: Vec<Message> = Vec::with_capacity(messages.len());
    for message in messages {
        match merged.last_mut() {
            Some(last) if last.role == "user" && message.role == "user" => {
                last.content = format!("{}{SEPARATOR}{}", last.content, message.content);
            }
            _ => merged.push(message.clone()),
        }
    }
    merged
}

/// The messages with an answer without text behind each question that has none, except the last one.
pub(super) fn with_empty_answers(messages: &[Message]) -> Vec<Message> {
    let mut filled: Vec<Message> = Vec::with_capacity(messages.len());
    for message in messages {
        if message.role == "user" && filled.last().is_some_and(|last| last.role == "user") {
            filled.push(Message::assistant(""));
        }
        filled.push(message.clone());
    }
    filled
}

/// The turn, counted from 0, of the first of the questions at the end that have no answer. The last message is one.
pub(super) fn first_turn(messages: &[Message]) -> usize {
    let questions = messages.iter().filter(|message| message.role == "user").count();
    questions - messages.iter().rev().take_while(|message| message.role == "user").count()
}

/// The timeline as it was before a turn; `turns` are those that led to `timeline`.
pub(super) fn timeline_before(timeline: &[u32], turns: &[Turn], turn: usize) -> Vec<u32> {
    let mut timeline = timeline.to_vec();
    for turn in turns[turn.min(turns.len())..].iter().rev() {
        timeline.truncate(turn.question);
        timeline.extend_from_slice(&turn.replaced);
    }
    timeline
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_alternate() {
        let messages = [
            Message::system("s"),
            Message::user("document\n\na"),
            Message::user("b"),
            Message::assistant("c"),
            Message::user("d"),
            Message::user("e"),
            Message::user("f"),
        ];
        let expected = [
            Message::system("s"),
            Message::user("document\n\na\n\nb"),
            Message::assistant("c"),
            Message::user("d\n\ne\n\nf"),
        ];
        assert_eq!(alternating(&messages), expected);
        assert_eq!(alternating(&expected), expected);
        let roles: Vec<_> = with_empty_answers(&messages).into_iter().map(|message| message.role).collect();
        let (user, assistant) = ("user", "assistant");
        let turns = [user, assistant].repeat(5);
        assert_eq!(roles, [&["system"], &turns[..9]].concat());
        for (count, turn) in [(2, 0), (3, 0), (5, 2), (7, 2)] {
            assert_eq!(first_turn(&messages[..count]), turn);
        }
    }

    #[test]
    fn turns_are_taken_back_one_after_the_other() {
        let turn = |question, replaced: &[u32]| Turn {
            question,
            answer: question + 1,
            replaced: replaced.to_vec(),
            ..Turn::default()
        };
        let turns = [turn(0, &[]), turn(3, &[]), turn(4, &[9, 8])];
        let timeline = [1, 2, 3, 4, 5, 6, 7];
        assert_eq!(timeline_before(&timeline, &turns, 3), timeline);
        assert_eq!(timeline_before(&timeline, &turns, 2), [1, 2, 3, 4, 9, 8]);
        assert_eq!(timeline_before(&timeline, &turns, 1), [1, 2, 3]);
        assert!(timeline_before(&timeline, &turns, 0).is_empty());
    }
}
