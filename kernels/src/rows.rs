//! Eviction of rows of one KV head. The evicted rows are added up for the compensation entry (RazorAttention
//! eq. 4), and the last rows fill the holes, so that live rows stay contiguous. The order of rows is free,
//! because keys are stored after RoPE. The running sums are f32, and the entry's mean is formed from them at each
//! eviction.

use crate::RowType;

/// Rows that are moved into holes: `(to, from)`. There are at most as many as evicted rows.
pub type Moves = Vec<(u32, u32)>;

/// The moves after which the rows that stay are contiguous: the last of them fill the holes. `evicted` is
/// ascending, without repetition, all below `live`.
pub fn fill_holes(evicted: &[u32], live: usize) -> Moves {
    debug_assert!(evicted.windows(2).all(|pair| pair[0] < pair[1]));
    let kept = live.saturating_sub(evicted.len());
    let holes = evicted.iter().copied().take_while(|row| (*row as usize) < kept);
    let mut skipped = evicted.iter().rev().copied().peekable();
    let mut tail = (kept as u32..live as u32).rev().filter(move |row| {
        if skipped.peek() == Some(row) {
            skipped.next();
            return false;
        }
        true
    });
    holes.map_while(|to| tail.next().map(|from| (to, from))).collect()
}

/// Adds the given rows of a head to `sum` `[head_dim]`; `head` is `[head_dim, rows]`. Additions are f64, so
/// that a hundred thousand rows lose no precision; the sum between calls is f32.
pub fn add_rows(head: &[u8], ty: RowType, rows: impl Iterator<Item = u32>, sum: &mut [f32]) {
    let bytes = ty.row_bytes(sum.len());
    let mut row = vec![0f32; sum.len()];
    let mut total: Vec<f64> = sum.iter().map(|x| f64::from(*x)).collect();
    for index in rows {
        ty.decode(&head[index as usize * bytes..][..bytes], &mut row);
        for (t, x) in total.iter_mut().zip(&row) {
            *t += f64::from(*x);
        }
    }
    for (s, t) in sum.iter_mut().zip(total) {
        *s = t as f32;
    }
}

/// Applies `moves` to the rows of `head`, which have `row_bytes` bytes.
pub fn move_rows(head: &mut [u8], row_bytes: usize, moves: &[(u32, u32)]) {
    for &(to, from) in moves {
        let from = from as usize * row_bytes;
        head.copy_within(from..from + row_bytes, to as usize * row_bytes);
    }
}

/// Writes the mean `sum / count` as row 0, the compensation entry.
pub fn write_mean(head: &mut [u8], ty: RowType, sum: &[f32], count: usize) {
    let mean: Vec<f32> = sum.iter().map(|x| (f64::from(*x) / count.max(1) as f64) as f32).collect();
    ty.encode(&mean, &mut head[..ty.row_bytes(sum.len())]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(evicted: &[u32], live: usize) {
        let mut rows: Vec<u32> = (0..live as u32).collect();
        for (to, from) in fill_holes(evicted, live) {
            rows[to as usize] = rows[from as usize];
        }
        rows.truncate(live - evicted.len());
        rows.sort_unstable();
        let want: Vec<u32> = (0..live as u32).filter(|row| !evicted.contains(row)).collect();
        assert_eq!(rows, want, "evicted {evicted:?} of {live}");
    }

    #[test]
    fn rows_that_stay_are_contiguous() {
        for live in 0..9usize {
            for mask in 0u32..1 << live {
                let evicted: Vec<u32> = (0..live as u32).filter(|row| mask >> row & 1 == 1).collect();
                check(&evicted, live);
            }
        }
    }

    #[test]
    fn the_mean_of_two_rows_becomes_row_0() {
        let ty = RowType::F32;
        let mut head = vec![0u8; 3 * ty.row_bytes(8)];
        ty.encode(&[2.0; 8], &mut head[32..64]);
        ty.encode(&[4.0; 8], &mut head[64..96]);
        let mut sum = [0f32; 8];
        add_rows(&head, ty, 1..3, &mut sum);
        write_mean(&mut head, ty, &sum, 2);
        let mut mean = [0f32; 8];
        ty.decode(&head[..32], &mut mean);
        assert_eq!(mean, [3.0; 8]);
    }
}
