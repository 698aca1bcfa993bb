//! Stub files: a second file of the same module (`a.py` and its stub `a.pyi`).
//!
//! A server edits only the file that it reads; the other would silently keep the old name. Pilcrow renames
//! a symbol in both files or in none.
//!
//! Invariants: the search finds the other declaration by its symbol path, never by its name alone. A module
//! also declares its imports (only Python has stubs here), which servers do not list among a file's symbols.

use std::collections::HashMap;
use std::sync::Arc;

use lsp_client::{Candidates, RequestCx, ServerHandle, ServerPool, Symbol};
use paths::AbsPath;
use text::{LineIndex, occurrences};
use workspace::{Document, Operation, Workspace, WorkspaceEdit};

use crate::error::StubConflict;
use crate::{RefactorError, edited, edits};

/// A rename that Pilcrow completes in stub files.
pub(crate) struct StubRename<'a> {
    pub workspace: &'a Workspace,
    pub pool: &'a Arc<ServerPool>,
    pub server: &'a ServerHandle,
    /// Old and new name.
    pub names: (&'a str, &'a str),
    pub candidates: &'a Candidates,
    pub cx: &'a RequestCx,
}

impl StubRename<'_> {
    /// Adds the text edits of stubs that declare the symbol too.
    ///
    /// # Errors
    /// [`RefactorError::Stub`] when the server does not rename there or the two edits overlap.
    pub async fn complete(&self, mut edit: WorkspaceEdit) -> Result<WorkspaceEdit, RefactorError> {
        // The edits of a stub may lead to another stub in turn.
        let mut seen: HashMap<AbsPath, usize> = HashMap::new();
        loop {
            let next = edited(&edit).find(|(path, edits)| seen.get(*path) != Some(&edits.len()));
            let Some((path, count)) = next.map(|(path, edits)| (path.clone(), edits.len())) else { break };
            seen.insert(path.clone(), count);
            let Some(stub) = self.stub(&path) else { continue };
            let has_name = occurrences(&stub.text, self.names.0).next().is_some();
            if !has_name || edits(&edit, &stub.path) {
                continue;
            }
            if let Some(offset) = self.declaration(&edit, &path, &stub).await? {
                let result = self.rename_in(&mut edit, &stub, offset).await;
                result.map_err(|conflict| self.refused(&edit, &path, &stub, offset, conflict))?;
            }
        }
        Ok(edit)
    }

    /// The other file of the module, if it exists.
    fn stub(&self, path: &AbsPath) -> Option<Document> {
        let extensions = self.server.stub_extensions(path);
        extensions.iter().find_map(|extension| {
            self.workspace.document(&AbsPath::new(path.as_path().with_extension(extension))?).ok()
        })
    }

    /// Finds a stub's declaration of the symbol that `edit` renames in `path`.
    async fn declaration(
        &self,
        edit: &WorkspaceEdit,
        path: &AbsPath,
        stub: &Document,
    ) -> Result<Option<usize>, RefactorError> {
        let old_name = self.names.0;
        let document = self.workspace.document(path).map_err(|error| RefactorError::Unreadable {
            file: self.workspace.relative(path),
            reason: error.to_string(),
        })?;
        let symbols = self.pool.symbols(&document, self.cx).await?.value;
        let places: Vec<usize> = edited(edit)
            .filter(|(edited, _)| *edited == path)
            .flat_map(|(_, edits)| edits.iter().map(|edit| edit.range.start))
            .collect();
        let mut declared = Vec::new();
        walk(&symbols, &mut |symbol| {
            if symbol.name == old_name && places.contains(&symbol.selection.start) {
                declared.push(symbol.path.clone());
            }
        });
        let imports = |document: &Document, symbols: &[Symbol], place: usize| {
            is_imported(&document.text, place, old_name)
                && !symbols.iter().any(|symbol| symbol.range.contains(&place))
        };
        if places.iter().any(|place| imports(&document, &symbols, *place)) {
            declared.push(old_name.to_owned());
        }
        let symbols = self.pool.symbols(stub, self.cx).await?.value;
        let mut found = None;
        walk(&symbols, &mut |symbol| {
            if declared.contains(&symbol.path) {
                found = found.or(Some(symbol.selection.start));
            }
        });
        let imported = || {
            let mut places = occurrences(&stub.text, old_name).map(|place| place.start);
            places.find(|place| imports(stub, &symbols, *place))
        };
        let is_top_level = declared.iter().any(|path| path == old_name);
        Ok(found.or_else(|| is_top_level.then(imported).flatten()))
    }

    /// Renames the declaration of a stub too.
    async fn rename_in(
        &self,
        edit: &mut WorkspaceEdit,
        stub: &Document,
        offset: usize,
    ) -> Result<(), StubConflict> {
        let more = self.server.rename(stub, offset, self.names, self.cx.clock()).await;
        let more = more.map_err(StubConflict::Refused)?;
        if !edits(&more, &stub.path) {
            return Err(StubConflict::Unchanged);
        }
        join(edit, more).map_err(StubConflict::Overlap)
    }

    fn refused(
        &self,
        edit: &WorkspaceEdit,
        path: &AbsPath,
        stub: &Document,
        offset: usize,
        conflict: StubConflict,
    ) -> RefactorError {
        // Uses that the server does not attribute to one file may belong to the other.
        let is_left = |path: &&AbsPath| **path != stub.path && !edits(edit, path);
        let users = self.candidates.paths().filter(is_left).map(|path| self.workspace.relative(path));
        RefactorError::Stub {
            file: self.workspace.relative(path),
            stub: self.workspace.relative(&stub.path),
            line: LineIndex::new(&stub.text).line_of(offset) + 1,
            name: self.names.0.to_owned(),
            conflict: Box::new(conflict),
            users: users.collect(),
        }
    }
}

/// The other files of a module that exist, by all definitions.
pub(crate) fn stubs(workspace: &Workspace, pool: &ServerPool, path: &AbsPath) -> Vec<Document> {
    let paths = pool.stub_extensions(path).into_iter();
    let paths = paths.filter_map(|extension| AbsPath::new(path.as_path().with_extension(extension)));
    paths.filter_map(|path| workspace.document(&path).ok()).collect()
}

/// Whether a Python import binds `name` at a place in its module.
///
/// `from m import name` and `import m as name` do; `from m import name as other` does not.
fn is_imported(text: &str, place: usize, name: &str) -> bool {
    let (Some(before), Some(after)) = (text.get(..place), text.get(place..)) else { return false };
    let Some(after) = after.strip_prefix(name) else { return false };
    let mut rest = after.split_whitespace().filter(|word| *word != "\\");
    if after.starts_with([' ', '\t', '\\']) && rest.next() == Some("as") && rest.next() != Some(name) {
        return false;
    }
    // A backslash at the end of a line continues it.
    let before = before.replace("\\\r\n", " ").replace("\\\n", " ");
    // The statement begins on this line, or on an earlier one that opens a parenthesis.
    let mut start = before.rfind('\n').map_or(0, |at| at + 1);
    let statement = loop {
        let statement = before[start..].trim_start();
        if statement.starts_with("from ") || statement.starts_with("import ") {
            break statement;
        }
        let Some(end) = start.checked_sub(1) else { return false };
        start = before[..end].rfind('\n').map_or(0, |at| at + 1);
        if before[start..].contains([')', ';']) {
            return false;
        }
    };
    let opens = statement.split_once('\n').is_none_or(|(first, _)| first.contains('('));
    if !opens || statement.contains([')', ';']) {
        return false;
    }
    match statement.starts_with("from ") {
        true => statement.split_whitespace().any(|word| word == "import" || word.starts_with("import(")),
        false => statement.trim_end().ends_with(" as"),
    }
}

fn walk(symbols: &[Symbol], each: &mut impl FnMut(&Symbol)) {
    for symbol in symbols {
        each(symbol);
        walk(&symbol.children, each);
    }
}

/// Adds the text edits of `more`.
///
/// `Err` is a file in which both change one place differently.
fn join(edit: &mut WorkspaceEdit, more: WorkspaceEdit) -> Result<(), AbsPath> {
    for operation in more.operations {
        let Operation::Edit { path, edits, .. } = &operation else { continue };
        let known = edit.operations.iter_mut().find_map(|known| match known {
            Operation::Edit { path: known, edits, .. } if known == path => Some(edits),
            _ => None,
        });
        let Some(known) = known else {
            edit.operations.push(operation);
            continue;
        };
        known.extend(edits.iter().filter(|edit| !known.contains(edit)).cloned().collect::<Vec<_>>());
        known.sort_by_key(|edit| (edit.range.start, edit.range.end));
        if known.windows(2).any(|pair| pair[1].range.start < pair[0].range.end) {
            return Err(path.clone());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::is_imported;

    #[test]
    fn a_name_that_an_import_binds_is_recognized() {
        for (text, binds) in [
            ("from m import old", true),
            ("from m import a, old, b", true),
            ("from m import (\n    a,\n    old,\n)", true),
            ("try:\n    from m import old\n", true),
            ("import m as old", true),
            ("from m import old as old", true),
            ("from m import old as other", false),
            ("from old import a", false),
            ("import old", false),
            ("from m import \\\n    a, \\\r\n    old", true),
            ("from m \\\n    import old", true),
            ("from m import old \\\n    as other", false),
            ("from m import a, \\\n    b\nold()", false),
            ("from m import a\nold()", false),
            ("from m import (a)\nold()", false),
            ("from m import a; old()", false),
            ("from m import a\nf(old)", false),
            ("x = old", false),
        ] {
            assert_eq!(is_imported(text, text.find("old").unwrap(), "old"), binds, "{text}");
        }
    }
}
