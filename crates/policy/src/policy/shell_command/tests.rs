//! Command lines and the policy: rules, tiers, questions, audit log.

use shell::Tier;
use tokio_util::sync::CancellationToken;

use crate::tests::{Fixture, Script, audit, command, policy, rules, trust_store, untrusted};
use crate::*;

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
    let granted =
        policy.grant_line("bash", &command, Confinement::Sandbox, &script, &CancellationToken::new()).await;
    (granted.map(drop), script)
}

#[test]
fn without_rules_the_danger_of_a_line_decides() {
    let fixture = Fixture::new(&[]);
    let policy = policy(&fixture, |_| {});
    check(&policy, &fixture, "cargo test", Decision::Ask);
    check(&policy, &fixture, "git push --force", Decision::Ask);
    check(&policy, &fixture, "curl x | sh", Decision::Deny);
    check(&policy, &fixture, "rm -rf /", Decision::Deny);
    check(&policy, &fixture, "rm -rf \"$X\"", Decision::Ask);
}

#[test]
fn rules_are_checked_for_every_command_of_a_line() {
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
fn a_redirection_is_judged_as_a_path() {
    let fixture = Fixture::new(&[]);
    let lines =
        ["allow exec ls", "allow exec cd", "deny write *.lock", "deny write src/**", "allow write out/**"];
    let strict = policy(&fixture, |it| (it.mode, it.rules) = (Mode::Strict, rules(&lines)));
    for line in [
        "ls > src/m.rs",
        "cd nowhere; ls > src/m.rs",
        "ls > x.lock",
        "ls > out/x.lock",
        "ls > ../outside.txt",
        "ls >> ~/.bashrc",
        "ls > .env",
        "ls > id_rsa",
        "ls &> .npmrc",
        "{ ls; } >| .git/config2",
        "ls 2> .git/hooks/pre-commit",
        "ls {fd}> .git/config2",
        "ls < .env",
        "ls > plain.txt",
        "ls > out/a; ls > \"$X\"",
        "ls > out/*",
        "for f in out/a src/m.rs; do ls > $f; done",
    ] {
        check(&strict, &fixture, line, Decision::Deny);
    }
    for line in ["ls > /dev/null 2>&1", "ls > out/a", "ls < src/m.rs", "ls 2>/dev/stderr"] {
        check(&strict, &fixture, line, Decision::Allow);
    }
    let prompt = policy(&fixture, |it| it.rules = rules(&lines));
    for line in ["ls > plain.txt", "ls > .env", "ls > /tmp/x", "ls > \"$X\"", "ls < .git/config"] {
        check(&prompt, &fixture, line, Decision::Ask);
    }
    for line in ["ls > .git/config", "ls >> ~/.bashrc", "cat x > src/m.rs"] {
        check(&prompt, &fixture, line, Decision::Deny);
    }
}

#[test]
fn a_link_of_the_same_line_leads_to_a_protected_file() {
    let fixture = Fixture::new(&[("d/x", ""), ("AGENTS.md", "")]);
    let policy = policy(&fixture, |it| {
        it.mode = Mode::Permissive;
        it.rules = rules(&["allow exec ln", "allow exec cp", "allow exec tee", "allow exec echo"]);
    });
    for line in [
        "ln -s AGENTS.md l; echo > l",
        "ln AGENTS.md l && echo x | tee l",
        "ln -s ../AGENTS.md d/l; cp x d/l",
        "ln -s AGENTS.md a; ln -s a b; echo >> b",
        "ln -s $PWD/AGENTS.md d; echo > d/AGENTS.md",
        "ln -s .. d/up; echo > d/up/AGENTS.md",
        "cp -s AGENTS.md l; cp x l",
    ] {
        check(&policy, &fixture, line, Decision::Ask);
    }
    for line in ["ln -s AGENTS.md l; echo > k", "ln -s /usr/lib/x.so x.so; echo > y", "ln -s d e; echo > e/x"]
    {
        check(&policy, &fixture, line, Decision::Allow);
    }
}

#[test]
fn files_that_a_command_writes_are_judged_as_paths() {
    let fixture = Fixture::new(&[]);
    let programs = ["cp", "mv", "tee", "sed", "install", "ln", "dd", "cat", "cd"];
    let mut lines: Vec<String> = programs.iter().map(|it| format!("allow exec {it}")).collect();
    lines.extend(["deny write *.lock", "deny write src/**", "ask write notes/**"].map(str::to_owned));
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let policy = policy(&fixture, |it| it.rules = rules(&lines));
    for line in [
        "cp a src/m.rs",
        "cp a b src",
        "cp -t src a",
        "cp --target-directory=src a",
        "mv src/m.rs b",
        "cd src && cp ../a m.rs",
        "cat a | tee x.lock",
        "cat a | tee -a b ~/.bashrc",
        "sed -i s/a/b/ src/m.rs",
        "sed -i.bak -e s/a/b/ .git/config",
        "sed --in-place s/a/b/ src/*.rs",
        "install -m 755 a .git/hooks/pre-commit",
        "install -d ~/bin",
        "ln -s a .git/hooks/pre-commit",
        "dd if=a of=x.lock",
        "cp pre-commit .git/hooks/",
        "cp id_rsa.pub sub/id_rsa",
    ] {
        check(&policy, &fixture, line, Decision::Deny);
    }
    for line in ["cp a notes/b", "cp a \"$X\"", "mv .env b", "cp .env.example .env"] {
        check(&policy, &fixture, line, Decision::Ask);
    }
    for line in [
        "cp src/m.rs b",
        "cp -r a b/",
        "mv a b c/",
        "cat a | tee b >/dev/null",
        "cat a | tee /dev/stderr",
        "sed s/a/b/ src/m.rs",
        "sed -i s/src/x.lock/ a",
        "sed -i -e s/a/b/ a b",
        "install -m 644 a /tmp/x",
        "ln -s ../src/m.rs b",
        "dd if=src/m.rs of=b",
    ] {
        check(&policy, &fixture, line, Decision::Allow);
    }
}

#[test]
fn unpredictable_effects_are_asked_about() {
    let fixture = Fixture::new(&[]);
    let lines = ["allow exec ls", "allow exec cargo test", "allow exec ./run.sh", "allow exec grep"];
    let policy = policy(&fixture, |it| it.rules = rules(&lines));
    for line in [
        "PATH=. ls",
        "env PATH=. ls",
        "export PATH=.; ls",
        "declare -x 'PATH=.'; ls",
        "for PATH in .; do ls; done",
        "read PATH <<< .; ls",
        "printf -v PATH .; ls",
        "./ls",
        "sub/../ls",
        "/tmp/ls",
        "LD_PRELOAD=./x.so ls",
        "RUSTC_WRAPPER=./ls cargo test",
        "PS4='$(touch p)'; set -x; ls",
        "x='a[$(touch p)]'; ls $((x))",
        "x='a[`touch p`]'; ls $((x))",
        "[[ -v 'a[$(touch p)]' ]]; ls",
        "[ -v 'a[$(touch p)]' ]; ls",
        "test -v 'a[$(touch p)]'; ls",
        "printf -v 'a[$(touch p)]' x; ls",
        "read 'a[$(touch p)]' < x; ls",
        "declare 'a[$(touch p)]=1'; ls",
        "let 'a[$(touch p)]=1'; ls",
        "unset 'a[$(touch p)]'; ls",
        "x='$(touch p)'; ls \"${x@P}\"",
        "BASH_ALIASES[ls]='touch p'; ls",
        "hash -p ./x ls; ls",
        "enable -f ./x.so ls; ls",
    ] {
        check(&policy, &fixture, line, Decision::Ask);
    }
    for line in [
        "./run.sh",
        "/usr/bin/ls",
        "RUST_BACKTRACE=1 CARGO_TERM_COLOR=never cargo test",
        "x=1; ls $((x + 1))",
        "[[ -v a ]] && ls",
        "export A=b; ls",
        "grep 'a[$(x)]' y",
        "a[1]=2; ls \"${a[1]}\"",
    ] {
        check(&policy, &fixture, line, Decision::Allow);
    }
}

#[test]
fn rules_apply_to_every_value_of_a_variable() {
    let fixture = Fixture::new(&[]);
    let policy = policy(&fixture, |it| it.rules = rules(&["allow exec ls", "deny exec rm"]));
    check(&policy, &fixture, "for c in ls rm; do $c x; done", Decision::Deny);
}

#[test]
fn a_rule_for_all_commands_lifts_no_risk_class() {
    let fixture = Fixture::new(&[]);
    let policy = policy(&fixture, |it| it.rules = rules(&["allow exec"]));
    check(&policy, &fixture, "ls; cargo test", Decision::Allow);
    check(&policy, &fixture, "git push -f", Decision::Ask);
    check(&policy, &fixture, "eval \"$X\"", Decision::Ask);
    check(&policy, &fixture, "sudo ls", Decision::Deny);
    check(&policy, &fixture, "rm -rf ~", Decision::Deny);
}

#[test]
fn only_a_full_rule_allows_a_critical_command() {
    let fixture = Fixture::new(&[]);
    let policy =
        policy(&fixture, |it| it.rules = rules(&["allow exec rm", "allow exec dd if=a of=/dev/sda"]));
    check(&policy, &fixture, "rm -rf /", Decision::Deny);
    check(&policy, &fixture, "rm -rf build", Decision::Allow);
    check(&policy, &fixture, "dd if=a of=/dev/sda", Decision::Allow);
}

#[test]
fn exec_settings_change_the_decision() {
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
async fn an_answer_holds_for_the_line_that_was_shown() {
    let fixture = Fixture::new(&[]);
    let asking = policy(&fixture, |_| {});
    let (granted, script) =
        run(&asking, &fixture, "git push --force; rm -rf \"$X\"", &[Answer::Session]).await;
    granted.unwrap();
    let detail = script.asked.lock()[0].detail.clone();
    expect_test::expect![[r#"
        git push --force; rm -rf "$X"
        in <base>/root
        ! history rewriting and force push (medium): `git push --force`: overwrites commits that others may have
        ! `rm -rf …`: may delete the root of the file system; in the worst case, critical: recursive delete"#]]
    .assert_eq(&fixture.without_base(&detail));
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
    expect_test::expect!["exec: unseen code into an interpreter (high): `sh`: runs code from the network; a rule `allow exec …` that names the command allows it"].assert_eq(&fixture.without_base(&denied.reason));
}

#[tokio::test]
async fn classified_commands_are_in_the_audit_log() {
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

#[test]
fn early_refusals_are_in_the_audit_log() {
    let fixture = Fixture::new(&[]);
    let runs = |line: &str| Effects {
        reads: true,
        writes: Writes::Unknown,
        exec: Some(command(&fixture, "bash", &["-c", line])),
    };
    let usual = policy(&fixture, |_| {});
    usual.refuse(&runs("ls")).unwrap();
    assert!(usual.refuse(&runs("sudo ls")).unwrap_err().reason.contains("permission escalation"));
    let writes = Writes::Paths(vec![fixture.path("a.txt"), fixture.path(".git/x")]);
    usual.refuse(&Effects { writes, ..Effects::default() }).unwrap_err();
    policy(&fixture, |it| it.mode = Mode::Strict).refuse(&runs("npm publish")).unwrap_err();
    let lines = audit(&fixture);
    let brief = |line: &serde_json::Value| {
        format!("{} {} {} {}", line["capability"], line["decision"], line["subject"], line["class"])
    };
    let briefs: Vec<String> = lines.iter().map(brief).collect();
    assert_eq!(
        briefs,
        [
            r#""exec" "deny" ["sudo ls"] "permission escalation""#,
            r#""write" "deny" [".git/x"] null"#,
            r#""write" "deny" ["npm publish"] "package publish""#,
        ]
    );
}

#[tokio::test]
async fn an_unwritable_audit_log_refuses_what_needs_a_row() {
    let fixture = Fixture::new(&[]);
    std::fs::create_dir_all(fixture.state.path().join("audit.jsonl").as_path()).unwrap();
    let plain = policy(&fixture, |_| {});
    run(&plain, &fixture, "ls", &[Answer::Once]).await.0.unwrap();
    let denied = run(&plain, &fixture, "git push --force", &[Answer::Once]).await.0.unwrap_err();
    assert_eq!((denied.code, denied.by), (ErrorCode::Denied, DeniedBy::Policy), "{denied}");
    let all = policy(&fixture, |it| {
        it.rules = rules(&["allow exec ls"]);
        it.exec.audit_all = true;
    });
    run(&all, &fixture, "ls", &[]).await.0.unwrap_err();
}

#[test]
fn a_rule_means_the_installed_program_without_acting_options() {
    let fixture = Fixture::new(&[]);
    let lines = [
        "allow exec ls",
        "allow exec git",
        "allow exec sort",
        "allow exec find",
        "allow exec sed",
        "allow exec cargo test",
        "allow exec tar --to-command=cat",
    ];
    let policy = policy(&fixture, |it| it.rules = rules(&lines));
    for line in [
        "/bin/ls",
        "ls -o",
        "sort -n a",
        "git log -p",
        "time ls",
        "git switch -c x",
        "sed -n '/end/p; $p' a",
        "sed -i 's/e/w/g' a",
        "cargo test",
        "tar --to-command=cat",
    ] {
        check(&policy, &fixture, line, Decision::Allow);
    }
    for line in [
        "/proc/self/cwd/ls",
        "/opt/x/ls",
        "./ls",
        "time -o a ls",
        "env time -o a ls",
        "git log --output=a",
        "git log --outp a",
        "git -c core.pager=x log",
        "sort -oa b",
        "sort --output a b",
        "find . -fprintf a x",
        "find sub -delete",
        "cargo test --config x",
        "sed '1e id' a",
        "sed 's/a/id/e' a",
    ] {
        check(&policy, &fixture, line, Decision::Ask);
    }
}

/// The grant of a line that rules allow, in the sandbox and in the foreground.
async fn granted(policy: &Policy, fixture: &Fixture, line: &str) -> SpawnGrant {
    let (command, cancel) = (command(fixture, "bash", &["-c", line]), CancellationToken::new());
    policy.grant_line("bash", &command, Confinement::SandboxAlone, &Unattended, &cancel).await.unwrap()
}

#[tokio::test]
async fn no_command_changes_the_repository_of_git_with_keys() {
    let fixture = Fixture::new(&[]);
    let settings = fixture.root.join(".git/config");
    std::fs::create_dir_all(settings.parent().unwrap().join("objects").as_path()).unwrap();
    std::fs::write(settings.as_path(), "[remote \"o\"]\nurl = git@h:a\n").unwrap();
    // Two processes of the user.
    let [here, there] =
        [(); 2].map(|()| policy(&fixture, |it| it.rules = rules(&["allow exec make", "allow exec git"])));
    let build = granted(&here, &fixture, "make").await;
    let fetch = granted(&there, &fixture, "git fetch o").await;
    assert!(fetch.note().unwrap().ends_with("another command may run at the same time"));
    drop((build, fetch));

    let fetch = granted(&there, &fixture, "git fetch o").await;
    assert_eq!(fetch.note(), None);
    let mut build = std::pin::pin!(granted(&here, &fixture, "make"));
    let short = std::time::Duration::from_millis(100);
    assert!(tokio::time::timeout(short, &mut build).await.is_err());
    // A second one with keys waits instead of running without.
    let mut second = std::pin::pin!(granted(&here, &fixture, "git fetch o"));
    assert!(tokio::time::timeout(short, &mut second).await.is_err());
    let (line, cancel) = (command(&fixture, "bash", &["-c", "make"]), CancellationToken::new());
    cancel.cancel();
    let cancelled = here.grant_line("bash", &line, Confinement::Sandbox, &Unattended, &cancel).await;
    assert_eq!(cancelled.unwrap_err().code, ErrorCode::Cancelled);
    drop(fetch);
    drop(build.await);
    assert_eq!(second.await.note(), None);

    let locks = trust_store(&fixture).state().child("command-locks").unwrap();
    let left = locks.list().unwrap();
    assert_eq!(left, ["turn"]);
    locks.write_new("1-0", &[b"{}"]).unwrap();
    assert_eq!(granted(&there, &fixture, "git fetch o").await.note(), None);
    assert_eq!(locks.list().unwrap(), ["turn"], "the file of a killed process is removed");
}
