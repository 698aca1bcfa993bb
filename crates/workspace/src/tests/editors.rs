//! Commits that reach into a scripted editor, whose answers the test sets.

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use policy::ErrorCode;

use super::*;
use crate::{
    ApplyOutcome, ContentHash, Document, Editor, FileChange, Hold, Holds, Owner, Peers, ReviewError,
    Selection,
};

/// Holds `*.open` files with unsaved text; refuses those whose path is listed.
#[derive(Default)]
pub(super) struct Scripted {
    pub(super) texts: Mutex<BTreeMap<AbsPath, String>>,
    refuses: Mutex<BTreeMap<AbsPath, ApplyOutcome>>,
    cannot_revert: Mutex<bool>,
    reverted: Mutex<Vec<AbsPath>>,
    /// Number of characters that the port prepends, if it can rebase on them.
    pub(super) follows: Mutex<Option<usize>>,
    blocked: Mutex<Option<String>>,
    /// Texts that the user types, last first: one after each read of a document.
    pub(super) typed: Mutex<Vec<String>>,
    /// The write of another program during the commit.
    pub(super) meanwhile: Mutex<Option<(AbsPath, String)>>,
    /// The work of another thread during the commit.
    pub(super) during: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Editor for Scripted {
    fn rebase(&self, change: &FileChange) -> Option<Vec<TextEdit>> {
        let by = (*self.follows.lock())?;
        let moved =
            |edit: &TextEdit| TextEdit::replace(edit.range.start + by..edit.range.end + by, &edit.new_text);
        Some(change.edits.iter().map(moved).collect())
    }

    fn documents(&self) -> Vec<Document> {
        let paths: Vec<AbsPath> = self.texts.lock().keys().cloned().collect();
        paths.iter().filter_map(|path| self.document(path)).collect()
    }

    fn document(&self, path: &AbsPath) -> Option<Document> {
        let mut texts = self.texts.lock();
        let text = texts.get(path)?.clone();
        if let Some(typed) = self.typed.lock().pop() {
            texts.insert(path.clone(), typed);
        }
        Some(Document {
            path: path.clone(),
            uri: paths::path_to_uri(path.as_path()),
            text: text.as_str().into(),
            bom: false,
            version: Version { hash: ContentHash::of(text.as_bytes()), editor: Some(text.len() as i32) },
            owner: Owner::Editor { dirty: true },
            blocked: self.blocked.lock().clone(),
        })
    }

    fn apply<'a>(&'a self, _: &'a RunId, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<ApplyOutcome>> {
        Box::pin(async move {
            if let Some((path, text)) = self.meanwhile.lock().take() {
                std::fs::write(path, text).unwrap();
            }
            if let Some(work) = self.during.lock().take() {
                work();
            }
            let mut texts = self.texts.lock();
            let refuses = self.refuses.lock();
            let apply = |change: &FileChange| match refuses.get(&change.path) {
                Some(outcome) => outcome.clone(),
                None => {
                    let text = texts.get_mut(&change.path).unwrap();
                    *text = text::apply(text, &change.edits).unwrap();
                    ApplyOutcome::Applied
                }
            };
            changes.iter().map(apply).collect()
        })
    }

    fn revert<'a>(&'a self, _: &'a RunId, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<ApplyOutcome>> {
        Box::pin(async move {
            if *self.cannot_revert.lock() {
                return changes
                    .iter()
                    .map(|_| ApplyOutcome::NotApplied { reason: Some("busy".into()) })
                    .collect();
            }
            let mut texts = self.texts.lock();
            for change in changes {
                texts.insert(change.path.clone(), change.before.as_deref().unwrap().to_owned());
                self.reverted.lock().push(change.path.clone());
            }
            changes.iter().map(|_| ApplyOutcome::Applied).collect()
        })
    }
}

/// Opens `x.open` and `y.open` in the editor as "unsaved"; `disk` is closed.
fn fixture() -> (Fixture, Arc<Scripted>) {
    let mut fixture = Fixture::new(&[("x.open", "saved"), ("y.open", "saved"), ("disk", "saved")]);
    let editor = Arc::new(Scripted::default());
    for path in ["x.open", "y.open"] {
        editor.texts.lock().insert(fixture.path(path), "unsaved".to_owned());
    }
    let root = fixture.directory.as_path().join("root");
    let port: Arc<dyn Editor> = editor.clone();
    fixture.workspace = Workspace::open(&root, &state(fixture.directory.as_path()), Some(port)).unwrap().0;
    (fixture, editor)
}

fn all(fixture: &Fixture) -> Vec<Operation> {
    vec![
        fixture.replace("x.open", "un", "X"),
        fixture.replace("y.open", "un", "Y"),
        fixture.replace("disk", "saved", "D"),
    ]
}

fn open_texts(editor: &Scripted) -> Vec<String> {
    editor.texts.lock().values().cloned().collect()
}

#[test]
fn an_open_file_changes_in_the_editor_and_not_on_the_disk() {
    let (fixture, editor) = fixture();
    let commit = fixture.commit(all(&fixture)).unwrap();
    assert_eq!(open_texts(&editor), ["Xsaved", "Ysaved"]);
    assert_eq!(["x.open", "y.open", "disk"].map(|path| fixture.text(path)), ["saved", "saved", "D"]);
    let version = commit.files.iter().find(|file| file.path == fixture.path("x.open")).unwrap().version;
    assert_eq!(version, Some(Version { hash: ContentHash::of(b"Xsaved"), editor: Some(6) }));
    fixture.undo();
    assert_eq!(open_texts(&editor), ["unsaved", "unsaved"]);
    assert_eq!(["x.open", "disk"].map(|path| fixture.text(path)), ["saved", "saved"]);
}

#[test]
fn a_concurrent_write_is_not_overwritten() {
    let (fixture, editor) = fixture();
    write(&fixture.directory.join("root/first"), "first");
    let before = fixture.files();
    for path in ["disk", "first"] {
        let meanwhile = (fixture.path(path), "foreign".to_owned());
        *editor.meanwhile.lock() = Some(meanwhile);
        let mut operations = all(&fixture);
        operations.push(fixture.replace("first", "first", "F"));
        match fixture.commit(operations) {
            Err(CommitError::Moved { paths }) => assert_eq!(paths, [fixture.path(path)]),
            other => panic!("{other:?}"),
        }
        assert_eq!(fixture.text(path), "foreign");
        assert_eq!(open_texts(&editor), ["unsaved", "unsaved"]);
        assert!(fixture.workspace.history().unwrap().is_empty());
        write(&fixture.directory.join("root").join(path), if path == "disk" { "saved" } else { "first" });
        assert_eq!(fixture.files(), before);
    }
}

#[test]
fn a_refusal_by_the_editor_reverts_everything() {
    let (fixture, editor) = fixture();
    let before = fixture.files();
    let refused = ApplyOutcome::NotApplied { reason: Some("read-only view".to_owned()) };
    editor.refuses.lock().insert(fixture.path("y.open"), refused);
    match fixture.commit(all(&fixture)) {
        Err(error @ CommitError::NotApplied { .. }) => {
            assert_eq!(error.code(), ErrorCode::NotApplied);
            let text = error.to_string();
            expect_test::expect!["the editor did not apply the edit of y.open; all changes were reverted: x.open: reverted; y.open: unchanged (refused: read-only view); disk: unchanged"].assert_eq(&fixture.relative(&text));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(*editor.reverted.lock(), [fixture.path("x.open")]);
    assert_eq!((open_texts(&editor), fixture.files()), (vec!["unsaved".to_owned(); 2], before));
    assert!(fixture.workspace.history().unwrap().is_empty());
}

#[test]
fn irreversible_changes_are_reported() {
    let (fixture, editor) = fixture();
    editor.refuses.lock().insert(fixture.path("y.open"), ApplyOutcome::NotApplied { reason: None });
    *editor.cannot_revert.lock() = true;
    match fixture.commit(all(&fixture)) {
        Err(CommitError::PartlyReverted { details }) => {
            assert!(
                details.iter().any(|line| line.contains("x.open") && line.contains("busy")),
                "{details:?}"
            );
        }
        other => panic!("{other:?}"),
    }
    editor.refuses.lock().insert(fixture.path("y.open"), ApplyOutcome::Unknown);
    *editor.cannot_revert.lock() = false;
    let error = fixture.commit(vec![fixture.replace("y.open", "un", "Y")]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::PartlyReverted, "not known whether it was applied");
}

#[test]
fn a_disk_failure_reverts_the_editors_changes() {
    let (fixture, editor) = fixture();
    std::fs::create_dir(fixture.path("full")).unwrap();
    let before = fixture.files();
    // It can be staged, but a directory takes its path before it is moved there.
    struct Meddler(Arc<Scripted>, AbsPath);
    impl Editor for Meddler {
        fn documents(&self) -> Vec<Document> {
            self.0.documents()
        }
        fn document(&self, path: &AbsPath) -> Option<Document> {
            self.0.document(path)
        }
        fn apply<'a>(
            &'a self,
            run: &'a RunId,
            changes: &'a [FileChange],
        ) -> BoxFuture<'a, Vec<ApplyOutcome>> {
            write(self.1.join("inside").as_path(), "in the way");
            self.0.apply(run, changes)
        }
        fn revert<'a>(
            &'a self,
            run: &'a RunId,
            changes: &'a [FileChange],
        ) -> BoxFuture<'a, Vec<ApplyOutcome>> {
            self.0.revert(run, changes)
        }
    }
    let meddler = Arc::new(Meddler(editor.clone(), fixture.path("new")));
    let root = fixture.directory.as_path().join("root");
    let workspace = Workspace::open(&root, &state(fixture.directory.as_path()), Some(meddler)).unwrap().0;
    let operations = [all(&fixture), vec![fixture.create("new", "text")]].concat();
    let plan = workspace
        .plan(WorkspaceEdit { label: String::new(), operations, ..WorkspaceEdit::default() })
        .unwrap();
    let permit = permit(&plan);
    let error = block_on(workspace.commit(plan, permit, &RunId::new())).unwrap_err();
    assert_eq!(error.code(), ErrorCode::StaleText, "{error}");
    assert_eq!(open_texts(&editor), ["unsaved", "unsaved"]);
    let mut files = fixture.files();
    assert_eq!(files.remove("new/inside"), Some(b"in the way".to_vec()));
    assert_eq!(files, before);
}

#[test]
fn a_file_opened_or_typed_in_since_must_be_replanned() {
    let (fixture, editor) = fixture();
    let plan = fixture.plan(all(&fixture)).unwrap();
    editor.texts.lock().insert(fixture.path("x.open"), "unsaved!".to_owned());
    editor.texts.lock().insert(fixture.path("disk"), "saved".to_owned());
    match fixture.commit_plan(&RunId::new(), plan) {
        Err(CommitError::Moved { paths }) => {
            assert_eq!(paths, [fixture.path("disk"), fixture.path("x.open")])
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn typing_elsewhere_in_the_file_rebases_the_edit() {
    let (fixture, editor) = fixture();
    let plan = fixture.plan(all(&fixture)).unwrap();
    editor.texts.lock().insert(fixture.path("x.open"), "typed unsaved".to_owned());
    *editor.follows.lock() = Some(6);
    let commit = fixture.commit_plan(&RunId::new(), plan).unwrap();
    assert_eq!(open_texts(&editor), ["typed Xsaved", "Ysaved"]);
    let file = commit.files.iter().find(|file| file.path == fixture.path("x.open")).unwrap();
    assert_eq!(file.edits, [TextEdit::replace(6..8, "X")]);
    assert!(commit.notes.is_empty(), "{:?}", commit.notes);
    fixture.undo();
    assert_eq!(open_texts(&editor), ["typed unsaved", "unsaved"]);
}

#[test]
fn documents_that_must_not_be_written_are_refused() {
    let (fixture, editor) = fixture();
    let plan = fixture.plan(all(&fixture)).unwrap();
    *editor.blocked.lock() = Some("reload it".to_owned());
    match fixture.commit_plan(&RunId::new(), plan) {
        Err(CommitError::Held { path, reason }) => {
            assert_eq!((path, reason.as_str()), (fixture.path("x.open"), "reload it"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(fixture.plan(all(&fixture)).unwrap_err().code(), ErrorCode::Conflict);
    assert!(fixture.plan(vec![fixture.replace("disk", "saved", "D")]).is_ok());
    assert_eq!(
        (open_texts(&editor), fixture.text("disk")),
        (vec!["unsaved".to_owned(); 2], "saved".to_owned())
    );
}

/// Peers that give the test's answer to every question.
struct Said(Holds);

impl Peers for Said {
    fn holds<'a>(&'a self, paths: &'a [AbsPath]) -> BoxFuture<'a, Holds> {
        let Holds { mut held, notes } = self.0.clone();
        held.retain(|hold| paths.contains(&hold.path));
        Box::pin(async { Holds { held, notes } })
    }
}

#[test]
fn files_that_peers_hold_are_refused() {
    let (fixture, editor) = fixture();
    let hold = |path: &str| Hold { path: fixture.path(path), reason: format!("{path} is held by Ed") };
    let held = vec![hold("y.open"), hold("disk"), hold("elsewhere")];
    fixture.workspace.set_peers(Arc::new(Said(Holds { held, notes: Vec::new() })));
    let before = fixture.files();
    let error = fixture.commit(all(&fixture)).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Conflict);
    let text = error.to_string();
    expect_test::expect!["disk cannot be written: disk is held by Ed; nor can y.open: y.open is held by Ed"]
        .assert_eq(&fixture.relative(&text));
    assert!(!text.contains("elsewhere"), "{text}");
    assert_eq!((fixture.files(), open_texts(&editor)), (before, vec!["unsaved".to_owned(); 2]));
    // Files that no peer holds are written.
    fixture.commit(vec![fixture.replace("x.open", "un", "X")]).unwrap();
}

#[test]
fn a_silent_peer_is_noted_in_the_commit() {
    let (fixture, _) = fixture();
    let notes = vec!["Ed does not answer".to_owned()];
    fixture.workspace.set_peers(Arc::new(Said(Holds { held: Vec::new(), notes: notes.clone() })));
    assert_eq!(fixture.commit(all(&fixture)).unwrap().notes, notes);
}

#[test]
fn a_rejection_keeps_text_typed_while_it_is_planned() {
    let (fixture, editor) = fixture();
    let run = RunId::new();
    fixture.commit_as(&run, vec![fixture.replace("x.open", "un", "new\nun")]).unwrap();
    let runs = std::slice::from_ref(&run);
    let plan = || fixture.workspace.plan_rejection("review", runs, runs, Selection::All);
    // The user does not stop.
    *editor.typed.lock() = (0..100).map(|nth| format!("new\nunsaved\n{nth}")).collect();
    assert!(matches!(plan(), Err(ReviewError::Plan(PlanError::Stale { .. }))));
    *editor.typed.lock() = vec!["new\nunsaved\nmine".to_owned()];
    let rejection = plan().unwrap();
    fixture.commit_plan(&rejection.run, rejection.plan).unwrap();
    assert_eq!(editor.texts.lock()[&fixture.path("x.open")], "unsaved\nmine");
}
