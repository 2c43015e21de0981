//! Tokens that are recognised in the text as a whole before anything is merged: user-defined ones always, control
//! tokens where the caller allows it.
//!
//! Longer tokens win over shorter ones wherever they stand, among equals the leftmost: the order in which llama.cpp
//! cuts them out one token after another. Doing that literally costs a pass over the text per token (thousands in some
//! vocabularies); here one automaton finds all occurrences, and only where several overlap are they sorted out.

use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};

use super::TokenizerError;

/// A piece of text after the special tokens were cut out.
#[derive(Debug, PartialEq)]
pub(super) enum Fragment {
    Text(Range<usize>),
    Token(u32),
}

/// One token recognised as a whole.
#[derive(Debug)]
pub(super) struct Special {
    pub(super) id: u32,
    pub(super) text: String,
    /// Recognised only where special tokens may be parsed.
    pub(super) control: bool,
    /// Control, or user-defined with the look of a mark between the turns of a conversation.
    pub(super) steers: bool,
    /// Swallows the white space that follows it.
    pub(super) strips_right: bool,
}

/// Whether a token's text is that of a mark in a conversation.
pub(super) fn looks_like_markup(text: &str) -> bool {
    const OTHERS: [&str; 8] = [
        "<start_of_turn>",
        "<end_of_turn>",
        "[INST]",
        "[/INST]",
        "[SYSTEM_PROMPT]",
        "[/SYSTEM_PROMPT]",
        "<s>",
        "</s>",
    ];
    (text.starts_with('<') && text.ends_with('>') && text.contains(['|', '｜'])) || OTHERS.contains(&text)
}

#[derive(Debug)]
pub(super) struct SpecialTokens {
    automaton: Option<AhoCorasick>,
    /// By pattern number of the automaton, longest first, then by id.
    tokens: Vec<Special>,
}

/// Occurrences that overlap, directly or through others.
struct Cluster {
    range: Range<usize>,
    /// Distinct pattern numbers seen in it.
    patterns: Vec<usize>,
    serial: u32,
}

impl SpecialTokens {
    pub(super) fn new(mut tokens: Vec<Special>) -> Result<SpecialTokens, TokenizerError> {
        tokens.retain(|t| !t.text.is_empty());
        tokens.sort_by(|a, b| b.text.len().cmp(&a.text.len()).then(a.id.cmp(&b.id)));
        let automaton = if tokens.is_empty() {
            None
        } else {
            let built = AhoCorasick::builder()
                .match_kind(MatchKind::Standard)
                .build(tokens.iter().map(|t| t.text.as_bytes()))
                .map_err(|e| TokenizerError::Build(e.to_string()))?;
            Some(built)
        };
        Ok(SpecialTokens { automaton, tokens })
    }

    /// Whether the text of a token that steers occurs in `text`.
    pub(super) fn has_control(&self, text: &str) -> bool {
        self.automaton.as_ref().is_some_and(|automaton| {
            automaton.find_overlapping_iter(text).any(|m| self.tokens[m.pattern().as_usize()].steers)
        })
    }

    /// Cuts `text` at special tokens. `allows` says whether a token may be recognised at a range.
    pub(super) fn cut(&self, text: &str, allows: impl Fn(&Special, &Range<usize>) -> bool) -> Vec<Fragment> {
        let found = self.occurrences(text, &allows);
        let mut out = Vec::with_capacity(2 * found.len() + 1);
        let mut at = 0;
        for (range, pattern) in found {
            if range.start < at {
                continue; // begins in white space that the token before has swallowed
            }
            if range.start > at {
                out.push(Fragment::Text(at..range.start));
            }
            let token = &self.tokens[pattern];
            out.push(Fragment::Token(token.id));
            at = range.end;
            if token.strips_right {
                let is_space = |b: &u8| matches!(b, b' ' | b'\t'..=b'\r');
                at += text.as_bytes()[at..].iter().take_while(|b| is_space(b)).count();
            }
        }
        if at < text.len() {
            out.push(Fragment::Text(at..text.len()));
        }
        out
    }

    /// The occurrences that count, in text order.
    fn occurrences(
        &self,
        text: &str,
        allows: &impl Fn(&Special, &Range<usize>) -> bool,
    ) -> Vec<(Range<usize>, usize)> {
        let Some(automaton) = &self.automaton else {
            return Vec::new();
        };
        let allowed = |range: &Range<usize>, pattern: usize| allows(&self.tokens[pattern], range);
        let mut clusters: Vec<Cluster> = Vec::new();
        // serial number of the cluster each pattern was last noted in, so that noting it again costs nothing
        let mut noted = vec![0u32; self.tokens.len()];
        let mut serial = 0;
        for m in automaton.find_overlapping_iter(text) {
            let pattern = m.pattern().as_usize();
            let mut range = m.range();
            if !allowed(&range, pattern) {
                continue;
            }
            let mut home = match clusters.pop() {
                Some(last) if last.range.end > range.start => last,
                other => {
                    clusters.extend(other);
                    serial += 1;
                    Cluster { range: range.clone(), patterns: Vec::new(), serial }
                }
            };
            // matches come by their ends, so a long one may bridge several clusters
            while clusters.last().is_some_and(|c| c.range.end > range.start) {
                let Some(bridged) = clusters.pop() else { break };
                range.start = range.start.min(bridged.range.start);
                for p in bridged.patterns {
                    if noted[p] != home.serial {
                        noted[p] = home.serial;
                        home.patterns.push(p);
                    }
                }
            }
            if noted[pattern] != home.serial {
                noted[pattern] = home.serial;
                home.patterns.push(pattern);
            }
            home.range.start = home.range.start.min(range.start);
            home.range.end = home.range.end.max(range.end);
            clusters.push(home);
        }

        let mut found = Vec::new();
        for mut cluster in clusters {
            cluster.patterns.sort_unstable();
            let first = found.len();
            let mut gaps = vec![cluster.range];
            for &pattern in &cluster.patterns {
                let needle = self.tokens[pattern].text.as_str();
                let mut left_over = Vec::new();
                for gap in gaps {
                    let mut at = gap.start;
                    let mut from = at;
                    while let Some(hit) = text.get(from..gap.end).and_then(|t| t.find(needle)) {
                        let range = from + hit..from + hit + needle.len();
                        from = range.end;
                        if !allowed(&range, pattern) {
                            // an occurrence that starts inside this one may still be allowed
                            from = range.start + text[range.start..].chars().next().map_or(1, char::len_utf8);
                            continue;
                        }
                        if range.start > at {
                            left_over.push(at..range.start);
                        }
                        at = range.end;
                        found.push((range, pattern));
                    }
                    if at < gap.end {
                        left_over.push(at..gap.end);
                    }
                }
                gaps = left_over;
            }
            found[first..].sort_by_key(|(range, _)| range.start);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specials(list: &[(&str, bool)]) -> SpecialTokens {
        let tokens = list.iter().enumerate().map(|(i, (text, control))| Special {
            id: i as u32,
            text: (*text).to_owned(),
            control: *control,
            steers: *control,
            strips_right: false,
        });
        SpecialTokens::new(tokens.collect()).expect("builds")
    }

    /// The definition: one token after another, longest first, over the fragments that are left.
    fn one_by_one(list: &[(&str, bool)], text: &str, parse_control: bool) -> Vec<Fragment> {
        let mut order: Vec<usize> = (0..list.len()).collect();
        order.sort_by(|&a, &b| list[b].0.len().cmp(&list[a].0.len()).then(a.cmp(&b)));
        let mut fragments = vec![Fragment::Text(0..text.len())];
        if text.is_empty() {
            fragments.clear();
        }
        for i in order {
            let (needle, control) = list[i];
            if control && !parse_control {
                continue;
            }
            let mut next = Vec::new();
            for fragment in fragments {
                let Fragment::Text(range) = fragment else {
                    next.push(fragment);
                    continue;
                };
                let mut at = range.start;
                while let Some(hit) = text[at..range.end].find(needle) {
                    if hit > 0 {
                        next.push(Fragment::Text(at..at + hit));
                    }
                    next.push(Fragment::Token(i as u32));
                    at += hit + needle.len();
                }
                if at < range.end {
                    next.push(Fragment::Text(at..range.end));
                }
            }
            fragments = next;
        }
        fragments
    }

    #[test]
    fn equals_cutting_out_one_token_after_another() {
        let list = [
            ("ab", false),
            ("bc", true),
            ("abc", false),
            ("c", false),
            ("cab", true),
            ("aaaa", false),
            ("aa", false),
            ("bcc", true),
            ("é", false),
        ];
        let tokens = specials(&list);
        let mut state = 1u64;
        for _ in 0..20_000 {
            let mut text = String::new();
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let mut bits = state >> 20;
            for _ in 0..(state >> 60) + 4 {
                text.push(['a', 'b', 'c', 'a', 'é', 'x', 'b', 'c'][(bits & 7) as usize]);
                bits >>= 3;
            }
            for parse in [false, true] {
                assert_eq!(
                    tokens.cut(&text, |t, _| parse || !t.control),
                    one_by_one(&list, &text, parse),
                    "{text:?} {parse}"
                );
            }
        }
    }

    #[test]
    fn control_tokens_are_only_seen_where_allowed() {
        let tokens = specials(&[("<|x|>", true), ("<u>", false)]);
        let text = "<|x|><u><|x|>";
        assert_eq!(
            tokens.cut(text, |t, r| !t.control || r.start >= 8),
            [Fragment::Text(0..5), Fragment::Token(1), Fragment::Token(0)]
        );
        assert!(tokens.has_control("a<|x|>"));
        assert!(!tokens.has_control("<u><|x>"));
    }

    #[test]
    fn a_stripping_token_takes_the_white_space_after_it() {
        let tokens = SpecialTokens::new(vec![Special {
            id: 7,
            text: "<e>".into(),
            control: true,
            steers: true,
            strips_right: true,
        }])
        .expect("builds");
        assert_eq!(
            tokens.cut("<e> \n<e>\u{a0}a", |_, _| true),
            [Fragment::Token(7), Fragment::Token(7), Fragment::Text(8..11)]
        );
    }

    #[test]
    fn long_runs_of_nested_tokens_stay_cheap() {
        let texts: Vec<String> = (1..40).map(|n| "\n".repeat(n)).collect();
        let list: Vec<(&str, bool)> = texts.iter().map(|t| (t.as_str(), false)).collect();
        let tokens = specials(&list);
        let text = "\n".repeat(1_000_000);
        let cut = tokens.cut(&text, |_, _| true);
        assert_eq!(cut.len(), 1_000_000usize.div_ceil(39));
        assert_eq!(cut.last(), Some(&Fragment::Token((1_000_000 % 39 - 1) as u32)));
    }
}
