//! Bounded reads of regular files.
//!
//! Programs of the agent can put a pipe, a device or a huge file in the place of any file of the project.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Maximum size of a file with settings, in bytes.
pub const MAX_SETTINGS: u64 = 1 << 20;

/// Opens a regular file; waits for no pipe and opens no device.
///
/// # Errors
/// `InvalidInput` for anything but a regular file. Without `follows_link`, also for a link.
pub fn open_file(path: impl AsRef<Path>, follows_link: bool) -> io::Result<(File, Metadata)> {
    let path = path.as_ref();
    let check = |meta: Metadata| match meta.is_file() {
        true => Ok(meta),
        false => Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file")),
    };
    check(std::fs::metadata(path)?)?;
    // Another program may replace it meanwhile.
    let link = if follows_link { OFlags::empty() } else { OFlags::NOFOLLOW };
    let flags = i32::try_from((OFlags::NONBLOCK | link).bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let meta = check(file.metadata()?)?;
    Ok((file, meta))
}

/// Reads a regular file of at most `limit` bytes. Follows links.
///
/// # Errors
/// Those of [`open_file`]; `FileTooLarge`.
pub fn read_file(path: impl AsRef<Path>, limit: u64) -> io::Result<Vec<u8>> {
    let (file, meta) = open_file(path, true)?;
    let mut bytes = Vec::new();
    // A size beyond the limit needs no read.
    let read =
        if meta.len() > limit { meta.len() } else { file.take(limit + 1).read_to_end(&mut bytes)? as u64 };
    match read > limit {
        true => Err(io::Error::new(ErrorKind::FileTooLarge, format!("it is larger than {limit} bytes"))),
        false => Ok(bytes),
    }
}

/// Reads a text file of at most [`MAX_SETTINGS`] bytes. Follows links.
///
/// # Errors
/// Those of [`read_file`]; `InvalidData` for text that is not UTF-8.
pub fn read_settings(path: impl AsRef<Path>) -> io::Result<String> {
    let bytes = read_file(path, MAX_SETTINGS)?;
    String::from_utf8(bytes).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_below_the_limit_are_read() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RWXU).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("device")).unwrap();
        std::fs::write(at("text"), "abc").unwrap();
        std::os::unix::fs::symlink(at("text"), at("link")).unwrap();
        File::create(at("huge")).unwrap().set_len(1 << 40).unwrap();
        let read = |name: &str| read_file(at(name), 3).map_err(|error| error.kind());
        assert_eq!([read("text"), read("link")], [Ok(b"abc".to_vec()), Ok(b"abc".to_vec())]);
        assert_eq!(read_file(at("text"), 2).unwrap_err().kind(), ErrorKind::FileTooLarge);
        for (name, expected) in [
            ("pipe", ErrorKind::InvalidInput),
            ("device", ErrorKind::InvalidInput),
            (".", ErrorKind::InvalidInput),
            ("huge", ErrorKind::FileTooLarge),
            ("none", ErrorKind::NotFound),
        ] {
            assert_eq!(read(name), Err(expected), "{name}");
        }
        assert!(open_file(at("text"), false).is_ok() && open_file(at("link"), false).is_err());
    }
}
