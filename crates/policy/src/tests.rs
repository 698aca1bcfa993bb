//! The policy at its boundary: what it allows, asks, denies and remembers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use paths::canonical_existing as canonical;
use paths::{AbsPath, StateDir};
use shell::CommandLine;
use tokio_util::sync::CancellationToken;

use crate::*;

/// The directories of a workspace: the root and its state.
pub(crate) struct Fixture {
    pub(crate) base: AbsPath,
    pub(crate) root: AbsPath,
    pub(crate) state: StateDir,
    _temp: tempfile::TempDir,
}

impl Fixture {
    /// The text without the temporary directory.
    pub(crate) fn without_base(&self, text: &str) -> String {
        text.replace(&self.base.to_string(), "<base>")
    }

    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let base = canonical(&AbsPath::new(temp.path()).unwrap());
        let root = base.join("root");
        std::fs::create_dir(&root).unwrap();
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let state = StateDir::new(base.join("state/workspace"));
        Self { base, root, state, _temp: temp }
    }

    pub(crate) fn path(&self, path: &str) -> AbsPath {
        self.root.join(path)
    }

    fn paths(&self, paths: &[&str]) -> Vec<AbsPath> {
        paths.iter().map(|path| self.path(path)).collect()
    }

    /// A change of one line of one file.
    fn change(&self, path: &str) -> Change {
        Change { paths: self.paths(&[path]), confirm: Vec::new() }
    }
}

struct Change {
    paths: Vec<AbsPath>,
    confirm: Vec<String>,
}

impl PlannedChange for Change {
    fn label(&self) -> &str {
        "a change"
    }

    fn paths(&self) -> Vec<AbsPath> {
        self.paths.clone()
    }

    fn counts(&self) -> (usize, usize, usize) {
        (self.paths.len(), 1, 1)
    }

    fn diff(&self, _: &AbsPath) -> String {
        "-two\n+three\n".to_owned()
    }

    fn confirm(&self) -> &[String] {
        &self.confirm
    }

    fn digest(&self) -> u128 {
        let names: String = self.paths.iter().map(AbsPath::to_string).chain(self.confirm.clone()).collect();
        xxhash_rust::xxh3::xxh3_128(names.as_bytes())
    }
}

/// Gives its answers in turn and records the questions.
///
/// Panics when it has no answers left.
#[derive(Default)]
pub(crate) struct Script {
    answers: Mutex<VecDeque<Answer>>,
    pub(crate) asked: Mutex<Vec<Question>>,
}

impl Script {
    pub(crate) fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self { answers: Mutex::new(answers.into_iter().collect()), asked: Mutex::default() }
    }

    fn titles(&self) -> Vec<String> {
        self.asked.lock().iter().map(|question| question.title.clone()).collect()
    }
}

impl Approver for Script {
    fn ask<'a>(&'a self, question: Question, _: &'a CancellationToken) -> BoxFuture<'a, Answer> {
        self.asked.lock().push(question);
        let answer = self.answers.lock().pop_front().expect("an unexpected question");
        Box::pin(async move { answer })
    }
}

pub(crate) fn rules(lines: &[&str]) -> Vec<Rule> {
    lines.iter().map(|line| Rule::parse(line, "config.toml:1").unwrap()).collect()
}

pub(crate) fn trust_store(fixture: &Fixture) -> TrustStore {
    TrustStore::new(StateDir::new(fixture.base.join("state")))
}

/// A trusted policy for the fixture's workspace.
pub(crate) fn policy(fixture: &Fixture, change: impl FnOnce(&mut PolicyOptions)) -> Policy {
    trust_store(fixture).trust(&fixture.root).unwrap();
    untrusted(fixture, change)
}

pub(crate) fn untrusted(fixture: &Fixture, change: impl FnOnce(&mut PolicyOptions)) -> Policy {
    let mut options = PolicyOptions::new(trust_store(fixture), fixture.root.clone());
    options.state = Some(fixture.state.clone());
    change(&mut options);
    Policy::new(options)
}

pub(crate) fn audit(fixture: &Fixture) -> Vec<serde_json::Value> {
    let bytes = fixture.state.read("audit.jsonl").unwrap().unwrap_or_default();
    String::from_utf8(bytes).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(crate) fn command(fixture: &Fixture, program: &str, args: &[&str]) -> CommandLine {
    CommandLine {
        program: program.into(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: Vec::new(),
        cwd: fixture.root.clone(),
    }
}

fn request(fixture: &Fixture, definition: &str, from_project: bool) -> SpawnRequest {
    SpawnRequest {
        changes: None,
        definition: definition.into(),
        command: command(fixture, definition, &["--stdio"]),
        root: fixture.root.clone(),
        subject: from_project.then(|| Subject::new("servers", definition, "")),
        is_command: false,
    }
}

fn cancel() -> CancellationToken {
    CancellationToken::new()
}

#[test]
fn path_mode_and_rule_decide_about_a_write() {
    use Decision::{Allow, Ask, Deny};
    let fixture = Fixture::new(&[("src/a.rs", "a")]);
    let table: &[(Mode, &[&str], &str, Decision)] = &[
        (Mode::Prompt, &[], "src/a.rs", Ask),
        (Mode::Strict, &[], "src/a.rs", Deny),
        (Mode::Permissive, &[], "src/a.rs", Allow),
        (Mode::Prompt, &["allow write src/**"], "src/a.rs", Allow),
        (Mode::Strict, &["allow write src/**"], "src/a.rs", Allow),
        (Mode::Permissive, &["deny write *.lock"], "Cargo.lock", Deny),
        (Mode::Permissive, &["ask write"], "src/a.rs", Ask),
        // Protected paths: only a specific rule permits them, and denials always hold.
        (Mode::Permissive, &[], ".git/config", Deny),
        (Mode::Permissive, &["allow write", "allow write **"], ".git/config", Deny),
        (Mode::Permissive, &["allow write .git/hooks/**"], ".git/hooks/x", Allow),
        (Mode::Permissive, &["allow write .git/hooks/**"], ".git/config", Deny),
        (Mode::Permissive, &[], ".env", Ask),
        (Mode::Strict, &[], ".env", Deny),
        (Mode::Permissive, &["allow write"], "app/.env.local", Ask),
        (Mode::Permissive, &["allow write .env.local"], "app/.env.local", Allow),
        (Mode::Permissive, &["deny write"], ".env", Deny),
        (Mode::Permissive, &["allow write certs/**"], "certs/a.pem", Deny),
        (Mode::Permissive, &["allow write certs/*.pem"], "certs/a.pem", Allow),
        (Mode::Permissive, &[], ".pilcrow/config.toml", Ask),
        // Paths outside the workspace: only a rule about whole paths permits them.
        (Mode::Permissive, &["allow write"], "/somewhere/else", Deny),
        (Mode::Permissive, &["allow write /somewhere/**"], "/somewhere/else", Allow),
        (Mode::Permissive, &["allow write /somewhere/**"], "/somewhere/.ssh/config", Deny),
    ];
    for (mode, lines, path, expected) in table {
        let policy = policy(&fixture, |options| {
            options.mode = *mode;
            options.rules = rules(lines);
            // --yes does not change the verdict.
            options.yes = true;
        });
        let writes = Writes::Paths(vec![fixture.path(path)]);
        let verdict = policy.judge(&Effects { writes, ..Effects::default() });
        assert_eq!(verdict.decision, *expected, "{mode:?} {lines:?} {path}: {}", verdict.reason);
        assert!(verdict.reason.starts_with("write: "), "{}", verdict.reason);
    }
}

#[test]
fn project_rules_only_tighten() {
    let fixture = Fixture::new(&[]);
    let mut lines = rules(&["deny write docs/**", "allow write src/**"]);
    let project = ["ask write docs/guide/a.md", "ask write src/gen/**", "deny write src/gen/x.rs"];
    lines.extend(rules(&project).into_iter().map(Rule::tightening));
    let policy = policy(&fixture, |options| options.rules = lines);
    let judge = |path: &str| {
        let writes = Writes::Paths(vec![fixture.path(path)]);
        policy.judge(&Effects { writes, ..Effects::default() }).decision
    };
    assert_eq!(judge("docs/guide/a.md"), Decision::Deny);
    assert_eq!(judge("src/a.rs"), Decision::Allow);
    assert_eq!(judge("src/gen/a.rs"), Decision::Ask);
    assert_eq!(judge("src/gen/x.rs"), Decision::Deny);
}

#[test]
fn the_strictest_of_several_effects_decides() {
    let fixture = Fixture::new(&[]);
    let policy = policy(&fixture, |options| options.rules = rules(&["allow write", "allow exec cargo test"]));
    let judge = |effects: Effects| policy.judge(&effects).decision;
    let exec = |args: &[&str]| Some(command(&fixture, "cargo", args));
    assert_eq!(judge(Effects::default()), Decision::Allow);
    assert_eq!(judge(Effects { reads: true, ..Effects::default() }), Decision::Allow);
    assert_eq!(judge(Effects { writes: Writes::Unknown, ..Effects::default() }), Decision::Allow);
    assert_eq!(judge(Effects { exec: exec(&["test"]), ..Effects::default() }), Decision::Allow);
    assert_eq!(judge(Effects { exec: exec(&["publish"]), ..Effects::default() }), Decision::Ask);
    let paths = Writes::Paths(vec![fixture.path("a"), fixture.path(".git/x"), fixture.path("b")]);
    let verdict = policy.judge(&Effects { reads: true, writes: paths, exec: exec(&["publish"]) });
    assert_eq!(verdict.decision, Decision::Deny);
    assert!(verdict.reason.contains(".git/x"), "{}", verdict.reason);
}

#[test]
fn a_link_does_not_bypass_a_protection() {
    let fixture = Fixture::new(&[(".env", "x"), ("src/a", "x")]);
    std::os::unix::fs::symlink(fixture.path(".env"), fixture.path("harmless")).unwrap();
    std::os::unix::fs::symlink(fixture.base.as_path(), fixture.path("out")).unwrap();
    let policy = policy(&fixture, |options| options.mode = Mode::Permissive);
    let judge = |path: &str| {
        let writes = Writes::Paths(vec![fixture.path(path)]);
        policy.judge(&Effects { writes, ..Effects::default() }).decision
    };
    assert_eq!(judge("src/a"), Decision::Allow);
    assert_eq!(judge("harmless"), Decision::Ask);
    assert_eq!(judge("out/new"), Decision::Deny);
}

#[test]
fn commands_are_asked_about_in_every_mode() {
    let fixture = Fixture::new(&[]);
    let policy = policy(&fixture, |options| options.mode = Mode::Permissive);
    let effects = Effects { exec: Some(command(&fixture, "ls", &[])), ..Effects::default() };
    assert_eq!(policy.judge(&effects).decision, Decision::Ask);
}

#[tokio::test]
async fn a_question_about_a_write_has_files_counts_and_diff() {
    let fixture = Fixture::new(&[("src/a.rs", "one\ntwo\n"), ("b.md", "x\n")]);
    let policy = policy(&fixture, |_| ());
    let plan = Change { paths: fixture.paths(&["b.md", "c.md", "src/a.rs"]), ..fixture.change("a") };
    let script = Script::new([Answer::Once, Answer::No { text: "not now".into() }]);
    let permit = policy.permit(&plan, &script, &cancel()).await.unwrap();
    assert!(permit.covers(&plan) && !permit.covers(&fixture.change("b.md")));
    let question = script.asked.lock()[0].clone();
    assert_eq!(question.kind, QuestionKind::Write);
    assert!(question.title.starts_with("a change: 3 files, +1 −1"), "{}", question.title);
    assert!(question.detail.contains("-two\n+three"), "{}", question.detail);
    assert_eq!(question.files, ["b.md", "c.md", "src/a.rs"]);
    // The answer "once" held for one change.
    let denied = policy.permit(&plan, &script, &cancel()).await.unwrap_err();
    assert_eq!((denied.code, denied.by), (ErrorCode::Denied, DeniedBy::User));
    assert_eq!(denied.to_string(), "the user said no: not now");
    let audit = audit(&fixture);
    assert_eq!(audit.len(), 2);
    let line = |index: usize, key: &str| audit[index][key].clone();
    assert_eq!([line(0, "decision"), line(0, "by"), line(0, "answer")], ["allow", "person", "once"]);
    assert_eq!([line(1, "decision"), line(1, "by"), line(1, "answer")], ["deny", "person", "no"]);
    assert_eq!(line(1, "capability"), "write");
    assert_eq!(line(1, "subject"), serde_json::json!(["b.md", "c.md", "src/a.rs"]));
    assert_eq!(line(0, "format"), 1);
    assert!(line(0, "ts_ms").as_i64().unwrap() > 1_600_000_000_000);
}

#[tokio::test]
async fn answers_hold_once_for_the_session_or_always() {
    let fixture = Fixture::new(&[("a", "1\n"), (".env", "S=1\n")]);
    let ordinary = fixture.change("a");
    let secret = fixture.change(".env");
    let first = policy(&fixture, |_| ());
    let script = Script::new([Answer::Session, Answer::Always]);
    first.permit(&ordinary, &script, &cancel()).await.unwrap();
    first.permit(&ordinary, &script, &cancel()).await.unwrap();
    // An ordinary yes does not permit a secret.
    first.permit(&secret, &script, &cancel()).await.unwrap();
    first.permit(&secret, &script, &cancel()).await.unwrap();
    assert_eq!(script.titles().len(), 2);
    // In another process the session's answers do not hold, but "always" holds.
    let second = policy(&fixture, |_| ());
    second.permit(&secret, &Unattended, &cancel()).await.unwrap();
    let denied = second.permit(&ordinary, &Unattended, &cancel()).await.unwrap_err();
    assert!(denied.by == DeniedBy::Unattended);
    // A denial in the configuration beats an equal answer.
    let tight = policy(&fixture, |options| options.rules = rules(&["deny write ./.env"]));
    tight.permit(&secret, &Unattended, &cancel()).await.unwrap_err();
}

#[tokio::test]
async fn an_unattended_denial_names_the_remedy() {
    let fixture = Fixture::new(&[("a", "1\n")]);
    let plan = fixture.change("a");
    let trusted = policy(&fixture, |_| ());
    let denied = trusted.permit(&plan, &Unattended, &cancel()).await.unwrap_err();
    assert_eq!((denied.code, denied.by), (ErrorCode::Denied, DeniedBy::Unattended));
    assert!(denied.reason.contains("--yes"), "{denied}");
    assert_eq!(audit(&fixture).last().unwrap()["by"], "nobody");
}

#[tokio::test]
async fn yes_answers_questions_and_lifts_no_denial() {
    let fixture = Fixture::new(&[("a", "1\n"), (".git/x", "1\n")]);
    let policy = untrusted(&fixture, |options| options.yes = true);
    let asked = fixture.change("a");
    policy.permit(&asked, &Unattended, &cancel()).await.unwrap();
    let denied = fixture.change(".git/x");
    let error = policy.permit(&denied, &Unattended, &cancel()).await.unwrap_err();
    assert_eq!((error.code, error.by), (ErrorCode::Denied, DeniedBy::Policy));
    expect_test::expect![
        "write: .git/x is protected (git's own files); to permit it, add the rule `allow write ./.git/x`"
    ]
    .assert_eq(&fixture.without_base(&error.reason));
    policy.grant_spawn(&request(&fixture, "server", true), &Unattended, &cancel()).await.unwrap();
    let by: Vec<_> = audit(&fixture).iter().map(|line| line["by"].clone()).collect();
    assert_eq!(by, ["yes", "policy", "yes"]);
    assert!(trust_store(&fixture).list().unwrap().is_empty(), "--yes trusts for this process only");
}

#[tokio::test]
async fn an_untrusted_workspace_is_read_only_by_default() {
    let fixture = Fixture::new(&[("a", "1\n")]);
    let plan = fixture.change("a");
    let policy = untrusted(&fixture, |options| {
        options.mode = Mode::Permissive;
        options.rules = rules(&["allow write", "allow exec ls"]);
    });
    policy.permit_read(&fixture.path("a"), &Unattended, &cancel()).await.unwrap();
    let denied = policy.permit(&plan, &Unattended, &cancel()).await.unwrap_err();
    assert_eq!((denied.code, denied.by), (ErrorCode::Untrusted, DeniedBy::Unattended));
    let root = &fixture.root;
    assert!(denied.reason.ends_with(&format!("--yes, or run `pilcrow trust {root}`")), "{denied}");
    // If trust alone is not enough, the message does not suggest it.
    let denied = untrusted(&fixture, |_| ()).permit(&plan, &Unattended, &cancel()).await.unwrap_err();
    expect_test::expect!["write: <base>/root is not trusted, and there is no user to ask: repeat with --yes, or run `pilcrow trust <base>/root` and allow it with a rule `allow write …`"].assert_eq(&fixture.without_base(&denied.reason));
    let effects = Effects { exec: Some(command(&fixture, "ls", &[])), ..Effects::default() };
    assert_eq!(policy.judge(&effects).decision, Decision::Ask);
    // The user may permit a change without trusting the directory; an answer for the session holds.
    policy.permit(&plan, &Script::new([Answer::Session]), &cancel()).await.unwrap();
    policy.permit(&plan, &Unattended, &cancel()).await.unwrap();
    assert!(!policy.is_trusted());
    // The user's own command needs no trust.
    let other = untrusted(&fixture, |_| ());
    other.permit_invoked(&plan).unwrap();
}

#[tokio::test]
async fn an_invoked_change_stops_only_at_a_denial() {
    let fixture = Fixture::new(&[("a", "1\n"), (".env", "1\n"), (".git/x", "1\n"), ("b", "1\n")]);
    let policy = policy(&fixture, |options| options.rules = rules(&["deny write b", "ask write a"]));
    let invoked = |path: &str| policy.permit_invoked(&fixture.change(path)).is_ok();
    assert_eq!(["a", ".env", ".git/x", "b"].map(invoked), [true, true, false, false]);
    assert_eq!(audit(&fixture).len(), 2);
}

#[test]
fn an_invoked_command_needs_no_trust() {
    let fixture = Fixture::new(&[]);
    let policy = untrusted(&fixture, |options| options.rules = rules(&["deny exec curl"]));
    let git = command(&fixture, "git", &["--version"]);
    let grant = policy.grant_invoked("doctor", &git).unwrap();
    assert!(grant.covers(&git) && !grant.covers(&command(&fixture, "git", &["push"])));
    policy.grant_invoked("doctor", &command(&fixture, "curl", &[])).unwrap_err();
}

#[tokio::test]
async fn protected_reads_are_asked_or_denied() {
    let fixture = Fixture::new(&[]);
    let policy = policy(&fixture, |_| ());
    for (path, asked) in [(".env", true), (".git/config", true), ("/elsewhere/x", true)] {
        let denied = policy.permit_read(&fixture.path(path), &Unattended, &cancel()).await.unwrap_err();
        assert_eq!(denied.by == DeniedBy::Unattended, asked, "{path}");
    }
    let mut reasons = Vec::new();
    for path in ["id_rsa", "/home/user/.ssh/id_ed25519", "server.pem"] {
        let script = Script::new([]);
        let denied = policy.permit_read(&fixture.path(path), &script, &cancel()).await.unwrap_err();
        reasons.push(fixture.without_base(&denied.reason));
    }
    expect_test::expect![[r#"
        read: id_rsa is protected (keys and logins); to permit it, add the rule `allow read ./id_rsa`
        read: /home/user/.ssh/id_ed25519 is protected (keys and logins); to permit it, add the rule `allow read /home/user/.ssh/id_ed25519`
        read: server.pem is protected (keys and logins); to permit it, add the rule `allow read ./server.pem`"#]].assert_eq(&reasons.join("\n"));
    let script = Script::new([Answer::Session]);
    policy.permit_read(&fixture.path(".env"), &script, &cancel()).await.unwrap();
    policy.permit_read(&fixture.path(".env"), &script, &cancel()).await.unwrap();
    assert_eq!(script.titles(), ["Read .env?"]);
}

#[tokio::test]
async fn trust_is_one_question_for_all_servers() {
    let fixture = Fixture::new(&[]);
    let policy = Arc::new(untrusted(&fixture, |_| ()));
    let script = Script::new([Answer::Always]);
    let (one, two) = (request(&fixture, "basedpyright", false), request(&fixture, "ruff", false));
    let token = cancel();
    let (one, two) =
        tokio::join!(policy.grant_spawn(&one, &script, &token), policy.grant_spawn(&two, &script, &token));
    assert_eq!((one.unwrap().definition(), two.unwrap().definition()), ("basedpyright", "ruff"));
    let root = &fixture.root;
    assert_eq!(script.titles(), [format!("Trust {root} and start basedpyright?")]);
    assert!(policy.is_trusted());
    assert_eq!(trust_store(&fixture).list().unwrap(), [canonical(root)]);
}

#[tokio::test]
async fn trust_once_holds_for_the_process() {
    let fixture = Fixture::new(&[]);
    let policy = untrusted(&fixture, |_| ());
    let server = request(&fixture, "ruff", false);
    policy.grant_spawn(&server, &Script::new([Answer::Once]), &cancel()).await.unwrap();
    policy.grant_spawn(&server, &Unattended, &cancel()).await.unwrap();
    assert!(trust_store(&fixture).list().unwrap().is_empty());

    let policy = untrusted(&fixture, |_| ());
    let no = Script::new([Answer::No { text: String::new() }]);
    let denied = policy.grant_spawn(&server, &no, &cancel()).await.unwrap_err();
    assert_eq!((denied.code, denied.by), (ErrorCode::Untrusted, DeniedBy::User));
    policy.grant_spawn(&server, &no, &cancel()).await.unwrap_err();
    assert_eq!(no.titles().len(), 1);

    let policy = untrusted(&fixture, |_| ());
    let denied = policy.grant_spawn(&server, &Unattended, &cancel()).await.unwrap_err();
    assert!(denied.by == DeniedBy::Unattended, "{denied}");
    expect_test::expect!["<base>/root is not trusted, and there is no user to ask: run `pilcrow trust <base>/root`, or repeat with --yes"].assert_eq(&fixture.without_base(&denied.reason));
    // A missing user does not count as a refusal: one may come later.
    policy.grant_spawn(&server, &Script::new([Answer::Once]), &cancel()).await.unwrap();
}

#[tokio::test]
async fn a_project_command_is_asked_again_when_it_changes() {
    let fixture = Fixture::new(&[]);
    let policy_one = policy(&fixture, |_| ());
    let script = Script::new([Answer::Always, Answer::Always]);
    let mut server = request(&fixture, "odd", true);
    server.command.env.push(("MODE".into(), "1".into()));
    policy_one.grant_spawn(&server, &script, &cancel()).await.unwrap();
    policy_one.grant_spawn(&server, &script, &cancel()).await.unwrap();
    let question = script.asked.lock()[0].clone();
    assert_eq!(question.kind, QuestionKind::Exec);
    assert!(question.detail.starts_with("MODE=1 odd --stdio\nin "), "{}", question.detail);
    // Another process remembers the answer; a changed command is another question.
    let policy_two = policy(&fixture, |_| ());
    policy_two.grant_spawn(&server, &Unattended, &cancel()).await.unwrap();
    server.command.env[0].1 = "2".into();
    let denied = policy_two.grant_spawn(&server, &Unattended, &cancel()).await.unwrap_err();
    assert!(denied.by == DeniedBy::Unattended && denied.code == ErrorCode::Denied, "{denied}");
    policy_two.grant_spawn(&server, &script, &cancel()).await.unwrap();
    assert_eq!(script.titles().len(), 2);
    // In a trusted root the policy asks about neither built-in nor user definitions, nor about the
    // project's definitions that a rule allows.
    policy_two.grant_spawn(&request(&fixture, "ruff", false), &Unattended, &cancel()).await.unwrap();
    let ruled = policy(&fixture, |options| options.rules = rules(&["allow exec odder", "deny exec bad"]));
    ruled.grant_spawn(&request(&fixture, "odder", true), &Unattended, &cancel()).await.unwrap();
    let denied =
        ruled.grant_spawn(&request(&fixture, "bad", false), &Unattended, &cancel()).await.unwrap_err();
    expect_test::expect!["exec: the rule `deny exec bad` (config.toml:1)"]
        .assert_eq(&fixture.without_base(&denied.reason));
}

#[tokio::test]
async fn a_linked_root_outside_is_not_trusted() {
    let fixture = Fixture::new(&[]);
    let policy = policy(&fixture, |_| ());
    let outside = fixture.base.join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, fixture.path("in")).unwrap();
    let mut server = request(&fixture, "ruff", false);
    server.root = fixture.path("in");
    let denied = policy.grant_spawn(&server, &Unattended, &cancel()).await.unwrap_err();
    assert_eq!(denied.code, ErrorCode::Untrusted);
}

/// An approver that never answers.
struct Silent;

impl Approver for Silent {
    fn ask<'a>(&'a self, _: Question, _: &'a CancellationToken) -> BoxFuture<'a, Answer> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn cancel_ends_the_question_and_waiting_ones() {
    let fixture = Fixture::new(&[("a", "1\n")]);
    let policy = policy(&fixture, |_| ());
    let plan = fixture.change("a");
    let token = cancel();
    let both = async {
        tokio::join!(policy.permit(&plan, &Silent, &token), policy.permit(&plan, &Silent, &token), async {
            token.cancel()
        })
    };
    let (one, two, ()) = tokio::time::timeout(Duration::from_secs(20), both).await.unwrap();
    for denied in [one.unwrap_err(), two.unwrap_err()] {
        assert_eq!((denied.code, denied.by), (ErrorCode::Cancelled, DeniedBy::Policy));
    }
}

#[tokio::test]
async fn a_newer_answers_file_stays_unchanged() {
    let fixture = Fixture::new(&[(".env", "1\n")]);
    let newer = br#"{"format": 9, "rules": ["allow write ./.env"]}"#;
    fixture.state.write_atomic("answers.json", newer).unwrap();
    let policy = policy(&fixture, |_| ());
    let plan = fixture.change(".env");
    policy.permit(&plan, &Script::new([Answer::Always]), &cancel()).await.unwrap();
    assert_eq!(fixture.state.read("answers.json").unwrap().unwrap(), newer);
}

#[tokio::test]
async fn an_answer_to_a_request_holds_for_that_request() {
    let fixture = Fixture::new(&[("a", "1")]);
    let own = policy(&fixture, |_| {});
    let plan = fixture.change("a");
    let effects = Effects { writes: Writes::Paths(vec![fixture.path("a")]), ..Effects::default() };
    let asks = |policy: &Policy| policy.judge(&effects).decision == Decision::Ask;

    own.for_request(true).permit(&plan, &Unattended, &cancel()).await.unwrap();
    let denied = own.permit(&plan, &Unattended, &cancel()).await.unwrap_err();
    assert!(denied.by == DeniedBy::Unattended, "a yes to a request answered for the owner: {denied:?}");

    let request = own.for_request(false);
    request.permit(&plan, &Script::new([Answer::Session]), &cancel()).await.unwrap();
    assert!(!asks(&request) && asks(&own), "the answer holds for the session of the request");
    own.permit(&plan, &Script::new([Answer::Session]), &cancel()).await.unwrap();
    assert!(!asks(&own) && asks(&own.for_request(false)), "the answer holds for the session of the owner");

    let request = own.for_request(false);
    request.permit(&plan, &Script::new([Answer::Always]), &cancel()).await.unwrap();
    assert!(!asks(&own.for_request(false)), "the answer holds for later requests");
    let denying = policy(&fixture, |options| options.rules = rules(&["deny write a"]));
    assert!(
        denying.for_request(true).permit(&plan, &Unattended, &cancel()).await.is_err(),
        "rules hold for all"
    );
}

#[tokio::test]
async fn lines_to_confirm_are_asked_whatever_the_rules_allow() {
    let fixture = Fixture::new(&[("a", "1\n"), ("b", "1\n")]);
    let plan = Change { confirm: vec!["in comments (3 places)".to_owned()], ..fixture.change("a") };
    let allowing = |options: &mut PolicyOptions| options.rules = rules(&["allow write a"]);
    let policy = policy(&fixture, allowing);
    let denied = policy.permit(&plan, &Unattended, &cancel()).await.unwrap_err();
    assert!(denied.by == DeniedBy::Unattended, "{denied}");
    expect_test::expect!["write: to be confirmed: in comments (3 places), and there is no user to ask: look at the change with apply: false, then repeat with --yes"].assert_eq(&fixture.without_base(&denied.reason));
    // An answer applies to this plan only: the policy asks about the next one again.
    let script = Script::new([Answer::Always, Answer::No { text: String::new() }]);
    policy.permit(&plan, &script, &cancel()).await.unwrap();
    policy.permit(&plan, &script, &cancel()).await.unwrap_err();
    assert!(script.asked.lock()[0].detail.starts_with("to be confirmed: in comments"));
    // The user's own command named the change, not the lines to confirm.
    policy.permit_invoked(&plan).unwrap_err();
    policy.permit_invoked_asking(&plan, &Unattended, &cancel()).await.unwrap_err();
    policy.permit_invoked_asking(&plan, &Script::new([Answer::Once]), &cancel()).await.unwrap();
    // Where the policy asks anyway, one question is enough, and `--yes` answers it.
    let other = untrusted(&fixture, |_| ());
    other.permit(&plan, &Script::new([Answer::Once]), &cancel()).await.unwrap();
    let yes = untrusted(&fixture, |options| options.yes = true);
    yes.permit(&plan, &Unattended, &cancel()).await.unwrap();
}

#[tokio::test]
async fn a_rule_passes_a_variable_on() {
    let fixture = Fixture::new(&[]);
    let passes = async |rule: &str, tightens: bool| {
        let policy = policy(&fixture, |options| {
            options.rules = rules(&["odd: allow env A_KEY"]);
            let rule = rules(&[rule]).remove(0);
            options.rules.push(if tightens { rule.tightening() } else { rule });
        });
        let request = request(&fixture, "odd", false);
        let grant = policy.grant_spawn(&request, &Unattended, &cancel()).await.unwrap();
        ["A_KEY", "B_KEY", "PLAIN"].map(|name| grant.passes(name, "x"))
    };
    assert_eq!(passes("other: allow env B_KEY", false).await, [true, false, true]);
    assert_eq!(passes("allow env B_*", false).await, [true, true, true]);
    assert_eq!(passes("deny env", true).await, [false, false, false]);
    assert_eq!(passes("allow env B_KEY", true).await, [true, false, true]);
}

#[tokio::test]
async fn debugging_has_its_own_capability() {
    let fixture = Fixture::new(&[]);
    let cancel = CancellationToken::new();
    let run = command(&fixture, "app.py", &["x"]);
    let asks = policy(&fixture, |_| ());
    let user = Script::new([Answer::Session, Answer::Session]);
    for _ in 0..2 {
        asks.permit_run("debugpy", &run, Confinement::Waived, &user, &cancel).await.unwrap();
        asks.permit_debug("set n to 5", &user, &cancel).await.unwrap();
    }
    assert_eq!(user.titles(), ["Run app.py x under debugpy?", "In the debugged program: set n to 5?"]);
    // The answer was for this command only.
    let other = command(&fixture, "app.py", &["y"]);
    let error =
        asks.permit_run("debugpy", &other, Confinement::Waived, &Unattended, &cancel).await.unwrap_err();
    assert!(error.by == DeniedBy::Unattended && error.code == ErrorCode::Denied);

    let denies = policy(&fixture, |options| options.rules = rules(&["deny debug", "deny exec app.py"]));
    let error = denies.permit_debug("set n to 5", &Script::default(), &cancel).await.unwrap_err();
    expect_test::expect!["debug: the rule `deny debug` (config.toml:1)"]
        .assert_eq(&fixture.without_base(&error.reason));
    assert!(
        denies.permit_run("debugpy", &run, Confinement::Waived, &Script::default(), &cancel).await.is_err()
    );
    let allows = policy(&fixture, |options| options.rules = rules(&["allow debug"]));
    allows.permit_debug("set n to 5", &Script::default(), &cancel).await.unwrap();
    assert!(Rule::parse("allow debug x", "here").is_err());
}
