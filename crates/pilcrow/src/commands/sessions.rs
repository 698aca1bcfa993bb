//! `pilcrow sessions`: lists, shows, searches and manages the sessions of a
//! project.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent::store::{EntryBody, ImportedSession, LoadedSession, NEWEST, SessionStore, StoreError};
use agent::{Envelope, Event, EventSink};
use anyhow::Context;
use futures_util::future::BoxFuture;
use host::{Access, BranchReport, BranchRequest, Outcome, Project, Reply};
use paths::{StateDir, StateError};
use serde_json::json;
use session_search::{SearchError, SessionSearch};

use super::run::{self, RunOptions};
use super::{export, wrong_use};
use crate::render::Format;
use crate::{cli, open, output, stop};

fn open_store(project: &cli::Project) -> anyhow::Result<(Arc<Project>, SessionStore)> {
    let project = open::open(project, Access::default())?;
    let store = project.sessions()?;
    Ok((project, store))
}

pub async fn perform(command: cli::Sessions, target: cli::CommandTarget) -> anyhow::Result<Outcome> {
    let opened = || open_store(&target.project);
    let as_json = target.json;
    let done = match command {
        cli::Sessions::Resume { id, prompt, execution, consent, model } => {
            let (id, prompt) = resumed(id, prompt);
            let format = Format::default();
            let options = RunOptions { resume: Some(id), consent, model, format, wait_ms: None };
            run::run(prompt, &cli::CallArgs { target, execution }, options).await
        }
        cli::Sessions::Compact { id, instructions, execution, model } => {
            let args = cli::CallArgs { target, execution };
            run::compact(id, &instructions.unwrap_or_default(), &args, model).await
        }
        cli::Sessions::Branch { id, entry, instructions, model } => {
            let instructions = instructions.unwrap_or_default();
            let directory = Some(std::path::absolute(".")?);
            branch(BranchRequest { session: id, entry, instructions, model, directory }, &target).await
        }
        cli::Sessions::List => list(&opened()?.1, as_json),
        cli::Sessions::Show { id } => show(&opened()?.1, id.as_deref(), as_json),
        cli::Sessions::Tree { id } => tree(&opened()?.1, id.as_deref(), as_json),
        cli::Sessions::Label { id, entry, label } => self::label(&opened()?.1, &id, &entry, label.as_deref()),
        cli::Sessions::Fork { id, entry } => {
            let (project, store) = opened()?;
            let cwd = project.workspace.root().to_string();
            fork(&store, &id, entry.as_deref(), &cwd, as_json)
        }
        cli::Sessions::Import { files } => {
            let (project, store) = opened()?;
            import(&store, &files, project.workspace.root().as_path(), as_json)
        }
        cli::Sessions::Export { id, format } => export(&opened()?.1, id.as_deref(), format),
        cli::Sessions::Delete { ids } => {
            let (project, store) = opened()?;
            let done = delete(&project, &store, &ids);
            let index = index_directory(project.workspace.state());
            index
                .and_then(|index| session_search::forget(&index))
                .context("the search index still contains the deleted sessions")?;
            done
        }
        cli::Sessions::Search { query, limit, all } => {
            search(&opened()?.0, &query.join(" "), limit.get(), all, as_json)
        }
    };
    done.or_else(|error| {
        let is_usage_error = error.downcast_ref().is_some_and(StoreError::is_usage_error)
            || matches!(error.downcast_ref(), Some(SearchError::NoWords));
        if is_usage_error { Ok(wrong_use(&error.to_string())) } else { Err(error) }
    })
}

/// The session and the prompt of `sessions resume`.
///
/// One argument that is not an id is a prompt for the newest session.
fn resumed(id: String, prompt: Option<String>) -> (String, Option<String>) {
    let is_id = id == NEWEST || id.chars().all(|character| character.is_ascii_hexdigit() || character == '-');
    if prompt.is_some() || is_id { (id, prompt) } else { (NEWEST.to_owned(), Some(id)) }
}

/// Loads the session `id`, or the newest.
fn load(store: &SessionStore, id: Option<&str>) -> anyhow::Result<Option<LoadedSession>> {
    let id = match id {
        Some(id) => id.to_owned(),
        None => match store.list()?.into_iter().next() {
            Some(newest) => newest.id,
            None => {
                output::note("pilcrow: there are no sessions yet");
                return Ok(None);
            }
        },
    };
    let session = store.load(&id)?;
    warn(&session);
    Ok(Some(session))
}

fn warn(session: &LoadedSession) {
    for warning in &session.warnings {
        output::note(&format!("pilcrow: {warning}"));
    }
}

fn list(store: &SessionStore, as_json: bool) -> anyhow::Result<Outcome> {
    let sessions = store.list()?;
    for session in &sessions {
        if as_json {
            output::json(&json!({
                "id": session.id, "created": session.created, "last_active": session.last_active,
                "messages": session.messages, "title": session.title,
                "tokens": session.usage.total_tokens,
                "cost": session.usage.cost.map(agent::Cost::in_dollars),
                "parent_session": session.parent_session, "branch_point": session.branch_point,
            }));
        } else {
            let forked = match &session.parent_session {
                Some(parent) => format!("  (from {parent})"),
                None => String::new(),
            };
            let cost = match session.usage.cost {
                Some(cost) => format!("  {cost}"),
                None if session.usage.total_tokens > 0 || session.usage.uncounted => {
                    "  cost unknown".to_owned()
                }
                None => String::new(),
            };
            output::conversation(&format!(
                "{}  {}  {} messages{cost}  {}{forked}",
                session.id, session.last_active, session.messages, session.title
            ));
        }
    }
    if sessions.is_empty() && !as_json {
        output::note("there are no sessions yet");
    }
    Ok(Outcome::Done)
}

fn show(store: &SessionStore, id: Option<&str>, as_json: bool) -> anyhow::Result<Outcome> {
    let Some(session) = load(store, id)? else { return Ok(Outcome::Failed) };
    if as_json {
        session.context().iter().for_each(output::json);
    } else {
        output::conversation(&export::text(&session));
        if let Some(usage) = super::run::describe_usage(&session.usage()) {
            output::conversation(&usage);
        }
    }
    Ok(Outcome::Done)
}

fn tree(store: &SessionStore, id: Option<&str>, as_json: bool) -> anyhow::Result<Outcome> {
    let Some(session) = load(store, id)? else { return Ok(Outcome::Failed) };
    for line in session.tree() {
        let entry = &session.entries[line.entry];
        let text = describe_entry(&session, entry);
        if as_json {
            output::json(&json!({
                "id": entry.id, "parent": entry.parent_id, "depth": line.depth, "type": entry.kind,
                "at": entry.timestamp, "current": line.is_current, "label": line.label, "text": text,
            }));
        } else {
            let mark = if line.is_current { '*' } else { ' ' };
            let label = line.label.map(|label| format!("  <{label}>")).unwrap_or_default();
            output::conversation(&format!("{mark} {}{}  {text}{label}", "  ".repeat(line.depth), entry.id));
        }
    }
    Ok(Outcome::Done)
}

/// Renders an entry in one short line.
fn describe_entry(session: &LoadedSession, entry: &agent::store::Entry) -> String {
    let brief = |text: &str| {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.chars().count() > 80 { text.chars().take(80).chain(['…']).collect() } else { text }
    };
    match session.body(entry) {
        Ok(EntryBody::Message(message)) => {
            let calls = message.content().iter().filter_map(|content| match content {
                agent::Content::ToolCall(call) => Some(format!("→ {}", call.name)),
                _ => None,
            });
            let calls: Vec<String> = calls.collect();
            format!("{}: {}", message.role(), brief(&format!("{} {}", message.text(), calls.join(" "))))
        }
        Ok(EntryBody::Compaction { summary, .. }) => format!("compacted: {}", brief(&summary)),
        Ok(EntryBody::BranchSummary { summary, .. }) => format!("from another branch: {}", brief(&summary)),
        Ok(EntryBody::Label { target, label }) => match label {
            Some(label) => format!("{target} has the label {label:?}"),
            None => format!("{target} lost its label"),
        },
        Ok(EntryBody::Info { name }) => format!("name: {}", name.unwrap_or_default()),
        Ok(EntryBody::ModelChange { provider, model }) => format!("model: {provider}/{model}"),
        Ok(EntryBody::ToolActivation(tools)) => format!("tools: {}", tools.join(", ")),
        Ok(EntryBody::Checkpoint { name }) => format!("checkpoint {name:?}"),
        Ok(EntryBody::Permission { title, answer }) => format!("asked: {} ({answer})", brief(&title)),
        Ok(EntryBody::Command { command, .. }) => format!("ran {}", brief(&command)),
        Ok(_) => entry.kind.clone(),
        Err(error) => format!("cannot be read: {error}"),
    }
}

fn no_entry(id: &str) -> StoreError {
    StoreError::NoEntry { id: id.to_owned() }
}

/// Continues a session from an earlier entry, with a summary of what follows it.
async fn branch(request: BranchRequest, target: &cli::CommandTarget) -> anyhow::Result<Outcome> {
    let project = open::open(&target.project, Access::default())?;
    let report = match project.scope().branch(request, Arc::new(NoticeSink), &stop::on_signal()?).await? {
        Reply::Done(report) => report,
        Reply::InvalidRequest(text) => return Ok(wrong_use(&text)),
    };
    let BranchReport { session, at, entry, notes } = report;
    notes.iter().for_each(|note| output::note(&format!("· {note}")));
    if target.json {
        output::json(&json!({ "session": session, "at": at, "entry": entry }));
    } else {
        output::line(&format!(
            "session {session} continues from {at}; the old branch remains, its summary is in the new one"
        ));
    }
    Ok(Outcome::Done)
}

/// Prints notices and retries while the model writes a summary.
struct NoticeSink;

impl EventSink for NoticeSink {
    fn deliver<'a>(&'a self, envelope: &'a Envelope) -> BoxFuture<'a, ()> {
        match &envelope.event {
            Event::Notice { text, .. } => output::note(&format!("· {text}")),
            Event::RetryStart { attempt, max, error, .. } => {
                output::note(&format!("· retrying ({attempt} of {max}): {error}"));
            }
            _ => {}
        }
        Box::pin(std::future::ready(()))
    }
}

fn label(store: &SessionStore, id: &str, entry: &str, label: Option<&str>) -> anyhow::Result<Outcome> {
    let label = label.map(str::trim).filter(|label| !label.is_empty());
    if label.is_some_and(|label| label.contains(char::is_control)) {
        return Ok(wrong_use("a label has one line"));
    }
    let session = store.load_locked(id)?;
    warn(&session);
    let target = session.find(entry).ok_or_else(|| no_entry(entry))?.id.clone();
    store.reopen(&session).append_label(&target, label)?;
    Ok(Outcome::Done)
}

fn fork(
    store: &SessionStore,
    id: &str,
    entry: Option<&str>,
    cwd: &str,
    as_json: bool,
) -> anyhow::Result<Outcome> {
    let session = store.load(id)?;
    if !as_json {
        warn(&session);
    }
    let new = store.fork(&session, entry, cwd)?;
    if as_json {
        let mut report = json!({ "session": new, "parent_session": session.header.id });
        if !session.warnings.is_empty() {
            report["warnings"] = json!(session.warnings);
        }
        output::json(&report);
    } else {
        output::line(&new);
    }
    Ok(Outcome::Done)
}

/// Imports the files, each on its own.
fn import(store: &SessionStore, files: &[PathBuf], root: &Path, as_json: bool) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::Done;
    for file in files {
        let name = file.display().to_string();
        let bytes = std::fs::read(file).map_err(|error| format!("cannot read {name}: {error}"));
        let imported = bytes.and_then(|bytes| {
            store.import(&name, &String::from_utf8_lossy(&bytes)).map_err(|error| error.to_string())
        });
        let ImportedSession { id, format, messages, cwd, warnings } = match imported {
            Ok(imported) => imported,
            Err(error) => {
                output::note(&format!("pilcrow: {error}"));
                outcome = Outcome::Failed;
                continue;
            }
        };
        if as_json {
            output::json(&json!({
                "session": id, "format": format, "messages": messages, "cwd": cwd, "warnings": warnings,
            }));
            continue;
        }
        warnings.iter().for_each(|warning| output::note(&format!("pilcrow: {warning}")));
        if !cwd.is_empty() && Path::new(&cwd) != root {
            output::note(&format!("· session {id} comes from {cwd}; its paths may not exist here"));
        }
        output::line(&format!("{id}  {format}  {messages} messages"));
    }
    Ok(outcome)
}

fn export(store: &SessionStore, id: Option<&str>, format: cli::ExportFormat) -> anyhow::Result<Outcome> {
    let Some(session) = load(store, id)? else { return Ok(Outcome::Failed) };
    match format {
        cli::ExportFormat::Markdown => output::conversation(&export::markdown(&session)),
        cli::ExportFormat::Html => output::conversation(&export::html(&session)),
        cli::ExportFormat::Jsonl => output::part(session.text()),
    }
    Ok(Outcome::Done)
}

/// Returns the directory of a project's search index.
fn index_directory(state: &StateDir) -> Result<StateDir, SearchError> {
    Ok(state.child("search")?)
}

fn search(project: &Project, query: &str, limit: usize, all: bool, as_json: bool) -> anyhow::Result<Outcome> {
    let own = project.workspace.state();
    let states = if all { states(project)? } else { vec![own.clone()] };
    let (mut hits, mut partial) = (Vec::new(), Vec::new());
    for state in states {
        let store = SessionStore::new(state.child("sessions")?);
        // Without sessions there is no index.
        if store.files()?.is_empty() {
            continue;
        }
        let answer = SessionSearch::new(&store, index_directory(&state)?).search(query, limit)?;
        answer.warnings.iter().for_each(|warning| output::note(&format!("pilcrow: {warning}")));
        let to = if answer.only_some_words { &mut partial } else { &mut hits };
        to.extend(answer.hits);
    }
    let some_words = hits.is_empty() && !partial.is_empty();
    let mut hits = if some_words { partial } else { hits };
    hits.sort_by(|a, b| b.score.total_cmp(&a.score));
    hits.truncate(limit);
    if some_words {
        output::note("no entry has all of these words; these have some of them");
    }
    for hit in &hits {
        if as_json {
            output::json(&json!({
                "session": hit.session, "cwd": hit.cwd, "entry": hit.entry, "type": hit.kind, "at": hit.timestamp,
                "score": hit.score, "text": hit.excerpt, "all_words": !some_words,
            }));
        } else {
            let place = if all { format!("  {}", hit.cwd) } else { String::new() };
            output::conversation(&format!(
                "{}  {}  {}  {}{place}",
                hit.session, hit.entry, hit.timestamp, hit.kind
            ));
            output::conversation(&format!("    {}", hit.excerpt));
        }
    }
    if hits.is_empty() && !as_json {
        output::note("no entry has any of these words");
    }
    Ok(Outcome::Done)
}

/// Lists the state directories of all projects.
fn states(project: &Project) -> Result<Vec<StateDir>, StateError> {
    let all = project.homes.state.child("workspaces")?;
    all.list()?.iter().map(|name| all.child(name)).collect()
}

fn delete(project: &Project, store: &SessionStore, ids: &[String]) -> anyhow::Result<Outcome> {
    for id in ids {
        if let Some(message) = host::open_proposals(store, &project.workspace, id) {
            anyhow::bail!("{id} is not deleted: {message}");
        }
        output::line(&format!("deleted {}", store.delete(id)?));
    }
    Ok(Outcome::Done)
}
