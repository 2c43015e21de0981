//! Which positions of a text a cache keeps.

use longhand::Session;

/// Parts of a text, all as long as possible.
pub const PARTS: usize = 32;

/// The share, from 0 to 1, of the rows that are kept of each part of the text: the mean over all KV heads.
pub fn of_session(session: &Session) -> Vec<f64> {
    let map = session.kv_map();
    let (mut kept, mut heads) = ([0; PARTS], 0);
    for (layer, in_layer) in map.layers.iter().enumerate() {
        for head in 0..in_layer.len() {
            let positions = session.kept_positions(layer, head).unwrap_or_default();
            positions.iter().for_each(|position| kept[part(*position as usize, map.tokens)] += 1);
            heads += 1;
        }
    }
    let tokens = |number: usize| begin(number + 1, map.tokens) - begin(number, map.tokens);
    (0..PARTS).map(|number| kept[number] as f64 / (tokens(number) * heads).max(1) as f64).collect()
}

/// The means of several; `None` of none.
pub fn mean<'a>(all: impl Iterator<Item = &'a Vec<f64>>) -> Option<Vec<f64>> {
    let all: Vec<&Vec<f64>> = all.collect();
    let parts = all.iter().map(|shares| shares.len()).min()?;
    let mean = |part: usize| all.iter().map(|shares| shares[part]).sum::<f64>() / all.len() as f64;
    Some((0..parts).map(mean).collect())
}

/// The first position of a part.
fn begin(part: usize, tokens: usize) -> usize {
    (part * tokens).div_ceil(PARTS)
}

/// The part that a position is in.
fn part(position: usize, tokens: usize) -> usize {
    (position * PARTS / tokens.max(1)).min(PARTS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_position_is_in_its_part() {
        for tokens in [1, 31, 32, 33, 1000, 4096] {
            for position in 0..tokens {
                let part = part(position, tokens);
                assert!((begin(part, tokens)..begin(part + 1, tokens)).contains(&position), "{tokens}");
            }
        }
    }
}
