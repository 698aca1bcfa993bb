//! Installation of servers and debug adapters into the managed directory.
//!
//! Only a user's command installs, never a model. Invariants: a package is one exact version and nothing else
//! (no option, address or path); a directory without a completion mark counts as absent; a definition of a
//! project installs nothing.

mod lock;
mod plan;
mod run;

use serde::{Deserialize, Deserializer};

pub use lock::{InstallLock, Locked};
pub use plan::{InstallPlan, PlanProblem, Step};
pub use run::{InstallError, Installed, Installer, Progress};

/// Completion mark of a directory; the last file to be written.
pub(crate) const COMPLETE: &str = ".complete";

/// The package manager that installs a program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// npm installs into the managed directory.
    Npm,
    /// pip installs into a virtual environment in the managed directory.
    Pip,
    /// Cargo installs into the managed directory.
    Cargo,
    /// Debian's package manager installs for the whole system.
    Apt,
    /// The user installs, as a page describes.
    #[default]
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

/// The packages and the manager of an installation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Install {
    pub how: How,
    /// Packages: `name@1.2.3` for npm and Cargo, `name==1.2.3` for pip, names for apt.
    #[serde(default)]
    pub packages: Vec<String>,
    /// Exact versions that replace dependencies from outside npm's registry.
    #[serde(default)]
    pub overrides: Vec<String>,
    /// Arguments of a first start, for programs from pip.
    ///
    /// The program completes its own installation, which it cannot do in the sandbox.
    #[serde(default)]
    pub first_start: Vec<String>,
    /// A command for the user to run.
    pub command: Option<String>,
    /// The project's own page.
    pub page: Option<String>,
}

/// Reads a table `install` in which every package is one exact version.
pub(crate) fn exact<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Install, D::Error> {
    let install = Install::deserialize(deserializer)?;
    install.check().map_err(serde::de::Error::custom)?;
    Ok(install)
}

impl Install {
    fn check(&self) -> Result<(), String> {
        let Self { how, packages, overrides, first_start, command, page } = self;
        if let Some(package) = packages.iter().find(|package| !is_exact(*how, package)) {
            return Err(format!("install.packages: {package:?} is not one exact {how} version; pin one"));
        }
        if !first_start.is_empty() && *how != How::Pip {
            return Err("install.first_start is for programs from pip; remove it".to_owned());
        }
        if let Some(package) = overrides.iter().find(|it| *how != How::Npm || !is_exact(*how, it)) {
            return Err(format!("install.overrides: {package:?} is not one exact npm version; pin one"));
        }
        if packages.is_empty() && command.is_none() && page.is_none() {
            return Err("install names no packages, command or page; add one of them".to_owned());
        }
        Ok(())
    }

    /// Whether [`Installer`] can install it into the managed directory.
    pub(crate) fn is_managed(&self) -> bool {
        matches!(self.how, How::Npm | How::Pip | How::Cargo) && !self.packages.is_empty()
    }

    /// The installed version; `None` if the system's packages or a page decide.
    pub fn version(&self) -> Option<&str> {
        if !self.is_managed() {
            return None;
        }
        let separator = if self.how == How::Pip { "==" } else { "@" };
        self.packages.first()?.rsplit_once(separator).map(|(_, version)| version)
    }

    /// Returns a command or an address for the user who installs `name`.
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

/// Whether a package is `@scope/name@1.2.3` or similar.
///
/// A package manager can then read it neither as an option nor as an address or a path.
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
        let install =
            Install { how, packages, overrides: Vec::new(), first_start: Vec::new(), command: None, page };
        install.check().map(|()| install)
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
    fn overrides_are_exact_and_for_npm_only() {
        let check = |how, package: &str, other: &str| {
            let (packages, overrides) = (vec![package.to_owned()], vec![other.to_owned()]);
            Install { how, packages, overrides, first_start: Vec::new(), command: None, page: None }
                .check()
                .is_ok()
        };
        assert!(check(How::Npm, "a@1.2.3", "@b/c@0.4.1"));
        assert!(!check(How::Npm, "a@1.2.3", "b@latest") && !check(How::Npm, "a@1.2.3", "b@git+ssh://c"));
        assert!(!check(How::Pip, "a==1.2.3", "b==0.4.1"));
    }

    #[test]
    fn hints_name_a_command_or_an_address() {
        let hint = |how, packages: &[&str]| install(how, packages).unwrap().hint("s");
        assert_eq!(hint(How::Npm, &["a@1.2.3"]), "pilcrow adapters install s");
        assert_eq!(hint(How::Apt, &["a", "b"]), "apt-get install a b");
        assert_eq!(hint(How::Page, &[]), "https://example.org");
        assert_eq!(install(How::Npm, &["@a/b@1.2.3", "c@2.0.0"]).unwrap().version(), Some("1.2.3"));
        assert_eq!(install(How::Apt, &["a"]).unwrap().version(), None);
    }
}
