//! Ctrl-C: it ends what is being computed, not the program. At the prompt of a chat the second press quits; where nothing is
//! being computed, and when a press is not obeyed, the program ends.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

const IDLE: u8 = 0;
const PROMPT: u8 = 1;
const READING: u8 = 2;
const GENERATING: u8 = 3;

/// Exit code of a program that was interrupted.
const INTERRUPTED: i32 = 130;

/// What is going on, shared with the handler's thread.
#[derive(Debug, Default)]
struct State {
    phase: AtomicU8,
    pressed: AtomicBool,
    /// The engines' flag: it stops a computation in the middle.
    engine: Arc<AtomicBool>,
}

/// The program's Ctrl-C handler.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<State>);

impl Interrupt {
    /// Takes over Ctrl-C. Where the system refuses, Ctrl-C ends the program as it always did.
    pub fn install() -> Interrupt {
        let state = Arc::new(State::default());
        let seen = state.clone();
        let _ = ctrlc::set_handler(move || seen.press());
        Interrupt(state)
    }

    /// The flag that stops an engine: engines are set up with it.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.0.engine.clone()
    }

    /// A prompt is being read; stopped by the engine's own flag.
    pub fn reading<T>(&self, work: impl FnOnce() -> T) -> T {
        self.during(READING, work)
    }

    /// An answer is being generated, which looks at [`Interrupt::is_pressed`] after every token.
    pub fn generating<T>(&self, work: impl FnOnce() -> T) -> T {
        self.during(GENERATING, work)
    }

    /// The user is being waited for.
    pub fn prompting<T>(&self, work: impl FnOnce() -> T) -> T {
        self.during(PROMPT, work)
    }

    /// Whether Ctrl-C was pressed since the present work began.
    pub fn is_pressed(&self) -> bool {
        self.0.pressed.load(Ordering::SeqCst)
    }

    fn during<T>(&self, phase: u8, work: impl FnOnce() -> T) -> T {
        self.0.begin(phase);
        let result = work();
        self.0.begin(IDLE);
        result
    }
}

impl State {
    fn begin(&self, phase: u8) {
        self.phase.store(phase, Ordering::SeqCst);
        self.pressed.store(false, Ordering::SeqCst);
        self.engine.store(false, Ordering::SeqCst);
    }

    fn press(&self) {
        let again = self.pressed.swap(true, Ordering::SeqCst);
        match self.phase.load(Ordering::SeqCst) {
            READING if !again => self.engine.store(true, Ordering::SeqCst),
            GENERATING if !again => {}
            PROMPT if !again => {
                let _ = std::io::Write::write_all(
                    &mut std::io::stderr(),
                    b"\n(Ctrl-C again, Ctrl-D or /exit quits)\n> ",
                );
            }
            _ => {
                // A progress bar may stand on the line.
                let _ = std::io::Write::write_all(&mut std::io::stderr(), b"\n");
                process::exit(INTERRUPTED);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_press_stops_reading_by_the_engines_flag_and_generating_by_asking() {
        let interrupt = Interrupt(Arc::new(State::default()));
        let flag = interrupt.flag();
        interrupt.reading(|| {
            assert!(!flag.load(Ordering::SeqCst));
            interrupt.0.press();
            assert!(flag.load(Ordering::SeqCst));
        });
        assert!(!flag.load(Ordering::SeqCst), "the next work can run");
        interrupt.generating(|| {
            interrupt.0.press();
            assert!(interrupt.is_pressed() && !flag.load(Ordering::SeqCst));
        });
        assert!(!interrupt.is_pressed());
    }
}
