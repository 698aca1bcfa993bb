//! Real refactorings of foreign projects, one for each language.
//!
//! Their own tests pass, a widely used symbol is renamed, a file is renamed, their own tests still
//! pass, and undo restores every byte.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use tests::sandbox::{Answer, finish};
use tests::{Batch, Sandbox};

use crate::languages::lab::give;

/// Maximum time of a project's tests on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);

struct Project {
    /// Programs of the server in the tools directory.
    server: &'static [&'static str],
    /// Endings of the files that contain the symbol.
    code: &'static [&'static str],
    /// The file where the symbol is declared, and the line's text.
    declared: (&'static str, &'static str),
    /// The replaced text of each use, and the replacement; in at least this many files.
    rename: (&'static str, &'static str, usize),
    /// Parts of lines, and file names, that may have either name.
    ///
    /// These are comments, and code outside the build.
    either: &'static [&'static str],
    /// A file and its new name, and files with the texts they must contain then.
    moved: (&'static str, &'static str, &'static [(&'static str, &'static str)]),
    /// The exact lines that the result lists as still naming the old path.
    left: &'static [&'static str],
    /// Runs the project's tests in a directory and returns how many passed.
    tests: fn(&Sandbox, &Path) -> u32,
}

fn tools() -> PathBuf {
    PathBuf::from(std::env::var_os("PILCROW_TOOLS").expect("cargo xtask env sets PILCROW_TOOLS"))
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("the sources").map(|entry| entry.expect("an entry")) {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        // `metadata` follows links; files that cargo adds are not copied.
        if entry.file_name() == ".cargo-checksum.json" {
            continue;
        }
        match fs::metadata(&path).expect("it is there").is_dir() {
            true => copy(&path, &target),
            false => drop(fs::copy(&path, &target).expect("it can be copied")),
        }
    }
}

/// Files of the project's code, by path.
fn code(sandbox: &Sandbox, endings: &[&str]) -> BTreeMap<String, String> {
    let tree = sandbox.tree().into_iter();
    tree.filter(|(path, _)| endings.iter().any(|ending| path.ends_with(ending)))
        .map(|(path, bytes)| (path, String::from_utf8_lossy(&bytes).into_owned()))
        .collect()
}

fn refactor(sandbox: &mut Sandbox, project: &Project) {
    let before = sandbox.tree();
    // The tests run in a copy, because they build and write in their directory.
    let run = |sandbox: &Sandbox, name: &str| {
        let directory = sandbox.beside(name);
        copy(&sandbox.project(), &directory);
        (project.tests)(sandbox, &directory)
    };
    let passed = run(sandbox, "tests before");
    assert!(passed > 0, "no test passed");
    give(sandbox, project.server);

    let (file, declaration) = project.declared;
    let text = sandbox.read(file);
    let line = text.lines().position(|line| line.contains(declaration)).expect("it is declared there") + 1;
    let (old, new, at_least) = project.rename;
    let sources = code(sandbox, project.code);
    let ask = json!({
        "action": "rename", "file": file, "line": line, "symbol": old, "new_name": new, "timeout": 300,
    });
    let mut batch = Batch::start(sandbox);
    let said = harmless(&batch.call("lsp", &ask));
    let renamed = code(sandbox, project.code);
    let mut files = 0;
    for (path, text) in &sources {
        let text = text.clone();
        let expected = replaced(&text, old, new);
        files += usize::from(expected != text);
        let now = renamed.get(path).unwrap_or_else(|| panic!("{path} is gone\n{said}"));
        let lines = text.lines().zip(expected.lines()).zip(now.lines());
        for ((before, expected), now) in lines {
            let free = project.either.iter().any(|it| before.contains(it) || path.ends_with(it));
            assert!(now == expected || free && now == before, "{path}: {now:?}, not {expected:?}\n{said}");
        }
        assert_eq!(now.lines().count(), expected.lines().count(), "{path}\n{said}");
    }
    assert!(files >= at_least, "{old} was in {files} files only");
    assert_eq!(run(sandbox, "tests after the rename"), passed, "{said}");

    let (from, to, users) = project.moved;
    let ask = json!({"action": "rename_file", "file": from, "to": to, "timeout": 300});
    let said = harmless(&batch.call("lsp", &ask));
    batch.end();
    for (user, holds) in users {
        assert!(sandbox.read(user).contains(holds), "{holds:?} is missing in {user}\n{said}");
    }
    assert!(!sandbox.project().join(from).exists() && sandbox.project().join(to).exists(), "{said}");
    // The result may also name a text that is too large to be searched (a manual in PostScript).
    let listed =
        said.split_once("still names the old place, as text").and_then(|(_, rest)| rest.split_once(": "));
    let listed = listed.map_or("", |(_, rest)| rest);
    let listed = listed.lines().next().unwrap_or_default().split("; ").next().unwrap_or_default();
    let listed: Vec<&str> = listed.split(", ").filter(|it| !it.is_empty()).collect();
    assert_eq!(listed, project.left, "{said}");
    assert_eq!(run(sandbox, "tests after the move"), passed, "{said}");
    sandbox.run(&["undo"]).expect(0);
    sandbox.run(&["undo"]).expect(0);
    let after = sandbox.tree();
    for (path, bytes) in &before {
        assert_eq!(after.get(path), Some(bytes), "{path} is not as it was");
    }
    sandbox.mark().none_left(Duration::from_secs(10));
}

/// The verdict for a correct edit: no new problem, as far as known.
#[track_caller]
fn harmless(answer: &Answer) -> String {
    let said = answer.ok();
    let introduced = &answer.value["details"]["diagnostics"]["introduced"];
    assert_eq!(*introduced, json!([]), "{said}");
    eprintln!("{said}");
    said
}

/// Replaces every whole word `old`.
fn replaced(text: &str, old: &str, new: &str) -> String {
    let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(old) {
        let (before, after) = (&rest[..at], &rest[at + old.len()..]);
        let inside = word(before.chars().next_back()) || word(after.chars().next());
        out.push_str(before);
        out.push_str(if inside { old } else { new });
        rest = after;
    }
    out + rest
}

/// Runs a command of the project, with the machine's tools and not the sandbox's.
fn run(sandbox: &Sandbox, directory: &Path, program: &str, args: &[&str], env: &[(&str, &str)]) -> String {
    let mut command = Command::new(program);
    sandbox.prepare(&mut command);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).current_dir(directory).args(args);
    command.env_remove("RUSTFLAGS").envs(env.iter().copied());
    let ran = finish(command.spawn().unwrap_or_else(|error| panic!("{program}: {error}")), PATIENCE);
    assert!(ran.status.success(), "{program} {args:?}: {}\n{}", ran.status, ran.all());
    ran.all()
}

/// The sum of the numbers before a word: `12 passed`.
fn sum(said: &str, word: &str) -> u32 {
    let words: Vec<&str> =
        said.split(|c: char| c.is_whitespace() || c == ';').filter(|it| !it.is_empty()).collect();
    let pairs = words.windows(2).filter(|pair| pair[1].trim_end_matches(',') == word);
    pairs.filter_map(|pair| pair[0].parse::<u32>().ok()).sum()
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn rust_semver_is_refactored_without_errors() {
    let mut sandbox = Sandbox::new();
    let source = tools().join("lib/semver");
    copy(&source, &sandbox.project());
    // The test removes optional dependencies, which would have to be downloaded.
    let manifest = sandbox.read("Cargo.toml");
    let manifest =
        manifest.split("[dependencies.serde]").next().expect("text").replace("serde = [\"dep:serde\"]\n", "");
    sandbox.write("Cargo.toml", manifest);
    fs::remove_file(sandbox.project().join("Cargo.lock")).expect("it goes");
    fs::remove_file(sandbox.project().join("Cargo.toml.orig")).expect("it goes");
    let project = Project {
        server: &[],
        code: &[".rs"],
        declared: ("src/lib.rs", "pub struct Comparator {"),
        rename: ("Comparator", "Constraint", 5),
        either: &["//", "src/serde.rs"],
        moved: ("src/eval.rs", "src/matching.rs", &[("src/lib.rs", "mod matching;")]),
        left: &[],
        tests: |sandbox, directory| {
            let target = sandbox.beside("target").display().to_string();
            let args = ["test", "--offline", "--quiet", "--tests", "--lib"];
            sum(&run(sandbox, directory, "cargo", &args, &[("CARGO_TARGET_DIR", &target)]), "passed")
        },
    };
    refactor(&mut sandbox, &project);
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn typescript_zod_is_refactored_without_errors() {
    let mut sandbox = Sandbox::new();
    let source = tools().join("lib/zod/zod");
    copy(&source.join("src/v3"), &sandbox.project().join("src/v3"));
    fs::copy(source.join("package.json"), sandbox.project().join("package.json")).expect("its manifest");
    sandbox.write(
        "tsconfig.json",
        "{\"compilerOptions\": {\"strict\": true, \"module\": \"esnext\", \"moduleResolution\": \"bundler\", \"target\": \"es2022\", \
         \"customConditions\": [\"@zod/source\"], \"skipLibCheck\": true, \"noEmit\": true}, \"include\": [\"src\"]}\n",
    );
    sandbox.write(
        "vitest.config.mjs",
        "import { fileURLToPath } from 'node:url';\n\
         export default { resolve: { alias: [{ find: /^zod\\/v3$/, replacement: fileURLToPath(new URL('./src/v3/index.ts', import.meta.url)) }] },\n\
         \x20 test: { include: ['src/v3/tests/*.test.ts'], watch: false, isolate: false, pool: 'threads', maxWorkers: 2, minWorkers: 1 } };\n",
    );
    let project = Project {
        server: &["typescript-language-server", "tsc"],
        code: &[".ts"],
        declared: ("src/v3/ZodError.ts", "export const ZodIssueCode"),
        rename: ("ZodIssueCode", "ZodProblemCode", 10),
        either: &["//"],
        moved: (
            "src/v3/helpers/parseUtil.ts",
            "src/v3/helpers/parsing.ts",
            &[("src/v3/types.ts", "\"./helpers/parsing.js\"")],
        ),
        left: &[],
        tests: |sandbox, directory| {
            std::os::unix::fs::symlink(tools().join("lib/zod"), directory.join("node_modules"))
                .expect("a link");
            let vitest = tools().join("lib/zod/.bin/vitest").display().to_string();
            let said = run(sandbox, directory, &vitest, &["run", "--reporter=basic"], &[("NO_COLOR", "1")]);
            let line = said.lines().find(|line| line.trim_start().starts_with("Tests ")).unwrap_or_default();
            sum(line, "passed")
        },
    };
    refactor(&mut sandbox, &project);
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn python_h11_is_refactored_without_errors() {
    let mut sandbox = Sandbox::new();
    let source = tools().join("lib/h11/h11-0.16.0.tar.gz");
    let mut tar = Command::new("tar");
    sandbox.prepare(&mut tar);
    tar.arg("-xzf")
        .arg(&source)
        .args(["--no-same-owner", "--strip-components", "1", "-C"])
        .arg(sandbox.project());
    assert!(tar.status().expect("tar starts").success());
    let project = Project {
        server: &["basedpyright-langserver"],
        code: &[".py"],
        declared: ("h11/_receivebuffer.py", "class ReceiveBuffer"),
        rename: ("ReceiveBuffer", "InputBuffer", 4),
        either: &["#"],
        moved: (
            "h11/_receivebuffer.py",
            "h11/_inputbuffer.py",
            &[("h11/_connection.py", "from ._inputbuffer import InputBuffer")],
        ),
        left: &["h11.egg-info/SOURCES.txt:35"],
        tests: |sandbox, directory| {
            let python = tools().join("lib/python-tests/bin/python").display().to_string();
            let args = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--color=no"];
            sum(&run(sandbox, directory, &python, &args, &[("PYTHONPATH", ".")]), "passed")
        },
    };
    refactor(&mut sandbox, &project);
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn go_pflag_is_refactored_without_errors() {
    let mut sandbox = Sandbox::new();
    let source = PathBuf::from("/usr/share/gocode/src/github.com/spf13/pflag");
    copy(&source, &sandbox.project());
    let project = Project {
        server: &[],
        code: &[".go"],
        declared: ("flag.go", "func (f *FlagSet) VarPF("),
        rename: ("VarPF", "BindPF", 3),
        either: &["//"],
        // Within its package no line names a file.
        moved: ("flag.go", "flags.go", &[("flags.go", "package pflag")]),
        left: &[],
        tests: |sandbox, directory| {
            let cache = sandbox.beside("go cache").display().to_string();
            let env = [("GOCACHE", cache.as_str()), ("GOFLAGS", "-mod=mod"), ("GOPROXY", "off")];
            let said = run(sandbox, directory, "go", &["test", "-v", "-vet=off", "./..."], &env);
            u32::try_from(said.lines().filter(|line| line.starts_with("--- PASS")).count()).expect("few")
        },
    };
    refactor(&mut sandbox, &project);
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn c_bzip2_is_refactored_without_errors() {
    let mut sandbox = Sandbox::new();
    let source = tools().join("lib/bzip2-sys/bzip2-1.0.8");
    copy(&source, &sandbox.project());
    // `bear -- make` writes this file. Without it clangd takes a header for C++ and finds no use of
    // it.
    let commands: Vec<serde_json::Value> = code(&sandbox, &[".c"])
        .keys()
        .map(|file| json!({"directory": sandbox.project(), "file": file, "arguments": ["cc", "-D_FILE_OFFSET_BITS=64", "-c", file]}))
        .collect();
    sandbox.write("compile_commands.json", json!(commands).to_string());
    let project = Project {
        server: &["clangd"],
        code: &[".c", ".h"],
        declared: ("bzlib_private.h", "BZ2_hbMakeCodeLengths ("),
        rename: ("BZ2_hbMakeCodeLengths", "BZ2_makeCodeLengths", 3),
        either: &[],
        // The project's own lines are fixed too; only the release's packing list is left.
        moved: (
            "bzlib_private.h",
            "internal/private.h",
            &[
                ("blocksort.c", "#include \"internal/private.h\""),
                ("bzlib.c", "#include \"internal/private.h\""),
                ("compress.c", "#include \"internal/private.h\""),
                ("crctable.c", "#include \"internal/private.h\""),
                ("decompress.c", "#include \"internal/private.h\""),
                ("huffman.c", "#include \"internal/private.h\""),
                ("randtable.c", "#include \"internal/private.h\""),
                ("internal/private.h", "#include \"../bzlib.h\""),
            ],
        ),
        left: &["Makefile:155"],
        tests: |sandbox, directory| {
            let said = run(sandbox, directory, "make", &["test"], &[]);
            u32::try_from(said.matches("cmp sample").count()).expect("few")
        },
    };
    refactor(&mut sandbox, &project);
}
