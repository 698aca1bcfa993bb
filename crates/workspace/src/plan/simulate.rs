//! Simulation of an edit: its operations, applied in order to files in memory.
//!
//! Reads only through [`Source`] and writes nothing. The first operation that names a file loads it. A later
//! operation compares its `expected` version with the text as the earlier ones left it: the hash must be that
//! of the bytes the file would have at that point, whether it was read, moved, changed or created before.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use paths::AbsPath;
use text::TextEdit;

use crate::documents::content::{Content, Image};
use crate::documents::disk;
use crate::documents::disk::Tree;
use crate::plan::{ChangeKind, Directory, FileChange, Overwritten, Plan, PlanError, Step};
use crate::{Operation, ReadError, Version};

/// Access to the current files.
pub(crate) trait Source {
    /// Reads the entry at `path`, and whether the editor has it open.
    fn lookup(&self, path: &AbsPath) -> Result<Lookup, PlanError>;
    /// Reads everything below a directory.
    fn tree(&self, directory: &AbsPath) -> Result<Tree, PlanError>;
    /// Whether both paths name one file on a case-insensitive disk.
    fn same_file(&self, a: &AbsPath, b: &AbsPath) -> bool;
}

pub(crate) enum Lookup {
    Nothing,
    Directory,
    File { image: Image, open: bool },
}

/// A file in the simulation.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub image: Image,
    /// Its path at the start; `None` if it was created here.
    origin: Option<AbsPath>,
    /// Whether the editor has the file open.
    open: bool,
    /// The only list of edits so far; unknown after a second one.
    edits: Edits,
    /// Whether its text was replaced as a whole.
    whole: bool,
}

#[derive(Debug, Clone)]
enum Edits {
    None,
    Once(Vec<TextEdit>),
    Many,
}

#[derive(Debug)]
struct Slot {
    before: Option<Node>,
    now: Option<Node>,
    /// Whether the file was created for these operations.
    adopted: bool,
}

/// The state of the files after some operations.
pub(crate) struct Files<'a> {
    source: &'a dyn Source,
    slots: BTreeMap<AbsPath, Slot>,
    made: BTreeMap<AbsPath, Option<u32>>,
    removed: BTreeSet<AbsPath>,
}

impl<'a> Files<'a> {
    pub fn new(source: &'a dyn Source) -> Self {
        Self { source, slots: BTreeMap::new(), made: BTreeMap::new(), removed: BTreeSet::new() }
    }

    pub fn make(&mut self, operation: Operation) -> Result<(), PlanError> {
        match operation {
            Operation::Edit { path, expected, edits } => self.edit(&path, &expected, edits),
            Operation::Create { path, text, replaces } => self.create(&path, &text, replaces.as_ref()),
            Operation::Adopt { path, text, found } => self.adopt(&path, &text, &found),
            Operation::Rename { from, to, expected, replaces } => {
                self.rename(&from, &to, expected.as_ref(), replaces.as_ref())
            }
            Operation::Delete { path, expected } => {
                self.expect(&path, &expected)?;
                self.slot(&path)?.now = None;
                Ok(())
            }
            Operation::DeleteDirectory { path, recursive } => self.delete_directory(&path, recursive),
        }
    }

    /// The file at `path` in the simulated state.
    pub fn now(&mut self, path: &AbsPath) -> Result<Option<&Node>, PlanError> {
        Ok(self.slot(path)?.now.as_ref())
    }

    /// Removes the file at `path`, so that the caller can put it somewhere else.
    pub fn take(&mut self, path: &AbsPath) -> Result<Option<Node>, PlanError> {
        Ok(self.slot(path)?.now.take())
    }

    /// Puts a file at `path`, replacing any other.
    pub fn put(&mut self, path: &AbsPath, node: Option<Node>) -> Result<(), PlanError> {
        self.slot(path)?.now = node;
        Ok(())
    }

    /// Creates a file that did not exist.
    pub(crate) fn new_file(image: Image) -> Node {
        Node { image, origin: None, open: false, edits: Edits::None, whole: false }
    }

    /// Replaces the content of the file at `path`; its permissions stay.
    pub fn set_content(&mut self, path: &AbsPath, content: Content) -> Result<(), PlanError> {
        if let Some(node) = &mut self.slot(path)?.now {
            node.set(content, None);
        }
        Ok(())
    }

    /// Plans to create a directory with these permissions.
    pub fn make_directory(&mut self, path: AbsPath, mode: Option<u32>) {
        self.removed.remove(&path);
        self.made.insert(path, mode);
    }

    /// Plans to remove a directory once it is empty.
    pub(crate) fn remove_directory(&mut self, path: AbsPath) {
        self.made.remove(&path);
        self.removed.insert(path);
    }

    fn edit(&mut self, path: &AbsPath, expected: &Version, edits: Vec<TextEdit>) -> Result<(), PlanError> {
        let node = self.expect(path, expected)?;
        let Content::Text { text, bom } = &node.image.content else {
            return Err(disk::not_utf8(path, &node.image.content.bytes()).into());
        };
        let invalid = |source| PlanError::Invalid { path: path.clone(), source };
        let mut edits = text::normalize(text, &edits).map_err(invalid)?;
        edits.retain(|edit| text[edit.range.clone()] != edit.new_text);
        if edits.is_empty() {
            return Ok(());
        }
        let after = text::apply(text, &edits).map_err(invalid)?;
        check_size(path, &after)?;
        let content = Content::text(&after, *bom);
        node.set(content, Some(edits));
        Ok(())
    }

    fn create(&mut self, path: &AbsPath, text: &str, replaces: Option<&Version>) -> Result<(), PlanError> {
        check_size(path, text)?;
        if let Some(expected) = replaces {
            let node = self.expect(path, expected)?;
            let bom = matches!(node.image.content, Content::Text { bom: true, .. });
            node.set(Content::text(text, bom), None);
            node.whole = true;
            return Ok(());
        }
        self.expect_free(path)?;
        let image = Image::new(Content::text(text, false), None);
        self.slot(path)?.now = Some(Self::new_file(image));
        Ok(())
    }

    fn adopt(&mut self, path: &AbsPath, text: &str, found: &Version) -> Result<(), PlanError> {
        let node = self.expect(path, found)?;
        if node.open || !node.image.content.bytes().is_empty() {
            return Err(PlanError::Exists { path: path.clone() });
        }
        node.set(Content::text(text, false), None);
        self.slot(path)?.adopted = true;
        Ok(())
    }

    fn rename(
        &mut self,
        from: &AbsPath,
        to: &AbsPath,
        expected: Option<&Version>,
        replaces: Option<&Version>,
    ) -> Result<(), PlanError> {
        if from == to {
            return Ok(());
        }
        if self.is_directory(from)? {
            return self.rename_directory(from, to);
        }
        match expected {
            Some(expected) => self.expect(from, expected).map(drop)?,
            None => self.present(from).map(drop)?,
        }
        self.hide_case_variant(from, to)?;
        match replaces {
            Some(expected) if self.slot(to)?.now.is_some() => self.expect(to, expected).map(drop)?,
            _ => self.expect_free(to)?,
        }
        let node = self.slot(from)?.now.take();
        self.slot(to)?.now = node;
        Ok(())
    }

    fn rename_directory(&mut self, from: &AbsPath, to: &AbsPath) -> Result<(), PlanError> {
        if to.starts_with(from) {
            let reason = format!("it would move into itself, to {to}");
            return Err(PlanError::Impossible { path: from.clone(), reason });
        }
        let is_same =
            from.as_path().as_os_str().eq_ignore_ascii_case(to.as_path()) && self.source.same_file(from, to);
        if self.is_directory(to)? && !is_same {
            return Err(PlanError::Exists { path: to.clone() });
        }
        let on_disk = matches!(self.source.lookup(from)?, Lookup::Directory);
        let tree = if on_disk { self.source.tree(from)? } else { Tree::default() };
        let below: Vec<AbsPath> = self.slots.keys().filter(|path| path.starts_with(from)).cloned().collect();
        let files: BTreeSet<AbsPath> = tree.files.into_iter().chain(below).collect();
        let new_path = |path: &AbsPath| path.strip_prefix(from).map(|rest| to.join(rest));
        for file in files {
            let Some(target) = new_path(&file) else { continue };
            if self.slot(&file)?.now.is_some() {
                self.rename(&file, &target, None, None)?;
            }
        }
        for (directory, mode) in tree.directories {
            if let Some(target) = new_path(&directory) {
                self.make_directory(target, Some(mode));
            }
            self.remove_directory(directory);
        }
        Ok(())
    }

    fn delete_directory(&mut self, directory: &AbsPath, recursive: bool) -> Result<(), PlanError> {
        if !self.is_directory(directory)? {
            return Err(ReadError::NotFound { path: directory.clone() }.into());
        }
        let on_disk = matches!(self.source.lookup(directory)?, Lookup::Directory);
        let tree = if on_disk { self.source.tree(directory)? } else { Tree::default() };
        let below: Vec<AbsPath> =
            self.slots.keys().filter(|path| path.starts_with(directory)).cloned().collect();
        let files: BTreeSet<AbsPath> = tree.files.into_iter().chain(below).collect();
        for file in files {
            let slot = self.slot(&file)?;
            if slot.now.is_some() && !recursive {
                let reason = format!("it is not empty: {file} is in it");
                return Err(PlanError::Impossible { path: directory.clone(), reason });
            }
            slot.now = None;
        }
        for (inner, _) in tree.directories {
            self.remove_directory(inner);
        }
        Ok(())
    }

    /// Hides `to` if it is `from` itself, as found on a case-insensitive disk.
    fn hide_case_variant(&mut self, from: &AbsPath, to: &AbsPath) -> Result<(), PlanError> {
        let alike = from.as_path().as_os_str().eq_ignore_ascii_case(to.as_path());
        if alike && !self.slots.contains_key(to) && self.source.same_file(from, to) {
            self.slots.insert(to.clone(), Slot { before: None, now: None, adopted: false });
        }
        Ok(())
    }

    fn slot(&mut self, path: &AbsPath) -> Result<&mut Slot, PlanError> {
        if !self.slots.contains_key(path) {
            let before = match self.source.lookup(path)? {
                Lookup::File { image, open } => {
                    let origin = Some(path.clone());
                    Some(Node { image, origin, open, edits: Edits::None, whole: false })
                }
                Lookup::Nothing | Lookup::Directory => None,
            };
            self.slots.insert(path.clone(), Slot { now: before.clone(), before, adopted: false });
        }
        Ok(self.slots.get_mut(path).expect("it was inserted above"))
    }

    fn present(&mut self, path: &AbsPath) -> Result<&mut Node, PlanError> {
        if self.is_directory(path)? {
            return Err(ReadError::NotAFile { path: path.clone() }.into());
        }
        let found = self.slot(path)?.now.as_mut();
        found.ok_or_else(|| ReadError::NotFound { path: path.clone() }.into())
    }

    fn expect(&mut self, path: &AbsPath, expected: &Version) -> Result<&mut Node, PlanError> {
        let node = self.present(path)?;
        if node.image.hash == expected.hash { Ok(node) } else { Err(PlanError::Stale { path: path.clone() }) }
    }

    fn expect_free(&mut self, path: &AbsPath) -> Result<(), PlanError> {
        if self.slot(path)?.now.is_some() || self.is_directory(path)? {
            return Err(PlanError::Exists { path: path.clone() });
        }
        let mut above = path.parent();
        while let Some(directory) = above {
            let made_here = self.slots.get(&directory).is_some_and(|slot| slot.now.is_some());
            match self.source.lookup(&directory)? {
                Lookup::Directory if !made_here => break,
                Lookup::Nothing if !made_here => above = directory.parent(),
                _ => {
                    let reason = format!("{directory} is a file, not a directory");
                    return Err(PlanError::Impossible { path: path.clone(), reason });
                }
            }
        }
        Ok(())
    }

    /// The file on the disk at a place where `path` needs a directory, if any.
    pub(crate) fn file_above(&self, path: &AbsPath) -> Result<Option<AbsPath>, PlanError> {
        let mut above = path.parent();
        while let Some(directory) = above {
            match self.source.lookup(&directory)? {
                Lookup::File { .. } => return Ok(Some(directory)),
                Lookup::Directory => return Ok(None),
                Lookup::Nothing => above = directory.parent(),
            }
        }
        Ok(None)
    }

    /// Whether `path` is a directory in the simulated state.
    ///
    /// It is on the disk, or the plan put something below it, and it did not move.
    pub fn is_directory(&self, path: &AbsPath) -> Result<bool, PlanError> {
        if let Some(slot) = self.slots.get(path)
            && (slot.now.is_some() || slot.before.is_some())
        {
            return Ok(false);
        }
        let below = self.slots.range((Bound::Excluded(path), Bound::Unbounded));
        let filled = below.take_while(|(file, _)| file.starts_with(path)).any(|(_, slot)| slot.now.is_some());
        if filled || self.made.contains_key(path) {
            return Ok(true);
        }
        Ok(!self.removed.contains(path) && matches!(self.source.lookup(path)?, Lookup::Directory))
    }

    /// Builds the resulting plan.
    pub(crate) fn into_plan(self, label: String) -> Result<Plan, PlanError> {
        let Self { slots, made, removed, .. } = self;
        let changed = |slot: &Slot| match (&slot.before, &slot.now) {
            (None, None) => false,
            (Some(before), Some(now)) => {
                !before.image.same_content(&now.image) || before.image.mode != now.image.mode
            }
            _ => true,
        };
        let moved: BTreeSet<&AbsPath> = slots
            .iter()
            .filter(|(_, slot)| changed(slot))
            .filter_map(|(path, slot)| slot.now.as_ref()?.origin.as_ref().filter(|origin| *origin != path))
            .collect();
        let (mut steps, mut changes) = (Vec::new(), Vec::new());
        for (path, slot) in slots.iter().filter(|(_, slot)| changed(slot)) {
            let moved_from =
                slot.now.as_ref().and_then(|now| now.origin.clone()).filter(|origin| origin != path);
            let source =
                moved_from.as_ref().and_then(|from| slots.get(from)).and_then(|slot| slot.before.as_ref());
            let open = |node: &Option<Node>| node.as_ref().is_some_and(|node| node.open);
            if (open(&slot.before) && moved_from.is_some())
                || (open(&slot.now) && moved_from.is_some() && slot.before.is_some())
            {
                let reason =
                    "it is open in the editor and another file would take its place; close it".to_owned();
                return Err(PlanError::Held { path: path.clone(), reason });
            }
            let text = |node: Option<&Node>| node.and_then(|node| node.image.content.as_text().cloned());
            // An adopted file counts as absent before.
            let known = slot.before.as_ref().filter(|_| !slot.adopted);
            let (before, after) = (text(source.or(known)), text(slot.now.as_ref()));
            let kind = match (known, &slot.now, &moved_from) {
                (_, _, Some(from)) => Some(ChangeKind::Renamed { from: from.clone() }),
                (None, _, None) => Some(ChangeKind::Created),
                (Some(_), Some(_), None) => Some(ChangeKind::Modified),
                (Some(_), None, None) => (!moved.contains(path)).then_some(ChangeKind::Deleted),
            };
            if let Some(kind) = kind {
                let edits = match (&slot.now, &before, &after) {
                    (Some(Node { edits: Edits::Once(edits), .. }), Some(_), Some(_)) => edits.clone(),
                    (_, Some(before), Some(after)) => text::diff_edits(before, after),
                    _ => Vec::new(),
                };
                let whole = slot.now.as_ref().is_some_and(|now| now.whole);
                let is_lost = match kind {
                    ChangeKind::Renamed { .. } => !moved.contains(path),
                    ChangeKind::Modified => whole,
                    ChangeKind::Created | ChangeKind::Deleted => false,
                };
                let overwritten =
                    known.filter(|_| is_lost).map(|known| Overwritten { text: text(Some(known)) });
                changes.push(FileChange { path: path.clone(), kind, before, after, edits, overwritten });
            }
            let image = |node: &Option<Node>| node.as_ref().map(|node| node.image.clone());
            steps.push(Step {
                path: path.clone(),
                before: image(&slot.before),
                after: image(&slot.now),
                moved_from,
                open: open(&slot.before) || open(&slot.now),
                adopted: slot.adopted,
            });
        }
        let made = made.into_iter().map(|(path, mode)| Directory { path, mode }).collect();
        let removed = removed.into_iter().collect();
        Ok(Plan { label, changes, steps, made, removed, confirm: Vec::new() })
    }
}

impl Node {
    fn set(&mut self, content: Content, edits: Option<Vec<TextEdit>>) {
        self.image = Image::new(content, self.image.mode);
        self.edits = match (&self.edits, edits) {
            (Edits::None, Some(edits)) => Edits::Once(edits),
            _ => Edits::Many,
        };
    }
}

fn check_size(path: &AbsPath, text: &str) -> Result<(), PlanError> {
    let (bytes, limit) = (text.len() as u64, disk::MAX_BYTES);
    match bytes > limit {
        true => Err(PlanError::TooLarge { path: path.clone(), bytes, limit }),
        false => Ok(()),
    }
}
