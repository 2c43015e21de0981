//! A template is compiled while another thread panics. A test program of its own, because the panic hook is the
//! whole process's.
#![cfg(unix)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use models::chat::{ChatTemplate, Message};
use models::embedded;
use models::gguf::GgufFile;
use models::tokenizer::Tokenizer;

#[test]
fn the_lock_of_the_panic_hook_does_not_stop_the_process_of_a_template() {
    static IN_HOOK: AtomicBool = AtomicBool::new(false);
    let file = GgufFile::from_bytes(embedded::needle()).expect("the embedded file");
    let tokenizer = Tokenizer::from_gguf(&file).expect("the embedded vocabulary");
    // The hook is locked while it runs. A process that is forked meanwhile never sees it unlocked.
    std::panic::set_hook(Box::new(|_| {
        IN_HOOK.store(true, Ordering::SeqCst);
        thread::sleep(Duration::from_secs(1));
    }));
    let panicking = thread::spawn(|| panic!("on purpose"));
    while !IN_HOOK.load(Ordering::SeqCst) {
        thread::yield_now();
    }
    let template = ChatTemplate::new(Some("good"), &tokenizer);
    assert!(panicking.join().is_err());
    let _ = std::panic::take_hook();
    assert_eq!(template.expect("compiles").render(&[Message::user("x")], true), Ok("good".into()));
}
