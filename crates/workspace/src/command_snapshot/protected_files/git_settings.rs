//! Files that git reads itself, and the versions that it has of others.

use std::path::Path;

use paths::AbsPath;
use paths::canonical_existing as canonical;
use shell::{is_harmless_change, unsafe_settings};

use super::file_state::{Content, Stamp, State, read_whole, stamp};

/// Names of protected files that git reads itself.
pub(super) const SETTINGS: [&str; 2] = ["config", "config.worktree"];

/// The directory that the link or file `.git` names.
pub(super) fn git_directory(path: &AbsPath) -> Option<AbsPath> {
    if path.as_path().is_symlink() {
        return Some(canonical(path));
    }
    let Content::File(bytes) = read_whole(path.as_path(), stamp(path.as_path())?) else {
        return None;
    };
    let named = String::from_utf8_lossy(&bytes).strip_prefix("gitdir:")?.trim().to_owned();
    Some(canonical(&path.parent()?.join(named)))
}

/// The settings of git in a file before and now.
pub(super) fn settings_of(
    path: &Path,
    before: Option<&State>,
    now: Option<&Stamp>,
) -> Option<(Vec<u8>, Vec<u8>)> {
    let is_config = path.file_name().is_some_and(|name| SETTINGS.iter().any(|it| name == *it));
    let before = match before.map(|state| &state.content) {
        None => Vec::new(),
        Some(Content::File(bytes)) => bytes.clone(),
        Some(_) => return None,
    };
    match now.filter(|_| is_config).map(|now| read_whole(path, *now))? {
        Content::File(now) => Some((before, now)),
        _ => None,
    }
}

/// Whether only settings of git changed that run no programs.
///
/// Addresses of remotes stay too, unless `may_change_addresses`.
pub(super) fn is_harmless(
    path: &Path,
    before: Option<&State>,
    now: Option<&Stamp>,
    may_change_addresses: bool,
) -> bool {
    settings_of(path, before, now)
        .is_some_and(|(before, now)| is_harmless_change(&before, &now, may_change_addresses))
}

pub(super) fn new_unsafe_settings(path: &Path, before: Option<&State>, now: Option<&Stamp>) -> Vec<String> {
    let Some((before, now)) = settings_of(path, before, now) else { return Vec::new() };
    let known = unsafe_settings(&before);
    unsafe_settings(&now).into_iter().filter(|key| !known.contains(key)).collect()
}

/// Whether a file is as in one of `versions`, or missing like in the first.
pub(super) fn is_version(path: &Path, versions: Option<&Vec<Option<Vec<u8>>>>) -> bool {
    let Some(versions) = versions else { return false };
    let content = stamp(path).map(|stamp| read_whole(path, stamp));
    let now = match content {
        None => return versions.first().is_some_and(Option::is_none),
        Some(Content::File(bytes)) => bytes,
        Some(Content::Link(target)) => target.into_os_string().into_encoded_bytes(),
        Some(Content::Directory | Content::Unknown) => return false,
    };
    versions.iter().flatten().any(|it| *it == now || *it == with_unix_lines(&now))
}

pub(super) fn with_unix_lines(bytes: &[u8]) -> Vec<u8> {
    let lines = bytes.iter().enumerate();
    let kept = lines.filter(|(at, byte)| !(**byte == b'\r' && bytes.get(at + 1) == Some(&b'\n')));
    kept.map(|(_, byte)| *byte).collect()
}
