//! Undo of commits, mapped onto the current text.
//!
//! This module selects the commits of a request; `inverse` plans the outcome.

mod inverse;
mod record;

use std::collections::BTreeMap;

use paths::{AbsPath, StateError};
use policy::ErrorCode;

use crate::journal::{Entry, Journal};
use crate::plan::simulate::Files;
use crate::state::WorkspaceState;
use crate::{CommitId, CommitRecord, Plan, PlanError, RunId};

/// The commits that a request reverts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undo {
    /// The last run that changed something and is not reverted.
    LastRun,
    /// All commits of one run.
    Run(RunId),
    Commit(CommitId),
    /// All commits since the newest checkpoint of this name.
    Since(String),
}

/// The plan of an undo or redo, with the changes that stay.
#[derive(Debug)]
pub struct UndoPlan {
    pub plan: Plan,
    /// Commits that the undo reverts.
    pub undoes: Vec<CommitId>,
    /// Changes that cannot be mapped and stay.
    pub skipped: Vec<Skipped>,
    pub(crate) redo: bool,
    /// The run whose proposed edits the undo drops.
    pub(crate) drops: Option<RunId>,
}

/// A change that the undo does not revert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    pub path: AbsPath,
    /// The reason, with the lines concerned.
    pub reason: String,
}

/// The reason why nothing can be reverted.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// The history has no such commit.
    #[error("there is nothing to {what}")]
    Nothing {
        /// `undo` or `redo`.
        what: &'static str,
    },
    /// No such commit or run.
    #[error("{id} is not in the history; `pilcrow undo --list` shows it")]
    Unknown { id: String },
    #[error("{id} is already undone; `pilcrow redo` restores it")]
    AlreadyUndone { id: String },
    /// Later changes replaced all of its text.
    #[error(
        "nothing of it can be reverted, because it changed: {};\n\
         name an older commit with `pilcrow undo --commit`",
        list(skipped)
    )]
    NothingFits {
        /// The changes that stay, with the reasons.
        skipped: Vec<Skipped>,
    },
    /// The undo does not fit the current texts.
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    State(#[from] StateError),
}

impl UndoError {
    /// Returns the code for surfaces and models.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Nothing { .. } | Self::Unknown { .. } => ErrorCode::NotFound,
            Self::NothingFits { .. } => ErrorCode::Conflict,
            Self::AlreadyUndone { .. } => ErrorCode::WrongState,
            Self::Plan(error) => error.code(),
            Self::State(error) => ErrorCode::from(error),
        }
    }
}

fn list(skipped: &[Skipped]) -> String {
    let line = |skipped: &Skipped| format!("{}: {}", skipped.path, skipped.reason);
    skipped.iter().map(line).collect::<Vec<_>>().join("; ")
}

pub(crate) fn plan_undo(inner: &WorkspaceState, which: &Undo) -> Result<UndoPlan, UndoError> {
    let journal = Journal::new(&inner.state)?;
    let entries = journal.entries()?;
    let undone = undone_by(&entries);
    let is_open = |entry: &&Entry| !undone.contains_key(&entry.id);
    let chosen: Vec<&Entry> = match which {
        Undo::LastRun => {
            let last = entries.iter().rev().filter(is_open).find(|entry| is_normal(entry));
            let last = last.map(|last| &last.run);
            if let Some(run) = inner.last_proposing_run().filter(|run| last.is_none_or(|it| it.0 <= run.0)) {
                return plan_undo(inner, &Undo::Run(run));
            }
            let run = last.ok_or(UndoError::Nothing { what: "undo" })?;
            entries.iter().filter(|entry| entry.run == *run && is_normal(entry)).filter(is_open).collect()
        }
        Undo::Run(run) => {
            let all = entries.iter().filter(|entry| entry.run == *run && is_normal(entry));
            let proposed = inner.count_proposed(run);
            if proposed > 0 {
                let open: Vec<_> = all.filter(is_open).collect();
                return with_drops(inner, &journal, &open, run, proposed);
            }
            open_ones(all.collect(), is_open, &run.0)?
        }
        Undo::Commit(id) => {
            open_ones(entries.iter().filter(|entry| entry.id == *id).collect(), is_open, &id.0)?
        }
        Undo::Since(name) => {
            let named = |entry: &Entry| entry.checkpoint.as_ref() == Some(name);
            let Some(at) = entries.iter().rposition(named) else {
                return Err(UndoError::Unknown { id: format!("a checkpoint called {name:?}") });
            };
            let since: Vec<&Entry> =
                entries[at..].iter().filter(|entry| is_normal(entry)).filter(is_open).collect();
            if since.is_empty() {
                return Err(UndoError::Nothing { what: "undo" });
            }
            since
        }
    };
    inverse::plan(inner, &journal, &chosen, false)
}

/// Plans the undo of a run with proposed edits, which it drops.
fn with_drops(
    inner: &WorkspaceState,
    journal: &Journal,
    chosen: &[&Entry],
    run: &RunId,
    proposed: usize,
) -> Result<UndoPlan, UndoError> {
    let dropped = match proposed {
        1 => "drop a proposed change".to_owned(),
        count => format!("drop {count} proposed changes"),
    };
    let drops = Some(run.clone());
    if chosen.is_empty() {
        let plan = Files::new(inner).into_plan(format!("undo: {dropped}"))?;
        return Ok(UndoPlan { plan, undoes: Vec::new(), skipped: Vec::new(), redo: false, drops });
    }
    let mut planned = inverse::plan(inner, journal, chosen, false)?;
    planned.plan.label = format!("{}; {dropped}", planned.plan.label);
    Ok(UndoPlan { drops, ..planned })
}

/// Plans the redo, which reverts the last undo.
pub(crate) fn plan_redo(inner: &WorkspaceState) -> Result<UndoPlan, UndoError> {
    let journal = Journal::new(&inner.state)?;
    let entries = journal.entries()?;
    let undone = undone_by(&entries);
    let since = entries.iter().rev().take_while(|entry| !is_normal(entry));
    let last = since
        .filter(|entry| !entry.redo && !entry.undoes.is_empty())
        .find(|entry| !undone.contains_key(&entry.id));
    let last = last.ok_or(UndoError::Nothing { what: "redo" })?;
    inverse::plan(inner, &journal, &[last], true)
}

/// The history, newest first.
pub(crate) fn history(inner: &WorkspaceState) -> Result<Vec<CommitRecord>, StateError> {
    let entries = Journal::new(&inner.state)?.entries()?;
    let mut undone = undone_by(&entries);
    let record = |entry: Entry| CommitRecord {
        undone_by: undone.remove(&entry.id),
        files: entry.steps.into_iter().map(|step| step.path).collect(),
        id: entry.id,
        run: entry.run,
        label: entry.label,
        at_ms: entry.at_ms,
    };
    Ok(entries.into_iter().rev().map(record).collect())
}

fn open_ones<'a>(
    all: Vec<&'a Entry>,
    is_open: impl Fn(&&'a Entry) -> bool,
    id: &str,
) -> Result<Vec<&'a Entry>, UndoError> {
    if all.is_empty() {
        return Err(UndoError::Unknown { id: id.to_owned() });
    }
    let open: Vec<&Entry> = all.into_iter().filter(is_open).collect();
    if open.is_empty() { Err(UndoError::AlreadyUndone { id: id.to_owned() }) } else { Ok(open) }
}

/// Whether a commit changed something and is not an undo.
fn is_normal(entry: &Entry) -> bool {
    let changes = !(entry.steps.is_empty() && entry.made.is_empty() && entry.removed.is_empty());
    entry.undoes.is_empty() && changes
}

/// Maps each reverted commit to the one that reverted it, without reverted undos.
fn undone_by(entries: &[Entry]) -> BTreeMap<CommitId, CommitId> {
    let mut undone = BTreeMap::new();
    for entry in entries.iter().rev() {
        if !undone.contains_key(&entry.id) {
            for id in &entry.undoes {
                undone.insert(id.clone(), entry.id.clone());
            }
        }
    }
    undone
}
