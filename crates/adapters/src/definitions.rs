//! The definitions in force: built in, the user's own, and a trusted project's.
//!
//! Reads only definition files. A later source replaces a whole definition of the same name. Invariants: a
//! built-in definition that no file of the project needs is not parsed.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::format::DefinitionError;
use crate::install::Install;
use crate::{DebuggerDefinition, ServerDefinition, Verified};

/// A type that a definition file describes.
pub trait Parse: Sized + Send + Sync + 'static {
    /// Parses a definition file. `origin` names the file in errors.
    ///
    /// # Errors
    /// [`DefinitionError`] for a newer format, an unknown key, a bad glob, or no candidate to start.
    fn parse(text: &str, origin: &str, from_project: bool) -> Result<Self, DefinitionError>;
}

/// A definition of a language server or a debug adapter.
pub trait Definition: Parse {
    /// Name of the directory below `adapters/` with these definitions.
    const DIRECTORY: &'static str;

    /// Returns the properties that all kinds of definitions have.
    fn summary(&self) -> Summary<'_>;

    /// Whether the program works on the file, judged by its name.
    fn covers(&self, path: &Path) -> bool;

    /// Returns the definitions embedded in the executable, by name.
    #[doc(hidden)]
    fn built_in() -> &'static [BuiltIn<Self>];

    /// Returns the text of the definition file.
    #[doc(hidden)]
    fn source(&self) -> &str;
}

/// Properties common to all kinds of definitions.
#[derive(Debug, Clone, Copy)]
pub struct Summary<'a> {
    /// Name that is unique among its kind; the file's name without `.toml`.
    pub name: &'a str,
    /// Description for users in one line.
    pub about: &'a str,
    /// Name of the group; its definitions are alternatives.
    pub group: Option<&'a str>,
    /// Order among alternatives, lowest first.
    pub rank: u32,
    pub install: &'a Install,
    /// The programs of which one must be installed, in order of preference.
    pub programs: &'a [String],
    pub verified: Option<&'a Verified>,
    pub from_project: bool,
}

/// A definition embedded in the executable.
///
/// The first use in a process parses it: parsing all definitions would take longer than the rest of the start.
pub struct BuiltIn<D> {
    name: &'static str,
    text: &'static str,
    patterns: &'static [&'static str],
    parsed: OnceLock<Arc<D>>,
}

impl<D: Parse> BuiltIn<D> {
    pub(crate) const fn new(
        name: &'static str,
        text: &'static str,
        patterns: &'static [&'static str],
    ) -> Self {
        Self { name, text, patterns, parsed: OnceLock::new() }
    }

    pub(crate) fn get(&self) -> &Arc<D> {
        self.parsed.get_or_init(|| {
            let origin = format!("built in: {}", self.name);
            let definition = D::parse(self.text, &origin, false);
            Arc::new(definition.expect("a test parses every built-in definition"))
        })
    }

    /// Whether the definition may cover `path`: `false` is certain, without parsing.
    fn may_cover(&self, path: &Path) -> bool {
        self.patterns.iter().any(|pattern| may_match(pattern, path))
    }
}

/// Whether a glob may match a path or its last component; `false` is certain.
///
/// Compares the literal text before the first special character and after the last one.
fn may_match(pattern: &str, path: &Path) -> bool {
    const SPECIAL: &[char] = &['*', '?', '[', ']', '{', '}', '!', '\\'];
    let (Some(path), Some(name)) = (path.to_str(), path.file_name().and_then(|name| name.to_str())) else {
        return true;
    };
    let Some(first) = pattern.find(SPECIAL) else { return pattern == path || pattern == name };
    let last = pattern.rfind(SPECIAL).expect("a first special character implies a last one") + 1;
    // `**/x` matches `x` as well.
    let (start, end) = (&pattern[..first], pattern[last..].trim_start_matches('/'));
    path.ends_with(end) && (name.starts_with(start) || path.starts_with(start))
}

/// The definitions of one kind that are in force, by name.
pub struct Definitions<D: Definition> {
    by_name: BTreeMap<Cow<'static, str>, Entry<D>>,
    refused: Vec<DefinitionError>,
}

pub type ServerDefinitions = Definitions<ServerDefinition>;
pub type DebuggerDefinitions = Definitions<DebuggerDefinition>;

enum Entry<D: Definition> {
    BuiltIn(&'static BuiltIn<D>),
    Loaded(Arc<D>),
}

impl<D: Definition> Clone for Entry<D> {
    fn clone(&self) -> Self {
        match self {
            Self::BuiltIn(built_in) => Self::BuiltIn(built_in),
            Self::Loaded(definition) => Self::Loaded(Arc::clone(definition)),
        }
    }
}

impl<D: Definition> Entry<D> {
    fn definition(&self) -> &Arc<D> {
        match self {
            Self::BuiltIn(built_in) => built_in.get(),
            Self::Loaded(definition) => definition,
        }
    }

    fn may_cover(&self, path: &Path) -> bool {
        match self {
            Self::BuiltIn(built_in) => built_in.may_cover(path),
            Self::Loaded(_) => true,
        }
    }
}

impl<D: Definition> Default for Definitions<D> {
    fn default() -> Self {
        Self { by_name: BTreeMap::new(), refused: Vec::new() }
    }
}

impl<D: Definition> Clone for Definitions<D> {
    fn clone(&self) -> Self {
        Self { by_name: self.by_name.clone(), refused: self.refused.clone() }
    }
}

impl<D: Definition> std::fmt::Debug for Definitions<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.by_name.keys()).finish()
    }
}

impl<D: Definition> Definitions<D> {
    /// The definitions embedded in the executable.
    pub fn built_in() -> Self {
        let entries = D::built_in().iter().map(|it| (Cow::Borrowed(it.name), Entry::BuiltIn(it)));
        Self { by_name: entries.collect(), refused: Vec::new() }
    }

    /// Loads the built-in definitions, overridden by the user's and the project's.
    ///
    /// The user's are in the configuration directory, the project's in `.pilcrow`; the project's win.
    ///
    /// Pass the project's root only if the project is trusted. A directory that does not exist is empty.
    /// [`Self::refused`] lists the files that cannot be used. Blocks.
    pub fn load(config: &Path, project: Option<&Path>) -> Self {
        let mut definitions = Self::built_in();
        let project = project.map(|root| root.join(".pilcrow"));
        for (base, from_project) in [(Some(config), false), (project.as_deref(), true)] {
            let files = base.map(|base| toml_files(&base.join("adapters").join(D::DIRECTORY)));
            for file in files.unwrap_or_default() {
                match read::<D>(&file, from_project) {
                    Ok(definition) => definitions.insert(definition),
                    Err(error) => definitions.refused.push(error),
                }
            }
        }
        definitions
    }

    /// The definition files that [`Self::load`] could not use.
    pub fn refused(&self) -> &[DefinitionError] {
        &self.refused
    }

    /// Adds a definition, or replaces the one of the same name.
    pub fn insert(&mut self, definition: D) {
        let name = Cow::Owned(definition.summary().name.to_owned());
        self.by_name.insert(name, Entry::Loaded(Arc::new(definition)));
    }

    /// Lists all definitions by name. Parses every one.
    pub fn list(&self) -> impl Iterator<Item = &Arc<D>> {
        self.by_name.values().map(Entry::definition)
    }

    /// Lists the names of all definitions; parses none.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(AsRef::as_ref)
    }

    /// Whether a project defines any of them.
    pub fn any_from_project(&self) -> bool {
        let mut entries = self.by_name.values();
        entries.any(|entry| matches!(entry, Entry::Loaded(definition) if definition.summary().from_project))
    }

    /// Lists the added, removed and changed names; parses no built-in definition.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        fn loaded<'a, D: Definition>(definitions: &'a Definitions<D>, name: &str) -> Option<&'a str> {
            match definitions.by_name.get(name)? {
                Entry::Loaded(definition) => Some(definition.source()),
                Entry::BuiltIn(_) => None,
            }
        }
        let names: BTreeSet<_> = self.by_name.keys().chain(other.by_name.keys()).collect();
        let differing = names.into_iter().filter(|name| loaded(self, name) != loaded(other, name));
        differing.map(ToString::to_string).collect()
    }

    /// Returns `fresh` with the objects of `self` for all names outside `differing`.
    pub fn with(&self, mut fresh: Self, differing: &[String]) -> Self {
        for (name, entry) in &mut fresh.by_name {
            if let (Some(same), false) = (self.by_name.get(name), differing.iter().any(|it| it == name)) {
                *entry = same.clone();
            }
        }
        fresh
    }

    pub fn get(&self, name: &str) -> Option<&Arc<D>> {
        self.by_name.get(name).map(Entry::definition)
    }

    /// The definitions that cover a file, by name.
    pub fn for_path(&self, path: &Path) -> Vec<Arc<D>> {
        let likely = self.by_name.values().filter(|entry| entry.may_cover(path)).map(Entry::definition);
        likely.filter(|definition| definition.covers(path)).cloned().collect()
    }
}

fn read<D: Definition>(file: &Path, from_project: bool) -> Result<D, DefinitionError> {
    let origin = file.display().to_string();
    let fail = |reason: String| DefinitionError { origin: origin.clone(), line: None, reason };
    let text = paths::read_settings(file).map_err(|error| fail(error.to_string()))?;
    let definition = D::parse(&text, &origin, from_project)?;
    // Another name could replace a definition by accident.
    let (stem, name) = (file.file_stem().unwrap_or_default().to_string_lossy(), definition.summary().name);
    if stem != name {
        return Err(fail(format!(
            "the name {name:?} differs from the file's: rename the file to {name}.toml, or write name = {stem:?}"
        )));
    }
    // It names a directory too.
    if name.starts_with('.') {
        return Err(fail(format!("the name {name:?} begins with a dot: choose another one")));
    }
    Ok(definition)
}

fn toml_files(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
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
    use expect_test::expect;

    use super::*;

    #[test]
    fn embedded_names_and_patterns_match_the_files() {
        for built_in in ServerDefinition::built_in() {
            let definition = built_in.get();
            let patterns: Vec<&str> = definition.languages.iter().flat_map(|it| it.patterns.list()).collect();
            assert_eq!((definition.name.as_str(), &patterns[..]), (built_in.name, built_in.patterns));
        }
        for built_in in DebuggerDefinition::built_in() {
            let definition = built_in.get();
            let patterns: Vec<&str> = definition.patterns.list().collect();
            assert_eq!((definition.name.as_str(), &patterns[..]), (built_in.name, built_in.patterns));
        }
    }

    #[test]
    fn the_cheap_pattern_check_hides_no_definition() {
        let mut paths = vec!["Dockerfile".to_owned(), "/a/templates/b.yaml".to_owned(), "/x/none".to_owned()];
        for pattern in ServerDefinition::built_in().iter().flat_map(|it| it.patterns) {
            for word in ["", "a", "a.b"] {
                let name = pattern.replace("**/", "").replace('*', word);
                paths.extend([format!("/r/{name}"), format!("/r/s/t/{name}"), format!("/r/{name}x"), name]);
            }
        }
        let definitions = ServerDefinitions::built_in();
        let mut found = 0;
        for path in paths.iter().map(Path::new) {
            let all = definitions.list().filter(|definition| definition.covers(path));
            let all: Vec<&str> = all.map(|definition| definition.name.as_str()).collect();
            let quick = definitions.for_path(path);
            assert_eq!(quick.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), all, "{path:?}");
            found += all.len();
        }
        assert!(found > 500, "{found}");
    }

    #[test]
    fn a_name_leads_to_no_other_directory() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("...toml");
        let text = "name = \"..\"\n[command]\ncandidates = [\"x\"]\n[install]\nhow = \"page\"\npage = \"x\"\n\
                    [[languages]]\nid = \"x\"\npatterns = [\"*.x\"]\n";
        std::fs::write(&file, text).unwrap();
        let refused = read::<ServerDefinition>(&file, true).unwrap_err();
        expect![[r#"the name ".." begins with a dot: choose another one"#]].assert_eq(&refused.reason);
    }

    #[test]
    fn the_cheap_pattern_check_compares_literal_text() {
        let may = |pattern: &str, path: &str| may_match(pattern, Path::new(path));
        assert!(may("*.py", "/a/b.py") && may("*.py", "/a/.py") && !may("*.py", "/a/b.pyi"));
        assert!(may("*.{c,h}", "/a/b.c") && may("a[!b]*", "/x/ac") && !may("a?c", "/x/bbc"));
        assert!(may("go.mod", "/a/go.mod") && !may("go.mod", "/a/xgo.mod"));
        assert!(may("/r/x.*", "/r/x.y") && may("**/x", "x") && may("**/x", "/r/x"));
    }

    fn refusals<D: Definition>(definitions: &Definitions<D>, directory: &Path) -> String {
        let lines = definitions.refused().iter().map(|error| format!("{error}\n"));
        lines.collect::<String>().replace(&directory.display().to_string(), "DIR")
    }

    #[test]
    fn a_users_file_replaces_and_bad_files_are_reported() {
        let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let below = directory.path().join("adapters/servers");
        std::fs::create_dir_all(&below).unwrap();
        let at = |name: &str| below.join(name);
        let text = include_str!("../../../adapters/servers/ruff.toml")
            .replace("candidates = [\"ruff\"]", "candidates = [\"my-ruff\"]");
        std::fs::write(at("ruff.toml"), text).unwrap();
        std::fs::write(at("bad.toml"), "name = 1").unwrap();
        let definitions = ServerDefinitions::load(directory.path(), None);
        assert_eq!(definitions.get("ruff").unwrap().command.candidates, ["my-ruff"]);
        assert!(!definitions.get("ruff").unwrap().from_project);
        std::fs::rename(at("ruff.toml"), at("mine.toml")).unwrap();
        let definitions = ServerDefinitions::load(directory.path(), None);
        assert_eq!(definitions.get("ruff").unwrap().command.candidates, ["ruff"]);
        expect![[r#"
            DIR/adapters/servers/bad.toml:1: invalid type: integer `1`, expected a string
            DIR/adapters/servers/mine.toml: the name "ruff" differs from the file's: rename the file to ruff.toml, or write name = "mine"
        "#]].assert_eq(&refusals(&definitions, directory.path()));
        std::fs::rename(at("mine.toml"), at("ruff.toml")).unwrap();
        std::fs::rename(directory.path(), other.path().join(".pilcrow")).unwrap();
        let definitions = ServerDefinitions::load(directory.path(), Some(other.path()));
        assert!(definitions.get("ruff").unwrap().from_project);
    }

    #[test]
    fn differences_name_changed_definitions() {
        let directory = tempfile::tempdir().unwrap();
        let below = directory.path().join("adapters/debuggers");
        std::fs::create_dir_all(&below).unwrap();
        let at = |name: &str| below.join(name);
        let text = "name = \"gdb\"\nverified = false\ncommand.candidates = [\"mine\"]\nlaunch = {}\n\
            install.how = \"page\"\ninstall.page = \"x\"\n";
        let load = || DebuggerDefinitions::load(directory.path(), None);
        std::fs::write(at("gdb.toml"), text).unwrap();
        std::fs::write(at("bad.toml"), "format = 9\n").unwrap();
        let definitions = load();
        assert_eq!(definitions.get("gdb").unwrap().command.candidates, ["mine"]);
        expect![[r#"
            DIR/adapters/debuggers/bad.toml: has format 9; this version reads up to 2; use a newer Pilcrow
        "#]]
        .assert_eq(&refusals(&definitions, directory.path()));
        assert_eq!(definitions.differences(&load()), Vec::<String>::new());
        std::fs::write(at("gdb.toml"), text.replace("mine", "other")).unwrap();
        std::fs::write(at("new.toml"), text.replace("\"gdb\"", "\"new\"")).unwrap();
        assert_eq!(definitions.differences(&load()), ["gdb", "new"]);
    }
}
