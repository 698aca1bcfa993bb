//! Sessions with an adapter that follows the protocol.

use std::sync::Arc;
use std::time::Duration;

use adapters::{DebuggerDefinition, DebuggerDefinitions, Parse, ProjectPrograms, SearchPath};
use dap_client::{
    Breakpoints, DapError, End, Ending, LaunchPlan, Need, Page, Sessions, SourceBreakpoint, State, Target,
};
use policy::ErrorCode;
use serde_json::{Value, json};
use testing::debug_adapter::{Script, Step};
use workspace::RunId;

use crate::bench::{Bench, clock, stopped_or_ended, within};

fn stops_at_start() -> Script {
    Script::new().on("configurationDone", [Step::Body(json!({})), Step::stopped("breakpoint")])
}

#[tokio::test]
async fn breakpoints_are_in_place_before_the_program_runs() {
    let bench = Bench::new(stops_at_start());
    let session = bench.start().await;
    assert!(matches!(stopped_or_ended(&session).await, State::Stopped(stop) if stop.reason == "breakpoint"));
    let expected = ["initialize", "launch", "setBreakpoints", "setExceptionBreakpoints", "configurationDone"];
    assert_eq!(bench.got(), expected);
    let record = bench.record();
    assert_eq!(
        record[1]["arguments"],
        json!({"program": bench.root.join("a.txt").to_string(), "args": ["x"]})
    );
    assert_eq!(record[2]["arguments"]["breakpoints"], json!([{"line": 2}]));
    assert_eq!(record[3]["arguments"], json!({"filters": ["uncaught"]}));
    let placed: Vec<bool> = session.breakpoints().list().map(|(_, placed)| placed.verified).collect();
    assert_eq!(placed, [true]);
    session.terminate(&clock()).await;
    assert!(!bench.adapter_lives());
}

#[tokio::test]
async fn steps_stop_again_and_stale_handles_are_refused_by_name() {
    let bench = Bench::new(stops_at_start());
    let session = bench.start().await;
    stopped_or_ended(&session).await;
    let (frames, total) = session.stack(None, 0, 20, &clock()).await.unwrap();
    assert_eq!((frames.len(), frames[0].name.as_str(), total), (1, "main", Some(1)));
    let scopes = session.scopes(frames[0].id, &clock()).await.unwrap();
    let variables = session.variables(scopes[0].variables, &Page::default(), &clock()).await.unwrap();
    assert_eq!((variables[0].name.as_str(), variables[0].value.as_str()), ("n", "3"));

    session.run("next", None, &clock()).await.unwrap();
    assert!(matches!(stopped_or_ended(&session).await, State::Stopped(stop) if stop.reason == "step"));
    let error = session.scopes(frames[0].id, &clock()).await.unwrap_err();
    assert_eq!(error.to_string(), "frame 1 was `main` at an earlier stop; use `stack` again");
    assert_eq!(error.code(), ErrorCode::StaleText);
    let error = session.variables(scopes[0].variables, &Page::default(), &clock()).await.unwrap_err();
    expect_test::expect!["variables_reference 1 was `Locals` at an earlier stop; use `scopes` again"]
        .assert_eq(&error.to_string());
    session.terminate(&clock()).await;
}

#[tokio::test]
async fn a_running_program_is_not_asked_for_its_stack() {
    let bench = Bench::new(Script::new().on("pause", [Step::Body(json!({})), Step::stopped("pause")]));
    let session = bench.start().await;
    assert_eq!(session.state(), State::Running);
    let error = session.stack(None, 0, 20, &clock()).await.unwrap_err();
    expect_test::expect![
        "`stack` does not fit: the session is running; `pause` it, or wait for a breakpoint with `snapshot`"
    ]
    .assert_eq(&error.to_string());
    assert_eq!(error.code(), ErrorCode::WrongState);
    assert!(!bench.got().contains(&"stackTrace".to_owned()), "it was not sent");
    session.pause(None, &clock()).await.unwrap();
    assert!(matches!(stopped_or_ended(&session).await, State::Stopped(_)));
    session.terminate(&clock()).await;
}

#[tokio::test]
async fn a_refused_step_leaves_the_program_stopped() {
    let bench = Bench::new(stops_at_start().on("next", [Step::Fail("not here".into())]));
    let session = bench.start().await;
    stopped_or_ended(&session).await;
    let error = session.run("next", None, &clock()).await.unwrap_err();
    assert_eq!(error.to_string(), "scripted refused `next`: not here");
    assert!(matches!(session.state(), State::Stopped(_)));
    session.terminate(&clock()).await;
}

#[tokio::test]
async fn changes_of_state_are_published_in_order() {
    let bench = Bench::new(stops_at_start().on(
        "continue",
        [
            Step::Body(json!({})),
            Step::event("exited", json!({"exitCode": 7})),
            Step::event("terminated", json!({})),
        ],
    ));
    let session = bench.start().await;
    stopped_or_ended(&session).await;
    let mut changes = session.changes();
    session.run("continue", None, &clock()).await.unwrap();
    let end = End { exit_code: Some(7), ..End::default() };
    assert_eq!(stopped_or_ended(&session).await, State::Terminated(end.clone()));
    assert_eq!(changes.try_recv().unwrap(), State::Running);
    assert_eq!(changes.try_recv().unwrap(), State::Terminated(end));
    assert!(!bench.adapter_lives(), "it is reaped when the session has ended");
}

#[tokio::test]
async fn unsupported_requests_are_refused_before_they_are_sent() {
    let bench = Bench::new(Script::new());
    let plan = bench.plan(|all| all.add(SourceBreakpoint { log: Some("n".into()), ..bench.at(3) }));
    let error = bench.start_plan(&plan, &clock()).await.map(|_| ()).unwrap_err();
    let said = "scripted cannot write log messages; set a plain breakpoint and look at each stop";
    assert_eq!((error.to_string().as_str(), error.code()), (said, ErrorCode::Unsupported));
    assert!(!bench.adapter_lives());
    let plan = bench.plan(|all| all.exceptions = Some(vec!["raised".into()]));
    let error = bench.start_plan(&plan, &clock()).await.map(|_| ()).unwrap_err();
    expect_test::expect!["scripted cannot stop at exceptions `raised`; there are: uncaught"]
        .assert_eq(&error.to_string());
    // It is listed as a session that did not start, not as a failed adapter.
    let last = bench.sessions.list().pop().unwrap();
    let State::Terminated(end) = last.state() else { panic!("not terminated") };
    assert!(end.start_failed);
    expect_test::expect!["scripted cannot stop at exceptions `raised`; there are: uncaught"]
        .assert_eq(&end.failure.unwrap());
}

/// Tests the command that the user approves.
#[test]
fn the_interpreter_of_a_module_is_not_a_directory() {
    let bench = Bench::new(Script::new());
    let mut spec = bench.spec();
    spec.target = Target::Module("pkg".into());
    spec.cwd = bench.root.join("bin/tools");
    let program = bench.sessions.plan(&spec).unwrap().program.unwrap();
    assert_eq!(
        (program.program.to_str(), program.args[..2].join(" ")),
        (Some("python"), "-m pkg".to_owned())
    );
}

/// An interpreter beside the adapter lacks what the program imports.
#[test]
#[cfg(unix)]
fn the_interpreter_of_a_program_is_the_users() {
    let text = "name = \"snakes\"\npatterns = [\"*.txt\"]\nverified = false\ncommand.candidates = [\"/bin/sh\"]\n\
        variables.python = [\"${venv}/bin/python\", \"python3\"]\nlaunch.python = \"${python}\"\n\
        install = { how = \"page\", page = \"x\" }\n";
    let mut definitions = DebuggerDefinitions::default();
    definitions.insert(DebuggerDefinition::parse(text, "snakes", false).unwrap());
    let bench = Bench::new(Script::new());
    let program = |name: &str| {
        let path = bench.root.join(name).as_path().to_owned();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::copy("/bin/sh", &path).unwrap();
    };
    let search = SearchPath {
        managed: Some(bench.root.join("managed").into()),
        path: vec![bench.root.join("path").into()],
        ..SearchPath::default()
    };
    let programs = ProjectPrograms { search, workspace: bench.root.clone() };
    let sessions = Sessions::new(definitions, programs, Arc::clone(&bench.processes));
    let python = || sessions.plan(&bench.spec()).map(|it| it.arguments["python"].clone());
    program("managed/snakes/1/bin/python3");
    program("managed/snakes/1/.complete");
    expect_test::expect![[r#"
        no python to run the program was found; put one of these on PATH: python3
        or name one with `arguments`: {"python": "PATH"}"#]]
    .assert_eq(&python().unwrap_err().to_string());
    for name in ["path/python3", ".venv/bin/python"] {
        program(name);
        std::fs::write(bench.root.join(".venv/pyvenv.cfg").as_path(), "").ok();
        assert_eq!(python().unwrap(), json!(bench.root.join(name).to_string()));
    }
}

#[tokio::test]
async fn functions_and_exceptions_have_conditions() {
    let mut script = stops_at_start();
    script.capabilities["supportsFunctionBreakpoints"] = json!(true);
    script.capabilities["supportsConditionalBreakpoints"] = json!(true);
    script.capabilities["supportsExceptionFilterOptions"] = json!(true);
    script.capabilities["exceptionBreakpointFilters"] = json!([
        {"filter": "raised", "label": "Raised", "supportsCondition": true}, {"filter": "uncaught", "label": "Uncaught"}]);
    let bench = Bench::new(script);
    let plan = bench.plan(|all| {
        all.add_function("add if a == 1");
        all.add_function("main");
        all.exceptions = Some(vec!["raised if code > 3".into(), "uncaught".into()]);
    });
    let session = bench.start_plan(&plan, &clock()).await.unwrap();
    let sent = |command: &str| bench.record().into_iter().rfind(|it| it["command"] == command).unwrap();
    let functions = json!({"breakpoints": [{"name": "add", "condition": "a == 1"}, {"name": "main"}]});
    assert_eq!(sent("setFunctionBreakpoints")["arguments"], functions);
    let options = json!([{"filterId": "raised", "condition": "code > 3"}]);
    let exceptions = json!({"filters": ["uncaught"], "filterOptions": options});
    assert_eq!(sent("setExceptionBreakpoints")["arguments"], exceptions);
    let refused = session
        .change_breakpoints(|all| all.exceptions = Some(vec!["uncaught if x".into()]), &clock())
        .await
        .unwrap_err();
    let said =
        "scripted cannot stop at exceptions `uncaught` on a condition; name `uncaught` without a condition";
    assert_eq!(refused.to_string(), said);
    session.terminate(&clock()).await;
}

#[tokio::test]
async fn exceptions_have_modes_and_names() {
    let mut script = stops_at_start();
    script.capabilities["supportsExceptionFilterOptions"] = json!(true);
    script.capabilities["breakpointModes"] = json!([
        {"mode": "hardware", "label": "", "appliesTo": ["source"]}, {"mode": "deep", "label": "", "appliesTo": ["exception"]}]);
    let names = "quirks.exception_names = { category = \"All\", filters = [[\"uncaught\", \"unhandled\"]] }";
    let bench = Bench::with(script, names, &[]);
    let session = bench.start().await;
    let stop_at = async |it: &str| {
        let exceptions = Some(it.split(" and ").map(str::to_owned).collect());
        let change = |all: &mut Breakpoints| all.exceptions = exceptions;
        session.change_breakpoints(change, &clock()).await.map_err(|error| error.to_string())?;
        Ok(bench.record().pop().unwrap()["arguments"].clone())
    };
    let all = json!({"path": [{"names": ["All"]}], "breakMode": "unhandled"});
    let one = json!({"path": [{"names": ["All"]}, {"names": ["a.KeyError"]}], "breakMode": "always"});
    let sent = json!({"filters": ["uncaught"], "exceptionOptions": [all, one]});
    assert_eq!(stop_at("a.KeyError and uncaught").await, Ok(sent));
    let all = json!({"names": ["All"]});
    let low = json!({"path": [all, {"names": ["struct.error"]}], "breakMode": "unhandled"});
    let sent = json!({"filters": [], "exceptionOptions": [low]});
    assert_eq!(stop_at("struct.error mode unhandled").await, Ok(sent));
    let sent = json!({"filters": [], "filterOptions": [{"filterId": "uncaught", "mode": "deep"}]});
    assert_eq!(stop_at("uncaught mode deep").await, Ok(sent));
    for (asked, refused) in [
        ("uncaught mode hardware", "exceptions `uncaught` in the mode `hardware`; there are: deep"),
        (
            "KeyError mode now",
            "`KeyError` in the mode `now`; there are: always, unhandled, userUnhandled, never",
        ),
        ("KeyError if x", "`KeyError` on a condition; name `KeyError` without a condition"),
        ("a.", "exceptions `a.`; there are: uncaught, and exceptions by name"),
        ("uncought", "exceptions `uncought`; there are: uncaught, and exceptions by name"),
    ] {
        assert_eq!(stop_at(asked).await, Err(format!("scripted cannot stop at {refused}")));
    }
    session.terminate(&clock()).await;
}

#[tokio::test]
async fn an_abandoned_request_is_cancelled_at_the_adapter() {
    let mut script =
        stops_at_start().on("evaluate", [Step::wait_for("cancel", 1), Step::Body(json!({"result": "late"}))]);
    script.capabilities["supportsCancelRequest"] = json!(true);
    let bench = Bench::new(script);
    let session = bench.start().await;
    stopped_or_ended(&session).await;
    let error = session.evaluate("n", None, "watch", &within(Duration::from_millis(200))).await.unwrap_err();
    assert!(matches!(error, DapError::Timeout { .. }), "{error}");
    // The late answer came before this one and had no effect.
    session.stack(None, 0, 1, &clock()).await.unwrap();
    let record = bench.record();
    let asked = record.iter().find(|it| it["command"] == "evaluate").unwrap();
    let cancel = record.iter().find(|it| it["command"] == "cancel").unwrap();
    assert_eq!(cancel["arguments"], json!({"requestId": asked["seq"]}));
    session.terminate(&clock()).await;
}

/// Checks that the adapter was asked to leave the program running.
async fn left(bench: &Bench, session: &dap_client::Session) {
    let State::Terminated(end) = stopped_or_ended(session).await else { panic!("not terminated") };
    assert_eq!((end.asked, end.failure), (Some(Ending::Left), None));
    let record = bench.record();
    let sent: Vec<_> = record.iter().filter(|it| it["command"] == "disconnect").collect();
    assert_eq!(sent[0]["arguments"], json!({"terminateDebuggee": false}));
    assert!(!bench.got().contains(&"terminate".to_owned()));
}

/// An adapter without the capability is not asked to end an attached program.
#[tokio::test]
async fn an_attached_program_is_ended_only_by_a_capable_adapter() {
    for (capability, sent) in [
        ("supportTerminateDebuggee", ("disconnect", json!({"terminateDebuggee": true}))),
        ("supportsTerminateRequest", ("terminate", json!({}))),
        ("supportsNothing", ("disconnect", json!({}))),
    ] {
        let mut script = stops_at_start();
        script.capabilities[capability] = json!(true);
        let bench = Bench::new(script);
        let plan = LaunchPlan { request: "attach", ..bench.plan(|_| ()) };
        let session = bench.start_plan(&plan, &clock()).await.unwrap();
        stopped_or_ended(&session).await;
        let can = session.can_end();
        assert_eq!(can.is_ok(), capability != "supportsNothing", "{capability}");
        if let Err(error) = can {
            let said = "scripted cannot end a program that it did not launch; `disconnect` leaves it running";
            assert_eq!(error.to_string(), said);
        }
        session.terminate(&clock()).await;
        let record = bench.record();
        let first = record.iter().find(|it| it["command"] == sent.0).unwrap();
        assert_eq!(first["arguments"], sent.1, "{capability}");
    }
}

/// The requested part is returned whether the adapter pages, returns all or ignores
/// the start.
#[tokio::test]
async fn a_stack_is_read_in_parts_whatever_the_adapter_returns() {
    let frames = |from: u64, to: u64| -> Vec<Value> {
        (from..to).map(|it| json!({"id": it + 1, "name": format!("f{it}"), "line": 1, "column": 1})).collect()
    };
    for (pages, given, asked, total) in [
        (true, frames(2, 4), json!([2, 2]), None),
        // The adapter returns all frames, although it reported paging.
        (true, frames(0, 9), json!([2, 2]), Some(9)),
        // The adapter ignores the start.
        (false, frames(0, 4), json!([0, 4]), None),
        (false, frames(0, 9), json!([0, 4]), Some(9)),
    ] {
        let mut script = stops_at_start().on("stackTrace", [Step::Body(json!({"stackFrames": given}))]);
        script.capabilities["supportsDelayedStackTraceLoading"] = json!(pages);
        let bench = Bench::new(script);
        let session = bench.start().await;
        stopped_or_ended(&session).await;
        let (frames, all) = session.stack(None, 2, 2, &clock()).await.unwrap();
        let names: Vec<_> = frames.iter().map(|it| it.name.as_str()).collect();
        assert_eq!((names, all), (vec!["f2", "f3"], total), "{given:?}");
        let record = bench.record();
        let sent = record.iter().find(|it| it["command"] == "stackTrace").unwrap();
        assert_eq!(json!([sent["arguments"]["startFrame"], sent["arguments"]["levels"]]), asked);
        session.terminate(&clock()).await;
    }
}

#[tokio::test]
async fn an_attached_program_keeps_running_when_pilcrow_ends() {
    for shutdown in [true, false] {
        let mut script = stops_at_start();
        script.capabilities["supportsTerminateRequest"] = json!(true);
        let bench = Bench::new(script);
        let plan = LaunchPlan { request: "attach", ..bench.plan(|_| ()) };
        let session = bench.start_plan(&plan, &clock()).await.unwrap();
        stopped_or_ended(&session).await;
        if shutdown {
            bench.sessions.shutdown(Duration::from_millis(1)).await;
        } else {
            session.stop(&clock()).await;
        }
        left(&bench, &session).await;
    }
}

#[tokio::test]
async fn the_exit_code_after_a_requested_end_is_marked() {
    let end = [Step::event("exited", json!({"exitCode": 0})), Step::Body(json!({}))];
    let bench = Bench::new(stops_at_start().on("disconnect", end));
    let session = bench.start().await;
    stopped_or_ended(&session).await;
    session.terminate(&clock()).await;
    let State::Terminated(end) = session.state() else { panic!("not terminated") };
    assert_eq!((end.exit_code, end.asked), (Some(0), Some(Ending::Terminated)));
}

#[tokio::test]
async fn a_code_that_is_the_signal_of_the_last_stop_is_a_signal() {
    let segfault = json!({"reason": "exception", "threadId": 1, "allThreadsStopped": true,
        "description": "signal SIGSEGV: address not mapped to object"});
    for (signals_as_codes, code, expected) in
        [(true, 11, (None, Some(11))), (true, 3, (Some(3), None)), (false, 11, (Some(11), None))]
    {
        let script = Script::new()
            .on("configurationDone", [Step::Body(json!({})), Step::event("stopped", segfault.clone())])
            .on(
                "continue",
                [
                    Step::Body(json!({})),
                    Step::event("exited", json!({"exitCode": code})),
                    Step::event("terminated", json!({})),
                ],
            );
        let bench = Bench::with(script, &format!("quirks.signals_as_codes = {signals_as_codes}"), &[]);
        let session = bench.start().await;
        stopped_or_ended(&session).await;
        session.run("continue", None, &clock()).await.unwrap();
        let State::Terminated(end) = stopped_or_ended(&session).await else { panic!("not terminated") };
        assert_eq!((end.exit_code, end.signal), expected, "{code}");
    }
}

#[tokio::test]
async fn sessions_are_found_by_name_and_all_end_together() {
    let bench = Bench::new(stops_at_start());
    let (one, two) = (bench.start().await, bench.start().await);
    let run = RunId::new();
    let error = bench.sessions.get(None, &run).map(|_| ()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Ambiguous);
    for id in ["debug-1", "debug-2"] {
        assert!(error.to_string().contains(id), "{error}");
    }
    assert_eq!(bench.sessions.get(Some("debug-2"), &run).unwrap().id, two.id);
    one.terminate(&clock()).await;
    assert_eq!(bench.sessions.get(None, &run).unwrap().id, two.id);
    bench.sessions.shutdown(Duration::from_secs(10)).await;
    assert_eq!(two.state().name(), "terminated");
    assert!(bench.processes.end_all(Duration::from_secs(5)).await.is_empty());
    let error = two.ask("threads", json!({}), Need::Alive, &clock()).await.unwrap_err();
    expect_test::expect!["`threads` does not fit: the session is terminated; `launch` again"]
        .assert_eq(&error.to_string());
}

#[tokio::test]
async fn the_session_shown_last_is_used_when_none_is_named() {
    let bench = Bench::new(stops_at_start());
    let (first, second) = (bench.start().await, bench.start().await);
    stopped_or_ended(&first).await;
    stopped_or_ended(&second).await;
    let run = RunId::new();
    [&first, &second].into_iter().for_each(|it| it.started_by(run.clone()));
    let meant = || bench.sessions.get(None, &run).map(|it| it.id.clone());
    assert_eq!(meant().unwrap_err().code(), ErrorCode::Ambiguous, "no session was shown");
    bench.sessions.show(&second, &run);
    bench.sessions.show(&first, &run);
    assert_eq!(meant().unwrap(), first.id);
    bench.sessions.show(&second, &run);
    assert_eq!(meant().unwrap(), second.id);
    let third = bench.start().await;
    stopped_or_ended(&third).await;
    assert_eq!(meant().unwrap(), second.id, "the third was not shown");
    second.terminate(&clock()).await;
    assert_eq!(meant().unwrap(), first.id, "the live session that was shown last");
    first.terminate(&clock()).await;
    third.terminate(&clock()).await;
}

#[tokio::test]
async fn a_session_shown_to_another_run_is_not_used() {
    let bench = Bench::new(stops_at_start());
    let (mine, external) = (bench.start().await, bench.start().await);
    let (run, other) = (RunId::new(), RunId::new());
    mine.started_by(run.clone());
    external.started_by(other.clone());
    let meant = |run: &RunId| bench.sessions.get(None, run).map(|it| it.id.clone());
    stopped_or_ended(&mine).await;
    stopped_or_ended(&external).await;
    bench.sessions.show(&mine, &run);
    bench.sessions.show(&external, &other);
    assert_eq!(meant(&run).unwrap(), mine.id);
    assert_eq!(meant(&other).unwrap(), external.id);
    // A session of another run that was shown does not change that.
    bench.sessions.show(&external, &run);
    assert_eq!(meant(&run).unwrap(), mine.id);
    let third = RunId::new();
    bench.sessions.show(&external, &third);
    assert_eq!(meant(&third).unwrap_err().code(), ErrorCode::Ambiguous);
    mine.terminate(&clock()).await;
    external.terminate(&clock()).await;
}
