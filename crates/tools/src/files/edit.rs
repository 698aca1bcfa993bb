//! The tool `edit`: a hashline patch over one or more files, all or nothing.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use agent::{ToolCx, ToolResult};
use hashline::{
    Current, Dialect, Documents, FileOp, Note, Options, Patch, Reason, Refusal, Section, SectionPlan,
    Snapshot,
};
use paths::AbsPath;
use policy::{Effects, ErrorCode, Writes};
use serde_json::{Value, json};
use text::ChangeLog;
use workspace::{Document, Operation, PlanError, ReadError, WorkspaceEdit};

use crate::change;
use crate::described::{BuiltIn, Described, text};
use crate::{CommitRefusal, Failure, Grammars, ToolContext, display};

/// Names of the arguments that other tools take for a replacement.
const OLD_TEXT: [&str; 3] = ["old_string", "old_str", "oldText"];
const NEW_TEXT: [&str; 3] = ["new_string", "new_str", "newText"];
/// Accepted arguments that the definition does not show.
const UNNAMED: [&str; 15] = [
    "path",
    "file_path",
    "old_string",
    "old_str",
    "oldText",
    "new_string",
    "new_str",
    "newText",
    "edits",
    "input",
    "diff",
    "command",
    "replace_all",
    "expected_replacements",
    "explanation",
];
/// Names of edit tools of other agents.
const ALIASES: [&str; 7] = [
    "str_replace_editor",
    "str_replace_based_edit_tool",
    "apply_patch",
    "apply_diff",
    "str_replace",
    "search_replace",
    "multi_edit",
];
/// Maximum number of notes about the form of a patch in a result.
const MAX_NOTES: usize = 20;

pub struct Edit {
    context: Arc<ToolContext>,
}

impl Edit {
    pub fn new(context: Arc<ToolContext>) -> Described<Self> {
        let view = context.settings().view;
        let (about, (properties, required)) = (hashline::edit_description(view), parameters(view.dialect));
        Described::new("edit", "Edit", about, properties, required, Self { context }).at_start()
    }
}

/// The tool's parameters, and those that are required.
///
/// They are a patch as text, or in the json dialect the arguments themselves.
///
/// The json dialect spares the model JSON inside JSON; it accepts a text too.
fn parameters(dialect: Dialect) -> (Value, &'static [&'static str]) {
    if dialect != Dialect::Json {
        return (json!({ "patch": text("the patch") }), &[]);
    }
    let properties = json!({
        "path": text("the file"),
        "tag": text("the digits after # in its header"),
        "edits": {
            "type": "array",
            "description": "the edits",
            "items": {
                "type": "object",
                "properties": {
                    "op": { "type": "string", "enum": ["replace", "prepend", "append"], "description": "the operation" },
                    "pos": text("a line as shown, such as 12kq"),
                    "end": text("replace: the last line, included"),
                    // Without a type: a text stays a text, and null, which deletes, is not left out.
                    "lines": { "items": { "type": "string" }, "description": "array of rows; null deletes" },
                },
                "required": ["op", "lines"],
            },
        },
        "patch": text("alone: a patch as text, for several files"),
    });
    (properties, &[])
}

/// Extracts the patch from the arguments, as text.
fn patch(args: &Value) -> Result<String, Failure> {
    let wrong = |message: &str| Failure::invalid(format!("arguments: {message}"));
    match args {
        Value::Object(members) if members.is_empty() => {
            Err(wrong("there are none; pass `patch`, or `path`, `tag` and `edits`"))
        }
        Value::Object(members) => match members.get("patch").or(members.get("input")).or(members.get("diff"))
        {
            Some(Value::String(patch)) if members.len() == 1 => Ok(patch.clone()),
            Some(Value::String(patch)) if members.len() == 2 && members.contains_key("path") => {
                match args["path"].as_str() {
                    // Hunks that name no file.
                    Some(path) if patch.starts_with("@@") => Ok(format!("--- {path}\n+++ {path}\n{patch}")),
                    _ => Err(wrong("leave out `path`: the patch names its files")),
                }
            }
            Some(_) => Err(wrong("`patch` must be a string and the only argument")),
            // Printed on several lines, so that an error can name a line.
            None => Ok(format!("{args:#}")),
        },
        _ => Err(wrong("expected an object")),
    }
}

impl BuiltIn for Edit {
    fn unnamed_arguments(&self) -> &[&str] {
        &UNNAMED
    }

    fn aliases(&self) -> &[&str] {
        &ALIASES
    }

    fn effects(&self, _: &Value) -> Effects {
        Effects { reads: true, writes: Writes::Unknown, ..Effects::default() }
    }

    async fn run(&self, args: Value, cx: &ToolCx) -> Result<ToolResult, Failure> {
        let context = &*self.context;
        let translated = match replacement(context, &args) {
            Some(text) => Some(text?),
            None => canonical(context, &patch(&args)?)?,
        };
        let text = match &translated {
            Some(text) => text,
            None => &patch(&args)?,
        };
        let (mut patch, mut notes) = Patch::parse(text).map_err(|error| {
            Failure::new(ErrorCode::InvalidPatch, format!("not applied: {error}"))
                .with_data(json!({ "reason": error.reason(), "line": error.line }))
                .with_details(json!({ "reason": error.reason(), "line": error.line }))
        })?;
        if translated.is_some() {
            notes.clear();
        }
        resolve_paths(context, &mut patch, cx).await?;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let current = CurrentDocuments::read(context, &patch);
            let grammars = Grammars::new(&context.trees);
            let options = Options {
                view: context.settings().view,
                syntax: Some(&grammars),
                parse_regression: context.settings().parse_regression,
            };
            let unchanged = current.unchanged(&patch);
            let planned = context.with_snapshots(|store| hashline::plan(&patch, store, &current, options));
            let planned = match planned {
                // The user typed meanwhile.
                Err(_) if attempts == 1 && current.is_stale() => continue,
                planned => {
                    planned.map_err(|refusal| refusal_failure(context, &patch, &refusal, &unchanged))?
                }
            };
            let plan = match context.workspace.plan(current.edit(context, &planned.sections)?) {
                Err(PlanError::Stale { .. }) if attempts == 1 => continue,
                plan => plan?,
            };
            if plan.is_empty() {
                let sections = planned.sections.iter();
                let text: String = sections.map(|section| render_unchanged(context, section)).collect();
                return Ok(ToolResult::text(text).with_details(json!({ "files": [] })));
            }
            let done = match change::commit(context, cx, plan, attempts > 1).await {
                Err(CommitRefusal::Stale) if attempts == 1 => continue,
                done => done?,
            };
            return Ok(outcome(context, &planned.sections, &notes, &done, &grammars));
        }
    }
}

/// Translates arguments of other tools: a path, old and new texts.
fn replacement(context: &ToolContext, args: &Value) -> Option<Result<String, Failure>> {
    if let Some(command) = args["command"].as_str().filter(|command| *command != "str_replace") {
        let message = format!(
            "`edit` does not support the command `{command}`; use `read` to view and `write` to create"
        );
        return Some(Err(Failure::invalid(message)));
    }
    let (path, edits) = match old_and_new_texts(args)? {
        Ok(found) => found,
        Err(failure) => return Some(Err(failure)),
    };
    let (name, shown) = newest_shown(context, path);
    let patch = hashline::translate_replacements(&name, &edits, shown.as_deref());
    Some(patch.map_err(|message| not_translated(&message)))
}

/// A path, and old and new texts in its file.
type Replacements<'a> = (&'a str, Vec<(String, String)>);

/// The replacements that the arguments name; `None` if they are of another form.
///
/// An argument that would be ignored is an error.
fn old_and_new_texts(args: &Value) -> Option<Result<Replacements<'_>, Failure>> {
    let edits = args["edits"].as_array().map_or(std::slice::from_ref(args), Vec::as_slice);
    let names = || edits.iter().filter_map(Value::as_object).flat_map(|edit| edit.keys());
    let is_text = |name: &&String| OLD_TEXT.contains(&name.as_str()) || NEW_TEXT.contains(&name.as_str());
    if !names().any(|name| is_text(&name)) {
        return None;
    }
    let only = |value: &Value, names: &[&str]| {
        let mut texts = names.iter().filter_map(|name| value[*name].as_str());
        texts.next().filter(|first| texts.all(|other| other == *first)).map(str::to_owned)
    };
    let outer = ["path", "file_path", "command", "edits"];
    let stray = args.as_object()?.iter().find(|(name, value)| {
        let is_text = is_text(name) && args["edits"].is_null();
        !is_text && !outer.contains(&name.as_str()) && !is_default(name, value)
    });
    let members = || edits.iter().filter_map(Value::as_object).flatten();
    let is_stray = |(name, value): &(&String, &Value)| !is_text(name) && !is_default(name, value);
    let stray = stray.or_else(|| members().find(|it| !args["edits"].is_null() && is_stray(it)));
    let stray = stray.map(|(name, _)| name);
    if let Some(stray) = stray {
        return Some(Err(Failure::invalid(format!(
            "arguments: `edit` does not take `{stray}` with an old and a new text"
        ))));
    }
    let texts = edits.iter().map(|edit| Some((only(edit, &OLD_TEXT)?, only(edit, &NEW_TEXT)?)));
    let path = ["path", "file_path"].into_iter().filter_map(|name| args[name].as_str());
    let one_path = path.clone().next().filter(|first| path.clone().all(|other| other == *first));
    Some(one_path.zip(texts.collect()).ok_or_else(|| {
        Failure::invalid("arguments: expected a path, and an old and a new text for each edit")
    }))
}

/// Whether an argument of another tool only asks for a single replacement.
fn is_default(name: &str, value: &Value) -> bool {
    match name {
        "replace_all" => *value == false,
        "expected_replacements" => *value == 1,
        "explanation" => value.is_string(),
        _ => false,
    }
}

/// Translates a patch in another format, if it is one.
fn canonical(context: &ToolContext, patch: &str) -> Result<Option<String>, Failure> {
    let translated =
        hashline::translate(patch, |path| exists(context, path), |path| newest_shown(context, path).1);
    translated.transpose().map_err(|message| not_translated(&message))
}

fn not_translated(message: &str) -> Failure {
    Failure::new(ErrorCode::InvalidPatch, format!("not applied: {message}"))
}

fn exists(context: &ToolContext, path: &str) -> bool {
    let path = context.workspace.resolve(path);
    path.is_ok_and(|path| !matches!(context.workspace.document(&path), Err(ReadError::NotFound { .. })))
}

/// The form of a path in results, and the newest text of it that was shown.
fn newest_shown(context: &ToolContext, path: &str) -> (String, Option<Arc<Snapshot>>) {
    let path =
        context.workspace.resolve(path).map_or_else(|_| path.to_owned(), |it| context.display_path(&it));
    if let Some(saved) = &context.saved_snapshots {
        saved.restore(context, &path);
    }
    let shown = context.with_snapshots(|store| store.newest(&path));
    (path, shown)
}

/// Resolves the paths of a patch to the form that the snapshot store uses.
async fn resolve_paths(context: &ToolContext, patch: &mut Patch, cx: &ToolCx) -> Result<(), Failure> {
    patch.leave_out_blanks(|path| exists(context, path));
    for section in &mut patch.sections {
        let path = context.workspace.resolve(&section.path)?;
        // A refusal shows lines of the file.
        cx.permit_read(&path).await?;
        if path.as_path().is_dir() {
            let message =
                format!("not applied: `{}` is a directory; name a file in it", context.display_path(&path));
            return Err(Failure::new(ErrorCode::NotAFile, message));
        }
        if section.file_op != FileOp::Keep {
            check_not_link(context, &section.path, &path)?;
        }
        section.path = context.display_path(&path);
        if let FileOp::Rename { to } = &mut section.file_op {
            *to = context.display_path(&context.workspace.resolve(to)?);
        }
        if let Some(saved) = &context.saved_snapshots {
            saved.restore(context, &section.path);
        }
    }
    let mut files: Vec<(FileId, &str)> = Vec::new();
    for section in &patch.sections {
        let path = context.workspace.root().join(&section.path);
        files.push((file_id(&path), &section.path));
    }
    files.sort_unstable();
    if let Some([first, second]) = files.array_windows().find(|[first, second]| first.0 == second.0) {
        let (one, other) = (first.1, second.1);
        let names = if one == other { one.to_owned() } else { format!("{one} and {other}") };
        return Err(Failure::new(
            ErrorCode::InvalidPatch,
            format!("two sections name the same file, {names}; put all operations into one section"),
        ));
    }
    Ok(())
}

/// Refuses to move or remove a link.
///
/// A path does not say whether the link or its target is meant.
fn check_not_link(context: &ToolContext, written: &str, target: &AbsPath) -> Result<(), Failure> {
    let place = context.workspace.root().as_path().join(written);
    if !std::fs::symlink_metadata(place).is_ok_and(|meta| meta.is_symlink()) {
        return Ok(());
    }
    let (link, file) = (written, context.display_path(target));
    let message = format!(
        "not applied: `{link}` is a link to `{file}`; name `{file}` to move or remove it\nTo change the link, use a command"
    );
    Err(Failure::new(ErrorCode::Ambiguous, message))
}

/// Identity of a file.
///
/// Hard links name one file, whose last write would undo the others.
type FileId = (u64, u64, String);

fn file_id(path: &AbsPath) -> FileId {
    #[cfg(unix)]
    if let Ok(file) = std::fs::metadata(path.as_path()) {
        use std::os::unix::fs::MetadataExt as _;
        return (file.dev(), file.ino(), String::new());
    }
    (0, 0, path.to_string())
}

/// The current documents of the files of a patch.
struct CurrentDocuments<'a> {
    context: &'a ToolContext,
    documents: HashMap<String, Result<Document, ReadError>>,
}

impl<'a> CurrentDocuments<'a> {
    fn read(context: &'a ToolContext, patch: &Patch) -> Self {
        let mut documents = HashMap::new();
        for section in &patch.sections {
            let mut read = |path: &str| {
                let document = context.workspace.document(&context.workspace.root().join(path));
                documents.insert(path.to_owned(), document);
            };
            read(&section.path);
            if let FileOp::Rename { to } = &section.file_op {
                read(to);
            }
        }
        Self { context, documents }
    }

    /// Whether a document has changed since it was read.
    fn is_stale(&self) -> bool {
        self.documents.values().flatten().any(|document| {
            self.context.workspace.document(&document.path).is_ok_and(|now| now.version != document.version)
        })
    }

    /// Lists the paths whose current text is the snapshot that the patch names.
    fn unchanged(&self, patch: &Patch) -> HashSet<String> {
        let named = |section: &&Section| {
            let known = self.context.with_snapshots(|store| match section.tag {
                Some(tag) => store.get(&section.path, tag),
                None => store.newest(&section.path),
            });
            let now = self.documents.get(&section.path).and_then(|document| document.as_ref().ok());
            known.zip(now).is_some_and(|(known, now)| **known.text() == *now.text)
        };
        patch.sections.iter().filter(named).map(|section| section.path.clone()).collect()
    }

    fn edit(&self, context: &ToolContext, sections: &[SectionPlan]) -> Result<WorkspaceEdit, Failure> {
        let paths: Vec<&str> = sections.iter().map(|section| section.path.as_str()).collect();
        let mut edit =
            WorkspaceEdit { label: format!("edit {}", paths.join(", ")), ..WorkspaceEdit::default() };
        for section in sections {
            let Some(Ok(document)) = self.documents.get(&section.path) else { continue };
            let (path, expected) = (document.path.clone(), document.version);
            if !section.edits.is_empty() && section.file_op != FileOp::Remove {
                edit.operations.push(Operation::Edit {
                    path: path.clone(),
                    expected,
                    edits: section.edits.clone(),
                });
            }
            match &section.file_op {
                FileOp::Keep => {}
                FileOp::Remove => edit.operations.push(Operation::Delete { path, expected }),
                FileOp::Rename { to } => {
                    let to: AbsPath = context.workspace.resolve(to)?;
                    edit.operations.push(Operation::Rename {
                        from: path,
                        to,
                        expected: None,
                        replaces: None,
                    });
                }
            }
        }
        Ok(edit)
    }
}

impl Documents for CurrentDocuments<'_> {
    fn current(&self, path: &str) -> Current {
        match self.documents.get(path) {
            Some(Ok(document)) => Current::Text(document.text.clone()),
            Some(Err(ReadError::NotUtf8 { .. })) => Current::NotUtf8,
            Some(Err(ReadError::TooLarge { .. })) => Current::TooLarge,
            Some(Err(_)) | None => Current::Missing,
        }
    }

    fn changes(&self, path: &str, since: &Snapshot) -> Option<ChangeLog> {
        let document = self.documents.get(path)?.as_ref().ok()?;
        self.context.workspace.changes(&document.path, since.text())
    }
}

/// Turns a refusal into a failure.
///
/// `unchanged`: paths whose text is still the patch's snapshot.
fn refusal_failure(
    context: &ToolContext,
    patch: &Patch,
    refusal: &Refusal,
    unchanged: &HashSet<String>,
) -> Failure {
    // The next edit may use the lines that a refusal shows, also in another process.
    if let Some(saved) = &context.saved_snapshots {
        for section in &patch.sections {
            saved.save(context, &section.path);
        }
    }
    let is_stale = refusal.sections.first().is_none_or(|first| !unchanged.contains(&first.path));
    let code = match refusal.reason {
        Reason::UnknownTag => ErrorCode::UnknownTag,
        // The file did not change: the patch never fitted it.
        Reason::CheckMismatch if !is_stale => ErrorCode::InvalidPatch,
        Reason::Stale | Reason::CheckMismatch => ErrorCode::StaleText,
        Reason::UnseenLines => ErrorCode::UnseenLines,
        Reason::Ambiguous => ErrorCode::Ambiguous,
        Reason::ParseRegression | Reason::Boundary => ErrorCode::ParseRegression,
        Reason::NotUtf8 => ErrorCode::NotUtf8,
        Reason::TooLarge => ErrorCode::TooLarge,
        Reason::Unsupported => ErrorCode::Unsupported,
        Reason::Exists => ErrorCode::Conflict,
        Reason::NotFound => missing_file_code(context, patch),
        _ => ErrorCode::InvalidPatch,
    };
    let data = json!({ "reason": refusal.reason, "times": refusal.times });
    Failure::new(code, refusal.render()).with_data(data).with_details(json!(refusal))
}

/// Distinguishes a directory in place of a file from a missing file.
fn missing_file_code(context: &ToolContext, patch: &Patch) -> ErrorCode {
    let is_directory = patch.sections.iter().any(|section| {
        let document = context.workspace.document(&context.workspace.root().join(&section.path));
        matches!(document, Err(ReadError::NotAFile { .. }))
    });
    if is_directory { ErrorCode::NotAFile } else { ErrorCode::NotFound }
}

fn render_unchanged(context: &ToolContext, section: &SectionPlan) -> String {
    let notes: Vec<String> = section.notes.iter().map(|note| format!("note: {}\n", note.message)).collect();
    let newest = context.with_snapshots(|store| store.newest(&section.path));
    let tag = newest.map_or(section.tag, |newest| newest.tag());
    format!(
        "{}no change: the file already has this text\n{}",
        display::render_header_row(context, &section.path, tag),
        notes.concat()
    )
}

fn outcome(
    context: &ToolContext,
    sections: &[SectionPlan],
    notes: &[Note],
    done: &change::Committed,
    grammars: &Grammars<'_>,
) -> ToolResult {
    let mut text = String::new();
    let mut files = Vec::new();
    for section in sections {
        let path = match &section.file_op {
            FileOp::Rename { to } => to,
            _ => &section.path,
        };
        // The model sees the text that the disk or the editor has now.
        let now = context.workspace.document(&context.workspace.root().join(path)).ok();
        let read_back = now.map_or_else(|| section.new_text.clone(), |document| document.text);
        if section.file_op != FileOp::Remove {
            grammars.store(path, &read_back);
        }
        let left = hashline::MOST_BYTES.saturating_sub(text.len());
        let rendered = context.with_snapshots(|store| {
            hashline::outcome_within(store, section, read_back, context.settings().view, left)
        });
        text.push_str(&rendered.text);
        if let Some(saved) = &context.saved_snapshots {
            saved.save(context, path);
        }
        files.push(json!({
            "path": path, "tag": rendered.tag, "strategy": section.strategy, "edits": section.edits.len(),
        }));
    }
    let more = notes.len().saturating_sub(MAX_NOTES);
    let notes = notes.iter().take(MAX_NOTES).map(|note| &note.message);
    for note in notes.chain(&done.commit.notes) {
        text.push_str(&format!("note: {note}\n"));
    }
    if more > 0 {
        text.push_str(&format!("note: {more} more notes are left out\n"));
    }
    text.push_str(&done.verdict.text);
    let details = json!({
        "commit": done.commit.id, "run": done.commit.run, "files": files,
        "diff": done.plan.diff(context.workspace.root()), "diagnostics": done.verdict.details,
    });
    ToolResult::text(text).with_details(details)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_new_texts_are_the_only_arguments() {
        let read = |args: Value| old_and_new_texts(&args).map(|found| found.is_ok());
        let one = json!({ "oldText": "a", "newText": "b" });
        assert_eq!(read(json!({ "path": "f", "old_str": "a", "new_str": "b" })), Some(true));
        assert_eq!(read(json!({ "path": "f", "file_path": "f", "edits": [one] })), Some(true));
        assert_eq!(
            read(json!({ "path": "f", "edits": [{ "op": "replace", "pos": "2", "lines": null }] })),
            None
        );
        assert_eq!(read(json!({ "patch": "x" })), None);
        let once =
            json!({ "oldText": "a", "newText": "b", "replace_all": false, "expected_replacements": 1 });
        assert_eq!(read(json!({ "path": "f", "edits": [once], "explanation": "x" })), Some(true));
        for args in [
            json!({ "path": "f", "file_path": "g", "old_str": "a", "new_str": "b" }),
            json!({ "path": "f", "old_str": "a", "oldText": "c", "new_str": "b" }),
            json!({ "path": "f", "old_str": "a" }),
            json!({ "path": "f", "old_str": "a", "new_str": "b", "diff": "x" }),
            json!({ "path": "f", "old_str": "a", "new_str": "b", "edits": [one] }),
            json!({ "path": "f", "edits": [one, { "path": "g", "oldText": "a", "newText": "b" }] }),
            json!({ "path": "f", "edits": [{ "oldText": "a", "newText": "b", "replace_all": true }] }),
            json!({ "path": "f", "old_str": "a", "new_str": "b", "expected_replacements": 2 }),
            json!({ "path": "f", "edits": [one, { "op": "replace", "pos": "2", "lines": null }] }),
        ] {
            assert_eq!(read(args.clone()), Some(false), "{args}");
        }
    }

    #[test]
    fn the_patch_is_all_arguments_or_one_of_them() {
        let text = "[a#3F2A]\nCUT 2\n";
        assert_eq!(patch(&json!({ "patch": text })).unwrap(), text);
        let edits = json!([{ "op": "replace", "pos": "2#KQ", "lines": null }]);
        let read = |args: Value| Patch::parse(&patch(&args).unwrap()).unwrap().0.to_string();
        assert_eq!(read(json!({ "path": "a", "tag": "3F2A", "edits": edits })), "[a#3F2A]\nCUT 2kq\n");
        let hunk = "@@\n-a\n+b\n";
        let named = patch(&json!({ "path": "f", "diff": hunk })).unwrap();
        assert_eq!(named, format!("--- f\n+++ f\n{hunk}"));
        for args in [
            json!({ "patch": text, "path": "a" }),
            json!({ "patch": hunk, "path": 1 }),
            json!({ "patch": hunk, "path": "a", "tag": "3F2A" }),
            json!({ "patch": [] }),
            json!({}),
            json!(text),
        ] {
            assert_eq!(patch(&args).unwrap_err().code, ErrorCode::InvalidArguments);
        }
    }
}
