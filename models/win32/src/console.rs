//! What the console tells its programs: Ctrl-C, and that it is about to be closed.

use std::sync::OnceLock;

use windows_sys::Win32::System::Console::{
    CTRL_BREAK_EVENT, CTRL_C_EVENT, CTRL_CLOSE_EVENT, CTRL_LOGOFF_EVENT, CTRL_SHUTDOWN_EVENT,
    SetConsoleCtrlHandler,
};
use windows_sys::core::BOOL;

/// What a console tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsoleEvent {
    /// Ctrl-C or Ctrl-Break.
    Interrupt,
    /// The window is closed, or the user logs off. The process is ended when the handler returns, or after five seconds.
    Close,
}

type Handler = Box<dyn Fn(ConsoleEvent) + Send + Sync>;

static HANDLER: OnceLock<Handler> = OnceLock::new();

/// Calls `handler` in a thread of its own for each event, from now on and for good.
///
/// # Errors
/// There is a handler already, or the system refuses it.
pub fn on_console_event(handler: impl Fn(ConsoleEvent) + Send + Sync + 'static) -> std::io::Result<()> {
    HANDLER.set(Box::new(handler)).map_err(|_| std::io::Error::other("there is a handler already"))?;
    // SAFETY: the function has the signature that the system calls, and lives as long as the process.
    crate::checked(unsafe { SetConsoleCtrlHandler(Some(handle), 1) })
}

unsafe extern "system" fn handle(event: u32) -> BOOL {
    let Some(handler) = HANDLER.get() else { return 0 };
    match event {
        CTRL_C_EVENT | CTRL_BREAK_EVENT => handler(ConsoleEvent::Interrupt),
        CTRL_CLOSE_EVENT | CTRL_LOGOFF_EVENT | CTRL_SHUTDOWN_EVENT => handler(ConsoleEvent::Close),
        _ => return 0,
    }
    1
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn events_reach_the_handler() {
        let (told, events) = mpsc::channel();
        on_console_event(move |event| told.send(event).expect("heard")).expect("installed");
        assert!(on_console_event(|_| ()).is_err(), "a second handler");
        let handled = |event| {
            // SAFETY: the function takes any number.
            (unsafe { handle(event) } != 0, events.try_recv().ok())
        };
        for event in [CTRL_C_EVENT, CTRL_BREAK_EVENT] {
            assert_eq!(handled(event), (true, Some(ConsoleEvent::Interrupt)));
        }
        for event in [CTRL_CLOSE_EVENT, CTRL_LOGOFF_EVENT, CTRL_SHUTDOWN_EVENT] {
            assert_eq!(handled(event), (true, Some(ConsoleEvent::Close)));
        }
        assert_eq!(handled(99), (false, None));
    }
}
