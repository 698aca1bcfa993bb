//! The two files of one module, where a language has such (`a.py` and its stub `a.pyi`): a name is
//! renamed in both or in none.
//!
//! A server answers for the one that it reads; the other would keep the old name unseen. What must stay
//! true: the other's declaration is found by its path of names, never by its words alone. What a module
//! imports it declares too (Python's only, the one language that has such files here): servers do not
//! name that among a file's symbols.

use std::collections::HashMap;
use std::sync::Arc;

use workspace::{AbsPath, Document, ErrorCode, Operation, WorkspaceEdit};

use super::rename::{edited, renamed};
use crate::answer::Symbol;
use crate::error::ServerError;
use crate::pool::{RequestCx, ServerPool};
use crate::server::Server;
use crate::view::View;

/// Files named in a refusal.
const NAMED: usize = 10;

impl ServerPool {
    /// `edit` with the places of the other files that declare what it renames. `holders`: files that hold
    /// the name.
    ///
    /// # Errors
    /// `Refused` that names the other file, when the server does not rename there or the two edits do not
    /// fit together.
    pub(super) async fn with_twins(
        self: &Arc<Self>,
        server: &Server,
        mut edit: WorkspaceEdit,
        names: (&str, &str),
        holders: &[AbsPath],
        cx: &RequestCx,
    ) -> Result<WorkspaceEdit, ServerError> {
        let (old_name, new_name) = names;
        // What one brings may have a second file in turn.
        let mut seen: HashMap<AbsPath, usize> = HashMap::new();
        loop {
            let next = edited(&edit).find(|(path, edits)| seen.get(*path) != Some(&edits.len()));
            let Some((path, edits)) = next.map(|(path, edits)| (path.clone(), edits.len())) else { break };
            seen.insert(path.clone(), edits);
            let Some(twin) = self.twin(server, &path) else { continue };
            let holds = text::occurrences(&twin.text, old_name).next().is_some();
            if !holds || edited(&edit).any(|(edited, _)| *edited == twin.path) {
                continue;
            }
            let document = self.workspace.document(&path).map_err(|error| {
                server.refused(ErrorCode::IoError, format!("{}: {error}", self.workspace.relative(&path)))
            })?;
            let symbols = self.symbols(&document, cx).await?.value;
            let places: Vec<usize> = edited(&edit)
                .filter(|(edited, _)| **edited == path)
                .flat_map(|(_, edits)| edits.iter().map(|edit| edit.range.start))
                .collect();
            let mut declared = Vec::new();
            walk(&symbols, &mut |symbol| {
                if symbol.name == old_name && places.contains(&symbol.selection.start) {
                    declared.push(symbol.path.clone());
                }
            });
            let is_imported = |document: &Document, symbols: &[Symbol], place: usize| {
                imports(&document.text, place, old_name)
                    && !symbols.iter().any(|symbol| symbol.range.contains(&place))
            };
            if places.iter().any(|place| is_imported(&document, &symbols, *place)) {
                declared.push(old_name.to_owned());
            }
            let others = self.symbols(&twin, cx).await?.value;
            let mut same = Vec::new();
            walk(&others, &mut |symbol| {
                if declared.contains(&symbol.path) {
                    same.push(symbol.selection.start);
                }
            });
            if same.is_empty() && declared.iter().any(|path| path == old_name) {
                let words = text::occurrences(&twin.text, old_name).map(|place| place.start);
                same.extend(words.filter(|place| is_imported(&twin, &others, *place)).take(1));
            }
            let Some(offset) = same.first() else { continue };
            let clock = cx.clock();
            let more = renamed(server, &twin, *offset, old_name, new_name, clock).await;
            // What the server does not take for a use of this one may be one of the other.
            let is_left = |it: &&AbsPath| **it != twin.path && edited(&edit).all(|(path, _)| path != *it);
            let left: Vec<String> =
                holders.iter().filter(is_left).map(|it| self.workspace.relative(it)).collect();
            let refused = |reason: &str| {
                let (name, other) = (self.workspace.relative(&path), self.workspace.relative(&twin.path));
                let line = View::new(Arc::clone(&twin.text)).line(*offset).0;
                let left = match left.len() {
                    0 => String::new(),
                    count if count > NAMED => format!(", and in what uses it of {count} more files"),
                    _ => format!(", and where it is used in {}", left.join(", ")),
                };
                let message = format!(
                    "{other}:{line} declares {old_name} too and stands beside {name}, but {reason}; nothing is renamed in one of them alone. Rename it with `edit` there first{left}; then rename again"
                );
                server.refused(ErrorCode::NotApplied, message)
            };
            let more = more.map_err(|error| refused(&error.to_string()))?;
            if !edited(&more).any(|(edited, _)| *edited == twin.path) {
                return Err(refused("the server changes nothing there"));
            }
            join(&mut edit, more).map_err(|path| {
                refused(&format!("the two edits of {} do not fit together", self.workspace.relative(&path)))
            })?;
        }
        Ok(edit)
    }

    /// The other files of the module that are there, whichever server knows of such.
    pub(super) fn twins(&self, path: &AbsPath) -> Vec<Document> {
        let mut found: Vec<Document> = Vec::new();
        for definition in self.definitions().for_path(path.as_path()) {
            let Some(own) = path.as_path().extension().and_then(|it| it.to_str()) else { break };
            let pairs = definition.twins.iter().filter(|twins| twins.iter().any(|it| it == own));
            for other in pairs.flatten().filter(|it| *it != own) {
                let Some(other) = AbsPath::new(path.as_path().with_extension(other)) else { continue };
                if found.iter().all(|it| it.path != other) {
                    found.extend(self.workspace.document(&other).ok());
                }
            }
        }
        found
    }

    /// The other file of the module, if it is there.
    fn twin(&self, server: &Server, path: &AbsPath) -> Option<Document> {
        let own = path.as_path().extension()?.to_str()?;
        let twins = server.core.definition.twins.iter().find(|twins| twins.iter().any(|it| it == own))?;
        let mut others = twins.iter().filter(|it| *it != own);
        others.find_map(|other| {
            let other = AbsPath::new(path.as_path().with_extension(other))?;
            self.workspace.document(&other).ok()
        })
    }
}

/// Whether `name` at a place is what a Python import gives its module: `from m import name`,
/// `import m as name`; not `from m import name as other`.
fn imports(text: &str, place: usize, name: &str) -> bool {
    let (Some(before), Some(after)) = (text.get(..place), text.get(place..)) else { return false };
    let Some(after) = after.strip_prefix(name) else { return false };
    let mut rest = after.split_whitespace().filter(|word| *word != "\\");
    if after.starts_with([' ', '\t', '\\']) && rest.next() == Some("as") && rest.next() != Some(name) {
        return false;
    }
    // A line that ends with a backslash goes on.
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

/// Adds the places of `more`; `Err` is a file in which both change one place in different ways.
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
        known.extend(edits.iter().filter(|it| !known.contains(it)).cloned().collect::<Vec<_>>());
        known.sort_by_key(|it| (it.range.start, it.range.end));
        if known.windows(2).any(|pair| pair[1].range.start < pair[0].range.end) {
            return Err(path.clone());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::imports;

    #[test]
    fn what_an_import_gives_its_module_is_told_from_what_it_uses() {
        for (text, gives) in [
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
            assert_eq!(imports(text, text.find("old").unwrap(), "old"), gives, "{text}");
        }
    }
}
