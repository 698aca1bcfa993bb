//! Rename of a symbol: the server's edit with stub files, checked for overrides.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use lsp_client::{Candidates, Location, Renamed, RequestCx, ServerPool, Symbol};
use paths::AbsPath;
use text::{LineIndex, TextEdit, occurrences};
use workspace::{Document, Operation, Workspace, WorkspaceEdit};

use crate::overrides::{Members, OverrideSearch, OverrideSet};
use crate::stub_files::StubRename;
use crate::{Note, RefactorError, edited, notes, shorthand};

/// The symbol, the new name, and all declarations of a rename.
#[derive(Debug)]
pub struct RenameRequest<'a> {
    pub document: &'a Document,
    /// The name in the document; empty where only a position is known.
    pub range: Range<usize>,
    pub new_name: &'a str,
    /// Other declarations of the same symbol, which must be renamed with it.
    pub declarations: &'a [Declaration],
}

/// The place of a declaration of a symbol.
#[derive(Debug, Clone)]
pub struct Declaration {
    pub path: AbsPath,
    pub range: Range<usize>,
}

/// The planned edit of a rename, with notes and places of the old name.
#[derive(Debug)]
pub struct Rename {
    pub edit: WorkspaceEdit,
    /// The name of the server's definition.
    pub server: String,
    pub notes: Vec<Note>,
    pub mentions: Mentions,
    /// The name that the server replaces.
    pub old_name: String,
}

/// The files that contained the old name when the rename was planned.
#[derive(Debug, Clone, Default)]
pub struct Mentions {
    pub paths: Vec<AbsPath>,
    /// Whether more files may contain the old name.
    pub is_cut: bool,
}

/// Plans a rename in all files.
///
/// # Errors
/// [`RefactorError`], also in place of an incomplete rename.
pub async fn rename(
    workspace: &Workspace,
    pool: &Arc<ServerPool>,
    request: &RenameRequest<'_>,
    cx: &RequestCx,
) -> Result<Rename, RefactorError> {
    let RenameRequest { document, range, new_name, declarations } = request;
    let mut renamed = pool.rename(document, range.start, new_name, cx).await?;
    let completed = complete(workspace, pool, &mut renamed, request, cx).await;
    let server_notes = renamed.close().await;
    let overrides = completed?;
    let Renamed { server, old_name, mut edit, candidates, .. } = renamed;
    if let Some(index) = declarations.iter().position(|declaration| !touches(&edit, declaration)) {
        return Err(RefactorError::DeclarationKept { index });
    }
    shorthand::keep_other_name(workspace, &mut edit, &old_name, new_name);
    let taken = sibling(pool, document, range, new_name, cx).await;
    let here = Declaration { path: document.path.clone(), range: range.clone() };
    // At a keyword before a name the server renames that name.
    let is_named = document.text.get(range.clone()) == Some(&*old_name);
    let kept = (is_named && !touches(&edit, &here)).then(|| Note::NameKept {
        name: old_name.clone(),
        place: Location::new(
            document.path.clone(),
            &document.text,
            &LineIndex::new(&document.text),
            range.clone(),
        ),
    });
    let taken = taken.map(|place| Note::NameTaken { name: (*new_name).to_owned(), place });
    let overrides = (!overrides.is_empty()).then(|| Note::OverridesNotRenamed(Box::new(overrides)));
    let notes =
        kept.into_iter().chain(taken).chain(overrides).chain(notes::of_server(server_notes)).collect();
    Ok(Rename { edit, server: server.name().to_owned(), notes, mentions: mentions(candidates), old_name })
}

/// Adds uses that the server's edit lacks, and finds overrides with the old name.
async fn complete(
    workspace: &Workspace,
    pool: &Arc<ServerPool>,
    renamed: &mut Renamed,
    request: &RenameRequest<'_>,
    cx: &RequestCx,
) -> Result<OverrideSet, RefactorError> {
    let names = (renamed.old_name.as_str(), request.new_name);
    let stubs =
        StubRename { workspace, pool, server: &renamed.server, names, candidates: &renamed.candidates, cx };
    renamed.edit = stubs.complete(std::mem::take(&mut renamed.edit)).await?;
    let places = places(&renamed.edit);
    let is_renamed = |path: &AbsPath, at: usize| places.get(path).is_some_and(|starts| starts.contains(&at));
    let search = OverrideSearch {
        workspace,
        pool,
        server: &renamed.server,
        members: Members::All,
        is_known: &is_renamed,
    };
    let at = (request.document, request.range.start);
    Ok(search.run(at, Some(&renamed.candidates), cx.clock()).await?)
}

/// Finds a symbol with the new name in the scope of the renamed one.
///
/// `None` also if the server gives no symbols.
async fn sibling(
    pool: &Arc<ServerPool>,
    document: &Document,
    range: &Range<usize>,
    name: &str,
    cx: &RequestCx,
) -> Option<Location> {
    fn scope<'a>(symbols: &'a [Symbol], at: &Range<usize>) -> Option<&'a [Symbol]> {
        let inside = |outer: &Range<usize>| outer.start <= at.start && at.end <= outer.end;
        if symbols.iter().any(|symbol| inside(&symbol.selection)) {
            return Some(symbols);
        }
        symbols.iter().find_map(|symbol| scope(&symbol.children, at))
    }
    let symbols = pool.symbols(document, cx).await.ok()?;
    let found = scope(&symbols.value, range)?.iter().find(|symbol| symbol.name == name)?;
    Some(Location::new(
        document.path.clone(),
        &document.text,
        &LineIndex::new(&document.text),
        found.selection.clone(),
    ))
}

/// Whether an edit changes a declaration.
fn touches(edit: &WorkspaceEdit, declaration: &Declaration) -> bool {
    let range = &declaration.range;
    edit.operations.iter().any(|operation| match operation {
        Operation::Edit { path, edits, .. } => {
            let overlaps = |edit: &TextEdit| edit.range.start < range.end && range.start < edit.range.end;
            *path == declaration.path && edits.iter().any(overlaps)
        }
        Operation::Create { path, .. } => *path == declaration.path,
        _ => false,
    })
}

/// The places that an edit changes.
fn places(edit: &WorkspaceEdit) -> HashMap<&AbsPath, HashSet<usize>> {
    let mut places: HashMap<&AbsPath, HashSet<usize>> = HashMap::new();
    for (path, edits) in edited(edit) {
        places.entry(path).or_default().extend(edits.iter().map(|edit| edit.range.start));
    }
    places
}

fn mentions(candidates: Candidates) -> Mentions {
    let Candidates { documents, omitted, is_cut, others, others_cut, .. } = candidates;
    let paths = documents.into_iter().map(|document| document.path).chain(omitted).chain(others).collect();
    Mentions { paths, is_cut: is_cut || others_cut }
}

/// Lines of a file where the old name still occurs, from 1.
///
/// One for each occurrence.
#[derive(Debug, PartialEq, Eq)]
pub struct MentionsLeft {
    pub path: AbsPath,
    pub lines: Vec<usize>,
    /// Those in definitions of C macros, where no server renames a member.
    pub in_macros: Vec<usize>,
}

impl Mentions {
    /// The places where `name` still occurs. Reads the files.
    pub fn left(&self, workspace: &Workspace, name: &str) -> Vec<MentionsLeft> {
        let left = |path: &AbsPath| {
            let text = workspace.document(path).ok()?.text;
            let index = LineIndex::new(&text);
            let lines: Vec<usize> = occurrences(&text, name).map(|at| index.line_of(at.start) + 1).collect();
            let in_macros = lines.iter().copied().filter(|line| is_in_macro(&text, *line)).collect();
            (!lines.is_empty()).then(|| MentionsLeft { path: path.clone(), lines, in_macros })
        };
        self.paths.iter().filter_map(left).collect()
    }
}

/// Whether a line, from 1, belongs to the definition of a C macro.
fn is_in_macro(text: &str, line: usize) -> bool {
    let lines: Vec<&str> = text.lines().take(line).collect();
    let continued = lines.iter().rev().skip(1).take_while(|line| line.ends_with('\\')).count();
    let first = lines.len().checked_sub(continued + 1).and_then(|first| lines.get(first));
    let directive = first.and_then(|line| line.trim_start().strip_prefix('#'));
    directive.is_some_and(|rest| rest.trim_start().starts_with("define"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_macro_are_those_that_its_define_continues() {
        let text = "int a;\n# define F(x) \\\n  (x)->a; \\\n  b\nint c;\n#if a\n";
        let lines: Vec<usize> = (0..8).filter(|line| is_in_macro(text, *line)).collect();
        assert_eq!(lines, [2, 3, 4]);
    }
}
