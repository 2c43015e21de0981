//! Days as spreadsheets count them.

/// Days between the first day of the count (1899-12-30) and 1970-01-01.
const DAYS_TO_1970: i64 = 25_569;
/// Days between the counts from 1900 and from 1904.
const DAYS_TO_1904: i64 = 1_462;
/// The last day of the year 9999, beyond which spreadsheets do not count.
const LAST_DAY: f64 = 2_958_466.0;

/// A moment in a calendar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Moment {
    pub(super) year: i64,
    /// From 1 on.
    pub(super) month: usize,
    pub(super) day: i64,
    /// From 0 on: Sunday is 0.
    pub(super) weekday: usize,
    /// Thousandths of a second since midnight.
    pub(super) milliseconds: i64,
}

impl Moment {
    /// The moment of a number of days, rounded to so many milliseconds. `None` if spreadsheets do not show it.
    pub(super) fn of(number: f64, is_1904: bool, step: i64) -> Option<Moment> {
        if !(0.0..LAST_DAY).contains(&number) {
            return None;
        }
        let milliseconds = (number * 86_400_000.0).round() as i64;
        // What is rounded up to midnight is on the next day.
        let milliseconds = (milliseconds + step / 2) / step * step;
        let (days, milliseconds) = (milliseconds.div_euclid(86_400_000), milliseconds.rem_euclid(86_400_000));
        let counted = if is_1904 { days + DAYS_TO_1904 } else { days };
        // The count from 1900 has a 29th of February that never was: day 60.
        let (counted, is_day_60) = match counted {
            60 if !is_1904 => (counted, true),
            0..60 if !is_1904 => (counted + 1, false),
            _ => (counted, false),
        };
        let (year, month, day) = if is_day_60 { (1900, 2, 29) } else { civil(counted - DAYS_TO_1970) };
        let weekday = (counted - DAYS_TO_1970 + 4).rem_euclid(7) as usize;
        Some(Moment { year, month, day, weekday, milliseconds })
    }
}

/// Year, month and day of a number of days since 1970-01-01 (Gregorian).
fn civil(days: i64) -> (i64, usize, i64) {
    // Years that begin in March: leap days are the last ones. 400 years have 146,097 days.
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month as usize, of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates() {
        for (number, is_1904, date, weekday) in [
            (1.0, false, (1900, 1, 1), 1),
            (59.0, false, (1900, 2, 28), 3),
            (60.0, false, (1900, 2, 29), 3),
            (61.0, false, (1900, 3, 1), 4),
            (45_356.0, false, (2024, 3, 5), 2),
            (45_351.0, false, (2024, 2, 29), 4),
            (0.0, true, (1904, 1, 1), 5),
            (43_894.0, true, (2024, 3, 5), 2),
        ] {
            let moment = Moment::of(number, is_1904, 1).expect("a day");
            assert_eq!((moment.year, moment.month, moment.day), date, "{number}");
            if number > 60.0 || is_1904 {
                assert_eq!(moment.weekday, weekday, "{number}");
            }
        }
        assert_eq!(Moment::of(0.75, false, 1).expect("a time").milliseconds, 64_800_000);
        assert!(
            Moment::of(-1.0, false, 1).is_none()
                && Moment::of(f64::NAN, false, 1).is_none()
                && Moment::of(3e6, false, 1).is_none()
        );
    }
}
