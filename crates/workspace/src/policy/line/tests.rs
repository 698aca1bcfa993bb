//! Command lines and the policy: rules, tiers, questions, the audit log.

use crate::policy_tests::{Script, audit, command, policy, rules, untrusted};
use crate::tests::Fixture;
use crate::*;
use tokio_util::sync::CancellationToken;

#[track_caller]
fn check(policy: &Policy, fixture: &Fixture, line: &str, expected: Decision) {
    let exec = Some(command(fixture, "bash", &["-c", line]));
    let verdict = policy.judge(&Effects { exec, ..Effects::default() });
    assert_eq!(verdict.decision, expected, "{line}: {}", verdict.reason);
}

async fn run(
    policy: &Policy,
    fixture: &Fixture,
    line: &str,
    answers: &[Answer],
) -> (Result<(), Denied>, Script) {
    let script = Script::new(answers.iter().cloned());
    let command = command(fixture, "bash", &["-c", line]);
    let granted = policy.grant_line("bash", &command, &script, &CancellationToken::new()).await;
    (granted.map(drop), script)
}

#[test]
fn what_is_decided_without_rules() {
    let fixture = Fixture::new(&[]);
    let policy = policy(&fixture, |_| {});
    check(&policy, &fixture, "cargo test", Decision::Ask);
    check(&policy, &fixture, "git push --force", Decision::Ask);
    check(&policy, &fixture, "curl x | sh", Decision::Deny);
    check(&policy, &fixture, "rm -rf /", Decision::Deny);
    check(&policy, &fixture, "rm -rf \"$X\"", Decision::Ask);
}

#[test]
fn rules_about_every_command_of_a_line() {
    let fixture = Fixture::new(&[]);
    let policy = policy(&fixture, |it| {
        it.rules = rules(&[
            "allow exec cargo",
            "allow exec git",
            "deny exec git push",
            "allow exec rm -rf /etc/x",
            "allow exec sudo apt",
        ]);
    });
    let allow = [
        "cargo test",
        "cd x && A=1 cargo test 2>&1",
        "timeout 5 cargo test",
        "sh -c 'cargo test; git status'",
        "git commit --amend",
        "rm -rf /etc/x",
    ];
    allow.iter().for_each(|line| check(&policy, &fixture, line, Decision::Allow));
    let ask = [
        "cargo test; ls",
        "cargo test | tail",
        "echo x > y; cargo test",
        "cargo $X; $Y",
        "echo hi",
        "sudo apt install x",
    ];
    ask.iter().for_each(|line| check(&policy, &fixture, line, Decision::Ask));
    let deny = [
        "git push",
        "cargo test && git push origin",
        "sh -c 'git push'",
        "rm -rf /etc/y",
        "sudo ls",
        "cargo x; curl y | sh",
    ];
    deny.iter().for_each(|line| check(&policy, &fixture, line, Decision::Deny));
}

#[test]
fn allowing_everything_lifts_no_class() {
    let fixture = Fixture::new(&[]);
    let policy = policy(&fixture, |it| it.rules = rules(&["allow exec"]));
    check(&policy, &fixture, "ls; cargo test", Decision::Allow);
    check(&policy, &fixture, "git push -f", Decision::Ask);
    check(&policy, &fixture, "eval \"$X\"", Decision::Ask);
    check(&policy, &fixture, "sudo ls", Decision::Deny);
    check(&policy, &fixture, "rm -rf ~", Decision::Deny);
}

#[test]
fn only_a_whole_rule_lifts_what_is_critical() {
    let fixture = Fixture::new(&[]);
    let policy =
        policy(&fixture, |it| it.rules = rules(&["allow exec rm", "allow exec dd if=a of=/dev/sda"]));
    check(&policy, &fixture, "rm -rf /", Decision::Deny);
    check(&policy, &fixture, "rm -rf build", Decision::Allow);
    check(&policy, &fixture, "dd if=a of=/dev/sda", Decision::Allow);
}

#[test]
fn settings() {
    let fixture = Fixture::new(&[]);
    let off = policy(&fixture, |it| it.exec.enabled = false);
    check(&off, &fixture, "ls", Decision::Deny);
    let lower = policy(&fixture, |it| it.exec.deny_threshold = Tier::Medium);
    check(&lower, &fixture, "git push -f", Decision::Deny);
    let higher = policy(&fixture, |it| it.exec.deny_threshold = Tier::Critical);
    check(&higher, &fixture, "sudo ls", Decision::Ask);
    check(&higher, &fixture, "rm -rf /", Decision::Deny);
    let strict = policy(&fixture, |it| {
        (it.mode, it.rules) = (Mode::Strict, rules(&["allow exec ls", "allow exec eval"]))
    });
    check(&strict, &fixture, "ls", Decision::Allow);
    check(&strict, &fixture, "cat x", Decision::Deny);
    check(&strict, &fixture, "eval \"$X\"", Decision::Deny);
    let open = untrusted(&Fixture::new(&[]), |it| it.rules = rules(&["allow exec"]));
    check(&open, &fixture, "ls", Decision::Ask);
}

#[tokio::test]
async fn a_question_names_what_the_line_does_and_its_answer_is_for_that_line() {
    let fixture = Fixture::new(&[]);
    let asking = policy(&fixture, |_| {});
    let (granted, script) =
        run(&asking, &fixture, "git push --force; rm -rf \"$X\"", &[Answer::Session]).await;
    granted.unwrap();
    let detail = script.asked.lock().unwrap()[0].detail.clone();
    assert!(detail.contains("history rewriting and force push (medium)"), "{detail}");
    assert!(detail.contains("at its worst, critical: recursive delete"), "{detail}");
    run(&asking, &fixture, "git push --force; rm -rf \"$X\"", &[]).await.0.unwrap();
    run(&asking, &fixture, "git push", &[Answer::Always]).await.0.unwrap();
    run(&policy(&fixture, |_| {}), &fixture, "git push", &[]).await.0.unwrap();
    let (no, _) = run(&asking, &fixture, "git push x", &[Answer::No { text: "not now".into() }]).await;
    assert!(no.unwrap_err().reason.contains("not now"));
}

#[tokio::test]
async fn yes_answers_questions_and_lifts_no_denial() {
    let fixture = Fixture::new(&[]);
    let policy = policy(&fixture, |it| it.yes = true);
    run(&policy, &fixture, "git push -f", &[]).await.0.unwrap();
    let denied = run(&policy, &fixture, "curl x | sh", &[]).await.0.unwrap_err();
    assert_eq!(denied.code, ErrorCode::Denied);
    assert!(denied.reason.contains("unseen code into an interpreter (high)"), "{}", denied.reason);
}

#[tokio::test]
async fn what_has_a_class_is_in_the_audit_log() {
    let fixture = Fixture::new(&[]);
    let allowing = policy(&fixture, |it| it.rules = rules(&["allow exec"]));
    run(&allowing, &fixture, "ls", &[]).await.0.unwrap();
    run(&allowing, &fixture, "sudo ls ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8", &[]).await.0.unwrap_err();
    run(&allowing, &fixture, "npm publish", &[Answer::Once]).await.0.unwrap();
    let lines = audit(&fixture);
    let brief = |line: &serde_json::Value| {
        format!("{} {} {} {}", line["decision"], line["by"], line["class"], line["tier"])
    };
    let briefs: Vec<String> = lines.iter().map(brief).collect();
    assert_eq!(
        briefs,
        [
            r#""deny" "policy" "permission escalation" "high""#,
            r#""allow" "person" "package publish" "medium""#
        ]
    );
    assert!(
        lines[0].to_string().contains("[redacted:github-token]") && !lines[0].to_string().contains("ghp_")
    );
    let all = policy(&fixture, |it| (it.rules, it.exec.audit_all) = (rules(&["allow exec"]), true));
    run(&all, &fixture, "ls", &[]).await.0.unwrap();
    assert_eq!(audit(&fixture)[2]["reason"], "exec: the rule `allow exec` (config.toml:1)");
    assert!(audit(&fixture)[2].get("class").is_none());
}
