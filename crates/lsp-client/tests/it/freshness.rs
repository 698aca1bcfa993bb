//! Real servers, and an error that the change of one file causes in another.
//!
//! Diagnostics are about the current project, or are not known, whichever program changed the file and
//! whatever was requested before.

use std::sync::Arc;
use std::time::Duration;

use lsp_client::Navigate;
use workspace::{ChangeKind, Commit, CommitId, CommittedFile, Editor, RunId};

use crate::bench::{Bench, cx};
use crate::real_servers::{DEADLINE, real_beside};
use crate::speculative::Typing;

const SHORT: Duration = Duration::from_secs(3);

/// A project in which `user` has an error while `used` is `bad`.
struct Case {
    server: &'static str,
    files: &'static [(&'static str, &'static str)],
    used: &'static str,
    user: &'static str,
    good: &'static str,
    bad: &'static str,
    /// A line that may be appended to `user`.
    comment: &'static str,
}

/// The program that changes the used file, and whether an editor has its user open.
#[derive(Debug, Clone, Copy, PartialEq)]
enum How {
    Disk,
    DiskUserTyped,
    Typed,
    BothTyped,
}

async fn check(case: &Case) {
    for how in [How::Disk, How::DiskUserTyped, How::Typed, How::BothTyped] {
        let typing = Typing::new();
        let editor: Arc<dyn Editor> = Arc::<Typing>::clone(&typing);
        let bench = real_beside(&[case.server], case.files, Some(editor));
        for used_first in [false, true] {
            one(case, &bench, &typing, how, used_first).await;
        }
        bench.pool.shutdown(Duration::from_secs(10)).await;
    }
}

async fn one(case: &Case, bench: &Bench, typing: &Typing, how: How, used_first: bool) {
    let Case { server, used, user, .. } = case;
    if matches!(how, How::DiskUserTyped | How::BothTyped) {
        let text = format!("{}{}\n", bench.doc(user).text, case.comment);
        typing.types(&bench.path(user), &text);
    }
    for turn in 0..3 {
        let bad = turn % 2 == 1;
        let text = if bad { case.bad } else { case.good };
        match how {
            How::Disk | How::DiskUserTyped => bench.write(used, text),
            How::Typed | How::BothTyped => typing.types(&bench.path(used), text),
        }
        let place = format!("{server}, {how:?}, used first: {used_first}, turn {turn}");
        if used_first {
            // gopls 0.5 publishes nothing for a file that stays without problems.
            let reported = bench.pool.diagnostics(&bench.doc(used), &cx(SHORT)).await.unwrap().value;
            assert!(reported.items.is_empty(), "{place}: {reported:?}");
        }
        // Diagnostics that are not known in a short time stay unknown.
        let started = std::time::Instant::now();
        let short = bench.pool.diagnostics(&bench.doc(user), &cx(SHORT)).await;
        if let Ok(reported) = short
            && reported.value.pending.is_empty()
        {
            assert_eq!(!reported.value.items.is_empty(), bad, "{place}, in short: {:?}", reported.value);
        }
        let took = started.elapsed();
        let reported = bench.pool.diagnostics(&bench.doc(user), &cx(DEADLINE)).await.unwrap().value;
        assert!(reported.pending.is_empty(), "{place}: {reported:?}");
        assert_eq!(!reported.items.is_empty(), bad, "{place}: {reported:?}");
        println!("{place}: known after {took:?}, {:?}", started.elapsed());
    }
}

const PYTHON: Case = Case {
    server: "",
    files: &[
        ("pyproject.toml", "[project]\nname = \"x\"\nversion = \"0\"\n"),
        ("used.py", "def total(n: int) -> int:\n    return n\n"),
        ("user.py", "from used import total\n\nprint(total(1))\n"),
    ],
    used: "used.py",
    user: "user.py",
    good: "def total(n: int) -> int:\n    return n\n",
    bad: "def total(n: str) -> str:\n    return n\n",
    comment: "# typed",
};

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn basedpyright_answers_follow_file_changes() {
    check(&Case { server: "basedpyright", ..PYTHON }).await;
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn pyright_answers_follow_file_changes() {
    check(&Case { server: "pyright", ..PYTHON }).await;
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn ty_answers_follow_file_changes() {
    check(&Case { server: "ty", ..PYTHON }).await;
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn zuban_answers_follow_file_changes() {
    check(&Case { server: "zuban", ..PYTHON }).await;
}

const TYPESCRIPT: Case = Case {
    server: "",
    files: &[
        ("tsconfig.json", "{}\n"),
        ("used.ts", "export function total(n: number): number {\n  return n;\n}\n"),
        ("user.ts", "import { total } from './used';\n\nconsole.log(total(1));\n"),
    ],
    used: "used.ts",
    user: "user.ts",
    good: "export function total(n: number): number {\n  return n;\n}\n",
    bad: "export function total(n: string): string {\n  return n;\n}\n",
    comment: "// typed",
};

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn typescript_language_server_answers_follow_file_changes() {
    check(&Case { server: "typescript-language-server", ..TYPESCRIPT }).await;
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn vtsls_answers_follow_file_changes() {
    check(&Case { server: "vtsls", ..TYPESCRIPT }).await;
}

const RUST: Case = Case {
    server: "rust-analyzer",
    files: &[
        ("Cargo.toml", "[package]\nname = \"x\"\nversion = \"0.0.0\"\nedition = \"2021\"\n"),
        ("src/lib.rs", "pub mod used;\npub mod user;\n"),
        ("src/used.rs", "pub fn total(n: u32) -> u32 {\n    n\n}\n"),
        ("src/user.rs", "pub fn use_it() {\n    crate::used::total(1_u32);\n}\n"),
    ],
    used: "src/used.rs",
    user: "src/user.rs",
    good: "pub fn total(n: u32) -> u32 {\n    n\n}\n",
    bad: "pub fn total(n: i32) -> i32 {\n    n\n}\n",
    comment: "// typed",
};

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn deno_answers_follow_file_changes() {
    const FILES: &[(&str, &str)] = &[
        ("deno.json", "{}\n"),
        TYPESCRIPT.files[1],
        ("user.ts", "import { total } from './used.ts';\n\nconsole.log(total(1));\n"),
    ];
    check(&Case { server: "deno", files: FILES, ..TYPESCRIPT }).await;
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn rust_analyzer_answers_follow_file_changes() {
    check(&RUST).await;
}

const C: Case = Case {
    server: "clangd",
    files: &[
        ("compile_flags.txt", "-std=c11\n-xc\n"),
        ("used.h", "#pragma once\nint total(int n);\n"),
        ("user.c", "#include \"used.h\"\n\nint use_it(void) { return total(1); }\n"),
    ],
    used: "used.h",
    user: "user.c",
    good: "#pragma once\nint total(int n);\n",
    bad: "#pragma once\nint total(int n, int m);\n",
    comment: "// typed",
};

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn clangd_answers_follow_file_changes() {
    check(&C).await;
}

const GO: Case = Case {
    server: "gopls",
    files: &[
        ("go.mod", "module example.org/x\n\ngo 1.19\n"),
        ("used/used.go", "package used\n\nfunc Total(n int) int { return n }\n"),
        (
            "user/user.go",
            "package user\n\nimport \"example.org/x/used\"\n\nfunc UseIt() { println(used.Total(1)) }\n",
        ),
    ],
    used: "used/used.go",
    user: "user/user.go",
    good: "package used\n\nfunc Total(n int) int { return n }\n",
    bad: "package used\n\nfunc Total(n string) string { return n }\n",
    comment: "// typed",
};

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn gopls_answers_follow_file_changes() {
    check(&GO).await;
}

/// Creates a module, which leaves no error in its importers at the next request.
///
/// An edit or another program creates it, in an existing directory or in new ones. The same holds
/// for an installed package, and for the build output of a neighbouring one.
async fn modules_come(server: &str) {
    let files = [
        ("package.json", "{ \"name\": \"x\" }\n"),
        (".gitignore", "node_modules\ndist\n"),
        (".git/HEAD", "ref: refs/heads/main\n"),
        ("tsconfig.json", "{ \"compilerOptions\": { \"strict\": true, \"module\": \"commonjs\" } }\n"),
        (
            "src/user.ts",
            "import { a } from \"./a\";\nimport { b } from \"./b/deep/b\";\nimport { c } from \"../lib/c\";\n\
             import { d } from \"d\";\nimport { e } from \"../p/dist/e\";\nconsole.log(a, b, c, d, e);\n",
        ),
    ];
    let bench = real_beside(&[server], &files, None);
    let errors = async || {
        let reported = bench.pool.diagnostics(&bench.doc("src/user.ts"), &cx(DEADLINE)).await.unwrap().value;
        assert!(reported.pending.is_empty(), "{reported:?}");
        // TypeScript's codes of a module that it cannot find.
        reported.items.iter().filter(|it| matches!(it.code.as_deref(), Some("2307" | "2792"))).count()
    };
    assert_eq!(errors().await, 5);
    for (left, name, committed) in [
        (4, "src/a.ts", true),
        (3, "src/b/deep/b.ts", true),
        (2, "lib/c.ts", false),
        (1, "node_modules/d/index.d.ts", false),
        (0, "p/dist/e.d.ts", false),
    ] {
        let path = bench.path(name);
        std::fs::create_dir_all(path.as_path().parent().unwrap()).unwrap();
        let name = path.as_path().file_stem().unwrap().to_string_lossy()[..1].to_owned();
        let text = match left {
            0 | 1 => format!("export const {name}: number;\n"),
            _ => format!("export const {name} = 1;\n"),
        };
        std::fs::write(&path, text).unwrap();
        if left == 1 {
            bench.write("node_modules/d/package.json", "{ \"name\": \"d\", \"types\": \"index.d.ts\" }\n");
        }
        if committed {
            let (kind, edits, version) = (ChangeKind::Created, Vec::new(), None);
            let files = vec![CommittedFile { path: path.clone(), kind, edits, version }];
            let (id, run, label) = (CommitId("1".into()), RunId::new(), "test".into());
            bench.pool.did_commit(&Commit { id, run, label, files, notes: Vec::new() }).await;
        }
        let started = std::time::Instant::now();
        assert_eq!(errors().await, left, "{server}, after {path}");
        println!("{server}, after {path}: known after {:?}", started.elapsed());
    }
    bench.pool.shutdown(Duration::from_secs(10)).await;
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn typescript_language_server_notices_new_modules() {
    modules_come("typescript-language-server").await;
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn vtsls_notices_new_modules() {
    modules_come("vtsls").await;
}

/// Tests that the other package's project finds its implementation.
#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn typescript_language_server_finds_other_implementations() {
    const TSCONFIG: &str =
        "{ \"compilerOptions\": { \"strict\": true, \"module\": \"commonjs\" }, \"include\": [\"src\"] }\n";
    let files = [
        ("package.json", "{ \"private\": true, \"workspaces\": [\"a\", \"b\", \"c\"] }\n"),
        ("a/package.json", "{ \"name\": \"a\" }\n"),
        ("a/tsconfig.json", TSCONFIG),
        (
            "a/src/index.ts",
            "export interface Shape { area(): number }\nexport function use(s: Shape) { return s.area(); }\n",
        ),
        ("b/package.json", "{ \"name\": \"b\" }\n"),
        ("b/tsconfig.json", TSCONFIG),
        (
            "b/src/index.ts",
            "import { Shape, use } from \"../../a/src/index\";\nexport class Square implements Shape {\n  area() {\n    \
             return 1;\n  }\n}\nexport function b() {\n  return use(new Square());\n}\n",
        ),
        ("c/package.json", "{ \"name\": \"c\" }\n"),
        ("c/tsconfig.json", TSCONFIG),
        (
            "c/src/index.ts",
            "export interface Shape { other: string }\nexport class Other implements Shape {\n  other = \"\";\n}\n",
        ),
    ];
    let bench = real_beside(&["typescript-language-server"], &files, None);
    let doc = bench.doc("a/src/index.ts");
    let at = doc.text.find("Shape").unwrap();
    let found = bench.pool.navigate(Navigate::Implementation, &doc, at, &cx(DEADLINE)).await.unwrap();
    let places: Vec<(String, usize)> =
        found.value.iter().map(|it| (bench.workspace.relative(&it.path), it.line)).collect();
    assert_eq!(places, [("b/src/index.ts".to_owned(), 2)]);
}

/// Types a module in an editor, saves it, and closes it.
///
/// Its importer has an error while the module is in neither, and none once it exists.
async fn module_typed_and_saved(case: &Case) {
    let typing = Typing::new();
    let editor: Arc<dyn Editor> = Arc::<Typing>::clone(&typing);
    let bench = real_beside(&[case.server], case.files, Some(editor));
    let used = bench.path(case.used);
    let check = async |what: &str, is_error: Option<bool>| {
        let started = std::time::Instant::now();
        let reported = bench.pool.diagnostics(&bench.doc(case.user), &cx(DEADLINE)).await.unwrap().value;
        println!("{}, {what}: {} problems after {:?}", case.server, reported.items.len(), started.elapsed());
        assert!(reported.pending.is_empty(), "{}, {what}: {reported:?}", case.server);
        if let Some(is_error) = is_error {
            assert_eq!(!reported.items.is_empty(), is_error, "{}, {what}: {reported:?}", case.server);
        }
    };
    for round in 0..2 {
        if used.as_path().exists() {
            std::fs::remove_file(used.as_path()).unwrap();
        }
        check(&format!("{round}: not there"), Some(true)).await;
        typing.types(&used, case.good);
        // Some servers search modules on disk only.
        check(&format!("{round}: typed"), None).await;
        bench.write(case.used, case.good);
        typing.saves(&used);
        check(&format!("{round}: saved"), Some(false)).await;
        typing.closes(&used);
        check(&format!("{round}: closed"), Some(false)).await;
    }
    bench.pool.shutdown(Duration::from_secs(10)).await;
}

/// Removes and restores a module as other programs do.
///
/// Its importer has an error meanwhile, whether it was requested or not.
async fn module_goes_and_comes(case: &Case) {
    let bench = real_beside(&[case.server], case.files, None);
    let used = bench.path(case.used);
    for round in 0..4 {
        for gone in [true, false] {
            if gone {
                std::fs::remove_file(used.as_path()).unwrap();
            } else {
                bench.write(case.used, case.good);
            }
            let started = std::time::Instant::now();
            let reported = bench.pool.diagnostics(&bench.doc(case.user), &cx(DEADLINE)).await.unwrap().value;
            let place = format!("{}, {round}, gone: {gone}", case.server);
            println!("{place}: {} problems after {:?}", reported.items.len(), started.elapsed());
            assert!(reported.pending.is_empty(), "{place}: {reported:?}");
            assert_eq!(!reported.items.is_empty(), gone, "{place}: {reported:?}");
        }
        if round == 1 {
            // The module is open from now on when it is deleted.
            bench.pool.diagnostics(&bench.doc(case.used), &cx(DEADLINE)).await.unwrap();
        }
    }
    bench.pool.shutdown(Duration::from_secs(10)).await;
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn python_modules_are_deleted_and_created() {
    for server in ["basedpyright", "pyright", "ty"] {
        module_goes_and_comes(&Case { server, ..PYTHON }).await;
    }
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn typescript_modules_are_deleted_and_created() {
    for server in ["typescript-language-server", "vtsls"] {
        module_goes_and_comes(&Case { server, ..TYPESCRIPT }).await;
    }
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn rust_modules_are_deleted_and_created() {
    module_goes_and_comes(&Case { user: "src/lib.rs", ..RUST }).await;
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn headers_are_deleted_and_created() {
    module_goes_and_comes(&C).await;
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn go_packages_are_deleted_and_created() {
    module_goes_and_comes(&GO).await;
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn new_unsaved_python_modules_are_found() {
    for server in ["basedpyright", "pyright", "ty"] {
        module_typed_and_saved(&Case { server, ..PYTHON }).await;
    }
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn new_unsaved_typescript_modules_are_found() {
    for server in ["typescript-language-server", "vtsls"] {
        module_typed_and_saved(&Case { server, ..TYPESCRIPT }).await;
    }
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn new_unsaved_rust_modules_are_found() {
    // The error of a missing module is at its declaration.
    module_typed_and_saved(&Case { user: "src/lib.rs", ..RUST }).await;
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn new_unsaved_headers_are_found() {
    module_typed_and_saved(&C).await;
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn new_unsaved_go_packages_are_found() {
    module_typed_and_saved(&GO).await;
}

/// Tests that importers find a module that was previewed before its creation.
#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn speculatively_checked_modules_are_found() {
    for server in ["basedpyright", "pyright", "ty"] {
        let bench = real_beside(&[server], PYTHON.files, None);
        let (used, text) = (bench.path(PYTHON.used), PYTHON.good);
        let document = lsp_client::SpeculativeFile {
            document: workspace::Document { text: "".into(), ..bench.doc(PYTHON.used) },
            text: text.into(),
            created: true,
        };
        std::fs::remove_file(used.as_path()).unwrap();
        let problems = async || {
            let reported =
                bench.pool.diagnostics(&bench.doc(PYTHON.user), &cx(DEADLINE)).await.unwrap().value;
            assert!(reported.pending.is_empty(), "{server}: {reported:?}");
            reported.items
        };
        assert!(!problems().await.is_empty(), "{server}");
        let tried = bench.pool.preview_edit(&[document], &[], &[bench.doc(PYTHON.user)], &cx(DEADLINE)).await;
        assert!(tried.files.len() == 1 && tried.skipped.len() == 1, "{server}: {tried:?}");
        bench.write(PYTHON.used, text);
        let (kind, edits, version) = (ChangeKind::Created, Vec::new(), None);
        let files = vec![CommittedFile { path: used, kind, edits, version }];
        let (id, run, label) = (CommitId("1".into()), RunId::new(), "test".into());
        bench.pool.did_commit(&Commit { id, run, label, files, notes: Vec::new() }).await;
        let started = std::time::Instant::now();
        let left = problems().await;
        assert!(left.is_empty(), "{server}: {left:?}");
        println!("{server}: right after {:?}", started.elapsed());
        bench.pool.shutdown(Duration::from_secs(10)).await;
    }
}

/// Tests changes that fortls 3.2.2 checks when a file is saved.
#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn fortls_notices_outside_changes() {
    let text = |second: &str| {
        format!(
            "program p\n  implicit none\n  integer :: one\n  real :: {second}\n  print *, one\nend program p\n"
        )
    };
    let files = [(".fortls", "{}\n"), ("p.f90", &text("one"))];
    let bench = real_beside(&["fortls"], &files, None);
    for (turn, bad) in [true, false, true, false].into_iter().enumerate() {
        bench.write("p.f90", &text(if bad { "one" } else { "two" }));
        let reported = bench.pool.diagnostics(&bench.doc("p.f90"), &cx(DEADLINE / 5)).await.unwrap().value;
        assert!(reported.pending.is_empty(), "turn {turn}: {reported:?}");
        assert_eq!(!reported.items.is_empty(), bad, "turn {turn}: {reported:?}");
    }
    bench.pool.shutdown(Duration::from_secs(10)).await;
}
