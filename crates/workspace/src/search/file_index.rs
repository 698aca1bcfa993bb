//! The file list of a workspace and the words of its files, kept between scans.
//!
//! A scan for a word reads only the files that are new or changed since an earlier scan. The first scan after a change
//! compares stamps, one `stat` for each directory and each file, which takes some milliseconds for thousands of files.
//! The directories are watched, so that the scans until the next change compare nothing.
//!
//! Invariants: a list or entry is used only while its stamps hold, or nothing changed since they held; the disk never
//! decides about a file that an editor has open; a text that was not indexed may hold every word.

use std::collections::HashMap;
use std::hash::Hasher as _;
use std::path::PathBuf;
use std::sync::Arc;

use ignore::DirEntry;
use ignore::gitignore::gitconfig_excludes_path;
use parking_lot::Mutex;
use paths::AbsPath;

use super::DirectoryWatch;
use crate::Workspace;
use crate::documents::stamp::Stamp;

/// Maximum size of a file that is indexed, in bytes.
const MAX_BYTES: usize = 1 << 20;
/// Maximum number of distinct words of one file; one with more may hold every word.
const MAX_WORDS: usize = 20_000;
/// Maximum number of words of all files together, four bytes each.
const MAX_ALL_WORDS: usize = 16 << 20;

/// Names of files whose change can alter the files that a walk finds.
const IGNORE_FILES: [&str; 2] = [".gitignore", ".ignore"];

/// The file list and words that earlier scans found.
#[derive(Debug, Default)]
pub(crate) struct FileIndex {
    listing: Mutex<Option<Arc<Listing>>>,
    words: Mutex<Words>,
    /// The directories of the list.
    watch: Mutex<DirectoryWatch>,
}

/// Files below the root, with the stamps that show whether the list is current.
#[derive(Debug)]
struct Listing {
    files: Vec<AbsPath>,
    /// The directories, and the ignore files in them.
    inside: Vec<(PathBuf, Stamp)>,
    /// The ignore files elsewhere.
    outside: Vec<(PathBuf, Stamp)>,
    /// The number of the last scan in which the stamps held.
    held: Mutex<Option<u64>>,
}

#[derive(Debug, Default)]
struct Words {
    files: HashMap<AbsPath, FileWords>,
    count: usize,
}

#[derive(Debug)]
struct FileWords {
    stamp: Stamp,
    /// The number of the last scan in which the stamp held.
    held: Option<u64>,
    /// Sorted hashes of words; `None` if the file may hold every word.
    hashes: Option<Box<[u32]>>,
}

impl Workspace {
    /// Returns the files of a walk from the root.
    ///
    /// Takes them from the list of an earlier walk while that is current.
    pub(super) fn listed(&self, walk: ignore::Walk) -> impl Iterator<Item = AbsPath> + use<> {
        let index = &self.inner.index;
        let known = index.listing.lock().clone().filter(|listing| index.is_current(listing));
        let (files, walk) = match known {
            Some(listing) => (Some(listing), None),
            None => (None, Some(Recording::new(self.clone(), walk))),
        };
        let count = files.as_ref().map_or(0, |listing| listing.files.len());
        let listed = (0..count).filter_map(move |at| files.as_ref()?.files.get(at).cloned());
        listed.chain(walk.into_iter().flatten())
    }

    /// Prepares the question which files may hold a word.
    pub fn word_filter(&self, word: &str) -> WordFilter {
        let current = self.inner.index.watch.lock().current();
        WordFilter { workspace: self.clone(), hashes: hashes(word).collect(), current }
    }
}

impl FileIndex {
    /// Whether nothing changed since a list was made.
    fn is_current(&self, listing: &Listing) -> bool {
        if !hold(&listing.outside) {
            return false;
        }
        let began = {
            let mut watch = self.watch.lock();
            let current = watch.current();
            if current.is_some() && *listing.held.lock() == current {
                return true;
            }
            watch.begin()
        };
        self.watch(listing, began)
    }

    /// Watches the directories of a list that was made since `began`.
    ///
    /// Returns whether the list is current.
    fn watch(&self, listing: &Listing, began: u64) -> bool {
        let paths = listing.inside.iter().map(|(path, _)| path);
        let directories = paths.filter(|path| path.is_dir()).cloned();
        let mut watch = self.watch.lock();
        // The stamps are older than what was read, and show a change before the watch.
        let round = watch.watch(directories, |_| false);
        let is_current = hold(&listing.inside);
        watch.end(began, round.filter(|_| is_current));
        *listing.held.lock() = watch.current();
        is_current
    }
}

fn hold(stamps: &[(PathBuf, Stamp)]) -> bool {
    stamps.iter().all(|(path, stamp)| stamp.holds(path))
}

/// A word that files may hold.
#[derive(Debug)]
pub struct WordFilter {
    workspace: Workspace,
    hashes: Vec<u32>,
    /// The number of the current scan of directories, if any.
    current: Option<u64>,
}

impl WordFilter {
    /// Whether the file at `path` may hold the word as a whole word. Blocks.
    ///
    /// A large file or one that an editor has open may hold every word. A change since the filter was made may go
    /// unnoticed.
    pub fn may_be_in(&self, path: &AbsPath) -> bool {
        let Self { workspace, current, .. } = self;
        if workspace.held_document(path).is_some() {
            return true;
        }
        let index = &workspace.inner.index;
        if let Some(entry) = index.words.lock().files.get(path)
            && current.is_some()
            && entry.held == *current
        {
            return self.fits(entry);
        }
        let stamp = Stamp::of(path.as_path());
        let is_watched = || path.as_path().parent().is_some_and(|it| index.watch.lock().covers(it));
        // A change right before may leave the times as they are, but is reported.
        let held = current.filter(|_| is_watched());
        if let Some(entry) = index.words.lock().files.get_mut(path)
            && entry.stamp.is_same(&stamp)
        {
            entry.held = held;
            return self.fits(entry);
        }
        // A file that changes meanwhile has another stamp afterwards.
        let entry = FileWords { stamp, held, hashes: read_words(path) };
        let fits = self.fits(&entry);
        index.words.lock().insert(path, entry);
        fits
    }

    fn fits(&self, entry: &FileWords) -> bool {
        let hashes = entry.hashes.as_ref();
        hashes.is_none_or(|hashes| self.hashes.iter().all(|hash| hashes.binary_search(hash).is_ok()))
    }
}

impl Words {
    fn insert(&mut self, path: &AbsPath, entry: FileWords) {
        let size = |entry: &FileWords| entry.hashes.as_ref().map_or(0, |hashes| hashes.len());
        self.count += size(&entry);
        if let Some(old) = self.files.insert(path.clone(), entry) {
            self.count -= size(&old);
        }
        if self.count > MAX_ALL_WORDS {
            self.files.clear();
            self.count = 0;
        }
    }
}

/// Hashes the words of a file; sorts the hashes.
///
/// `None` if it is too large or has too many words.
fn read_words(path: &AbsPath) -> Option<Box<[u32]>> {
    let (bytes, _) = crate::documents::disk::read(path).ok()?;
    if bytes.len() > MAX_BYTES {
        return None;
    }
    let text = String::from_utf8(bytes).ok()?;
    let mut hashes: Vec<u32> = hashes(&text).collect();
    hashes.sort_unstable();
    hashes.dedup();
    (hashes.len() <= MAX_WORDS).then(|| hashes.into_boxed_slice())
}

/// Hashes each word of a text.
///
/// A file that holds a name as a whole word holds each word of the name.
fn hashes(text: &str) -> impl Iterator<Item = u32> {
    text.split(|character| !text::is_word(character)).filter(|word| !word.is_empty()).map(|word| {
        let mut hasher = std::hash::DefaultHasher::new();
        hasher.write(word.as_bytes());
        // Half of the hash is enough to rule a file out.
        (hasher.finish() >> 32) as u32
    })
}

/// A walk whose result becomes the list when it ends.
struct Recording {
    workspace: Workspace,
    walk: ignore::Walk,
    listing: Option<Listing>,
    /// The number of the scan of the directories.
    began: u64,
}

impl Recording {
    fn new(workspace: Workspace, walk: ignore::Walk) -> Self {
        // The list also depends on ignore files outside of the walked directories.
        let root = workspace.root().as_path();
        let above = root.ancestors().skip(1).flat_map(|above| IGNORE_FILES.map(|name| above.join(name)));
        let own = [root.join(".git/info/exclude")].into_iter().chain(gitconfig_excludes_path());
        let outside = above.chain(own).map(|path| (path.clone(), Stamp::of(&path))).collect();
        let listing = Listing { files: Vec::new(), inside: Vec::new(), outside, held: Mutex::default() };
        let began = workspace.inner.index.watch.lock().begin();
        Self { workspace, walk, listing: Some(listing), began }
    }

    /// Stamps a directory before its entries are read, and the ignore files in it.
    fn enter(&mut self, entry: &DirEntry) {
        let Some(listing) = &mut self.listing else { return };
        let directory = entry.path();
        listing.inside.push((directory.to_owned(), Stamp::of(directory)));
        for name in IGNORE_FILES {
            let path = directory.join(name);
            let stamp = Stamp::of(&path);
            // A new file changes the directory.
            if stamp != Stamp::default() {
                listing.inside.push((path, stamp));
            }
        }
    }
}

impl Iterator for Recording {
    type Item = AbsPath;

    fn next(&mut self) -> Option<AbsPath> {
        loop {
            match self.walk.next() {
                None => {
                    let listing = self.listing.take().map(Arc::new);
                    let index = &self.workspace.inner.index;
                    if let Some(listing) = &listing {
                        index.watch(listing, self.began);
                        *index.listing.lock() = Some(Arc::clone(listing));
                    }
                    return None;
                }
                // An unreadable directory may be readable later.
                Some(Err(_)) => self.listing = None,
                Some(Ok(entry)) => match entry.file_type() {
                    Some(kind) if kind.is_dir() => self.enter(&entry),
                    Some(kind) if kind.is_file() => {
                        let Some(path) = AbsPath::new(entry.path()) else { continue };
                        if let Some(listing) = &mut self.listing {
                            listing.files.push(path.clone());
                        }
                        return Some(path);
                    }
                    _ => {}
                },
            }
        }
    }
}
