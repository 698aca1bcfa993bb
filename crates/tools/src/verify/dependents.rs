//! The files that a change may concern though it does not touch them: those that hold a name whose
//! top-level declaration changes, those that name the old place of a file that moves, and those that are
//! open in the editor.
//!
//! A name is found as a word, so a file that means another thing by it is looked at in vain; no file
//! that means this one is missed among those that were searched.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::ToolCx;
use lsp_client::ServerPool;
use text::{TextEdit, occurrences};
use workspace::{AbsPath, ChangeKind, Document, FileChange};

use super::cold;
use crate::Kit;

/// At most this many are checked.
const MOST: usize = 20;
/// At most this many files are searched …
const MAX_SEARCHED: usize = 20_000;
/// … for this long.
const MAX_TIME: Duration = Duration::from_secs(1);
/// What lines hold that name modules by less than their files.
const IMPORTS: [&str; 5] = ["import", "include", "require", "use ", "mod "];
/// A larger file is not searched.
const MAX_BYTES: usize = 1 << 20;

/// The files that a plan may concern.
#[derive(Default)]
pub(super) struct Dependents {
    /// Those to be checked.
    pub documents: Vec<Document>,
    /// How many more there are.
    pub unchecked: usize,
    /// Package roots of those that no server could be asked about.
    pub cold: BTreeSet<AbsPath>,
    /// Not every file was searched.
    pub cut: bool,
}

/// What changes may concern, of languages whose servers run or start, and of what may be shown.
pub(super) async fn of(kit: &Kit, changes: &[&FileChange], cx: &ToolCx) -> Dependents {
    let mut names = Names::default();
    let mut moved = BTreeSet::new();
    for change in changes {
        let moves = matches!(change.kind, ChangeKind::Renamed { .. });
        // Of a move is told whom it may concern, also where nobody can be asked about it yet.
        if cold::is_asked(kit, source(change)) || moves && cold::root(kit, change).is_some() {
            names.words.extend(changed_names(kit, change).await);
            if moves {
                names.places.extend(Place::of(source(change)));
                moved.insert(change.path.clone());
            }
        }
    }
    let changed: BTreeSet<AbsPath> =
        changes.iter().flat_map(|change| [change.path.clone(), source(change).clone()]).collect();
    let wanted =
        |path: &AbsPath| !changed.contains(path) && cx.policy().is_none_or(|policy| policy.may_read(path));
    let mut out = Dependents::default();
    let open = kit.workspace.open_documents().into_iter();
    out.documents = open.filter(|open| wanted(&open.path) && cold::is_asked(kit, &open.path)).collect();
    if !(names.words.is_empty() && names.places.is_empty()) {
        let is_served = |path: &AbsPath| moved.contains(path) || cold::is_asked(kit, path);
        let asked: Vec<AbsPath> = changed.iter().filter(|path| is_served(path)).take(MOST).cloned().collect();
        let (held, left, cut) = holders(kit, names, asked, cx).await;
        let known: BTreeSet<AbsPath> = out.documents.iter().map(|open| open.path.clone()).collect();
        out.documents.extend(held.into_iter().filter(|it| wanted(&it.path) && !known.contains(&it.path)));
        out.cut = cut;
        let left: Vec<(AbsPath, AbsPath)> = left.into_iter().filter(|(path, _)| wanted(path)).collect();
        out.unchecked = left.len();
        out.cold = left.into_iter().map(|(_, root)| root).collect();
    }
    // What is likely to hold an import of a changed file before what is not.
    let stems: Vec<String> = changed.iter().filter_map(stem).collect();
    let imports =
        |document: &Document| stems.iter().any(|stem| occurrences(&document.text, stem).next().is_some());
    if out.documents.len() > MOST {
        out.documents.sort_by_key(|document| !imports(document));
    }
    out.unchecked += out.documents.len().saturating_sub(MOST);
    out.documents.truncate(MOST);
    out
}

fn source(change: &FileChange) -> &AbsPath {
    match &change.kind {
        ChangeKind::Renamed { from } => from,
        _ => &change.path,
    }
}

/// What a file may hold that a change concerns.
#[derive(Default)]
struct Names {
    words: BTreeSet<String>,
    /// Old places of files that move.
    places: Vec<Place>,
}

impl Names {
    fn are_in(&self, text: &str) -> bool {
        self.words.iter().any(|name| occurrences(text, name).next().is_some())
            || self.places.iter().any(|place| place.is_in(text))
    }
}

/// A file, as others may name it.
struct Place {
    stem: String,
    /// With its dot.
    extension: String,
    /// It stands for its folder, so its own name alone says nothing.
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

    /// Whether a text holds the file's name (`length.h`), or what may lead to it in a path or an import (`./length`,
    /// `from .length import`).
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

/// The files that hold one of `names` as a word and whose servers run or start; those of the languages of
/// `asked` whose servers do not, with their package roots; and whether the search was cut.
async fn holders(
    kit: &Kit,
    names: Names,
    asked: Vec<AbsPath>,
    cx: &ToolCx,
) -> (Vec<Document>, Vec<(AbsPath, AbsPath)>, bool) {
    let (workspace, servers, cancel) = (kit.workspace.clone(), Arc::clone(&kit.servers), cx.cancel.clone());
    let search = tokio::task::spawn_blocking(move || {
        let started = Instant::now();
        // The files of one kind in one folder have the same servers.
        let mut known: HashMap<(PathBuf, OsString), Served> = HashMap::new();
        let (mut out, mut left, mut cold) = (Vec::new(), Vec::new(), Vec::new());
        let held = |path: &AbsPath| {
            // What is no text, or is gone by now, holds no name.
            let document = workspace.document(path).ok().filter(|it| it.text.len() <= MAX_BYTES)?;
            names.are_in(&document.text).then_some(document)
        };
        let is_over = || started.elapsed() > MAX_TIME || cancel.is_cancelled();
        for (count, path) in workspace.files(workspace.root()).enumerate() {
            if count >= MAX_SEARCHED || is_over() {
                return (out, left, true);
            }
            let file = path.as_path();
            let kind = file.extension().or(file.file_name()).unwrap_or_default().to_owned();
            let folder = file.parent().unwrap_or(file).to_owned();
            match known.entry((folder, kind)).or_insert_with(|| Served::of(&servers, &path, &asked)) {
                Served::Asked => out.extend(held(&path)),
                Served::Cold(root) => cold.push((path, root.clone())),
                Served::Not => {}
            }
        }
        for (path, root) in cold {
            if is_over() {
                return (out, left, true);
            }
            if held(&path).is_some() {
                left.push((path, root));
            }
        }
        (out, left, false)
    });
    search.await.unwrap_or_else(|_| (Vec::new(), Vec::new(), true))
}

/// Who can be asked about a file.
enum Served {
    /// A server that runs or starts.
    Asked,
    /// One that does neither, for this package root.
    Cold(AbsPath),
    /// Nobody.
    Not,
}

impl Served {
    fn of(servers: &ServerPool, path: &AbsPath, asked: &[AbsPath]) -> Self {
        if servers.is_warm(path) || servers.is_coming(path) {
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
