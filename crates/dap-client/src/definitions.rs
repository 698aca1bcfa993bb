//! All adapters that apply: built in, the person's own, the project's where it is trusted; and which of
//! them debugs a program.
//!
//! Reads definition files and the first bytes of programs, and nothing else. A later source replaces a
//! definition of the same name whole.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::definition::{AdapterDefinition, DefinitionError, Executable};

/// Files of a folder that are looked at.
const FOLDER: usize = 1000;

const BUILT_IN: &[(&str, &str)] = &[
    ("bash-dap", include_str!("../../../adapters/debuggers/bash-dap.toml")),
    ("codelldb", include_str!("../../../adapters/debuggers/codelldb.toml")),
    ("dart-debug", include_str!("../../../adapters/debuggers/dart-debug.toml")),
    ("debugpy", include_str!("../../../adapters/debuggers/debugpy.toml")),
    ("delve", include_str!("../../../adapters/debuggers/delve.toml")),
    ("elixir-debug", include_str!("../../../adapters/debuggers/elixir-debug.toml")),
    ("gdb", include_str!("../../../adapters/debuggers/gdb.toml")),
    ("java", include_str!("../../../adapters/debuggers/java.toml")),
    ("js-debug", include_str!("../../../adapters/debuggers/js-debug.toml")),
    ("kotlin", include_str!("../../../adapters/debuggers/kotlin.toml")),
    ("lldb-dap", include_str!("../../../adapters/debuggers/lldb-dap.toml")),
    ("netcoredbg", include_str!("../../../adapters/debuggers/netcoredbg.toml")),
    ("php-debug", include_str!("../../../adapters/debuggers/php-debug.toml")),
    ("ruby-debug", include_str!("../../../adapters/debuggers/ruby-debug.toml")),
];

/// The definitions in force, by name.
#[derive(Debug, Clone, Default)]
pub struct Definitions {
    by_name: BTreeMap<String, Arc<AdapterDefinition>>,
}

impl Definitions {
    /// The definitions that come with the program.
    pub fn built_in() -> Self {
        let mut definitions = Self::default();
        for (name, text) in BUILT_IN {
            let origin = format!("built in: {name}");
            let definition =
                AdapterDefinition::parse(text, &origin, false).expect("a test reads every one of them");
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
                let parsed = read.and_then(|text| AdapterDefinition::parse(&text, &origin, from_project));
                match parsed.and_then(|it| is_named(&file, &it.name).map(|()| it)) {
                    Ok(definition) => definitions.insert(definition),
                    Err(problem) => problems.push(problem),
                }
            }
        }
        (definitions, problems)
    }

    /// Adds a definition, or replaces that of the same name.
    pub fn insert(&mut self, definition: AdapterDefinition) {
        self.by_name.insert(definition.name.clone(), Arc::new(definition));
    }

    /// The names of those that the other has otherwise, or has not, or has alone.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let names: std::collections::BTreeSet<&String> =
            self.by_name.keys().chain(other.by_name.keys()).collect();
        let written = |of: &Self, name: &str| of.get(name).map(|it| it.written.clone());
        names.into_iter().filter(|name| written(self, name) != written(other, name)).cloned().collect()
    }

    /// All of them, by name.
    pub fn list(&self) -> impl Iterator<Item = &Arc<AdapterDefinition>> {
        self.by_name.values()
    }

    /// The one of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<AdapterDefinition>> {
        self.by_name.get(name)
    }

    /// The one that a `type` of a launch configuration means.
    pub fn of_type(&self, kind: &str) -> Option<&Arc<AdapterDefinition>> {
        self.get(kind).or_else(|| self.list().find(|it| it.types.iter().any(|it| it == kind)))
    }

    /// Those that debug the program at `path`, best first: by its name, else by what it is. Blocking.
    pub fn for_program(&self, path: &Path) -> Vec<Arc<AdapterDefinition>> {
        // A folder is a program where one of its files is.
        let files: Vec<PathBuf> = std::fs::read_dir(path)
            .map(|entries| entries.take(FOLDER).filter_map(|it| it.ok().map(|it| it.path())).collect())
            .unwrap_or_default();
        let by_name = match path.is_dir() {
            true => self.ranked(|it| it.folders && files.iter().any(|file| it.takes(file))),
            false => self.ranked(|it| it.takes(path)),
        };
        if !by_name.is_empty() {
            return by_name;
        }
        match look(path) {
            Kind::Executable(kind) => self.ranked(|it| it.executables.contains(&kind)),
            Kind::Script(interpreter) => self.ranked(|it| it.interpreters.contains(&interpreter)),
            Kind::Unknown => Vec::new(),
        }
    }

    /// Those that `keep` keeps, best first.
    pub fn ranked(&self, keep: impl Fn(&AdapterDefinition) -> bool) -> Vec<Arc<AdapterDefinition>> {
        let mut found: Vec<_> = self.list().filter(|it| keep(it)).cloned().collect();
        found.sort_by_key(|it| (it.rank, it.name.clone()));
        found
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Executable(Executable),
    Script(String),
    Unknown,
}

/// What a file is by its first bytes; of a script the interpreter's name without a version.
fn look(path: &Path) -> Kind {
    let mut start = [0; 256];
    let read = std::fs::File::open(path).and_then(|mut file| file.read(&mut start));
    let start = &start[..read.unwrap_or(0)];
    match start {
        [0x7f, b'E', b'L', b'F', ..] => Kind::Executable(Executable::Elf),
        [0xcf | 0xce, 0xfa, 0xed, 0xfe, ..] | [0xca, 0xfe, 0xba, 0xbe, ..] => {
            Kind::Executable(Executable::MachO)
        }
        [b'M', b'Z', ..] => Kind::Executable(Executable::Pe),
        [b'#', b'!', rest @ ..] => {
            let line = String::from_utf8_lossy(rest.split(|byte| *byte == b'\n').next().unwrap_or_default());
            let mut words = line.split_whitespace().map(|word| word.rsplit('/').next().unwrap_or_default());
            let named = words.find(|word| *word != "env" && !word.starts_with('-') && !word.contains('='));
            let named = named.unwrap_or_default();
            Kind::Script(named.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.').to_owned())
        }
        _ => Kind::Unknown,
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

fn toml_files(folder: &Path) -> Vec<PathBuf> {
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

    const SCHEMA: &str = include_str!("../../../docs/formats/adapter-definition.schema.json");

    #[test]
    fn every_file_is_built_in_under_its_name_and_follows_the_schema() {
        let schema: serde_json::Value = serde_json::from_str(SCHEMA).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let definitions = Definitions::built_in();
        let names: Vec<&String> = definitions.by_name.keys().collect();
        let expected: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, expected);
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adapters/debuggers");
        let files: Vec<String> = toml_files(&folder)
            .iter()
            .map(|file| file.file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(files, expected, "a file in adapters/debuggers is not built in");
        for (name, text) in BUILT_IN {
            let value: toml::Table = toml::from_str(text).unwrap();
            let value = serde_json::to_value(value).unwrap();
            let errors: Vec<String> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
            assert_eq!(errors, Vec::<String>::new(), "{name}");
        }
        let wrong = serde_json::json!({"format": 1, "name": "x", "nmae": 1});
        assert!(validator.iter_errors(&wrong).count() >= 2);
    }

    /// The schema and the reader know the same keys: asked for one that is none, the reader lists them.
    #[test]
    fn the_schema_has_the_keys_that_are_read() {
        let schema: serde_json::Value = serde_json::from_str(SCHEMA).unwrap();
        let small = "name = \"a\"\nformat = 1\nverified = false\ncommand.candidates = [\"a\"]\nlaunch = {}\n\
            install.how = \"page\"\ninstall.page = \"x\"\n";
        for (key, pointer) in [
            ("nothing", ""),
            ("command.nothing", "/properties/command"),
            ("quirks.nothing", "/properties/quirks"),
            ("install.nothing", "/properties/install"),
        ] {
            let error = AdapterDefinition::parse(&format!("{key} = 1\n{small}"), "a", false).unwrap_err();
            let error = error.to_string();
            let (_, listed) = error.split_once("expected one of ").unwrap_or_else(|| panic!("{error}"));
            let mut listed: Vec<&str> = listed.split('`').skip(1).step_by(2).collect();
            let found = schema.pointer(&format!("{pointer}/properties")).unwrap().as_object().unwrap();
            let mut known: Vec<&str> = found.keys().map(String::as_str).collect();
            listed.sort_unstable();
            known.sort_unstable();
            assert_eq!(listed, known, "{key}");
        }
    }

    #[test]
    fn a_program_is_known_by_its_name_or_by_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let names = |path: &Path| -> Vec<String> {
            Definitions::built_in().for_program(path).iter().map(|it| it.name.clone()).collect()
        };
        assert_eq!(names(&write("a.py", b"print()"))[0], "debugpy");
        assert_eq!(names(&write("tool", b"#!/usr/bin/env -S python3.11 -u\n"))[0], "debugpy");
        assert_eq!(names(&write("prog", b"\x7fELF\x02"))[0], "gdb");
        assert!(names(&write("notes.txt", b"hello")).is_empty());
        assert!(names(&folder.path().join("missing")).is_empty());
    }

    #[test]
    fn a_persons_definition_replaces_ours_and_a_bad_one_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let text = "format = 1\nname = \"gdb\"\nverified = false\ncommand.candidates = [\"mine\"]\nlaunch = {}\n\
            install.how = \"page\"\ninstall.page = \"x\"\n";
        std::fs::write(folder.path().join("gdb.toml"), text).unwrap();
        std::fs::write(folder.path().join("bad.toml"), "format = 9\n").unwrap();
        let (definitions, problems) = Definitions::load(Some(folder.path()), None);
        assert_eq!(definitions.get("gdb").unwrap().command.candidates, ["mine"]);
        assert!(problems.len() == 1 && problems[0].to_string().contains("bad.toml: has format 9"));
        let again = Definitions::load(Some(folder.path()), None).0;
        assert_eq!(definitions.differences(&again), Vec::<String>::new());
        std::fs::write(folder.path().join("gdb.toml"), text.replace("mine", "other")).unwrap();
        std::fs::write(folder.path().join("new.toml"), text.replace("\"gdb\"", "\"new\"")).unwrap();
        assert_eq!(definitions.differences(&Definitions::load(Some(folder.path()), None).0), ["gdb", "new"]);
        std::fs::rename(folder.path().join("new.toml"), folder.path().join("newer.toml")).unwrap();
        let (definitions, problems) = Definitions::load(Some(folder.path()), None);
        assert!(definitions.get("new").is_none() && problems.len() == 2, "{problems:?}");
        let said = problems[1].to_string();
        assert!(said.contains("rename the file to new.toml, or write name = \"newer\""), "{said}");
    }
}
