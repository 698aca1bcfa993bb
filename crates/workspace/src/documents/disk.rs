//! Reads of the disk that follow no final link and wait for no pipe.

use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use paths::{AbsPath, path_to_uri};

use crate::documents::content::{Content, Image};
use crate::{ContentHash, Document, Owner, ReadError, Version};

/// Maximum size of a file that is edited or moved, in bytes.
pub(crate) const MAX_BYTES: u64 = 32 << 20;

/// The file, link or directory at a path.
#[derive(Debug, Clone)]
pub(crate) enum Found {
    Nothing,
    Directory,
    File(Image),
}

/// The files and directories below a directory.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub files: Vec<AbsPath>,
    /// Directories with their permissions, parents first, including the top one.
    pub directories: Vec<(AbsPath, u32)>,
}

/// The permission bits of a file.
pub(crate) fn mode(meta: &Metadata) -> u32 {
    meta.permissions().mode() & 0o7777
}

/// Reads metadata without following links; `None` if the path does not exist.
pub(crate) fn stat(path: &AbsPath) -> std::io::Result<Option<Metadata>> {
    match std::fs::symlink_metadata(path) {
        Ok(meta) => Ok(Some(meta)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the entry at `path`.
///
/// # Errors
/// `NotAFile` for sockets, pipes and devices, which are never opened; `TooLarge`, `Io`.
pub(crate) fn inspect(path: &AbsPath) -> Result<Found, ReadError> {
    let io = |source| ReadError::Io { path: path.clone(), source };
    let Some(meta) = stat(path).map_err(io)? else {
        return Ok(Found::Nothing);
    };
    if meta.is_dir() {
        return Ok(Found::Directory);
    }
    if meta.is_symlink() {
        let target = std::fs::read_link(path).map_err(io)?;
        return Ok(Found::File(Image::new(Content::Link(target), None)));
    }
    let (bytes, meta) = read(path)?;
    Ok(Found::File(Image::new(Content::of(bytes), Some(mode(&meta)))))
}

/// Reads the bytes of a regular file.
///
/// # Errors
/// Every kind of [`ReadError`] but `NotUtf8`.
pub(crate) fn read(path: &AbsPath) -> Result<(Vec<u8>, Metadata), ReadError> {
    let io = |source: std::io::Error| match source.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => ReadError::NotFound { path: path.clone() },
        ErrorKind::InvalidInput => ReadError::NotAFile { path: path.clone() },
        _ => ReadError::Io { path: path.clone(), source },
    };
    let check = |bytes| match bytes > MAX_BYTES {
        true => Err(ReadError::TooLarge { path: path.clone(), bytes, limit: MAX_BYTES }),
        false => Ok(()),
    };
    let (file, meta) = paths::open_file(path, true).map_err(io)?;
    check(meta.len())?;
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or_default());
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
    check(bytes.len() as u64)?;
    Ok((bytes, meta))
}

/// Reads everything below `directory`, sorted; does not follow links.
///
/// # Errors
/// `Io`; `NotAFile` for something that cannot be moved by value.
pub(crate) fn tree(directory: &AbsPath) -> Result<Tree, ReadError> {
    let mut tree = Tree::default();
    let mut todo = vec![directory.clone()];
    while let Some(directory) = todo.pop() {
        let io = |source| ReadError::Io { path: directory.clone(), source };
        tree.directories.push((directory.clone(), mode(&std::fs::metadata(&directory).map_err(io)?)));
        for entry in std::fs::read_dir(&directory).map_err(io)? {
            let entry = entry.map_err(io)?;
            let path = directory.join(entry.file_name());
            let kind = entry.file_type().map_err(io)?;
            if kind.is_dir() {
                todo.push(path);
            } else {
                tree.files.push(path);
            }
        }
    }
    tree.files.sort();
    tree.directories.sort();
    Ok(tree)
}

/// Whether two paths name one file, as on a case-insensitive disk.
pub(crate) fn same_file(a: &AbsPath, b: &AbsPath) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |path: &AbsPath| stat(path).ok().flatten().map(|meta| (meta.dev(), meta.ino()));
    id(a).is_some_and(|found| id(b) == Some(found))
}

/// Flushes the entries of a directory to the disk.
pub(crate) fn sync_directory(directory: &AbsPath) -> std::io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Reads the document at `path`.
///
/// # Errors
/// [`ReadError`].
pub(crate) fn document(path: &AbsPath) -> Result<Document, ReadError> {
    let (bytes, _) = read(path)?;
    let version = Version { hash: ContentHash::of(&bytes), editor: None };
    let (text, bom) = text(path, bytes)?;
    let uri = path_to_uri(path.as_path());
    Ok(Document { path: path.clone(), uri, text, bom, version, owner: Owner::Disk, blocked: None })
}

/// Decodes a file's bytes, without the byte order mark.
///
/// # Errors
/// `NotUtf8`.
pub(crate) fn text(path: &AbsPath, bytes: Vec<u8>) -> Result<(Arc<str>, bool), ReadError> {
    match Content::of(bytes) {
        Content::Text { text, bom } => Ok((text, bom)),
        Content::Bytes(bytes) => Err(not_utf8(path, &bytes)),
        Content::Link(_) => Err(ReadError::NotAFile { path: path.clone() }),
    }
}

/// Creates the error for the position of the first invalid byte.
pub(crate) fn not_utf8(path: &AbsPath, bytes: &[u8]) -> ReadError {
    let offset = std::str::from_utf8(bytes).err().map_or(bytes.len(), |error| error.valid_up_to());
    ReadError::NotUtf8 { path: path.clone(), offset }
}
