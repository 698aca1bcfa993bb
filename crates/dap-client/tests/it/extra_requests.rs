//! Rare requests: each checks the adapter's capabilities and names the nearest alternative.

use dap_client::{DapError, Session};
use serde_json::{Value, json};
use testing::debug_adapter::{Script, Step};

use crate::bench::{Bench, clock, stopped_or_ended};

fn stops_at_start() -> Script {
    Script::new().on("configurationDone", [Step::Body(json!({})), Step::stopped("breakpoint")])
}

/// An adapter with all capabilities.
///
/// It answers with its arguments where a test checks them.
fn able() -> Bench {
    let mut script = stops_at_start()
        .on(
            "gotoTargets",
            [Step::Body(json!({"targets": [{"id": 4, "label": "there", "line": "${arguments.line}"}]}))],
        )
        .on("goto", [Step::Body(json!({})), Step::stopped("goto")])
        .on("stepBack", [Step::Body(json!({})), Step::stopped("step")])
        .on("restart", [Step::Body(json!({})), Step::stopped("breakpoint")])
        .on("readMemory", [Step::Body(json!({"address": "0x10", "data": "Kg==", "unreadableBytes": 3}))])
        .on("writeMemory", [Step::Body(json!({"bytesWritten": 1}))])
        .on("disassemble", [Step::Body(json!({"instructions": [{"address": "0x1", "instruction": "ret"}]}))])
        .on(
            "completions",
            [Step::Body(json!({"targets": [{"label": "items"}, {"label": "x", "text": "x()"}]}))],
        )
        .on("setExpression", [Step::Body(json!({"value": "${arguments.value}"}))])
        .on("setVariable", [Step::Body(json!({"result": "40", "type": "int"}))])
        .on("dataBreakpointInfo", [Step::Body(json!({"dataId": "n@1", "description": "n"}))])
        .on("setDataBreakpoints", [Step::Body(json!({"breakpoints": [{"id": 9, "verified": true}]}))])
        .on(
            "setInstructionBreakpoints",
            [Step::Body(json!({"breakpoints": [{"verified": false, "message": "no"}]}))],
        )
        .on(
            "exceptionInfo",
            [Step::Body(json!({"exceptionId": "E", "description": "no more", "breakMode": "always"}))],
        )
        .on("modules", [Step::Body(json!({"modules": [{"id": 1, "name": "m"}]}))])
        .on("source", [Step::Body(json!({"content": "one\ntwo\n"}))])
        .on(
            "stackTrace",
            [Step::Body(json!({"stackFrames": [{"id": 7, "name": "f", "line": 1, "column": 1,
                "instructionPointerReference": "0x99", "source": {"name": "made", "sourceReference": 5}}]}))],
        );
    for it in [
        "supportsGotoTargetsRequest",
        "supportsStepBack",
        "supportsRestartRequest",
        "supportsReadMemoryRequest",
        "supportsWriteMemoryRequest",
        "supportsDisassembleRequest",
        "supportsCompletionsRequest",
        "supportsSetExpression",
        "supportsDataBreakpoints",
        "supportsInstructionBreakpoints",
        "supportsExceptionInfoRequest",
        "supportsModulesRequest",
    ] {
        script.capabilities[it] = json!(true);
    }
    Bench::new(script)
}

fn asked(bench: &Bench, command: &str) -> Value {
    let record = bench.record();
    let found = record.iter().rfind(|it| it["command"] == command);
    found.unwrap_or_else(|| panic!("it was not asked for {command}"))["arguments"].clone()
}

#[tokio::test]
async fn supported_requests_are_sent_as_the_protocol_says() {
    let bench = able();
    let session = bench.start().await;
    stopped_or_ended(&session).await;
    let path = bench.root.join("a.txt");
    let target = session.goto_targets(&path, 3, &clock()).await.unwrap().remove(0);
    assert_eq!((target.id, target.line), (4, 3));
    session.goto(target.id, None, &clock()).await.unwrap();
    assert_eq!(stopped_or_ended(&session).await.name(), "stopped");
    assert_eq!(asked(&bench, "goto"), json!({"targetId": 4, "threadId": 1}));

    let frame = session.stack(None, 0, 1, &clock()).await.unwrap().0.remove(0).id;
    assert_eq!(session.instruction(frame).unwrap().as_deref(), Some("0x99"));
    assert_eq!(session.source(frame, &clock()).await.unwrap(), "one\ntwo\n");
    assert_eq!(asked(&bench, "source")["sourceReference"], 5);
    assert_eq!(session.completions("é.i", Some(frame), &clock()).await.unwrap(), ["items", "x()"]);
    assert_eq!(asked(&bench, "completions"), json!({"text": "é.i", "column": 4, "frameId": 7}));
    assert_eq!(session.set_expression("a.b", "5", frame, &clock()).await.unwrap().value, "5");
    let scope = session.scopes(frame, &clock()).await.unwrap().remove(0).variables;
    assert_eq!(session.set_variable(scope, "n", "40", &clock()).await.unwrap().value, "40");
    let memory = session.read_memory("0x10", -2, 4, &clock()).await.unwrap();
    assert_eq!(memory, ("0x10".to_owned(), "Kg==".to_owned(), 3));
    assert_eq!(session.write_memory("0x10", 0, "Kg==", &clock()).await.unwrap(), Some(1));
    assert_eq!(session.disassemble("0x99", 0, 1, &clock()).await.unwrap()[0]["instruction"], "ret");
    assert_eq!(session.exception_info(None, &clock()).await.unwrap().description, "no more");
    assert_eq!(session.loaded(true, &clock()).await.unwrap()[0]["name"], "m");

    let data = session.data_breakpoint("n", Some(scope), None, &clock()).await.unwrap();
    session.change_breakpoints(|all| all.add_data(data), &clock()).await.unwrap();
    let at = Session::at_instruction("0x99", 4);
    session.change_breakpoints(|all| all.add_instruction(at), &clock()).await.unwrap();
    assert_eq!(
        asked(&bench, "setInstructionBreakpoints"),
        json!({"breakpoints": [{"instructionReference": "0x99", "offset": 4}]})
    );
    let all = session.breakpoints();
    assert!(all.data()[0].1.verified && all.instructions()[0].1.message.as_deref() == Some("no"));

    session.back("stepBack", None, &clock()).await.unwrap();
    assert_eq!(stopped_or_ended(&session).await.name(), "stopped");
    assert!(
        matches!(session.source(frame, &clock()).await, Err(DapError::Handle(_))),
        "a frame of an earlier stop"
    );
    session.restart(&clock()).await.unwrap();
    assert_eq!(stopped_or_ended(&session).await.name(), "stopped");
    session.terminate(&clock()).await;
}

#[tokio::test]
async fn unsupported_requests_are_refused_with_an_alternative() {
    let bench = Bench::new(stops_at_start());
    let session = bench.start().await;
    stopped_or_ended(&session).await;
    let path = bench.root.join("a.txt");
    let frame = session.stack(None, 0, 1, &clock()).await.unwrap().0.remove(0).id;
    let said = [
        session.goto_targets(&path, 3, &clock()).await.map(drop),
        session.back("stepBack", None, &clock()).await,
        session.read_memory("0x1", 0, 1, &clock()).await.map(drop),
        session.write_memory("0x1", 0, "", &clock()).await.map(drop),
        session.disassemble("0x1", 0, 1, &clock()).await.map(drop),
        session.completions("a", None, &clock()).await.map(drop),
        session.set_expression("a", "1", frame, &clock()).await.map(drop),
        session.source(frame, &clock()).await.map(drop),
        session.exception_info(None, &clock()).await.map(drop),
        session.loaded(false, &clock()).await.map(drop),
        session.data_breakpoint("a", None, None, &clock()).await.map(drop),
        session
            .change_breakpoints(|all| all.add_instruction(Session::at_instruction("0x1", 0)), &clock())
            .await,
    ];
    for outcome in said {
        let error = outcome.unwrap_err();
        let nearest = matches!(&error, DapError::Unsupported { nearest: Some(_), .. });
        assert!(nearest, "{error}");
    }
    assert!(!session.can_restart());
    assert!(session.breakpoints().instructions().is_empty(), "refused breakpoints are not stored");
    let sent = bench.got();
    for command in ["gotoTargets", "stepBack", "readMemory", "restart", "setInstructionBreakpoints", "source"]
    {
        assert!(!sent.contains(&command.to_owned()), "{command} was sent");
    }
    session.terminate(&clock()).await;
}
