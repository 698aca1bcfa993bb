//! Dependents: files that a change may affect without touching them.
//!
//! These contain a name whose top-level declaration changes, or the old place of a file that moves, or may declare
//! the new name of a rename, or are open in the editor.
//!
//! Names are found as words: files that mean another symbol are checked in vain, and no searched
//! file that means this one is missed.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lsp_client::{RequestCx, ServerPool};
use paths::AbsPath;
use policy::Policy;
use text::{TextEdit, occurrences};
use tokio_util::sync::CancellationToken;
use workspace::{Budget, ChangeKind, Document, FileChange};

use super::{Replaced, cold_servers};
use crate::ToolContext;
use crate::search::declaring;

/// Maximum number of files that are checked at once.
const MOST: usize = 20;
/// Maximum number of files that are checked while time is left.
const MAX_LATER: usize = 180;
/// Maximum number of searched files.
const MAX_SEARCHED: usize = 20_000;
/// Time limit of the search.
const MAX_TIME: Duration = Duration::from_secs(1);
/// Words in lines that name a module without its file name.
const IMPORTS: [&str; 5] = ["import", "include", "require", "use ", "mod "];
/// Maximum number of names that are searched for.
///
/// A generated file may declare a million.
const MAX_NAMES: usize = 1_000;
/// Size of the largest file that is searched.
const MAX_BYTES: usize = 1 << 20;

/// The files that a plan may affect.
#[derive(Default)]
pub(super) struct Dependents {
    /// The files to check.
    pub documents: Vec<Document>,
    /// The files to check while time is left, the most affected first.
    pub later: Vec<Document>,
    /// Number of further files.
    pub unchecked: usize,
    /// Package roots of files without a running server.
    pub cold: BTreeSet<AbsPath>,
    /// Whether not every file was searched.
    pub cut: bool,
}

/// Finds the dependents of changes among readable files.
///
/// Only of languages whose servers run or start.
///
/// `replaced`: the word that the edit replaces by another, if it does nothing else.
pub(super) async fn of(
    context: &ToolContext,
    changes: &[FileChange],
    replaced: Option<&Replaced>,
    policy: Option<&Policy>,
    cancel: &CancellationToken,
) -> Dependents {
    let mut names = Names::default();
    let mut moved = BTreeSet::new();
    for change in changes {
        let moves = matches!(change.kind, ChangeKind::Renamed { .. });
        // Dependents of a move are reported even if no server can be asked yet.
        if cold_servers::is_asked(context, source(change))
            || moves && cold_servers::root(context, change).is_some()
        {
            names.words.extend(changed_names(context, change).await);
            if moves {
                names.places.extend(Place::of(source(change)));
                moved.insert(change.path.clone());
            }
        }
    }
    if !names.words.is_empty() {
        names.words.extend(replaced.filter(|it| it.is_rename()).map(|it| it.old.clone()));
    }
    // The new name may clash with a declaration in a file that uses none of the old ones.
    let mut new_name = replaced.filter(|_| !names.words.is_empty()).map(|it| it.new.as_str());
    if let Some(replaced) = replaced
        && !is_visible(context, changes, replaced).await
    {
        new_name = None;
    }
    let words = names.words.clone();
    let changed: BTreeSet<AbsPath> =
        changes.iter().flat_map(|change| [change.path.clone(), source(change).clone()]).collect();
    let wanted =
        |path: &AbsPath| !changed.contains(path) && policy.is_none_or(|policy| policy.may_read(path));
    let mut out = Dependents::default();
    let open = context.workspace.open_documents().into_iter();
    out.documents =
        open.filter(|open| wanted(&open.path) && cold_servers::is_asked(context, &open.path)).collect();
    if !(names.words.is_empty() && names.places.is_empty()) {
        let is_partial = names.words.len() > MAX_NAMES;
        names.words = names.words.into_iter().take(MAX_NAMES).collect();
        let affecting = names.clone();
        names.words.extend(new_name.map(str::to_owned));
        let is_served = |path: &AbsPath| moved.contains(path) || cold_servers::is_asked(context, path);
        let asked: Vec<AbsPath> = changed.iter().filter(|path| is_served(path)).take(MOST).cloned().collect();
        let (candidates, left, cut) = candidate_files(context, names, asked, cancel.clone()).await;
        let (mut candidates, others): (Vec<_>, Vec<_>) =
            candidates.into_iter().partition(|it| affecting.are_in(&it.text));
        if let Some(name) = new_name {
            let request = RequestCx::new(MAX_TIME * 2, cancel);
            candidates.extend(declaring(&others, name, &request).await.unwrap_or_default());
        }
        let known: BTreeSet<AbsPath> = out.documents.iter().map(|open| open.path.clone()).collect();
        out.documents
            .extend(candidates.into_iter().filter(|it| wanted(&it.path) && !known.contains(&it.path)));
        out.cut = cut || is_partial;
        let left: Vec<(AbsPath, AbsPath)> = left.into_iter().filter(|(path, _)| wanted(path)).collect();
        out.unchecked = left.len();
        out.cold = left.into_iter().map(|(_, root)| root).collect();
    }
    // Files with the new name come first, then those that probably import a changed file, then those that name
    // more of the changed names.
    let stems: Vec<String> = changed.iter().filter_map(stem).collect();
    let has = |document: &Document, word: &str| occurrences(&document.text, word).next().is_some();
    let imports = |document: &Document| stems.iter().any(|stem| has(document, stem));
    if out.documents.len() > MOST {
        let contained = |document: &Document| words.iter().filter(|word| has(document, word)).count();
        let clashes = |document: &Document| new_name.is_some_and(|name| has(document, name));
        out.documents.sort_by_cached_key(|it| (!clashes(it), !imports(it), Reverse(contained(it))));
    }
    out.later = out.documents.split_off(MOST.min(out.documents.len()));
    out.unchecked += out.later.len().saturating_sub(MAX_LATER);
    out.later.truncate(MAX_LATER);
    out
}

/// Whether other files may see the word that an edit inserts as a name.
async fn is_visible(context: &ToolContext, changes: &[FileChange], replaced: &Replaced) -> bool {
    for change in changes {
        let Some(text) = &change.after else { continue };
        let Some(tree) = context.trees.tree(&context.display_path(&change.path), text).await else {
            return true;
        };
        // A single use is no rename.
        let declares = |range: &Range<usize>| replaced.is_rename() || !text[..range.start].ends_with('.');
        let new = ranges(&change.edits, true).into_iter().filter(declares);
        if new.into_iter().any(|range| !tree.is_local(text, range)) {
            return true;
        }
    }
    false
}

/// The path of a change's file before it.
pub(super) fn source(change: &FileChange) -> &AbsPath {
    match &change.kind {
        ChangeKind::Renamed { from } => from,
        _ => &change.path,
    }
}

/// Names by which a file depends on a change.
#[derive(Default, Clone)]
struct Names {
    words: BTreeSet<String>,
    /// Previous places of files that move.
    places: Vec<Place>,
}

impl Names {
    fn are_in(&self, text: &str) -> bool {
        self.words.iter().any(|name| occurrences(text, name).next().is_some())
            || self.places.iter().any(|place| place.is_in(text))
    }
}

/// A file, as other files may name it.
#[derive(Clone)]
struct Place {
    stem: String,
    extension: String,
    /// Whether the file represents its directory, so that its name is not specific.
    head: bool,
}

impl Place {
    fn of(path: &AbsPath) -> Option<Self> {
        let stem = stem(path)?;
        let extension = path.as_path().extension().and_then(|it| it.to_str());
        let extension = extension.map(|it| format!(".{it}")).unwrap_or_default();
        let head = ["index", "__init__", "mod"].contains(&stem.as_str());
        Some(Self { stem, extension, head })
    }

    /// Whether a text contains the file's name (`length.h`).
    ///
    /// Also accepts a path or import that may lead to the file (`./length`, `from .length import`).
    fn is_in(&self, text: &str) -> bool {
        occurrences(text, &self.stem).any(|at| {
            let (before, after) = (&text[..at.start], &text[at.end..]);
            let line = before.rfind('\n').map_or(0, |end| end + 1);
            let line = text[line..].lines().next().unwrap_or_default();
            let whole = !self.extension.is_empty() && after.starts_with(&self.extension);
            let imported = || IMPORTS.iter().any(|word| line.contains(word));
            whole || !self.head && (before.ends_with('/') || imported())
        })
    }
}

fn stem(path: &AbsPath) -> Option<String> {
    Some(path.as_path().file_stem()?.to_str()?.to_owned())
}

/// Top-level names declared where the change touches the text.
///
/// Both those before and those after the change.
async fn changed_names(context: &ToolContext, change: &FileChange) -> Vec<String> {
    let mut out = Vec::new();
    let edits = match (&change.before, &change.after) {
        // All declarations are gone, or belong to another file now.
        (Some(before), after) if after.is_none() || change.kind != ChangeKind::Modified => {
            vec![TextEdit::replace(0..before.len(), after.as_deref().unwrap_or_default())]
        }
        (None, Some(after)) => vec![TextEdit::insert(0, &**after)],
        _ => change.edits.clone(),
    };
    let sides = [(&change.before, ranges(&edits, false)), (&change.after, ranges(&edits, true))];
    for (text, touched) in sides {
        let Some(text) = text else { continue };
        let Some(tree) = context.trees.tree(&context.display_path(&change.path), text).await else {
            continue;
        };
        let names = tree.names(text).into_iter();
        let touches = |range: &Range<usize>| {
            let at = touched.partition_point(|edit| edit.end.max(edit.start + 1) <= range.start);
            touched.get(at).is_some_and(|edit| edit.start < range.end)
        };
        out.extend(names.filter(|(_, range)| touches(range)).map(|(name, _)| name));
    }
    out
}

/// The ranges that edits remove from the old text, or insert into the new one.
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

/// Files that contain one of `names` and whose servers run or start.
///
/// Also returns files of the languages of `asked` without a running server, with their package roots, and whether
/// the search was cut.
async fn candidate_files(
    context: &ToolContext,
    names: Names,
    asked: Vec<AbsPath>,
    cancel: CancellationToken,
) -> (Vec<Document>, Vec<(AbsPath, AbsPath)>, bool) {
    let (workspace, servers) = (context.workspace.clone(), Arc::clone(&context.servers));
    let search = tokio::task::spawn_blocking(move || {
        let until = Instant::now() + MAX_TIME;
        let budget = Budget { files: MAX_SEARCHED, bytes: MAX_BYTES, until, cancel };
        let mut paths = workspace.candidates(workspace.files(workspace.root()), budget);
        // Files of one kind in one directory have the same servers.
        let mut known: HashMap<(PathBuf, OsString), Served> = HashMap::new();
        let (mut out, mut left, mut cold) = (Vec::new(), Vec::new(), Vec::new());
        let filters: Vec<_> = names.words.iter().map(|name| workspace.word_filter(name)).collect();
        let candidate = |path: &AbsPath| {
            if names.places.is_empty() && !filters.iter().any(|filter| filter.may_be_in(path)) {
                return None;
            }
            // A file that is not text, or was deleted, contains no name.
            let document = workspace.document(path).ok().filter(|it| it.text.len() <= MAX_BYTES)?;
            names.are_in(&document.text).then_some(document)
        };
        for path in paths.by_ref() {
            let file = path.as_path();
            let kind = file.extension().or(file.file_name()).unwrap_or_default().to_owned();
            let directory = file.parent().unwrap_or(file).to_owned();
            match known.entry((directory, kind)).or_insert_with(|| Served::of(&servers, &path, &asked)) {
                Served::Asked => out.extend(candidate(&path)),
                Served::Cold(root) => cold.push((path, root.clone())),
                Served::Not => {}
            }
        }
        for (path, root) in cold {
            if paths.is_spent() {
                return (out, left, true);
            }
            if candidate(&path).is_some() {
                left.push((path, root));
            }
        }
        (out, left, !paths.is_complete())
    });
    search.await.unwrap_or_else(|_| (Vec::new(), Vec::new(), true))
}

/// Whether servers can be asked about a file.
enum Served {
    /// A server runs or starts.
    Asked,
    /// A server exists and does not run, for this package root.
    Cold(AbsPath),
    Not,
}

impl Served {
    fn of(servers: &ServerPool, path: &AbsPath, asked: &[AbsPath]) -> Self {
        if servers.is_warm(path) || servers.is_starting(path) {
            return Self::Asked;
        }
        servers.cold_root(path, asked).map_or(Self::Not, Self::Cold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_place_is_named_by_its_file_a_path_or_an_import() {
        let place = |path: &str| Place::of(&AbsPath::new(path).unwrap()).unwrap();
        let header = place("/p/src/length.h");
        for text in ["#include \"./length.h\"\n", "x\n#include <p/length.h>", "see length.h", "`src/length`"]
        {
            assert!(header.is_in(text), "{text}");
        }
        for text in ["int length = 1;", "a.length;\n#include \"x.h\"", "wavelength.h", ""] {
            assert!(!header.is_in(text), "{text}");
        }
        assert!(place("/p/signals.py").is_in("def f():\n    from .signals import x\n"));
        assert!(!place("/p/a/index.ts").is_in("import index from './a'"));
        assert!(place("/p/a/index.ts").is_in("import x from './a/index.ts'"));
    }
}
