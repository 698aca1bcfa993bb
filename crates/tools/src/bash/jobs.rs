//! Background commands.
//!
//! A task of [`Shell`] owns each and ends it on request, at its timeout, and when the shell closes.

use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use agent::EventReporter;
use agent::events::Event;
use parking_lot::Mutex;
use paths::{AbsPath, StateDir, StateError};
use policy::Redactor;
use process::Processes;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use workspace::{CommandSnapshots, ProtectedFiles, RunId, Workspace};

use super::log::Log;
use super::run::{self, JobEnd, Running};
use super::sandbox;

/// Maximum number of running commands.
const MAX_RUNNING: usize = 16;
/// Maximum number of remembered jobs; the shell forgets older ones.
const MAX_JOBS: usize = 64;
/// Maximum number of output files.
const MAX_FILES: usize = 50;

/// Owner of running commands and of their output.
pub struct Shell {
    pub(crate) processes: Arc<Processes>,
    pub(super) snapshots: Arc<CommandSnapshots>,
    outputs: StateDir,
    jobs: Mutex<Vec<Arc<Job>>>,
    next: AtomicU64,
    tasks: TaskTracker,
    closing: CancellationToken,
    redactor: Redactor,
    /// The last run that was notified of the sandbox.
    noted: Mutex<Option<RunId>>,
}

/// A started command with its output.
pub(super) struct Job {
    pub name: String,
    pub command: String,
    pub log: Log,
    pub started: Instant,
    /// Token that stops the command.
    pub stop: CancellationToken,
    pub ended: watch::Receiver<Option<JobEnd>>,
    set_ended: watch::Sender<Option<JobEnd>>,
}

impl Job {
    pub fn is_running(&self) -> bool {
        self.ended.borrow().is_none()
    }

    pub(super) fn has_succeeded(&self) -> bool {
        let ended = *self.ended.borrow();
        matches!(ended, Some(JobEnd { reason: run::EndReason::Exited(status), .. }) if status.success())
    }

    pub fn end(&self, ended: JobEnd) {
        self.set_ended.send_replace(Some(ended));
    }

    /// Waits for the end of the command, at most for `wait`.
    pub async fn wait(&self, wait: Duration, cancel: &CancellationToken) {
        let mut ended = self.ended.clone();
        // The job's task does not depend on this wait.
        tokio::select! {
            _ = tokio::time::timeout(wait, ended.wait_for(Option::is_some)) => {}
            () = cancel.cancelled() => {}
        }
    }

    pub fn status(&self) -> String {
        match *self.ended.borrow() {
            None => "running".to_owned(),
            Some(ended) => ended.describe(self.started.elapsed()),
        }
    }
}

impl Shell {
    /// Creates a shell that spawns through `processes`.
    ///
    /// The shell writes long outputs to the state directory of `workspace`.
    ///
    /// # Errors
    /// None in practice: the name is valid.
    pub fn new(processes: Arc<Processes>, workspace: &Workspace) -> Result<Arc<Self>, StateError> {
        processes.revert_at_end(workspace.state().path());
        Ok(Arc::new(Self {
            processes,
            snapshots: Arc::new(CommandSnapshots::new(workspace.clone())),
            outputs: StateDir::new(Self::outputs(workspace)),
            jobs: Mutex::default(),
            next: AtomicU64::new(1),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            redactor: Redactor::from_env(),
            noted: Mutex::default(),
        }))
    }

    /// Returns the directory of whole outputs.
    ///
    /// Results name files there, so the model may read them.
    pub fn outputs(workspace: &Workspace) -> AbsPath {
        workspace.state().path().join("outputs")
    }

    /// Stops the running commands and waits for them, at most for `deadline`.
    pub async fn close(&self, deadline: Duration) {
        self.closing.cancel();
        self.tasks.close();
        if tokio::time::timeout(deadline, self.tasks.wait()).await.is_err() {
            tracing::warn!("a background command did not end in time");
        }
    }

    fn jobs(&self) -> parking_lot::MutexGuard<'_, Vec<Arc<Job>>> {
        self.jobs.lock()
    }

    pub(super) fn job(&self, name: &str) -> Option<Arc<Job>> {
        self.jobs().iter().find(|job| job.name == name).cloned()
    }

    /// Lists the names of jobs, the newest last.
    pub(super) fn names(&self) -> Vec<String> {
        self.jobs().iter().map(|job| job.name.clone()).collect()
    }

    pub(crate) fn redactor(&self) -> Redactor {
        self.redactor.clone()
    }

    /// Whether the next result of `run` is its first, which describes the sandbox.
    pub(super) fn notes_sandbox(&self, run: &RunId) -> bool {
        self.noted.lock().replace(run.clone()).is_none_or(|last| last != *run)
    }

    /// Adds a job for a new command; `None` if too many are running.
    pub(super) fn open(&self, command: &str) -> Option<Arc<Job>> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let name = format!("bash-{number}");
        // Names sort by time, so that pruning removes the oldest.
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let file = format!("{:013}-{}-{number}.log", since.as_millis(), std::process::id());
        let (set_ended, ended) = watch::channel(None);
        let job = Arc::new(Job {
            name,
            command: command.to_owned(),
            log: Log::new(self.outputs.clone(), file),
            started: Instant::now(),
            stop: self.closing.child_token(),
            ended,
            set_ended,
        });
        let mut jobs = self.jobs();
        if jobs.iter().filter(|job| job.is_running()).count() >= MAX_RUNNING {
            return None;
        }
        if jobs.len() >= MAX_JOBS
            && let Some(at) = jobs.iter().position(|job| !job.is_running())
        {
            jobs.remove(at);
        }
        jobs.push(Arc::clone(&job));
        Some(job)
    }

    /// Moves a command to the background.
    pub(super) fn supervise(
        &self,
        job: Arc<Job>,
        running: Running,
        timeout: Option<Duration>,
        protected: Option<ProtectedFiles>,
        events: EventReporter,
    ) {
        let deadline = timeout.map(|timeout| tokio::time::Instant::now() + timeout);
        self.tasks.spawn(async move {
            let mut running = running;
            let ended = running.follow(&job.log, deadline, &job.stop, async |_| {}).await;
            running.finish(&job.log).await;
            let reverted = ProtectedFiles::after(protected).await;
            let text = sandbox::describe_reverted(&reverted, ToString::to_string);
            job.log.push(&text);
            job.end(ended);
            // The user may have changed the file while the job ran.
            for line in text.lines() {
                let text = format!("{}: {line}", job.name);
                events.report(Event::Notice { level: "warning".to_owned(), text }).await;
            }
        });
    }

    /// Runs `work` to its end, even if the caller is dropped.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.tasks.spawn(work)
    }

    /// Removes the oldest output files. Blocks.
    pub(super) fn prune(&self) {
        let names = self.outputs.list().unwrap_or_default();
        for name in names.iter().take(names.len().saturating_sub(MAX_FILES)) {
            if let Err(error) = self.outputs.remove(name) {
                tracing::warn!(%error, "cannot remove an old output");
            }
        }
    }
}

/// Describes an exit status.
pub(super) fn describe_status(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => run::UNKNOWN.to_owned(),
    }
}
