//! Code actions that servers offer for a range, and the edit or command of each.

use std::ops::Range;
use std::sync::Arc;

use paths::AbsPath;
use serde_json::{Value, json};
use workspace::{Document, WorkspaceEdit};

use super::commands::ServerCommand;
use super::document;
use crate::answer::{Answer, Diagnostic};
use crate::error::{Refusal, Result, ServerError};
use crate::note::Note;
use crate::pool::{RequestCx, ServerPool};
use crate::server::protocol::RawWorkspaceEdit;
use crate::server::request_table::Request;
use crate::server::{Clock, Server};
use adapters::{Feature, merge, unfold};

pub(super) const REQUESTS: &[Request] = &[
    Request::new("textDocument/codeAction").of(Feature::CodeAction, "codeActionProvider"),
    Request::new("textDocument/codeAction").of(Feature::FixAll, "codeActionProvider"),
    Request::new("codeAction/resolve"),
];

/// A request for code actions.
#[derive(Debug, Clone)]
pub struct ActionQuery<'a> {
    /// Bytes in the document's text.
    pub range: Range<usize>,
    /// Kinds with their subkinds, as `refactor.extract` of `refactor`; empty: any.
    pub only: &'a [&'a str],
    /// Diagnostics that the actions should fix; each server receives its own.
    pub diagnostics: &'a [Diagnostic],
}

/// A code action of a server.
#[derive(Clone)]
pub struct CodeAction {
    /// The title that the server gives it.
    pub title: String,
    /// Kind such as `quickfix`; empty for a bare command.
    pub kind: String,
    /// Whether the server prefers it.
    pub preferred: bool,
    /// Reason why it cannot be applied here.
    pub disabled: Option<String>,
    pub server: String,
    /// Whether it is only a command: its edits are known when it has run.
    pub is_command: bool,
    /// The diagnostics that it fixes, as the server sent them.
    pub fixes: Vec<Value>,
    raw: Value,
    owner: Arc<Server>,
}

/// The content of an action: an edit, then a command, either or both.
#[derive(Debug)]
pub struct Resolved {
    /// The edit, applied first.
    pub edit: Option<WorkspaceEdit>,
    /// The command, run after the edit.
    pub command: Option<ServerCommand>,
}

impl std::fmt::Debug for CodeAction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CodeAction").field("server", &self.server).field("raw", &self.raw).finish()
    }
}

impl CodeAction {
    /// Whether it is of `kind` or of a subkind.
    pub fn is(&self, kind: &str) -> bool {
        within(&self.kind, kind)
    }

    /// Whether it fixes `diagnostic`; `None` if the server does not say what it fixes.
    pub fn fixes(&self, diagnostic: &Diagnostic) -> Option<bool> {
        let known = diagnostic.raw.value();
        let same =
            |raw: &Value| ["range", "message", "code"].iter().all(|key| raw.get(key) == known.get(key));
        (!self.fixes.is_empty()).then(|| self.fixes.iter().any(same))
    }
}

fn within(kind: &str, outer: &str) -> bool {
    outer.is_empty() || kind == outer || kind.strip_prefix(outer).is_some_and(|rest| rest.starts_with('.'))
}

impl ServerPool {
    /// The code actions of a file's servers, in their order.
    ///
    /// A note names each server that did not answer.
    ///
    /// # Errors
    /// [`ServerError`] when none answered.
    pub async fn code_actions(
        self: &Arc<Self>,
        doc: &Document,
        query: &ActionQuery<'_>,
        cx: &RequestCx,
    ) -> Result<Answer<Vec<CodeAction>>> {
        let clock = cx.clock();
        let (servers, problems) = self.pick_all(&doc.path, Feature::CodeAction, clock).await?;
        let mut notes: Vec<Note> = problems.into_iter().map(Note::Failed).collect();
        let asks = servers.iter().map(|server| offered(server, doc, query, clock));
        let answers = futures_util::future::join_all(asks).await;
        let mut actions = Vec::new();
        let mut first = None;
        for (server, answer) in servers.iter().zip(answers) {
            match answer {
                Ok((found, note)) => {
                    actions.extend(found);
                    notes.extend(note.or_else(|| server.note()));
                }
                Err(ServerError::Cancelled) => return Err(ServerError::Cancelled),
                Err(error) => {
                    notes.push(Note::Failed(error.clone()));
                    first = first.or(Some(error));
                }
            }
        }
        match first {
            Some(error) if servers.len() == 1 => Err(error),
            _ => {
                let server = servers.iter().map(|server| server.name()).collect::<Vec<_>>().join(", ");
                Ok(Answer { value: actions, server, notes })
            }
        }
    }

    /// Resolves an action for the text that it was offered for.
    ///
    /// # Errors
    /// [`ServerError`]; `Refused` for one that is disabled.
    pub async fn resolve_action(
        self: &Arc<Self>,
        doc: &Document,
        action: &CodeAction,
        cx: &RequestCx,
    ) -> Result<Resolved> {
        let clock = cx.clock();
        let server = &action.owner;
        if let Some(reason) = &action.disabled {
            let (title, reason) = (action.title.clone(), reason.clone());
            return Err(server.refused(Refusal::DisabledAction { title, reason }));
        }
        // A bare `Command` is not an action and cannot be resolved.
        if let Some(command) = action.raw["command"].as_str() {
            let command = ServerCommand::new(server, command, action.raw["arguments"].clone());
            return Ok(Resolved { edit: None, command: Some(command) });
        }
        let resolves = {
            let capabilities = server.core.capabilities();
            let provider = capabilities.provider("codeActionProvider", "textDocument/codeAction");
            provider.is_some_and(|options| options["resolveProvider"] == true)
        };
        let has_edit = |action: &Value| action.get("edit").is_some_and(|edit| !edit.is_null());
        let has_command = action.raw.get("command").is_some_and(|command| !command.is_null());
        // An action with a command and without `data` is complete.
        let lazy = action.raw.get("data").is_some() || (resolves && !has_command);
        let unresolved = !has_edit(&action.raw) && lazy;
        // The server must have the requested text even if nothing is resolved.
        let (raw, snapshot) = if unresolved {
            let asked = server.ask(Some(doc), "codeAction/resolve", clock, |_, _| action.raw.clone()).await?;
            let raw: Value = server.read(&asked.method, &asked.raw)?;
            (raw, asked)
        } else {
            server.open(doc, clock).await?;
            let asked = server.as_it_is("textDocument/codeAction");
            (action.raw.clone(), asked)
        };
        let edit = match raw.get("edit").filter(|edit| !edit.is_null()) {
            Some(edit) => {
                let edit: RawWorkspaceEdit = serde_json::from_value(edit.clone())
                    .map_err(|error| server.protocol(&snapshot.method, error.to_string()))?;
                Some(snapshot.workspace_edit(server, edit, action.title.clone())?)
            }
            None => None,
        };
        let command = raw["command"]["command"]
            .as_str()
            .map(|name| ServerCommand::new(server, name, raw["command"]["arguments"].clone()));
        if edit.is_none() && command.is_none() {
            return Err(server.refused(Refusal::EmptyAction(action.title.clone())));
        }
        Ok(Resolved { edit, command })
    }
}

impl ServerPool {
    /// Whether an action moves a symbol to a file that its command must name.
    pub fn takes_move_target(&self, action: &CodeAction) -> bool {
        let rule = action.owner.core.definition.move_symbol.as_ref();
        rule.is_some_and(|rule| action.is(&rule.kind))
    }

    /// Sets the target file of a move, where the definition says how.
    pub fn set_move_target(&self, command: &mut ServerCommand, to: &AbsPath) {
        let rule = command.owner().core.definition.move_symbol.clone();
        if let (Some(rule), Some(argument)) = (rule, command.arguments.get_mut(0)) {
            merge(argument, unfold(json!({rule.argument: to.to_string()})));
        }
    }

    /// Shows the current text of an open document to servers after a speculative edit.
    pub async fn show(self: &Arc<Self>, doc: &Document, cx: &RequestCx) {
        for server in self.use_running() {
            let has_it = server.core.documents().paths().contains(&doc.path);
            if has_it && let Err(error) = server.open(doc, cx.clock()).await {
                tracing::debug!(server = server.name(), %error, "cannot show the current text");
            }
        }
    }
}

async fn offered(
    server: &Arc<Server>,
    doc: &Document,
    query: &ActionQuery<'_>,
    clock: Clock<'_>,
) -> Result<(Vec<CodeAction>, Option<Note>)> {
    server.wait_ready(Some(doc), clock).await?;
    let own = query.diagnostics.iter().filter(|item| item.server == server.name());
    let own: Vec<Value> = own.map(|item| item.raw.value()).collect();
    let ask = server.ask(Some(doc), "textDocument/codeAction", clock, |synced, encoding| {
        let range = synced.map(|synced| synced.view.protocol_range(&query.range, encoding));
        let mut context = json!({"diagnostics": own, "triggerKind": 1});
        if !query.only.is_empty() {
            context["only"] = json!(query.only);
        }
        json!({"textDocument": document(synced), "range": range, "context": context})
    });
    let asked = ask.await?;
    let raw: Option<Vec<Value>> = server.read(&asked.method, &asked.raw)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let actions = raw.unwrap_or_default().into_iter().map(|raw| CodeAction {
        title: text(&raw["title"]),
        kind: text(&raw["kind"]),
        preferred: raw["isPreferred"] == true,
        disabled: raw["disabled"]["reason"].as_str().map(str::to_owned),
        server: server.name().to_owned(),
        is_command: raw.get("edit").is_none_or(Value::is_null)
            && raw.get("command").is_some_and(|command| !command.is_null()),
        fixes: raw["diagnostics"].as_array().cloned().unwrap_or_default(),
        owner: Arc::clone(server),
        raw,
    });
    // Some servers ignore `only`.
    let wanted = |action: &CodeAction| query.only.is_empty() || query.only.iter().any(|kind| action.is(kind));
    Ok((actions.filter(wanted).collect(), asked.note))
}

#[cfg(test)]
mod tests {
    use super::within;

    #[test]
    fn kinds_include_their_subkinds() {
        assert!(within("refactor.extract.function", "refactor.extract") && within("quickfix", ""));
        assert!(!within("refactor.extractor", "refactor.extract") && !within("refactor", "refactor.extract"));
    }
}
