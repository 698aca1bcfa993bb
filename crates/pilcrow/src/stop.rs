//! Stop, as a person at a terminal says it: SIGINT, SIGTERM or SIGHUP once cancels, twice ends.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

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
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            if cancel.is_cancelled() {
                std::process::exit(1);
            }
            cancel.cancel();
        }
    });
    Ok(token)
}
