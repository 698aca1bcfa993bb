//! Moves of files and directories.

use serde_json::{Value, json};
use testing::language_server::{Script, Step};

use crate::bench::{bench, build, range};
use crate::{move_file, shown};
use expect_test::expect;
use policy::ErrorCode;
use refactor::{Note, RefactorError};

fn edit(line: u32, start: u32, end: u32, text: &str) -> Value {
    json!({"range": range(line, start, end), "newText": text})
}

#[tokio::test]
async fn a_file_moves_with_the_references_to_it() {
    let answer = json!({"documentChanges": [
        {"textDocument": {"uri": "${root}/b.txt", "version": null}, "edits": [edit(0, 4, 5, "c")]},
    ]});
    let files = json!({"filters": [{"pattern": {"glob": "**/*"}}]});
    let script =
        Script::new(json!({"workspace": {"fileOperations": {"willRename": files}}, "textDocumentSync": 2}))
            .on("workspace/willRenameFiles", [Step::Result(answer)]);
    let bench = bench(&[("a.txt", "text"), ("b.txt", "see a")], script);
    let (from, to) = (bench.path("a.txt"), bench.path("c.txt"));
    let moved = move_file(&bench, &from, &to).await.unwrap();
    assert_eq!((moved.edit.label.as_str(), moved.notes.len()), ("move a.txt to c.txt", 0));
    assert_eq!(bench.outcome(moved.edit), ["b.txt: see c", "c.txt: text"]);
    let asked = &bench.got("scripted", "workspace/willRenameFiles")[0]["files"][0];
    assert_eq!(
        (&asked["oldUri"], &asked["newUri"]),
        (&json!(bench.uri("a.txt")), &json!(bench.uri("c.txt")))
    );
}

#[tokio::test]
async fn a_move_out_of_its_directory_may_be_refused() {
    let answer = json!({"documentChanges": [
        {"textDocument": {"uri": "${root}/b.txt", "version": null}, "edits": [edit(0, 4, 5, "c")]},
    ]});
    let files = json!({"filters": [{"pattern": {"glob": "**/*"}}]});
    let script =
        Script::new(json!({"workspace": {"fileOperations": {"willRename": files}}, "textDocumentSync": 2}))
            .on("workspace/willRenameFiles", [Step::Result(answer)]);
    let more = "moves_within_directory = true\n";
    let bench = build(&[("a.txt", "text"), ("b.txt", "see a")], vec![("scripted", script, more)], |_| ());
    let from = bench.path("a.txt");
    let error = move_file(&bench, &from, &bench.path("sub/c.txt")).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unsupported);
    assert!(matches!(error, RefactorError::LeavesDirectory { .. }), "{error}");
    let moved = move_file(&bench, &from, &bench.path("c.txt")).await.unwrap();
    assert_eq!(bench.outcome(moved.edit), ["b.txt: see c", "c.txt: text"]);
}

#[tokio::test]
async fn a_server_is_asked_about_moves_that_match_its_filters() {
    let answer = json!({"documentChanges": [
        {"textDocument": {"uri": "${root}/b.txt", "version": null}, "edits": [edit(0, 4, 5, "a whole.txt-moved")]},
    ]});
    let filter = |pattern: Value| json!({"scheme": "file", "pattern": pattern});
    let files = json!({"filters": [
        filter(json!({"glob": "**/KEPT/*.TXT", "matches": "file", "options": {"ignoreCase": true}})),
        filter(json!({"glob": "**/whole*", "matches": "folder"})),
        json!({"scheme": "untitled", "pattern": {"glob": "**"}}),
    ]});
    let script =
        Script::new(json!({"workspace": {"fileOperations": {"willRename": files}}, "textDocumentSync": 2}))
            .on("workspace/willRenameFiles", [Step::Result(answer)]);
    let texts = ["a.txt", "kept/a.txt", "kept/sub/a.txt", "other/a.txt", "whole/a.txt", "whole.txt"];
    let mut files: Vec<(&str, &str)> = texts.iter().map(|name| (*name, "text")).collect();
    files.push(("b.txt", "see a"));
    let bench = bench(&files, script);
    for (from, asked) in [
        ("a.txt", false),
        ("kept/a.txt", true),
        ("kept/sub/a.txt", false),
        ("other", false),
        ("whole", true),
        ("whole.txt", false),
    ] {
        let before = bench.got("scripted", "workspace/willRenameFiles").len();
        let to = bench.path(&format!("{from}-moved"));
        let moved = move_file(&bench, &bench.path(from), &to).await.unwrap();
        let after = bench.got("scripted", "workspace/willRenameFiles").len();
        assert_eq!(after - before, usize::from(asked), "{from}");
        let alone = matches!(moved.notes[..], [Note::NoServerForMove { updates_includes: false }, ..]);
        assert_eq!(alone, !asked, "{from}");
    }
}

#[tokio::test]
async fn a_file_without_a_server_for_moves_moves_alone() {
    let bench =
        bench(&[("a.txt", "text")], Script::new(json!({"renameProvider": true, "textDocumentSync": 2})));
    let (from, to) = (bench.path("a.txt"), bench.path("c.txt"));
    let moved = move_file(&bench, &from, &to).await.unwrap();
    assert!(matches!(moved.notes[..], [Note::NoServerForMove { updates_includes: false }]));
    assert_eq!(bench.outcome(moved.edit), ["c.txt: text"]);
}

const SIDES: &str = "stub_extensions = [[\"one\", \"two\"]]\n[[languages]]\nid = \"sides\"\npatterns = [\"*.one\", \"*.two\"]\n";

#[tokio::test]
async fn a_stub_moves_with_its_module() {
    let files = json!({"filters": [{"pattern": {"glob": "**/*"}}]});
    let script =
        Script::new(json!({"workspace": {"fileOperations": {"willRename": files}}, "textDocumentSync": 2}))
            .on("workspace/willRenameFiles", [Step::Result(Value::Null)]);
    let files = [("a.one", "1"), ("a.two", "2")];
    let bench = build(&files, vec![("scripted", script, SIDES)], |_| ());
    let from = bench.path("a.one");
    let moved = move_file(&bench, &from, &bench.path("sub/c.one")).await.unwrap();
    let note = shown(&bench, &moved.notes);
    expect!["stub moved: a.two to sub/c.two, leaves directory: true"].assert_eq(&note);
    let outcome = bench.outcome(moved.edit);
    assert!(
        ["sub/c.one: 1", "sub/c.two: 2"].iter().all(|it| outcome.contains(&(*it).to_owned())),
        "{outcome:?}"
    );
    let other = move_file(&bench, &from, &bench.path("c.txt")).await.unwrap();
    assert!(matches!(other.notes[..], [Note::StubKept { .. }]), "{:?}", other.notes);
}

/// A server that follows moves and returns `answer` for them.
fn follows(answer: Value) -> Script {
    let all = json!({"filters": [{"pattern": {"glob": "**/*"}}]});
    Script::new(json!({"workspace": {"fileOperations": {"willRename": all}}, "textDocumentSync": 2}))
        .on("workspace/willRenameFiles", [Step::Result(answer)])
}

#[tokio::test]
async fn a_move_that_drops_a_reference_is_refused() {
    for (new_text, refused) in [("", true), ("sigs", false)] {
        let answer = json!({"changes": {"${root}/b.txt": [edit(1, 6, 13, new_text)]}});
        let files = [("signals.txt", "text"), ("b.txt", "one\nfrom .signals import a\n")];
        let bench = bench(&files, follows(answer));
        let (from, to) = (bench.path("signals.txt"), bench.path("sigs.txt"));
        let moved = move_file(&bench, &from, &to).await;
        match (moved, refused) {
            (Ok(moved), false) => {
                let outcome = ["b.txt: one\nfrom .sigs import a\n", "sigs.txt: text"];
                assert_eq!(bench.outcome(moved.edit), outcome);
            }
            (Err(error), true) => {
                assert_eq!(error.code(), ErrorCode::NotApplied);
                assert!(matches!(error, RefactorError::DropsReference { line: 2, .. }), "{error}");
            }
            (moved, _) => panic!("{new_text:?}: {moved:?}"),
        }
    }
}

#[tokio::test]
async fn candidates_are_open_while_a_file_moves() {
    let more = "open_candidates = true\n";
    let files = [("old.txt", "text"), ("b.txt", "see old"), ("c.txt", "see none")];
    let bench = build(&files, vec![("scripted", follows(Value::Null), more)], |_| ());
    let (from, to) = (bench.path("old.txt"), bench.path("new.txt"));
    move_file(&bench, &from, &to).await.unwrap();
    let record = bench.record("scripted");
    let asked = record.iter().position(|it| it["method"] == "workspace/willRenameFiles").unwrap();
    let uri = bench.uri("b.txt");
    let reported = |part: &[Value], method: &str| {
        part.iter().any(|it| it["method"] == method && it["params"]["textDocument"]["uri"] == *uri)
    };
    assert!(reported(&record[..asked], "textDocument/didOpen"), "{record:#?}");
    assert!(!format!("{record:?}").contains("c.txt"));
    assert!(!reported(&record[..asked], "textDocument/didClose"));
}

/// The notes of a move for which the server gives no edit.
async fn notes_of_move(from: &str, to: &str, files: &[(&str, &str)]) -> String {
    let all = json!({"filters": [{"pattern": {"glob": "**/*"}}]});
    let script =
        Script::new(json!({"workspace": {"fileOperations": {"willRename": all}}, "textDocumentSync": 2}))
            .on("workspace/willRenameFiles", [Step::Result(Value::Null)]);
    let bench = bench(files, script);
    let moved = move_file(&bench, &bench.path(from), &bench.path(to)).await.unwrap();
    // Scripted servers only handle `*.txt`.
    let mut notes = moved.notes;
    notes.retain(|note| !matches!(note, Note::NoServerForMove { .. }));
    shown(&bench, &notes)
}

#[tokio::test]
async fn stale_python_imports_are_reported() {
    let note = notes_of_move(
        "src/click/core.py",
        "src/click/heart.py",
        &[
            ("src/click/__init__.py", "from .core import run\n"),
            ("src/click/core.py", "def run(): pass\n"),
            ("src/click/types.py", "import os\nfrom click.core import run\nfrom . import (\n    core,\n)\n"),
            ("src/click/sub/__init__.py", "from ..core import run\nfrom .core import other\n"),
            ("src/click/sub/core.py", ""),
            (
                "tests/t.py",
                "from click import core\nimport click.cores\nimport core\nmock('click.core.run')\n",
            ),
            ("tests/core.py", "other.click.core\nclick.core_of\n"),
            ("README.md", "see src/click/core.py and src/click/core.pyx\n"),
        ],
    )
    .await;
    assert_eq!(
        note,
        "stale: README.md:1, src/click/__init__.py:1, \
         src/click/sub/__init__.py:1, src/click/types.py:2, src/click/types.py:4, tests/t.py:1, tests/t.py:4"
    );
}

#[tokio::test]
async fn stale_script_imports_are_reported() {
    let lines = "import a from \"../helpers/a.js\";\nimport b from '../helpers/b';\nrequire('../helpers');\n\
        import(\"../helpers/gone.js\");\nimport c from \"./helpers/a.js\";\n// don't: '../helpers/a'\n";
    let note = notes_of_move(
        "helpers",
        "aids",
        &[
            ("helpers/a.ts", "import './b';\nimport '../helpers/b.js';\n"),
            ("helpers/b.ts", ""),
            ("helpers/index.ts", ""),
            ("tests/a.ts", lines),
            ("tests/helpers/a.js", ""),
            ("package.json", "{\"main\": \"./helpers/a.ts\", \"name\": \"helpers\"}"),
        ],
    )
    .await;
    assert_eq!(
        note,
        "stale: aids/a.ts:2, package.json:1, tests/a.ts:1, tests/a.ts:2, \
         tests/a.ts:3, tests/a.ts:4, tests/a.ts:6"
    );
}

#[tokio::test]
async fn paths_that_still_lead_somewhere_are_not_stale() {
    let files = [
        ("pkg/__init__.py", "from .engine import core\n"),
        ("pkg/core.py", ""),
        ("pkg/engine.py", "core = 1\n"),
        ("use.py", "from pkg import core\n"),
    ];
    assert_eq!(notes_of_move("pkg/core.py", "pkg/heart.py", &files).await, "");
    let files = [("a.ts", ""), ("use.ts", "import './a';\nimport './a/index.js';\n")];
    assert_eq!(notes_of_move("a.ts", "a/index.ts", &files).await, "");
    let files = [("src/lib.rs", "mod a;\n"), ("src/a.rs", ""), ("src/b.rs", "use crate::a::b;\n")];
    assert_eq!(notes_of_move("src/a.rs", "src/a/mod.rs", &files).await, "");
}

#[tokio::test]
async fn stale_modules_and_includes_are_reported() {
    let uses = "use crate::a::X;\nuse crate::ab::X;\n".repeat(13);
    let files =
        [("src/lib.rs", "pub mod a; // first\nmod ba;\n"), ("src/a.rs", ""), ("src/b.rs", uses.as_str())];
    let note = notes_of_move("src/a.rs", "src/c.rs", &files).await;
    let lines: Vec<String> = (0..13).map(|line| format!("src/b.rs:{}", 2 * line + 1)).collect();
    assert_eq!(note, format!("stale: {}, src/lib.rs:1", lines.join(", ")));
    let files = [
        ("include/x/a.h", ""),
        ("src/a.c", "#include \"x/a.h\"\n#include <y/a.h>\n#include \"a.h\"\n"),
        ("src/a.h", ""),
    ];
    let note = notes_of_move("include/x/a.h", "include/x/b.h", &files).await;
    assert_eq!(note, "stale: src/a.c:1");
    // An include may name the path from the workspace's root, in any form of the directive.
    let files = [
        ("util.h", ""),
        ("src/a.c", "#include \"util.h\"\n  # include <util.h>\n#import <util.h>\n#include <x/util.h>\n"),
        ("doc/README.md", "# includes `util.h`\n"),
    ];
    let note = notes_of_move("util.h", "helper.h", &files).await;
    assert_eq!(note, "stale: src/a.c:1, src/a.c:2, src/a.c:3");
    // The search paths of the compiler decide whether the include means the new place.
    let files = [
        ("include/foo/a.h", ""),
        ("include/foo/b.h", ""),
        ("src/a.c", "#include <foo/a.h>\n#include <a.h>\n#include <include/foo/a.h>\n"),
    ];
    let note = notes_of_move("include/foo/a.h", "lib/foo/a.h", &files).await;
    assert_eq!(note, "stale: src/a.c:3\nambiguous: src/a.c:1, src/a.c:2");
    let note = notes_of_move("include/foo", "lib/foo", &files).await;
    assert_eq!(note, "stale: src/a.c:3\nambiguous: src/a.c:1");
    // A build file lists the names of files alone.
    let files = [
        ("a.c", ""),
        ("Makefile", "a.o: a.c b.c\n\tcc -c a.c\n"),
        ("CMakeLists.txt", "add_executable(x ba.c a.c)\n"),
        ("sub/CMakeLists.txt", "add_executable(x a.c)\n"),
        ("NEWS", "a.c is new\n"),
    ];
    let note = notes_of_move("a.c", "c.c", &files).await;
    assert_eq!(note, "stale: CMakeLists.txt:1, Makefile:1, Makefile:2");
}

/// Plans a move that no server follows; returns the outcome and its notes.
async fn move_of(files: &[(&str, &str)], from: &str, to: &str) -> (Vec<String>, String) {
    let bench = bench(files, Script::new(json!({"textDocumentSync": 2})));
    let moved = move_file(&bench, &bench.path(from), &bench.path(to)).await.unwrap();
    (bench.outcome(moved.edit), shown(&bench, &moved.notes))
}

#[tokio::test]
async fn quoted_includes_follow_a_header() {
    let files = [
        ("lib/a.h", "#include \"b.h\"\n#include <a.h>\n"),
        ("lib/b.h", ""),
        ("lib/a.c", "#include \"./a.h\"\n#include \"../lib/a.h\"\n"),
        ("main.cpp", "#include \"lib/a.h\" // \"lib/a.h\"\n#include \"b.h\"\n"),
        ("test/t.c", "#include \"a.h\"\n"),
        ("README.md", "#include \"lib/a.h\"\n"),
    ];
    // The header moves within its directory.
    let (outcome, note) = move_of(&files, "lib/a.h", "lib/c.h").await;
    assert_eq!(
        outcome,
        [
            "lib/a.c: #include \"./c.h\"\n#include \"../lib/c.h\"\n",
            "lib/c.h: #include \"b.h\"\n#include <a.h>\n",
            "main.cpp: #include \"lib/c.h\" // \"lib/a.h\"\n#include \"b.h\"\n",
        ]
    );
    expect![[r#"
        NoServerForMove { updates_includes: true }
        IncludesUpdated { lines: 3, files: 2 }
        stale: README.md:1, lib/c.h:2, main.cpp:1, test/t.c:1"#]]
    .assert_eq(&note);
    // The header moves to another directory: its own includes get paths from there.
    let (outcome, note) = move_of(&files, "lib/a.h", "test/a.h").await;
    assert_eq!(
        outcome,
        [
            "lib/a.c: #include \"../test/a.h\"\n#include \"../test/a.h\"\n",
            "main.cpp: #include \"test/a.h\" // \"lib/a.h\"\n#include \"b.h\"\n",
            "test/a.h: #include \"../lib/b.h\"\n#include <a.h>\n",
        ]
    );
    expect![[r#"
        NoServerForMove { updates_includes: true }
        IncludesUpdated { lines: 4, files: 3 }
        redirected: test/t.c:1 to test/a.h
        stale: README.md:1, main.cpp:1"#]]
    .assert_eq(&note);
    // A directory moves: includes between its files stay.
    let (outcome, _) = move_of(&files, "lib", "src/lib").await;
    let has = |line: &str| outcome.contains(&line.to_owned());
    assert!(has("main.cpp: #include \"src/lib/a.h\" // \"lib/a.h\"\n#include \"b.h\"\n"), "{outcome:?}");
    assert!(has("src/lib/a.c: #include \"./a.h\"\n#include \"../lib/a.h\"\n"), "{outcome:?}");
    assert!(has("src/lib/a.h: #include \"b.h\"\n#include <a.h>\n"), "{outcome:?}");
}

#[tokio::test]
async fn redirected_includes_are_reported() {
    let files = [
        ("inc/config.h", ""),
        ("src/old.h", ""),
        ("src/main.c", "\n#include \"config.h\"\n"),
        ("tools/config.h", ""),
    ];
    let redirected =
        |note: &str| note.lines().find_map(|line| line.strip_prefix("redirected: ")).map(str::to_owned);
    let (outcome, note) = move_of(&files, "src/old.h", "src/config.h").await;
    assert_eq!(outcome, ["src/config.h: "]);
    assert_eq!(redirected(&note).as_deref(), Some("src/main.c:2 to src/config.h"));
    let (_, note) = move_of(&files, "src/main.c", "tools/main.c").await;
    assert_eq!(redirected(&note).as_deref(), Some("tools/main.c:2 to tools/config.h"));
    let (_, note) = move_of(&files, "src/main.c", "tools/deep/main.c").await;
    assert_eq!(redirected(&note), None);
    // The moved directory contains a header at a path that was free before.
    let files = [("main.c", "#include \"x/a.h\"\n"), ("inc/x/a.h", ""), ("y/a.h", "")];
    let (_, note) = move_of(&files, "y", "x").await;
    assert_eq!(redirected(&note).as_deref(), Some("main.c:1 to x/a.h"));
}

#[tokio::test]
async fn an_include_through_a_moved_directory_is_updated() {
    let files = [
        ("src/o.h", ""),
        ("src/x/a.h", ""),
        ("src/x/m.c", "#include \"../x/../o.h\"\n"),
        ("src/main.c", "#include \"x/../o.h\"\n#include \"./o.h\"\n"),
        ("src/y/deep/n.c", "#include \"../../x/../o.h\"\n"),
    ];
    let (outcome, note) = move_of(&files, "src/x", "src/z").await;
    let has = |line: &str| outcome.contains(&line.to_owned());
    assert!(has("src/main.c: #include \"o.h\"\n#include \"./o.h\"\n"), "{outcome:?}");
    assert!(has("src/z/m.c: #include \"../o.h\"\n"), "{outcome:?}");
    assert!(has("src/y/deep/n.c: #include \"../../o.h\"\n"), "{outcome:?}");
    expect![[r#"
        NoServerForMove { updates_includes: true }
        IncludesUpdated { lines: 3, files: 3 }"#]]
    .assert_eq(&note);
}

#[cfg(unix)]
#[tokio::test]
async fn an_include_through_a_link_to_a_moved_file_is_reported() {
    let files = [("src/a.h", ""), ("inc/x.h", ""), ("b.c", "#include \"inc/a.h\"\n#include \"srcl/a.h\"\n")];
    let bench = bench(&files, Script::new(json!({"textDocumentSync": 2})));
    std::os::unix::fs::symlink("../src/a.h", bench.path("inc/a.h").as_path()).unwrap();
    std::os::unix::fs::symlink("src", bench.path("srcl").as_path()).unwrap();
    let (from, to) = (bench.path("src/a.h"), bench.path("src/b.h"));
    let note = shown(&bench, &move_file(&bench, &from, &to).await.unwrap().notes);
    assert_eq!(
        note.lines().find(|line| line.starts_with("redirected")),
        Some("redirected: b.c:1 to none, b.c:2 to none")
    );
    // The directory to which the link leads.
    let (from, to) = (bench.path("src"), bench.path("source"));
    let note = shown(&bench, &move_file(&bench, &from, &to).await.unwrap().notes);
    assert_eq!(
        note.lines().find(|line| line.starts_with("redirected")),
        Some("redirected: b.c:1 to none, b.c:2 to none")
    );
}

#[tokio::test]
async fn a_file_that_is_not_text_is_reported() {
    let bench = bench(&[("a.h", ""), ("b.c", "")], Script::new(json!({"textDocumentSync": 2})));
    std::fs::write(bench.path("b.c").as_path(), b"// \xe9\n#include \"a.h\"\n").unwrap();
    let moved = move_file(&bench, &bench.path("a.h"), &bench.path("c.h")).await.unwrap();
    let note = shown(&bench, &moved.notes);
    assert!(note.ends_with("unread: b.c"), "{note}");
}

#[cfg(unix)]
#[tokio::test]
async fn an_include_through_a_link_is_not_updated() {
    let files = [("a.h", ""), ("deep/er/x.h", ""), ("b.c", "#include \"link/../a.h\"\n")];
    let bench = bench(&files, Script::new(json!({"textDocumentSync": 2})));
    // From `link`, `..` leads into `deep`, whatever the spelling says.
    std::os::unix::fs::symlink("deep/er", bench.path("link").as_path()).unwrap();
    let moved = move_file(&bench, &bench.path("a.h"), &bench.path("c.h")).await.unwrap();
    assert_eq!(bench.outcome(moved.edit), ["c.h: "]);
}

#[tokio::test]
async fn omp_8380_a_server_that_fails_stops_the_move() {
    let filters = json!({"filters": [{"pattern": {"glob": "**/*"}}]});
    let script =
        Script::new(json!({"textDocumentSync": 2, "workspace": {"fileOperations": {"willRename": filters}}}))
            .on("workspace/willRenameFiles", [Step::Error(json!({"code": -32603, "message": "no program"}))]);
    let bench = bench(&[("a.txt", "a")], script);
    let moved = move_file(&bench, &bench.path("a.txt"), &bench.path("b.txt")).await;
    let error = moved.unwrap_err().to_string();
    assert!(error.contains("scripted") && error.contains("no program"), "{error}");
    assert!(bench.path("a.txt").as_path().exists(), "nothing moved");
}
