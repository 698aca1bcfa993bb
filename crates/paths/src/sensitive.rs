//! Files that are sensitive by their name: credentials, git's own files, secrets.
//!
//! Comparison ignores case, as some file systems do.

use crate::AbsPath;

/// The reason why a file's name makes it sensitive, the strictest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sensitive {
    /// The file contains keys or logins.
    Credentials,
    /// The file belongs to git or other version control.
    VersionControl,
    /// The file is like `.env`, which contains secrets among other values.
    Environment,
    /// The file contains Pilcrow's settings in the project.
    Settings,
    /// Other programs run what the file contains, or agents follow it.
    Executed,
}

impl Sensitive {
    /// A noun phrase for messages.
    pub fn description(self) -> &'static str {
        match self {
            Self::Credentials => "keys and logins",
            Self::VersionControl => "git's own files",
            Self::Environment => "environment secrets",
            Self::Settings => "pilcrow's settings of the project",
            Self::Executed => "instructions for other programs or agents",
        }
    }
}

/// A row of the table, with example paths that it matches and that it does not.
struct Kind {
    kind: Sensitive,
    directories: &'static [&'static str],
    files: &'static [&'static str],
    /// A directory, also below another, and a name in it.
    places: &'static [(&'static str, &'static str)],
    prefixes: &'static [&'static str],
    extensions: &'static [&'static str],
    #[cfg_attr(not(test), expect(dead_code, reason = "the test checks them"))]
    examples: &'static [&'static str],
    #[cfg_attr(not(test), expect(dead_code, reason = "the test checks them"))]
    harmless: &'static [&'static str],
}

/// Kinds of sensitive names, the strictest first because the first match counts.
const KINDS: &[Kind] = &[
    Kind {
        kind: Sensitive::Credentials,
        directories: &[
            ".ssh",
            ".gnupg",
            ".aws",
            ".kube",
            ".azure",
            ".docker",
            ".mozilla",
            ".oci",
            ".password-store",
            ".thunderbird",
        ],
        files: &[
            ".netrc",
            "_netrc",
            ".git-credentials",
            ".pypirc",
            ".pgpass",
            ".htpasswd",
            ".databrickscfg",
            ".my.cnf",
            ".s3cfg",
            ".vault-token",
            "credentials.json",
            "id_rsa",
            "id_dsa",
            "id_ecdsa",
            "id_ed25519",
        ],
        places: &[
            (".cargo", "credentials"),
            (".cargo", "credentials.toml"),
            (".claude", ".credentials.json"),
            (".codex", "auth.json"),
            (".config", "BraveSoftware"),
            (".config", "chromium"),
            (".config", "doctl"),
            (".config", "gcloud"),
            (".config", "gh"),
            (".config", "github-copilot"),
            (".config", "glab-cli"),
            (".config", "google-chrome"),
            (".config", "hcloud"),
            (".config", "hub"),
            (".config", "microsoft-edge"),
            (".config", "op"),
            (".config", "rclone"),
            (".config", "vivaldi"),
            (".config/containers", "auth.json"),
            (".config/git", "credentials"),
            (".config/sops", "age"),
            (".fly", "config.yml"),
            (".gem", "credentials"),
            (".gemini", "oauth_creds.json"),
            (".local/share", "keyrings"),
            (".local/share", "kwalletd"),
            (".terraform.d", "credentials.tfrc.json"),
        ],
        prefixes: &[],
        extensions: &["pem", "key", "p12", "pfx", "jks", "keystore", "kdbx", "ppk"],
        examples: &[
            ".ssh/config",
            "x/.AWS/credentials",
            "deploy/server.pem",
            "id_rsa",
            "a/.netrc",
            "tls.key",
            ".config/gh/hosts.yml",
            ".config/git/credentials",
            "home/.config/google-chrome/Default/Cookies",
            ".config/BraveSoftware",
            ".cargo/credentials.toml",
            ".mozilla/firefox/x/logins.json",
        ],
        harmless: &[
            ".cargo/registry/x.rs",
            ".config/git/ignore",
            ".ssh/id_rsa.pub",
            ".ssh/known_hosts",
            "certs/ca.pem",
            "tests/fixtures/tls.key",
            "tests/fixtures/id_rsa",
            "ssh/config",
            "id_rsa.pub",
            "src/key.rs",
            "keys/mod.rs",
            "pem",
            "aws.md",
            "monkey",
        ],
    },
    Kind {
        kind: Sensitive::VersionControl,
        directories: &[".git", ".hg", ".svn", ".jj"],
        files: &[".git"],
        places: &[],
        prefixes: &[],
        extensions: &[],
        examples: &[".git/config", ".git/hooks/pre-commit", "sub/.git/HEAD", "sub/.git", ".GIT/config"],
        harmless: &[".gitignore", "git/mod.rs", ".gitmodules", "a.git.md"],
    },
    Kind {
        kind: Sensitive::Environment,
        directories: &[],
        files: &[".npmrc", ".envrc"],
        places: &[],
        prefixes: &[".env"],
        extensions: &[],
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
        kind: Sensitive::Settings,
        directories: &[".pilcrow"],
        files: &[],
        places: &[],
        prefixes: &[],
        extensions: &[],
        examples: &[".pilcrow/config.toml", "sub/.pilcrow/servers/x.toml"],
        harmless: &["pilcrow/config.toml", ".pilcrowrc"],
    },
    Kind {
        kind: Sensitive::Executed,
        directories: &[".githooks", ".husky"],
        files: &[
            ".gitlab-ci.yml",
            ".mcp.json",
            ".pre-commit-config.yaml",
            "agents.md",
            "agents.override.md",
            "claude.md",
            ".cursorrules",
            ".clinerules",
            ".windsurfrules",
            "gemini.md",
            "copilot-instructions.md",
            ".dir-locals.el",
            ".drone.yml",
            ".exrc",
            ".nvim.lua",
            ".nvimrc",
            ".pnpmfile.cjs",
            ".travis.yml",
            ".woodpecker.yml",
            "azure-pipelines.yml",
            "bitbucket-pipelines.yml",
            "jenkinsfile",
        ],
        places: &[
            (".cargo", "config"),
            (".cargo", "config.toml"),
            (".circleci", "config.yml"),
            (".claude", "settings.json"),
            (".claude", "settings.local.json"),
            (".codex", "config.toml"),
            (".cursor", "mcp.json"),
            (".cursor", "rules"),
            (".devcontainer", "devcontainer.json"),
            (".forgejo", "workflows"),
            (".gemini", "settings.json"),
            (".gitea", "workflows"),
            (".github", "actions"),
            (".github", "workflows"),
            (".idea", "runconfigurations"),
            (".zed", "tasks.json"),
            (".vscode", "launch.json"),
            (".vscode", "settings.json"),
            (".vscode", "tasks.json"),
        ],
        prefixes: &[],
        extensions: &[],
        examples: &[
            ".husky/pre-commit",
            "sub/.vscode/tasks.json",
            ".cargo/config.toml",
            ".github/workflows/ci.yml",
            ".mcp.json",
            "sub/AGENTS.md",
            "Jenkinsfile",
            ".idea/runConfigurations/app.xml",
            ".claude/settings.json",
        ],
        harmless: &[
            "config.toml",
            ".github/CODEOWNERS",
            "workflows/a.yml",
            ".vscode/extensions.json",
            "husky/a",
        ],
    },
];

/// Exceptions to [`Kind::prefixes`]: files without secrets, meant to be committed.
const TEMPLATES: &[&str] = &[".env.example", ".env.sample", ".env.template", ".env.dist"];

/// Reason why the name of `path` is sensitive, and the component that makes it so.
///
/// Names above `root` do not count.
pub fn sensitive_name(path: &AbsPath, root: &AbsPath) -> Option<(Sensitive, String)> {
    let names: Vec<String> = path
        .strip_prefix(root)
        .unwrap_or(path.as_path())
        .components()
        .map(|component| component.as_os_str().to_string_lossy().to_ascii_lowercase())
        .collect();
    if is_public(&names) || path.starts_with(root) && is_fixture(&names) {
        return KINDS.iter().skip(1).find_map(|row| Some((row.kind, row.name_in(&names)?)));
    }
    KINDS.iter().find_map(|row| Some((row.kind, row.name_in(&names)?)))
}

/// Directories of examples that tests read.
const FIXTURES: &[&str] =
    &["__fixtures__", "fixtures", "test", "test-data", "test_data", "testdata", "tests"];

/// Whether a path is one of public keys or certificates.
fn is_public(names: &[String]) -> bool {
    let Some((file, _)) = names.split_last() else { return false };
    let (stem, extension) = file.rsplit_once('.').unwrap_or((file, ""));
    let is_certificate = extension == "pem"
        && !stem.contains("key")
        && !stem.contains("priv")
        && stem.split(['.', '-', '_']).any(|part| {
            matches!(
                part,
                "ca" | "cert"
                    | "certificate"
                    | "certs"
                    | "chain"
                    | "fullchain"
                    | "cacert"
                    | "bundle"
                    | "public"
                    | "pub"
            )
        });
    matches!(file.as_str(), "known_hosts" | "known_hosts.old") || extension == "pub" || is_certificate
}

/// Whether a path of the project is a key that its tests read.
fn is_fixture(names: &[String]) -> bool {
    let Some((file, directories)) = names.split_last() else { return false };
    let keys = ["pem", "key", "p12", "pfx", "jks", "keystore"];
    let is_key = file.rsplit_once('.').is_some_and(|(_, extension)| keys.contains(&extension));
    (is_key || file.starts_with("id_")) && directories.iter().any(|name| FIXTURES.contains(&name.as_str()))
}

/// Files that contain logins in a home directory, and settings in a project.
const HOME_LOGINS: &[&str] = &[".npmrc"];

/// Whether programs of a project read settings from this file with logins.
///
/// They fail if they cannot read it.
pub fn has_settings(login: &AbsPath) -> bool {
    HOME_LOGINS.contains(&login.file_name().as_str())
}

/// The paths with keys and logins below a home directory.
pub fn credential_paths() -> impl Iterator<Item = String> {
    let rows = || KINDS.iter().filter(|row| row.kind == Sensitive::Credentials);
    let names = rows().flat_map(|row| row.directories.iter().chain(row.files)).chain(HOME_LOGINS);
    let places = rows().flat_map(|row| row.places).map(|(directory, name)| format!("{directory}/{name}"));
    names.map(|name| (*name).to_owned()).chain(places)
}

impl Kind {
    /// The name that gives the path this kind.
    fn name_in(&self, names: &[String]) -> Option<String> {
        let (file, directories) = names.split_last()?;
        if let Some(directory) = directories.iter().find(|name| self.directories.contains(&name.as_str())) {
            return Some(directory.clone());
        }
        // The path may be the directory itself, as when it is moved or created.
        if self.files.contains(&file.as_str()) || self.directories.contains(&file.as_str()) {
            return Some(file.clone());
        }
        let is_in = |(directory, name): &&(&str, &str)| {
            let parts = || directory.split('/').chain([*name]);
            let is_at =
                |at: &[String]| at.iter().zip(parts()).all(|(it, part)| part.eq_ignore_ascii_case(it));
            names.windows(parts().count()).any(is_at)
        };
        if let Some((_, name)) = self.places.iter().find(is_in) {
            return Some((*name).to_owned());
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
    fn each_kind_matches_its_examples_and_nothing_harmless() {
        let root = AbsPath::new("/w").unwrap();
        for row in KINDS {
            for example in row.examples {
                let found = sensitive_name(&root.join(example), &root);
                assert_eq!(found.map(|(kind, _)| kind), Some(row.kind), "{example}");
            }
            for harmless in row.harmless {
                assert_eq!(sensitive_name(&root.join(harmless), &root), None, "{harmless}");
            }
        }
    }

    #[test]
    fn logins_of_a_home_directory_are_listed() {
        let all: Vec<String> = credential_paths().collect();
        for path in [".ssh", ".npmrc", ".config/gh", ".config/BraveSoftware", ".local/share/keyrings"] {
            assert!(all.iter().any(|it| it == path), "{path}");
        }
    }

    #[test]
    fn names_above_the_root_do_not_count() {
        let root = AbsPath::new("/home/me/.git/w").unwrap();
        // A directory of tests outside of the project makes no key an example.
        let key = AbsPath::new("/home/me/tests/server.key").unwrap();
        assert!(sensitive_name(&key, &root).is_some());
        assert!(sensitive_name(&root.join("a.rs"), &root).is_none());
    }
}
