//! Denials of the sandbox in a command's output.
//!
//! A denial has three pieces of evidence: the system's error text, a path on the same line that the profile
//! denies, and that Pilcrow itself, outside of the sandbox, has the access. Output can say anything, so only
//! that of a failed command counts.

use std::collections::BTreeSet;
use std::path::Path;

use paths::AbsPath;
use paths::canonical_existing as canonical;
use policy::SandboxProfile;
use rustix::fs::Access;

/// The system's texts for a denied access. Hidden files seem to be missing.
const REFUSED: [&str; 3] = ["permission denied", "operation not permitted", "read-only file system"];
const MISSING: &str = "no such file or directory";
/// The system's text for a mount that cannot be moved or removed.
const BUSY: &str = "resource busy";

/// Maximum number of reported denials.
const MAX_DENIALS: usize = 5;

/// The denials in `output`, such as `write /etc/hosts`. Blocks.
///
/// `has_mounts` is set if the sandbox makes its protected files mounts.
pub(crate) fn find(output: &str, cwd: &AbsPath, profile: &SandboxProfile, has_mounts: bool) -> Vec<String> {
    let mut found = Vec::new();
    let outside = mounts();
    for line in output.lines() {
        let text = line.to_lowercase();
        let is_refused = REFUSED.iter().any(|it| text.contains(it));
        let is_busy = has_mounts && text.contains(BUSY);
        if !is_refused && !is_busy && !text.contains(MISSING) {
            continue;
        }
        let denial = names(line).map(|name| canonical(&cwd.join(name))).find_map(|path| {
            let hidden = profile.denies_read(&path) && path.as_path().exists();
            let denied = hidden || is_refused && profile.denies_write(&path) && may_write(&path);
            // A mount outside of the sandbox is busy for all.
            let held = is_busy && is_mount(profile, &path) && !outside.contains(&path);
            let access = if hidden {
                "read"
            } else if denied {
                "write"
            } else {
                "move or remove"
            };
            (denied || held).then(|| format!("{access} {path}"))
        });
        found.extend(denial.filter(|it| !found.contains(it)));
        if found.len() == MAX_DENIALS {
            break;
        }
    }
    found
}

/// Whether the sandbox keeps `path` in its place.
///
/// It is protected, or a directory around such a file.
fn is_mount(profile: &SandboxProfile, path: &AbsPath) -> bool {
    let mut kept = profile.protected.iter().chain(&profile.read_only).chain(&profile.writable);
    path.as_path().exists() && kept.any(|it| it.starts_with(path) && it.as_path().exists())
}

/// The mounts outside of the sandbox.
fn mounts() -> BTreeSet<AbsPath> {
    let text = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let paths = text.lines().filter_map(|line| line.split(' ').nth(1));
    paths.filter_map(|path| AbsPath::new(path.replace("\\040", " "))).collect()
}

/// The words of an error message that may be paths, quoted ones first.
fn names(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split(['\'', '"', '`', '‘', '’', '“', '”']).skip(1).step_by(2);
    let words = line.split(|c: char| c.is_whitespace() || "'\"`‘’“”:,;()[]".contains(c));
    quoted.chain(words).filter(|word| word.contains('/') && word.len() < 4096)
}

/// Whether this process may change or create the file.
fn may_write(path: &AbsPath) -> bool {
    let existing = path.as_path().ancestors().find(|it| it.symlink_metadata().is_ok());
    existing.is_some_and(|it: &Path| rustix::fs::access(it, Access::WRITE_OK).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::Network;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test makes its own files")]
    fn a_denial_needs_error_text_path_and_own_access() {
        let temp = tempfile::tempdir().unwrap();
        let top = canonical(&AbsPath::new(temp.path()).unwrap());
        for directory in ["project/.husky", "project/other", "own", "out side"] {
            std::fs::create_dir_all(top.join(directory)).unwrap();
        }
        std::fs::write(top.join("own/key"), "").unwrap();
        let profile = SandboxProfile {
            writable: vec![top.join("project")],
            created: Vec::new(),
            read_only: Vec::new(),
            protected: vec![top.join("project/.husky")],
            git: policy::GitChanges::default(),
            nested: None,
            hidden: vec![top.join("own")],
            readable: Vec::new(),
            network: Network::Allowed,
            unix_sockets: false,
            required: false,
        };
        for (line, expected) in [
            ("touch: cannot touch '{}/out side/new': Read-only file system", Some("write {}/out side/new")),
            ("bash: line 1: {}/new: Permission denied", Some("write {}/new")),
            ("EPERM: operation not permitted, open '{}/project/.husky/x'", Some("write {}/project/.husky/x")),
            ("./.husky/x: Read-only file system", Some("write {}/project/.husky/x")),
            ("cat: {}/own/key: No such file or directory", Some("read {}/own/key")),
            ("cat: {}/own/other: No such file or directory", None),
            ("cat: {}/new: No such file or directory", None),
            ("{}/project/x: Permission denied", None),
            ("wrote {}/new", None),
            (
                "mv: cannot move '{}/project' to 'x': Device or resource busy",
                Some("move or remove {}/project"),
            ),
            (
                "rm: cannot remove './.husky/': Device or resource busy",
                Some("move or remove {}/project/.husky"),
            ),
            ("rm: cannot remove '{}/project/other': Device or resource busy", None),
            ("rmdir: failed to remove '/proc': Device or resource busy", None),
        ] {
            let fill = |text: &str| text.replace("{}", &top.to_string());
            let found = find(&fill(line), &top.join("project"), &profile, true);
            assert_eq!(found.first().cloned(), expected.map(fill), "{line}");
        }
    }
}
