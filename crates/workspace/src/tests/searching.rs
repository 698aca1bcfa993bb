//! Search at its boundary: included files, omitted files, and its end.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use parking_lot::{Condvar, Mutex};
use policy::{Policy, PolicyOptions, Rule, TrustStore};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    ApplyOutcome, Bounds, ContentHash, Document, Editor, EntryKind, FileChange, Findings, Form, Globs,
    LookOnly, Names, Owner, Query, QueryOptions, Scope, SearchError, TreeEntry,
};

fn bounds() -> Bounds {
    Bounds { cancel: CancellationToken::new(), time: Duration::from_secs(60) }
}

impl Fixture {
    fn policy(&self, rules: &[&str]) -> Arc<Policy> {
        let trust = TrustStore::new(state(&self.directory));
        let mut options = PolicyOptions::new(trust, self.workspace.root().clone());
        options.rules = rules.iter().map(|rule| Rule::parse(rule, "test").unwrap()).collect();
        Arc::new(Policy::new(options))
    }

    fn everything(&self) -> Scope {
        Scope::new(self.workspace.root().clone())
    }

    fn search_for(&self, pattern: &str, scope: &Scope) -> Findings {
        let query = Arc::new(Query::new(pattern, QueryOptions::default()).unwrap());
        self.search_as(scope, query, self.policy(&[])).unwrap()
    }

    fn search_as(
        &self,
        scope: &Scope,
        query: Arc<Query>,
        policy: Arc<Policy>,
    ) -> Result<Findings, SearchError> {
        block_on(self.workspace.search(scope.clone(), query, policy, &bounds()))
    }

    fn tree(&self, depth: usize) -> (Vec<TreeEntry>, bool) {
        let root = self.workspace.root().clone();
        block_on(self.workspace.tree(root, depth, self.policy(&[]), &bounds())).unwrap()
    }

    /// Lists the files with a hit, as `path:lines`.
    fn hits(&self, pattern: &str, scope: &Scope) -> Vec<String> {
        let found = self.search_for(pattern, scope);
        assert!(found.complete);
        found.files.iter().map(|it| format!("{}:{}", self.workspace.relative(&it.path), it.lines)).collect()
    }

    fn names(&self, scope: &Scope) -> Vec<String> {
        let Names { names, complete, .. } =
            block_on(self.workspace.names(scope.clone(), |_, _| true, &bounds())).unwrap();
        assert!(complete);
        names.iter().map(|name| self.workspace.relative(&name.path)).collect()
    }

    fn with_editor(self, editor: Arc<OpenTexts>) -> Self {
        let workspace =
            Workspace::open(&self.directory.join("root"), &state(&self.directory), Some(editor)).unwrap().0;
        Self { workspace, ..self }
    }
}

/// An editor with documents that can delay its answers.
#[derive(Default)]
struct OpenTexts {
    texts: Mutex<BTreeMap<AbsPath, String>>,
    held: Mutex<bool>,
    released: Condvar,
}

impl Editor for OpenTexts {
    fn documents(&self) -> Vec<Document> {
        self.released.wait_while(&mut self.held.lock(), |held| *held);
        let paths: Vec<AbsPath> = self.texts.lock().keys().cloned().collect();
        paths.iter().filter_map(|path| self.document(path)).collect()
    }

    fn document(&self, path: &AbsPath) -> Option<Document> {
        let text: Arc<str> = self.texts.lock().get(path)?.as_str().into();
        let version = Version { hash: ContentHash::of(text.as_bytes()), editor: Some(1) };
        let (uri, owner) = (paths::path_to_uri(path.as_path()), Owner::Editor { dirty: true });
        Some(Document { path: path.clone(), uri, text, bom: false, version, owner, blocked: None })
    }

    fn apply<'a>(&'a self, _: &'a RunId, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<ApplyOutcome>> {
        Box::pin(async move { vec![ApplyOutcome::Unknown; changes.len()] })
    }

    fn revert<'a>(&'a self, run: &'a RunId, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<ApplyOutcome>> {
        self.apply(run, changes)
    }
}

#[test]
fn ignore_rules_match_those_of_git() {
    let fixture = Fixture::new(&[
        (".gitignore", "*.log\n!keep.log\n/build\n"),
        ("a.txt", "x\n"),
        ("a.log", "x\n"),
        ("keep.log", "x\n"),
        ("build/a.txt", "x\n"),
        ("sub/build/a.txt", "x\n"),
        (".hidden/a.txt", "x\n"),
        (".git/config", "x\n"),
        ("sub/.ignore", "b.txt\n"),
        ("sub/b.txt", "x\n"),
        ("repo/.git/HEAD", "x\n"),
        ("repo/c.log", "x\n"),
        ("repo/.gitignore", "d.txt\n"),
        ("repo/d.txt", "x\n"),
    ]);
    let mut scope = fixture.everything();
    let plain = ["a.txt:1", "keep.log:1", "repo/c.log:1", "sub/build/a.txt:1"];
    assert_eq!(fixture.hits("^x", &scope), plain);
    scope.hidden = true;
    assert_eq!(fixture.hits("^x", &scope), [&[".hidden/a.txt:1"], &plain[..]].concat());
    scope.ignored = true;
    let all = fixture.hits("^x", &scope);
    assert_eq!(all.len(), 9, "{all:?}");
    assert!(all.iter().all(|path| !path.contains(".git/")), "{all:?}");
    // A named directory is searched, and the rules above it hold there.
    assert_eq!(fixture.hits("^x", &Scope::new(fixture.path("build"))), ["build/a.txt:1"]);
    assert_eq!(fixture.hits("^x", &Scope::new(fixture.path("sub"))), ["sub/build/a.txt:1"]);
    assert_eq!(fixture.hits("^x", &Scope::new(fixture.path("a.log"))), ["a.log:1"]);
    let names = fixture.names(&fixture.everything());
    assert_eq!(names, ["a.txt", "keep.log", "repo", "repo/c.log", "sub", "sub/build", "sub/build/a.txt"]);
}

#[test]
fn hidden_files_are_listed_and_hidden_directories_not_entered() {
    let names =
        [".git/x", ".gitignore", ".rc", ".tool/deep/x", ".tool/x", "a.txt", "b/.rc", "built/x", "own/x", "z"];
    let fixture = Fixture::new(&names.map(|it| (it, if it == ".gitignore" { "built\nz\n" } else { "x" })));
    let root = fixture.workspace.root();
    let without = [root.join("own")];
    let met = fixture.workspace.files_and_hidden(root, &without);
    let met: Vec<_> = met.map(|(path, kind)| (fixture.workspace.relative(&path), kind)).collect();
    let names = [".", ".gitignore", ".rc", ".tool", "a.txt", "b", "b/.rc"];
    let is_directory = |it: &str| [".", ".tool", "b"].contains(&it);
    let kind = |it: &str| if is_directory(it) { EntryKind::Directory } else { EntryKind::File };
    assert_eq!(met, names.map(|it| (it.to_owned(), kind(it))));
    let inside: Vec<_> = fixture.workspace.files_and_hidden(&root.join(".tool"), &[]).collect();
    assert_eq!(inside.len(), 4, "it and all below");
}

#[test]
fn globs_select_files() {
    let fixture = Fixture::new(&[("a.rs", "x\n"), ("b.py", "x\n"), ("src/c.rs", "x\n"), ("out/d.rs", "x\n")]);
    let mut scope = fixture.everything();
    scope.globs = Globs::parse("*.rs,!out/", &scope.at, &scope.at).unwrap();
    assert_eq!(fixture.hits("x", &scope), ["a.rs:1", "src/c.rs:1"]);
    let found = fixture.search_for("nothing", &scope);
    assert_eq!((found.searched, found.files.len()), (2, 0));
}

#[test]
fn names_of_any_bytes_survive() {
    let fixture = Fixture::new(&[]);
    let names: [&[u8]; 6] = [b"a b", b"new\nline", b"q\"uote'", b"\xff\xfe.txt", b"[x]", b" "];
    for name in names {
        let directory = fixture.workspace.root().join(OsStr::from_bytes(name));
        write(directory.join(OsStr::from_bytes(name)).as_path(), "hit\n");
    }
    let mut found: Vec<AbsPath> =
        fixture.search_for("hit", &fixture.everything()).files.into_iter().map(|it| it.path).collect();
    let mut expected: Vec<AbsPath> = names
        .iter()
        .map(|name| fixture.workspace.root().join(OsStr::from_bytes(name)).join(OsStr::from_bytes(name)))
        .collect();
    expected.sort();
    assert!(found.is_sorted(), "in order of path");
    found.sort();
    assert_eq!(found, expected);
    assert_eq!(fixture.names(&fixture.everything()).len(), 12);
    let tree =
        block_on(fixture.workspace.tree(fixture.workspace.root().clone(), 2, fixture.policy(&[]), &bounds()));
    let (entries, is_whole) = tree.unwrap();
    assert!(is_whole && entries.len() == 6);
    assert!(entries.iter().all(|it| it.entries.as_ref().unwrap()[0].size == 4));
}

#[test]
fn links_pipes_and_binary_files_are_left_out() {
    let fixture = Fixture::new(&[("a.txt", "hit\n"), ("sub/b.txt", "hit\n")]);
    let root = fixture.workspace.root().clone();
    write(&fixture.directory.join("outside/secret.txt"), "hit\n");
    for (target, link) in [("..", "sub/loop"), ("../outside", "out"), ("a.txt", "link"), ("nowhere", "dead")]
    {
        std::os::unix::fs::symlink(target, root.join(link)).unwrap();
    }
    rustix::fs::mknodat(
        rustix::fs::CWD,
        root.join("pipe").as_path(),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    fixture.write("binary", b"hit\nhit\0hit\n");
    fixture.write("late binary", [b"hit\n".repeat(100_000), vec![0]].concat());
    fixture.write("latin.txt", b"hit one\n\xe9t\xe9 hit\n");
    let sparse = std::fs::File::create(root.join("sparse")).unwrap();
    sparse.set_len(1 << 30).unwrap();
    let found = fixture.search_for("hit", &fixture.everything());
    let names: Vec<_> = found.files.iter().map(|it| fixture.workspace.relative(&it.path)).collect();
    assert_eq!(names, ["a.txt", "latin.txt", "sub/b.txt"]);
    assert_eq!((found.searched, found.binary, found.failed), (3, 3, 0));
    let Form::LookOnly(LookOnly::NotUtf8, samples) = &found.files[1].form else {
        panic!("{:?}", found.files[1]);
    };
    assert_eq!(samples, &[(1, "hit one".to_owned()), (2, "\u{fffd}t\u{fffd} hit".to_owned())]);
    // As a named path, a pipe is not a file, and a zero byte in UTF-8 is text.
    let query = Arc::new(Query::new("hit", QueryOptions::default()).unwrap());
    let named =
        |path: &str| fixture.search_as(&Scope::new(fixture.path(path)), query.clone(), fixture.policy(&[]));
    assert_eq!(named("pipe").unwrap_err().code(), policy::ErrorCode::NotAFile);
    assert_eq!(named("none").unwrap_err().code(), policy::ErrorCode::NotFound);
    assert_eq!(named("binary").unwrap().files[0].lines, 2);
    assert_eq!(named("late binary").unwrap().files[0].lines, 100_000);
    let kinds: Vec<EntryKind> =
        block_on(fixture.workspace.names(fixture.everything(), |_, _| true, &bounds()))
            .unwrap()
            .names
            .into_iter()
            .filter(|it| ["pipe", "link", "sub"].contains(&it.path.file_name().as_str()))
            .map(|it| it.kind)
            .collect();
    assert_eq!(kinds, [EntryKind::Link, EntryKind::Other, EntryKind::Directory]);
}

#[test]
fn line_ends_and_byte_order_marks_do_not_match() {
    let fixture = Fixture::new(&[
        ("crlf", "one\r\ntwo\r\n"),
        ("mark", "\u{feff}one\n"),
        ("cr", "zero\rone\rtwo"),
        ("lf", "one\n"),
    ]);
    assert_eq!(fixture.hits("^one$", &fixture.everything()), ["cr:1", "crlf:1", "lf:1", "mark:1"]);
    assert_eq!(fixture.hits("^two$", &fixture.everything()), ["cr:1", "crlf:1"]);
}

#[test]
fn too_large_files_are_searched_as_a_stream() {
    let fixture = Fixture::new(&[]);
    let line = format!("some text of a log{}\n", ".".repeat(2000));
    let mut text = line.repeat((33 << 20) / line.len());
    text.push_str("the needle\n");
    fixture.write("big.log", &text);
    let found = fixture.search_for("needle", &fixture.everything());
    let Form::LookOnly(LookOnly::TooLarge, samples) = &found.files[0].form else {
        panic!("{:?}", found.files[0]);
    };
    assert_eq!(samples, &[(text.lines().count() as u64, "the needle".to_owned())]);
    assert_eq!(
        fixture.hits("^some", &fixture.everything()),
        [format!("big.log:{}", text.lines().count() - 1)]
    );
    let query = QueryOptions { multiline: true, ..QueryOptions::default() };
    let query = Arc::new(Query::new(r"log\.*\s+the", query).unwrap());
    let found = fixture.search_as(&fixture.everything(), query, fixture.policy(&[])).unwrap();
    assert_eq!((found.failed, found.files.len()), (1, 0));
    assert!(found.failures[0].contains("too large"), "{:?}", found.failures);
}

#[test]
fn a_match_in_a_file_of_several_pieces_is_counted_once() {
    let fixture = Fixture::new(&[]);
    // Some lines span the border between two pieces.
    let text: String = (0..400_000).map(|at| format!("line {at} of many\n")).collect();
    fixture.write("many.txt", &text);
    assert_eq!(fixture.hits("^line \\d+ of many$", &fixture.everything()), ["many.txt:400000"]);
}

#[test]
fn protected_files_are_named_but_not_searched() {
    let fixture = Fixture::new(&[
        ("a.txt", "hit\n"),
        ("server.pem", "hit\n"),
        ("other.key", "nothing\n"),
        (".env", "hit\n"),
        ("private/b.txt", "hit\n"),
    ]);
    let found = fixture.search_for("hit", &Scope { hidden: true, ..fixture.everything() });
    let names =
        |paths: &[AbsPath]| paths.iter().map(|path| fixture.workspace.relative(path)).collect::<Vec<_>>();
    assert_eq!(names(&found.protected), [".env", "other.key", "server.pem"]);
    assert_eq!((found.files.len(), found.searched), (2, 2));
    let query = Arc::new(Query::new("hit", QueryOptions::default()).unwrap());
    let policy = fixture.policy(&["deny read private/**", "allow read *.pem"]);
    let found = fixture.search_as(&fixture.everything(), query, policy).unwrap();
    assert_eq!(names(&found.protected), ["other.key", "private/b.txt"]);
    assert_eq!(found.files.iter().map(|it| it.path.file_name()).collect::<Vec<_>>(), ["a.txt", "server.pem"]);
}

#[test]
fn open_documents_are_searched_in_the_editors_version() {
    let fixture = Fixture::new(&[
        (".gitignore", "ignored/\n"),
        ("a.txt", "on the disk\n"),
        ("b.txt", "on the disk\n"),
        ("ignored/c.txt", "on the disk\n"),
    ]);
    let editor = Arc::new(OpenTexts::default());
    for path in ["a.txt", "new directory/new.txt", "ignored/new.txt", ".hidden/new.txt", "server.pem"] {
        editor.texts.lock().insert(fixture.path(path), "in the editor\n".to_owned());
    }
    let fixture = fixture.with_editor(editor);
    let scope = fixture.everything();
    assert_eq!(fixture.hits("editor", &scope), ["a.txt:1", "new directory/new.txt:1"]);
    assert_eq!(fixture.hits("disk", &scope), ["b.txt:1"]);
    let only = Scope { globs: Globs::parse("n*.txt", &scope.at, &scope.at).unwrap(), ..scope.clone() };
    assert_eq!(fixture.hits("editor", &only), ["new directory/new.txt:1"]);
    let named = Scope::new(fixture.path("new directory/new.txt"));
    assert_eq!(fixture.hits("editor", &named), ["new directory/new.txt:1"]);
    assert_eq!(fixture.search_for("editor", &scope).protected, [fixture.path("server.pem")]);
    assert_eq!(fixture.names(&scope), ["a.txt", "b.txt", "new directory/new.txt", "server.pem"]);
    let entries = fixture.tree(1).0;
    let shown: Vec<_> =
        entries.iter().map(|it| (it.name.to_str().unwrap(), it.ignored, it.unsaved)).collect();
    let expected = [
        (".gitignore", false, false),
        ("a.txt", false, false),
        ("b.txt", false, false),
        ("ignored", true, false),
        ("server.pem", false, true),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn a_tree_is_read_by_level_without_ignored_directories() {
    let fixture = Fixture::new(&[
        (".gitignore", "out\n"),
        ("out/x/a", ""),
        ("src/x/y/b", "12345"),
        (".git/HEAD", ""),
        (".github/w.yml", ""),
    ]);
    let tree = |depth| {
        fn names(entries: &[TreeEntry], out: &mut Vec<String>, root: &AbsPath) {
            for it in entries {
                let mark = if it.ignored { "!" } else { "" };
                out.push(format!("{}{mark}", it.path.strip_prefix(root).unwrap().display()));
                names(it.entries.as_deref().unwrap_or_default(), out, root);
            }
        }
        let mut out = Vec::new();
        names(&fixture.tree(depth).0, &mut out, fixture.workspace.root());
        out
    };
    assert_eq!(tree(1), [".git!", ".github", ".gitignore", "out!", "src"]);
    assert_eq!(tree(3)[1..3], [".github", ".github/w.yml"]);
    assert_eq!(tree(3)[4..], ["out!", "src", "src/x", "src/x/y"]);
    assert_eq!(tree(9)[8..], ["src/x/y/b"]);
}

#[test]
fn a_cancelled_search_returns_at_once() {
    let fixture = Fixture::new(&[("a.txt", "hit\n")]);
    let editor = Arc::new(OpenTexts::default());
    *editor.held.lock() = true;
    let fixture = fixture.with_editor(editor.clone());
    let cancel = CancellationToken::new();
    let bounds = Bounds { cancel: cancel.clone(), ..bounds() };
    let query = Arc::new(Query::new("hit", QueryOptions::default()).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let search = fixture.workspace.search(fixture.everything(), query, fixture.policy(&[]), &bounds);
        let mut search = std::pin::pin!(search);
        assert!(futures_util::FutureExt::now_or_never(&mut search).is_none());
        let started = Instant::now();
        cancel.cancel();
        assert!(matches!(search.await, Err(SearchError::Cancelled)));
        assert!(started.elapsed() < Duration::from_secs(2));
    });
    *editor.held.lock() = false;
    editor.released.notify_all();
}

#[test]
fn a_search_returns_partial_results_at_its_deadline() {
    let files: Vec<(String, &str)> = (0..50).map(|at| (format!("{at}.txt"), "hit\n")).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let fixture = Fixture::new(&files);
    let bounds = Bounds { time: Duration::ZERO, ..bounds() };
    let query = Arc::new(Query::new("hit", QueryOptions::default()).unwrap());
    let search = fixture.workspace.search(fixture.everything(), query, fixture.policy(&[]), &bounds);
    let found = block_on(search).unwrap();
    assert!(!found.complete && found.files.len() < 50);
    let names = block_on(fixture.workspace.names(fixture.everything(), |_, _| true, &bounds)).unwrap();
    assert!(!names.complete && names.names.len() < 50);
}

#[test]
fn files_deleted_during_a_search_are_skipped() {
    let fixture = Fixture::new(&[]);
    for at in 0..500 {
        fixture.write(&format!("{}/{at}.txt", at % 20), "hit\n");
    }
    fixture.write("stays.txt", "hit\n");
    let root = fixture.workspace.root().clone();
    let gone = std::thread::spawn(move || {
        (0..20).for_each(|directory| std::fs::remove_dir_all(root.join(directory.to_string())).unwrap());
    });
    let found = fixture.search_for("hit", &fixture.everything());
    gone.join().unwrap();
    assert!(found.complete && found.failed == 0, "{:?}", found.failures);
    assert_eq!(found.files.last().unwrap().path, fixture.path("stays.txt"));
    assert_eq!(fixture.hits("hit", &fixture.everything()), ["stays.txt:1"]);
}
