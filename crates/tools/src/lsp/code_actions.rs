//! Code actions of servers: listed, or one of them applied.
//!
//! The tool commits the action's edit, and the edits that the server sends while a command of the action
//! runs, like any other.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use agent::{ToolCx, ToolResult};
use futures_util::future::BoxFuture;
use lsp_client::{
    ActionQuery, Answer, CodeAction, CommandEdits, Diagnostic, Note, RequestCx, ServerCommand, ServerError,
};
use parking_lot::Mutex;
use paths::AbsPath;
use policy::ErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};
use workspace::{Commit, Document, Plan, WorkspaceEdit};

use super::action::{ActionGroup, ActionSpec, Call, Effect, Takes, needs};
use super::report;
use crate::change::{self, Change, Proposal};
use crate::search::remap;
use crate::search::target::{self, Place};
use crate::verify::{Baseline, Verdict};
use crate::{Failure, ToolContext, counted, notes};

/// Maximum number of code actions in the text.
const MAX_LISTED: usize = 60;

/// The code actions that servers offer at a place.
struct Offer {
    document: Document,
    answer: Answer<Vec<CodeAction>>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub(super) enum CodeActionAction {
    MoveSymbol {
        #[serde(flatten)]
        place: Place,
        to: Option<String>,
        apply: Option<bool>,
    },
    CodeActions {
        #[serde(flatten)]
        place: Place,
        kind: Option<String>,
        title: Option<String>,
        #[serde(default)]
        apply: bool,
    },
}

impl ActionGroup for CodeActionAction {
    const ACTIONS: &'static [ActionSpec] = &[
        ActionSpec { name: "move_symbol", takes: Takes::One, effect: Effect::Edits },
        ActionSpec { name: "code_actions", takes: Takes::One, effect: Effect::EditsOnRequest },
    ];

    fn run<'a>(self, call: &'a Call<'a>) -> BoxFuture<'a, Result<ToolResult, Failure>> {
        Box::pin(async move {
            match self {
                Self::MoveSymbol { place, to, apply } => {
                    move_symbol(call, &place, to.as_deref(), apply).await
                }
                Self::CodeActions { place, kind, title, apply } => {
                    code_actions(call, &place, (kind.as_deref(), title.as_deref()), apply).await
                }
            }
        })
    }
}

/// Lists code actions, or applies the one that `kind` or `title` name.
async fn code_actions(
    call: &Call<'_>,
    place: &Place,
    (kind, title): (Option<&str>, Option<&str>),
    apply: bool,
) -> Result<ToolResult, Failure> {
    let Call { context, request, .. } = call;
    if !apply {
        let offer = offered(context, place, kind, false, request).await?;
        let chosen = chosen(&offer.answer.value, kind, title);
        return Ok(listed(context, &offer, &chosen));
    }
    if kind.is_none() && title.is_none() {
        return Err(needs("code_actions with apply", "kind` or `title"));
    }
    let find = |offer: &Offer| pick(context, offer, kind, title);
    apply_action(call, place, kind, false, &find, None).await
}

/// Applies the refactoring that moves a symbol, where a server offers it.
async fn move_symbol(
    call: &Call<'_>,
    place: &Place,
    to: Option<&str>,
    apply: Option<bool>,
) -> Result<ToolResult, Failure> {
    let Call { context, request, .. } = call;
    let to = to.map(|to| context.workspace.resolve(to)).transpose()?;
    let symbol = place.symbol.as_deref().ok_or_else(|| needs("move_symbol", "symbol"))?;
    if apply == Some(false) {
        let offer = offered(context, place, Some(MOVE), true, request).await?;
        let all: Vec<&CodeAction> = offer.answer.value.iter().collect();
        return Ok(listed(context, &offer, &all));
    }
    let find = |offer: &Offer| -> Result<CodeAction, Failure> {
        let moves: Vec<&CodeAction> =
            offer.answer.value.iter().filter(|action| action.disabled.is_none()).collect();
        let takes_target = |action: &&&CodeAction| context.servers.takes_move_target(action);
        let found = match &to {
            Some(_) => moves.iter().find(takes_target),
            None => moves.iter().find(|action| !takes_target(action)),
        };
        let server = &offer.answer.server;
        found.map(|action| (*action).clone()).ok_or_else(|| {
            let message = match (moves.is_empty(), &to) {
                (true, _) => {
                    format!("{server} offers no move of `{symbol}`; move it and its uses with `edit`")
                }
                (false, Some(_)) => format!(
                    "{server} moves `{symbol}` only to a file that it chooses; omit `to`, then `rename_file`"
                ),
                (false, None) => format!("{server} needs a target; name the file as `to`"),
            };
            Failure::new(ErrorCode::Unsupported, message)
        })
    };
    apply_action(call, place, Some(MOVE), true, &find, to.as_ref()).await
}

/// Time for the diagnostics of a place, which some servers need to offer fixes.
const DIAGNOSTICS: Duration = Duration::from_secs(3);
/// The kind of refactorings that move a symbol.
const MOVE: &str = "refactor.move";

/// Requests the code actions at a place.
///
/// `whole`: those of the whole declaration there.
async fn offered(
    context: &ToolContext,
    place: &Place,
    only: Option<&str>,
    whole: bool,
    request: &RequestCx,
) -> Result<Offer, Failure> {
    let (document, range) = range(context, place, whole, request).await?;
    // Some servers offer fixes only for diagnostics that they are sent.
    let waited = request.within(DIAGNOSTICS);
    let before = match context.servers.diagnostics(&document, &waited).await {
        Ok(answer) if answer.value.pending.is_empty() => Some(answer.value.items),
        Ok(_) => None,
        Err(ServerError::Cancelled) => return Err(ServerError::Cancelled.into()),
        Err(_) => None,
    };
    let touched: Vec<Diagnostic> =
        before.iter().flatten().filter(|it| touches(&it.range, &range)).cloned().collect();
    let only: Vec<&str> = only.into_iter().collect();
    let query = ActionQuery { range, only: &only, diagnostics: &touched };
    let mut answer = context.servers.code_actions(&document, &query, request).await?;
    if before.is_none() {
        answer.notes.push(Note::DiagnosticsPending);
    }
    Ok(Offer { document, answer })
}

fn touches(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start <= b.end && b.start <= a.end
}

/// Determines the document and range of a place.
///
/// The range is `range`, a symbol, a line, or the whole file.
async fn range(
    context: &ToolContext,
    place: &Place,
    whole: bool,
    request: &RequestCx,
) -> Result<(Document, Range<usize>), Failure> {
    if let (Some(file), None) = (&place.file, &place.symbol) {
        let (document, place) = remap::document(context, file, place)?;
        if let Some(range) = target::range(context, &document, &place)? {
            return Ok((document, range));
        }
        let range = match (place.line, place.column) {
            (None, _) => 0..document.text.len(),
            (Some(line), None) => target::line(&document, line)?,
            (Some(line), column) => {
                let offset = target::offset(&document, line, column)?;
                offset..offset
            }
        };
        return Ok((document, range));
    }
    let target = target::resolve(context, place, request).await?;
    let range = match whole {
        true => target::around(context, &target, request).await.unwrap_or(target.range),
        false => target.range,
    };
    Ok((target.document, range))
}

/// Selects code actions by `kind` and `title`.
///
/// Takes the exact title, else the second of `title#2`, else titles that contain it in any case.
fn chosen<'a>(actions: &'a [CodeAction], kind: Option<&str>, title: Option<&str>) -> Vec<&'a CodeAction> {
    let of_kind: Vec<&CodeAction> =
        actions.iter().filter(|action| kind.is_none_or(|kind| action.is(kind))).collect();
    let Some(title) = title else { return of_kind };
    let exact: Vec<&CodeAction> = of_kind.iter().filter(|action| action.title == title).copied().collect();
    if !exact.is_empty() {
        return exact;
    }
    if let Some((title, number)) = title.rsplit_once('#')
        && let Some(at) = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1))
    {
        let mut same = of_kind.iter().filter(|action| action.title == title);
        if let Some(action) = same.nth(at) {
            return vec![*action];
        }
    }
    let title = title.to_lowercase();
    of_kind.into_iter().filter(|action| action.title.to_lowercase().contains(&title)).collect()
}

/// Selects the one code action that `kind` and `title` name.
fn pick(
    context: &ToolContext,
    offer: &Offer,
    kind: Option<&str>,
    title: Option<&str>,
) -> Result<CodeAction, Failure> {
    let found = chosen(&offer.answer.value, kind, title);
    let able: Vec<&&CodeAction> = found.iter().filter(|action| action.disabled.is_none()).collect();
    let preferred: Vec<&&&CodeAction> = able.iter().filter(|action| action.preferred).collect();
    match (&able[..], &preferred[..]) {
        ([action], _) => Ok((**action).clone()),
        (_, [action]) => Ok((***action).clone()),
        ([], _) => Err(Failure::new(
            ErrorCode::NotFound,
            format!(
                "no code action of that kind or title is offered here. {}",
                text(context, offer, &all(offer))
            ),
        )),
        _ => Err(Failure::new(
            ErrorCode::Ambiguous,
            match found.iter().all(|it| it.title == found[0].title) {
                true => format!(
                    "several have this title; name one as `{0}#1` to `{0}#{1}`, in this order. {2}",
                    found[0].title,
                    found.len(),
                    text(context, offer, &found)
                ),
                false => {
                    format!("several match; name one by its `title`. {}", text(context, offer, &found))
                }
            },
        )
        .with_data(json!({ "candidates": found.iter().map(|it| it.title.clone()).collect::<Vec<_>>() }))),
    }
}

fn all(offer: &Offer) -> Vec<&CodeAction> {
    offer.answer.value.iter().collect()
}

fn listed(context: &ToolContext, offer: &Offer, actions: &[&CodeAction]) -> ToolResult {
    let list: Vec<Value> = actions
        .iter()
        .map(|it| {
            json!({ "title": it.title, "kind": it.kind, "preferred": it.preferred, "command": it.is_command,
                "disabled": it.disabled, "server": it.server })
        })
        .collect();
    let details = json!({ "actions": list, "server": offer.answer.server, "note": notes::render(context, &offer.answer.notes) });
    ToolResult::text(text(context, offer, actions)).with_details(details)
}

fn text(context: &ToolContext, offer: &Offer, actions: &[&CodeAction]) -> String {
    let amount = if actions.is_empty() { "none".to_owned() } else { actions.len().to_string() };
    let title = format!(
        "code actions in {}: {amount} ({})",
        context.display_path(&offer.document.path),
        offer.answer.server
    );
    let mut out = report::with_note(&title, notes::render(context, &offer.answer.notes).as_deref()) + "\n";
    for action in actions.iter().take(MAX_LISTED) {
        let kind = if action.kind.is_empty() { "command" } else { &action.kind };
        let mark = if action.preferred { " (preferred)" } else { "" };
        let cannot = action.disabled.as_ref().map(|reason| format!(" (disabled: {reason})"));
        out.push_str(&format!("  {kind}: {}{mark}{}\n", action.title, cannot.unwrap_or_default()));
    }
    if actions.len() > MAX_LISTED {
        out.push_str(&format!("  … and {} more; narrow it with `kind`\n", actions.len() - MAX_LISTED));
    }
    out
}

/// Applies the edit of the action that `find` chooses, then runs its command.
async fn apply_action(
    call: &Call<'_>,
    place: &Place,
    only: Option<&str>,
    whole: bool,
    find: &(dyn Fn(&Offer) -> Result<CodeAction, Failure> + Send + Sync),
    to: Option<&AbsPath>,
) -> Result<ToolResult, Failure> {
    let Call { context, cx, request, .. } = call;
    let resolve = |request: RequestCx| async move {
        let offer = offered(context, place, only, whole, &request).await?;
        let action = find(&offer)?;
        let resolved = context.servers.resolve_action(&offer.document, &action, &request).await?;
        Ok::<_, Failure>((offer, action, resolved))
    };
    let (offer, action, first) = resolve(request.clone()).await?;
    let title = action.title.clone();
    let server = action.server.clone();
    let command = Mutex::new(first.command);
    let edit = Mutex::new(first.edit);
    let mut out = ToolResult::text(String::new());
    let mut report = String::new();
    let has_edit = edit.lock().is_some();
    if has_edit {
        let change = Change { label: &title, places: false, apply: true };
        let done = change::apply(context, cx, change, |_| {
            Box::pin(async {
                let known = edit.lock().take();
                let edit = match known {
                    Some(edit) => edit,
                    None => {
                        let (_, _, again) = resolve(request.restarted()).await?;
                        *command.lock() = again.command;
                        again.edit.unwrap_or_default()
                    }
                };
                Ok(Proposal {
                    edit,
                    server: Some(server.clone()),
                    note: notes::render(context, &offer.answer.notes),
                    ..Proposal::default()
                })
            })
        })
        .await?;
        report.push_str(&done.text);
        out.details = done.details;
    }
    let command = command.into_inner();
    if let Some(mut command) = command {
        if let Some(to) = to {
            context.servers.set_move_target(&mut command, to);
        }
        let request = if has_edit { request.restarted() } else { request.clone() };
        let ran = run(context, cx, &title, &command, &request).await?;
        report.push_str(&ran.text);
        match out.details.as_object_mut() {
            Some(details) => drop(details.insert("command".to_owned(), ran.details)),
            None => out.details = ran.details,
        }
    }
    out.content = vec![llm::Content::text(report)];
    Ok(out)
}

/// Runs a command and reports its result.
async fn run(
    context: &ToolContext,
    cx: &ToolCx,
    title: &str,
    command: &ServerCommand,
    request: &RequestCx,
) -> Result<Verdict, Failure> {
    let committer = Committer::new(context, cx, title);
    let answer = context.servers.run_command(command, &committer, request).await?;
    let Verdict { mut text, mut details } = committer.report();
    let changed = !text.is_empty();
    if let Some(failure) = committer.failure() {
        return Err(Failure { message: format!("{text}{}", failure.message), ..failure });
    }
    match answer.value.outcome {
        Err(error) if !changed => return Err(error.into()),
        Err(error) => text.push_str(&format!("note: after that the command failed: {error}\n")),
        Ok(_) if !changed => {
            text = format!("{title}: the command ran and changed nothing ({})\n", answer.server);
        }
        Ok(_) => {}
    }
    let broken = committer.broken().await;
    text.push_str(&broken.text);
    if changed {
        details["diagnostics"] = broken.details;
    }
    Ok(Verdict { text, details })
}

/// Commits the edits that a server sends while it works.
pub(super) struct Committer<'a> {
    context: &'a ToolContext,
    cx: &'a ToolCx,
    label: &'a str,
    made: Mutex<Vec<(Plan, Arc<Commit>)>>,
    /// The verdicts of the previews of the edits.
    tried: Mutex<Vec<Verdict>>,
    failed: Mutex<Option<Failure>>,
}

impl<'a> Committer<'a> {
    pub fn new(context: &'a ToolContext, cx: &'a ToolCx, label: &'a str) -> Self {
        Self { context, cx, label, made: Mutex::default(), tried: Mutex::default(), failed: Mutex::default() }
    }

    /// Reports the committed edits; an empty text if there are none.
    pub fn report(&self) -> Verdict {
        let made = self.made.lock();
        let mut text = String::new();
        let mut list = Vec::new();
        let tried = self.tried.lock();
        for (at, (plan, commit)) in made.iter().enumerate() {
            let (files, added, removed) = plan.counts();
            let label = self.label;
            text.push_str(&format!("{label}: +{added} -{removed} lines in {}\n", counted(files, "file")));
            for file in plan.changes() {
                text.push_str(&format!("  {}\n", self.context.display_path(&file.path)));
            }
            let found = tried.get(at).map_or(Value::Null, |tried| {
                text.push_str(&tried.text);
                tried.details.clone()
            });
            list.push(change::details(self.context, plan, Some((commit, json!({ "tried": found })))));
        }
        Verdict { text, details: json!({ "commits": list }) }
    }

    /// Reports diagnostics that the edits introduced or fixed.
    ///
    /// Requested after the command, during which the server is busy.
    pub async fn broken(&self) -> Verdict {
        let plans: Vec<Plan> = {
            let made = self.made.lock();
            made.iter().map(|(plan, _)| plan.clone()).collect()
        };
        Baseline::of(self.context, self.label, &plans).compare(self.context, self.cx).await
    }

    /// Returns the failure of a refused edit.
    pub fn failure(&self) -> Option<Failure> {
        self.failed.lock().clone()
    }

    async fn make(&self, mut edit: WorkspaceEdit) -> Result<(), Failure> {
        let Self { context, cx, .. } = self;
        edit.label = self.label.to_owned();
        let plan = context.workspace.plan(edit)?;
        if plan.is_empty() {
            return Ok(());
        }
        // Previewed on other servers; the server itself is busy with the command, which is reported.
        let (plan, report) = change::preview(context, cx, plan).await?;
        let permit = cx.permit(&plan).await?;
        let commit = context.workspace.commit(plan.clone(), permit, &cx.run).await?;
        context.servers.did_commit(&commit).await;
        crate::display::sync_snapshots(context, &plan);
        self.tried.lock().push(report);
        self.made.lock().push((plan, commit));
        Ok(())
    }
}

impl CommandEdits for Committer<'_> {
    fn apply<'b>(&'b self, _: &'b str, edit: WorkspaceEdit) -> BoxFuture<'b, Result<(), String>> {
        Box::pin(async move {
            self.make(edit).await.map_err(|failure| {
                let reason = failure.message.clone();
                *self.failed.lock() = Some(failure);
                reason
            })
        })
    }
}
