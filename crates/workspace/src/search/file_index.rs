//! The file list of a workspace and the words of its files, kept between scans.
//!
//! A scan for a word reads only the files that are new or changed since an earlier scan. The index watches
//! nothing: each use compares stamps, one `stat` for each directory and each file, which takes some
//! milliseconds for thousands of files.
//!
//! Invariants: a list or entry is used only while its stamps hold; the disk never decides about a file that
//! an editor has open; a text that was not indexed may hold every word.

use std::collections::HashMap;
use std::hash::Hasher as _;
use std::path::PathBuf;
use std::sync::Arc;

use ignore::DirEntry;
use ignore::gitignore::gitconfig_excludes_path;
use parking_lot::Mutex;
use paths::AbsPath;

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
}

/// Files below the root, with the stamps that show whether the list is current.
#[derive(Debug)]
struct Listing {
    files: Vec<AbsPath>,
    stamps: Vec<(PathBuf, Stamp)>,
}

#[derive(Debug, Default)]
struct Words {
    files: HashMap<AbsPath, FileWords>,
    count: usize,
}

#[derive(Debug)]
struct FileWords {
    stamp: Stamp,
    /// Sorted hashes of words; `None` if the file may hold every word.
    hashes: Option<Box<[u32]>>,
}

impl Workspace {
    /// Returns the files of a walk from the root.
    ///
    /// Takes them from the list of an earlier walk while that is current.
    pub(super) fn listed(&self, walk: ignore::Walk) -> impl Iterator<Item = AbsPath> + use<> {
        let index = &self.inner.index;
        let known = index.listing.lock().clone();
        let known = known.filter(|listing| listing.stamps.iter().all(|(path, stamp)| stamp.holds(path)));
        let (files, walk) = match known {
            Some(listing) => (Some(listing), None),
            None => (None, Some(Recording::new(self.clone(), walk))),
        };
        let count = files.as_ref().map_or(0, |listing| listing.files.len());
        let listed = (0..count).filter_map(move |at| files.as_ref()?.files.get(at).cloned());
        listed.chain(walk.into_iter().flatten())
    }

    /// Whether the file at `path` may hold `word` as a whole word. Blocks.
    ///
    /// A large file or one that an editor has open may hold every word.
    pub fn may_hold(&self, path: &AbsPath, word: &str) -> bool {
        if self.inner.open_document(path).is_some() {
            return true;
        }
        let stamp = Stamp::of(path.as_path());
        let wanted: Vec<u32> = hashes(word).collect();
        let judge = |entry: &FileWords| {
            let hashes = entry.hashes.as_ref();
            hashes.is_none_or(|hashes| wanted.iter().all(|hash| hashes.binary_search(hash).is_ok()))
        };
        {
            let words = self.inner.index.words.lock();
            if let Some(entry) = words.files.get(path).filter(|entry| entry.stamp.is_same(&stamp)) {
                return judge(entry);
            }
        }
        // A file that changes meanwhile has another stamp afterwards.
        let entry = FileWords { stamp, hashes: read_words(path) };
        let may_hold = judge(&entry);
        self.inner.index.words.lock().insert(path, entry);
        may_hold
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
}

impl Recording {
    fn new(workspace: Workspace, walk: ignore::Walk) -> Self {
        // Ignore files outside of the directories that are walked.
        let root = workspace.root().as_path();
        let above = root.ancestors().skip(1).flat_map(|above| IGNORE_FILES.map(|name| above.join(name)));
        let own = [root.join(".git/info/exclude")].into_iter().chain(gitconfig_excludes_path());
        let stamps = above.chain(own).map(|path| (path.clone(), Stamp::of(&path))).collect();
        Self { workspace, walk, listing: Some(Listing { files: Vec::new(), stamps }) }
    }

    /// Stamps a directory before its entries are read, and the ignore files in it.
    fn enter(&mut self, entry: &DirEntry) {
        let Some(listing) = &mut self.listing else { return };
        let directory = entry.path();
        listing.stamps.push((directory.to_owned(), Stamp::of(directory)));
        for name in IGNORE_FILES {
            let path = directory.join(name);
            let stamp = Stamp::of(&path);
            // A new file changes the directory.
            if stamp != Stamp::default() {
                listing.stamps.push((path, stamp));
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
                    if listing.is_some() {
                        *self.workspace.inner.index.listing.lock() = listing;
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
