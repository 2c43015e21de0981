//! Threads of a backend that wait for each other give up the processor.
#![cfg(target_os = "linux")]

use std::ffi::c_int;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use ggml::{Backend, Context, Error, GraphAllocator, Operand, Type};

/// Operations of a graph, after each of which the threads meet. If a waiting thread kept the processor, each
/// meeting would take as long as the scheduler lets a thread run: some milliseconds.
const MEETINGS: usize = 4000;
/// How often the graph is computed.
const ROUNDS: usize = 10;

unsafe extern "C" {
    fn sched_getaffinity(thread: c_int, size: usize, mask: *mut u64) -> c_int;
    fn sched_setaffinity(thread: c_int, size: usize, mask: *const u64) -> c_int;
}

/// Keeps this thread, and threads that it starts, on one of its processors.
fn stay_on_one_processor() {
    let mut mask = [0u64; 128];
    // SAFETY: the mask has the size that is passed.
    assert_eq!(unsafe { sched_getaffinity(0, size_of_val(&mask), mask.as_mut_ptr()) }, 0);
    let word = mask.iter().position(|word| *word != 0).expect("a processor");
    let first = mask[word] & mask[word].wrapping_neg();
    mask.fill(0);
    mask[word] = first;
    // SAFETY: as above.
    assert_eq!(unsafe { sched_setaffinity(0, size_of_val(&mask), mask.as_ptr()) }, 0);
}

fn meet_on_one_processor() -> Result<(), Error> {
    stay_on_one_processor();
    let backend = Backend::cpu(2)?;
    let context = Context::new(MEETINGS + 1);
    let mut node = context.input("x", Type::F32, [1]);
    for _ in 0..MEETINGS {
        node = context.custom(Type::F32, [1], &[Operand::Read(&node)], |_| ());
    }
    let mut allocator = GraphAllocator::new(&backend.buffer_type());
    let graph = allocator.prepare(context.graph(&[&node])?)?;
    (0..ROUNDS).try_for_each(|_| backend.compute(&graph))
}

#[test]
fn two_threads_on_one_processor_meet_often() {
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || done.send(meet_on_one_processor()));
    is_done
        .recv_timeout(Duration::from_secs(60))
        .expect("they do not wait for the scheduler")
        .expect("computes");
}
