//! How a server is installed: as data, as commands, and carried out into a folder of ours.
//!
//! A person's command asks for it, never a model. What must stay true: a package is named by its exact
//! version and can be nothing else (no option, address or path); what is in the managed folder without
//! a mark of completion does not exist; a definition that comes with a project installs nothing.

mod lock;
mod plan;
mod run;

use serde::Deserialize;

pub use lock::{InstallLock, Locked};
pub use plan::{InstallPlan, PlanProblem, Step, ToInstall};
pub use run::{InstallError, Installed, Installer, Progress};

/// The mark of a folder that was filled to the end; its last file to be written.
pub(crate) const COMPLETE: &str = ".complete";

/// Who installs a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// npm, into the managed folder.
    Npm,
    /// pip, into a virtual environment in the managed folder.
    Pip,
    /// Cargo, into the managed folder.
    Cargo,
    /// Debian's packages, for the whole system.
    Apt,
    /// Nobody here: a page says how.
    Page,
}

impl std::fmt::Display for How {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Npm => "npm",
            Self::Pip => "pip",
            Self::Cargo => "cargo",
            Self::Apt => "apt",
            Self::Page => "page",
        })
    }
}

/// How a person gets a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Install {
    /// Who installs it.
    pub how: How,
    /// What is installed: `name@1.2.3` of npm and Cargo, `name==1.2.3` of pip, names of Debian's.
    pub packages: Vec<String>,
    /// What stands in for a package that one of those would have from elsewhere than npm's registry.
    pub overrides: Vec<String>,
    /// The command, where a definition says it in words of its own.
    pub command: Option<String>,
    /// The project's own page.
    pub page: Option<String>,
}

/// As it stands in a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileInstall {
    how: How,
    #[serde(default)]
    packages: Vec<String>,
    #[serde(default)]
    overrides: Vec<String>,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    page: Option<String>,
}

impl FileInstall {
    /// Every package named exactly, or the reason why not.
    pub(crate) fn check(self) -> Result<Install, String> {
        let Self { how, packages, overrides, command, page } = self;
        for package in &packages {
            if !is_exact(how, package) {
                return Err(format!(
                    "install.packages: {package:?} is not one exact version as {how} writes it"
                ));
            }
        }
        if let Some(package) = overrides.iter().find(|it| how != How::Npm || !is_exact(how, it)) {
            return Err(format!("install.overrides: {package:?} is not one exact version as npm writes it"));
        }
        if packages.is_empty() && command.is_none() && page.is_none() {
            return Err("install names no packages, no command and no page".to_owned());
        }
        Ok(Install { how, packages, overrides, command, page })
    }
}

impl Install {
    /// Whether [`Installer`] can put it into the managed folder.
    pub fn is_managed(&self) -> bool {
        matches!(self.how, How::Npm | How::Pip | How::Cargo) && !self.packages.is_empty()
    }

    /// The version that is installed; `None` where the system's packages or a page decide.
    pub fn version(&self) -> Option<&str> {
        if !self.is_managed() {
            return None;
        }
        let separator = if self.how == How::Pip { "==" } else { "@" };
        self.packages.first()?.rsplit_once(separator).map(|(_, version)| version)
    }

    /// What a person does to get the server called `name`: a command, or an address.
    pub fn hint(&self, name: &str) -> String {
        if self.is_managed() {
            return format!("pilcrow adapters install {name}");
        }
        let apt = || {
            let apt = self.how == How::Apt && !self.packages.is_empty();
            apt.then(|| format!("apt-get install {}", self.packages.join(" ")))
        };
        self.command.clone().or_else(apt).or_else(|| self.page.clone()).unwrap_or_default()
    }
}

/// `@scope/name@1.2.3` and the like, and nothing that a package manager could take for an option, an
/// address or a path.
fn is_exact(how: How, package: &str) -> bool {
    let name_of = |name: &str, extra: &str| {
        let first = name.chars().next();
        first.is_some_and(|c| c.is_ascii_alphanumeric())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || extra.contains(c))
    };
    let version_of = |version: &str| {
        version.chars().next().is_some_and(|c| c.is_ascii_digit())
            && version.chars().all(|c| c.is_ascii_alphanumeric() || ".-+".contains(c))
            && version.contains('.')
    };
    match how {
        How::Npm => package.rsplit_once('@').is_some_and(|(name, version)| {
            let plain = match name.strip_prefix('@') {
                Some(scoped) => scoped
                    .split_once('/')
                    .is_some_and(|(scope, name)| name_of(scope, "-_.") && name_of(name, "-_.")),
                None => name_of(name, "-_."),
            };
            plain && version_of(version)
        }),
        How::Pip => package
            .split_once("==")
            .is_some_and(|(name, version)| name_of(name, "-_.") && version_of(version)),
        How::Cargo => {
            package.split_once('@').is_some_and(|(name, version)| name_of(name, "-_") && version_of(version))
        }
        How::Apt => name_of(package, "-+."),
        How::Page => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn install(how: How, packages: &[&str]) -> Result<Install, String> {
        let packages = packages.iter().map(|&package| package.to_owned()).collect();
        let page = Some("https://example.org".into());
        FileInstall { how, packages, overrides: Vec::new(), command: None, page }.check()
    }

    #[test]
    fn a_package_is_one_exact_version_and_nothing_else() {
        for (how, good) in [
            (How::Npm, "pyright@1.1.414"),
            (How::Npm, "@vtsls/language-server@0.3.0"),
            (How::Pip, "ruff==0.17.6"),
            (How::Cargo, "taplo-cli@0.9.3"),
            (How::Apt, "g++-12"),
        ] {
            assert!(install(how, &[good]).is_ok(), "{good}");
        }
        for (how, bad) in [
            (How::Npm, "pyright"),
            (How::Npm, "pyright@latest"),
            (How::Npm, "pyright@^1.2.3"),
            (How::Npm, "--prefix=/@1.2.3"),
            (How::Npm, "git+https://example.org/x@1.2.3"),
            (How::Npm, "../x@1.2.3"),
            (How::Npm, "x@npm:y@1.2.3"),
            (How::Pip, "ruff>=1.0"),
            (How::Pip, "ruff==1.0 --index-url=http://x"),
            (How::Pip, "-r==1.0"),
            (How::Pip, "ruff @ file:///x"),
            (How::Cargo, "--git@1.0.0"),
            (How::Apt, "-o=x"),
            (How::Apt, "./x.deb"),
            (How::Page, "x@1.0.0"),
        ] {
            assert!(install(how, &[bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_stands_in_for_a_package_is_exact_and_of_npm() {
        let check = |how, package: &str, other: &str| {
            let (packages, overrides) = (vec![package.to_owned()], vec![other.to_owned()]);
            FileInstall { how, packages, overrides, command: None, page: None }.check().is_ok()
        };
        assert!(check(How::Npm, "a@1.2.3", "@b/c@0.4.1"));
        assert!(!check(How::Npm, "a@1.2.3", "b@latest") && !check(How::Npm, "a@1.2.3", "b@git+ssh://c"));
        assert!(!check(How::Pip, "a==1.2.3", "b==0.4.1"));
    }

    #[test]
    fn people_are_told_what_to_do() {
        let hint = |how, packages: &[&str]| install(how, packages).unwrap().hint("s");
        assert_eq!(hint(How::Npm, &["a@1.2.3"]), "pilcrow adapters install s");
        assert_eq!(hint(How::Apt, &["a", "b"]), "apt-get install a b");
        assert_eq!(hint(How::Page, &[]), "https://example.org");
        assert_eq!(install(How::Npm, &["@a/b@1.2.3", "c@2.0.0"]).unwrap().version(), Some("1.2.3"));
        assert_eq!(install(How::Apt, &["a"]).unwrap().version(), None);
    }
}
