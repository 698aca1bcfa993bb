//! Starts a scripted adapter and a session with it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use adapters::{DebuggerDefinition, DebuggerDefinitions, Parse, ProjectPrograms, SearchPath};
use dap_client::{
    Breakpoints, Clock, DapError, LaunchPlan, LaunchSpec, Session, Sessions, SourceBreakpoint, State, Target,
};
use paths::{AbsPath, StateDir};
use policy::{Policy, PolicyOptions, TrustStore};
use process::Processes;
use serde_json::Value;
use testing::dap_schema::Schema;
use testing::debug_adapter::{Script, executable};
use tokio_util::sync::CancellationToken;

pub const LONG: Duration = Duration::from_secs(30);

pub struct Bench {
    directory: tempfile::TempDir,
    pub sessions: Arc<Sessions>,
    pub processes: Arc<Processes>,
    pub root: AbsPath,
}

pub fn clock() -> Clock {
    within(LONG)
}

pub fn within(time: Duration) -> Clock {
    Clock::new(time, &CancellationToken::new())
}

/// Checks the hub's messages to the adapters against the published schema.
///
/// Runs in every test that passes, if the tools are set up.
impl Drop for Bench {
    fn drop(&mut self) {
        let Some(schema) = Schema::of_environment().filter(|_| !std::thread::panicking()) else { return };
        for name in ["record", "record-of-child"] {
            let file = self.directory.path().join(name);
            let messages = if file.exists() { testing::recorded(&file) } else { Vec::new() };
            // An unusual id returns unchanged. The arguments of a restart are those of a launch and
            // an attach, of which the schema allows one.
            let odd = |it: &Value| it["request_seq"].is_string() || it["command"] == "restart";
            messages.iter().filter(|it| !odd(it)).for_each(|it| schema.check(it).unwrap());
        }
    }
}

impl Bench {
    pub fn new(script: Script) -> Self {
        Self::with(script, "", &[])
    }

    /// Starts it with additions to its definition and more arguments of its command.
    pub fn with(mut script: Script, more: &str, args: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = AbsPath::new(directory.path().canonicalize().unwrap()).unwrap();
        script.record = Some(directory.path().join("record"));
        script.pid_file = Some(directory.path().join("pid"));
        if let Some(child) = &mut script.child {
            child.record = Some(directory.path().join("record-of-child"));
        }
        let file = directory.path().join("script.json");
        std::fs::write(&file, serde_json::to_string(&script).unwrap()).unwrap();
        std::fs::write(directory.path().join("a.txt"), "one\ntwo\nthree\n").unwrap();
        let mut words = vec![file.to_string_lossy().into_owned()];
        words.extend(args.iter().map(|it| (*it).to_owned()));
        let text = format!(
            "format = 1\nname = \"scripted\"\npatterns = [\"*.txt\"]\nverified = false\n\
             command.candidates = [{:?}]\ncommand.args = {words:?}\n{more}\n\
             [launch]\nprogram = \"${{program}}\"\nmodule = \"${{module}}\"\nargs = \"${{args}}\"\n\
             [install]\nhow = \"page\"\npage = \"x\"\n",
            executable()
        );
        let mut definitions = DebuggerDefinitions::default();
        definitions.insert(DebuggerDefinition::parse(&text, "scripted", false).unwrap());
        let processes = Processes::new(None);
        let programs = ProjectPrograms { search: SearchPath::default(), workspace: root.clone() };
        let sessions = Sessions::new(definitions, programs, Arc::clone(&processes));
        Self { directory, sessions, processes, root }
    }

    pub fn at(&self, line: u64) -> SourceBreakpoint {
        let path = self.root.join("a.txt");
        SourceBreakpoint { path, line, column: None, condition: None, hit: None, log: None }
    }

    pub fn plan(&self, change: impl FnOnce(&mut Breakpoints)) -> LaunchPlan {
        let mut breakpoints = Breakpoints::default();
        breakpoints.add(self.at(2));
        change(&mut breakpoints);
        self.sessions.plan(&LaunchSpec { breakpoints, ..self.spec() }).unwrap()
    }

    /// A launch without breakpoints.
    pub fn spec(&self) -> LaunchSpec {
        LaunchSpec {
            target: Target::Program(self.root.join("a.txt")),
            adapter: None,
            root: self.root.clone(),
            args: vec!["x".into()],
            cwd: self.root.clone(),
            env: Vec::new(),
            stop_on_entry: false,
            stdin: None,
            breakpoints: Breakpoints::default(),
            arguments: None,
            test: None,
            more: serde_json::Map::new(),
        }
    }

    pub async fn start_plan(&self, plan: &LaunchPlan, clock: &Clock) -> Result<Arc<Session>, DapError> {
        let state = StateDir::new(self.root.join("state"));
        let policy = Policy::new(PolicyOptions::new(TrustStore::new(state), self.root.clone()));
        let grant = policy.grant_invoked(&plan.adapter.name, &plan.command).unwrap();
        self.sessions.start(plan, &grant, clock).await
    }

    pub async fn start(&self) -> Arc<Session> {
        self.start_plan(&self.plan(|_| ()), &clock()).await.unwrap()
    }

    pub async fn refused(&self) -> String {
        self.start_plan(&self.plan(|_| ()), &clock()).await.map(|_| ()).unwrap_err().to_string()
    }

    /// The adapter's received messages, as `command` or `response`.
    pub fn got(&self) -> Vec<String> {
        let name = |message: Value| {
            let name = if message["type"] == "request" { &message["command"] } else { &message["type"] };
            name.as_str().unwrap().to_owned()
        };
        self.record().into_iter().map(name).collect()
    }

    pub fn record(&self) -> Vec<Value> {
        testing::recorded(&self.directory.path().join("record"))
    }

    /// Whether the adapter's process exists, also as a zombie.
    pub fn adapter_lives(&self) -> bool {
        let pid = std::fs::read_to_string(self.directory.path().join("pid")).unwrap();
        Path::new("/proc").join(pid.trim()).exists()
    }
}

/// Waits until the program is stopped or has ended.
pub async fn stopped_or_ended(session: &Session) -> State {
    session.wait_for_stop(&clock()).await.unwrap()
}
