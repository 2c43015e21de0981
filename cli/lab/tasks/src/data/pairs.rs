//! Pairs of an adjective and a noun, such as `quiet-river`: keys of RULER's needles.

/// All pairs, sorted and without duplicates.
///
/// wonderwords' lists make six million of them. Pairs are therefore not listed, but for the few whose order is not
/// that of their adjectives: `well-worn` comes between `well-known-x` and `well-y`.
#[derive(Debug)]
pub(crate) struct Pairs {
    /// Sorted, without duplicates.
    nouns: Vec<String>,
    groups: Vec<Group>,
    len: usize,
}

/// Pairs that follow each other.
#[derive(Debug)]
struct Group {
    /// Pairs before this group.
    start: usize,
    pairs: GroupPairs,
}

#[derive(Debug)]
enum GroupPairs {
    /// One adjective and a hyphen, with all nouns.
    Prefix(String),
    /// More adjectives that begin alike.
    Listed(Vec<String>),
}

impl Pairs {
    pub(super) fn new(adjectives: &[String], nouns: &[String]) -> Pairs {
        let nouns = sorted(nouns.to_vec());
        let prefixes = sorted(adjectives.iter().map(|adjective| format!("{adjective}-")).collect());
        let mut groups = Vec::new();
        let mut len = 0;
        let mut rest = &prefixes[..];
        while let [first, ..] = rest {
            let alike = rest.iter().take_while(|prefix| prefix.starts_with(first.as_str())).count();
            let (group, after) = rest.split_at(alike);
            rest = after;
            let pairs = match group {
                [prefix] => GroupPairs::Prefix(prefix.clone()),
                _ => GroupPairs::Listed(sorted(
                    group
                        .iter()
                        .flat_map(|prefix| nouns.iter().map(move |noun| format!("{prefix}{noun}")))
                        .collect(),
                )),
            };
            let start = len;
            len += match &pairs {
                GroupPairs::Prefix(_) => nouns.len(),
                GroupPairs::Listed(pairs) => pairs.len(),
            };
            groups.push(Group { start, pairs });
        }
        Pairs { nouns, groups, len }
    }

    /// Number of pairs.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The pair with an index below [`Pairs::len`].
    pub(crate) fn get(&self, index: usize) -> String {
        let group = &self.groups[self.groups.partition_point(|group| group.start <= index) - 1];
        match &group.pairs {
            GroupPairs::Prefix(prefix) => format!("{prefix}{}", self.nouns[index - group.start]),
            GroupPairs::Listed(pairs) => pairs[index - group.start].clone(),
        }
    }
}

fn sorted(mut items: Vec<String>) -> Vec<String> {
    items.sort_unstable();
    items.dedup();
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_sorted_and_different() {
        let adjectives = ["well", "old", "well-known", "a", "ab", "a-b", "old", "well-"].map(String::from);
        let nouns = ["tree", "known-tree", "zoo", "-tree", "art", "zoo"].map(String::from);
        let expected =
            adjectives.iter().flat_map(|a| nouns.iter().map(move |n| format!("{a}-{n}"))).collect();
        let expected = sorted(expected);
        let pairs = Pairs::new(&adjectives, &nouns);
        assert_eq!(expected, (0..pairs.len()).map(|index| pairs.get(index)).collect::<Vec<_>>());
    }
}
