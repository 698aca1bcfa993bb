//! All definitions that apply: built in, the person's own, the project's where it is trusted.
//!
//! Reads definition files and nothing else. A later source replaces a definition of the same name whole.
//! What must stay true: a built-in definition that no file of the project needs is not even parsed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::definition::{DefinitionError, Feature, ServerDefinition};

/// A definition that comes with the program. It is read when it is first wanted, once in a process: reading
/// all of them would cost each start more than everything else that it does.
struct BuiltIn {
    name: &'static str,
    text: &'static str,
    patterns: &'static [&'static str],
    read: OnceLock<Arc<ServerDefinition>>,
}

// `static BUILT_IN: [BuiltIn; …]`, by name.
include!(concat!(env!("OUT_DIR"), "/built_in.rs"));

impl BuiltIn {
    const fn new(name: &'static str, text: &'static str, patterns: &'static [&'static str]) -> Self {
        Self { name, text, patterns, read: OnceLock::new() }
    }

    fn read(&self) -> &Arc<ServerDefinition> {
        self.read.get_or_init(|| {
            let origin = format!("built in: {}", self.name);
            let definition = ServerDefinition::parse(self.text, &origin, false);
            Arc::new(definition.expect("a test reads every one of them"))
        })
    }

    /// `false`: it does not speak the language of `path`. Otherwise it may.
    fn may_speak(&self, path: &Path) -> bool {
        self.patterns.iter().any(|pattern| may_match(pattern, path))
    }
}

/// `false`: the glob matches neither the path nor its last part. Otherwise it may: only what stands
/// before its first special character and after its last one is compared.
fn may_match(pattern: &str, path: &Path) -> bool {
    const SPECIAL: &[char] = &['*', '?', '[', ']', '{', '}', '!', '\\'];
    let (Some(path), Some(name)) = (path.to_str(), path.file_name().and_then(|name| name.to_str())) else {
        return true;
    };
    let Some(first) = pattern.find(SPECIAL) else { return pattern == path || pattern == name };
    let last = pattern.rfind(SPECIAL).expect("there is one, so a last one") + 1;
    // `**/x` matches `x` as well.
    let (start, end) = (&pattern[..first], pattern[last..].trim_start_matches('/'));
    path.ends_with(end) && (name.starts_with(start) || path.starts_with(start))
}

/// The definitions in force, by name.
#[derive(Clone, Default)]
pub struct Definitions {
    by_name: BTreeMap<Cow<'static, str>, Entry>,
    /// Files that could not be used.
    refused: Vec<DefinitionError>,
}

#[derive(Clone)]
enum Entry {
    BuiltIn(&'static BuiltIn),
    Own(Arc<ServerDefinition>),
}

impl Entry {
    fn definition(&self) -> &Arc<ServerDefinition> {
        match self {
            Self::BuiltIn(built_in) => built_in.read(),
            Self::Own(definition) => definition,
        }
    }

    fn may_speak(&self, path: &Path) -> bool {
        match self {
            Self::BuiltIn(built_in) => built_in.may_speak(path),
            Self::Own(_) => true,
        }
    }
}

impl std::fmt::Debug for Definitions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.by_name.keys()).finish()
    }
}

impl Definitions {
    /// The definitions that come with the program.
    pub fn built_in() -> Self {
        let entries = BUILT_IN.iter().map(|it| (Cow::Borrowed(it.name), Entry::BuiltIn(it)));
        Self { by_name: entries.collect(), refused: Vec::new() }
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
                let parsed = read.and_then(|text| ServerDefinition::parse(&text, &origin, from_project));
                match parsed.and_then(|it| is_named(&file, &it.name).map(|()| it)) {
                    Ok(definition) => definitions.insert(definition),
                    Err(problem) => problems.push(problem),
                }
            }
        }
        definitions.refused.clone_from(&problems);
        (definitions, problems)
    }

    /// A clause about the files that could not be used, one of which may be for the language in question;
    /// empty where there are none.
    pub(crate) fn refused(&self) -> String {
        let each: Vec<String> = self.refused.iter().map(|it| it.to_string().trim_end().to_owned()).collect();
        match each.is_empty() {
            true => String::new(),
            false => format!("; refused, so not asked: {}", each.join("; ")),
        }
    }

    /// Adds a definition, or replaces that of the same name.
    pub fn insert(&mut self, definition: ServerDefinition) {
        let name = Cow::Owned(definition.name.clone());
        self.by_name.insert(name, Entry::Own(Arc::new(definition)));
    }

    /// No definitions at all, to be filled by [`Definitions::insert`].
    pub fn empty() -> Self {
        Self::default()
    }

    /// All of them, by name. Reads every one.
    pub fn list(&self) -> impl Iterator<Item = &Arc<ServerDefinition>> {
        self.by_name.values().map(Entry::definition)
    }

    /// Whether any came with the project.
    pub fn any_from_project(&self) -> bool {
        self.by_name.values().any(|entry| matches!(entry, Entry::Own(it) if it.from_project))
    }

    /// The names of those that the other has otherwise, or has not, or has alone. Those built in are read by nobody for it.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let own = |of: &Self, name: &str| match of.by_name.get(name) {
            Some(Entry::Own(it)) => Some(it.written.clone()),
            _ => None,
        };
        let names: std::collections::BTreeSet<_> = self.by_name.keys().chain(other.by_name.keys()).collect();
        names
            .into_iter()
            .filter(|name| own(self, name) != own(other, name))
            .map(ToString::to_string)
            .collect()
    }

    /// The others, but these very ones where they are not among `differing`.
    pub(crate) fn with(&self, mut others: Self, differing: &[String]) -> Self {
        for (name, entry) in &mut others.by_name {
            if let (Some(same), false) = (self.by_name.get(name), differing.iter().any(|it| it == name)) {
                *entry = same.clone();
            }
        }
        others
    }

    /// The one of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<ServerDefinition>> {
        self.by_name.get(name).map(Entry::definition)
    }

    /// Those that speak the language of a file, whatever they are good at.
    pub fn for_path(&self, path: &Path) -> Vec<Arc<ServerDefinition>> {
        let likely = self.by_name.values().filter(|entry| entry.may_speak(path)).map(Entry::definition);
        likely.filter(|definition| definition.language_id(path).is_some()).cloned().collect()
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

/// The error when a definition is not named as its file is: it would replace another than its reader thinks.
fn is_named(file: &Path, name: &str) -> Result<(), DefinitionError> {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    if stem == name {
        return Ok(());
    }
    let reason = format!(
        "its name is {name:?}, which is to be the file's: rename the file to {name}.toml, or write name = {stem:?}"
    );
    Err(DefinitionError { origin: file.display().to_string(), reason })
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
    fn every_built_in_definition_is_in_the_table_with_its_name_and_patterns() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adapters/servers");
        let files: Vec<String> = toml_files(&folder)
            .iter()
            .map(|file| file.file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(files, BUILT_IN.iter().map(|it| it.name).collect::<Vec<_>>());
        for built_in in &BUILT_IN {
            let definition = built_in.read();
            let patterns: Vec<&String> = definition.languages.iter().flat_map(|it| &it.patterns).collect();
            assert_eq!(patterns, built_in.patterns.iter().collect::<Vec<_>>(), "{}", built_in.name);
            assert_eq!(definition.name, built_in.name);
        }
    }

    /// What is looked at first never hides a definition.
    #[test]
    fn a_definition_is_found_for_all_that_its_patterns_match() {
        let mut paths = vec!["Dockerfile".to_owned(), "/a/templates/b.yaml".to_owned(), "/x/none".to_owned()];
        for pattern in BUILT_IN.iter().flat_map(|it| it.patterns) {
            for word in ["", "a", "a.b"] {
                let name = pattern.replace("**/", "").replace('*', word);
                paths.extend([format!("/r/{name}"), format!("/r/s/t/{name}"), format!("/r/{name}x"), name]);
            }
        }
        let definitions = Definitions::built_in();
        let mut found = 0;
        for path in paths.iter().map(Path::new) {
            let all = definitions.list().filter(|definition| definition.language_id(path).is_some());
            let all: Vec<&str> = all.map(|definition| definition.name.as_str()).collect();
            let quick = definitions.for_path(path);
            assert_eq!(quick.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), all, "{path:?}");
            found += all.len();
        }
        assert!(found > 500, "{found}");
    }

    #[test]
    fn what_stands_around_special_characters_is_compared() {
        let may = |pattern: &str, path: &str| may_match(pattern, Path::new(path));
        assert!(may("*.py", "/a/b.py") && may("*.py", "/a/.py") && !may("*.py", "/a/b.pyi"));
        assert!(may("*.{c,h}", "/a/b.c") && may("a[!b]*", "/x/ac") && !may("a?c", "/x/bbc"));
        assert!(may("go.mod", "/a/go.mod") && !may("go.mod", "/a/xgo.mod"));
        assert!(may("/r/x.*", "/r/x.y") && may("**/x", "x") && may("**/x", "/r/x"));
    }

    const SCHEMA: &str = include_str!("../../../docs/formats/server-definition.schema.json");

    #[test]
    fn every_built_in_definition_follows_the_schema() {
        let schema: serde_json::Value = serde_json::from_str(SCHEMA).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        for BuiltIn { name, text, .. } in &BUILT_IN {
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
            ("diagnostics.clean.nothing", "/properties/diagnostics/properties/clean"),
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
        std::fs::remove_file(folder.path().join("bad.toml")).unwrap();
        std::fs::rename(folder.path().join("ruff.toml"), folder.path().join("mine.toml")).unwrap();
        let (definitions, problems) = Definitions::load(Some(folder.path()), None);
        assert_eq!(definitions.get("ruff").unwrap().command.candidates, ["ruff"]);
        let said = problems[0].to_string();
        assert!(said.contains("rename the file to ruff.toml, or write name = \"mine\""), "{said}");
        std::fs::rename(folder.path().join("mine.toml"), folder.path().join("ruff.toml")).unwrap();
        let (definitions, _) = Definitions::load(None, Some(folder.path()));
        assert!(definitions.get("ruff").unwrap().from_project);
    }
}
