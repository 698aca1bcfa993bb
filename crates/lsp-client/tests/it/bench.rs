//! A temporary workspace, and a pool with scripted servers for its `*.txt` files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use adapters::{Feature, Parse, SearchPath, ServerDefinition, ServerDefinitions};
use lsp_client::{Answer, Call, NoHost, PoolLimits, PoolOptions, RequestCx, Reread, ServerError, ServerPool};
use parking_lot::Mutex;
use paths::{AbsPath, StateDir};
use policy::{Approver, Policy, PolicyOptions, TrustStore, Unattended};
use process::Processes;
use serde_json::{Value, json};
use testing::language_server::{Script, executable};
use tokio_util::sync::CancellationToken;
use workspace::{Document, Editor, Workspace, WorkspaceEdit};

pub const LONG: Duration = Duration::from_secs(30);

pub struct Bench {
    directory: tempfile::TempDir,
    pub workspace: Workspace,
    /// The definitions that a reload loads.
    files: Arc<Mutex<ServerDefinitions>>,
    pub pool: Arc<ServerPool>,
}

/// A server: name, script, and more of its definition.
pub type Server<'a> = (&'a str, Script, &'a str);

pub fn bench(files: &[(&str, &str)], script: Script) -> Bench {
    build(files, vec![("scripted", script, "")], |_| ())
}

pub fn build(
    files: &[(&str, &str)],
    servers: Vec<Server<'_>>,
    change: impl FnOnce(&mut PoolLimits),
) -> Bench {
    build_in(tempfile::tempdir().unwrap(), files, servers, change)
}

/// Builds it in a directory that a script may name; the workspace is its `project`.
pub fn build_in(
    directory: tempfile::TempDir,
    files: &[(&str, &str)],
    servers: Vec<Server<'_>>,
    change: impl FnOnce(&mut PoolLimits),
) -> Bench {
    let definitions = defined(directory.path(), "", servers);
    open(directory, files, definitions, |options| options.yes = true, change)
}

/// Builds it with an editor.
pub fn build_beside(
    files: &[(&str, &str)],
    servers: Vec<Server<'_>>,
    editor: Option<Arc<dyn Editor>>,
    change: impl FnOnce(&mut PoolLimits),
) -> Bench {
    let directory = tempfile::tempdir().unwrap();
    let definitions = defined(directory.path(), "", servers);
    open_beside(directory, files, definitions, editor, |options| options.yes = true, change)
}

/// Definitions of scripted servers, whose scripts are in a directory.
pub fn defined(directory: &Path, tag: &str, servers: Vec<Server<'_>>) -> ServerDefinitions {
    let mut definitions = ServerDefinitions::default();
    for (name, mut script, more) in servers {
        let file = directory.join(format!("{name}{tag}.json"));
        script.record = Some(directory.join(format!("{name}.record")));
        std::fs::write(&file, serde_json::to_string(&script).unwrap()).unwrap();
        // The definition is verified unless a test sets it otherwise.
        let tried = match more.lines().any(|line| line.starts_with("verified =")) {
            true => "",
            false => "verified = { version = \"1\", date = \"2026-11-23\", how = \"scripted\" }\n",
        };
        let mut text = format!("name = {name:?}\n{tried}{more}\n");
        if !more.contains("[command]") {
            text.push_str(&format!("[command]\ncandidates = [{:?}]\nargs = [{file:?}]\n", executable()));
        }
        text = text.replace("$SCRIPT", &file.display().to_string());
        text.push_str("[install]\nhow = \"page\"\ncommand = \"download it\"\n");
        text.push_str("[[languages]]\nid = \"words\"\npatterns = [\"*.txt\"]\n");
        definitions.insert(ServerDefinition::parse(&text, name, false).unwrap());
    }
    definitions
}

pub fn open(
    directory: tempfile::TempDir,
    files: &[(&str, &str)],
    definitions: ServerDefinitions,
    policy: impl FnOnce(&mut PolicyOptions),
    change: impl FnOnce(&mut PoolLimits),
) -> Bench {
    open_beside(directory, files, definitions, None, policy, change)
}

pub fn open_beside(
    directory: tempfile::TempDir,
    files: &[(&str, &str)],
    definitions: ServerDefinitions,
    editor: Option<Arc<dyn Editor>>,
    policy: impl FnOnce(&mut PolicyOptions),
    change: impl FnOnce(&mut PoolLimits),
) -> Bench {
    open_with(directory, files, definitions, editor, Arc::new(Unattended), policy, change)
}

/// Opens the pool with an approver.
pub fn open_asking(
    directory: tempfile::TempDir,
    files: &[(&str, &str)],
    definitions: ServerDefinitions,
    approver: Arc<dyn Approver>,
    policy: impl FnOnce(&mut PolicyOptions),
) -> Bench {
    open_with(directory, files, definitions, None, approver, policy, |_| ())
}

fn open_with(
    directory: tempfile::TempDir,
    files: &[(&str, &str)],
    definitions: ServerDefinitions,
    editor: Option<Arc<dyn Editor>>,
    approver: Arc<dyn Approver>,
    policy: impl FnOnce(&mut PolicyOptions),
    change: impl FnOnce(&mut PoolLimits),
) -> Bench {
    let root = directory.path().join("project");
    std::fs::create_dir_all(&root).unwrap();
    for (name, text) in files {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let state = StateDir::new(AbsPath::new(directory.path().canonicalize().unwrap().join("state")).unwrap());
    let (workspace, _) = Workspace::open(&root, &state, editor).unwrap();
    let mut options = PolicyOptions::new(TrustStore::new(state), workspace.root().clone());
    policy(&mut options);
    let mut limits = PoolLimits { search: SearchPath::default(), ..PoolLimits::default() };
    change(&mut limits);
    let files = Arc::new(Mutex::new(definitions.clone()));
    let reread: Reread = {
        let files = Arc::clone(&files);
        Arc::new(move || files.lock().clone())
    };
    let options = PoolOptions {
        workspace: workspace.clone(),
        processes: Processes::new(None),
        policy: Arc::new(Policy::new(options)),
        approver,
        definitions: Arc::new(definitions),
        reread: Some(reread),
        host: Arc::new(NoHost),
    };
    Bench { directory, workspace, files, pool: ServerPool::with_limits(options, limits) }
}

impl Bench {
    /// The server's edit for a rename, before Pilcrow completes it.
    pub async fn rename(
        &self,
        doc: &Document,
        offset: usize,
        new_name: &str,
        cx: &RequestCx,
    ) -> Result<Answer<WorkspaceEdit>, ServerError> {
        let mut renamed = self.pool.rename(doc, offset, new_name, cx).await?;
        let notes = renamed.close().await;
        let server = renamed.server.name().to_owned();
        Ok(Answer { value: renamed.edit, server, notes })
    }

    /// The callers of a function that the server returns.
    pub async fn callers(&self, doc: &Document, offset: usize) -> Result<Vec<Call>, ServerError> {
        let cx = cx(LONG);
        let server = self.pool.server_for(&doc.path, Feature::CallHierarchy, &cx).await?;
        server.wait_ready(Some(doc), cx.clock()).await?;
        Ok(server.callers(doc, offset, cx.clock()).await?.value)
    }

    pub fn path(&self, name: &str) -> AbsPath {
        self.workspace.root().join(name)
    }

    pub fn uri(&self, name: &str) -> String {
        paths::path_to_uri(self.path(name).as_path())
    }

    pub fn doc(&self, name: &str) -> Document {
        self.workspace.document(&self.path(name)).unwrap()
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// The definitions that the pool would load now.
    pub fn defined(&self) -> ServerDefinitions {
        self.files.lock().clone()
    }

    /// Sets other definitions for the next reload.
    pub fn define(&self, servers: Vec<Server<'_>>) {
        *self.files.lock() = defined(self.directory.path(), "-new", servers);
    }

    /// The path of an entry next to the workspace directory.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// All messages that a server received, over all its processes.
    pub fn record(&self, server: &str) -> Vec<Value> {
        testing::recorded(&self.beside(&format!("{server}.record")))
    }

    /// The parameters of each message of a method.
    pub fn got(&self, server: &str, method: &str) -> Vec<Value> {
        let record = self.record(server).into_iter().filter(|message| message["method"] == method);
        record.map(|message| message["params"].clone()).collect()
    }

    /// All files after a plan is applied: `path: text`, or `path: (gone)`.
    pub fn outcome(&self, edit: WorkspaceEdit) -> Vec<String> {
        let plan = self.workspace.plan(edit).unwrap();
        let mut lines: Vec<String> = plan
            .changes()
            .iter()
            .map(|change| {
                let path = self.workspace.relative(&change.path);
                match &change.after {
                    Some(text) => format!("{path}: {text}"),
                    None => format!("{path}: (gone)"),
                }
            })
            .collect();
        lines.sort();
        lines
    }
}

pub fn cx(deadline: Duration) -> RequestCx {
    RequestCx::new(deadline, &CancellationToken::new())
}

/// A `Range` of the protocol on one line.
pub fn range(line: u32, start: u32, end: u32) -> Value {
    json!({"start": {"line": line, "character": start}, "end": {"line": line, "character": end}})
}

/// Waits until `condition` holds.
#[track_caller]
pub fn until(condition: impl Fn() -> bool + 'static, what: &'static str) -> impl Future<Output = ()> {
    let started = Instant::now();
    async move {
        while !condition() {
            assert!(started.elapsed() < LONG, "timed out: {what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Whether a process exists and is not a zombie.
pub fn alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim().starts_with('Z'))
}
