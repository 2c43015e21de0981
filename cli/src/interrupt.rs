//! Ctrl-C. While the program computes, the first press stops the computation and the second one quits. At the
//! prompt of a chat the first press prints how to quit, and the second one quits. Otherwise a press quits at
//! once.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

const IDLE: u8 = 0;
const PROMPT: u8 = 1;
const COMPUTING: u8 = 2;
const GENERATING: u8 = 3;

/// Exit code after an interrupt.
pub const EXIT_CODE: u8 = 130;

/// Shared with the handler's thread.
#[derive(Debug, Default)]
struct State {
    phase: AtomicU8,
    pressed: AtomicBool,
    /// The interrupt flag of engines: it stops a running computation.
    engine_flag: Arc<AtomicBool>,
}

/// The program's Ctrl-C handler.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<State>);

impl Interrupt {
    /// Installs the handler. If that fails, Ctrl-C ends the program, which is the system's default.
    pub fn install() -> Interrupt {
        let state = Arc::new(State::default());
        let shared = state.clone();
        let _ = ctrlc::set_handler(move || shared.press());
        Interrupt(state)
    }

    /// The interrupt flag for the options of an engine.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.0.engine_flag.clone()
    }

    /// Runs `work`, in which Ctrl-C sets the engine's interrupt flag.
    pub fn computing<T>(&self, work: impl FnOnce() -> T) -> T {
        self.during(COMPUTING, work)
    }

    /// Runs `work`, which checks [`Interrupt::is_pressed`] after each token.
    pub fn generating<T>(&self, work: impl FnOnce() -> T) -> T {
        self.during(GENERATING, work)
    }

    /// Runs `work`, which waits for the user at the prompt.
    pub fn prompting<T>(&self, work: impl FnOnce() -> T) -> T {
        self.during(PROMPT, work)
    }

    /// Runs `work`, which consists of several steps that compute or generate. A press during one step is known
    /// until the last one ends: steps that compute do not begin after it.
    pub fn in_steps<T>(&self, work: impl FnOnce() -> T) -> T {
        self.during(GENERATING, work)
    }

    /// Whether Ctrl-C was pressed since the current work began, with all its steps.
    pub fn is_pressed(&self) -> bool {
        self.0.pressed.load(Ordering::SeqCst)
    }

    fn during<T>(&self, phase: u8, work: impl FnOnce() -> T) -> T {
        let outer = self.0.begin(phase);
        let result = work();
        self.0.end(outer);
        result
    }
}

impl State {
    /// Begins a phase. Returns the one that it is a step of, or [`IDLE`].
    fn begin(&self, phase: u8) -> u8 {
        let outer = self.phase.load(Ordering::SeqCst);
        if outer == IDLE {
            self.forget();
        }
        self.phase.store(phase, Ordering::SeqCst);
        if phase == COMPUTING && self.pressed.load(Ordering::SeqCst) {
            self.engine_flag.store(true, Ordering::SeqCst);
        }
        outer
    }

    /// Goes back to the phase `outer`.
    fn end(&self, outer: u8) {
        self.phase.store(outer, Ordering::SeqCst);
        self.engine_flag.store(false, Ordering::SeqCst);
        if outer == IDLE {
            self.forget();
        }
    }

    fn forget(&self) {
        self.pressed.store(false, Ordering::SeqCst);
        self.engine_flag.store(false, Ordering::SeqCst);
    }

    fn press(&self) {
        let again = self.pressed.swap(true, Ordering::SeqCst);
        match self.phase.load(Ordering::SeqCst) {
            COMPUTING if !again => self.engine_flag.store(true, Ordering::SeqCst),
            GENERATING if !again => {}
            PROMPT if !again => {
                let _ = std::io::Write::write_all(
                    &mut std::io::stderr(),
                    b"\n(to quit, press Ctrl-C again or Ctrl-D, or type /exit)\n> ",
                );
            }
            _ => {
                // The line may contain a progress bar.
                let _ = std::io::Write::write_all(&mut std::io::stderr(), b"\n");
                process::exit(EXIT_CODE.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_press_sets_the_engine_flag_or_is_pressed() {
        let interrupt = Interrupt(Arc::new(State::default()));
        let flag = interrupt.flag();
        interrupt.computing(|| {
            assert!(!flag.load(Ordering::SeqCst));
            interrupt.0.press();
            assert!(flag.load(Ordering::SeqCst));
        });
        assert!(!flag.load(Ordering::SeqCst), "the flag is cleared after the work");
        interrupt.generating(|| {
            interrupt.0.press();
            assert!(interrupt.is_pressed() && !flag.load(Ordering::SeqCst));
        });
        assert!(!interrupt.is_pressed());
    }

    #[test]
    fn a_press_in_one_step_stops_the_following_steps() {
        let interrupt = Interrupt(Arc::new(State::default()));
        let flag = interrupt.flag();
        interrupt.in_steps(|| {
            interrupt.generating(|| interrupt.0.press());
            assert!(interrupt.is_pressed() && !flag.load(Ordering::SeqCst));
            interrupt.computing(|| assert!(flag.load(Ordering::SeqCst)));
        });
        assert!(!interrupt.is_pressed() && !flag.load(Ordering::SeqCst));
        interrupt.in_steps(|| {
            interrupt.0.press(); // between two steps
            assert!(interrupt.is_pressed());
        });
    }
}
