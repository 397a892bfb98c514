//! The terminal as it is while the dashboard runs, and as it was before.

use std::io::{self, Write};

use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use rustix::process::{Signal, getpid, kill_process};
use tokio_util::sync::CancellationToken;

/// The terminal of the dashboard. Restored when dropped, and when the program panics.
pub(super) struct Terminal;

impl Terminal {
    /// Sets the terminal up. A panic, also of a task, restores it and cancels `stop`.
    pub(super) fn enter(stop: CancellationToken) -> io::Result<Self> {
        let earlier = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            earlier(panic);
            stop.cancel();
        }));
        let terminal = Self;
        set_up()?;
        Ok(terminal)
    }

    /// Stops the process as Ctrl-Z does, and returns when it continues.
    pub(super) fn suspend(&self) -> io::Result<()> {
        restore();
        kill_process(getpid(), Signal::TSTP)?;
        set_up()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
    }
}

fn set_up() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, Hide, EnableBracketedPaste)
}

/// Best effort: a terminal that is gone needs nothing.
fn restore() {
    let _ = execute!(io::stdout(), DisableBracketedPaste, Show, LeaveAlternateScreen);
    let _ = disable_raw_mode();
    let _ = io::stdout().flush();
}
