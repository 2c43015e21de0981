//! The main use: facts in a long document are found with a compressed cache, but not with one that drops
//! their rows.

use serde_json::Value;

use crate::common::longhand;

#[test]
fn razor_answers_like_full_and_streaming_does_not() {
    // A short calibration is enough here; the demo uses its result.
    let made = longhand(&["heads", "calibrate", "--period", "400"]).ok();
    assert!(made.contains("of 16 KV heads keep everything"), "{made}");
    let mut sums = [0; 4];
    let mut asked = 0;
    for seed in ["1", "2", "3"] {
        let rows = longhand(&["demo", "--json", "--tokens", "2000", "-s", seed]).json();
        let rows = rows.as_array().expect("an array");
        assert_eq!(rows.len(), 4);
        let number = |row: &Value, name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name}: {row}"));
        for (row, policy) in rows.iter().zip(["full", "razor:", "streaming:", "streaming:"]) {
            assert!(row["policy"].as_str().is_some_and(|name| name.starts_with(policy)), "{row}");
            for name in ["kv_bytes", "kv_share", "answered", "asked", "prefill_tps", "decode_tps"] {
                assert!(number(row, name) >= 0.0);
            }
        }
        let share = |row: usize| number(&rows[row], "kv_share");
        assert_eq!(share(0), 1.0);
        assert!(share(1) > 0.2 && share(1) < 0.6, "{}", share(1));
        assert!(share(2) < share(1) && (share(3) - share(1)).abs() < 0.005, "{} {}", share(3), share(1));
        for (sum, row) in sums.iter_mut().zip(rows) {
            *sum += number(row, "answered") as usize;
        }
        asked += number(&rows[0], "asked") as usize;
    }
    let [full, razor, streaming, same_bytes] = sums;
    println!(
        "{asked} asked: full {full}, razor {razor}, streaming {streaming}, at razor's bytes {same_bytes}"
    );
    assert!(full >= asked - 1 && razor >= asked - 1, "{full} and {razor} of {asked}");
    assert!(streaming <= asked / 2 && same_bytes <= asked * 2 / 3, "{streaming} and {same_bytes} of {asked}");
}
