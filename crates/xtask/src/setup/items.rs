//! The pinned tools of the demo and the tests, as data in `items.toml`. Nothing here installs anything.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::For;

/// All items, each kind in the order of installation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Items {
    pub(crate) python: Vec<PythonItem>,
    pub(crate) source: Vec<SourceItem>,
    pub(crate) npm: Vec<NpmItem>,
    pub(crate) apt: Vec<AptItem>,
    pub(crate) crates: CratesItem,
    pub(crate) debian_sources: DebianSources,
}

/// Sources from Debian, in one directory, checked by their hashes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DebianSources {
    /// Binary packages that contain sources, as `name=version`.
    pub(crate) packages: Vec<String>,
    /// Source packages, as `name=version`.
    pub(crate) sources: Vec<String>,
    /// Lines of `sha256sum` for the files that are used.
    pub(crate) sums: Vec<String>,
    pub(crate) size: String,
}

/// A Python environment with exactly these package versions, dependencies included.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PythonItem {
    pub(crate) name: String,
    #[serde(default, rename = "for")]
    pub(crate) purpose: For,
    /// The version for display; the key also holds all pins.
    pub(crate) version: String,
    pub(crate) packages: Vec<String>,
    #[serde(default)]
    pub(crate) pins: Vec<String>,
    #[serde(default)]
    pub(crate) exes: Vec<String>,
    /// Arguments with which the first program starts once.
    #[serde(default)]
    pub(crate) first_start: Vec<String>,
    pub(crate) size: String,
    pub(crate) lib: Option<String>,
}

/// A source distribution from PyPI, checked by its hash.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SourceItem {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) sha256: String,
}

/// Sources of crates, in one directory, unpacked by `cargo vendor`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CratesItem {
    pub(crate) name: String,
    pub(crate) version: String,
    /// `name@version`.
    pub(crate) crates: Vec<String>,
    pub(crate) size: String,
}

/// Packages from npm, in one directory.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NpmItem {
    pub(crate) name: String,
    #[serde(default, rename = "for")]
    pub(crate) purpose: For,
    version: String,
    pub(crate) packages: Vec<String>,
    #[serde(default)]
    pub(crate) exes: Vec<String>,
    #[serde(default)]
    pub(crate) links: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) scripts: bool,
    #[serde(default)]
    overrides: Vec<String>,
    pub(crate) size: String,
    pub(crate) lib: Option<String>,
}

/// Packages of Debian.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AptItem {
    #[serde(default, rename = "for")]
    pub(crate) purpose: For,
    pub(crate) packages: Vec<String>,
    pub(crate) size: String,
}

pub(crate) static ITEMS: LazyLock<Items> =
    LazyLock::new(|| toml::from_str(include_str!("items.toml")).expect("items.toml is complete"));

/// The Python environment of that name.
pub(crate) fn python(name: &str) -> &'static PythonItem {
    ITEMS.python.iter().find(|item| item.name == name).expect("items.toml has the environment")
}

/// The source distribution of that name.
pub(crate) fn source(name: &str) -> &'static SourceItem {
    ITEMS.source.iter().find(|item| item.name == name).expect("items.toml has the source")
}

impl PythonItem {
    pub(crate) fn key(&self) -> String {
        key(&self.version, self.packages.iter().chain(&self.pins))
    }
}

impl SourceItem {
    pub(crate) fn key(&self) -> String {
        format!("{}-sdist", self.version)
    }

    /// The name of the archive, and of the directory in it.
    pub(crate) fn directory(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }
}

impl CratesItem {
    pub(crate) fn key(&self) -> String {
        key(&self.version, self.crates.iter())
    }
}

impl DebianSources {
    pub(crate) fn key(&self) -> String {
        key("1", self.packages.iter().chain(&self.sources).chain(&self.sums))
    }
}

impl NpmItem {
    pub(crate) fn key(&self) -> String {
        key(&self.version, self.packages.iter().chain(&self.overrides))
    }

    /// The `package.json` of its directory.
    pub(crate) fn manifest(&self) -> String {
        let pairs = self.overrides.iter().filter_map(|pin| pin.rsplit_once('@'));
        let overrides: serde_json::Map<_, _> =
            pairs.map(|(name, version)| (name.to_owned(), version.into())).collect();
        format!("{}\n", serde_json::json!({"private": true, "overrides": overrides}))
    }
}

/// The key of an item that is pinned by a file of the checkout.
pub(crate) fn key_of_text(version: &str, text: &str) -> String {
    format!("{version}-{:08x}", xxhash_rust::xxh3::xxh3_64(text.as_bytes()) as u32)
}

fn key<'a>(version: &str, pins: impl Iterator<Item = &'a String>) -> String {
    key_of_text(version, &pins.map(String::as_str).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_pinned_to_one_version() {
        let python = ITEMS.python.iter().flat_map(|item| item.packages.iter().chain(&item.pins));
        for pin in python.filter(|it| !it.starts_with("--")) {
            assert!(pin.contains("=="), "{pin}");
        }
        let npm = ITEMS.npm.iter().flat_map(|item| &item.packages);
        for package in npm.filter(|it| !it.starts_with("--")) {
            let version = package.rsplit_once('@').expect("a version").1;
            assert!(version.chars().all(|c| c.is_ascii_digit() || c == '.'), "{package}");
        }
    }

    #[test]
    fn a_new_pin_is_a_new_key() {
        let of = |pins: [&str; 2]| key("1", pins.map(str::to_owned).iter());
        assert_ne!(of(["a==1", "b==1"]), of(["a==1", "b==2"]));
    }
}
