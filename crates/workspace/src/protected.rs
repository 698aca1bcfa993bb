//! Paths that a general rule does not open: they need a rule of their own.
//!
//! A rule is a path's own when it spells what makes the path special: `allow write .env.local` does,
//! `allow write` and `allow write **` do not. For paths outside the workspace that means a pattern
//! that begins with `/` or `~/`. Names are compared without regard to case, since some file systems do.

use crate::{AbsPath, Capability, Decision};

/// Why a path is protected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Protection {
    /// What it is, for people.
    pub(crate) what: &'static str,
    /// What a rule must spell; `None`: a whole path.
    pub(crate) name: Option<String>,
    pub(crate) read: Decision,
    pub(crate) write: Decision,
}

impl Protection {
    /// What holds without a rule of its own.
    pub(crate) fn decision(&self, capability: Capability) -> Decision {
        if capability == Capability::Read { self.read } else { self.write }
    }
}

/// One line of the table. Each carries its examples: paths below the root that it is about, and
/// harmless ones that it is not.
struct Kind {
    what: &'static str,
    folders: &'static [&'static str],
    files: &'static [&'static str],
    prefixes: &'static [&'static str],
    extensions: &'static [&'static str],
    read: Decision,
    write: Decision,
    #[cfg_attr(not(test), expect(dead_code, reason = "the test checks them"))]
    examples: &'static [&'static str],
    #[cfg_attr(not(test), expect(dead_code, reason = "the test checks them"))]
    harmless: &'static [&'static str],
}

/// The first that fits counts, so the strictest come first.
const KINDS: &[Kind] = &[
    Kind {
        what: "keys and logins",
        folders: &[".ssh", ".gnupg", ".aws", ".kube", ".azure", ".docker"],
        files: &[
            ".netrc",
            "_netrc",
            ".git-credentials",
            ".pypirc",
            ".pgpass",
            ".htpasswd",
            "credentials.json",
            "id_rsa",
            "id_dsa",
            "id_ecdsa",
            "id_ed25519",
        ],
        prefixes: &[],
        extensions: &["pem", "key", "p12", "pfx", "jks", "keystore", "kdbx", "ppk"],
        read: Decision::Deny,
        write: Decision::Deny,
        examples: &[
            ".ssh/config",
            "x/.AWS/credentials",
            "deploy/server.pem",
            "id_rsa",
            "a/.netrc",
            "tls.key",
        ],
        harmless: &["ssh/config", "id_rsa.pub", "src/key.rs", "keys/mod.rs", "pem", "aws.md", "monkey"],
    },
    Kind {
        what: "git's own files",
        folders: &[".git", ".hg", ".svn", ".jj"],
        files: &[".git"],
        prefixes: &[],
        extensions: &[],
        read: Decision::Ask,
        write: Decision::Deny,
        examples: &[".git/config", ".git/hooks/pre-commit", "sub/.git/HEAD", "sub/.git", ".GIT/config"],
        harmless: &[".gitignore", ".github/workflows/ci.yml", "git/mod.rs", ".gitmodules", "a.git.md"],
    },
    Kind {
        what: "environment secrets",
        folders: &[],
        files: &[".npmrc", ".envrc"],
        prefixes: &[".env"],
        extensions: &[],
        read: Decision::Ask,
        write: Decision::Ask,
        examples: &[".env", "app/.env.local", ".envrc", ".env-production", ".npmrc"],
        harmless: &[
            "env",
            "src/env.rs",
            ".env.example",
            ".env.sample",
            ".env.template",
            ".environment/x",
            "a.env.md",
        ],
    },
    Kind {
        what: "pilcrow's settings of the project",
        folders: &[".pilcrow"],
        files: &[],
        prefixes: &[],
        extensions: &[],
        read: Decision::Allow,
        write: Decision::Ask,
        examples: &[".pilcrow/config.toml", "sub/.pilcrow/servers/x.toml"],
        harmless: &["pilcrow/config.toml", ".pilcrowrc"],
    },
];

/// Beginnings of [`Kind::prefixes`] that hold no secrets: they are made to be committed.
const TEMPLATES: &[&str] = &[".env.example", ".env.sample", ".env.template", ".env.dist"];

/// Whether and why `path`, with its links resolved, is protected.
pub(crate) fn protection(path: &AbsPath, root: &AbsPath) -> Option<Protection> {
    let inside = path.strip_prefix(root);
    let names: Vec<String> = inside
        .unwrap_or(path.as_path())
        .components()
        .map(|component| component.as_os_str().to_string_lossy().to_ascii_lowercase())
        .collect();
    let named = KINDS.iter().find_map(|kind| {
        let name = kind.name_in(&names)?;
        Some(Protection { what: kind.what, name: Some(name), read: kind.read, write: kind.write })
    });
    if named.is_some() || inside.is_some() {
        return named;
    }
    let what = "a file outside the workspace";
    Some(Protection { what, name: None, read: Decision::Ask, write: Decision::Deny })
}

/// What secrets the file at `path` holds by its name, and whether they are keys and logins.
pub(crate) fn secrets(path: &AbsPath, root: &AbsPath) -> Option<(&'static str, bool)> {
    let protection = protection(path, root).filter(|it| it.name.is_some())?;
    let is_login = protection.read == Decision::Deny;
    (is_login || (protection.read, protection.write) == (Decision::Ask, Decision::Ask))
        .then_some((protection.what, is_login))
}

impl Kind {
    /// The name that makes the path one of this kind.
    fn name_in(&self, names: &[String]) -> Option<String> {
        let (file, folders) = names.split_last()?;
        if let Some(folder) = folders.iter().find(|name| self.folders.contains(&name.as_str())) {
            return Some(folder.clone());
        }
        // The folder itself may be what is moved or made.
        if self.files.contains(&file.as_str()) || self.folders.contains(&file.as_str()) {
            return Some(file.clone());
        }
        let prefix = self.prefixes.iter().find(|prefix| {
            let rest = file.strip_prefix(**prefix);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-', '_']))
        });
        if let Some(prefix) = prefix
            && !TEMPLATES.contains(&file.as_str())
        {
            return Some((*prefix).to_owned());
        }
        let (stem, extension) = file.rsplit_once('.')?;
        (!stem.is_empty() && self.extensions.contains(&extension)).then(|| format!(".{extension}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_matches_its_examples_and_nothing_harmless() {
        let root = AbsPath::new("/w").unwrap();
        for kind in KINDS {
            for example in kind.examples {
                let found = protection(&root.join(example), &root);
                assert_eq!(found.map(|it| it.what), Some(kind.what), "{example}");
            }
            for harmless in kind.harmless {
                assert_eq!(protection(&root.join(harmless), &root), None, "{harmless}");
            }
        }
    }

    #[test]
    fn outside_is_protected_and_keys_there_still_are_keys() {
        let root = AbsPath::new("/home/me/w").unwrap();
        let outside = protection(&AbsPath::new("/home/me/other/a.rs").unwrap(), &root).unwrap();
        assert_eq!((outside.name, outside.write), (None, Decision::Deny));
        let key = protection(&AbsPath::new("/home/me/.ssh/id_rsa").unwrap(), &root).unwrap();
        assert_eq!((key.what, key.read), ("keys and logins", Decision::Deny));
        assert!(protection(&root, &root).is_none());
    }

    #[test]
    fn a_workspace_below_a_special_folder_is_not_special_itself() {
        let root = AbsPath::new("/home/me/.git/w").unwrap();
        assert!(protection(&root.join("a.rs"), &root).is_none());
    }
}
