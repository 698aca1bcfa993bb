//! Commands that go on while the agent does other things. Each is owned by a task of [`Shell`], which
//! ends it when it is told to, when its time is over, and when the shell is closed.

use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use paths::{AbsPath, StateDir, StateError};
use policy::Redactor;
use process::Processes;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use workspace::{CommandSnapshots, Workspace};

use super::log::Log;
use super::run::{self, Ended, Running};

/// More commands do not run beside each other.
const MOST_RUNNING: usize = 16;
/// Outputs of older commands are forgotten.
const MOST_JOBS: usize = 64;
/// Files of whole outputs that are kept.
const MOST_FILES: usize = 50;

/// Where commands run: their owner, and what they wrote.
pub struct Shell {
    pub(super) processes: Arc<Processes>,
    pub(super) snapshots: Arc<CommandSnapshots>,
    outputs: StateDir,
    jobs: Mutex<Vec<Arc<Job>>>,
    next: AtomicU64,
    tasks: TaskTracker,
    closing: CancellationToken,
    redactor: Redactor,
}

/// One command that was started, and what it wrote.
pub(super) struct Job {
    pub name: String,
    pub command: String,
    pub log: Log,
    pub started: Instant,
    /// Told to end it.
    pub stop: CancellationToken,
    pub ended: watch::Receiver<Option<Ended>>,
    set_ended: watch::Sender<Option<Ended>>,
}

impl Job {
    pub fn is_running(&self) -> bool {
        self.ended.borrow().is_none()
    }

    pub fn end(&self, ended: Ended) {
        self.set_ended.send_replace(Some(ended));
    }

    /// Until it has ended, at most for `wait`.
    pub async fn wait(&self, wait: Duration, cancel: &CancellationToken) {
        let mut ended = self.ended.clone();
        // Dropping either wait changes nothing: the job's task goes on.
        tokio::select! {
            _ = tokio::time::timeout(wait, ended.wait_for(Option::is_some)) => {}
            () = cancel.cancelled() => {}
        }
    }

    pub fn said(&self) -> String {
        match *self.ended.borrow() {
            None => "running".to_owned(),
            Some(ended) => ended.said(self.started.elapsed()),
        }
    }
}

impl Shell {
    /// Commands of the processes `processes`; whole outputs are kept in the state of `workspace`.
    ///
    /// # Errors
    /// None in practice; the name is good.
    pub fn new(processes: Arc<Processes>, workspace: &Workspace) -> Result<Arc<Self>, StateError> {
        Ok(Arc::new(Self {
            processes,
            snapshots: Arc::new(CommandSnapshots::new(workspace.clone())),
            outputs: StateDir::new(Self::outputs(workspace)),
            jobs: Mutex::default(),
            next: AtomicU64::new(1),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            redactor: Redactor::from_env(),
        }))
    }

    /// Where whole outputs are kept; the model is told of files there, so it may read them.
    pub fn outputs(workspace: &Workspace) -> AbsPath {
        workspace.state().path().join("outputs")
    }

    /// Ends what goes on, and waits for it at most for `deadline`.
    pub async fn close(&self, deadline: Duration) {
        self.closing.cancel();
        self.tasks.close();
        if tokio::time::timeout(deadline, self.tasks.wait()).await.is_err() {
            tracing::warn!("a command that went on could not be ended in time");
        }
    }

    fn jobs(&self) -> parking_lot::MutexGuard<'_, Vec<Arc<Job>>> {
        self.jobs.lock()
    }

    /// The job of that name.
    pub(super) fn job(&self, name: &str) -> Option<Arc<Job>> {
        self.jobs().iter().find(|job| job.name == name).cloned()
    }

    /// Names of jobs, the newest last.
    pub(super) fn names(&self) -> Vec<String> {
        self.jobs().iter().map(|job| job.name.clone()).collect()
    }

    pub(crate) fn redactor(&self) -> Redactor {
        self.redactor.clone()
    }

    /// Makes room for a new command; the answer to too many running ones is `None`.
    pub(super) fn open(&self, command: &str) -> Option<Arc<Job>> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let name = format!("bash-{number}");
        // Names sort by time, so that the oldest go first.
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
        if jobs.iter().filter(|job| job.is_running()).count() >= MOST_RUNNING {
            return None;
        }
        if jobs.len() >= MOST_JOBS
            && let Some(at) = jobs.iter().position(|job| !job.is_running())
        {
            jobs.remove(at);
        }
        jobs.push(Arc::clone(&job));
        Some(job)
    }

    /// Owns a command that goes on.
    pub(super) fn keep(&self, job: Arc<Job>, running: Running, timeout: Option<Duration>) {
        let deadline = timeout.map(|timeout| tokio::time::Instant::now() + timeout);
        self.tasks.spawn(async move {
            let mut running = running;
            let ended = running.follow(&job.log, deadline, &job.stop, async |_| {}).await;
            running.finish(&job.log).await;
            job.end(ended);
        });
    }

    /// Owns `work`, which comes to its end whoever waits for it.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.tasks.spawn(work)
    }

    /// Forgets the oldest whole outputs. Blocks.
    pub(super) fn prune(&self) {
        let names = self.outputs.list().unwrap_or_default();
        for name in names.iter().take(names.len().saturating_sub(MOST_FILES)) {
            if let Err(error) = self.outputs.remove(name) {
                tracing::warn!(%error, "an old output stays");
            }
        }
    }
}

/// How a status is told.
pub(super) fn told(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => run::UNKNOWN.to_owned(),
    }
}
