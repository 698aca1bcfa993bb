//! Cancellation by signals.
//!
//! The first SIGINT, SIGTERM or SIGHUP cancels. The second ends the process, and so do two seconds after the first.
//! A closed pipe on standard output counts as a closed terminal.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Whether the last signal was SIGINT.
///
/// Signals belong to the process, hence a static.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Whether the command continues after the first signal.
static MAY_CONTINUE: AtomicBool = AtomicBool::new(false);

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

/// Lets the command continue after the first signal, until the next.
pub fn wait_for_second() {
    MAY_CONTINUE.store(true, Ordering::Release);
}

/// Returns the token of a command, which the first signal cancels.
///
/// # Errors
/// Like [`on_signal_within`].
pub fn on_signal() -> std::io::Result<CancellationToken> {
    on_signal_within(process::deadlines::COMMAND)
}

/// Returns the token of the process, which the first signal cancels.
///
/// The second signal, or `limit` after the first, ends the process at once, and its guard stops the child
/// processes. Signals have a thread of their own, so that no computation of the command delays them.
///
/// # Errors
/// If the system refuses the signal handlers or the thread.
pub fn on_signal_within(limit: Duration) -> std::io::Result<CancellationToken> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let registered = {
        let _context = runtime.enter();
        [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal)
    };
    let [interrupt, terminate, hangup] = registered;
    let (mut interrupt, mut terminate, mut hangup) = (interrupt?, terminate?, hangup?);
    HANDLES_CANCEL.store(true, Ordering::Release);
    let handle = async move {
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
                () = tokio::time::sleep(limit), if is_second => match MAY_CONTINUE.load(Ordering::Acquire) {
                    true => continue,
                    false => false,
                },
            };
            // Does not ask whether STOPPED is set: Ctrl-C also ends the reader, which may cancel first.
            if is_second {
                std::process::exit(1);
            }
            is_second = true;
            INTERRUPTED.store(is_interrupt, Ordering::Release);
            STOPPED.cancel();
        }
    };
    // Runs as long as the process.
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || runtime.block_on(handle))?;
    Ok(STOPPED.clone())
}
