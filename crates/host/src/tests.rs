//! Sessions and scopes of a project in a temporary directory.
#![expect(clippy::disallowed_methods, reason = "tests make the files of a project")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::{Envelope, Event, EventSink};
use futures_util::future::BoxFuture;
use paths::{AbsPath, Homes, StateDir};
use policy::{Approver, TrustStore, Unattended};
use tokio_util::sync::CancellationToken;

use crate::{
    Access, BranchRequest, CompactReport, CompactRequest, HeadlessFrontend, Host, Outcome, Project,
    PromptRequest, Reply, Stop,
};

/// A project in temporary directories.
struct Fixture {
    directory: AbsPath,
    host: Host,
    _temp: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let directory = AbsPath::new(temp.path().canonicalize().unwrap()).unwrap();
        let dir = |name: &str| StateDir::new(directory.join("home").join(name));
        let homes = Homes {
            config: directory.join("home/config"),
            state: dir("state"),
            data: dir("data"),
            cache: dir("cache"),
            run: dir("run"),
        };
        std::fs::create_dir_all(directory.join("project")).unwrap();
        Self { directory, host: Host { homes }, _temp: temp }
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.directory.join(path);
        std::fs::create_dir_all(path.as_path().parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.into()
    }

    fn open(&self) -> Arc<Project> {
        let root = self.directory.join("project");
        self.host.open_project(root.as_path(), Access::default(), Arc::new(HeadlessFrontend)).unwrap()
    }

    fn directory(&self) -> PathBuf {
        self.directory.as_path().to_owned()
    }
}

/// Collects events, and the ids of sessions.
#[derive(Default)]
struct Recorder {
    events: Mutex<Vec<Event>>,
    session: Mutex<String>,
}

impl EventSink for Recorder {
    fn deliver<'a>(&'a self, envelope: &'a Envelope) -> BoxFuture<'a, ()> {
        self.events.lock().unwrap().push(envelope.event.clone());
        self.session.lock().unwrap().clone_from(&envelope.session_id);
        Box::pin(async {})
    }
}

impl Recorder {
    fn summaries(&self) -> Vec<String> {
        let events = self.events.lock().unwrap();
        let summary = |event: &Event| match event {
            Event::CompactionEnd { summary: Some(message), .. } => Some(message.text()),
            _ => None,
        };
        events.iter().filter_map(summary).collect()
    }
}

/// Runs a prompt in a session; returns the session's id.
async fn prompt(project: &Arc<Project>, request: PromptRequest) -> String {
    let recorder = Arc::new(Recorder::default());
    let never = CancellationToken::new();
    let stop = Stop { cancel: &never, gone: &never };
    match project.scope().run(request, recorder.clone(), stop).await.unwrap() {
        Reply::Done(report) => assert_eq!(report.outcome, Outcome::Done, "{report:?}"),
        Reply::InvalidRequest(reason) => panic!("{reason}"),
    }
    recorder.session.lock().unwrap().clone()
}

#[tokio::test]
async fn isolated_scopes_share_servers_that_start_without_asking() {
    let fixture = Fixture::new();
    let project = fixture.open();
    let shares = |yes: bool| {
        let approver: Arc<dyn Approver> = Arc::new(Unattended);
        let scope = project.isolated_scope(Access { yes, ..Access::default() }, approver).unwrap();
        assert_eq!(scope.policy.is_trusted(), project.policy.is_trusted());
        scope.shares_servers()
    };
    assert!(!shares(false) && !shares(true), "the project is not trusted");
    TrustStore::new(fixture.host.homes.state.clone()).trust(project.workspace.root()).unwrap();
    assert!(shares(false) && shares(true));
    // The policy asks before it starts a server that the project defines.
    let definition = include_str!("../../../adapters/servers/ruff.toml");
    fixture.write("project/.pilcrow/adapters/servers/ruff.toml", definition);
    assert!(!shares(false) && !shares(true));
}

/// Creates a file that blocks its reader until something writes to it.
fn fifo(path: &std::path::Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RWXU).unwrap();
}

#[tokio::test(flavor = "current_thread")]
async fn files_of_a_session_are_read_on_other_threads() {
    let fixture = Fixture::new();
    let project = fixture.open();
    let script = AbsPath::new(fixture.directory()).unwrap().join("slow");
    fifo(script.as_path());
    let ticked = Arc::new(AtomicBool::new(false));
    let (has_ticked, path) = (Arc::clone(&ticked), script.clone());
    let (finished, done) = std::sync::mpsc::channel::<()>();
    // The thread ends every read of the file, so that a failing test ends too. It returns whether the runtime
    // ran during the first read.
    let writer = std::thread::spawn(move || {
        let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK;
        let mut first = None;
        while done.recv_timeout(Duration::from_millis(200)) == Err(RecvTimeoutError::Timeout) {
            // The call succeeds only while something reads.
            if rustix::fs::open(path.as_path(), flags, rustix::fs::Mode::empty()).is_ok() {
                first.get_or_insert_with(|| has_ticked.load(Ordering::SeqCst));
            }
        }
        first
    });
    let request = PromptRequest {
        prompt: "undo".to_owned(),
        model: Some("script:slow".to_owned()),
        directory: fixture.directory(),
        ..PromptRequest::default()
    };
    let never = CancellationToken::new();
    let scope = project.scope();
    let run = scope.run(request, Arc::new(HeadlessFrontend), Stop { cancel: &never, gone: &never });
    let tick = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        ticked.store(true, Ordering::SeqCst);
    };
    let (_, ()) = tokio::join!(run, tick);
    drop(finished);
    assert_eq!(writer.join().unwrap(), Some(true), "the runtime's thread waited for a file");
}

/// Opens a session with two long answers under the profile `reviewer`.
///
/// Its model then writes a summary. Returns the session's id.
async fn long_session(fixture: &Fixture, project: &Arc<Project>) -> String {
    fixture.write("home/config/agents/reviewer/AGENTS.md", "Review, and change nothing.\n");
    let answer = serde_json::json!({ "text": "many words ".repeat(12_000) });
    let answers = fixture.write("answers.jsonl", &format!("{answer}\n"));
    let mut id = None;
    for text in ["begin", "continue"] {
        let request = PromptRequest {
            prompt: text.to_owned(),
            model: Some(format!("script:{}", answers.display())),
            agent: id.is_none().then(|| "reviewer".to_owned()),
            directory: fixture.directory(),
            resume: id.take(),
            wait_ms: None,
        };
        id = Some(prompt(project, request).await);
    }
    let summary = serde_json::json!({ "text": "## Goal\nwritten-for-a-summary" });
    fixture.write("answers.jsonl", &format!("{summary}\n"));
    id.unwrap()
}

const REVIEWER: [&str; 1] = ["the session continues with the agent profile `reviewer`"];

#[tokio::test]
async fn compaction_uses_the_profile_and_the_sink() {
    let fixture = Fixture::new();
    let project = fixture.open();
    let session = long_session(&fixture, &project).await;
    let recorder = Arc::new(Recorder::default());
    let never = CancellationToken::new();
    let scope = project.scope();
    let compact = || {
        let request = CompactRequest { session: Some(session.clone()), ..CompactRequest::default() };
        scope.compact(request, recorder.clone(), &never)
    };
    let reply = compact().await.unwrap();
    let Reply::Done(CompactReport { compacted, error, notes }) = reply else { panic!("{reply:?}") };
    assert_eq!((compacted, error), (true, None));
    assert_eq!(notes, REVIEWER);
    let summaries = recorder.summaries();
    assert!(summaries[..].iter().all(|text| text.contains("written-for-a-summary")), "{summaries:?}");
    assert_eq!(summaries.len(), 1);
}

#[tokio::test]
async fn branching_uses_the_profile() {
    let fixture = Fixture::new();
    let project = fixture.open();
    let session = long_session(&fixture, &project).await;
    let store = project.sessions().unwrap();
    let loaded = store.load(&session).unwrap();
    let first = loaded.entries.iter().find(|entry| entry.kind == "message").unwrap().id.to_string();
    let never = CancellationToken::new();
    let scope = project.scope();
    let branch = || {
        let entry = first.clone();
        let request = BranchRequest { session: session.clone(), entry, ..BranchRequest::default() };
        scope.branch(request, Arc::new(Recorder::default()), &never)
    };
    let reply = branch().await.unwrap();
    let Reply::Done(report) = reply else { panic!("{reply:?}") };
    assert_eq!(report.notes, REVIEWER);
    let text = serde_json::to_string(&store.load(&session).unwrap().context()).unwrap();
    assert!(text.contains("written-for-a-summary"), "{}", &text[..text.len().min(500)]);
}
