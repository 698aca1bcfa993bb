//! Proposed edits: the texts that readers see, and the user's decisions.

use policy::{Answer, Approver, Question};

use super::editors::Scripted;
use super::*;
use crate::{Editor, HunkKind, Owner, ReviewError, Selection};

const NAME: &str = "session";

/// Fails the test if it is asked.
struct NoAnswers;

impl Approver for NoAnswers {
    fn ask<'a>(
        &'a self,
        question: Question,
        _: &'a tokio_util::sync::CancellationToken,
    ) -> futures_util::future::BoxFuture<'a, Answer> {
        panic!("asked: {}", question.title)
    }
}

fn proposal_permit(plan: &Plan) -> policy::Permit {
    let root = AbsPath::new("/").unwrap();
    let trust = TrustStore::new(StateDir::new(root.join("nowhere")));
    let policy = Policy::new(PolicyOptions::new(trust, root)).proposing(true);
    block_on(policy.permit(plan, &NoAnswers, &Default::default())).unwrap()
}

/// A fixture whose agent proposes.
struct Session {
    fixture: Fixture,
    editor: Option<Arc<Scripted>>,
    runs: Vec<RunId>,
}

impl Session {
    fn new(files: &[(&str, &str)]) -> Self {
        Self { fixture: Fixture::new(files), editor: None, runs: vec![RunId::new()] }
    }

    /// The editor has `path` open with an unsaved text.
    fn with_editor(files: &[(&str, &str)], path: &str, text: &str) -> Self {
        let mut session = Self::new(files);
        let editor = Arc::new(Scripted::default());
        editor.texts.lock().insert(session.fixture.path(path), text.to_owned());
        let port: Arc<dyn Editor> = editor.clone();
        let directory = session.fixture.directory.clone();
        let opened = Workspace::open(&directory.join("root"), &state(&directory), Some(port));
        session.fixture.workspace = opened.unwrap().0;
        session.editor = Some(editor);
        session
    }

    fn editor(&self) -> &Scripted {
        self.editor.as_ref().unwrap()
    }

    /// Proposes while the editor applies the next commit.
    fn propose_while_it_is_applied(&self, path: &str, old: &str, new: &str) {
        let plan = self.fixture.plan(vec![self.fixture.replace(path, old, new)]).unwrap();
        let (workspace, run) = (self.workspace().clone(), self.run().clone());
        let propose = move || drop(workspace.inner.propose(&plan, &run).unwrap());
        *self.editor().during.lock() = Some(Box::new(propose));
    }

    /// Opens the workspace again, with the same editor.
    fn reopen(&mut self) {
        let port: Arc<dyn Editor> = self.editor.clone().unwrap();
        let directory = &self.fixture.directory;
        self.fixture.workspace =
            Workspace::open(&directory.join("root"), &state(directory), Some(port)).unwrap().0;
    }

    /// The file of the stored proposals.
    fn stored(&self) -> AbsPath {
        self.workspace().state().child("review").unwrap().path().join("proposals.json")
    }

    fn workspace(&self) -> &Workspace {
        &self.fixture.workspace
    }

    fn run(&self) -> &RunId {
        self.runs.last().unwrap()
    }

    fn propose_plan(&self, plan: Plan) -> Result<Arc<Commit>, CommitError> {
        let permit = proposal_permit(&plan);
        block_on(self.workspace().commit(plan, permit, self.run()))
    }

    fn propose(&self, operations: Vec<Operation>) -> Arc<Commit> {
        self.propose_plan(self.fixture.plan(operations).unwrap()).unwrap()
    }

    fn edit(&self, path: &str, old: &str, new: &str) {
        let commit = self.propose(vec![self.fixture.replace(path, old, new)]);
        assert!(commit.is_proposal());
    }

    /// The text that the agent reads.
    fn seen(&self, path: &str) -> String {
        self.workspace().document(&self.fixture.path(path)).unwrap().text.to_string()
    }

    /// The text of the user, in the editor if it has the file open.
    fn users(&self, path: &str) -> String {
        let path = self.fixture.path(path);
        self.workspace().applied().document(&path).unwrap().text.to_string()
    }

    fn types(&self, path: &str, text: &str) {
        let texts = &self.editor.as_ref().unwrap().texts;
        texts.lock().insert(self.fixture.path(path), text.to_owned());
    }

    /// Renders the review: one line for each change.
    fn shown(&self) -> Vec<String> {
        let review = self.workspace().review(NAME, &self.runs, &self.runs).unwrap();
        let mut shown = Vec::new();
        for file in &review.files {
            let path = self.workspace().relative(&file.path);
            for hunk in &file.hunks {
                let kind = match &hunk.kind {
                    HunkKind::Lines { now, removed, .. } => format!("{now:?} {removed:?}"),
                    other => format!("{other:?}").to_lowercase(),
                };
                let new = hunk.proposed.as_ref().map(|new| format!(" -> {new:?}")).unwrap_or_default();
                let edited = if hunk.is_edited { " edited" } else { "" };
                shown.push(format!("{path} {kind}{new}{edited}"));
            }
        }
        shown
    }

    fn accept(&self, selection: Selection<'_>) -> Result<Vec<crate::Skipped>, ReviewError> {
        let acceptance = self.workspace().plan_acceptance(&self.runs, selection)?;
        let permit = permit(&acceptance.plan);
        let skipped = acceptance.skipped.clone();
        block_on(self.workspace().commit_acceptance(acceptance, permit)).unwrap();
        Ok(skipped)
    }

    fn hunk(&self, file: usize, nth: usize) -> crate::HunkId {
        let review = self.workspace().review(NAME, &self.runs, &self.runs).unwrap();
        review.files[file].hunks[nth].id.clone()
    }
}

#[test]
fn a_proposal_is_seen_and_changes_no_file() {
    let session = Session::new(&[("a", "one\ntwo\nthree\n")]);
    session.edit("a", "two", "2");
    session.propose(vec![session.fixture.create("new/b", "new\n")]);
    assert_eq!((session.seen("a").as_str(), session.seen("new/b").as_str()), ("one\n2\nthree\n", "new\n"));
    assert_eq!(session.fixture.text("a"), "one\ntwo\nthree\n");
    assert_eq!(session.fixture.files().len(), 1);
    let open = session.workspace().open_documents();
    assert!(open.iter().all(|it| it.owner == Owner::Proposed && it.is_unsaved()));
    let files: Vec<_> = session.workspace().files(session.workspace().root()).collect();
    assert_eq!(files, [session.fixture.path("new/b"), session.fixture.path("a")]);
    assert_eq!(session.shown(), ["a 1..2 \"two\\n\" -> \"2\\n\"", "new/b created -> \"new\\n\""]);
    // Other runs do not have them in their review.
    let other = [RunId::new()];
    assert_eq!(session.workspace().review("other", &other, &other).unwrap().files.len(), 0);
    // A second process, as after a restart.
    let other = open_again(&session);
    assert_eq!(other.shown(), session.shown());
    other.edit("a", "three", "3");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while session.seen("a") != "one\n2\n3\n" {
        assert!(std::time::Instant::now() < deadline, "{}", session.seen("a"));
        std::thread::yield_now();
    }
}

fn open_again(session: &Session) -> Session {
    let fixture = Fixture::existing(&session.fixture.directory);
    Session { fixture, editor: None, runs: session.runs.clone() }
}

#[test]
fn accepted_changes_are_commits_that_undo_reverts() {
    let session = Session::new(&[("a", "one\ntwo\nthree\n")]);
    session.edit("a", "one", "1");
    session.edit("a", "three", "3");
    session.propose(vec![session.fixture.create("b", "new\n")]);
    let second = session.hunk(0, 1);
    session.accept(Selection::Hunks(&[second])).unwrap();
    assert_eq!((session.users("a"), session.seen("a")), ("one\ntwo\n3\n".into(), "1\ntwo\n3\n".into()));
    assert_eq!(session.shown(), ["a 0..1 \"one\\n\" -> \"1\\n\"", "b created -> \"new\\n\""]);
    session.accept(Selection::All).unwrap();
    assert_eq!(
        (session.fixture.text("a"), session.fixture.text("b")),
        ("1\ntwo\n3\n".into(), "new\n".into())
    );
    assert_eq!(session.shown(), [""; 0]);
    assert!(session.workspace().open_documents().is_empty());
    assert!(matches!(session.accept(Selection::All), Err(ReviewError::Nothing)));
    // A checkpoint has the accepted changes, although they are reviewed.
    let restored = session.workspace().plan_restore(&session.runs).unwrap();
    assert_eq!(restored.rejected.len(), 3);
    session.fixture.undo();
    assert_eq!(session.fixture.text("a"), "one\ntwo\nthree\n");
    assert_eq!((session.fixture.files().len(), session.shown().len()), (1, 0));
}

#[test]
fn rejected_changes_leave_the_proposal() {
    let session = Session::new(&[("a", "one\ntwo\nthree\n")]);
    session.edit("a", "one", "1");
    session.edit("a", "three", "3");
    let first = session.hunk(0, 0);
    let rejected = session.workspace().reject_proposals(&session.runs, Selection::Hunks(&[first])).unwrap();
    assert_eq!(rejected.len(), 1);
    assert_eq!(session.seen("a"), "one\ntwo\n3\n");
    session.workspace().reject_proposals(&session.runs, Selection::All).unwrap();
    assert_eq!((session.seen("a").as_str(), session.shown().len()), ("one\ntwo\nthree\n", 0));
    assert_eq!(session.workspace().history().unwrap().len(), 0);
}

#[test]
fn the_users_typing_moves_a_proposal_and_stays() {
    let session = Session::with_editor(&[("a", "one\ntwo\n")], "a", "unsaved\none\ntwo\n");
    session.edit("a", "two", "2");
    assert_eq!(session.seen("a"), "unsaved\none\n2\n");
    session.types("a", "unsaved, typed\none\ntwo\ntyped\n");
    assert_eq!(session.seen("a"), "unsaved, typed\none\n2\ntyped\n");
    assert_eq!(session.shown(), ["a 2..3 \"two\\n\" -> \"2\\n\""]);
    session.accept(Selection::All).unwrap();
    assert_eq!(session.users("a"), "unsaved, typed\none\n2\ntyped\n");
    assert_eq!(session.fixture.text("a"), "one\ntwo\n");
    assert_eq!(session.shown(), [""; 0]);
}

#[test]
fn the_users_text_wins_over_a_proposal() {
    let session = Session::with_editor(&[("a", "one\ntwo\nthree\n")], "a", "one\ntwo\nthree\n");
    session.edit("a", "two", "2");
    session.types("a", "one\nmine\nthree\n");
    assert_eq!(session.seen("a"), "one\nmine\nthree\n");
    session.types("a", "one\ntwo\nthree\n");
    assert_eq!(session.seen("a"), "one\n2\nthree\n");
}

#[test]
fn a_conflict_is_shown_until_it_is_rejected() {
    let session = Session::with_editor(&[("a", "1\n2\n3\n4\n5\n")], "a", "1\n2\n3\n4\n5\n");
    session.edit("a", "2", "two");
    session.edit("a", "4", "four");
    session.types("a", "1\nmine\n3\n4\n5\n");
    let conflict = "a 1..2 \"mine\\n\" -> \"two\\n\" edited";
    assert_eq!(session.shown(), [conflict, "a 3..4 \"4\\n\" -> \"four\\n\""]);
    let skipped = session.accept(Selection::All).unwrap();
    assert_eq!((skipped.len(), skipped[0].reason.as_str()), (1, "line 2: you changed it since"));
    assert_eq!(session.users("a"), "1\nmine\n3\nfour\n5\n");
    assert_eq!(session.shown(), [conflict]);
    assert!(matches!(session.accept(Selection::All), Err(ReviewError::Conflict { .. })));
    session.workspace().reject_proposals(&session.runs, Selection::All).unwrap();
    assert_eq!((session.shown().len(), session.users("a").as_str()), (0, "1\nmine\n3\nfour\n5\n"));
}

#[test]
fn the_next_proposal_reports_an_earlier_conflict() {
    let session = Session::with_editor(&[("a", "1\n2\n3\n")], "a", "1\n2\n3\n");
    session.edit("a", "2", "two");
    session.types("a", "1\nmine\n3\n");
    let commit = session.propose(vec![session.fixture.replace("a", "3", "three")]);
    assert_eq!(commit.notes[0], "a: dropped earlier proposed changes, because the user changed these lines");
    assert_eq!(session.seen("a"), "1\nmine\nthree\n");
}

#[test]
fn a_proposal_for_a_deleted_file_conflicts() {
    let session = Session::new(&[("a", "1\n"), ("b", "1\n")]);
    session.edit("a", "1", "one");
    session.propose(vec![session.fixture.create("c", "new\n")]);
    std::fs::remove_file(session.fixture.path("a")).unwrap();
    session.fixture.write("c", "mine\n");
    assert!(session.workspace().document(&session.fixture.path("a")).is_err());
    assert_eq!(session.seen("c"), "mine\n");
    let shown = session.shown();
    assert_eq!(shown, ["a created -> \"one\\n\" edited", "c 0..1 \"mine\\n\" -> \"new\\n\" edited"]);
    assert!(matches!(session.accept(Selection::All), Err(ReviewError::Conflict { .. })));
    assert_eq!(session.fixture.text("c"), "mine\n");
}

#[test]
fn a_proposal_of_an_outdated_plan_is_refused() {
    let session = Session::new(&[("a", "1\n2\n")]);
    let plan = session.fixture.plan(vec![session.fixture.replace("a", "1", "one")]).unwrap();
    session.edit("a", "2", "two");
    assert!(matches!(session.propose_plan(plan), Err(CommitError::Moved { .. })));
    let plan = session.fixture.plan(vec![session.fixture.replace("a", "1", "one")]).unwrap();
    session.fixture.write("a", "1\nmine\n");
    assert!(matches!(session.propose_plan(plan), Err(CommitError::Moved { .. })));
}

#[test]
fn moves_and_deletions_are_not_proposed() {
    let session = Session::new(&[("a", "1\n"), ("d/b", "1\n")]);
    for operation in
        [session.fixture.delete("a"), session.fixture.rename("a", "c"), session.fixture.rename("d", "e")]
    {
        let refused = session.propose_plan(session.fixture.plan(vec![operation]).unwrap()).unwrap_err();
        assert!(matches!(refused, CommitError::NotProposed { .. }), "{refused}");
    }
    // A file that is only proposed can be deleted.
    session.propose(vec![session.fixture.create("c", "new\n")]);
    session.propose(vec![session.fixture.delete("c")]);
    assert_eq!((session.shown().len(), session.fixture.files().len()), (0, 2));
}

#[test]
fn an_edit_of_a_proposed_file_is_proposed() {
    let session = Session::new(&[("a", "1\n2\n"), ("b", "1\n")]);
    session.edit("a", "1", "one");
    let both = vec![session.fixture.replace("a", "2", "two"), session.fixture.replace("b", "1", "one")];
    let commit = session.fixture.commit_as(session.run(), both).unwrap();
    assert!(commit.is_proposal());
    assert_eq!((session.seen("a").as_str(), session.fixture.text("b").as_str()), ("one\ntwo\n", "1\n"));
}

#[test]
fn runs_are_accepted_and_dropped_on_their_own() {
    let mut session = Session::new(&[("a", "1\n2\n3\n")]);
    session.edit("a", "1", "one");
    session.runs.push(RunId::new());
    session.edit("a", "3", "three");
    let history = |session: &Session| {
        let history = session.workspace().history().unwrap();
        history
            .into_iter()
            .map(|it| (it.label, session.runs.iter().position(|run| *run == it.run)))
            .collect::<Vec<_>>()
    };
    // The last run is undone, which has no commit.
    let undo = session.workspace().plan_undo(&Undo::LastRun);
    assert_eq!(undo.as_ref().unwrap().plan.label(), "undo: drop a proposed change");
    session.fixture.apply_undo(undo);
    assert_eq!(session.seen("a"), "one\n2\n3\n");
    session.edit("a", "3", "three");
    session.accept(Selection::All).unwrap();
    assert_eq!(session.fixture.text("a"), "one\n2\n3\n");
    session.accept(Selection::All).unwrap();
    assert_eq!(session.fixture.text("a"), "one\n2\nthree\n");
    let label = "keep a proposed change".to_owned();
    assert_eq!(history(&session), [(label.clone(), Some(1)), (label, Some(0))]);
    session.fixture.apply_undo(session.workspace().plan_undo(&Undo::Run(session.runs[0].clone())));
    assert_eq!(session.fixture.text("a"), "1\n2\nthree\n");
}

#[test]
fn undo_of_a_run_reverts_and_drops_its_changes() {
    let session = Session::with_editor(&[("a", "1\n2\n3\n4\n")], "a", "1\n2\n3\n4\n");
    session.edit("a", "1", "one");
    session.edit("a", "3", "three");
    let first = session.hunk(0, 0);
    session.accept(Selection::Hunks(&[first])).unwrap();
    session.types("a", "one\n2\n3\n4\nmine\n");
    let undo = session.workspace().plan_undo(&Undo::LastRun);
    let label = "undo: keep a proposed change; drop a proposed change";
    assert_eq!(undo.as_ref().unwrap().plan.label(), label);
    session.fixture.apply_undo(undo);
    assert_eq!((session.users("a"), session.seen("a")), ("1\n2\n3\n4\nmine\n".into(), session.users("a")));
    assert_eq!(session.shown(), [""; 0]);
}

#[test]
fn a_refused_acceptance_stays_a_proposal() {
    let session = Session::with_editor(&[("a", "1\n2\n")], "a", "1\n2\n");
    session.edit("a", "1", "one");
    let acceptance = session.workspace().plan_acceptance(&session.runs, Selection::All).unwrap();
    let permit = permit(&acceptance.plan);
    session.types("a", "mine\n2\n");
    let refused = block_on(session.workspace().commit_acceptance(acceptance, permit));
    assert!(matches!(refused, Err(CommitError::Moved { .. })));
    assert_eq!(session.users("a"), "mine\n2\n");
    assert_eq!(session.shown(), ["a 0..1 \"mine\\n\" -> \"one\\n\" edited"]);
}

#[test]
fn an_applied_change_is_reviewed_after_the_proposal() {
    let session = Session::new(&[("a", "1\n2\n3\n")]);
    session.fixture.commit_as(session.run(), vec![session.fixture.replace("a", "1", "one")]).unwrap();
    session.edit("a", "3", "three");
    assert_eq!(session.shown(), ["a 2..3 \"3\\n\" -> \"three\\n\""]);
    session.accept(Selection::All).unwrap();
    assert_eq!(session.shown(), ["a 0..1 \"1\\n\""]);
}

#[test]
fn kept_lines_are_not_inserted_twice() {
    let session = Session::with_editor(&[("a", "1\n2\n")], "a", "1\n2\n");
    session.edit("a", "1\n", "1\nnew\n");
    let acceptance = session.workspace().plan_acceptance(&session.runs, Selection::All).unwrap();
    let permit = permit(&acceptance.plan);
    // The editor can rebase the insertion onto the same one.
    *session.editor().follows.lock() = Some("new\n".len());
    session.types("a", "1\nnew\n2\n");
    let refused = block_on(session.workspace().commit_acceptance(acceptance, permit));
    assert_eq!(session.users("a"), "1\nnew\n2\n");
    assert!(matches!(refused, Err(CommitError::Moved { .. })));
    assert!(matches!(session.accept(Selection::All), Err(ReviewError::Nothing)));
}

#[test]
fn decisions_on_proposals_wait_for_an_acceptance() {
    let session = Session::new(&[("a", "1\n2\n")]);
    session.edit("a", "1", "one");
    let is_free = || session.workspace().state().try_lock("acceptance.lock").unwrap().is_some();
    let acceptance = session.workspace().plan_acceptance(&session.runs, Selection::All).unwrap();
    assert!(!is_free());
    drop(acceptance);
    assert!(is_free());
    let runs = &session.runs;
    let acceptance = session.workspace().plan_acceptance(runs, Selection::All).unwrap();
    let permit = permit(&acceptance.plan);
    std::thread::scope(|scope| {
        let reject = scope.spawn(|| session.workspace().reject_proposals(runs, Selection::All).unwrap());
        block_on(session.workspace().commit_acceptance(acceptance, permit)).unwrap();
        assert_eq!(reject.join().unwrap(), []);
    });
    assert!(is_free());
    assert_eq!(session.fixture.text("a"), "one\n2\n");
}

#[test]
fn a_proposal_during_an_acceptance_stays() {
    let text = "1\n2\n3\n4\n5\n";
    let session = Session::with_editor(&[("a", text)], "a", text);
    session.edit("a", "1", "one");
    session.edit("a", "5", "five");
    // Part of the proposal is kept, and then all of it.
    let first = session.hunk(0, 0);
    session.propose_while_it_is_applied("a", "2", "two");
    session.accept(Selection::Hunks(&[first])).unwrap();
    assert_eq!(session.users("a"), "one\n2\n3\n4\n5\n");
    assert_eq!(session.seen("a"), "one\ntwo\n3\n4\nfive\n");
    assert_eq!(session.shown(), ["a 1..2 \"2\\n\" -> \"two\\n\"", "a 4..5 \"5\\n\" -> \"five\\n\""]);
    session.propose_while_it_is_applied("a", "3", "three");
    session.accept(Selection::All).unwrap();
    assert_eq!(session.users("a"), "one\ntwo\n3\n4\nfive\n");
    assert_eq!(session.shown(), ["a 2..3 \"3\\n\" -> \"three\\n\""]);
}

#[test]
fn an_acceptance_of_an_older_proposal_is_planned_again() {
    let session = Session::new(&[("a", "1\n2\n3\n")]);
    session.edit("a", "1", "one");
    let acceptance = session.workspace().plan_acceptance(&session.runs, Selection::All).unwrap();
    let permit = permit(&acceptance.plan);
    session.edit("a", "3", "three");
    let refused = block_on(session.workspace().commit_acceptance(acceptance, permit));
    assert!(matches!(refused, Err(CommitError::Moved { .. })));
    assert_eq!(
        (session.seen("a").as_str(), session.fixture.text("a").as_str()),
        ("one\n2\nthree\n", "1\n2\n3\n")
    );
}

#[test]
fn the_rest_of_an_acceptance_stays_after_a_crash() {
    let text = "1\n2\n3\n4\n5\n";
    let mut session = Session::with_editor(&[("a", text)], "a", text);
    session.edit("a", "1", "one\nis\nlonger");
    session.edit("a", "3", "three");
    session.edit("a", "5", "five");
    let (first, stored) = (session.hunk(0, 0), session.stored());
    let (file, copy) = (stored.clone(), session.fixture.directory.join("copy"));
    let to = copy.clone();
    *session.editor().during.lock() = Some(Box::new(move || {
        std::fs::copy(file, to).unwrap();
    }));
    session.accept(Selection::Hunks(&[first])).unwrap();
    std::fs::copy(copy, stored).unwrap();
    session.reopen();
    let last = session.hunk(0, 1);
    session.workspace().reject_proposals(&session.runs, Selection::Hunks(&[last])).unwrap();
    assert_eq!(session.seen("a"), "one\nis\nlonger\n2\nthree\n4\n5\n");
    session.accept(Selection::All).unwrap();
    assert_eq!(session.users("a"), "one\nis\nlonger\n2\nthree\n4\n5\n");
    assert_eq!(session.shown(), [""; 0]);
}

#[test]
fn an_edit_beside_a_proposal_that_the_user_made_is_applied() {
    let session = Session::with_editor(&[("a", "1\n2\n3\n")], "a", "1\n2\n3\n");
    session.edit("a", "2", "two");
    session.types("a", "1\ntwo\n3\n");
    // The agent's next edit of the file is applied.
    let edit = vec![session.fixture.replace("a", "3", "three")];
    assert!(!session.fixture.commit_as(session.run(), edit).unwrap().is_proposal());
    assert_eq!(session.users("a"), "1\ntwo\nthree\n");
}

#[test]
fn each_undo_drops_the_last_run_that_is_left() {
    let mut session = Session::new(&[("a", "1\n2\n3\n")]);
    session.edit("a", "1", "one");
    session.runs.push(RunId::new());
    session.edit("a", "3", "three");
    session.fixture.undo();
    assert_eq!(session.seen("a"), "one\n2\n3\n");
    session.fixture.undo();
    assert_eq!(session.seen("a"), "1\n2\n3\n");
    assert!(matches!(session.workspace().plan_undo(&Undo::LastRun), Err(UndoError::Nothing { .. })));
}

#[test]
fn a_commit_is_reported_although_its_proposal_cannot_be_stored() {
    let session = Session::with_editor(&[("a", "1\n2\n")], "a", "1\n2\n");
    session.edit("a", "1", "one");
    *session.editor().meanwhile.lock() = Some((session.stored(), "damaged".to_owned()));
    session.accept(Selection::All).unwrap();
    assert_eq!(session.users("a"), "one\n2\n");
}

#[test]
fn a_permit_to_propose_permits_no_commit() {
    let session = Session::new(&[("a", "1\n")]);
    let plan = session.fixture.plan(vec![session.fixture.replace("a", "1", "one")]).unwrap();
    let permit = proposal_permit(&plan);
    let refused = block_on(session.workspace().applied().commit(plan, permit, session.run()));
    assert!(matches!(refused, Err(CommitError::WrongPermit)));
    assert_eq!(session.fixture.text("a"), "1\n");
}
