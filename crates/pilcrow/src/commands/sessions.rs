//! `pilcrow sessions`: past conversations of a project.

use agent::store::{EntryBody, LoadedSession};
use llm::{Content, Message};
use serde_json::json;

use super::Exit;
use crate::project::{Access, Project};
use crate::{cli, output};

/// Lists them, newest first.
pub fn list(project: &cli::Project, as_json: bool) -> anyhow::Result<Exit> {
    let project = Project::open(project, Access { yes: false, keep: false, trusted: false })?;
    let sessions = project.sessions()?.list()?;
    for session in &sessions {
        if as_json {
            output::json(&json!({
                "id": session.id, "created": session.created, "last_active": session.last_active,
                "messages": session.messages, "title": session.title,
            }));
        } else {
            let title = &session.title;
            output::line(&format!(
                "{}  {}  {} messages  {title}",
                session.id, session.last_active, session.messages
            ));
        }
    }
    if sessions.is_empty() && !as_json {
        output::note("there are no sessions yet");
    }
    Ok(Exit::Done)
}

/// Shows one: the newest, or the one whose id begins with `id`.
pub fn show(id: Option<&str>, project: &cli::Project, as_json: bool) -> anyhow::Result<Exit> {
    let project = Project::open(project, Access { yes: false, keep: false, trusted: false })?;
    let store = project.sessions()?;
    let all = store.list()?;
    let found: Vec<_> = all.iter().filter(|session| id.is_none_or(|id| session.id.starts_with(id))).collect();
    let session = match (found.as_slice(), id) {
        ([], None) => {
            output::note("pilcrow: there are no sessions yet");
            return Ok(Exit::Failed);
        }
        ([], Some(id)) => {
            output::note(&format!(
                "pilcrow: no session's id begins with {id}; `pilcrow sessions list` shows them"
            ));
            return Ok(Exit::Failed);
        }
        ([_, _, ..], Some(id)) => {
            output::note(&format!("pilcrow: {} sessions begin with {id}; give more of the id", found.len()));
            return Ok(Exit::Failed);
        }
        ([newest, ..], _) => store.load(&newest.id)?,
    };
    for warning in &session.warnings {
        output::note(&format!("pilcrow: {warning}"));
    }
    if as_json {
        for message in session.context() {
            output::json(&message);
        }
    } else {
        output::line(&transcript(&session));
    }
    Ok(Exit::Done)
}

fn transcript(session: &LoadedSession) -> String {
    let mut out =
        format!("session {} in {} ({})\n", session.header.id, session.header.cwd, session.header.timestamp);
    for entry in &session.entries {
        let EntryBody::Message(message) = &entry.body else { continue };
        let who = match message.as_ref() {
            Message::User(_) => "person".to_owned(),
            Message::Assistant(message) => message.model.clone(),
            Message::ToolResult(result) if result.is_error => format!("{} failed", result.tool_name),
            Message::ToolResult(result) => result.tool_name.clone(),
        };
        out.push_str(&format!("\n[{who}]\n"));
        for content in message.content() {
            match content {
                Content::Text { text, .. } => out.push_str(&format!("{}\n", text.trim_end())),
                Content::ToolCall(call) => {
                    out.push_str(&format!(
                        "→ {} {}\n",
                        call.name,
                        serde_json::Value::Object(call.arguments.clone())
                    ));
                }
                Content::Thinking { thinking, .. } => out.push_str(&format!("({})\n", thinking.trim_end())),
                Content::Image { mime_type, .. } => out.push_str(&format!("(a picture, {mime_type})\n")),
            }
        }
    }
    out
}
