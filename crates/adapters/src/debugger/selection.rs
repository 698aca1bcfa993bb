//! Selection of the debug adapter for a program, by its name or its first bytes.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{DebuggerDefinition, Executable};
use crate::definitions::{Definition, Definitions};

/// Maximum number of a directory's files to compare with patterns.
const DIRECTORY: usize = 1000;

impl Definitions<DebuggerDefinition> {
    /// Finds the adapter that a `type` of a launch configuration selects.
    pub fn of_type(&self, kind: &str) -> Option<&Arc<DebuggerDefinition>> {
        self.get(kind).or_else(|| self.list().find(|it| it.types.iter().any(|it| it == kind)))
    }

    /// Lists the adapters for the program at `path`, best first. Blocks.
    ///
    /// Selects them by the program's name, else by its first bytes.
    pub fn for_program(&self, path: &Path) -> Vec<Arc<DebuggerDefinition>> {
        // A directory is a program if it contains one.
        let files: Vec<PathBuf> = std::fs::read_dir(path)
            .map(|entries| entries.take(DIRECTORY).filter_map(|it| it.ok().map(|it| it.path())).collect())
            .unwrap_or_default();
        let by_name = if path.is_dir() {
            self.ranked(|it| it.directories && files.iter().any(|file| it.covers(file)))
        } else {
            self.ranked(|it| it.covers(path))
        };
        if !by_name.is_empty() {
            return by_name;
        }
        match ProgramKind::of(path) {
            ProgramKind::Executable(kind) => self.ranked(|it| it.executables.contains(&kind)),
            ProgramKind::Script(interpreter) => self.ranked(|it| it.interpreters.contains(&interpreter)),
            ProgramKind::Unknown => Vec::new(),
        }
    }

    /// Lists the adapters for a process with the executable `path`, best first. Blocks.
    ///
    /// An interpreter is debugged in its language.
    pub fn for_process(&self, path: &Path) -> Vec<Arc<DebuggerDefinition>> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = without_version(&name);
        let by_name = self.ranked(|it| it.interpreters.iter().any(|it| it == name));
        if by_name.is_empty() { self.for_program(path) } else { by_name }
    }

    /// The adapters that `keep` accepts, best first.
    pub fn ranked(&self, keep: impl Fn(&DebuggerDefinition) -> bool) -> Vec<Arc<DebuggerDefinition>> {
        let mut found: Vec<_> = self.list().filter(|it| keep(it)).cloned().collect();
        found.sort_by_key(|it| (it.rank, it.name.clone()));
        found
    }
}

/// Removes the version from an interpreter's name.
fn without_version(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')
}

#[derive(Debug, PartialEq, Eq)]
enum ProgramKind {
    Executable(Executable),
    Script(String),
    Unknown,
}

impl ProgramKind {
    /// Reads the first bytes of a file; omits the version of a script's interpreter.
    fn of(path: &Path) -> Self {
        let mut start = [0; 256];
        let read = paths::open_file(path, true).and_then(|(mut file, _)| file.read(&mut start));
        let start = &start[..read.unwrap_or(0)];
        match start {
            [0x7f, b'E', b'L', b'F', ..] => ProgramKind::Executable(Executable::Elf),
            [0xcf | 0xce, 0xfa, 0xed, 0xfe, ..] | [0xca, 0xfe, 0xba, 0xbe, ..] => {
                ProgramKind::Executable(Executable::MachO)
            }
            [b'M', b'Z', ..] => ProgramKind::Executable(Executable::Pe),
            [b'#', b'!', rest @ ..] => {
                let line =
                    String::from_utf8_lossy(rest.split(|byte| *byte == b'\n').next().unwrap_or_default());
                let mut words =
                    line.split_whitespace().map(|word| word.rsplit('/').next().unwrap_or_default());
                let named =
                    words.find(|word| *word != "env" && !word.starts_with('-') && !word.contains('='));
                let named = named.unwrap_or_default();
                ProgramKind::Script(without_version(named).to_owned())
            }
            _ => ProgramKind::Unknown,
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write files of their own")]
mod tests {
    use super::*;

    #[test]
    fn programs_are_recognized_by_name_or_first_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = directory.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let names = |path: &Path| -> Vec<String> {
            Definitions::<DebuggerDefinition>::built_in()
                .for_program(path)
                .iter()
                .map(|it| it.name.clone())
                .collect()
        };
        assert_eq!(names(&write("a.py", b"print()"))[0], "debugpy");
        assert_eq!(names(&write("tool", b"#!/usr/bin/env -S python3.11 -u\n"))[0], "debugpy");
        assert_eq!(names(&write("prog", b"\x7fELF\x02"))[0], "gdb");
        assert!(names(&write("notes.txt", b"hello")).is_empty());
        assert!(names(&directory.path().join("missing")).is_empty());
        let of_process = |path: &Path| {
            let all = Definitions::<DebuggerDefinition>::built_in().for_process(path);
            all.first().map(|it| it.name.clone()).unwrap_or_default()
        };
        assert_eq!(of_process(Path::new("/usr/bin/python3.11")), "debugpy");
        assert_eq!(of_process(&write("prog2", b"\x7fELF\x02")), "gdb");
    }
}
