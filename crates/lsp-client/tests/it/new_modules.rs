//! Previews of edits that a server can receive only in part.
//!
//! Such an edit has a new file together with its users, files of another package, or files that the
//! server reads from disk. The preview is right about them or reports them as skipped.

use std::time::Duration;

use lsp_client::{EditPreview, SpeculativeError, SpeculativeFile};
use paths::AbsPath;
use serde_json::{Value, json};
use testing::language_server::{Script, Step};
use workspace::Document;

use crate::bench::{Bench, LONG, build, cx, range};
use crate::real_servers::{DEADLINE, real_beside};

/// Publishes the text of the requested document and of its dependents.
fn script() -> Script {
    let items = json!([{"range": range(0, 0, 1), "message": "about ${text}"}]);
    Script::new(json!({"textDocumentSync": 2, "diagnosticProvider": {}, "hoverProvider": true}))
        .on("textDocument/hover", [Step::Result(json!({"contents": "${text}"}))])
        .on("textDocument/diagnostic", [Step::Result(json!({"kind": "full", "items": items}))])
}

fn with(files: &[(&str, &str)], more: &str) -> Bench {
    build(files, vec![("scripted", script(), more)], |_| ())
}

impl Bench {
    /// Previews an edit, which creates missing files.
    async fn tries(&self, edit: &[(&str, &str)], edited: &[&str], dependents: &[&str]) -> EditPreview {
        let file = |(name, text): &(&str, &str)| {
            let path = self.path(name);
            let (created, uri) = (!path.as_path().exists(), paths::path_to_uri(path.as_path()));
            let any = || Document { path: path.clone(), uri, text: "".into(), ..self.doc("a.txt") };
            let document = if created { any() } else { self.doc(name) };
            SpeculativeFile { document, text: (*text).into(), created }
        };
        let files: Vec<SpeculativeFile> = edit.iter().map(file).collect();
        let edited: Vec<_> = edited.iter().map(|name| self.path(name)).collect();
        let dependents: Vec<_> = dependents.iter().map(|name| self.doc(name)).collect();
        self.pool.preview_edit(&files, &edited, &dependents, &cx(LONG)).await
    }

    /// `name: message, …` of each file, then the reasons for skipped ones.
    fn lines(&self, tried: &EditPreview) -> Vec<String> {
        let mut out = Vec::new();
        for (path, checked) in &tried.files {
            for it in checked {
                let items = it.known.as_ref().unwrap();
                let messages: Vec<&str> = items.iter().map(|item| item.message.as_str()).collect();
                out.push(format!("{}: {}", self.workspace.relative(path), messages.join(", ")));
            }
        }
        let names = |files: &[AbsPath]| {
            files.iter().map(|path| self.workspace.relative(path)).collect::<Vec<_>>().join(", ")
        };
        out.extend(tried.skipped.iter().map(|(_, why)| match why {
            SpeculativeError::UsersOmitted(files) => format!("users omitted of {}", names(files)),
            SpeculativeError::ReadsFromDisk(path) => format!("reads {}", self.workspace.relative(path)),
            why => format!("{why:?}"),
        }));
        out
    }
}

#[tokio::test]
async fn disk_resolving_servers_check_the_new_file_alone() {
    const ALONE: &str = "checks_new_files = true\n";
    const TOGETHER: &str = "checks_new_files = true\nfinds_new_files = true\n";
    let left_out = |names: &str| format!("users omitted of {names}");
    let user = ("a.txt", "uses new");
    let new = ("new.txt", "fresh");
    for (more, edit, dependents, expected) in [
        (ALONE, vec![new], vec![], vec!["new.txt: about fresh".to_owned()]),
        (ALONE, vec![user, new], vec![], vec!["new.txt: about fresh".to_owned(), left_out("new.txt")]),
        (ALONE, vec![new], vec!["b.txt"], vec!["new.txt: about fresh".to_owned(), left_out("new.txt")]),
        // Both files name each other.
        (ALONE, vec![user, ("new.txt", "uses a")], vec![], vec![left_out("new.txt")]),
        (ALONE, vec![new, ("newer.txt", "n")], vec!["b.txt"], vec![left_out("new.txt, newer.txt")]),
        (
            TOGETHER,
            vec![user, new],
            vec!["b.txt"],
            ["a.txt: about uses new", "b.txt: about b", "new.txt: about fresh"].map(str::to_owned).into(),
        ),
    ] {
        let bench = with(&[("a.txt", "a"), ("b.txt", "b")], more);
        bench.hover("a.txt").await;
        let tried = bench.tries(&edit, &[], &dependents).await;
        assert_eq!(bench.lines(&tried), expected, "{edit:?}");
        let has = bench.server_has().await;
        assert!(has.len() == 1 && has[0].ends_with(": a"), "{edit:?}: {has:?}");
        if more == TOGETHER {
            // A file that uses the new one is not requested before the new one exists.
            let record = bench.record("scripted");
            let at = |wanted: [&str; 2]| {
                let uri = bench.uri(wanted[1]);
                let is_it =
                    |it: &Value| it["method"] == wanted[0] && it["params"]["textDocument"]["uri"] == uri;
                record.iter().position(is_it).unwrap()
            };
            assert!(at(["textDocument/didOpen", "new.txt"]) < at(["textDocument/didChange", "a.txt"]));
        }
    }
}

#[tokio::test]
async fn files_read_from_the_disk_are_not_checked_speculatively() {
    let bench = with(&[("a.txt", "a"), ("mark", "old")], "[root]\nmarkers = [\"mark\"]\n");
    bench.hover("a.txt").await;
    let tried = bench.tries(&[("a.txt", "tried")], &["a.txt", "mark"], &[]).await;
    assert_eq!(bench.lines(&tried), ["reads mark"]);
    let tried = bench.tries(&[("a.txt", "tried")], &["a.txt", "other"], &[]).await;
    assert_eq!(bench.lines(&tried), ["a.txt: about tried"]);
}

#[tokio::test]
async fn each_packages_server_gets_the_other_changes() {
    let files = [("a.txt", ""), ("p/mark", ""), ("p/p.txt", "p"), ("q/mark", ""), ("q/q.txt", "q")];
    let bench = with(&files, "[root]\nmarkers = [\"mark\"]\n");
    bench.hover("p/p.txt").await;
    bench.hover("q/q.txt").await;
    let tried = bench.tries(&[("p/p.txt", "tried p"), ("q/q.txt", "tried q")], &[], &[]).await;
    assert_eq!(bench.lines(&tried), ["p/p.txt: about tried p", "q/q.txt: about tried q"]);
    let mut shown: Vec<String> = Vec::new();
    for method in ["textDocument/didOpen", "textDocument/didChange"] {
        for params in bench.got("scripted", method) {
            let text = &params["textDocument"]["text"];
            let text = text.as_str().or(params["contentChanges"][0]["text"].as_str()).unwrap();
            shown.extend(text.starts_with("tried").then(|| text.to_owned()));
        }
    }
    shown.sort();
    // The file was open in its own server, which received only the difference.
    assert_eq!(shown, ["tried ", "tried ", "tried p", "tried q"]);
}

#[tokio::test]
async fn a_pipe_as_ignore_file_delays_no_request() {
    let bench = with(&[("a.txt", "a"), ("deep/b.txt", "b")], "");
    bench.hover("a.txt").await;
    let rules = bench.path("deep/.gitignore");
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600));
    rustix::fs::mknodat(rustix::fs::CWD, rules.as_path(), kind, mode, 0).unwrap();
    let scanned = std::time::Instant::now();
    // At most one scan runs in a tenth of a second.
    while scanned.elapsed() < Duration::from_millis(300) {
        let answer = bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap();
        assert_eq!((answer.value.as_deref(), answer.notes), (Some("a"), Vec::new()));
    }
}

/// A new file and a file that uses it.
struct Case {
    server: &'static str,
    files: &'static [(&'static str, &'static str)],
    user: (&'static str, &'static str),
    new: (&'static str, &'static str),
    /// Number of files whose diagnostics the server is asked for.
    asked: usize,
}

/// Checks that new modules have no errors in any order, or are reported as unknown.
async fn check(case: &Case) {
    let bench = real_beside(&[case.server], case.files, None);
    bench.pool.diagnostics(&bench.doc(case.user.0), &cx(DEADLINE)).await.unwrap();
    for edit in [[case.new, case.user], [case.user, case.new]] {
        let tried = bench.tries(&edit, &[], &[]).await;
        let found: Vec<_> = tried.files.values().flatten().filter_map(|it| it.known.as_ref().ok()).collect();
        println!("{}: {} known, {:?}", case.server, found.len(), tried.skipped);
        assert!(found.iter().all(|items| items.is_empty()), "{}: {tried:?}", case.server);
        assert_eq!(tried.files.len(), case.asked, "{}: {tried:?}", case.server);
        assert_eq!(tried.skipped.is_empty(), case.asked == edit.len(), "{}: {tried:?}", case.server);
    }
    bench.pool.shutdown(Duration::from_secs(10)).await;
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn a_new_python_module_clears_errors_in_its_importers() {
    for (server, asked) in [("basedpyright", 1), ("pyright", 1), ("ty", 1), ("ruff", 1), ("zuban", 0)] {
        const RULES: &str =
            "[project]\nname = \"x\"\nversion = \"0\"\n[tool.ruff.lint]\nselect = [\"F\", \"I\"]\n";
        let files = &[("pyproject.toml", RULES), ("a.txt", ""), ("a.py", "import os\n\nprint(os.name)\n")];
        let user = "import email\n\nfrom fresh import greet\n\nprint(greet(\"x\"), email)\n";
        let new = "def greet(name: str) -> str:\n    return name\n";
        check(&Case { server, files, user: ("a.py", user), new: ("fresh.py", new), asked }).await;
    }
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn a_new_typescript_module_clears_errors_in_importers() {
    for server in ["typescript-language-server", "vtsls"] {
        let files = &[("tsconfig.json", "{}\n"), ("a.txt", ""), ("a.ts", "export const one = 1;\n")];
        let user = "import { greet } from './fresh';\n\nconsole.log(greet('x'));\n";
        let new = "export function greet(name: string): string {\n  return name;\n}\n";
        check(&Case { server, files, user: ("a.ts", user), new: ("fresh.ts", new), asked: 0 }).await;
    }
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn a_new_header_clears_errors_in_its_includers() {
    let case = Case {
        server: "clangd",
        files: &[("compile_flags.txt", "-xc\n"), ("a.txt", ""), ("a.c", "int a(void) { return 1; }\n")],
        user: ("a.c", "#include \"fresh.h\"\nint a(void) { return greet(1); }\n"),
        new: ("fresh.h", "int greet(int name);\n"),
        asked: 2,
    };
    check(&case).await;
    // The server finds the name and not only the file.
    let bench = real_beside(&[case.server], case.files, None);
    bench.pool.diagnostics(&bench.doc(case.user.0), &cx(DEADLINE)).await.unwrap();
    let tried = bench.tries(&[case.user, ("fresh.h", "int greet(void);\n")], &[], &[]).await;
    let user = tried.files[&bench.path(case.user.0)][0].known.as_ref().unwrap();
    let code = user[0].code.as_deref().unwrap_or_default();
    assert!(code.starts_with("typecheck_call_too_many_args"), "{user:?}");
    bench.pool.shutdown(Duration::from_secs(10)).await;
}
