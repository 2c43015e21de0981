//! Tests of the emulator itself: the results of tensor core instructions, the time at which copies arrive,
//! and the mistakes that must end the process with a message.

use std::process::Command;

use emulator as _; // links the functions below

#[repr(C)]
struct Check {
    out: *mut f32,
    what: i32,
}

unsafe extern "C" {
    fn longhand_emulated_check_product(check: *const Check) -> i32;
    fn longhand_emulated_check_mistake(check: *const Check) -> i32;
    fn longhand_emulated_check_copy(check: *const Check) -> i32;
}

#[test]
fn tensor_core_products_equal_matrix_products() {
    let a = |i: usize, k: usize| ((i * 16 + k) * 7 % 31) as f32 - 15.0;
    let b = |k: usize, n: usize| (((k * 8 + n) * 5 % 23) as f32 - 11.0) / 4.0;
    for what in [0, 1] {
        let mut out = [f32::NAN; 16 * 8];
        // SAFETY: the kernel writes 16 x 8 floats.
        assert_eq!(unsafe { longhand_emulated_check_product(&Check { out: out.as_mut_ptr(), what }) }, 0);
        for (at, have) in out.iter().enumerate() {
            let want: f32 = (0..16).map(|k| a(at / 8, k) * b(k, at % 8)).sum();
            assert_eq!(*have, want, "{what}: ({}, {})", at / 8, at % 8);
        }
    }
}

#[test]
fn copies_arrive_when_they_are_waited_for() {
    let mut out = [7f32, 0.0, 0.0, 0.0, 0.0];
    // SAFETY: the kernel reads the first and writes the others.
    assert_eq!(unsafe { longhand_emulated_check_copy(&Check { out: out.as_mut_ptr(), what: 0 }) }, 0);
    assert!(out[1..4].iter().all(|x| x.is_nan()), "{out:?}");
    assert_eq!(out[4], 7.0);
}

/// Each mistake is made in its own process, which runs this test with an environment variable.
#[test]
fn mistakes_end_the_process_with_a_message() {
    const MISTAKE: &str = "LONGHAND_EMULATED_MISTAKE";
    if let Ok(what) = std::env::var(MISTAKE) {
        let (mut out, what) = ([0f32; 64], what.parse().expect("a number"));
        // SAFETY: the kernel writes at most 64 floats of `out`.
        unsafe { longhand_emulated_check_mistake(&Check { out: out.as_mut_ptr(), what }) };
        return;
    }
    let messages = [
        "thread 5: has left the kernel",
        "is reached while other threads wait in another collective",
        "thread 0: __syncthreads",
        "shared memory was written behind its end",
        "load is not aligned",
        "has the same destination as an unfinished copy",
        "a grid is larger than CUDA allows",
    ];
    for (what, message) in messages.into_iter().enumerate() {
        let output = Command::new(std::env::current_exe().expect("a path"))
            .args(["emulator::mistakes_end_the_process_with_a_message", "--exact", "--nocapture"])
            .env(MISTAKE, what.to_string())
            .output()
            .expect("it starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains(message), "{message}: {stderr}");
    }
}
