//! An edit tried on the language servers before it is made: what they would say of it, and what
//! becomes of it by the person's choice (`edit.verify`, `edit.verify_policy`).
//!
//! Speaks only for the servers that answered. What could not be tried says so and is made like any
//! other edit; what it broke is told after it, as always.

use agent::ToolCx;
use lsp_client::{Checked, NotTried, RequestCx, Severity, TrialFile};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use workspace::{AbsPath, ChangeKind, ContentHash, Document, ErrorCode, FileChange, Owner, Plan, Version};

use super::compare::compare_tried;
use super::verdict::Tally;
use super::{Baseline, Verdict};
use crate::change::Refused;
use crate::lsp::headline;
use crate::{Failure, Kit};

/// The longest that a trial takes.
const LIMIT: Duration = Duration::from_secs(5);
/// At most this many new problems are named in a question to the person, or files …
const MAX_NAMED: usize = 5;
/// … and of each problem so many characters.
const MAX_CHARACTERS: usize = 300;

/// When what an edit breaks is found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verify {
    /// After it is made.
    #[default]
    After,
    /// Before too, by a trial.
    Before,
}

/// What becomes of an edit that a trial found new errors for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VerifyPolicy {
    /// It is made, and they are told.
    #[default]
    Report,
    /// The person is asked.
    Ask,
    /// It is not made.
    NoNewErrors,
}

/// What came of a trial.
pub(crate) struct Trial {
    pub plan: Plan,
    /// For the result; empty when there was nothing to try.
    pub told: Verdict,
}

impl Baseline {
    /// Tries `plan`. `again`: it was planned anew already because its texts moved.
    ///
    /// # Errors
    /// [`Refused::Moved`] when it is to be planned again; a failure when the policy does not let it be
    /// made, or the call was cancelled.
    pub async fn try_first(&self, kit: &Kit, plan: Plan, again: bool, cx: &ToolCx) -> Result<Trial, Refused> {
        let nothing = |plan| Ok(Trial { plan, told: Verdict::nothing() });
        if kit.settings().verify == Verify::After {
            return nothing(plan);
        }
        let cold: Vec<String> = cold(kit, &plan).iter().map(|path| kit.shown(path)).collect();
        let cold = (!cold.is_empty()).then(|| format!("no language server of {} runs yet", cold.join(", ")));
        if !plan.changes().iter().any(|change| kit.servers.is_warm(&change.path)) {
            return match cold {
                Some(why) => Ok(Trial { plan, told: not_tried(&why) }),
                None => nothing(plan),
            };
        }
        let files = match trial_files(kit, &plan) {
            Ok(files) => files,
            Err(why) => return Ok(Trial { plan, told: not_tried(&why) }),
        };
        let dependents: Vec<Document> = self
            .files
            .iter()
            .filter(|file| file.dependent)
            .filter_map(|file| kit.workspace.document(&file.path).ok())
            .collect();
        let request = RequestCx::new(LIMIT, &cx.cancel);
        let edited: Vec<AbsPath> = plan.changes().iter().map(|change| change.path.clone()).collect();
        let tried = kit.servers.try_edit(&files, &edited, &dependents, &request).await;
        if cx.cancel.is_cancelled() {
            let message = "cancelled before anything was written";
            return Err(Refused::Failed(Failure::new(ErrorCode::Cancelled, message)));
        }
        if tried.not_tried.iter().any(|(_, why)| *why == NotTried::Moved) {
            return if again {
                Ok(Trial { plan, told: not_tried("text moved") })
            } else {
                Err(Refused::Moved)
            };
        }
        let mut untried = tried.not_tried;
        untried.extend(silent(kit, &tried.files));
        let mut tally = Tally::default();
        for before in &self.files {
            let Some(answers) = tried.files.get(&before.path) else { continue };
            let mut answers = answers.clone();
            answers.retain(|it| !is_silent(it));
            if answers.is_empty() {
                continue;
            }
            let after = files.iter().find(|file| file.document.path == before.path);
            let Ok(document) = after
                .map(|file| Ok(Document { text: Arc::clone(&file.text), ..file.document.clone() }))
                .unwrap_or_else(|| kit.workspace.document(&before.path))
            else {
                continue;
            };
            compare_tried(&mut tally, before, &document, answers);
        }
        let mut trial = decide(kit, plan, tally, &untried)?;
        if let Some(why) = cold {
            trial.told.text.push_str(&format!("not tried: {why}\n"));
            if let Some(list) = trial.told.details["not_tried"].as_array_mut() {
                list.push(json!({ "server": Value::Null, "why": why }));
            }
        }
        Ok(trial)
    }
}

/// Whether a server was shown a file and did not say anything about it.
fn is_silent(checked: &Checked) -> bool {
    checked.known.is_err() && checked.disowned.is_none()
}

/// Servers that did not answer of what they were shown, and why; with the files, where they did of others.
fn silent(kit: &Kit, files: &BTreeMap<AbsPath, Vec<Checked>>) -> Vec<(String, NotTried)> {
    let mut silent: BTreeMap<&str, (&str, Vec<String>)> = BTreeMap::new();
    let mut answered = BTreeSet::new();
    for (path, answers) in files {
        for it in answers {
            match &it.known {
                Err(why) if is_silent(it) => {
                    let row = silent.entry(&it.server).or_insert_with(|| (why.as_str(), Vec::new()));
                    row.1.push(kit.shown(path));
                }
                _ => drop(answered.insert(it.server.as_str())),
            }
        }
    }
    let row = |(server, (why, names)): (&str, (&str, Vec<String>))| {
        let about = match answered.contains(server) {
            true => format!(", about {}", first(&names, ", ")),
            false => String::new(),
        };
        (server.to_owned(), NotTried::Because(format!("{why}{about}")))
    };
    silent.into_iter().map(row).collect()
}

/// The first of them, and how many there are besides.
fn first(all: &[String], between: &str) -> String {
    let named = all.iter().take(MAX_NAMED).map(String::as_str).collect::<Vec<_>>().join(between);
    match all.len().saturating_sub(MAX_NAMED) {
        0 => named,
        more => format!("{named}{between}and {more} more"),
    }
}

/// Files of a plan whose language has a server that does not run.
fn cold(kit: &Kit, plan: &Plan) -> Vec<AbsPath> {
    let changes = plan.changes().iter().filter(|change| change.after.is_some());
    let paths = changes.map(|change| &change.path);
    paths.filter(|path| !kit.servers.is_warm(path) && kit.servers.serves(path)).cloned().collect()
}

/// Starts the servers of a plan's files and has them load, where new errors are not to be made. One that runs
/// may be reading its project anew.
pub(super) async fn warm_up(kit: &Kit, plan: &Plan, cx: &ToolCx) {
    if (kit.settings().verify, kit.settings().verify_policy) != (Verify::Before, VerifyPolicy::NoNewErrors) {
        return;
    }
    let request = kit.request(&cx.cancel, None);
    let written = plan.changes().iter().filter(|change| change.after.is_some()).map(|change| &change.path);
    for path in written {
        let is_warm = kit.servers.is_warm(path);
        if request.left().is_zero() || !is_warm && !kit.servers.serves(path) {
            continue;
        }
        let warmed = match kit.workspace.document(path) {
            Ok(document) if !is_warm => kit.servers.diagnostics(&document, &request).await.map(drop),
            // One that is to be made has no text yet.
            document => kit.servers.load(path, document.ok().as_ref(), &request).await,
        };
        if let Err(error) = warmed {
            tracing::debug!(%error, "no server of {path} to try an edit on");
        }
    }
}

/// What the policy says to what was found.
fn decide(kit: &Kit, plan: Plan, tally: Tally, not_tried: &[(String, NotTried)]) -> Result<Trial, Refused> {
    let errors: Vec<String> = tally
        .new
        .iter()
        .filter(|(_, _, item)| item.severity == Severity::Error)
        .map(|(path, line, item)| format!("{}:{line}: {}", kit.shown(path), headline(item)))
        .collect();
    let list = |why: &[(String, NotTried)]| -> Vec<Value> {
        why.iter().map(|(server, why)| json!({ "server": server, "why": why.to_string() })).collect()
    };
    let Verdict { text, mut details } = tally.verdict(kit, 0, &BTreeSet::new(), false);
    let mut told = String::new();
    if !text.is_empty() {
        told.push_str(&format!("tried before it was made:\n{text}"));
    }
    for (server, why) in not_tried {
        told.push_str(&format!("not tried on {server}: {why}\n"));
    }
    details["not_tried"] = json!(list(not_tried));
    let told = Verdict { text: told, details };
    match kit.settings().verify_policy {
        _ if errors.is_empty() => Ok(Trial { plan, told }),
        VerifyPolicy::Report => Ok(Trial { plan, told }),
        VerifyPolicy::Ask => {
            let errors: Vec<String> = errors.iter().map(|error| short(error)).collect();
            let line = format!("language servers find new errors: {}", first(&errors, "; "));
            Ok(Trial { plan: plan.confirming(line), told })
        }
        VerifyPolicy::NoNewErrors => {
            let message =
                format!("not applied, nothing was written: it would bring new errors\n{}", told.text);
            let failure = Failure::new(ErrorCode::NotApplied, message.trim_end().to_owned());
            Err(Refused::Failed(failure.with_data(json!({ "trial": told.details }))))
        }
    }
}

/// The beginning of what is too long for a question.
fn short(text: &str) -> String {
    match text.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn not_tried(why: &str) -> Verdict {
    let text = format!("not tried: {why}\n");
    Verdict { text, details: json!({ "not_tried": [{ "server": Value::Null, "why": why }] }) }
}

/// What servers are shown; `Err`: why this plan cannot be shown.
fn trial_files(kit: &Kit, plan: &Plan) -> Result<Vec<TrialFile>, String> {
    let mut files = Vec::new();
    for change in plan.changes() {
        let Some(text) = change.after.clone().filter(|_| can_be_shown(change)) else {
            return Err("files are moved or removed, which cannot be shown before it is done".to_owned());
        };
        if !kit.servers.is_warm(&change.path) {
            continue;
        }
        let created = change.kind == ChangeKind::Created;
        let document = match kit.workspace.document(&change.path) {
            Ok(document) => Document { text: change.before.clone().unwrap_or_default(), ..document },
            Err(_) if created => Document {
                path: change.path.clone(),
                uri: workspace::path_to_uri(change.path.as_path()),
                text: "".into(),
                bom: false,
                version: Version { hash: ContentHash::of(b""), editor: None },
                owner: Owner::Disk,
                held: None,
            },
            Err(error) => return Err(error.to_string()),
        };
        files.push(TrialFile { document, text, created });
    }
    Ok(files)
}

fn can_be_shown(change: &FileChange) -> bool {
    matches!(change.kind, ChangeKind::Modified | ChangeKind::Created)
}
