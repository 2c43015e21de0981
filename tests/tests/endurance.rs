//! Ten thousand decode steps under every policy do not make memory grow. The only test of its file, so that
//! no other test runs in its process.

use longhand::Session;
use tests::fixtures::{bounded_policies, options, random_tokens, session, sync, tiny_model, with_policy};

/// Resident memory of this process in bytes, where the system tells.
fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<usize>().ok()? * 1024)
}

#[test]
fn ten_thousand_steps_do_not_make_memory_grow() {
    const STEPS: usize = 10_000;
    let engine = tiny_model();
    let tokens = random_tokens(&engine, 100, 1);
    for policy in bounded_policies(64, STEPS + 100) {
        let options = with_policy(&engine, &policy, options(STEPS + 100, "full"));
        let mut session = session(&engine, options);
        sync(&mut session, &tokens);
        let bytes = session.store().bytes();
        let step = |session: &mut Session, i: usize| session.push((i % 90) as u32).expect("a step");
        // After these steps all that grows to a fixed size has done so: undo rows, and the pages of the
        // store.
        (0..STEPS / 5).for_each(|i| step(&mut session, i));
        let before = resident();
        (STEPS / 5..STEPS).for_each(|i| step(&mut session, i));
        let pages = session.store().live_bytes();
        if let (Some(before), Some(after)) = (before, resident()) {
            let growth = after.saturating_sub(before);
            assert!(growth <= pages + (4 << 20), "{policy}: {growth} bytes more");
        }
        assert_eq!(session.store().bytes(), bytes, "{policy}");
        assert!(session.logits().iter().all(|x| x.is_finite()), "{policy}");
    }
}
