//! Ten thousand decode steps under every policy: memory does not grow. Alone in its file, so that nothing else runs in its process.

use engine::Session;
use engine::kv::PolicyChoice;
use engine::kv::policy::policies;

mod common;
use common::{half, options, text, tiny};

/// Resident memory of this process in bytes, where the system tells.
fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<usize>().ok()? * 1024)
}

#[test]
fn ten_thousand_steps_take_no_more_memory() {
    const STEPS: usize = 10_000;
    let engine = tiny();
    let tokens = text(&engine, 100, 1);
    for entry in policies().filter(|entry| entry.factory.is_some()) {
        let choice: PolicyChoice = entry.name.parse().expect(entry.name);
        let policy = choice.with_rows(64, STEPS + 100).expect("rows enough");
        let profile = policy.uses_profile().then(|| half(&engine));
        let options = engine::SessionOptions { policy, profile, ..options(STEPS + 100, "full") };
        let mut session = Session::new(&engine, options).expect("a session");
        session.sync(&tokens, &mut |_| {}).expect("prefill");
        let bytes = session.store().bytes();
        let step = |session: &mut Session, i: usize| session.push((i % 90) as u32).expect("a step");
        // Whatever grows to its size has done so: rows kept aside, and the pages of heads that keep everything.
        (0..STEPS / 5).for_each(|i| step(&mut session, i));
        let before = resident();
        (STEPS / 5..STEPS).for_each(|i| step(&mut session, i));
        let pages = session.store().live_bytes();
        if let (Some(before), Some(after)) = (before, resident()) {
            let grown = after.saturating_sub(before);
            assert!(grown <= pages + (4 << 20), "{}: {grown} bytes more", entry.name);
        }
        assert_eq!(session.store().bytes(), bytes, "{}", entry.name);
        assert!(session.logits().iter().all(|x| x.is_finite()), "{}", entry.name);
    }
}
