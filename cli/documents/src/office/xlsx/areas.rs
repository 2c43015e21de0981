//! Merged areas of a sheet, and which of its rows or columns are shown.

use std::collections::BTreeMap;

use super::sheet::CellPlace;

/// Which rows or columns are shown.
#[derive(Debug, Default)]
pub(super) struct Shown {
    /// The first one from each on that is shown. Those behind the end are shown.
    next: Vec<usize>,
}

impl Shown {
    /// All of up to `max` but those from a first to a last one.
    pub(super) fn without(hidden: &[(usize, usize)], max: usize) -> Shown {
        let bounds = |(first, last): &(usize, usize)| (*first, last.saturating_add(1).min(max));
        let end = hidden.iter().map(bounds).map(|(_, end)| end).max().unwrap_or(0);
        // How many begin minus how many end at each.
        let mut changes = vec![0i64; end + 1];
        for (first, end) in hidden.iter().map(bounds).filter(|(first, end)| first < end) {
            changes[first] += 1;
            changes[end] -= 1;
        }
        let mut open = 0;
        let is_hidden = changes.iter().map(|change| {
            open += change;
            open > 0
        });
        let is_hidden: Vec<bool> = is_hidden.collect();
        let mut next: Vec<usize> = (0..=end).collect();
        for at in (0..end).rev() {
            next[at] = if is_hidden[at] { next[at + 1] } else { at };
        }
        Shown { next }
    }

    /// The first one from this on that is shown.
    pub(super) fn next(&self, at: usize) -> usize {
        self.next.get(at).copied().unwrap_or(at)
    }
}

/// What a place of a sheet is to merged areas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AreaPart {
    /// It is in none.
    Alone,
    /// The first place of an area: its text stands in all of it. The last place of the area.
    First(CellPlace),
    /// Another place of an area, of which nothing is seen.
    Covered,
}

/// The areas that reach into a row, while the rows are passed from the first on.
#[derive(Debug)]
pub(super) struct Merged {
    /// First and last places, the last area first.
    ahead: Vec<(CellPlace, CellPlace)>,
    /// Those that have begun, by their first columns.
    begun: BTreeMap<usize, (CellPlace, CellPlace)>,
}

impl Merged {
    pub(super) fn new(areas: BTreeMap<CellPlace, CellPlace>) -> Merged {
        Merged { ahead: areas.into_iter().rev().collect(), begun: BTreeMap::new() }
    }

    /// What a place is. Its row is not before that of the last call.
    pub(super) fn part(&mut self, place: CellPlace) -> AreaPart {
        while let Some((first, last)) = self.ahead.pop_if(|(first, _)| first.0 <= place.0) {
            self.begin(first, last);
        }
        match self.begun.range(..=place.1).next_back() {
            Some((_, (first, last))) if *first == place => AreaPart::First(*last),
            Some((_, (_, last))) if last.0 >= place.0 && last.1 >= place.1 => AreaPart::Covered,
            _ => AreaPart::Alone,
        }
    }

    /// Areas that overlap others are those of no program, and are not merged.
    fn begin(&mut self, first: CellPlace, last: CellPlace) {
        while let Some((column, (_, other))) = self.begun.range(..=last.1).next_back()
            && other.1 >= first.1
        {
            if other.0 >= first.0 {
                return;
            }
            let ended = *column;
            self.begun.remove(&ended);
        }
        self.begun.insert(first.1, (first, last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_that_is_shown() {
        let shown = Shown::without(&[(1, 1), (3, 5), (5, 6), (9, usize::MAX)], 12);
        let next: Vec<usize> = (0..14).map(|at| shown.next(at)).collect();
        assert_eq!(next, [0, 2, 2, 7, 7, 7, 7, 7, 8, 12, 12, 12, 12, 13]);
        assert_eq!(Shown::without(&[], 12).next(5), 5);
    }

    #[test]
    fn places_are_in_areas() {
        let areas = [((0, 0), (1, 1)), ((1, 1), (9, 9)), ((2, 0), (2, 2)), ((2, 4), (4, 4))];
        let mut merged = Merged::new(areas.into_iter().collect());
        let row = |merged: &mut Merged, row: usize| {
            (0..5)
                .map(|column| match merged.part((row, column)) {
                    AreaPart::Alone => '.',
                    AreaPart::First(_) => 'F',
                    AreaPart::Covered => 'c',
                })
                .collect::<String>()
        };
        assert_eq!(
            (0..6).map(|at| row(&mut merged, at)).collect::<Vec<_>>(),
            ["Fc...", "cc...", "Fcc.F", "....c", "....c", "....."]
        );
    }
}
