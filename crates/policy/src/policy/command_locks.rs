//! Locks between the commands of all sessions and processes of the user.
//!
//! Git gets keys after a check of its repository, so no command that may change the repository runs beside it.
//! Each confined command has a file in `command-locks` of Pilcrow's state directory, locked while it runs.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use paths::canonical_existing as canonical;
use paths::{AbsPath, StateDir, StateError, StateLock};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::Policy;
use super::sandbox_profile::Repository;
use crate::{Denied, DeniedBy, ErrorCode, SandboxProfile};

const DIRECTORY: &str = "command-locks";
/// The lock of the directory itself.
const TURN: &str = "turn";
const TURN_TIME: Duration = Duration::from_secs(5);

/// The directories that a running command uses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DirectoryUse {
    /// The directories that it may change.
    writes: Vec<AbsPath>,
    /// The directories of the repository, for git with keys.
    repository: Vec<AbsPath>,
}

impl DirectoryUse {
    fn conflicts(&self, other: &Self) -> bool {
        let changes = |command: &Self, git: &Self| {
            git.repository.iter().any(|path| command.writes.iter().any(|it| path.starts_with(it)))
        };
        changes(self, other) || changes(other, self)
    }

    fn has_keys(&self) -> bool {
        !self.repository.is_empty()
    }
}

/// The lock of a running command; released when dropped.
#[derive(Debug)]
pub struct CommandLock {
    directory: StateDir,
    name: String,
    _lock: StateLock,
}

impl Drop for CommandLock {
    fn drop(&mut self) {
        if let Err(error) = self.directory.remove(&self.name) {
            tracing::warn!(%error, "cannot remove the file of a command that has ended");
        }
    }
}

/// A command that must end first.
#[derive(Debug)]
pub(super) struct Busy {
    name: String,
    pub has_keys: bool,
}

impl Policy {
    /// How a command with this profile uses directories.
    pub(super) fn command_use(&self, profile: &SandboxProfile, has_keys: bool) -> DirectoryUse {
        let root = &self.options.root;
        let directories = || match Repository::find(root) {
            Some(found) => found.directories.iter().map(canonical).collect(),
            None => vec![canonical(root)],
        };
        let repository = if has_keys { directories() } else { Vec::new() };
        DirectoryUse { writes: profile.writable.clone(), repository }
    }

    /// Locks what a command uses, unless another one is in the way.
    pub(super) async fn try_lock_command(
        &self,
        used: &DirectoryUse,
    ) -> Result<Result<CommandLock, Busy>, StateError> {
        let (directory, used) = (self.command_locks()?, used.clone());
        let path = directory.path().clone();
        let lock = tokio::task::spawn_blocking(move || try_lock(directory, &used));
        lock.await.map_err(|error| StateError::Io { path, source: std::io::Error::other(error) })?
    }

    /// Locks like [`Self::try_lock_command`], after git with keys has ended.
    ///
    /// # Errors
    /// The call was cancelled, or the lock's file cannot be written.
    pub(super) async fn lock_command(
        &self,
        profile: &SandboxProfile,
        cancel: &CancellationToken,
    ) -> Result<Option<CommandLock>, Denied> {
        let used = self.command_use(profile, false);
        loop {
            match self.try_lock_command(&used).await {
                Ok(Ok(lock)) => return Ok(Some(lock)),
                Ok(Err(busy)) => self.wait_for(busy, cancel).await?,
                // No process of the user can lock, so git gets no keys either.
                Err(StateError::Io { source, .. }) if is_unwritable(&source) => return Ok(None),
                Err(error) => {
                    let reason =
                        format!("exec: the command cannot be locked against `git` with keys: {error}");
                    return Err(Denied { code: ErrorCode::Internal, reason, by: DeniedBy::Policy });
                }
            }
        }
    }

    /// Waits until a command has ended.
    ///
    /// # Errors
    /// The call was cancelled.
    pub(super) async fn wait_for(&self, busy: Busy, cancel: &CancellationToken) -> Result<(), Denied> {
        let (send, ended) = tokio::sync::oneshot::channel();
        let directory = self.command_locks();
        // The system has no wait that ends with a cancellation, so a thread waits.
        std::thread::spawn(move || {
            if let Err(error) = directory.and_then(|it| it.wait_unlocked(&busy.name)) {
                tracing::warn!(%error, "cannot wait for a command");
            }
            send.send(()).is_ok()
        });
        tokio::select! {
            biased;
            () = cancel.cancelled() => {
                let reason = "the call was cancelled while another command ran `git` with keys".to_owned();
                Err(Denied { code: ErrorCode::Cancelled, reason, by: DeniedBy::Policy })
            }
            _ = ended => Ok(()),
        }
    }

    fn command_locks(&self) -> Result<StateDir, StateError> {
        self.options.trust.state().child(DIRECTORY)
    }
}

fn is_unwritable(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
}

/// Locks in this directory what a command uses. Blocks.
fn try_lock(directory: StateDir, used: &DirectoryUse) -> Result<Result<CommandLock, Busy>, StateError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let _turn = directory.lock(TURN, TURN_TIME)?;
    for name in directory.list()?.into_iter().filter(|name| name != TURN) {
        if directory.try_lock(&name)?.is_some() {
            // Its process was killed.
            directory.remove(&name)?;
            continue;
        }
        // It may end meanwhile. A newer Pilcrow may write another format.
        let Some(bytes) = directory.read(&name)? else { continue };
        let other: Option<DirectoryUse> = serde_json::from_slice(&bytes).ok();
        if other.as_ref().is_none_or(|other| used.conflicts(other)) {
            return Ok(Err(Busy { name, has_keys: other.is_some_and(|it| it.has_keys()) }));
        }
    }
    // Processes in namespaces of their own can have one id.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let name = format!("{}-{since}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    directory.append(&name, &serde_json::to_vec(used).expect("paths are valid JSON"), false)?;
    let lock = directory.lock(&name, TURN_TIME)?;
    Ok(Ok(CommandLock { directory, name, _lock: lock }))
}
