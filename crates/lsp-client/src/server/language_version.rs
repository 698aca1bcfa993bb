//! Packages that have another version of the language installed than the server uses.
//!
//! A server that serves all packages of a workspace uses one version; a package's own compiler may find other errors.

use std::collections::HashSet;

use adapters::LanguageVersionRule;
use parking_lot::Mutex;
use paths::AbsPath;
use serde_json::Value;

/// The server's version, and the directories that were compared with it.
pub(crate) struct LanguageVersion {
    rule: Option<LanguageVersionRule>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    used: Option<String>,
    compared: HashSet<AbsPath>,
}

/// A package with another major version.
pub(crate) struct OtherVersion {
    pub used: String,
    pub installed: String,
    pub package: AbsPath,
}

impl LanguageVersion {
    pub(crate) fn new(rule: Option<LanguageVersionRule>) -> Self {
        Self { rule, state: Mutex::default() }
    }

    /// Handles a notification of the server.
    pub(crate) fn notification(&self, method: &str, params: &Value) {
        let rule = self.rule.as_ref().filter(|rule| rule.notification == method);
        if let Some(used) = rule.and_then(|rule| params[&rule.field].as_str()) {
            self.state.lock().used = Some(used.to_owned());
        }
    }

    /// The package of a file if it has another major version.
    ///
    /// Once for each package. Blocks briefly.
    pub(crate) fn other(&self, path: &AbsPath, top: &AbsPath) -> Option<OtherVersion> {
        let rule = self.rule.as_ref()?;
        let directory = path.parent()?;
        let mut state = self.state.lock();
        let used = state.used.clone()?;
        if !state.compared.insert(directory.clone()) {
            return None;
        }
        let directories = directory.as_path().ancestors().take_while(|it| it.starts_with(top.as_path()));
        let (package, text) = directories
            .filter_map(|it| Some((it, paths::read_file(it.join(&rule.manifest), paths::MAX_SETTINGS).ok()?)))
            .next()?;
        let manifest: Value = serde_json::from_slice(&text).ok()?;
        let installed = manifest["version"].as_str()?.to_owned();
        let major = |version: &str| version.split('.').next().map(str::to_owned);
        let package = AbsPath::new(package)?;
        let is_first = package == directory || state.compared.insert(package.clone());
        (major(&used) != major(&installed) && is_first).then_some(OtherVersion { used, installed, package })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test makes the packages")]
    fn another_major_version_is_noted_once_for_each_package() {
        let directory = tempfile::tempdir().unwrap();
        let top = AbsPath::new(directory.path()).unwrap();
        let manifest = "node_modules/typescript/package.json";
        for (package, version) in [(".", "5.9.3"), ("old", "4.9.5"), ("same", "5.0.0")] {
            let path = directory.path().join(package).join(manifest);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, json!({"version": version}).to_string()).unwrap();
        }
        let rule = LanguageVersionRule {
            notification: "$/version".into(),
            field: "version".into(),
            manifest: manifest.into(),
        };
        let versions = LanguageVersion::new(Some(rule));
        let other = |file: &str| {
            versions
                .other(&top.join(file), &top)
                .map(|it| format!("{} {}", it.package.file_name(), it.installed))
        };
        assert_eq!(other("old/a.ts"), None, "the server has not reported its version");
        versions.notification("$/version", &json!({"version": "5.9.3"}));
        assert_eq!(other("old/src/a.ts").as_deref(), Some("old 4.9.5"));
        for file in ["old/src/b.ts", "old/a.ts", "same/a.ts", "plain/a.ts", "a.ts"] {
            assert_eq!(other(file), None, "{file}");
        }
    }
}
