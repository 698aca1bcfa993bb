//! Code actions: listed, or one of them carried out. Its edit is made like any other; so are the
//! edits that arrive from the server while a command of it runs.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use agent::{ToolCx, ToolResult};
use futures_util::future::BoxFuture;
use lsp_client::{
    ActionQuery, Answer, CodeAction, CommandEdits, Diagnostic, RequestCx, ServerCommand, ServerError,
};
use serde_json::{Value, json};
use workspace::{AbsPath, Commit, Document, ErrorCode, Plan, WorkspaceEdit};

use super::{Arguments, carried, needs, report, target};
use crate::change::{self, Change, Proposed};
use crate::verify::{Baseline, Verdict};
use crate::{Failure, Kit, counted};

/// At most this many actions are listed.
const MAX_LISTED: usize = 60;

/// A place, and what is offered there.
struct Offer {
    document: Document,
    /// What was known to be wrong; `None`: not known in time.
    before: Option<Vec<Diagnostic>>,
    answer: Answer<Vec<CodeAction>>,
}

/// `code_actions`: a list; with `apply` the one that `kind` or `title` name is carried out.
pub(super) async fn code_actions(kit: &Kit, args: &Arguments, cx: &ToolCx) -> Result<ToolResult, Failure> {
    let request = kit.request(&cx.cancel, args.timeout);
    if args.apply != Some(true) {
        let offer = offered(kit, args, None, &request).await?;
        let chosen = chosen(&offer.answer.value, args.kind.as_deref(), args.title.as_deref());
        return Ok(listed(kit, &offer, &chosen));
    }
    if args.kind.is_none() && args.title.is_none() {
        return Err(needs("code_actions with apply", "kind` or `title"));
    }
    let find = |offer: &Offer| pick(kit, offer, args.kind.as_deref(), args.title.as_deref());
    carry_out(kit, args, None, &request, cx, &find, None).await
}

/// `move_symbol`: the refactoring of that kind, where a server offers it.
pub(super) async fn move_symbol(kit: &Kit, args: &Arguments, cx: &ToolCx) -> Result<ToolResult, Failure> {
    let request = kit.request(&cx.cancel, args.timeout);
    let to = args.to.as_deref().map(|to| kit.workspace.resolve(to)).transpose()?;
    let symbol = args.symbol.as_deref().ok_or_else(|| needs("move_symbol", "symbol"))?;
    if args.apply == Some(false) {
        let offer = offered(kit, args, Some(MOVE), &request).await?;
        let all: Vec<&CodeAction> = offer.answer.value.iter().collect();
        return Ok(listed(kit, &offer, &all));
    }
    let find = |offer: &Offer| -> Result<CodeAction, Failure> {
        let moves: Vec<&CodeAction> =
            offer.answer.value.iter().filter(|action| action.disabled.is_none()).collect();
        let takes_target = |action: &&&CodeAction| kit.servers.takes_move_target(action);
        let found = match &to {
            Some(_) => moves.iter().find(takes_target),
            None => moves.iter().find(|action| !takes_target(action)),
        };
        let server = &offer.answer.server;
        found.map(|action| (*action).clone()).ok_or_else(|| {
            let message = match (moves.is_empty(), &to) {
                (true, _) => format!("{server} offers no move of `{symbol}`; move it with `edit`, its uses with it"),
                (false, Some(_)) => format!(
                    "{server} moves `{symbol}` only to a file that it names itself; leave `to` out, then `rename_file`"
                ),
                (false, None) => format!("{server} wants to be told where to; name the file as `to`"),
            };
            Failure::new(ErrorCode::Unsupported, message)
        })
    };
    carry_out(kit, args, Some(MOVE), &request, cx, &find, to.as_ref()).await
}

/// The kind of refactorings that move something.
const MOVE: &str = "refactor.move";

/// What is offered at the place of `args`.
async fn offered(
    kit: &Kit,
    args: &Arguments,
    only: Option<&str>,
    request: &RequestCx,
) -> Result<Offer, Failure> {
    let (document, range) = place(kit, args, only.is_some(), request).await?;
    // Some servers offer fixes only for problems that they are shown.
    let waited = request.within(kit.settings().diagnostics_wait);
    let before = match kit.servers.diagnostics(&document, &waited).await {
        Ok(answer) if answer.value.pending.is_empty() => Some(answer.value.items),
        Ok(_) => None,
        Err(ServerError::Cancelled) => return Err(ServerError::Cancelled.into()),
        Err(_) => None,
    };
    let here: Vec<Diagnostic> =
        before.iter().flatten().filter(|it| touches(&it.range, &range)).cloned().collect();
    let only: Vec<&str> = only.or(args.kind.as_deref()).into_iter().collect();
    let query = ActionQuery { range, only: &only, diagnostics: &here };
    let mut answer = kit.servers.code_actions(&document, &query, request).await?;
    if before.is_none() {
        let said = "what is wrong here is not known yet, so fixes may be missing".to_owned();
        answer.note = Some(answer.note.map_or(said.clone(), |note| format!("{note}; {said}")));
    }
    Ok(Offer { document, before, answer })
}

fn touches(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start <= b.end && b.start <= a.end
}

/// The document and the range that actions are asked for: `range`, a symbol, a line, the file.
async fn place(
    kit: &Kit,
    args: &Arguments,
    whole: bool,
    request: &RequestCx,
) -> Result<(Document, Range<usize>), Failure> {
    if let (Some(file), None) = (&args.file, &args.symbol) {
        let (document, args) = carried::along(kit, file, args)?;
        if let Some(range) = target::range(kit, &document, &args)? {
            return Ok((document, range));
        }
        let range = match (args.line, args.column) {
            (None, _) => 0..document.text.len(),
            (Some(line), None) => target::line(&document, line)?,
            (Some(line), column) => {
                let offset = target::offset(&document, line, column)?;
                offset..offset
            }
        };
        return Ok((document, range));
    }
    let target = target::resolve(kit, args, request).await?;
    let range = match whole {
        true => target::around(kit, &target, request).await.unwrap_or(target.range),
        false => target.range,
    };
    Ok((target.document, range))
}

/// Those that `kind` and `title` name: a title exactly, else the second of `title#2`, else one that holds
/// it, in any case.
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

/// The one that is meant.
fn pick(kit: &Kit, offer: &Offer, kind: Option<&str>, title: Option<&str>) -> Result<CodeAction, Failure> {
    let found = chosen(&offer.answer.value, kind, title);
    let able: Vec<&&CodeAction> = found.iter().filter(|action| action.disabled.is_none()).collect();
    let preferred: Vec<&&&CodeAction> = able.iter().filter(|action| action.preferred).collect();
    match (&able[..], &preferred[..]) {
        ([action], _) => Ok((**action).clone()),
        (_, [action]) => Ok((***action).clone()),
        ([], _) => Err(Failure::new(
            ErrorCode::NotFound,
            format!("nothing of that kind or title is offered here. {}", text(kit, offer, &all(offer))),
        )),
        _ => Err(Failure::new(
            ErrorCode::Ambiguous,
            match found.iter().all(|it| it.title == found[0].title) {
                true => format!(
                    "several have this title; name one as `{0}#1` to `{0}#{1}`, in this order. {2}",
                    found[0].title,
                    found.len(),
                    text(kit, offer, &found)
                ),
                false => format!("several are meant; name one by its `title`. {}", text(kit, offer, &found)),
            },
        )
        .with_data(json!({ "candidates": found.iter().map(|it| it.title.clone()).collect::<Vec<_>>() }))),
    }
}

fn all(offer: &Offer) -> Vec<&CodeAction> {
    offer.answer.value.iter().collect()
}

fn listed(kit: &Kit, offer: &Offer, actions: &[&CodeAction]) -> ToolResult {
    let list: Vec<Value> = actions
        .iter()
        .map(|it| {
            json!({ "title": it.title, "kind": it.kind, "preferred": it.preferred, "command": it.is_command,
                "disabled": it.disabled, "server": it.server })
        })
        .collect();
    let details = json!({ "actions": list, "server": offer.answer.server, "note": offer.answer.note });
    ToolResult::text(text(kit, offer, actions)).with_details(details)
}

fn text(kit: &Kit, offer: &Offer, actions: &[&CodeAction]) -> String {
    let amount = if actions.is_empty() { "none".to_owned() } else { actions.len().to_string() };
    let title =
        format!("code actions in {}: {amount} ({})", kit.shown(&offer.document.path), offer.answer.server);
    let mut out = report::with_note(&title, offer.answer.note.as_deref()) + "\n";
    for action in actions.iter().take(MAX_LISTED) {
        let kind = if action.kind.is_empty() { "command" } else { &action.kind };
        let mark = if action.preferred { " (preferred)" } else { "" };
        let cannot = action.disabled.as_ref().map(|reason| format!(" (not here: {reason})"));
        out.push_str(&format!("  {kind}: {}{mark}{}\n", action.title, cannot.unwrap_or_default()));
    }
    if actions.len() > MAX_LISTED {
        out.push_str(&format!("  … and {} more; narrow it with `kind`\n", actions.len() - MAX_LISTED));
    }
    out
}

/// Makes the edit of the action that `find` chooses, then runs its command.
async fn carry_out(
    kit: &Kit,
    args: &Arguments,
    only: Option<&str>,
    request: &RequestCx,
    cx: &ToolCx,
    find: &(dyn Fn(&Offer) -> Result<CodeAction, Failure> + Send + Sync),
    to: Option<&AbsPath>,
) -> Result<ToolResult, Failure> {
    let resolve = |request: RequestCx| async move {
        let offer = offered(kit, args, only, &request).await?;
        let action = find(&offer)?;
        let resolved = kit.servers.resolve_action(&offer.document, &action, &request).await?;
        Ok::<_, Failure>((offer, action, resolved))
    };
    let (offer, action, first) = resolve(request.clone()).await?;
    let title = action.title.clone();
    let server = action.server.clone();
    let command = Mutex::new(first.command);
    let edit = Mutex::new(first.edit);
    let mut out = ToolResult::text(String::new());
    let mut said = String::new();
    let has_edit = edit.lock().unwrap_or_else(PoisonError::into_inner).is_some();
    if has_edit {
        let change = Change { label: &title, places: false, apply: true };
        let done = change::make(kit, cx, change, |_| {
            Box::pin(async {
                let known = edit.lock().unwrap_or_else(PoisonError::into_inner).take();
                let edit = match known {
                    Some(edit) => edit,
                    None => {
                        let (_, _, again) = resolve(request.anew()).await?;
                        *command.lock().unwrap_or_else(PoisonError::into_inner) = again.command;
                        again.edit.unwrap_or_default()
                    }
                };
                Ok(Proposed { edit, server: Some(server.clone()), note: offer.answer.note.clone() })
            })
        })
        .await?;
        said.push_str(&done.text);
        out.details = done.details;
    }
    let command = command.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(mut command) = command {
        if let Some(to) = to {
            kit.servers.set_move_target(&mut command, to);
        }
        let before = (!has_edit).then_some(offer.before).flatten().map(|items| (&offer.document, items));
        let request = if has_edit { request.anew() } else { request.clone() };
        let ran = run(kit, cx, &title, &command, before, &request).await?;
        said.push_str(&ran.text);
        match out.details.as_object_mut() {
            Some(details) => drop(details.insert("command".to_owned(), ran.details)),
            None => out.details = ran.details,
        }
    }
    out.content = vec![llm::Content::text(said)];
    Ok(out)
}

/// Runs a command, and says what came of it.
async fn run(
    kit: &Kit,
    cx: &ToolCx,
    title: &str,
    command: &ServerCommand,
    before: Option<(&Document, Vec<Diagnostic>)>,
    request: &RequestCx,
) -> Result<Verdict, Failure> {
    let committer = Committer::new(kit, cx, title);
    let answer = kit.servers.run_command(command, &committer, request).await?;
    let Verdict { mut text, mut details } = committer.told();
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
    let broken = committer.broken(before).await;
    text.push_str(&broken.text);
    if changed {
        details["diagnostics"] = broken.details;
    }
    Ok(Verdict { text, details })
}

/// Commits the edits that a server sends while it works.
pub(super) struct Committer<'a> {
    kit: &'a Kit,
    cx: &'a ToolCx,
    label: &'a str,
    made: Mutex<Vec<(Plan, Arc<Commit>)>>,
    /// What was found when they were tried.
    tried: Mutex<Vec<Verdict>>,
    failed: Mutex<Option<Failure>>,
}

impl<'a> Committer<'a> {
    pub fn new(kit: &'a Kit, cx: &'a ToolCx, label: &'a str) -> Self {
        Self { kit, cx, label, made: Mutex::default(), tried: Mutex::default(), failed: Mutex::default() }
    }

    /// What was changed; an empty text when nothing was.
    pub fn told(&self) -> Verdict {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        let mut list = Vec::new();
        let tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        for (at, (plan, commit)) in made.iter().enumerate() {
            let (files, added, removed) = plan.counts();
            let label = self.label;
            text.push_str(&format!("{label}: +{added} -{removed} lines in {}\n", counted(files, "file")));
            for file in plan.changes() {
                text.push_str(&format!("  {}\n", self.kit.shown(&file.path)));
            }
            let found = tried.get(at).map_or(Value::Null, |tried| {
                text.push_str(&tried.text);
                tried.details.clone()
            });
            list.push(change::details(self.kit, plan, Some((commit, json!({ "tried": found })))));
        }
        Verdict { text, details: json!({ "commits": list }) }
    }

    /// What the edits broke or mended, in all; asked when the command is over, since until then the
    /// server is busy with it. `before`: what was wrong with a document before the first of them.
    pub async fn broken(&self, before: Option<(&Document, Vec<Diagnostic>)>) -> Verdict {
        let plans: Vec<Plan> = {
            let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            made.iter().map(|(plan, _)| plan.clone()).collect()
        };
        let mut baseline = Baseline::of(self.kit, &plans, self.cx).await;
        if let Some((document, items)) = before {
            baseline = baseline.with(document, items);
        }
        baseline.compare(self.kit, self.cx).await
    }

    /// Why an edit was not made, if one was not.
    pub fn failure(&self) -> Option<Failure> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn make(&self, mut edit: WorkspaceEdit) -> Result<(), Failure> {
        let Self { kit, cx, .. } = self;
        edit.label = self.label.to_owned();
        let plan = kit.workspace.plan(edit)?;
        if plan.is_empty() {
            return Ok(());
        }
        // Tried on the others; the server itself is busy with the command, and that is said.
        let (plan, told) = change::tried(kit, cx, plan).await?;
        let permit = cx.permit(&plan).await?;
        let commit = kit.workspace.commit(plan.clone(), permit, &cx.run).await?;
        kit.servers.did_commit(&commit).await;
        crate::shown::keep_in_step(kit, &plan);
        self.tried.lock().unwrap_or_else(PoisonError::into_inner).push(told);
        self.made.lock().unwrap_or_else(PoisonError::into_inner).push((plan, commit));
        Ok(())
    }
}

impl CommandEdits for Committer<'_> {
    fn apply<'b>(&'b self, _: &'b str, edit: WorkspaceEdit) -> BoxFuture<'b, Result<(), String>> {
        Box::pin(async move {
            self.make(edit).await.map_err(|failure| {
                let reason = failure.message.clone();
                *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
                reason
            })
        })
    }
}
