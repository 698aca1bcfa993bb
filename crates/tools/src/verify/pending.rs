//! Checks of a session's edits: the pending one, the newest diagnostics of each file, and the notices shown.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, OnceLock, Weak};

use agent::tool::Origin;
use agent::{ExecutionMode, Presence, Tool, ToolCx, ToolResult};
use futures_util::future::BoxFuture;
use llm::{Content, ToolDefinition};
use lsp_client::{Diagnostic, Diagnostics, ServerPool};
use parking_lot::Mutex;
use paths::AbsPath;
use policy::Effects;
use serde_json::Value;
use workspace::Document;

use super::watch::Watch;
use super::{Verdict, problems};
use crate::ToolContext;

/// Complete answers that are kept; the oldest is dropped first.
const MAX_KNOWN: usize = 200;

/// The pending check of an edit, and what a session knows of earlier ones.
#[derive(Default)]
pub struct Pending {
    context: OnceLock<Weak<ToolContext>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    newest: u64,
    watch: Option<Watch>,
    known: Vec<Known>,
    /// Notices of servers that a result has shown.
    notices: HashSet<String>,
}

/// The complete diagnostics of a server for a text.
struct Known {
    path: AbsPath,
    server: String,
    text: Arc<str>,
    items: Vec<Diagnostic>,
}

impl Pending {
    /// Sets the context for checks in the background.
    pub(crate) fn set_context(&self, context: &Arc<ToolContext>) {
        self.context.get_or_init(|| Arc::downgrade(context));
    }

    pub(super) fn context(&self) -> Option<Arc<ToolContext>> {
        self.context.get()?.upgrade()
    }

    /// Keeps a check until a later result has shown its end.
    pub(super) fn put(&self, watch: Watch) {
        let mut state = self.state.lock();
        state.newest += 1;
        state.watch = (!watch.is_done()).then_some(watch);
    }

    /// Stops the check of an earlier edit; the next one takes its files over.
    pub(super) fn stop(&self) {
        if let Some(watch) = &self.state.lock().watch {
            watch.stop();
        }
    }

    pub(super) fn take(&self) -> Option<Watch> {
        self.state.lock().watch.take()
    }

    /// Keeps the complete diagnostics of a server.
    pub(super) fn learn(&self, document: &Document, server: &str, items: Vec<Diagnostic>) {
        let known = &mut self.state.lock().known;
        known.retain(|it| it.path != document.path || it.server != server);
        let (path, text) = (document.path.clone(), Arc::clone(&document.text));
        known.push(Known { path, server: server.to_owned(), text, items });
        let over = known.len().saturating_sub(MAX_KNOWN);
        known.drain(..over);
    }

    /// Keeps the complete diagnostics of all servers that answered.
    pub(crate) fn learn_all(&self, document: &Document, found: &Diagnostics, servers: &ServerPool) {
        for server in &found.answered {
            let own = found.items.iter().filter(|it| it.server == *server && !servers.is_inferred(it));
            self.learn(document, server, problems(own.cloned().collect()));
        }
    }

    /// The complete diagnostics of a text, by server.
    pub(super) fn known(&self, path: &AbsPath, text: &Arc<str>) -> BTreeMap<String, Vec<Diagnostic>> {
        let state = self.state.lock();
        let known = state.known.iter().filter(|it| it.path == *path && it.text == *text);
        known.map(|it| (it.server.clone(), it.items.clone())).collect()
    }

    /// Whether a notice was not shown yet.
    pub(super) fn is_new(&self, notice: &str) -> bool {
        self.state.lock().notices.insert(notice.to_owned())
    }

    /// The number of the newest check.
    fn newest(&self) -> u64 {
        self.state.lock().newest
    }

    /// The unreported result of the check with this number, and the label of its edit.
    fn late(&self, number: u64, context: &ToolContext) -> Option<(String, Verdict)> {
        // Rendering asks whether notices are new.
        let watch = {
            let mut state = self.state.lock();
            if state.newest != number {
                return None;
            }
            state.watch.take()?
        };
        let late = watch.render_late(context);
        if !watch.is_done() {
            self.state.lock().watch = Some(watch);
        }
        late
    }
}

/// A tool whose results include late diagnostics of an earlier edit.
pub(crate) struct ReportsPending {
    pub tool: Arc<dyn Tool>,
    pub context: Arc<ToolContext>,
}

impl Tool for ReportsPending {
    fn definition(&self) -> &ToolDefinition {
        self.tool.definition()
    }

    fn effects(&self, args: &Value) -> Effects {
        self.tool.effects(args)
    }

    fn unnamed_arguments(&self) -> &[&str] {
        self.tool.unnamed_arguments()
    }

    fn aliases(&self) -> &[&str] {
        self.tool.aliases()
    }

    fn presence(&self) -> Presence {
        self.tool.presence()
    }

    fn forget(&self, result: &str) {
        self.tool.forget(result);
    }

    fn recall(&self, results: &[(&str, &str)]) {
        self.tool.recall(results);
    }

    fn origin(&self) -> Origin {
        self.tool.origin()
    }

    fn execution_mode(&self) -> ExecutionMode {
        self.tool.execution_mode()
    }

    fn execute<'a>(&'a self, args: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let newest = self.context.pending.newest();
            let mut result = self.tool.execute(args, cx).await;
            // An edit includes the files of the earlier check in its own.
            if let Some((label, verdict)) = self.context.pending.late(newest, &self.context) {
                result.content.push(Content::text(format!("later, of {label}:\n{}", verdict.text)));
                if let Value::Object(details) = &mut result.details {
                    details.insert("earlier".to_owned(), verdict.details);
                }
            }
            result
        })
    }
}
