//! The end that cannot be an error, in a process of its own: a lost device ends it at once, after the hook has had its say.

use ggml::{Backend, Context, Error, GraphAllocator, Type, on_fatal};
use std::process::Command;

/// Set in the process that is to end.
const CHILD: &str = "LONGHAND_TEST_FATAL";

fn lose_a_device() -> Result<(), Error> {
    let (backend, ctx) = (Backend::emulated(Default::default(), None)?, Context::new(8));
    let x = ctx.input("x", Type::F32, [1]);
    let twin = ctx.custom_on(Type::F32, [1], &[&x], |_| (), |_| Ok(()));
    let mut allocator = GraphAllocator::new(&backend.buffer_type());
    let graph = allocator.prepare(ctx.graph(&[&twin])?)?;
    backend.lose_after(1);
    backend.compute(&graph)?;
    backend.compute(&graph)
}

#[test]
fn a_lost_device_ends_the_process_through_the_hook() {
    if std::env::var_os(CHILD).is_some() {
        on_fatal(|last_words| {
            eprintln!("LAST WORDS {last_words}");
            42
        });
        let _ = lose_a_device();
        panic!("the process goes on");
    }
    assert!(matches!(lose_a_device(), Err(Error::Device(_))), "without a hook it is an error");
    let this = std::env::current_exe().expect("this program");
    let run = Command::new(this).arg("--nocapture").env(CHILD, "1").output().expect("it starts");
    let said = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(42), "{said}");
    assert!(said.contains("LAST WORDS the device failed: it was lost"), "{said}");
}
