//! The inverse of commits on the files as they are now.
//!
//! Later changes by others are never lost: the inverse maps its edits over them, and reports an edit whose
//! bytes they changed instead of applying it. It reverts commits newest first, on files in memory; the
//! outcome is a plan like any other.

use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;

use paths::AbsPath;
use text::{LineIndex, TextEdit};

use crate::documents::content::{Content, Image};
use crate::documents::disk;
use crate::journal::{Contents, Entry, Journal, StoredStep};
use crate::plan::simulate::{Files, Node};
use crate::state::WorkspaceState;
use crate::{Plan, PlanError, ReadError, Skipped, UndoError, UndoPlan};

/// Plans the inverse of `entries` (oldest first).
pub(crate) fn plan(
    inner: &WorkspaceState,
    journal: &Journal,
    entries: &[&Entry],
    redo: bool,
) -> Result<UndoPlan, UndoError> {
    let mut files = Files::new(inner);
    let mut skipped = Vec::new();
    for entry in entries.iter().rev() {
        let contents = journal.contents(&entry.id)?;
        revert_entry(&mut files, entry, &contents, &mut skipped)?;
    }
    let verb = if redo { "redo" } else { "undo" };
    let first = entries.first().map(|entry| entry.label.as_str()).unwrap_or_default();
    let label = match (redo, entries.len()) {
        (true, _) => format!("{verb}: {}", first.strip_prefix("undo: ").unwrap_or(first)),
        (false, 1) => format!("{verb}: {first}"),
        (false, n) => format!("{verb}: {first} and {} more", n - 1),
    };
    let mut plan = files.into_plan(label)?;
    skip_hard_links(&mut plan, &mut skipped);
    inner.check_holders(&plan)?;
    if plan.is_empty() && !skipped.is_empty() {
        return Err(UndoError::NothingFits { skipped });
    }
    let undoes = entries.iter().map(|entry| entry.id.clone()).collect();
    Ok(UndoPlan { plan, undoes, skipped, redo, drops: None })
}

/// Omits further names of one file if their contents would differ.
///
/// The first name writes the file, which shows under the others.
fn skip_hard_links(plan: &mut Plan, skipped: &mut Vec<Skipped>) {
    let mut known: BTreeMap<(u64, u64), (AbsPath, Image)> = BTreeMap::new();
    let mut left = BTreeSet::new();
    for step in &plan.steps {
        let (Some(_), Some(after), None, false) = (&step.before, &step.after, &step.moved_from, step.open)
        else {
            continue;
        };
        let Ok(Some(meta)) = disk::stat(&step.path) else { continue };
        if !meta.is_file() || meta.nlink() < 2 {
            continue;
        }
        match known.entry((meta.dev(), meta.ino())) {
            Slot::Vacant(slot) => drop(slot.insert((step.path.clone(), after.clone()))),
            Slot::Occupied(first) => {
                let (other, content) = first.get();
                if !content.same_content(after) {
                    let reason =
                        format!("it is now a hard link to {other}, whose undo gives another content");
                    skipped.push(Skipped { path: step.path.clone(), reason });
                }
                left.insert(step.path.clone());
            }
        }
    }
    plan.steps.retain(|step| !left.contains(&step.path));
    plan.changes.retain(|change| !left.contains(&change.path));
}

/// A moved file that returns to its earlier path.
struct Returning<'a> {
    step: &'a StoredStep,
    to: &'a AbsPath,
    node: Node,
}

fn revert_entry(
    files: &mut Files<'_>,
    entry: &Entry,
    contents: &Contents,
    skipped: &mut Vec<Skipped>,
) -> Result<(), UndoError> {
    let left: BTreeSet<&AbsPath> = entry.steps.iter().filter_map(|step| step.moved_from.as_ref()).collect();
    let mut skip = |path: &AbsPath, reason: String| skipped.push(Skipped { path: path.clone(), reason });

    // Where a file replaced a directory, the directory's contents cannot come back beside it.
    let mut in_the_way = BTreeSet::new();
    for step in entry.steps.iter().filter(|step| step.before.is_some() && step.after.is_none()) {
        if let Some(file) = files.file_above(&step.path)? {
            skip(&step.path, format!("{file} is now a file, so the files below it are not restored"));
            in_the_way.insert(step.path.clone());
            in_the_way.insert(file);
        }
    }

    // All moved files leave first, so that files that swapped paths can return.
    let mut returning = Vec::new();
    for step in &entry.steps {
        let Some(to) = &step.moved_from else { continue };
        if files.now(&step.path)?.is_none() {
            skip(&step.path, format!("it no longer exists, so it is not moved back to {to}"));
            continue;
        }
        let origin = entry.step(to).and_then(|step| step.before.as_ref());
        let images = origin.zip(step.after.as_ref());
        match images.and_then(|(before, after)| Some((contents.get(before)?, contents.get(after)?))) {
            Some((before, after)) => merge(files, &step.path, &before, &after, &mut skip)?,
            None => skip(&step.path, MISSING.to_owned()),
        }
        if let Some(node) = files.take(&step.path)? {
            returning.push(Returning { step, to, node });
        }
    }

    for step in &entry.steps {
        if in_the_way.contains(&step.path) {
            if step.before.is_none() {
                skip(&step.path, "it replaced a directory, so it stays".to_owned());
            }
            continue;
        }
        if is_special(files, &step.path)? {
            skip(&step.path, "a pipe, a socket or a device is there now, so it stays".to_owned());
            continue;
        }
        let read = |stored: &Option<crate::journal::Stored>| match stored {
            Some(stored) => contents.get(stored).map(Some),
            None => Some(None),
        };
        let before = if step.adopted { Some(None) } else { read(&step.before) };
        let (Some(before), Some(after)) = (before, read(&step.after)) else {
            skip(&step.path, MISSING.to_owned());
            continue;
        };
        let now = files.now(&step.path)?.map(|node| node.image.clone());
        let same = |image: &Option<Image>| match (&now, image) {
            (Some(now), Some(image)) => now.same_content(image),
            (None, None) => true,
            _ => false,
        };
        let was_moved = step.moved_from.is_some();
        match (&before, &after) {
            // The returning file comes below; the file that replaced it has to go.
            _ if left.contains(&step.path) => {
                if !was_moved && after.is_some() && same(&after) {
                    files.put(&step.path, None)?;
                }
            }
            (Some(before), _) if was_moved => {
                if now.is_none() {
                    files.put(&step.path, Some(Files::new_file(before.clone())))?;
                }
            }
            (None, Some(_)) if was_moved => {}
            (None, _) => {
                if same(&after) {
                    files.put(&step.path, None)?;
                } else if now.is_some() {
                    skip(&step.path, "it changed since it was created, so it stays".to_owned());
                }
            }
            (Some(before), None) => {
                if now.is_none() && !files.is_directory(&step.path)? {
                    files.put(&step.path, Some(Files::new_file(before.clone())))?;
                } else if now.is_none_or(|now| !now.same_content(before)) {
                    skip(&step.path, "the path exists again, so the deleted file is not restored".to_owned());
                }
            }
            (Some(before), Some(after)) => match now {
                Some(_) => merge(files, &step.path, before, after, &mut skip)?,
                None => skip(&step.path, "it no longer exists".to_owned()),
            },
        }
    }

    for Returning { step, to, node } in returning {
        if files.now(to)?.is_none() && !files.is_directory(to)? {
            files.put(to, Some(node))?;
        } else {
            skip(&step.path, format!("{to} exists now, so it is not moved back"));
            files.put(&step.path, Some(node))?;
        }
    }
    for directory in &entry.removed {
        let taken = matches!(files.now(&directory.path), Ok(Some(_)) | Err(_));
        if !taken && files.file_above(&directory.path)?.is_none() {
            files.make_directory(directory.path.clone(), directory.mode);
        }
    }
    for directory in &entry.made {
        files.remove_directory(directory.path.clone());
    }
    Ok(())
}

/// Whether the path has something that is neither a file, a link nor a directory.
fn is_special(files: &mut Files<'_>, path: &AbsPath) -> Result<bool, UndoError> {
    match files.now(path) {
        Ok(_) => Ok(false),
        Err(PlanError::Read(ReadError::NotAFile { .. })) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

const MISSING: &str = "its content is no longer in the journal";

/// Reverts `after` to `before` in the file at `path`, which may have changed.
fn merge(
    files: &mut Files<'_>,
    path: &AbsPath,
    before: &Image,
    after: &Image,
    skip: &mut impl FnMut(&AbsPath, String),
) -> Result<(), UndoError> {
    let Some(now) = files.now(path)?.map(|node| node.image.clone()) else { return Ok(()) };
    if now.same_content(before) {
        return Ok(());
    }
    if now.same_content(after) {
        files.set_content(path, before.content.clone())?;
        return Ok(());
    }
    let (
        Content::Text { text: old, bom: old_bom },
        Content::Text { text: new, bom: new_bom },
        Content::Text { text: current, bom },
    ) = (&before.content, &after.content, &now.content)
    else {
        skip(path, "it changed since and is not text".to_owned());
        return Ok(());
    };
    let over = text::diff_edits(new, current);
    let index = LineIndex::new(current);
    let (mut edits, mut last) = (Vec::new(), None);
    // Both lists are in order, so each edit meets only the changes around it.
    let (mut first, mut shift) = (0, 0_isize);
    for edit in text::diff_edits(new, old) {
        while let Some(change) = over.get(first).filter(|change| change.range.end < edit.range.start) {
            shift += change.growth();
            first += 1;
        }
        let count = over[first..].iter().take_while(|change| change.range.start <= edit.range.end).count();
        let near = &over[first..first + count];
        let joined = near.iter().any(|change| are_joined(new, &edit, change));
        match text::map_range(edit.range.clone(), near).filter(|_| !joined) {
            Some(Range { start, end }) => {
                let range = start.saturating_add_signed(shift)..end.saturating_add_signed(shift);
                edits.push(TextEdit::replace(range, edit.new_text));
            }
            None => {
                let reason = changed_lines(&index, &edit, near, shift);
                // One change may touch many edits.
                if last.as_ref() != Some(&reason) {
                    skip(path, reason.clone());
                }
                last = Some(reason);
            }
        }
    }
    match text::apply(current, &edits) {
        Ok(text) => {
            let bom = if old_bom == new_bom { *bom } else { *old_bom };
            files.set_content(path, Content::text(&text, bom))?;
        }
        Err(error) => skip(path, error.to_string()),
    }
    Ok(())
}

/// Whether `change` and `edit` touch in the middle of a line.
///
/// The fate of `foo` in `food` is ambiguous. Adjacent whole lines stay apart.
fn are_joined(text: &str, edit: &TextEdit, change: &TextEdit) -> bool {
    let at_line_start = |offset: usize| offset == 0 || text[..offset].ends_with('\n');
    let after = change.range.start == edit.range.end && !change.new_text.starts_with(['\n', '\r']);
    let before = change.range.end == edit.range.start;
    (after && !at_line_start(edit.range.end)) || (before && !at_line_start(edit.range.start))
}

/// Renders the message about a skipped `edit`, with the current lines.
///
/// `near`: the changes that touch it; `shift`: the growth of those before.
fn changed_lines(index: &LineIndex, edit: &TextEdit, near: &[TextEdit], shift: isize) -> String {
    let inside: isize = near.iter().map(TextEdit::growth).sum();
    let start = near.first().map_or(edit.range.start, |change| change.range.start.min(edit.range.start));
    let end = near.last().map_or(edit.range.end, |change| change.range.end.max(edit.range.end));
    let (start, end) = (start.saturating_add_signed(shift), end.saturating_add_signed(shift + inside));
    let (first, last) = (index.line_of(start) + 1, index.line_of(end.saturating_sub(1).max(start)) + 1);
    if first == last {
        format!("line {first} changed since and is not reverted")
    } else {
        format!("lines {first}-{last} changed since and are not reverted")
    }
}
