//! Refactorings against scripted servers, and against real ones with `--ignored`.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "tests write files of their own, and print what real servers answer"
)]

#[expect(dead_code, reason = "shared with the tests of lsp-client")]
#[path = "../../../lsp-client/tests/it/bench.rs"]
mod bench;
mod callers;
mod moves;
mod real;
mod renames;

use paths::AbsPath;
use refactor::{FileMove, Note, RefactorError, Rename, RenameRequest};
use workspace::Document;

use crate::bench::{Bench, LONG, cx};

/// Plans the rename of the symbol at byte `offset`.
async fn rename(bench: &Bench, doc: &Document, offset: usize) -> Result<Rename, RefactorError> {
    rename_within(bench, doc, offset, &cx(LONG)).await
}

async fn rename_within(
    bench: &Bench,
    doc: &Document,
    offset: usize,
    cx: &lsp_client::RequestCx,
) -> Result<Rename, RefactorError> {
    let range = text::word_at(&doc.text, offset);
    let range = offset..range.end.max(offset);
    let request = RenameRequest { document: doc, range, new_name: "new", declarations: &[] };
    refactor::rename(&bench.workspace, &bench.pool, &request, cx).await
}

/// Plans a move.
async fn move_file(bench: &Bench, from: &AbsPath, to: &AbsPath) -> Result<FileMove, RefactorError> {
    refactor::move_file(&bench.workspace, &bench.pool, from, to, &cx(LONG)).await
}

/// Notes in short, with paths relative to the workspace.
fn shown(bench: &Bench, notes: &[Note]) -> String {
    let path = |path: &AbsPath| bench.workspace.relative(path);
    let line = |line: &refactor::Line| format!("{}:{}", path(&line.path), line.line);
    let lines = |lines: &[refactor::Line]| lines.iter().map(line).collect::<Vec<_>>().join(", ");
    let note = |note: &Note| match note {
        Note::NameTaken { name, place } => format!("taken: {name} at {}:{}", path(&place.path), place.line),
        Note::OverridesNotRenamed(set) => format!("not renamed: {}", overrides(bench, set)),
        Note::CallsThroughOverrides(set) => format!("overrides: {}", overrides(bench, set)),
        Note::StubKept { stub, .. } => format!("stub kept: {}", path(stub)),
        Note::StubMoved { stub, to, leaves_directory, .. } => {
            format!("stub moved: {} to {}, leaves directory: {leaves_directory}", path(stub), path(to))
        }
        Note::IncludesRedirected(redirected) => {
            let target = |it: &refactor::Redirected| it.target.as_ref().map_or("none".to_owned(), path);
            let rows = redirected.iter().map(|it| format!("{} to {}", line(&it.at), target(it)));
            format!("redirected: {}", rows.collect::<Vec<_>>().join(", "))
        }
        Note::IncludesUnread(paths) => {
            format!("unread: {}", paths.iter().map(path).collect::<Vec<_>>().join(", "))
        }
        Note::StalePaths(found) => format!("stale: {}", lines(found)),
        Note::AmbiguousIncludes(found) => format!("ambiguous: {}", lines(found)),
        Note::UsesNotCalls { packages, .. } => {
            format!("not calls: {}", packages.iter().map(path).collect::<Vec<_>>().join(", "))
        }
        other => format!("{other:?}"),
    };
    notes.iter().map(note).collect::<Vec<_>>().join("\n")
}

fn overrides(bench: &Bench, set: &refactor::OverrideSet) -> String {
    let at =
        |place: &lsp_client::Location| format!("{}:{}", bench.workspace.relative(&place.path), place.line);
    let methods = |methods: &[refactor::Method]| {
        methods.iter().map(|it| format!("{} ({})", it.path, at(&it.place))).collect::<Vec<_>>().join(", ")
    };
    let mut out = Vec::new();
    for (name, list) in [
        ("bases", &set.bases),
        ("overriding", &set.overriding),
        ("siblings", &set.siblings),
        ("unknown", &set.unknown),
    ] {
        if !list.is_empty() {
            out.push(format!("{name} {}", methods(list)));
        }
    }
    let uses: Vec<String> = set.uses().iter().map(|place| at(place)).collect();
    if !uses.is_empty() {
        out.push(format!("uses {}", uses.join(", ")));
    }
    if let Some(it) = &set.unresolved {
        let error = it.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
        out.push(format!("resolved {} of {}{error}", it.resolved, it.count));
    }
    match &set.reason {
        Some(refactor::Reason::NotOffered) => out.push("not offered".to_owned()),
        Some(refactor::Reason::Failed(error)) => out.push(format!("failed: {error}")),
        None => {}
    }
    out.extend(set.cut.map(|cut| format!("{cut:?}")));
    out.join("; ")
}
