//! The copy on disk of a file that an editor has open, to detect when they differ.
//!
//! Editors handle line ends and byte order marks apart, so texts are compared without them.

use std::borrow::Cow;
use std::os::unix::fs::MetadataExt;

use paths::AbsPath;

use crate::ContentHash;
use crate::documents::content::Content;
use crate::documents::disk;

/// The state of a file on the disk, compared with the editor's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskCopy {
    /// Hash of the file's bytes.
    pub hash: ContentHash,
    /// [`plain_hash`] of its text; `None` if it is not text.
    pub plain: Option<ContentHash>,
    /// Whether it begins with a byte order mark.
    pub bom: bool,
    stamp: Stamp,
}

/// Metadata by which a change is detected without reading.
type Stamp = (u64, u64, u64, i64, i64, i64, i64);

impl DiskCopy {
    /// Reads the file as it is now; returns `known` if it did not change since. Blocks.
    ///
    /// `None` if it does not exist or cannot be read.
    pub fn read(path: &AbsPath, known: Option<&Self>) -> Option<Self> {
        let stamp = |meta: &std::fs::Metadata| {
            let times = (meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec());
            (meta.dev(), meta.ino(), meta.len(), times.0, times.1, times.2, times.3)
        };
        let now = stamp(&std::fs::metadata(path).ok()?);
        if let Some(known) = known.filter(|known| known.stamp == now) {
            return Some(known.clone());
        }
        let (bytes, meta) = disk::read(path).ok()?;
        let hash = ContentHash::of(&bytes);
        let (plain, bom) = match Content::of(bytes) {
            Content::Text { text, bom } => (Some(plain_hash(&text)), bom),
            Content::Bytes(_) | Content::Link(_) => (None, false),
        };
        Some(Self { hash, plain, bom, stamp: stamp(&meta) })
    }
}

/// Hash of a text in which every line end is `\n`.
pub fn plain_hash(text: &str) -> ContentHash {
    ContentHash::of(plain(text).as_bytes())
}

fn plain(text: &str) -> Cow<'_, str> {
    if text.contains('\r') {
        Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
    } else {
        Cow::Borrowed(text)
    }
}
