//! Stop, as a person at a terminal says it: SIGINT, SIGTERM or SIGHUP once cancels, twice ends.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Whether the first signal was a person's Ctrl-C. Signals are the process's, and so is this.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

static GONE: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);

/// Fires before the token of [`on_signal`] when the signal was SIGHUP: the terminal went away, and nobody stopped anything.
pub fn gone() -> &'static CancellationToken {
    &GONE
}

/// Whether what was stopped was stopped by SIGINT: the terminal is still there, and whoever sits at it.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Acquire)
}

/// A token that the first signal cancels. At the second the process ends at once; the guard ends
/// what it had started.
///
/// # Errors
/// When the system does not let us listen.
pub fn on_signal() -> std::io::Result<CancellationToken> {
    let token = CancellationToken::new();
    let cancel = token.clone();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    // Lives as long as the process: there is nobody who could end it earlier.
    let _listens = tokio::spawn(async move {
        loop {
            // A signal that is not taken here stays noted by the other streams.
            let by_person = tokio::select! {
                _ = interrupt.recv() => true,
                _ = terminate.recv() => false,
                _ = hangup.recv() => {
                    if !cancel.is_cancelled() {
                        GONE.cancel();
                    }
                    false
                }
            };
            if cancel.is_cancelled() {
                std::process::exit(1);
            }
            INTERRUPTED.store(by_person, Ordering::Release);
            cancel.cancel();
        }
    });
    Ok(token)
}
