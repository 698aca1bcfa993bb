//! Stop, as a person at a terminal says it: SIGINT, SIGTERM or SIGHUP once cancels, twice ends. A reader of our
//! output that went away is a surface that went away, like a terminal that was closed.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Whether the first signal was a person's Ctrl-C. Signals are the process's, and so is this.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Whether the command ends in order when it is stopped.
static LISTENS: AtomicBool = AtomicBool::new(false);

static STOPPED: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);

static GONE: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);

/// Fires before the token of [`on_signal`] when the signal was SIGHUP or nobody reads any more: the surface went away, and nobody
/// stopped anything.
pub fn gone() -> &'static CancellationToken {
    &GONE
}

/// Whether what was stopped was stopped by SIGINT: the terminal is still there, and whoever sits at it.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Acquire)
}

/// Nobody hears what is said any more. `false`: the command does not listen for a stop, and may end as it stands.
pub fn went_away() -> bool {
    let listens = LISTENS.load(Ordering::Acquire);
    if listens && !STOPPED.is_cancelled() {
        GONE.cancel();
        STOPPED.cancel();
    }
    listens
}

/// The process's token, which the first signal cancels. At the second the process ends at once; the guard ends
/// what it had started.
///
/// # Errors
/// When the system does not let us listen.
pub fn on_signal() -> std::io::Result<CancellationToken> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    LISTENS.store(true, Ordering::Release);
    // Lives as long as the process: there is nobody who could end it earlier.
    let _listens = tokio::spawn(async move {
        let mut is_second = false;
        loop {
            // A signal that is not taken here stays noted by the other streams.
            let by_person = tokio::select! {
                _ = interrupt.recv() => true,
                _ = terminate.recv() => false,
                _ = hangup.recv() => {
                    if !STOPPED.is_cancelled() {
                        GONE.cancel();
                    }
                    false
                }
            };
            // Not whether it is stopped: Ctrl-C ends the reader too, and that may be seen first.
            if is_second {
                std::process::exit(1);
            }
            is_second = true;
            INTERRUPTED.store(by_person, Ordering::Release);
            STOPPED.cancel();
        }
    });
    Ok(STOPPED.clone())
}
