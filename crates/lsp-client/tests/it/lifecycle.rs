//! Life cycle of servers: start on demand, restart after a crash, end when unused.

use adapters::{Parse, ServerDefinition, ServerDefinitions};
use std::time::{Duration, Instant};

use lsp_client::{ServerError, ServerState, StartCause};
use paths::{AbsPath, StateDir};
use policy::{DeniedBy, ErrorCode, PolicyOptions, SubjectState, Subjects};
use serde_json::{Value, json};
use testing::language_server::{Script, Step};
use workspace::{ChangeKind, Commit, CommitId, CommittedFile, RunId};

use crate::bench::{Bench, LONG, alive, bench, build, build_beside, cx, defined, open, range, until};
use crate::speculative::Typing;

fn hovers() -> Script {
    Script::new(json!({"hoverProvider": true, "definitionProvider": true, "textDocumentSync": 2}))
        .on("textDocument/hover", [Step::Result(json!({"contents": "${text}"}))])
}

#[tokio::test]
async fn a_crash_is_reported_and_the_next_call_works() {
    let script = hovers()
        .on("textDocument/definition", [Step::Stderr("panic: out of memory\n".into()), Step::Crash(3)]);
    let bench = bench(&[("a.txt", "abc")], script);
    let doc = bench.doc("a.txt");
    bench.pool.hover(&doc, 0, &cx(LONG)).await.unwrap();
    let started = Instant::now();
    let error = bench.pool.definition(&doc, 0, &cx(LONG)).await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(10));
    assert_eq!(error.code(), ErrorCode::ServerCrashed);
    let text = error.to_string();
    expect_test::expect![[r#"
        scripted crashed during textDocument/definition; the next call restarts it
        panic: out of memory"#]]
    .assert_eq(&text);
    let status = bench.pool.status().await;
    assert!(
        matches!(&status[0].state, ServerState::Crashed { stderr_tail } if stderr_tail.trim() == "panic: out of memory")
    );

    // The server restarts with the document open.
    let hover = bench.pool.hover(&doc, 0, &cx(LONG)).await.unwrap();
    assert_eq!(hover.value.unwrap(), "abc");
    assert_eq!(bench.got("scripted", "textDocument/didOpen").len(), 2);
}

#[tokio::test]
async fn a_server_killed_from_outside_is_restarted() {
    let script = hovers().on("textDocument/definition", [Step::Never]);
    let bench = bench(&[("a.txt", "abc")], script);
    let doc = bench.doc("a.txt");
    bench.pool.hover(&doc, 0, &cx(LONG)).await.unwrap();
    let pid = bench.pool.status().await[0].pid.unwrap();
    let cx_long = cx(LONG);
    let asking = bench.pool.definition(&doc, 0, &cx_long);
    let record = bench.beside("scripted.record");
    let killing = async {
        let asked = move || std::fs::read_to_string(&record).unwrap().contains("textDocument/definition");
        until(asked, "the question").await;
        let kill = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
        assert!(kill.success());
    };
    let (answer, ()) = tokio::join!(asking, killing);
    assert_eq!(answer.unwrap_err().code(), ErrorCode::ServerCrashed);
    bench.pool.hover(&doc, 0, &cx(LONG)).await.unwrap();
    assert_ne!(bench.pool.status().await[0].pid.unwrap(), pid);
}

#[tokio::test]
async fn a_crashing_server_is_not_restarted_forever() {
    let script = hovers().on("initialize", [Step::Stderr("no licence".into()), Step::Crash(1)]);
    let bench = bench(&[("a.txt", "abc")], script);
    let doc = bench.doc("a.txt");
    let mut starting = None;
    for _ in 0..6 {
        let error = bench.pool.hover(&doc, 0, &cx(Duration::from_millis(2500))).await.unwrap_err();
        match error {
            ServerError::Crashed { stderr_tail, .. } => assert_eq!(stderr_tail.trim(), "no licence"),
            ServerError::Starting { cause, .. } => {
                starting = Some(cause);
                break;
            }
            other => panic!("{other}"),
        }
    }
    let starting = starting.expect("the pool stops trying");
    assert!(matches!(starting, StartCause::Crashing { failures: 2.., .. }), "{starting}");
}

#[tokio::test]
async fn many_requests_start_one_server() {
    let bench = bench(&[("a.txt", "abc")], hovers());
    let doc = bench.doc("a.txt");
    let cx = cx(LONG);
    let asks = (0..8).map(|_| bench.pool.hover(&doc, 0, &cx));
    for answer in futures_util::future::join_all(asks).await {
        answer.unwrap();
    }
    assert_eq!(bench.got("scripted", "initialize").len(), 1);
}

#[tokio::test]
async fn every_package_has_its_own_server_within_the_budget() {
    let files = [("p/mark", ""), ("p/a.txt", "p"), ("q/mark", ""), ("q/a.txt", "q"), ("r.txt", "r")];
    let servers = vec![("scripted", hovers(), "[root]\nmarkers = [\"mark\"]")];
    let bench = build(&files, servers, |limits| limits.warm = 2);
    for name in ["p/a.txt", "q/a.txt", "p/a.txt", "r.txt"] {
        bench.pool.hover(&bench.doc(name), 0, &cx(LONG)).await.unwrap();
    }
    let roots: Vec<Value> =
        bench.got("scripted", "initialize").iter().map(|params| params["rootUri"].clone()).collect();
    assert_eq!(roots, [bench.uri("p"), bench.uri("q"), paths::path_to_uri(bench.workspace.root().as_path())]);
    let running = bench.pool.status().await.iter().filter(|status| status.pid.is_some()).count();
    assert_eq!(running, 2, "the least recently used was stopped");
}

#[tokio::test]
async fn servers_of_one_request_do_not_evict_each_other() {
    let says = |message: &str| {
        let items = json!([{"range": range(0, 0, 1), "message": message}]);
        let params = json!({"uri": "${params.textDocument.uri}", "diagnostics": items});
        Script::new(json!({"textDocumentSync": 2}))
            .on("textDocument/didOpen", [Step::notify("textDocument/publishDiagnostics", params)])
    };
    let servers = vec![("one", says("one"), ""), ("three", says("three"), ""), ("two", says("two"), "")];
    let bench = build(&[("a.txt", "abc")], servers, |limits| {
        (limits.warm, limits.idle) = (1, Duration::from_secs(3));
    });
    let found = bench.pool.diagnostics(&bench.doc("a.txt"), &cx(LONG)).await.unwrap().value;
    let messages: Vec<&str> = found.items.iter().map(|item| item.message.as_str()).collect();
    assert_eq!((messages.len(), found.failed, found.pending), (3, vec![], vec![]), "{messages:?}");

    // Unused servers beyond the budget end.
    let started = Instant::now();
    let running = async || bench.pool.status().await.iter().filter(|status| status.pid.is_some()).count();
    while running().await > 1 {
        assert!(started.elapsed() < LONG, "more servers than the budget run");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn the_memory_limit_stops_all_but_the_last_server() {
    let servers = vec![
        ("one", hovers(), "[features]\nhover = 50\n"),
        ("two", hovers(), "[features]\ndefinition = 50\n"),
    ];
    let bench = build(&[("a.txt", "abc")], servers, |limits| {
        (limits.memory, limits.idle) = (1 << 20, Duration::from_secs(30));
    });
    let running = async || {
        let status = bench.pool.status().await.into_iter();
        status.filter(|it| it.pid.is_some()).map(|it| it.name).collect::<Vec<_>>()
    };
    bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap();
    bench.pool.definition(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap_err();
    let started = Instant::now();
    while running().await != ["two"] {
        assert!(started.elapsed() < LONG, "{:?}", running().await);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The server restarts for a request, and then the other ends.
    bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap();
    let started = Instant::now();
    while running().await != ["one"] {
        assert!(started.elapsed() < LONG, "{:?}", running().await);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_projects_own_server_over_the_memory_limit_is_killed() {
    let busy = Script::new(hovers().capabilities).on("textDocument/hover", [Step::Never]);
    let directory = tempfile::tempdir().unwrap();
    let mut definitions = defined(directory.path(), "", vec![("one", busy, "")]);
    let mut own = ServerDefinition::clone(definitions.get("one").unwrap());
    own.from_project = true;
    definitions.insert(own);
    let own_state = StateDir::new(AbsPath::new(directory.path().join("subjects")).unwrap());
    let policy = |options: &mut PolicyOptions| {
        (options.yes, options.state) = (true, Some(own_state.clone()));
    };
    let bench = open(directory, &[("a.txt", "abc")], definitions, policy, |limits| {
        (limits.memory, limits.idle) = (1 << 20, Duration::from_secs(1));
    });
    let error = bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ServerCrashed);
    let subjects = Subjects::new(Some(own_state.clone()));
    assert_eq!(subjects.list().unwrap(), [("servers/one".to_owned(), SubjectState::Killed)]);
}

#[tokio::test]
async fn no_server_starts_while_others_exceed_the_memory_limit() {
    let offers = json!({"hoverProvider": true, "definitionProvider": true, "textDocumentSync": 2});
    let busy = Script::new(offers).on("textDocument/hover", [Step::Never]);
    let servers =
        vec![("one", busy, "[features]\nhover = 50\n"), ("two", hovers(), "[features]\ndefinition = 50\n")];
    let bench = build(&[("a.txt", "abc")], servers, |limits| limits.memory = 1 << 20);
    let (doc, hover_cx, short) = (bench.doc("a.txt"), cx(LONG), cx(Duration::from_secs(2)));
    let hovering = bench.pool.hover(&doc, 0, &hover_cx);
    let other = async {
        while bench.got("one", "textDocument/hover").is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let error = bench.pool.definition(&doc, 0, &short).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::ServerStarting);
        assert!(bench.record("two").is_empty() && bench.got("one", "exit").is_empty());
        hover_cx.cancel.cancel();
    };
    let (hovered, ()) = tokio::join!(hovering, other);
    assert_eq!(hovered.unwrap_err().code(), ErrorCode::Cancelled);
    // Nothing uses the first one now.
    bench.pool.definition(&doc, 0, &cx(LONG)).await.unwrap_err();
    assert_eq!(bench.got("one", "exit").len(), 1);
    assert_eq!(bench.got("two", "initialize").len(), 1);
}

#[tokio::test]
async fn a_server_is_warm_only_for_its_own_package() {
    let files = [("p/mark", ""), ("p/a.txt", "p"), ("q/mark", ""), ("q/a.txt", "q")];
    let warm = async |script: Script, more: &str| {
        let bench = build(&files, vec![("scripted", script, more)], |_| ());
        bench.pool.hover(&bench.doc("p/a.txt"), 0, &cx(LONG)).await.unwrap();
        ["p/a.txt", "q/a.txt"].map(|name| bench.pool.is_warm(&bench.path(name)))
    };
    assert_eq!(warm(hovers(), "[root]\nmarkers = [\"mark\"]").await, [true, false]);
    let folders = "[root]\nmarkers = [\"mark\"]\nworkspace_folders = true";
    assert_eq!(warm(hovers(), folders).await, [true, false], "it takes no more workspace folders");
    let mut takes = hovers();
    takes.capabilities["workspace"] =
        json!({"workspaceFolders": {"supported": true, "changeNotifications": true}});
    assert_eq!(warm(takes, folders).await, [true, true], "it would take the workspace folder");
}

#[tokio::test]
async fn without_workspace_folders_each_root_has_a_server() {
    let files = [("p/mark", ""), ("p/a.txt", "p"), ("mark", ""), ("a.txt", "whole")];
    let servers = vec![("scripted", hovers(), "[root]\nmarkers = [\"mark\"]\nworkspace_folders = true")];
    let bench = build(&files, servers, |_| ());
    for name in ["p/a.txt", "a.txt", "p/a.txt"] {
        bench.pool.hover(&bench.doc(name), 0, &cx(LONG)).await.unwrap();
    }
    let roots: Vec<Value> =
        bench.got("scripted", "initialize").iter().map(|params| params["rootUri"].clone()).collect();
    assert_eq!(roots, [bench.uri("p"), paths::path_to_uri(bench.workspace.root().as_path())]);
}

#[tokio::test]
async fn shutdown_ends_servers_and_starts_no_more() {
    let bench = bench(&[("a.txt", "abc")], hovers());
    bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap();
    let pid = bench.pool.status().await[0].pid.unwrap().to_string();
    assert!(alive(&pid));
    bench.pool.shutdown(Duration::from_secs(10)).await;
    assert!(!alive(&pid));
    let record = bench.record("scripted");
    let methods: Vec<&str> = record.iter().rev().take(2).filter_map(|it| it["method"].as_str()).collect();
    assert_eq!(methods, ["exit", "shutdown"]);
    let error = bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ServerStarting);
}

#[tokio::test]
async fn a_stubborn_server_is_killed_with_its_children() {
    let directory = tempfile::tempdir().unwrap();
    let (same, own) = (directory.path().join("same"), directory.path().join("own"));
    let mut script = hovers()
        .on("shutdown", [Step::Never])
        .at_start(Step::Grandchild { own_group: false, pid_file: same.clone() })
        .at_start(Step::Grandchild { own_group: true, pid_file: own.clone() });
    script.stay = true;
    let bench = bench(&[("a.txt", "abc")], script);
    bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap();
    let pids = [
        bench.pool.status().await[0].pid.unwrap().to_string(),
        std::fs::read_to_string(&same).unwrap(),
        std::fs::read_to_string(&own).unwrap(),
    ];
    assert!(pids.iter().all(|pid| alive(pid)));
    let started = Instant::now();
    bench.pool.shutdown(Duration::from_secs(1)).await;
    assert!(started.elapsed() < Duration::from_secs(10));
    for pid in pids {
        until(move || !alive(&pid), "the end of a process").await;
    }
}

#[tokio::test]
async fn an_idle_server_is_stopped_and_restarted() {
    let servers = vec![("scripted", hovers(), "")];
    let bench = build(&[("a.txt", "abc")], servers, |limits| limits.idle = Duration::from_millis(200));
    bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap();
    let record = bench.beside("scripted.record");
    until(move || std::fs::read_to_string(&record).unwrap().contains("\"exit\""), "the idle stop").await;
    bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap();
    assert_eq!(bench.got("scripted", "initialize").len(), 2);
}

#[tokio::test]
async fn a_missing_server_is_named_with_its_install_hint() {
    let absent = |name| (name, hovers(), "[command]\ncandidates = [\"/no/such/server\"]");
    let bench = build(&[("a.txt", "abc"), ("b.md", "")], vec![absent("one"), absent("two")], |_| ());
    let error = bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::MissingTool);
    assert_eq!(error.to_string(), "one is not installed; install it: download it");
    let error = bench.pool.hover(&bench.doc("b.md"), 0, &cx(LONG)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "no language server is defined for b.md; search its text, or add a definition"
    );
    let error = self::bench(&[("a.txt", "")], hovers());
    let error = error.rename(&error.doc("a.txt"), 0, "x", &cx(LONG)).await.unwrap_err();
    assert_eq!(error.to_string(), "scripted does not offer rename");
}

#[tokio::test]
async fn a_candidate_that_fails_its_probe_is_skipped() {
    let exe = testing::language_server::executable();
    let more = format!(
        "[command]\ncandidates = [\"/bin/false\", \"/usr/bin/env\"]\nprobe = [\"--version\"]\nargs = [{exe:?}, \"$SCRIPT\"]\n"
    );
    let bench = build(&[("a.txt", "abc")], vec![("scripted", hovers(), more.as_str())], |_| ());
    bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap();

    let more = "[command]\ncandidates = [\"/bin/false\"]\nprobe = []\n";
    let bench = build(&[("a.txt", "abc")], vec![("scripted", hovers(), more)], |_| ());
    let error = bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::MissingTool);
    expect_test::expect![
        "scripted is not installed (/bin/false does not work: exit status: 1); install it: download it"
    ]
    .assert_eq(&error.to_string());
}

/// Covers a launcher that starts the server and ends.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_reported_process_is_the_working_one() {
    let exe = testing::language_server::executable();
    let more = format!(
        "[command]\ncandidates = [\"/bin/sh\"]\nargs = [\"-c\", 'exec 3<&0; \"$0\" \"$1\" <&3 3<&- &', {exe:?}, \"$SCRIPT\"]\n"
    );
    let bench = build(&[("a.txt", "abc")], vec![("scripted", hovers(), more.as_str())], |_| ());
    bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap();
    let works = |pid: u32| {
        std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
            .unwrap_or_default()
            .contains("scripted-language")
    };
    let started = Instant::now();
    // The launcher is reported until its end is noticed.
    while !bench.pool.status().await[0].pid.is_some_and(works) {
        assert!(started.elapsed() < LONG, "{:?}", bench.pool.status().await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap();
    bench.pool.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn nothing_is_started_without_trust() {
    let mut definitions = ServerDefinitions::default();
    let text = "name = \"s\"\n[command]\ncandidates = [\"/usr/bin/env\"]\n[install]\nhow = \"page\"\ncommand = \"x\"\n\
        [[languages]]\nid = \"words\"\npatterns = [\"*.txt\"]\n";
    definitions.insert(adapters::ServerDefinition::parse(text, "s", false).unwrap());
    let bench = open(tempfile::tempdir().unwrap(), &[("a.txt", "abc")], definitions, |_| (), |_| ());
    let error = bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap_err();
    assert!(
        matches!(&error, ServerError::Denied { denied, .. } if denied.by == DeniedBy::Unattended),
        "{error}"
    );
    // Before a request, no permission is requested at all.
    assert!(!bench.pool.begin(&bench.path("a.txt")) && !bench.pool.is_starting(&bench.path("a.txt")));
}

#[tokio::test]
async fn servers_follow_a_commit() {
    let watchers = json!({"registrations": [{"id": "w", "method": "workspace/didChangeWatchedFiles",
        "registerOptions": {"watchers": [{"globPattern": "**/*.txt"}]}}]});
    let mut script = hovers()
        .on("initialized", [Step::request("w", "client/registerCapability", watchers)])
        .on("textDocument/definition", [Step::wait_for("response", 1), Step::Result(Value::Null)]);
    script.capabilities["workspace"] = json!({"fileOperations": {"didRename": {"filters": []}}});
    let bench = bench(&[("a.txt", "a"), ("b.txt", "b"), ("c.txt", "c")], script);
    for name in ["a.txt", "b.txt", "c.txt"] {
        bench.pool.definition(&bench.doc(name), 0, &cx(LONG)).await.unwrap();
    }
    bench.write("a.txt", "changed");
    std::fs::remove_file(bench.path("b.txt")).unwrap();
    std::fs::rename(bench.path("c.txt"), bench.path("d.txt")).unwrap();
    bench.write("log.md", "");
    let file =
        |name: &str, kind| CommittedFile { path: bench.path(name), kind, edits: Vec::new(), version: None };
    let commit = Commit {
        id: CommitId("1".into()),
        run: RunId::new(),
        label: "test".into(),
        files: vec![
            file("a.txt", ChangeKind::Modified),
            file("b.txt", ChangeKind::Deleted),
            file("d.txt", ChangeKind::Renamed { from: bench.path("c.txt") }),
            file("log.md", ChangeKind::Created),
        ],
        notes: Vec::new(),
    };
    bench.pool.did_commit(&commit).await;
    // The next request comes after all these messages.
    bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap();
    let uris = |method: &str| -> Vec<Value> {
        bench.got("scripted", method).iter().map(|params| params["textDocument"]["uri"].clone()).collect()
    };
    assert_eq!(uris("textDocument/didChange"), [bench.uri("a.txt")]);
    let mut closed = uris("textDocument/didClose");
    closed.sort_by_key(Value::to_string);
    assert_eq!(closed, [bench.uri("b.txt"), bench.uri("c.txt")]);
    let events = &bench.got("scripted", "workspace/didChangeWatchedFiles")[0]["changes"];
    let event = |name: &str, kind: u8| json!({"uri": bench.uri(name), "type": kind});
    assert_eq!(*events, json!([event("a.txt", 2), event("b.txt", 3), event("c.txt", 3), event("d.txt", 1)]));
    // A new file is reported before it is opened.
    let reported = bench.record("scripted");
    let at = |is: &dyn Fn(&Value) -> bool| reported.iter().position(is).unwrap();
    let watched = at(&|it| it["method"] == "workspace/didChangeWatchedFiles");
    let shown = at(&|it| {
        it["method"] == "textDocument/didOpen" && it["params"]["textDocument"]["uri"] == bench.uri("d.txt")
    });
    assert!(watched < shown);
    let renamed = &bench.got("scripted", "workspace/didRenameFiles")[0]["files"];
    assert_eq!(*renamed, json!([{"oldUri": bench.uri("c.txt"), "newUri": bench.uri("d.txt")}]));
}

#[tokio::test]
async fn outside_changes_are_reported_to_servers() {
    let watchers = json!({"registrations": [{"id": "w", "method": "workspace/didChangeWatchedFiles",
        "registerOptions": {"watchers": [{"globPattern": "**/*"}]}}]});
    let script = hovers()
        .on("initialized", [Step::request("w", "client/registerCapability", watchers)])
        .on("textDocument/definition", [Step::wait_for("response", 1), Step::Result(Value::Null)]);
    let bench = bench(&[("a.txt", "a"), ("b.txt", "b"), ("c.txt", "c")], script);
    bench.pool.definition(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap();
    bench.write("b.txt", "longer");
    bench.write("new.txt", "n");
    std::fs::remove_file(bench.path("c.txt")).unwrap();
    let started = Instant::now();
    let events = loop {
        // Scans have a pause between them; a later request finds the change.
        bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap();
        if let Some(params) = bench.got("scripted", "workspace/didChangeWatchedFiles").first() {
            break params["changes"].clone();
        }
        assert!(started.elapsed() < LONG, "the changes are never reported");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let event = |name: &str, kind: u8| json!({"uri": bench.uri(name), "type": kind});
    assert_eq!(events, json!([event("b.txt", 2), event("c.txt", 3), event("new.txt", 1)]));
}

/// Compares the timeouts of requests about one position and about all uses.
///
/// Messages of a server are part of its state.
#[tokio::test]
async fn a_position_request_has_a_third_of_the_time() {
    let message =
        |kind: u8, text: &str| Step::notify("window/showMessage", json!({"type": kind, "message": text}));
    let script =
        Script::new(json!({"textDocumentSync": 2, "hoverProvider": true, "referencesProvider": true}))
            .on(
                "initialized",
                [message(1, "no toolchain\n"), message(3, "welcome"), message(1, "no toolchain")],
            )
            .on("textDocument/hover", [Step::Never])
            .on("textDocument/references", [Step::Never]);
    let bench = bench(&[("a.txt", "abc")], script);
    let (whole, doc) = (Duration::from_millis(1500), bench.doc("a.txt"));
    bench.pool.status().await;
    let started = Instant::now();
    let late = bench.pool.hover(&doc, 0, &cx(3 * whole)).await.unwrap_err();
    assert!(matches!(late, ServerError::Timeout { after, .. } if after == whole), "{late}");
    assert!(started.elapsed() < 3 * whole);
    let late = bench.pool.references(&doc, 0, true, &cx(whole)).await.unwrap_err();
    assert!(matches!(late, ServerError::Timeout { after, .. } if after == whole), "{late}");
    assert_eq!(bench.pool.status().await[0].messages, ["no toolchain"]);
}

/// Covers a server of several packages, which receives the environment of each.
#[tokio::test]
async fn settings_name_the_environment_of_the_package() {
    let ask = |name: &str| {
        let item = json!({"scopeUri": format!("${{root}}/{name}"), "section": "python"});
        Step::request(name, "workspace/configuration", json!({"items": [item]}))
    };
    let script = hovers()
        .on("textDocument/didOpen", [ask("p/a.txt"), ask("p"), ask("q")])
        .on("textDocument/definition", [Step::wait_for("response", 3), Step::Result(Value::Null)]);
    let more = "[settings.python]\npath = \"${venv}/bin/python\"\nother = 1\n";
    let files =
        [("p/a.txt", "abc"), ("p/.venv/pyvenv.cfg", ""), ("p/.venv/bin/python", "#!"), ("q/b.txt", "")];
    let reported = async |activated: Option<std::path::PathBuf>| {
        let bench = build(&files, vec![("scripted", script.clone(), more)], |limits| {
            limits.search.activated = activated;
        });
        let python = bench.path("p/.venv/bin/python");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&python, mode).unwrap();
        bench.pool.definition(&bench.doc("p/a.txt"), 0, &cx(LONG)).await.unwrap();
        let reported =
            bench.got("scripted", "workspace/didChangeConfiguration")[0]["settings"]["python"].clone();
        let answers = bench.record("scripted").into_iter().filter(|it| it["result"].is_array());
        let answers: Vec<Value> = answers.map(|it| it["result"][0].clone()).chain([reported]).collect();
        (answers, json!({"path": python.to_string(), "other": 1}))
    };
    let none = json!({"other": 1});
    let (answers, own) = reported(None).await;
    assert_eq!(answers, [own.clone(), own, none.clone(), none]);

    // An activated environment applies where the project has none.
    let directory = tempfile::tempdir().unwrap();
    let venv = directory.path().join("elsewhere");
    std::fs::create_dir_all(venv.join("bin")).unwrap();
    std::fs::write(venv.join("pyvenv.cfg"), "").unwrap();
    std::fs::copy("/bin/true", venv.join("bin/python")).unwrap();
    let (answers, own) = reported(Some(venv.clone())).await;
    let activated = json!({"path": venv.join("bin/python").display().to_string(), "other": 1});
    assert_eq!(answers, [own.clone(), own, activated.clone(), activated]);
}

#[tokio::test]
async fn settings_that_a_server_requests_are_not_sent_too() {
    let request =
        Step::request("settings", "workspace/configuration", json!({"items": [{"section": "tool"}]}));
    let script = hovers()
        .on("textDocument/didOpen", [request])
        .on("textDocument/definition", [Step::wait_for("response", 1), Step::Result(Value::Null)]);
    let more = "pull_settings = true\n[settings.tool]\nother = 1\n";
    let bench = build(&[("a.txt", "abc")], vec![("scripted", script, more)], |_| {});
    bench.pool.definition(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap();
    let answers: Vec<Value> =
        bench.record("scripted").into_iter().filter(|it| it["result"].is_array()).collect();
    assert_eq!(answers[0]["result"], json!([{"other": 1}]));
    assert!(bench.got("scripted", "workspace/didChangeConfiguration").is_empty());
}

/// The definition names files of other packages, and ignored files.
///
/// A registered glob that matches everything adds nothing; one with a name does. With more files
/// than the scan limit, the server relies on its own watching.
#[tokio::test]
async fn watched_files_of_the_definition_are_reported() {
    let watchers = json!({"registrations": [{"id": "w", "method": "workspace/didChangeWatchedFiles",
    "registerOptions": {"watchers": [
        {"globPattern": {"baseUri": "file:///", "pattern": "**/*"}}, {"globPattern": "**/named"}
    ]}}]});
    let script = || {
        hovers()
            .on("initialized", [Step::request("w", "client/registerCapability", watchers.clone())])
            .on("textDocument/definition", [Step::wait_for("response", 1), Step::Result(Value::Null)])
    };
    let more = "[root]\nmarkers = [\"mark\"]\n[watch]\nworkspace = true\nfiles = [\"*.json\"]\n\
        include_ignored = [\"mods/*/info\"]\ninitialization_options = { \"own.watching\" = false }\n\
        [initialization_options]\n\"own.else\" = 1\n";
    let files =
        [("p/mark", ""), ("p/a.txt", "a"), ("q/b.txt", "b"), (".gitignore", "mods\n"), (".git/x", "")];
    let bench = build(&files, vec![("scripted", script(), more)], |_| ());
    bench.pool.definition(&bench.doc("p/a.txt"), 0, &cx(LONG)).await.unwrap();
    let options = |bench: &Bench| bench.got("scripted", "initialize")[0]["initializationOptions"].clone();
    assert_eq!(options(&bench), json!({"own": {"else": 1, "watching": false}}));
    std::fs::create_dir_all(bench.path("mods/one")).unwrap();
    for name in ["q/b.txt", "base.json", "mods/one/info", "mods/one/more", "mods/named", "named", "other"] {
        bench.write(name, "new");
    }
    // A diagnostic request scans at once.
    let asked = bench.pool.diagnostics(&bench.doc("p/a.txt"), &cx(Duration::from_millis(300))).await;
    assert!(asked.unwrap().value.items.is_empty());
    let events = bench.got("scripted", "workspace/didChangeWatchedFiles")[0]["changes"].clone();
    let event = |name: &str, kind: u8| json!({"uri": bench.uri(name), "type": kind});
    let expected = [("base.json", 1), ("mods/one/info", 1), ("named", 1), ("q/b.txt", 2)];
    assert_eq!(events, json!(expected.map(|(name, kind)| event(name, kind))));
    let opened: Vec<Value> = bench
        .got("scripted", "textDocument/didOpen")
        .iter()
        .map(|it| it["textDocument"]["uri"].clone())
        .collect();
    assert_eq!(opened, [bench.uri("p/a.txt")], "another package's file is not shown");
    let many: Vec<String> = (0..4100).map(|at| format!("p/many/{at}.txt")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "")).chain(files).collect();
    let bench = build(&many, vec![("scripted", script(), more)], |_| ());
    bench.pool.definition(&bench.doc("p/a.txt"), 0, &cx(LONG)).await.unwrap();
    assert_eq!(options(&bench), json!({"own": {"else": 1}}));
}

/// Waits until no server of `a.txt` is starting in advance.
async fn came(bench: &Bench) -> bool {
    let started = Instant::now();
    while bench.pool.is_starting(&bench.path("a.txt")) {
        assert!(started.elapsed() < LONG);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bench.pool.is_warm(&bench.path("a.txt"))
}

#[tokio::test]
async fn a_server_is_started_in_advance_once_with_the_file() {
    let mut script = hovers();
    script.capabilities["diagnosticProvider"] = json!({});
    let bench = bench(&[("a.txt", "abc")], script);
    assert!(!bench.pool.is_starting(&bench.path("a.txt")));
    assert_eq!(
        bench.pool.cold_root(&bench.path("a.txt"), &[bench.path("b.txt")]),
        Some(bench.workspace.root().clone())
    );
    assert_eq!(bench.pool.cold_root(&bench.path("a.txt"), &[bench.path("b.other")]), None);
    assert!(bench.pool.begin(&bench.path("a.txt")) && bench.pool.is_starting(&bench.path("a.txt")));
    assert!(bench.pool.begin(&bench.path("a.txt")));
    assert!(came(&bench).await);
    assert!(bench.pool.begin(&bench.path("a.txt")) && !bench.pool.is_starting(&bench.path("a.txt")));
    assert_eq!(bench.pool.cold_root(&bench.path("a.txt"), &[bench.path("a.txt")]), None);
    assert!(!bench.pool.begin(&bench.path("a.other")), "no server has that language");
    bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap();
    let methods = ["initialize", "textDocument/didOpen"];
    assert_eq!(methods.map(|method| bench.got("scripted", method).len()), [1, 1]);
}

#[tokio::test]
async fn a_failed_advance_start_is_not_repeated() {
    let fails = Script::default().at_start(Step::Crash(3));
    let bench = bench(&[("a.txt", "abc")], fails);
    assert!(bench.pool.begin(&bench.path("a.txt")));
    assert!(!came(&bench).await);
    assert!(!bench.pool.begin(&bench.path("a.txt")));
}

/// Covers a server without file events, which reloads its projects once.
#[tokio::test]
async fn a_server_that_does_not_watch_reloads_its_projects() {
    const COMMAND: &str = "workspace/executeCommand";
    let script = hovers().on(COMMAND, [Step::DelayMs(100), Step::Result(Value::Null)]);
    let more = "[watch]\nreload_command = \"read\"\n";
    let bench = build(&[("a.txt", "abc")], vec![("scripted", script, more)], |_| ());
    let doc = bench.doc("a.txt");
    let ask = async || bench.pool.hover(&doc, 0, &cx(LONG)).await.unwrap();
    let read = || bench.got("scripted", COMMAND).len();
    ask().await;
    bench.write("a.txt", "abd");
    ask().await;
    assert_eq!(read(), 0, "a source that changes is shown");
    let file = |path, kind| CommittedFile { path, kind, edits: Vec::new(), version: None };
    let commit = async |name: &str| {
        bench.write(name, "x");
        let files = vec![file(bench.path(name), ChangeKind::Created)];
        let (id, run, label) = (CommitId("1".into()), RunId::new(), "test".into());
        bench.pool.did_commit(&Commit { id, run, label, files, notes: Vec::new() }).await;
    };
    commit("b.txt").await;
    commit("c.txt").await;
    assert_eq!(read(), 0, "an edit does not wait for it");
    ask().await;
    let methods: Vec<String> =
        bench.record("scripted").iter().filter_map(|it| Some(it["method"].as_str()?.to_owned())).collect();
    let at = methods.iter().position(|method| method == COMMAND).unwrap();
    assert!(methods[at..].contains(&"textDocument/hover".to_owned()), "{methods:?}");
    ask().await;
    assert_eq!(read(), 1);
    // Another program changes the file.
    std::fs::remove_file(bench.path("c.txt")).unwrap();
    let started = Instant::now();
    while read() < 2 {
        assert!(started.elapsed() < LONG);
        ask().await;
    }
}

/// Covers a server that checks on save, and saves by editors and other programs.
#[tokio::test]
async fn outside_saves_are_reported_to_servers() {
    let mut script = hovers();
    script.capabilities["textDocumentSync"] = json!({"openClose": true, "change": 1, "save": true});
    let typing = Typing::new();
    let editor: std::sync::Arc<dyn workspace::Editor> = std::sync::Arc::<Typing>::clone(&typing);
    let files = [("a.txt", "abc"), ("b.txt", "b")];
    let bench = build_beside(&files, vec![("scripted", script, "")], Some(editor), |_| ());
    let ask = async || drop(bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap());
    let until_saved = async |count: usize| {
        let started = Instant::now();
        while bench.got("scripted", "textDocument/didSave").len() < count {
            assert!(started.elapsed() < LONG, "{:?}", bench.record("scripted"));
            ask().await;
        }
    };
    ask().await;
    bench.write("a.txt", "by another program");
    // A file that is not open is only watched.
    bench.write("b.txt", "too");
    until_saved(1).await;
    let last = |method: &str| bench.got("scripted", method).pop().unwrap();
    assert_eq!(last("textDocument/didSave"), json!({"textDocument": {"uri": bench.uri("a.txt")}}));
    assert_eq!(last("textDocument/didChange")["contentChanges"][0]["text"], "by another program");
    typing.types(&bench.path("a.txt"), "typed by hand");
    ask().await;
    bench.write("a.txt", "typed by hand");
    typing.saves(&bench.path("a.txt"));
    until_saved(2).await;
    let of_a = |it: &Value| it["params"]["textDocument"]["uri"] == bench.uri("a.txt");
    let methods: Vec<String> = bench
        .record("scripted")
        .iter()
        .filter(|it| of_a(it))
        .filter_map(|it| Some(it["method"].as_str()?.replace("textDocument/", "")))
        .filter(|method| method.starts_with("did"))
        .collect();
    assert_eq!(methods, ["didOpen", "didChange", "didSave", "didChange", "didSave"]);
}

/// Creates files; a file of the server touches the marker of its package.
#[tokio::test]
async fn markers_are_touched_for_the_servers_files_only() {
    let watchers = json!({"registrations": [{"id": "w", "method": "workspace/didChangeWatchedFiles",
        "registerOptions": {"watchers": [{"globPattern": "**/mark"}]}}]});
    let script = hovers()
        .on("initialized", [Step::request("w", "client/registerCapability", watchers)])
        .on("textDocument/hover", [Step::wait_for("response", 1), Step::Result(json!({"contents": "x"}))]);
    let more = "[watch]\nby_marker = true\n[root]\nmarkers = [\"mark\"]\n";
    let files = [("mark", ""), ("a.txt", "abc")];
    let bench = build(&files, vec![("scripted", script, more)], |_| ());
    let doc = bench.doc("a.txt");
    for (name, times) in [("README.md", 0), ("b.txt", 1)] {
        bench.pool.hover(&doc, 0, &cx(LONG)).await.unwrap();
        bench.write(name, "x");
        let file = CommittedFile {
            path: bench.path(name),
            kind: ChangeKind::Created,
            edits: Vec::new(),
            version: None,
        };
        let (id, run, label) = (CommitId("1".into()), RunId::new(), "test".into());
        bench.pool.did_commit(&Commit { id, run, label, files: vec![file], notes: Vec::new() }).await;
        bench.pool.hover(&doc, 0, &cx(LONG)).await.unwrap();
        let reported = bench.got("scripted", "workspace/didChangeWatchedFiles");
        assert_eq!(reported.len(), times, "{name}: {reported:?}");
    }
}
