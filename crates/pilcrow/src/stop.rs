//! Cancellation by signals.
//!
//! The first SIGINT, SIGTERM or SIGHUP cancels. The second ends the process, and so do two seconds after the first.
//! A closed pipe on standard output counts as a closed terminal.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;
use tokio_util::sync::CancellationToken;
use workspace::Commit;

use crate::output;

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

/// The commits of the command since it began.
static COMMITS: Mutex<Option<Receiver<Arc<Commit>>>> = Mutex::new(None);

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

/// Starts to collect the commits of the command, for [`report_written`].
pub fn watch_commits(commits: Receiver<Arc<Commit>>) {
    *COMMITS.lock() = Some(commits);
}

/// Ends [`watch_commits`].
pub fn ignore_commits() {
    *COMMITS.lock() = None;
}

/// Reports what a stopped command has written; once.
pub fn report_written() {
    let Some(mut commits) = COMMITS.lock().take().filter(|_| STOPPED.is_cancelled()) else { return };
    if let Some(text) = written(&mut commits) {
        output::note(&text);
    }
}

/// Renders the commits of a stopped command.
fn written(commits: &mut Receiver<Arc<Commit>>) -> Option<String> {
    let mut files = BTreeSet::new();
    loop {
        match commits.try_recv() {
            Ok(commit) => files.extend(commit.files.iter().map(|file| file.path.clone())),
            Err(TryRecvError::Lagged(_)) => {}
            Err(_) => break,
        }
    }
    let noun = if files.len() == 1 { "file" } else { "files" };
    let count = files.len();
    (count > 0)
        .then(|| format!("pilcrow: changed {count} {noun} before the stop; `pilcrow undo` reverts this"))
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
                report_written();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_command_names_what_it_wrote() {
        let (sender, mut commits) = tokio::sync::broadcast::channel(4);
        assert_eq!(written(&mut commits), None);
        let file = |path: &str| workspace::CommittedFile {
            path: paths::AbsPath::new(path).unwrap(),
            kind: workspace::ChangeKind::Modified,
            edits: Vec::new(),
            version: None,
        };
        for paths in [&["/p/a", "/p/b"][..], &["/p/a"]] {
            let commit = Commit {
                id: workspace::CommitId("c1".to_owned()),
                run: workspace::RunId::new(),
                label: "rename".to_owned(),
                files: paths.iter().map(|path| file(path)).collect(),
                notes: Vec::new(),
            };
            sender.send(Arc::new(commit)).unwrap();
        }
        expect_test::expect!["pilcrow: changed 2 files before the stop; `pilcrow undo` reverts this"]
            .assert_eq(&written(&mut commits).unwrap());
    }
}
