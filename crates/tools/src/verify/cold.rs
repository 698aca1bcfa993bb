//! Files whose servers do not run: started for an edit where the person wants that, else counted.

use std::collections::BTreeSet;

use workspace::{AbsPath, FileChange, Plan};

use super::MAX_FILES;
use crate::kit::Start;
use crate::{Kit, counted};

/// More package roots are counted.
const MOST_NAMED: usize = 3;

/// Whether a server of a file runs, or is being started.
pub(super) fn is_asked(kit: &Kit, path: &AbsPath) -> bool {
    kit.servers.is_warm(path) || kit.servers.is_coming(path)
}

/// Has the servers of what `plan` changes start.
pub(super) fn begin(kit: &Kit, plan: &Plan) {
    for change in plan.changes().iter().filter(|it| it.after.is_some()).take(MAX_FILES) {
        if !kit.servers.is_warm(&change.path) {
            kit.begin_servers(&change.path, Start::Edit);
        }
    }
}

/// The package root of a changed file that no server works on although there is one for it.
pub(super) fn root(kit: &Kit, change: &FileChange) -> Option<AbsPath> {
    kit.servers.cold_root(&change.path, std::slice::from_ref(&change.path))
}

/// For a verdict: which package roots no server works on; empty when there is none.
pub(super) fn said(kit: &Kit, roots: &BTreeSet<AbsPath>) -> String {
    let mut names: Vec<String> = roots.iter().take(MOST_NAMED).map(|root| name(kit, root)).collect();
    if roots.len() > MOST_NAMED {
        names.push(counted(roots.len() - MOST_NAMED, "more package"));
    }
    if names.is_empty() {
        String::new()
    } else {
        format!(" (no language server of {} runs)", names.join(", "))
    }
}

fn name(kit: &Kit, root: &AbsPath) -> String {
    if root == kit.workspace.root() { "the project's root".to_owned() } else { kit.shown(root) }
}
