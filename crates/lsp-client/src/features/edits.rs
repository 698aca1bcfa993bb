//! Edits of one file: formatting and organized imports.

use std::ops::Range;
use std::sync::Arc;

use serde_json::{Value, json};
use workspace::{Document, Operation, WorkspaceEdit};

use super::{answer, document};
use crate::answer::Answer;
use crate::error::{Refusal, Result};
use crate::pool::{RequestCx, ServerPool};
use crate::server::documents::Synced;
use crate::server::protocol::{Edit, RawWorkspaceEdit};
use crate::server::request_table::Request;
use adapters::Feature;

pub(super) const REQUESTS: &[Request] = &[
    Request::new("textDocument/formatting")
        .of(Feature::Format, "documentFormattingProvider")
        .announced("formatting"),
    Request::new("textDocument/rangeFormatting").announced("rangeFormatting"),
    Request::new("textDocument/codeAction").of(Feature::OrganizeImports, "codeActionProvider"),
];

impl ServerPool {
    /// Formats a file, or a range of it in bytes; the edit is empty if nothing changes.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn format(
        self: &Arc<Self>,
        doc: &Document,
        range: Option<Range<usize>>,
        cx: &RequestCx,
    ) -> Result<Answer<WorkspaceEdit>> {
        let clock = cx.clock();
        let server = self.pick(&doc.path, Feature::Format, clock).await?;
        let whole = server.core.definition.format_by_range.then(|| 0..doc.text.len());
        let range = range.or(whole);
        let method = match range {
            None => "textDocument/formatting",
            Some(_) => "textDocument/rangeFormatting",
        };
        if range.is_some() {
            let offered =
                server.core.capabilities().provider("documentRangeFormattingProvider", method).is_some();
            if !offered {
                return Err(server.refused(Refusal::RangeFormatting));
            }
        }
        let options = indentation(&doc.text);
        let ask = server.ask(Some(doc), method, clock, |synced, encoding| {
            let mut params = json!({"textDocument": document(synced), "options": options});
            if let (Some(range), Some(synced)) = (&range, synced) {
                params["range"] = json!(synced.view.protocol_range(range, encoding));
            }
            params
        });
        let asked = ask.await?;
        let edits: Option<Vec<Edit>> = server.read(method, &asked.raw)?;
        let label = format!("format {}", self.workspace.relative(&doc.path));
        let mut edit = WorkspaceEdit { label, ..WorkspaceEdit::default() };
        if let Some(synced) = asked.snapshot.get(&doc.path) {
            let bytes = asked
                .converter(&server)
                .bytes(&doc.path, &synced.view, &edits.unwrap_or_default())
                .map_err(|problem| {
                server.refused(Refusal::Edit { method: method.to_owned(), problem: problem.into() })
            })?;
            if !bytes.is_empty() {
                let (path, expected) = (doc.path.clone(), synced.version);
                edit.operations.push(Operation::Edit { path, expected, edits: bytes });
            }
        }
        Ok(answer(&server, &asked, edit))
    }

    /// The edit that sorts a file's imports and removes unused ones, or an empty edit.
    ///
    /// # Errors
    /// [`ServerError`]; `Refused` if the server offers it only as a command that edits files itself.
    pub async fn organize_imports(
        self: &Arc<Self>,
        doc: &Document,
        cx: &RequestCx,
    ) -> Result<Answer<WorkspaceEdit>> {
        const KIND: &str = "source.organizeImports";
        let clock = cx.clock();
        let server = self.pick(&doc.path, Feature::OrganizeImports, clock).await?;
        server.wait_ready(Some(doc), clock).await?;
        let params = |synced: Option<&Synced>, encoding| {
            let range =
                synced.map(|synced| synced.view.protocol_range(&(0..synced.view.text.len()), encoding));
            json!({
                "textDocument": document(synced),
                "range": range,
                "context": {"diagnostics": [], "only": [KIND], "triggerKind": 1},
            })
        };
        let asked = server.ask(Some(doc), "textDocument/codeAction", clock, params).await?;
        let actions: Option<Vec<Value>> = server.read(&asked.method, &asked.raw)?;
        let label = format!("organize imports of {}", self.workspace.relative(&doc.path));
        let ours = |action: &Value| {
            let kind = action["kind"].as_str().unwrap_or_default();
            kind == KIND || kind.strip_prefix(KIND).is_some_and(|rest| rest.starts_with('.'))
        };
        let enabled = |action: &Value| action.get("disabled").is_none_or(Value::is_null);
        let mut actions = actions.unwrap_or_default().into_iter();
        let Some(mut action) = actions.find(|action| ours(action) && enabled(action)) else {
            return Ok(answer(&server, &asked, WorkspaceEdit { label, ..WorkspaceEdit::default() }));
        };
        let mut from = asked;
        if action.get("edit").is_none_or(Value::is_null) && action.get("data").is_some() {
            from = server.ask(Some(doc), "codeAction/resolve", clock, |_, _| action.clone()).await?;
            action = server.read(&from.method, &from.raw)?;
        }
        match action.get("edit") {
            Some(edit) if !edit.is_null() => {
                let raw: RawWorkspaceEdit = serde_json::from_value(edit.clone())
                    .map_err(|error| server.protocol(&from.method, error.to_string()))?;
                Ok(answer(&server, &from, from.workspace_edit(&server, raw, label)?))
            }
            _ => Err(server.refused(Refusal::ImportsByCommand)),
        }
    }
}

/// `FormattingOptions` from the indentation of the text; four spaces by default.
fn indentation(text: &str) -> Value {
    let indented = text.lines().filter_map(|line| {
        let rest = line.trim_start_matches([' ', '\t']);
        let indent = &line[..line.len() - rest.len()];
        (!rest.is_empty() && !indent.is_empty()).then_some(indent)
    });
    let (mut tabs, mut spaces, mut width) = (0, 0, usize::MAX);
    for indent in indented.take(1000) {
        if indent.starts_with('\t') {
            tabs += 1;
        } else {
            spaces += 1;
            // A single space is usually inside a comment, not an indentation level.
            if indent.len() > 1 {
                width = width.min(indent.len());
            }
        }
    }
    let size = if (2..=8).contains(&width) { width } else { 4 };
    json!({"tabSize": size, "insertSpaces": tabs <= spaces})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indentation_is_that_of_the_text() {
        let check = |text: &str, size: usize, spaces: bool| {
            assert_eq!(indentation(text), json!({"tabSize": size, "insertSpaces": spaces}), "{text:?}");
        };
        check("", 4, true);
        check("a\n  b\n    c\n", 2, true);
        check("a\n\tb\n", 4, false);
        check("/**\n * x\n */\nf() {\n    y\n}\n", 4, true);
    }
}
