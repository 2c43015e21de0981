//! What each key does to the text that is being edited. The keys are those of Emacs and of most shells. A paste is one
//! element of the text.

use terminal::console;
use terminal::line::draft::{Atom, DraftMessage};
use terminal::line::keys::Key;

use crate::commands::chat::commands;
use crate::commands::chat::line::complete::{self, Completions};
use crate::commands::chat::line::history::History;

/// What stands before the text.
pub const PROMPT: &str = "> ";
/// Changes that can be undone.
const MAX_UNDO: usize = 32;
/// In longer texts not every word can be undone on its own: each would be a copy of the text.
const MAX_UNDO_WORDS: usize = 4096;

/// What must happen after a key, besides drawing the text.
#[derive(Debug, PartialEq)]
pub enum Action {
    Nothing,
    /// The text is sent.
    Send,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D without a text.
    EndOfInput,
    /// Ctrl-Z.
    Suspend,
    /// Ctrl-G.
    EditElsewhere,
    /// Ctrl-L.
    ClearScreen,
    /// Tab, where several texts are possible.
    List(Vec<String>),
}

/// A text that is being edited, with its history.
pub struct Editor {
    draft: DraftMessage,
    history: History,
    /// The entry of the history that is shown, and the text that was there before.
    recalled: Option<(usize, DraftMessage)>,
    search: Option<Search>,
    /// What was deleted last, and whether the last key did that.
    killed: Vec<Atom>,
    was_kill: bool,
    /// Earlier texts, and whether the last key was typed text.
    undo: Vec<DraftMessage>,
    was_typed: bool,
}

/// A search in the history.
struct Search {
    query: String,
    /// The entry that was found.
    found: Option<usize>,
    /// Whether there is no other entry with the query.
    is_missing: bool,
    before: DraftMessage,
}

impl Editor {
    pub fn new(history: History) -> Editor {
        Editor {
            draft: DraftMessage::default(),
            history,
            recalled: None,
            search: None,
            killed: Vec::new(),
            was_kill: false,
            undo: Vec::new(),
            was_typed: false,
        }
    }

    /// What stands before the text, and the text.
    pub fn view(&self) -> (String, &DraftMessage) {
        let prompt = match &self.search {
            None => PROMPT.to_owned(),
            Some(search) => {
                let what = if search.is_missing { "no match for" } else { "search" };
                format!("({what} \"{}\") ", console::one_line(&search.query))
            }
        };
        (prompt, &self.draft)
    }

    /// The text.
    pub fn draft(&self) -> &DraftMessage {
        &self.draft
    }

    /// Whether the history is searched.
    pub fn is_searching(&self) -> bool {
        self.search.is_some()
    }

    /// Replaces the text. That can be undone.
    pub fn set_text(&mut self, text: &str) {
        self.set_draft(DraftMessage::typed(text));
    }

    /// Replaces the text by this one. That can be undone.
    pub fn set_draft(&mut self, draft: DraftMessage) {
        self.remember();
        self.draft = draft;
    }

    /// Moves the cursor behind the text.
    pub fn move_to_end(&mut self) {
        self.draft.move_to(usize::MAX);
    }

    /// Takes the text to be sent, and adds it to the history.
    ///
    /// # Errors
    /// The text, and why the history cannot be written.
    pub fn take(&mut self) -> (DraftMessage, std::io::Result<()>) {
        let draft = std::mem::take(&mut self.draft);
        let kept = match draft.text().trim().is_empty() {
            true => Ok(()),
            false => self.history.add(draft.atoms()),
        };
        self.discard();
        (draft, kept)
    }

    /// Empties the text.
    pub fn discard(&mut self) {
        self.draft = DraftMessage::default();
        self.recalled = None;
        self.search = None;
        self.undo.clear();
        self.was_kill = false;
        self.was_typed = false;
    }

    /// Does what a key does.
    pub fn press(&mut self, key: Key) -> Action {
        let Some(key) = self.press_in_search(key) else { return Action::Nothing };
        let was_kill = std::mem::take(&mut self.was_kill);
        let was_typed = std::mem::take(&mut self.was_typed);
        match key {
            Key::Char(c) => {
                if !was_typed || c == ' ' && self.draft.atoms().len() < MAX_UNDO_WORDS {
                    self.remember();
                }
                self.was_typed = true;
                self.draft.insert_char(c);
            }
            Key::Paste(text) => self.change(|draft| draft.insert_paste(&text)),
            Key::LineBreak => self.change(|draft| draft.insert_char('\n')),
            Key::Enter if self.needs_more() => self.change(|draft| {
                draft.move_to(usize::MAX);
                draft.insert_char('\n');
            }),
            Key::Enter => return Action::Send,
            Key::Tab => return self.complete(),
            Key::Ctrl('c') => return Action::Interrupt,
            Key::Ctrl('d') if self.draft.is_empty() => return Action::EndOfInput,
            Key::Ctrl('g') => return Action::EditElsewhere,
            Key::Ctrl('l') => return Action::ClearScreen,
            Key::Ctrl('z') => return Action::Suspend,
            Key::Ctrl('r') => self.begin_search(),
            Key::Ctrl('_') => self.undo(),
            Key::Up | Key::Ctrl('p') => match self.draft.line_up() {
                Some(place) => self.draft.move_to(place),
                None => self.recall_older(),
            },
            Key::Down | Key::Ctrl('n') => match self.draft.line_down() {
                Some(place) => self.draft.move_to(place),
                None => self.recall_newer(),
            },
            Key::Alt('<') => self.draft.move_to(0),
            Key::Alt('>') => self.draft.move_to(usize::MAX),
            key => self.move_or_kill(&key, was_kill),
        }
        Action::Nothing
    }

    /// Keys that move the cursor, or delete what they would move over.
    fn move_or_kill(&mut self, key: &Key, was_kill: bool) {
        let draft = &self.draft;
        match key {
            Key::Left | Key::Ctrl('b') => self.draft.move_to(draft.before()),
            Key::Right | Key::Ctrl('f') => self.draft.move_to(draft.after()),
            Key::Home | Key::Ctrl('a') => self.draft.move_to(draft.line_start()),
            Key::End | Key::Ctrl('e') => self.draft.move_to(draft.line_end()),
            Key::WordLeft | Key::Alt('b') => self.draft.move_to(draft.word_before()),
            Key::WordRight | Key::Alt('f') => self.draft.move_to(draft.word_after()),
            Key::Backspace => _ = self.delete(draft.before()),
            Key::Delete | Key::Ctrl('d') => _ = self.delete(draft.after()),
            Key::Ctrl('k') if draft.cursor() == draft.line_end() => self.kill(draft.after(), was_kill),
            Key::Ctrl('k') => self.kill(draft.line_end(), was_kill),
            Key::Ctrl('u') => self.kill(draft.line_start(), was_kill),
            Key::Ctrl('w') => self.kill(draft.blank_before(), was_kill),
            Key::Alt('\x7f') => self.kill(draft.word_before(), was_kill),
            Key::Alt('d') => self.kill(draft.word_after(), was_kill),
            Key::Ctrl('y') => {
                let killed = self.killed.clone();
                self.change(|draft| draft.insert(killed));
            }
            Key::Ctrl('t') => self.change(DraftMessage::transpose),
            Key::Alt('u') => self.change_word(|c, _| c.to_uppercase().collect()),
            Key::Alt('l') => self.change_word(|c, _| c.to_lowercase().collect()),
            Key::Alt('c') => self.change_word(|c, is_first| match is_first {
                true => c.to_uppercase().collect(),
                false => c.to_lowercase().collect(),
            }),
            _ => {}
        }
    }

    /// Whether Enter begins another line of a message in `"""`.
    fn needs_more(&self) -> bool {
        !self.draft.begins_with_paste() && commands::is_unfinished(&self.draft.text())
    }

    /// Changes the text in a way that can be undone.
    fn change(&mut self, change: impl FnOnce(&mut DraftMessage)) {
        self.remember();
        change(&mut self.draft);
    }

    fn remember(&mut self) {
        if self.undo.len() == MAX_UNDO {
            self.undo.remove(0);
        }
        self.undo.push(self.draft.clone());
    }

    fn undo(&mut self) {
        if let Some(draft) = self.undo.pop() {
            self.draft = draft;
        }
    }

    /// Deletes from the cursor to a place on either side.
    fn delete(&mut self, to: usize) -> Vec<Atom> {
        let cursor = self.draft.cursor();
        if to == cursor {
            return Vec::new();
        }
        self.remember();
        self.draft.remove(to.min(cursor)..to.max(cursor))
    }

    /// Deletes from the cursor to a place on either side, for Ctrl-Y. What consecutive keys delete is kept together.
    fn kill(&mut self, to: usize, was_kill: bool) {
        let backwards = to < self.draft.cursor();
        let killed = self.delete(to);
        match (was_kill, backwards) {
            (false, _) if killed.is_empty() => {}
            (false, _) => self.killed = killed,
            (true, true) => self.killed = [killed, std::mem::take(&mut self.killed)].concat(),
            (true, false) => self.killed.extend(killed),
        }
        self.was_kill = true;
    }

    /// Changes the characters up to the end of the word.
    fn change_word(&mut self, change: impl Fn(char, bool) -> String) {
        let end = self.draft.word_after();
        let mut is_first = true;
        let mut word = Vec::new();
        for atom in self.delete(end) {
            match atom {
                Atom::Char(c) => {
                    word.extend(change(c, is_first).chars().map(Atom::Char));
                    is_first &= !c.is_alphanumeric();
                }
                paste => word.push(paste),
            }
        }
        self.draft.insert(word);
    }

    fn complete(&mut self) -> Action {
        let completions: Completions = complete::complete(&self.draft.text_before_cursor());
        match completions.common() {
            "" if completions.candidates.len() > 1 => return Action::List(completions.candidates),
            "" => {}
            common => self.change(|draft| draft.insert_text(common)),
        }
        Action::Nothing
    }

    fn recall_older(&mut self) {
        let index = self.recalled.as_ref().map_or(self.history.len(), |(index, _)| *index);
        if let Some(older) = index.checked_sub(1) {
            self.recall(older);
        }
    }

    fn recall_newer(&mut self) {
        let Some((index, _)) = &self.recalled else { return };
        if index + 1 < self.history.len() {
            self.recall(index + 1);
        } else if let Some((_, before)) = self.recalled.take() {
            self.draft = before;
        }
    }

    fn recall(&mut self, index: usize) {
        let Some(entry) = self.history.get(index) else { return };
        let shown = std::mem::replace(&mut self.draft, DraftMessage::new(entry.to_vec()));
        let before = self.recalled.take().map_or(shown, |(_, before)| before);
        self.recalled = Some((index, before));
    }

    fn begin_search(&mut self) {
        let before = self.draft.clone();
        self.search = Some(Search { query: String::new(), found: None, is_missing: false, before });
    }

    /// Keys of a search. Returns a key that ends the search and means what it always does.
    fn press_in_search(&mut self, key: Key) -> Option<Key> {
        let Some(search) = &mut self.search else { return Some(key) };
        match key {
            Key::Char(c) => {
                search.query.push(c);
                self.find(false);
            }
            Key::Backspace => {
                search.query.pop();
                search.found = None;
                self.find(false);
            }
            Key::Ctrl('r') => self.find(true),
            Key::Ctrl('g' | 'c') => {
                if let Some(search) = self.search.take() {
                    self.draft = search.before;
                }
            }
            Key::Esc => self.search = None,
            key => {
                self.search = None;
                return Some(key);
            }
        }
        None
    }

    /// Shows the newest entry that contains the query: older than the one that is shown, or also that one.
    fn find(&mut self, older: bool) {
        let Some(search) = &mut self.search else { return };
        let end = match search.found {
            Some(found) if older => found,
            Some(found) => found + 1,
            None => self.history.len(),
        };
        let contains = |entry: &[Atom]| DraftMessage::new(entry.to_vec()).text().contains(&search.query);
        let found = (0..end).rev().find(|index| self.history.get(*index).is_some_and(contains));
        search.is_missing = found.is_none();
        if let Some(entry) = found.and_then(|index| self.history.get(index)) {
            search.found = found;
            self.draft = DraftMessage::new(entry.to_vec());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Key::*;

    fn editor(history: &[&str]) -> Editor {
        Editor::new(History::in_memory(
            history.iter().map(|text| DraftMessage::typed(text).atoms().to_vec()).collect(),
        ))
    }

    /// The text after these keys, with `|` at the cursor.
    fn after(editor: &mut Editor, keys: impl IntoIterator<Item = Key>) -> String {
        keys.into_iter().for_each(|key| _ = editor.press(key));
        let text: Vec<char> = editor.draft.text().chars().collect();
        let (before, behind) = text.split_at(editor.draft.text_before_cursor().chars().count());
        before.iter().chain(&['|']).chain(behind).collect()
    }

    fn typed(text: &str) -> impl Iterator<Item = Key> {
        text.chars().map(Char)
    }

    #[test]
    fn the_keys_of_emacs_move_and_delete() {
        for (keys, expected) in [
            (vec![Ctrl('a'), Char('x')], "x|one two three"),
            (vec![Home, Right, Ctrl('f'), Delete], "on| two three"),
            (vec![Left, Ctrl('b'), Backspace], "one two th|ee"),
            (vec![WordLeft, Alt('b'), Ctrl('k')], "one |"),
            (vec![Alt('b'), Ctrl('u')], "|three"),
            (vec![Ctrl('w'), Ctrl('w'), Ctrl('y'), Ctrl('y')], "one two threetwo three|"),
            (vec![Home, Alt('d'), Alt('d'), End, Ctrl('y')], " threeone two|"),
            (vec![Alt('\x7f'), Ctrl('_')], "one two three|"),
            (vec![Left, Ctrl('b'), Ctrl('t')], "one two ther|e"),
            (vec![Home, Alt('u'), Alt('c'), Alt('l')], "ONE Two three|"),
            (vec![Home, Ctrl('d'), Ctrl('e'), Ctrl('x'), Esc], "ne two three|"),
        ] {
            let mut editor = editor(&[]);
            after(&mut editor, typed("one two three"));
            assert_eq!(after(&mut editor, keys.clone()), expected, "{keys:?}");
        }
    }

    #[test]
    fn undo_takes_back_words_and_other_changes() {
        let mut editor = editor(&[]);
        after(&mut editor, typed("one two"));
        assert_eq!(after(&mut editor, [Ctrl('u')]), "|");
        assert_eq!(after(&mut editor, [Ctrl('_')]), "one two|");
        assert_eq!(after(&mut editor, [Ctrl('_')]), "one|");
        assert_eq!(after(&mut editor, [Ctrl('_'), Ctrl('_')]), "|");
    }

    #[test]
    fn up_and_down_move_in_the_history_and_keep_the_text() {
        let mut editor = editor(&["one", "two\nlines"]);
        after(&mut editor, typed("draft"));
        assert_eq!(after(&mut editor, [Up]), "two\nlines|");
        assert_eq!(after(&mut editor, [Up]), "two|\nlines");
        assert_eq!(after(&mut editor, [Up]), "one|");
        assert_eq!(after(&mut editor, [Up]), "one|");
        assert_eq!(after(&mut editor, [Down, Down]), "draft|");
        assert_eq!(after(&mut editor, [Down]), "draft|");
    }

    #[test]
    fn a_search_finds_older_entries_and_can_be_given_up() {
        let mut editor = editor(&["first one", "second", "third one"]);
        after(&mut editor, typed("draft").chain([Ctrl('r')]));
        assert_eq!(after(&mut editor, typed("one")), "third one|");
        assert_eq!(after(&mut editor, [Ctrl('r')]), "first one|");
        assert_eq!(after(&mut editor, [Ctrl('r')]), "first one|");
        assert_eq!(editor.view().0, "(no match for \"one\") ");
        assert_eq!(after(&mut editor, [Ctrl('c')]), "draft|");
        after(&mut editor, [Ctrl('r')].into_iter().chain(typed("sec")));
        assert_eq!(editor.press(Enter), Action::Send);
        assert_eq!(editor.take().0.text(), "second");
    }

    #[test]
    fn enter_sends_and_quotes_need_their_end() {
        let mut editor = editor(&[]);
        after(&mut editor, typed("a").chain([LineBreak]).chain(typed("b")));
        assert_eq!(editor.press(Enter), Action::Send);
        assert_eq!(editor.take().0.text(), "a\nb");
        after(&mut editor, typed("\"\"\"x"));
        assert_eq!(editor.press(Enter), Action::Nothing);
        after(&mut editor, typed("y\"\"\""));
        assert_eq!(editor.press(Enter), Action::Send);
        assert_eq!(editor.take().0.text(), "\"\"\"x\ny\"\"\"");
    }

    #[test]
    fn pastes_are_kept_apart_from_text_that_looks_the_same() {
        let paste = "line\n".repeat(4);
        let mut editor = editor(&[]);
        after(&mut editor, typed(&Atom::placeholder(&paste)).chain([Paste(paste.clone())]));
        assert_eq!(editor.draft.text(), Atom::placeholder(&paste) + &paste);
        after(&mut editor, [Backspace, Backspace]);
        assert_eq!(editor.draft.text(), "[pasted 4 lines, 20 B");
        after(&mut editor, [Ctrl('u'), Paste(paste.clone()), Ctrl('w'), Ctrl('y'), Ctrl('y')]);
        assert_eq!(editor.draft.text(), paste.repeat(2));
    }

    #[test]
    fn tab_completes_what_all_candidates_share() {
        let mut editor = editor(&[]);
        assert_eq!(after(&mut editor, typed("/st").chain([Tab])), "/stats|");
        after(&mut editor, [Ctrl('u')].into_iter().chain(typed("/s")));
        assert_eq!(editor.press(Tab), Action::List(complete::complete("/s").candidates));
    }
}
