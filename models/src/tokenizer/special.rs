//! Finds the tokens that are matched in the text as a whole before anything is merged. User-defined tokens
//! are matched always, control tokens where the caller allows it.
//!
//! Longer tokens win over shorter ones at any position, and among equally long ones the leftmost. This is
//! llama.cpp's order, which searches for one token after another. That takes a pass over the text per token,
//! and some vocabularies have thousands. Here one automaton finds all matches, and only overlapping ones are
//! resolved in that order.

use std::collections::VecDeque;
use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};

use super::TokenizerError;

/// A part of a text that is split at special tokens.
#[derive(Debug, PartialEq)]
pub(super) enum Fragment {
    Text(Range<usize>),
    Token(u32),
}

/// A token that is matched in the text as a whole.
#[derive(Debug)]
pub(super) struct Special {
    pub(super) id: u32,
    pub(super) text: String,
    /// A control token or the unknown token; matched only where the caller allows it.
    pub(super) control: bool,
    /// A control token, or a user-defined one that looks like a marker between the turns of a conversation.
    pub(super) is_marker: bool,
    /// The token includes the white space after it.
    pub(super) rstrip: bool,
}

/// Whether a token's text is that of a marker between the turns of a conversation.
pub(super) fn looks_like_marker(text: &str) -> bool {
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
    /// The index is the automaton's pattern number. Longest first, then by id.
    tokens: Vec<Special>,
}

/// A range of text in which matches overlap, directly or through others.
struct Cluster {
    range: Range<usize>,
    /// Distinct pattern numbers of the matches.
    patterns: Vec<usize>,
    number: u32,
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

    /// Whether the text of a marker occurs in `text`.
    pub(super) fn has_marker(&self, text: &str) -> bool {
        self.automaton.as_ref().is_some_and(|automaton| {
            automaton.find_overlapping_iter(text).any(|m| self.tokens[m.pattern().as_usize()].is_marker)
        })
    }

    /// Splits `text` at special tokens and calls `visit` with one fragment after the other. `allows` decides
    /// whether a token may be matched at a range.
    ///
    /// # Errors
    /// Those of `visit`.
    pub(super) fn split(
        &self,
        text: &str,
        allows: impl Fn(&Special, &Range<usize>) -> bool,
        visit: &mut impl FnMut(Fragment) -> Result<(), TokenizerError>,
    ) -> Result<(), TokenizerError> {
        let mut at = 0;
        self.matches(text, &allows, &mut |range: Range<usize>, pattern: usize| {
            if range.start < at {
                return Ok(()); // starts in white space that belongs to the token before
            }
            if range.start > at {
                visit(Fragment::Text(at..range.start))?;
            }
            let token = &self.tokens[pattern];
            at = range.end;
            if token.rstrip {
                let is_space = |b: &u8| matches!(b, b' ' | b'\t'..=b'\r');
                at += text.as_bytes()[at..].iter().take_while(|b| is_space(b)).count();
            }
            visit(Fragment::Token(token.id))
        })?;
        if at < text.len() { visit(Fragment::Text(at..text.len())) } else { Ok(()) }
    }

    /// Calls `visit` with the selected matches and their pattern numbers, in text order. Of overlapping
    /// matches the longest is selected, and of equally long ones the leftmost.
    fn matches(
        &self,
        text: &str,
        allows: &impl Fn(&Special, &Range<usize>) -> bool,
        visit: &mut impl FnMut(Range<usize>, usize) -> Result<(), TokenizerError>,
    ) -> Result<(), TokenizerError> {
        let Some(automaton) = &self.automaton else {
            return Ok(());
        };
        let allowed = |range: &Range<usize>, pattern: usize| allows(&self.tokens[pattern], range);
        let longest = automaton.max_pattern_len();
        // Clusters that further matches can join, in text order.
        let mut clusters: VecDeque<Cluster> = VecDeque::new();
        // The number of the last cluster that each pattern was added to, so that it is added to a cluster
        // only once.
        let mut last_cluster = vec![0u32; self.tokens.len()];
        let mut number = 0;
        for m in automaton.find_overlapping_iter(text) {
            let pattern = m.pattern().as_usize();
            let mut range = m.range();
            // Matches are sorted by their ends, so none from here on begins before this one's end less the
            // longest.
            while clusters.front().is_some_and(|first| first.range.end + longest <= range.end)
                && let Some(first) = clusters.pop_front()
            {
                self.resolve(text, &allowed, first, visit)?;
            }
            if !allowed(&range, pattern) {
                continue;
            }
            let mut cluster = match clusters.pop_back() {
                Some(last) if last.range.end > range.start => last,
                other => {
                    clusters.extend(other);
                    number += 1;
                    Cluster { range: range.clone(), patterns: Vec::new(), number }
                }
            };
            // A long match can join several clusters.
            while clusters.back().is_some_and(|c| c.range.end > range.start) {
                let Some(joined) = clusters.pop_back() else { break };
                range.start = range.start.min(joined.range.start);
                for p in joined.patterns {
                    if last_cluster[p] != cluster.number {
                        last_cluster[p] = cluster.number;
                        cluster.patterns.push(p);
                    }
                }
            }
            if last_cluster[pattern] != cluster.number {
                last_cluster[pattern] = cluster.number;
                cluster.patterns.push(pattern);
            }
            cluster.range.start = cluster.range.start.min(range.start);
            cluster.range.end = cluster.range.end.max(range.end);
            clusters.push_back(cluster);
        }
        clusters.into_iter().try_for_each(|cluster| self.resolve(text, &allowed, cluster, visit))
    }

    /// Selects the matches in a cluster.
    fn resolve(
        &self,
        text: &str,
        allowed: &impl Fn(&Range<usize>, usize) -> bool,
        mut cluster: Cluster,
        visit: &mut impl FnMut(Range<usize>, usize) -> Result<(), TokenizerError>,
    ) -> Result<(), TokenizerError> {
        cluster.patterns.sort_unstable();
        let mut found: Vec<(Range<usize>, usize)> = Vec::new();
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
                        // A match that starts inside this one can still be allowed.
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
        found.sort_unstable_by_key(|(range, _)| range.start);
        found.into_iter().try_for_each(|(range, pattern)| visit(range, pattern))
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
            is_marker: *control,
            rstrip: false,
        });
        SpecialTokens::new(tokens.collect()).expect("builds")
    }

    fn split(
        tokens: &SpecialTokens,
        text: &str,
        allows: impl Fn(&Special, &Range<usize>) -> bool,
    ) -> Vec<Fragment> {
        let mut fragments = Vec::new();
        let mut visit = |fragment| {
            fragments.push(fragment);
            Ok(())
        };
        tokens.split(text, allows, &mut visit).expect("splits");
        fragments
    }

    /// The definition: split at one token after another, longest first.
    fn split_at_one_token_after_another(
        list: &[(&str, bool)],
        text: &str,
        parse_control: bool,
    ) -> Vec<Fragment> {
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
    fn the_result_equals_splitting_at_one_token_after_another() {
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
                    split(&tokens, &text, |t, _| parse || !t.control),
                    split_at_one_token_after_another(&list, &text, parse),
                    "{text:?} {parse}"
                );
            }
        }
    }

    #[test]
    fn control_tokens_are_only_matched_where_allowed() {
        let tokens = specials(&[("<|x|>", true), ("<u>", false)]);
        let text = "<|x|><u><|x|>";
        assert_eq!(
            split(&tokens, text, |t, r| !t.control || r.start >= 8),
            [Fragment::Text(0..5), Fragment::Token(1), Fragment::Token(0)]
        );
        assert!(tokens.has_marker("a<|x|>"));
        assert!(!tokens.has_marker("<u><|x>"));
    }

    #[test]
    fn a_token_with_rstrip_includes_the_white_space_after_it() {
        let tokens = SpecialTokens::new(vec![Special {
            id: 7,
            text: "<e>".into(),
            control: true,
            is_marker: true,
            rstrip: true,
        }])
        .expect("builds");
        assert_eq!(
            split(&tokens, "<e> \n<e>\u{a0}a", |_, _| true),
            [Fragment::Token(7), Fragment::Token(7), Fragment::Text(8..11)]
        );
    }

    #[test]
    fn long_runs_of_nested_tokens_are_split() {
        let texts: Vec<String> = (1..40).map(|n| "\n".repeat(n)).collect();
        let list: Vec<(&str, bool)> = texts.iter().map(|t| (t.as_str(), false)).collect();
        let tokens = specials(&list);
        let text = "\n".repeat(1_000_000);
        let fragments = split(&tokens, &text, |_, _| true);
        assert_eq!(fragments.len(), 1_000_000usize.div_ceil(39));
        assert_eq!(fragments.last(), Some(&Fragment::Token((1_000_000 % 39 - 1) as u32)));
    }
}
