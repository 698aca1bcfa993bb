//! Writes of the user's files: staged next to the path, or in place.
//!
//! Callers hold the commit lock, and have stored the content before.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};

use paths::AbsPath;
use rustix::fs::{Access, OFlags, XattrFlags};

use crate::documents::content::{Content, Image};
use crate::documents::disk;
use crate::documents::failpoints;

/// Writes `image` to `temp`, flushed, with the attributes of `like` if it exists.
///
/// Copies permissions, owner and extended attributes. Returns whether the owner could be copied.
pub(crate) fn stage(temp: &AbsPath, image: &Image, like: Option<&AbsPath>) -> std::io::Result<bool> {
    if let Content::Link(target) = &image.content {
        return std::os::unix::fs::symlink(target, temp).map(|()| true);
    }
    let like = like.map(|path| std::fs::metadata(path).map(|meta| (path, meta))).transpose()?;
    let mode = image.mode.or_else(|| like.as_ref().map(|(_, meta)| disk::mode(meta)));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(if mode.is_some() { 0o600 } else { 0o666 })
        .open(temp)?;
    file.write_all(&image.content.bytes())?;
    let mut owner_kept = true;
    if let Some((path, meta)) = &like {
        owner_kept = keep_owner(&file, meta)?;
        keep_attributes(&file, path);
    }
    if let Some(mode) = mode {
        file.set_permissions(std::fs::Permissions::from_mode(mode))?;
    }
    file.sync_all()?;
    Ok(owner_kept)
}

fn keep_owner(file: &File, like: &Metadata) -> std::io::Result<bool> {
    let own = file.metadata()?;
    if (own.uid(), own.gid()) == (like.uid(), like.gid()) {
        return Ok(true);
    }
    if std::os::unix::fs::fchown(file, Some(like.uid()), Some(like.gid())).is_ok() {
        return Ok(true);
    }
    // Only root can change the owner of a file; the group can often be kept.
    let group_kept = std::os::unix::fs::fchown(file, None, Some(like.gid())).is_ok();
    Ok(group_kept && own.uid() == like.uid())
}

/// Copies access lists and labels, as far as the system allows.
fn keep_attributes(file: &File, like: &AbsPath) {
    let mut names = vec![0u8; 64 << 10];
    let Ok(len) = rustix::fs::listxattr(like.as_path(), &mut names[..]) else { return };
    for name in names[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0u8; 64 << 10];
        if let Ok(len) = rustix::fs::getxattr(like.as_path(), name, &mut value[..])
            && let Err(error) = rustix::fs::fsetxattr(file, name, &value[..len], XattrFlags::empty())
        {
            tracing::debug!(path = %like, %error, "cannot copy an extended attribute");
        }
    }
}

/// Writes `bytes` over the content of `path`.
///
/// Writes first the beginning of the new content, then the end of the old one, and in the end the new one
/// alone. `n` counts such writes of a commit.
pub(crate) fn in_place(path: &AbsPath, bytes: &[u8], n: Option<usize>) -> std::io::Result<()> {
    let mut file =
        OpenOptions::new().write(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path)?;
    let (first, second) = bytes.split_at(bytes.len() / 2);
    file.write_all(first)?;
    if n.is_some() {
        failpoints::point("mid-in-place", n);
    }
    file.write_all(second)?;
    file.set_len(bytes.len() as u64)?;
    file.sync_all()
}

/// Whether a crash while writing `after` over `before` leaves `found`.
pub(crate) fn is_torn(found: &[u8], before: &[u8], after: &[u8]) -> bool {
    let common = found.iter().zip(after).take_while(|(a, b)| a == b).count();
    found[common..] == *before.get(common..).unwrap_or_default()
}

/// Removes a file if it exists.
pub(crate) fn remove(path: &AbsPath) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(()),
        other => other,
    }
}

/// Whether the permissions forbid writing a file, even if root could write it.
pub(crate) fn is_read_only(path: &AbsPath, meta: &Metadata) -> bool {
    disk::mode(meta) & 0o222 == 0 || !may(path, Access::WRITE_OK)
}

/// Whether entries of a directory may be created and removed.
pub(crate) fn is_directory_writable(directory: &AbsPath) -> bool {
    let open = std::fs::metadata(directory).is_ok_and(|meta| disk::mode(&meta) & 0o222 != 0);
    open && may(directory, Access::WRITE_OK | Access::EXEC_OK)
}

fn may(path: &AbsPath, access: Access) -> bool {
    rustix::fs::access(path.as_path(), access).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_torn_state_is_recognized() {
        for (before, after) in [("abcdef", "xyz"), ("abc", "uvwxyz"), ("aaaa", "aaab"), ("", "x"), ("x", "")]
        {
            for k in 0..=after.len() {
                let torn = [&after[..k], before.get(k..).unwrap_or_default()].concat();
                assert!(is_torn(torn.as_bytes(), before.as_bytes(), after.as_bytes()), "{torn}");
            }
        }
        assert!(!is_torn(b"xbcdeF", b"abcdef", b"xyz"));
        assert!(!is_torn(b"xyzdefg", b"abcdef", b"xyz"));
    }
}
