//! A lost device ends the process after the hook was called. The test starts itself as a child process for
//! this.

use std::process::Command;

use ggml::{Backend, Context, Error, GraphAllocator, Operand, Type, on_fatal};

/// Set in the child process.
const CHILD: &str = "LONGHAND_TEST_FATAL";

fn lose_a_device() -> Result<(), Error> {
    let (backend, ctx) = (Backend::emulated(None)?, Context::new(8));
    let x = ctx.input("x", Type::F32, [1]);
    let node = ctx.custom_on(Type::F32, [1], &[Operand::Read(&x)], |_| (), |_| Ok(()));
    let mut allocator = GraphAllocator::new(&backend.buffer_type());
    let graph = allocator.prepare(ctx.graph(&[&node])?)?;
    backend.lose_after(1);
    backend.compute(&graph)?;
    backend.compute(&graph)
}

#[test]
fn a_lost_device_ends_the_process_through_the_hook() {
    if std::env::var_os(CHILD).is_some() {
        on_fatal(|error| {
            eprintln!("FATAL ERROR {error}");
            42
        });
        let _ = lose_a_device();
        panic!("the process still runs");
    }
    assert!(matches!(lose_a_device(), Err(Error::Device(_))), "without a hook it is an error");
    let this = std::env::current_exe().expect("this program");
    let test = ["fatal::a_lost_device_ends_the_process_through_the_hook", "--exact", "--nocapture"];
    let run = Command::new(this).args(test).env(CHILD, "1").output().expect("it starts");
    let stderr = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(42), "{stderr}");
    assert!(stderr.contains("FATAL ERROR the device failed: it was lost"), "{stderr}");
}
