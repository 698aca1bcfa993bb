//! The files that a change may concern though it does not touch them: those that hold a name whose
//! top-level declaration changes, and those that are open in the editor.
//!
//! A name is found as a word, so a file that means another thing by it is looked at in vain; no file
//! that means this one is missed among those that were searched.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::ToolCx;
use text::{TextEdit, occurrences};
use workspace::{AbsPath, ChangeKind, Document, FileChange, Plan};

use crate::Kit;

/// At most this many are checked.
const MOST: usize = 20;
/// At most this many files are searched …
const MAX_SEARCHED: usize = 20_000;
/// … for this long.
const MAX_TIME: Duration = Duration::from_secs(1);
/// A larger file is not searched.
const MAX_BYTES: usize = 1 << 20;

/// The files that a plan may concern.
#[derive(Default)]
pub(super) struct Dependents {
    /// Those to be checked.
    pub documents: Vec<Document>,
    /// How many more there are.
    pub unchecked: usize,
    /// Not every file was searched.
    pub cut: bool,
}

/// What plans may concern, of languages whose servers run, and of what may be shown.
pub(super) async fn of(kit: &Kit, plans: &[Plan], cx: &ToolCx) -> Dependents {
    let changes: Vec<&FileChange> = plans.iter().flat_map(Plan::changes).collect();
    let mut names = BTreeSet::new();
    for change in &changes {
        if kit.servers.is_warm(source(change)) {
            names.extend(changed_names(kit, change).await);
        }
    }
    let changed: BTreeSet<AbsPath> =
        changes.iter().flat_map(|change| [change.path.clone(), source(change).clone()]).collect();
    let wanted =
        |path: &AbsPath| !changed.contains(path) && cx.policy().is_none_or(|policy| policy.may_read(path));
    let mut out = Dependents::default();
    let open = kit.workspace.open_documents().into_iter();
    out.documents = open.filter(|open| wanted(&open.path) && kit.servers.is_warm(&open.path)).collect();
    if !names.is_empty() {
        let (held, cut) = holders(kit, names, cx).await;
        let known: BTreeSet<AbsPath> = out.documents.iter().map(|open| open.path.clone()).collect();
        out.documents.extend(held.into_iter().filter(|it| wanted(&it.path) && !known.contains(&it.path)));
        out.cut = cut;
    }
    // What is likely to hold an import of a changed file before what is not.
    let stems: Vec<String> = changed.iter().filter_map(stem).collect();
    let imports =
        |document: &Document| stems.iter().any(|stem| occurrences(&document.text, stem).next().is_some());
    if out.documents.len() > MOST {
        out.documents.sort_by_key(|document| !imports(document));
    }
    out.unchecked = out.documents.len().saturating_sub(MOST);
    out.documents.truncate(MOST);
    out
}

fn source(change: &FileChange) -> &AbsPath {
    match &change.kind {
        ChangeKind::Renamed { from } => from,
        _ => &change.path,
    }
}

fn stem(path: &AbsPath) -> Option<String> {
    Some(path.as_path().file_stem()?.to_str()?.to_owned())
}

/// The names that are declared at the top level, before or after, by what the change touches.
async fn changed_names(kit: &Kit, change: &FileChange) -> Vec<String> {
    let mut out = Vec::new();
    let edits = match (&change.before, &change.after) {
        // All that it declared is gone, or another file's now.
        (Some(before), after) if after.is_none() || change.kind != ChangeKind::Modified => {
            vec![TextEdit::replace(0..before.len(), after.as_deref().unwrap_or_default())]
        }
        (None, Some(after)) => vec![TextEdit::insert(0, &**after)],
        _ => change.edits.clone(),
    };
    let sides = [(&change.before, ranges(&edits, false)), (&change.after, ranges(&edits, true))];
    for (text, touched) in sides {
        let Some(text) = text else { continue };
        let Some(tree) = kit.trees.tree(&kit.shown(&change.path), text).await else { continue };
        let names = tree.names(text).into_iter();
        let touches = |range: &Range<usize>| {
            touched.iter().any(|edit| edit.start < range.end && range.start < edit.end.max(edit.start + 1))
        };
        out.extend(names.filter(|(_, range)| touches(range)).map(|(name, _)| name));
    }
    out
}

/// What edits take from the text before, or give to the text after.
fn ranges(edits: &[TextEdit], after: bool) -> Vec<Range<usize>> {
    let mut growth = 0isize;
    let mut out = Vec::new();
    for edit in edits {
        let start = if after { edit.range.start.saturating_add_signed(growth) } else { edit.range.start };
        out.push(start..start + if after { edit.new_text.len() } else { edit.range.len() });
        growth += edit.growth();
    }
    out
}

/// The files of served languages that hold one of `names` as a word, and whether the search was cut.
async fn holders(kit: &Kit, names: BTreeSet<String>, cx: &ToolCx) -> (Vec<Document>, bool) {
    let (workspace, servers, cancel) = (kit.workspace.clone(), Arc::clone(&kit.servers), cx.cancel.clone());
    let search = tokio::task::spawn_blocking(move || {
        let started = Instant::now();
        let mut warm: HashMap<OsString, bool> = HashMap::new();
        let mut out = Vec::new();
        for (count, path) in workspace.files(workspace.root()).enumerate() {
            if count >= MAX_SEARCHED || started.elapsed() > MAX_TIME || cancel.is_cancelled() {
                return (out, true);
            }
            let kind = path.as_path().extension().or(path.as_path().file_name()).unwrap_or_default();
            let known = warm.get(kind).copied();
            if !known
                .unwrap_or_else(|| *warm.entry(kind.to_owned()).or_insert_with(|| servers.is_warm(&path)))
            {
                continue;
            }
            // What is no text, or is gone by now, holds no name.
            if let Ok(document) = workspace.document(&path)
                && document.text.len() <= MAX_BYTES
                && names.iter().any(|name| occurrences(&document.text, name).next().is_some())
            {
                out.push(document);
            }
        }
        (out, false)
    });
    search.await.unwrap_or_else(|_| (Vec::new(), true))
}
