//! All definitions that apply: built in, the person's own, the project's where it is trusted.
//!
//! Reads definition files and nothing else. A later source replaces a definition of the same name whole.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::definition::{DefinitionError, Feature, ServerDefinition};

const BUILT_IN: &[(&str, &str)] = &[
    ("basedpyright", include_str!("../../../adapters/servers/basedpyright.toml")),
    ("bash-language-server", include_str!("../../../adapters/servers/bash-language-server.toml")),
    ("clangd", include_str!("../../../adapters/servers/clangd.toml")),
    ("gopls", include_str!("../../../adapters/servers/gopls.toml")),
    ("pyright", include_str!("../../../adapters/servers/pyright.toml")),
    ("ruff", include_str!("../../../adapters/servers/ruff.toml")),
    ("rust-analyzer", include_str!("../../../adapters/servers/rust-analyzer.toml")),
    ("tombi", include_str!("../../../adapters/servers/tombi.toml")),
    ("ty", include_str!("../../../adapters/servers/ty.toml")),
    ("typescript-language-server", include_str!("../../../adapters/servers/typescript-language-server.toml")),
    ("vscode-css-language-server", include_str!("../../../adapters/servers/vscode-css-language-server.toml")),
    (
        "vscode-eslint-language-server",
        include_str!("../../../adapters/servers/vscode-eslint-language-server.toml"),
    ),
    (
        "vscode-html-language-server",
        include_str!("../../../adapters/servers/vscode-html-language-server.toml"),
    ),
    (
        "vscode-json-language-server",
        include_str!("../../../adapters/servers/vscode-json-language-server.toml"),
    ),
    ("vtsls", include_str!("../../../adapters/servers/vtsls.toml")),
    ("yaml-language-server", include_str!("../../../adapters/servers/yaml-language-server.toml")),
];

/// The definitions in force, by name.
#[derive(Debug, Clone, Default)]
pub struct Definitions {
    by_name: BTreeMap<String, Arc<ServerDefinition>>,
}

impl Definitions {
    /// The definitions that come with the program.
    pub fn built_in() -> Self {
        let mut definitions = Self::default();
        for (name, text) in BUILT_IN {
            let origin = format!("built in: {name}");
            let definition =
                ServerDefinition::parse(text, &origin, false).expect("a test reads every one of them");
            definitions.insert(definition);
        }
        definitions
    }

    /// The built-in definitions with those of two folders laid over them. Give the project's folder
    /// only if the project is trusted. A folder that does not exist is empty. Blocking.
    ///
    /// Files that cannot be used are left out and told.
    pub fn load(person: Option<&Path>, project: Option<&Path>) -> (Self, Vec<DefinitionError>) {
        let mut definitions = Self::built_in();
        let mut problems = Vec::new();
        for (folder, from_project) in [(person, false), (project, true)] {
            let Some(folder) = folder else { continue };
            for file in toml_files(folder) {
                let origin = file.display().to_string();
                let read = std::fs::read_to_string(&file)
                    .map_err(|error| DefinitionError { origin: origin.clone(), reason: error.to_string() });
                match read.and_then(|text| ServerDefinition::parse(&text, &origin, from_project)) {
                    Ok(definition) => definitions.insert(definition),
                    Err(problem) => problems.push(problem),
                }
            }
        }
        (definitions, problems)
    }

    /// Adds a definition, or replaces that of the same name.
    pub fn insert(&mut self, definition: ServerDefinition) {
        self.by_name.insert(definition.name.clone(), Arc::new(definition));
    }

    /// No definitions at all, to be filled by [`Definitions::insert`].
    pub fn empty() -> Self {
        Self::default()
    }

    /// All of them, by name.
    pub fn list(&self) -> impl Iterator<Item = &Arc<ServerDefinition>> {
        self.by_name.values()
    }

    /// The one of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<ServerDefinition>> {
        self.by_name.get(name)
    }

    /// Those that speak the language of a file, whatever they are good at.
    pub fn for_path(&self, path: &Path) -> Vec<Arc<ServerDefinition>> {
        self.list().filter(|definition| definition.language_id(path).is_some()).cloned().collect()
    }

    /// Those to be asked for `feature` of a file, best first; servers of one group by rank.
    pub fn for_feature(&self, path: &Path, feature: Feature) -> Vec<Arc<ServerDefinition>> {
        let mut found = self.for_path(path);
        found.retain(|definition| definition.priority(feature) > 0);
        found.sort_by_key(|definition| {
            (std::cmp::Reverse(definition.priority(feature)), definition.rank, definition.name.clone())
        });
        found
    }
}

fn toml_files(folder: &Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<_> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    files
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write files of their own")]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_definition_reads_and_has_the_name_of_its_file() {
        let definitions = Definitions::built_in();
        let names: Vec<&String> = definitions.by_name.keys().collect();
        let expected: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, expected);
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adapters/servers");
        let files: Vec<String> = toml_files(&folder)
            .iter()
            .map(|file| file.file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(files, expected, "a file in adapters/servers is not built in");
    }

    #[test]
    fn each_is_asked_for_what_it_is_good_at() {
        let definitions = Definitions::built_in();
        let best = |path: &str, feature| -> Vec<String> {
            let found = definitions.for_feature(Path::new(path), feature);
            found.iter().map(|definition| definition.name.clone()).collect()
        };
        assert_eq!(best("/a.py", Feature::Rename), ["basedpyright", "pyright"]);
        assert_eq!(best("/a.py", Feature::Format), ["ruff"]);
        assert_eq!(best("/a.py", Feature::Diagnostics), ["basedpyright", "pyright", "ruff"]);
        assert_eq!(best("/a.rs", Feature::Rename), ["rust-analyzer"]);
        assert!(best("/a.txt", Feature::Rename).is_empty());
    }

    #[test]
    fn a_persons_file_replaces_and_a_bad_one_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let text = BUILT_IN[3].1.replace("candidates = [\"ruff\"]", "candidates = [\"my-ruff\"]");
        std::fs::write(folder.path().join("ruff.toml"), text).unwrap();
        std::fs::write(folder.path().join("bad.toml"), "name = 1").unwrap();
        let (definitions, problems) = Definitions::load(Some(folder.path()), None);
        assert_eq!(definitions.get("ruff").unwrap().command.candidates, ["my-ruff"]);
        assert!(!definitions.get("ruff").unwrap().from_project);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].origin.ends_with("bad.toml"));
        let (definitions, _) = Definitions::load(None, Some(folder.path()));
        assert!(definitions.get("ruff").unwrap().from_project);
    }
}
