//! Cancellation by signals.
//!
//! The first SIGINT, SIGTERM or SIGHUP cancels, the second ends the process. A closed pipe on standard output
//! counts as a closed terminal.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Whether the last signal was SIGINT.
///
/// Signals belong to the process, hence a static.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Whether the command handles cancellation.
static HANDLES_CANCEL: AtomicBool = AtomicBool::new(false);

static STOPPED: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);

static GONE: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);

/// Returns the token that fires if the terminal or the reader of the output closed.
///
/// It fires before the token of [`on_signal`], and not if the user stopped the command.
pub fn gone() -> &'static CancellationToken {
    &GONE
}

/// Whether SIGINT stopped the command, so that the user is still at the terminal.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Acquire)
}

/// Cancels the command because its output has no reader.
///
/// Returns false if the command does not handle cancellation and may exit at once.
pub fn close_surface() -> bool {
    let handles_cancel = HANDLES_CANCEL.load(Ordering::Acquire);
    if handles_cancel && !STOPPED.is_cancelled() {
        GONE.cancel();
        STOPPED.cancel();
    }
    handles_cancel
}

/// Returns the token of the process, which the first signal cancels.
///
/// The second signal ends the process at once, and its guard stops the child processes.
///
/// # Errors
/// If the system refuses the signal handlers.
pub fn on_signal() -> std::io::Result<CancellationToken> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    HANDLES_CANCEL.store(true, Ordering::Release);
    // Runs as long as the process.
    let _handler = tokio::spawn(async move {
        let mut is_second = false;
        loop {
            // Cancel safety: the other streams keep their signals.
            let is_interrupt = tokio::select! {
                _ = interrupt.recv() => true,
                _ = terminate.recv() => false,
                _ = hangup.recv() => {
                    if !STOPPED.is_cancelled() {
                        GONE.cancel();
                    }
                    false
                }
            };
            // Does not ask whether STOPPED is set: Ctrl-C also ends the reader, which may cancel first.
            if is_second {
                std::process::exit(1);
            }
            is_second = true;
            INTERRUPTED.store(is_interrupt, Ordering::Release);
            STOPPED.cancel();
        }
    });
    Ok(STOPPED.clone())
}
