//! A directory as a value: every path with its kind, mode and bytes, for comparison.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};

/// Entry at a path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    Directory { mode: u32 },
    File { mode: u32, bytes: Vec<u8> },
    Link { to: String },
}

/// All entries below a directory, by `/`-separated relative path, without times.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tree {
    pub(crate) nodes: BTreeMap<String, Node>,
}

impl Tree {
    /// Reads all entries below `root`. Blocks.
    pub(crate) fn read(root: &Path) -> Result<Tree> {
        let mut nodes = BTreeMap::new();
        let mut pending = vec![(root.to_owned(), String::new())];
        while let Some((directory, prefix)) = pending.pop() {
            let shown = directory.display().to_string();
            for entry in fs::read_dir(&directory).with_context(|| format!("cannot list {shown}"))? {
                let entry = entry.with_context(|| format!("cannot list {shown}"))?;
                let path = entry.path();
                let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
                let context = || format!("cannot read {}", path.display());
                let meta = path.symlink_metadata().with_context(context)?;
                let mode = meta.permissions().mode();
                let node = if meta.is_symlink() {
                    Node::Link {
                        to: fs::read_link(&path).with_context(context)?.to_string_lossy().into_owned(),
                    }
                } else if meta.is_dir() {
                    pending.push((path.clone(), format!("{name}/")));
                    Node::Directory { mode }
                } else {
                    Node::File { mode, bytes: fs::read(&path).with_context(context)? }
                };
                nodes.insert(name, node);
            }
        }
        Ok(Tree { nodes })
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.nodes.iter().filter_map(|(path, node)| match node {
            Node::File { bytes, .. } => Some((path.as_str(), bytes.as_slice())),
            Node::Directory { .. } | Node::Link { .. } => None,
        })
    }

    /// One line for each path that differs: added, removed, or the kind of change.
    pub(crate) fn differences(&self, after: &Tree) -> Vec<String> {
        let paths: BTreeSet<&String> = self.nodes.keys().chain(after.nodes.keys()).collect();
        paths
            .into_iter()
            .filter_map(|path| match (self.nodes.get(path), after.nodes.get(path)) {
                (Some(before), Some(after)) if before == after => None,
                (Some(Node::File { bytes: before, .. }), Some(Node::File { bytes: after, .. })) => {
                    Some(if before == after {
                        format!("mode changed: {path}")
                    } else {
                        format!("changed: {path}")
                    })
                }
                (Some(_), Some(_)) => Some(format!("changed kind or mode: {path}")),
                (None, _) => Some(format!("new: {path}")),
                (Some(_), None) => Some(format!("gone: {path}")),
            })
            .collect()
    }

    /// One hash over all paths, kinds, modes and bytes, for display.
    pub(crate) fn digest(&self) -> String {
        let mut all = Vec::new();
        for (path, node) in &self.nodes {
            let (kind, mode, bytes) = match node {
                Node::Directory { mode } => ("directory", *mode, &[][..]),
                Node::File { mode, bytes } => ("file", *mode, bytes.as_slice()),
                Node::Link { to } => ("link", 0, to.as_bytes()),
            };
            all.extend_from_slice(format!("{kind} {mode:o} {} {path}\0", bytes.len()).as_bytes());
            all.extend_from_slice(bytes);
        }
        format!("{:032x}", xxhash_rust::xxh3::xxh3_128(&all))
    }
}

/// Occurrences of `name` as a whole word, delimited by letters, digits and `_`.
pub(crate) fn words(text: &str, name: &str) -> Vec<usize> {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name)
        .map(|(at, _)| at)
        .filter(|&at| !text[..at].ends_with(in_word) && !text[at + name.len()..].starts_with(in_word))
        .collect()
}

/// The text with each whole word `name` replaced.
pub(crate) fn replace_words(text: &str, name: &str, with: &str) -> String {
    let mut out = String::new();
    let mut end = 0;
    for at in words(text, name) {
        out.push_str(&text[end..at]);
        out.push_str(with);
        end = at + name.len();
    }
    out + &text[end..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detects_every_kind_of_difference() {
        let directory = tempfile::tempdir().expect("temp");
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("sub")).expect("directory");
        for name in ["same", "bytes", "mode", "gone", "sub/deep"] {
            fs::write(at(name), name).expect("write");
        }
        let before = Tree::read(directory.path()).expect("read");
        assert_eq!(before.differences(&Tree::read(directory.path()).expect("read")), [""; 0]);
        fs::write(at("bytes"), "other").expect("write");
        fs::set_permissions(at("mode"), fs::Permissions::from_mode(0o600)).expect("mode");
        fs::remove_file(at("gone")).expect("remove");
        fs::remove_file(at("sub/deep")).expect("remove");
        fs::create_dir(at("sub/deep")).expect("directory");
        fs::create_dir(at("new")).expect("directory");
        let after = Tree::read(directory.path()).expect("read");
        let expected = [
            "changed: bytes",
            "gone: gone",
            "mode changed: mode",
            "new: new",
            "changed kind or mode: sub/deep",
        ];
        assert_eq!(before.differences(&after), expected);
        assert_ne!(before.digest(), after.digest());
    }

    #[test]
    fn only_whole_words_are_replaced() {
        assert_eq!(replace_words("ab abc _ab ab. é.ab", "ab", "x"), "x abc _ab x. é.x");
    }
}
