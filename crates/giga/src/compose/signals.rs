//! How long-lived commands are stopped.

use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A token that the first Ctrl-C or SIGTERM cancels. A second one ends the process at once.
#[expect(clippy::disallowed_methods, reason = "listens for signals for as long as the process lives")]
pub(crate) fn stop_on_signal() -> CancellationToken {
    let stop = CancellationToken::new();
    let token = stop.clone();
    tokio::spawn(async move {
        let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
        else {
            return;
        };
        for is_first in [true, false] {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if is_first {
                token.cancel();
            } else {
                std::process::exit(130);
            }
        }
    });
    stop
}

/// Cancels `stop` when the parent process closes our standard input, or dies.
#[expect(clippy::disallowed_methods, reason = "watches for as long as the process lives")]
pub(super) fn stop_when_stdin_closes(stop: CancellationToken) {
    tokio::spawn(async move {
        let mut stdin = tokio::io::stdin();
        let mut buffer = [0; 256];
        while matches!(stdin.read(&mut buffer).await, Ok(n) if n > 0) {}
        stop.cancel();
    });
}
