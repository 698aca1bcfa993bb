//! A run of one prompt, request line or tool call, in a session of its own.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use agent::{NO_ANSWER, RunOutcome};
use editor_sync::apply_edit::EditorPort;
use host::session::{Focus, Subject, ended_well, was_stopped};
use host::{HostedSession, Input, Project, SessionRequest, Stop, describe_unsaved};
use paths::AbsPath;
use workspace::{RunId, Workspace, WorkspaceEdit};

use super::{AsOf, Place, RunSummary, Work, WorkKind, undelivered, with_unsaved};
use crate::Connection;
use crate::messages::Kind;
use crate::progress::Progress;
use crate::projects::Lease;
use crate::request_line::RequestLine;
use crate::result_list::ResultList;
use crate::sink::Sink;
use crate::transcript::Transcript;

/// A run with the connection and project that it uses.
pub(super) struct PromptRun<'a> {
    pub connection: &'a Arc<Connection>,
    /// The id of its session.
    pub session: &'a str,
    pub lease: &'a Lease,
    pub progress: &'a Arc<Progress>,
    /// Whether the client got the event that ends the run.
    pub end_reported: &'a Arc<AtomicBool>,
}

/// A request line that the filter hides while it runs.
struct HiddenLine<'a> {
    path: &'a AbsPath,
    text: String,
    request: &'a RequestLine,
    /// Key of the line in the filter.
    key: u64,
}

impl PromptRun<'_> {
    /// Runs `work` to its end.
    pub async fn run(&self, work: &Work, stop: Stop<'_>) -> anyhow::Result<RunSummary> {
        let remapped = remapped(self.connection, work);
        let work = remapped.as_ref().unwrap_or(work);
        let project = &self.lease.project;
        let hosted = self.open(work, stop).await?;
        let hidden = self.hide(work);
        if !matches!(work.kind, WorkKind::Call { .. }) {
            self.connection.runs.accept_messages(self.session, hosted.session());
        }
        let outcome = hosted.run(stop).await;
        let undelivered_texts = self.connection.runs.take_undelivered(self.session);
        let is_unchanged = hidden.as_ref().is_some_and(|hidden| self.connection.filter.unhide(hidden.key));
        let text = self.text(&outcome, stop, &project.workspace);
        let mut notes = Vec::new();
        if let (true, true, Some(hidden)) = (ended_well(&outcome), is_unchanged, &hidden) {
            match answer_in_place(self.connection, project, hidden, &text, &outcome.run).await {
                Ok(note) => notes.extend(note),
                Err(error) => notes.push(format!("the ¶ line stays: {error:#}")),
            }
        }
        notes.extend(undelivered_texts.iter().map(|text| undelivered(text)));
        Ok(self.finish(hosted, &outcome, text, notes).await)
    }

    /// Opens the session and registers its transcript.
    async fn open(&self, work: &Work, stop: Stop<'_>) -> anyhow::Result<HostedSession> {
        let Self { connection, session, lease, progress, end_reported } = self;
        let project = &lease.project;
        let transcript = Transcript::new(project.workspace.state(), session)?;
        let path = transcript.path();
        let sink = Sink {
            connection: Arc::clone(connection),
            progress: Arc::clone(progress),
            transcript,
            ended: Arc::clone(end_reported),
            list: ResultList::new(project.workspace.root()),
        };
        let resume = match &work.kind {
            WorkKind::Prompt { resume, .. } => resume.clone(),
            _ => None,
        };
        let request = SessionRequest {
            id: Some((*session).to_owned()),
            resume,
            default_agent: connection.agent.clone(),
            ..SessionRequest::new(input(work)?, Arc::new(sink))
        };
        let hosted = project.open_session(request, stop).await?;
        connection.runs.set_transcript(session, path);
        Ok(hosted)
    }

    /// Hides the request line, unless it changed since the command.
    fn hide<'w>(&self, work: &'w Work) -> Option<HiddenLine<'w>> {
        let WorkKind::Request(request) = &work.kind else { return None };
        let path = work.place.as_ref()?.path.as_ref().filter(|_| work.as_of.is_none())?;
        let open = self.connection.documents.by_path(path)?;
        let text = open.text.get(request.range.clone())?.to_owned();
        let key = self.connection.filter.hide(path, &text, request.range.start);
        Some(HiddenLine { path, text, request, key })
    }

    /// Renders the answer, or how the run ended without one.
    fn text(&self, outcome: &RunOutcome, stop: Stop<'_>, workspace: &Workspace) -> String {
        let text = &outcome.final_text;
        let is_cancelled = stop.cancel.is_cancelled() || stop.gone.is_cancelled();
        // A run also stops because the user refused its call, as its text says.
        if was_stopped(outcome.reason) && (is_cancelled || text.is_empty()) {
            return stopped(&self.connection.port, workspace, &outcome.run);
        }
        if ended_well(outcome) || was_stopped(outcome.reason) {
            return text.clone();
        }
        let reason = outcome.error.clone().unwrap_or_else(|| format!("{:?}", outcome.reason));
        // The reason comes first, because a long text is truncated.
        if text.trim().is_empty() { reason } else { format!("{reason}\n{text}") }
    }

    /// Closes the session; returns the summary for the user.
    async fn finish(
        &self,
        hosted: HostedSession,
        outcome: &RunOutcome,
        mut text: String,
        mut notes: Vec<String>,
    ) -> RunSummary {
        if text.trim().is_empty() {
            NO_ANSWER.clone_into(&mut text);
        }
        notes.iter().for_each(|note| text.push_str(&format!("\n{note}")));
        let unsaved = hosted.unsaved_files(&outcome.run);
        notes.extend(describe_unsaved(&unsaved));
        // The transcript shows the notes, as do clients that take events instead of the answer.
        for note in notes {
            hosted.note(note).await;
        }
        hosted.close().await;
        let text = with_unsaved(&text, &unsaved, &self.connection.client.message_form());
        let stopped = was_stopped(outcome.reason);
        let is_error = !ended_well(outcome) && !stopped;
        let kind = if is_error { Kind::Error } else { Kind::Info };
        RunSummary { kind, text, run: Some(outcome.run.clone()), stopped }
    }
}

/// The document that the work is about.
pub fn subject(work: &Work, focus: Option<Focus>) -> Option<Subject> {
    let Place { uri, path, selection, .. } = work.place.as_ref()?;
    let selected = || selection.clone().map(|(lines, text)| Focus::Selection { lines, text });
    let focus = focus.or_else(selected).unwrap_or(Focus::Document);
    Some(Subject { uri: uri.clone(), path: path.clone(), focus })
}

/// Builds the input with which the session starts.
fn input(work: &Work) -> anyhow::Result<Input> {
    let place = work.place.as_ref();
    Ok(match &work.kind {
        WorkKind::Call { tool, arguments, words } => {
            let path = place.and_then(|place| place.path.clone());
            let as_of = path.zip(work.as_of.as_ref().map(|AsOf { text, .. }| Arc::clone(text)));
            Input::ToolCall { tool, arguments: arguments.clone(), as_of, text: words.clone() }
        }
        WorkKind::Prompt { text, .. } => Input::Prompt { text: text.clone(), subject: subject(work, None) },
        WorkKind::Request(request) => {
            let focus = Focus::Comment { line: request.line };
            Input::Prompt { text: request.text.clone(), subject: subject(work, Some(focus)) }
        }
        WorkKind::Undo(_) | WorkKind::Compact { .. } => anyhow::bail!("undo and compaction need no session"),
    })
}

/// Prefix of a redacted secret.
const REDACTED: &str = "[redacted:";

/// Maps the selection or `¶` line of the work to the current text.
fn remapped(connection: &Connection, work: &Work) -> Option<Work> {
    let (as_of, place) = work.as_of.as_ref().zip(work.place.as_ref())?;
    let map = |range: &Range<usize>| {
        let (steps, open) = connection.documents.steps_since_revision(&as_of.revision)?;
        let range =
            steps.iter().try_fold(range.clone(), |range, step| text::map_range(range, &step.edits))?;
        Some((range, open))
    };
    match &work.kind {
        WorkKind::Request(request) => {
            let (range, open) = map(&request.range)?;
            let line = open.lines.line_of(range.start);
            let kind = WorkKind::Request(request.moved(line, range));
            Some(Work { kind, place: Some(place.clone()), as_of: None, title: work.title.clone() })
        }
        WorkKind::Prompt { text, resume } => {
            // A selection that the user typed over keeps its old text.
            let mapped = place.bytes.as_ref().and_then(map);
            mapped.and_then(|(range, open)| {
                let lines = open.lines.line_of(range.start) + 1..open.lines.line_of(range.end) + 2;
                let selection = Some((lines, open.text.get(range.clone())?.to_owned()));
                let place = Some(Place { selection, bytes: Some(range), ..place.clone() });
                let kind = WorkKind::Prompt { text: text.clone(), resume: resume.clone() };
                Some(Work { kind, place, as_of: None, title: work.title.clone() })
            })
        }
        WorkKind::Call { .. } | WorkKind::Undo(_) | WorkKind::Compact { .. } => None,
    }
}

/// Renders the end of a stopped run, with edits that may still be applied.
fn stopped(port: &EditorPort, workspace: &Workspace, run: &RunId) -> String {
    let unresolved = port.take_unresolved(run);
    if unresolved.is_empty() {
        return "stopped".to_owned();
    }
    let files = unresolved.iter().map(|path| workspace.relative(path)).collect::<Vec<_>>().join(" and ");
    format!("stopped; the edit of {files} may still be applied, and you are notified if it is")
}

/// Replaces the request line by the answer, if it is still unchanged.
///
/// Returns a note for the user.
async fn answer_in_place(
    connection: &Connection,
    project: &Project,
    hidden: &HiddenLine<'_>,
    answer: &str,
    run: &RunId,
) -> anyhow::Result<Option<String>> {
    let HiddenLine { path, text: hidden, request, .. } = hidden;
    if answer.trim().is_empty() {
        return Ok(Some("the ¶ line stays: there is no answer to replace it".to_owned()));
    }
    let document = project.workspace.applied().document(path)?;
    let Some(range) =
        editor_sync::filtered_editor::find_whole_lines(&document.text, hidden, request.range.start)
    else {
        // The user changed it.
        return Ok(None);
    };
    let line_end = if document.text.contains("\r\n") { "\r\n" } else { "\n" };
    let pointer =
        || request.render_answer("answered in the transcript (command pilcrow.transcript)", line_end);
    let Some(comment) = request.render_answer(answer, line_end).or_else(pointer) else { return Ok(None) };
    let has_redaction = comment.contains(REDACTED);
    let edit = WorkspaceEdit {
        label: format!("answer: {}", request.text),
        operations: vec![workspace::Operation::Edit {
            path: AbsPath::clone(path),
            expected: document.version,
            edits: vec![text::TextEdit::replace(range, comment)],
        }],
        ..WorkspaceEdit::default()
    };
    // Running the request line asked for this.
    project.commit_invoked(edit, run).await?;
    tracing::debug!(
        session = connection.runs.session_running(path, &request.text),
        "replaced a request by its answer"
    );
    let redaction_note = || {
        format!("a secret was redacted from the answer in {}; `{REDACTED}…]` stands for it", path.file_name())
    };
    Ok(has_redaction.then(redaction_note))
}
