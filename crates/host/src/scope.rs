//! The scope of a request: a project, and the request's permission and servers.

use std::sync::Arc;
use std::time::Duration;

use agent::events::Update;
use agent::tool::StandaloneCall;
use agent::{EventSink, Registry, TerminationReason, ToolCx, ToolResult, Toolset, call_tool, deadlines};
use llm::Content;
use policy::{Approver, Policy};
use serde_json::{Value, json};
use tokio::sync::{Mutex, broadcast};
use tokio_util::sync::CancellationToken;
use tools::ToolContext;
use workspace::{Commit, RunId, Undo};

use crate::project::{Access, Project};
use crate::request::{
    BranchReport, BranchRequest, CompactReport, CompactRequest, Outcome, PromptRequest, Reply, RequestError,
    RunReport, Stop, ToolCallRequest, reply,
};
use crate::session::unsaved::{UnsavedFiles, describe_unsaved};
use crate::session::{HostedSession, Input, SessionRequest, ended_well, open, switch_branch};

/// A project, and everything that requests to it need.
#[derive(Clone)]
pub struct RequestScope {
    pub(crate) project: Arc<Project>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) approver: Arc<dyn Approver>,
    pub(crate) context: Arc<ToolContext>,
    pub(crate) registry: Registry,
    servers: Option<Arc<ScopedServers>>,
    /// Id that owns background programs whose calls name no owner.
    starter: RunId,
}

/// Language servers of this scope alone.
///
/// The scope reports its commits to the project's own servers.
struct ScopedServers {
    pool: Arc<lsp_client::ServerPool>,
    commits: Mutex<broadcast::Receiver<Arc<Commit>>>,
}

impl RequestScope {
    /// Creates the scope of the process that opened the project, with its permission.
    pub(crate) fn own(project: &Arc<Project>) -> Self {
        Self {
            policy: Arc::new(project.policy.for_concurrent_run()),
            approver: Arc::clone(&project.frontend) as Arc<dyn Approver>,
            context: Arc::clone(&project.context),
            registry: project.registry.clone(),
            project: Arc::clone(project),
            servers: None,
            starter: RunId::new(),
        }
    }

    /// Creates a scope for a request of another process, with its permission.
    ///
    /// Blocks on the file system.
    pub(crate) fn isolated(
        project: &Arc<Project>,
        access: Access,
        approver: Arc<dyn Approver>,
    ) -> anyhow::Result<Self> {
        let commits = Mutex::new(project.workspace.subscribe());
        let policy = Arc::new(project.policy.for_request(access.yes));
        if project.policy.is_trusted() {
            policy.trust_for_now();
        }
        let pool = project.isolated_servers(&policy, &approver, access);
        let context = Arc::new(project.isolated_context(pool.as_ref(), access)?);
        let registry = crate::project::registry(&context, &project.config)?;
        let servers = pool.map(|pool| Arc::new(ScopedServers { pool, commits }));
        let project = Arc::clone(project);
        Ok(Self { project, policy, approver, context, registry, servers, starter: RunId::new() })
    }

    /// Returns the scope with another approver.
    pub(crate) fn asking(self, approver: Arc<dyn Approver>) -> Self {
        Self { approver, ..self }
    }

    pub fn project(&self) -> &Arc<Project> {
        &self.project
    }

    /// Calls one tool, as the request names it.
    pub async fn call_tool(&self, call: ToolCallRequest, cancel: &CancellationToken) -> Reply<ToolResult> {
        self.call_tool_reporting(call, |_| {}, cancel).await
    }

    /// Calls one tool; `on_update` gets its progress, and must not block.
    pub async fn call_tool_reporting(
        &self,
        call: ToolCallRequest,
        on_update: impl Fn(Update) + Send + Sync + 'static,
        cancel: &CancellationToken,
    ) -> Reply<ToolResult> {
        let ToolCallRequest { name, arguments, invoked, named, wait_ms } = call;
        if named && self.registry.get(&name).is_none() {
            let names = self.registry.names().join(", ");
            return Reply::InvalidRequest(format!("there is no tool `{name}`; there are: {names}"));
        }
        if let Some(wait) = wait_ms.map(Duration::from_millis) {
            self.context.set_settings(self.context.settings().one_shot(wait));
        }
        let arguments: Value = if arguments.is_null() { json!({}) } else { arguments };
        let cx = self.tool_context(RunId::new(), cancel, invoked, on_update);
        let mut unsaved = UnsavedFiles::watch(&self.project.workspace);
        let result = call_tool(&self.registry, &name, arguments, &cx).await;
        self.notify_project_servers().await;
        Reply::Done(with_unsaved(result, &unsaved.files(&cx.run)))
    }

    /// Undoes as `run`; without `target` redoes the last undo.
    ///
    /// Also returns the unsaved files it changed.
    pub async fn undo(
        &self,
        target: Option<&Undo>,
        run: RunId,
        cancel: &CancellationToken,
    ) -> (ToolResult, Vec<String>) {
        let cx = self.tool_context(run, cancel, true, |_| {});
        let mut unsaved = UnsavedFiles::watch(&self.project.workspace);
        let result = tools::revert(&self.context, &cx, target).await.unwrap_or_else(Into::into);
        self.notify_project_servers().await;
        (result, unsaved.files(&cx.run))
    }

    /// Undoes as [`RequestScope::undo`] does, with the unsaved files in the result.
    pub async fn undo_call(&self, target: Option<&Undo>, cancel: &CancellationToken) -> ToolResult {
        let (result, unsaved) = self.undo(target, RunId::new(), cancel).await;
        with_unsaved(result, &unsaved)
    }

    /// Opens a session. Its events go to the request's sink.
    ///
    /// # Errors
    /// When the request names what does not exist, or a directory of Pilcrow fails.
    pub async fn open_session(
        &self,
        request: SessionRequest,
        stop: Stop<'_>,
    ) -> Result<HostedSession, RequestError> {
        open(self, request, stop).await
    }

    /// Runs a prompt to its end; its events go to `sink`.
    ///
    /// # Errors
    /// When a directory of Pilcrow fails.
    pub async fn run(
        &self,
        request: PromptRequest,
        sink: Arc<dyn EventSink>,
        stop: Stop<'_>,
    ) -> anyhow::Result<Reply<RunReport>> {
        let PromptRequest { prompt, model, directory, resume, agent, wait_ms } = request;
        let input = Input::Prompt { text: prompt, subject: None };
        let directory = Some(directory);
        let edit_wait = wait_ms.map(Duration::from_millis);
        let request =
            SessionRequest { resume, model, agent, directory, edit_wait, ..SessionRequest::new(input, sink) };
        let session = match reply(self.open_session(request, stop).await)? {
            Reply::Done(session) => session,
            Reply::InvalidRequest(reason) => return Ok(Reply::InvalidRequest(reason)),
        };
        let run = session.run(stop).await;
        let unsaved = session.unsaved_files(&run.run);
        session.close().await;
        let outcome = match run.reason {
            _ if run.denied_unattended => Outcome::Denied,
            _ if ended_well(&run) => Outcome::Done,
            _ => Outcome::Failed,
        };
        let reason = run.error.unwrap_or_else(|| describe(run.reason).to_owned());
        let reason = (outcome != Outcome::Done).then_some(reason);
        Ok(Reply::Done(RunReport { outcome, reason, unsaved }))
    }

    /// Compacts a session: replaces its older messages by a summary.
    ///
    /// # Errors
    /// When a directory of Pilcrow fails.
    pub async fn compact(
        &self,
        request: CompactRequest,
        sink: Arc<dyn EventSink>,
        cancel: &CancellationToken,
    ) -> anyhow::Result<Reply<CompactReport>> {
        reply(self.compact_session(request, sink, cancel).await)
    }

    async fn compact_session(
        &self,
        request: CompactRequest,
        sink: Arc<dyn EventSink>,
        cancel: &CancellationToken,
    ) -> Result<CompactReport, RequestError> {
        let CompactRequest { session, instructions, model, directory, agent } = request;
        let id = match session {
            Some(id) => id,
            None => self.newest_session().await?,
        };
        let request = SessionRequest {
            resume: Some(id),
            model,
            agent,
            directory,
            ..SessionRequest::new(Input::None, sink)
        };
        let stop = Stop { cancel, gone: &CancellationToken::new() };
        let session = self.open_session(request, stop).await?;
        let compacted = session.session().compact(instructions).await;
        let notes = session.notes().to_vec();
        session.close().await;
        Ok(match compacted {
            Ok(compacted) => CompactReport { compacted, error: None, notes },
            Err(error) => CompactReport { compacted: false, error: Some(error.to_string()), notes },
        })
    }

    async fn newest_session(&self) -> Result<String, RequestError> {
        let store = self.project.sessions()?;
        let listed = tokio::task::spawn_blocking(move || store.list()).await??;
        let newest = listed.into_iter().next().map(|newest| newest.id);
        newest.ok_or_else(|| RequestError::Invalid("there is no session to compact yet".to_owned()))
    }

    /// Continues a session from an earlier entry; a summary replaces what follows it.
    ///
    /// # Errors
    /// When a directory of Pilcrow fails, or no summary can be made.
    pub async fn branch(
        &self,
        request: BranchRequest,
        sink: Arc<dyn EventSink>,
        cancel: &CancellationToken,
    ) -> anyhow::Result<Reply<BranchReport>> {
        reply(switch_branch(self, request, sink, cancel).await)
    }

    /// Stops the servers of this scope alone; the project stays open.
    pub async fn close(&self) {
        if let Some(servers) = &self.servers {
            servers.pool.shutdown(deadlines::SCOPED_SERVERS).await;
        }
    }

    /// Whether the project's own servers serve this scope.
    #[cfg(test)]
    pub(crate) fn shares_servers(&self) -> bool {
        self.servers.is_none()
    }

    /// Reports the commits of this scope to the project's servers.
    pub(crate) async fn notify_project_servers(&self) {
        let Some(servers) = &self.servers else { return };
        let mut commits = servers.commits.lock().await;
        loop {
            match commits.try_recv() {
                Ok(commit) => self.project.servers.did_commit(&commit).await,
                // The servers find missed changes in their next poll.
                Err(broadcast::error::TryRecvError::Lagged(_)) => {}
                Err(_) => return,
            }
        }
    }

    /// Creates the context of a tool call outside of a session.
    fn tool_context(
        &self,
        run: RunId,
        cancel: &CancellationToken,
        invoked: bool,
        on_update: impl Fn(Update) + Send + Sync + 'static,
    ) -> ToolCx {
        ToolCx::standalone(StandaloneCall {
            call_id: "call".to_owned(),
            run,
            starter: self.starter.clone(),
            cancel: cancel.clone(),
            policy: Arc::clone(&self.policy),
            approver: Arc::clone(&self.approver),
            tools: Arc::new(Toolset::searchable(Arc::new(self.registry.clone()))),
            invoked,
            on_update: Box::new(on_update),
        })
    }
}

/// Adds the unsaved files to the result.
fn with_unsaved(mut result: ToolResult, files: &[String]) -> ToolResult {
    if let Some(text) = describe_unsaved(files) {
        result.content.push(Content::text(text));
        if let Value::Object(details) = &mut result.details {
            details.insert("not_saved".to_owned(), json!(files));
        }
    }
    result
}

fn describe(reason: TerminationReason) -> &'static str {
    match reason {
        TerminationReason::Aborted => "stopped",
        TerminationReason::Disconnected => "the surface disconnected",
        TerminationReason::TimeoutTotal | TerminationReason::TimeoutIdle => "the time limit was reached",
        TerminationReason::TurnLimit => "the turn limit was reached",
        _ => "the run failed",
    }
}
