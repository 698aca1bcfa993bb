//! All definitions that apply: built in, the person's own, the project's where it is trusted.
//!
//! Reads definition files and nothing else. A later source replaces a definition of the same name whole.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::definition::{DefinitionError, Feature, ServerDefinition};

const BUILT_IN: &[(&str, &str)] = &[
    ("angular", include_str!("../../../adapters/servers/angular.toml")),
    ("ansible-language-server", include_str!("../../../adapters/servers/ansible-language-server.toml")),
    ("asm-lsp", include_str!("../../../adapters/servers/asm-lsp.toml")),
    ("astro", include_str!("../../../adapters/servers/astro.toml")),
    ("basedpyright", include_str!("../../../adapters/servers/basedpyright.toml")),
    ("bash-language-server", include_str!("../../../adapters/servers/bash-language-server.toml")),
    ("biome", include_str!("../../../adapters/servers/biome.toml")),
    ("buf", include_str!("../../../adapters/servers/buf.toml")),
    ("clangd", include_str!("../../../adapters/servers/clangd.toml")),
    ("clojure-lsp", include_str!("../../../adapters/servers/clojure-lsp.toml")),
    ("cmake-language-server", include_str!("../../../adapters/servers/cmake-language-server.toml")),
    ("crystalline", include_str!("../../../adapters/servers/crystalline.toml")),
    ("csharp-ls", include_str!("../../../adapters/servers/csharp-ls.toml")),
    ("dart", include_str!("../../../adapters/servers/dart.toml")),
    ("deno", include_str!("../../../adapters/servers/deno.toml")),
    ("dockerfile-language-server", include_str!("../../../adapters/servers/dockerfile-language-server.toml")),
    ("elixir-ls", include_str!("../../../adapters/servers/elixir-ls.toml")),
    ("elm-language-server", include_str!("../../../adapters/servers/elm-language-server.toml")),
    ("erlang-language-platform", include_str!("../../../adapters/servers/erlang-language-platform.toml")),
    ("erlang-ls", include_str!("../../../adapters/servers/erlang-ls.toml")),
    ("expert", include_str!("../../../adapters/servers/expert.toml")),
    ("fish-lsp", include_str!("../../../adapters/servers/fish-lsp.toml")),
    ("fortls", include_str!("../../../adapters/servers/fortls.toml")),
    ("fsautocomplete", include_str!("../../../adapters/servers/fsautocomplete.toml")),
    ("gleam", include_str!("../../../adapters/servers/gleam.toml")),
    ("gopls", include_str!("../../../adapters/servers/gopls.toml")),
    ("graphql", include_str!("../../../adapters/servers/graphql.toml")),
    ("groovy-language-server", include_str!("../../../adapters/servers/groovy-language-server.toml")),
    ("helm-ls", include_str!("../../../adapters/servers/helm-ls.toml")),
    ("hls", include_str!("../../../adapters/servers/hls.toml")),
    ("intelephense", include_str!("../../../adapters/servers/intelephense.toml")),
    ("jdtls", include_str!("../../../adapters/servers/jdtls.toml")),
    ("jedi-language-server", include_str!("../../../adapters/servers/jedi-language-server.toml")),
    ("jsonnet-language-server", include_str!("../../../adapters/servers/jsonnet-language-server.toml")),
    ("julials", include_str!("../../../adapters/servers/julials.toml")),
    ("just-lsp", include_str!("../../../adapters/servers/just-lsp.toml")),
    ("kotlin-language-server", include_str!("../../../adapters/servers/kotlin-language-server.toml")),
    ("kotlin-lsp", include_str!("../../../adapters/servers/kotlin-lsp.toml")),
    ("lemminx", include_str!("../../../adapters/servers/lemminx.toml")),
    ("lua-language-server", include_str!("../../../adapters/servers/lua-language-server.toml")),
    ("marksman", include_str!("../../../adapters/servers/marksman.toml")),
    ("mesonlsp", include_str!("../../../adapters/servers/mesonlsp.toml")),
    ("metals", include_str!("../../../adapters/servers/metals.toml")),
    ("neocmakelsp", include_str!("../../../adapters/servers/neocmakelsp.toml")),
    ("nil", include_str!("../../../adapters/servers/nil.toml")),
    ("nimlangserver", include_str!("../../../adapters/servers/nimlangserver.toml")),
    ("nixd", include_str!("../../../adapters/servers/nixd.toml")),
    ("nushell", include_str!("../../../adapters/servers/nushell.toml")),
    ("ocamllsp", include_str!("../../../adapters/servers/ocamllsp.toml")),
    ("ols", include_str!("../../../adapters/servers/ols.toml")),
    ("omnisharp", include_str!("../../../adapters/servers/omnisharp.toml")),
    ("oxlint", include_str!("../../../adapters/servers/oxlint.toml")),
    ("perlnavigator", include_str!("../../../adapters/servers/perlnavigator.toml")),
    ("phpactor", include_str!("../../../adapters/servers/phpactor.toml")),
    ("prisma", include_str!("../../../adapters/servers/prisma.toml")),
    ("purescript-language-server", include_str!("../../../adapters/servers/purescript-language-server.toml")),
    ("pylsp", include_str!("../../../adapters/servers/pylsp.toml")),
    ("pyright", include_str!("../../../adapters/servers/pyright.toml")),
    ("r-languageserver", include_str!("../../../adapters/servers/r-languageserver.toml")),
    ("racket-langserver", include_str!("../../../adapters/servers/racket-langserver.toml")),
    ("regal", include_str!("../../../adapters/servers/regal.toml")),
    ("rescript-language-server", include_str!("../../../adapters/servers/rescript-language-server.toml")),
    ("rubocop", include_str!("../../../adapters/servers/rubocop.toml")),
    ("ruby-lsp", include_str!("../../../adapters/servers/ruby-lsp.toml")),
    ("ruff", include_str!("../../../adapters/servers/ruff.toml")),
    ("rust-analyzer", include_str!("../../../adapters/servers/rust-analyzer.toml")),
    ("serve-d", include_str!("../../../adapters/servers/serve-d.toml")),
    ("slint-lsp", include_str!("../../../adapters/servers/slint-lsp.toml")),
    ("solargraph", include_str!("../../../adapters/servers/solargraph.toml")),
    ("solidity", include_str!("../../../adapters/servers/solidity.toml")),
    ("sourcekit-lsp", include_str!("../../../adapters/servers/sourcekit-lsp.toml")),
    ("starpls", include_str!("../../../adapters/servers/starpls.toml")),
    ("svelte", include_str!("../../../adapters/servers/svelte.toml")),
    ("tailwindcss", include_str!("../../../adapters/servers/tailwindcss.toml")),
    ("taplo", include_str!("../../../adapters/servers/taplo.toml")),
    ("terraform-ls", include_str!("../../../adapters/servers/terraform-ls.toml")),
    ("texlab", include_str!("../../../adapters/servers/texlab.toml")),
    ("tinymist", include_str!("../../../adapters/servers/tinymist.toml")),
    ("tlapm", include_str!("../../../adapters/servers/tlapm.toml")),
    ("tombi", include_str!("../../../adapters/servers/tombi.toml")),
    ("ty", include_str!("../../../adapters/servers/ty.toml")),
    ("typescript-language-server", include_str!("../../../adapters/servers/typescript-language-server.toml")),
    ("typescript-native", include_str!("../../../adapters/servers/typescript-native.toml")),
    ("v-analyzer", include_str!("../../../adapters/servers/v-analyzer.toml")),
    ("verible", include_str!("../../../adapters/servers/verible.toml")),
    ("vimls", include_str!("../../../adapters/servers/vimls.toml")),
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
    ("vue", include_str!("../../../adapters/servers/vue.toml")),
    ("yaml-language-server", include_str!("../../../adapters/servers/yaml-language-server.toml")),
    ("zls", include_str!("../../../adapters/servers/zls.toml")),
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

    const SCHEMA: &str = include_str!("../../../docs/formats/server-definition.schema.json");

    #[test]
    fn every_built_in_definition_follows_the_schema() {
        let schema: serde_json::Value = serde_json::from_str(SCHEMA).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        for (name, text) in BUILT_IN {
            let value: toml::Table = toml::from_str(text).unwrap();
            let value = serde_json::to_value(value).unwrap();
            let errors: Vec<String> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
            assert_eq!(errors, Vec::<String>::new(), "{name}");
            // A definition that was never tried names a page; one that was tried says how to get it.
            assert!(value["verified"].is_boolean() || value["install"]["packages"].is_array(), "{name}");
        }
        let wrong = serde_json::json!({"name": "x", "languages": [], "nmae": 1});
        assert!(validator.iter_errors(&wrong).count() >= 3);
    }

    /// The schema and the reader know the same keys: asked for a key that is none, the reader lists them.
    #[test]
    fn the_schema_has_the_keys_that_are_read() {
        let schema: serde_json::Value = serde_json::from_str(SCHEMA).unwrap();
        let keys = |pointer: &str| -> Vec<String> {
            let found = schema.pointer(&format!("{pointer}/properties")).unwrap().as_object().unwrap();
            let mut keys: Vec<String> = found.keys().cloned().collect();
            keys.sort();
            keys
        };
        let small = "name = \"s\"\nlanguages = []\ncommand.candidates = [\"s\"]\ninstall.how = \"page\"\n";
        let read = |key: &str| -> Vec<String> {
            let text = format!("{key} = 1\n{small}");
            let error = ServerDefinition::parse(&text, "s", false).unwrap_err().to_string();
            let (_, listed) =
                error.split_once("expected one of ").unwrap_or_else(|| panic!("{key}: {error}"));
            let mut listed: Vec<String> = listed.split('`').skip(1).step_by(2).map(str::to_owned).collect();
            listed.sort();
            listed
        };
        for (key, pointer) in [
            ("nothing", ""),
            ("root.nothing", "/properties/root"),
            ("ready.nothing", "/properties/ready"),
            ("diagnostics.nothing", "/properties/diagnostics"),
            ("features.nothing", "/properties/features"),
            ("needs.nothing", "/properties/needs"),
            ("command.nothing", "/properties/command"),
            ("install.nothing", "/properties/install"),
        ] {
            assert_eq!(read(key), keys(pointer), "{key}");
        }
    }

    #[test]
    fn each_is_asked_for_what_it_is_good_at() {
        let definitions = Definitions::built_in();
        let best = |path: &str, feature| -> Vec<String> {
            let found = definitions.for_feature(Path::new(path), feature);
            found.iter().map(|definition| definition.name.clone()).collect()
        };
        assert_eq!(best("/a.py", Feature::Rename)[..3], ["basedpyright", "pyright", "ty"]);
        assert_eq!(best("/a.py", Feature::Format)[0], "ruff");
        assert_eq!(best("/a.py", Feature::Diagnostics)[..3], ["basedpyright", "pyright", "ruff"]);
        assert_eq!(best("/a.rs", Feature::Rename), ["rust-analyzer"]);
        assert!(best("/a.txt", Feature::Rename).is_empty());
    }

    #[test]
    fn a_persons_file_replaces_and_a_bad_one_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let text = include_str!("../../../adapters/servers/ruff.toml")
            .replace("candidates = [\"ruff\"]", "candidates = [\"my-ruff\"]");
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
