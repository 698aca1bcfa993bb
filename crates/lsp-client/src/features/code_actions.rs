//! Code actions: what servers offer for a range, and what one of them comes to.

use std::ops::Range;
use std::sync::Arc;

use serde_json::{Value, json};
use workspace::{AbsPath, Document, ErrorCode, WorkspaceEdit};

use super::commands::ServerCommand;
use super::document;
use crate::answer::{Answer, Diagnostic};
use crate::definition::{Feature, merge, unfold};
use crate::error::ServerError;
use crate::pool::{RequestCx, ServerPool};
use crate::protocol::RawWorkspaceEdit;
use crate::server::{Clock, Server};

/// What actions are asked for.
#[derive(Debug, Clone)]
pub struct ActionQuery<'a> {
    /// Bytes in the document's text.
    pub range: Range<usize>,
    /// Kinds, each with those below it (`refactor` holds `refactor.extract`); empty: any.
    pub only: &'a [&'a str],
    /// Problems that the actions are to be about; each server is given its own.
    pub diagnostics: &'a [Diagnostic],
}

/// Something that a server offers to do.
#[derive(Clone)]
pub struct CodeAction {
    /// What it does, for people.
    pub title: String,
    /// `quickfix`, `refactor.extract.function`, …; empty for a bare command.
    pub kind: String,
    /// The server would choose it.
    pub preferred: bool,
    /// Why it cannot be done here.
    pub disabled: Option<String>,
    /// The definition's name.
    pub server: String,
    /// It is a command: what it changes is known when it has run.
    pub is_command: bool,
    /// The problems that it mends, as they came.
    pub mends: Vec<Value>,
    raw: Value,
    owner: Arc<Server>,
}

/// What an action comes to: an edit, then a command, either or both.
#[derive(Debug)]
pub struct Resolved {
    /// To be made first.
    pub edit: Option<WorkspaceEdit>,
    /// To be run after it.
    pub command: Option<ServerCommand>,
}

impl std::fmt::Debug for CodeAction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CodeAction").field("server", &self.server).field("raw", &self.raw).finish()
    }
}

impl CodeAction {
    /// Whether it is of `kind` or of one below it.
    pub fn is(&self, kind: &str) -> bool {
        within(&self.kind, kind)
    }

    /// Whether it says that it mends `diagnostic`; `None` when it does not say what it mends.
    pub fn mends(&self, diagnostic: &Diagnostic) -> Option<bool> {
        let known = diagnostic.raw.value();
        let same =
            |raw: &Value| ["range", "message", "code"].iter().all(|key| raw.get(key) == known.get(key));
        (!self.mends.is_empty()).then(|| self.mends.iter().any(same))
    }
}

fn within(kind: &str, outer: &str) -> bool {
    outer.is_empty() || kind == outer || kind.strip_prefix(outer).is_some_and(|rest| rest.starts_with('.'))
}

impl ServerPool {
    /// What the servers of a file offer, in their order. A server that did not answer is in the note.
    ///
    /// # Errors
    /// [`ServerError`] when none answered.
    pub async fn code_actions(
        self: &Arc<Self>,
        doc: &Document,
        query: &ActionQuery<'_>,
        cx: &RequestCx,
    ) -> Result<Answer<Vec<CodeAction>>, ServerError> {
        let clock = cx.clock();
        let (servers, problems) = self.pick_all(&doc.path, Feature::CodeAction, clock).await?;
        let mut notes: Vec<String> = problems.iter().map(ServerError::to_string).collect();
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
                    notes.push(error.to_string());
                    first = first.or(Some(error));
                }
            }
        }
        match first {
            Some(error) if servers.len() == 1 => Err(error),
            _ => {
                let server = servers.iter().map(|server| server.name()).collect::<Vec<_>>().join(", ");
                let note = (!notes.is_empty()).then(|| notes.join("; "));
                Ok(Answer { value: actions, server, note })
            }
        }
    }

    /// What `action` comes to, for the text that it was offered for.
    ///
    /// # Errors
    /// [`ServerError`]; `Refused` for one that is disabled.
    pub async fn resolve_action(
        self: &Arc<Self>,
        doc: &Document,
        action: &CodeAction,
        cx: &RequestCx,
    ) -> Result<Resolved, ServerError> {
        let clock = cx.clock();
        let server = &action.owner;
        if let Some(reason) = &action.disabled {
            let message = format!("{:?} cannot be done here: {reason}", action.title);
            return Err(server.refused(ErrorCode::NotApplied, message));
        }
        // A bare `Command` is no action that could be resolved.
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
        // One with a command and nothing to find the rest by is whole.
        let lazy = action.raw.get("data").is_some() || (resolves && !has_command);
        let unresolved = !has_edit(&action.raw) && lazy;
        // Also when nothing is resolved the server has to have the text as it was asked about.
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
            let message = format!("{:?} comes to no edit and no command", action.title);
            return Err(server.refused(ErrorCode::NotApplied, message));
        }
        Ok(Resolved { edit, command })
    }
}

impl ServerPool {
    /// Whether an action moves a symbol to a file that its command has to name.
    pub fn takes_move_target(&self, action: &CodeAction) -> bool {
        let rule = action.owner.core.definition.move_symbol.as_ref();
        rule.is_some_and(|rule| action.is(&rule.kind))
    }

    /// Names the file to which a symbol is to be moved, where the server's definition says how.
    pub fn set_move_target(&self, command: &mut ServerCommand, to: &AbsPath) {
        let rule = command.owner().core.definition.move_symbol.clone();
        if let (Some(rule), Some(argument)) = (rule, command.arguments.get_mut(0)) {
            merge(argument, unfold(json!({rule.argument: to.to_string()})));
        }
    }

    /// Makes the servers that have a document open see it as it is now: after they were shown a text
    /// that was only tried.
    pub async fn show(self: &Arc<Self>, doc: &Document, cx: &RequestCx) {
        for server in self.use_running() {
            let has_it = server.core.documents().paths().contains(&doc.path);
            if has_it && let Err(error) = server.open(doc, cx.clock()).await {
                tracing::debug!(server = server.name(), %error, "not shown the text as it is");
            }
        }
    }
}

async fn offered(
    server: &Arc<Server>,
    doc: &Document,
    query: &ActionQuery<'_>,
    clock: Clock<'_>,
) -> Result<(Vec<CodeAction>, Option<String>), ServerError> {
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
        mends: raw["diagnostics"].as_array().cloned().unwrap_or_default(),
        owner: Arc::clone(server),
        raw,
    });
    // Not every server heeds `only`.
    let wanted = |action: &CodeAction| query.only.is_empty() || query.only.iter().any(|kind| action.is(kind));
    Ok((actions.filter(wanted).collect(), asked.note))
}

#[cfg(test)]
mod tests {
    use super::within;

    #[test]
    fn kinds_hold_those_below_them() {
        assert!(within("refactor.extract.function", "refactor.extract") && within("quickfix", ""));
        assert!(!within("refactor.extractor", "refactor.extract") && !within("refactor", "refactor.extract"));
    }
}
