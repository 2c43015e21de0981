//! `recall`: which policies still find facts if the questions come after the cache was compressed.

#![cfg(feature = "lab")]

mod common;

use common::longhand;
use serde_json::Value;

#[test]
fn full_and_razor_find_facts_that_streaming_drops() {
    // A short calibration is enough here; the measurement uses its result.
    longhand(&["heads", "calibrate", "--period", "400"]).ok();
    let args = [
        "recall",
        "-t",
        "1",
        "-c",
        "2k",
        "--kv-budget",
        "30%",
        "--questions",
        "6",
        "--policy",
        "full;razor;streaming",
    ];
    let cells = longhand(&[&args[..], &["--json"]].concat()).json();
    let cells = cells.as_array().expect("an array");
    assert_eq!(cells.len(), 3);
    let answered = |index: usize, name: &str| {
        let cell = &cells[index];
        assert_eq!((&cell["name"], &cell["asked"], &cell["documents"]), (&name.into(), &6.into(), &1.into()));
        cell["answered"].as_u64().unwrap_or_else(|| panic!("{cell}"))
    };
    let share = |cell: &Value| cell["kv_share"].as_f64().unwrap_or_else(|| panic!("{cell}"));
    let (full, razor, streaming) = (answered(0, "full"), answered(1, "razor"), answered(2, "streaming"));
    assert!(full >= 5 && razor >= 5 && streaming <= 3, "{full}, {razor} and {streaming} of 6");
    assert_eq!((share(&cells[0]), &cells[0]["budget"]), (1.0, &Value::Null));
    for cell in &cells[1..] {
        assert!(share(cell) > 0.2 && share(cell) <= 0.3 && cell["budget"] == "30.0 %", "{cell}");
    }
    // The same as a table.
    let table = longhand(&args).ok();
    let shown = |name: &str, answered: u64| {
        let row = table.lines().find(|line| line.starts_with(&format!("| {name} ")));
        let row = row.unwrap_or_else(|| panic!("{name} is not in {table}"));
        assert!(row.contains(&format!(" {:.1} (", 100.0 * answered as f64 / 6.0)), "{row}");
    };
    shown("full", full);
    shown("razor", razor);
    shown("streaming", streaming);
}

#[test]
fn an_impossible_budget_does_not_stop_the_others() {
    let args = [
        "recall",
        "-t",
        "1",
        "-c",
        "500",
        "--questions",
        "2",
        "--policy",
        "l2;tova",
        "--kv-budget",
        "40%,90%",
    ];
    let run = longhand(&args);
    assert!(run.stderr.contains("note: l2: a KV budget of 40 %"), "{}", run.stderr);
    let table = run.ok();
    let row = |name: &str| -> Vec<&str> {
        let row = table.lines().find(|line| line.starts_with(&format!("| {name} ")));
        row.unwrap_or_else(|| panic!("{name} is not in {table}")).split('|').map(str::trim).collect()
    };
    assert_eq!(row("l2")[2], "-", "l2 skips two of the four layers");
    assert!(row("l2")[3].contains('(') && row("tova")[2].contains('(') && row("full")[2].contains("(100.0)"));
}

#[test]
fn notes_about_the_device_are_printed_once_for_all_lengths() {
    let run = longhand(&[
        "recall",
        "-t",
        "1",
        "-c",
        "300,400",
        "--questions",
        "1",
        "--policy",
        "full",
        "--memory",
        "1GiB",
        "--device",
        "auto",
    ]);
    let notes = run.stderr.matches("the CPU computes everything").count();
    assert!(notes <= 1, "{}", run.stderr);
    run.ok();
}
