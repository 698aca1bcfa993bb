//! The two files of one module, where a language has such (`a.py` and its stub `a.pyi`): a name is
//! renamed in both or in none.
//!
//! A server answers for the one that it reads; the other would keep the old name unseen. What must stay
//! true: the other's declaration is found by its path of names, never by its words alone.

use std::sync::Arc;

use workspace::{AbsPath, Document, ErrorCode, Operation, WorkspaceEdit};

use super::rename::{edited, renamed};
use crate::answer::Symbol;
use crate::error::ServerError;
use crate::pool::{RequestCx, ServerPool};
use crate::server::Server;

impl ServerPool {
    /// `edit` with the places of the other files that declare what it renames.
    ///
    /// # Errors
    /// `Refused` that names the other file, when the server does not rename there or the two edits do not
    /// fit together.
    pub(super) async fn with_twins(
        self: &Arc<Self>,
        server: &Server,
        mut edit: WorkspaceEdit,
        names: (&str, &str),
        cx: &RequestCx,
    ) -> Result<WorkspaceEdit, ServerError> {
        let (old_name, new_name) = names;
        for path in edited(&edit).map(|(path, _)| path.clone()).collect::<Vec<_>>() {
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
            let others = self.symbols(&twin, cx).await?.value;
            let mut same = Vec::new();
            walk(&others, &mut |symbol| {
                if declared.contains(&symbol.path) {
                    same.push(symbol.selection.start);
                }
            });
            let Some(offset) = same.first() else { continue };
            let clock = cx.clock();
            let more = renamed(server, &twin, *offset, old_name, new_name, clock).await;
            let refused = |reason: &str| {
                let (name, other) = (self.workspace.relative(&path), self.workspace.relative(&twin.path));
                let message = format!(
                    "{other} declares {old_name} too and stands beside {name}, but {reason}; nothing is renamed in one of them alone"
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
