//! The built-in planner: a model that needs no key.
//!
//! It parses the prompt by a small grammar ([`grammar`]) and responds with tool calls, so it uses the same
//! loop, policy, events and surfaces as any model. It rejects prompts that it does not understand.

pub mod grammar;

use llm::{
    AssistantMessage, Content, Message, MessageStream, Model, ModelInfo, Request, StopReason, StreamEvent,
    ToolCall, ToolResultMessage,
};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::cancellation;
use grammar::{Job, Place};

/// The usual test command of the project in the current directory.
const RUN_TESTS: &str = "if [ -f Cargo.toml ]; then cargo test; elif [ -f go.mod ]; then go test ./...; elif [ -f package.json ]; then npm test; else python3 -m pytest; fi";

/// Candidates offered to the user, as many as the tool `ask` takes.
const MAX_CHOICES: usize = 6;

/// The model called `planner`.
#[derive(Debug)]
pub struct Planner {
    info: ModelInfo,
    call: Option<Call>,
}

/// A tool's name with its arguments.
type Call = (String, Map<String, Value>);

impl Planner {
    /// Creates a planner. It has no state besides the transcript.
    pub fn new() -> Self {
        Self {
            info: ModelInfo {
                provider: "pilcrow".to_owned(),
                id: "planner".to_owned(),
                api: "planner".to_owned(),
                images: false,
                context_window: None,
            },
            call: None,
        }
    }

    /// Creates a planner that makes this call for any prompt.
    ///
    /// The planner returns the result of the call. Commands of a surface use it.
    pub fn with_call(tool: &str, arguments: Map<String, Value>) -> Self {
        Self { call: Some((tool.to_owned(), arguments)), ..Self::new() }
    }
}

impl Default for Planner {
    fn default() -> Self {
        Self::new()
    }
}

impl Model for Planner {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn can_summarize(&self) -> bool {
        false
    }

    fn stream(&self, request: Request, cancel: CancellationToken) -> MessageStream {
        let ModelInfo { api, provider, id, .. } = &self.info;
        let empty = AssistantMessage::empty(api, provider, id);
        let message = answer(empty.clone(), &request.messages, self.call.as_ref());
        MessageStream::spawn(
            empty,
            cancel,
            move |writer| async move { writer.push(StreamEvent::end(message)) },
        )
    }
}

/// Computes the next message of the transcript. Pure.
fn answer(mut message: AssistantMessage, transcript: &[Message], fixed: Option<&Call>) -> AssistantMessage {
    let Some(prompt) = transcript.iter().rposition(|entry| matches!(entry, Message::User(_))) else {
        return fail(message, "There is no prompt.".to_owned(), "empty transcript");
    };
    let results: Vec<&ToolResultMessage> = transcript[prompt..]
        .iter()
        .filter_map(|entry| match entry {
            Message::ToolResult(result) => Some(result),
            _ => None,
        })
        .collect();
    let planned = || grammar::parse(&transcript[prompt].text()).map(|job| next(&job, &results));
    let fixed = fixed.map(|call| results.is_empty().then(|| call.clone()));
    let Some(next) = fixed.or_else(planned) else {
        return fail(
            message,
            unknown(&transcript[prompt].text()),
            "the built-in planner did not understand the request",
        );
    };
    if let Some((name, arguments)) = next {
        let (name, arguments_error, thought_signature) = (name, None, None);
        let id = match results.len() {
            0 => format!("planner-{prompt}"),
            count => format!("planner-{prompt}-{count}"),
        };
        let call = ToolCall { id, name, arguments, arguments_error, thought_signature };
        message.content = vec![Content::ToolCall(call)];
        message.stop_reason = StopReason::ToolUse;
        return message;
    }
    // A question and the failure before it are done once the user chose.
    let results = match choices(results.first()) {
        Some(_) if results.len() > 2 => &results[2..],
        Some(_) => &results[..1],
        None => &results[..],
    };
    let texts: Vec<&str> = results
        .iter()
        .flat_map(|result| &result.content)
        .filter_map(|content| match content {
            Content::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let text = texts.join("\n");
    let failed = |result: &&ToolResultMessage| {
        let exit_code = result.details["exit_code"].as_i64().filter(|_| result.tool_name == "bash");
        result.is_error || exit_code.is_some_and(|code| code != 0)
    };
    if let Some(text) = results.iter().find_map(|result| cancellation(&result.details)) {
        message.content = vec![Content::text(text)];
        message.stop_reason = StopReason::Aborted;
        return message;
    }
    if results.iter().any(failed) {
        return fail(message, text, "the request failed");
    }
    message.content = vec![Content::text(text)];
    message
}

/// Determines the call after these results; `None` when the job is done.
fn next(job: &Job, results: &[&ToolResultMessage]) -> Option<Call> {
    let show = match job {
        Job::Debug { show, .. } => show,
        // Ends the session after it showed the failure.
        Job::Test { .. } | Job::Probe { .. } if results.len() == 1 => {
            let details = &results[0].details;
            let has_ended =
                results[0].is_error || details["state"] == "terminated" || details["session"].is_null();
            let end = json!({ "action": "terminate", "session": details["session"] });
            return (!has_ended).then(|| ("debug".to_owned(), end.as_object().cloned().unwrap_or_default()));
        }
        _ => {
            return match (results, choices(results.first())) {
                ([], _) => Some(call(job)),
                ([_], Some(choices)) => {
                    let name = job.symbol().unwrap_or_default();
                    let question = json!({ "question": format!("Which `{name}`?"), "options": choices });
                    Some(("ask".to_owned(), question.as_object().cloned().unwrap_or_default()))
                }
                ([failed, answer], Some(choices)) => {
                    let chosen =
                        choices.iter().position(|choice| answer.details["answer"] == choice.as_str())?;
                    let candidate = &failed.details["candidates"][chosen];
                    let (tool, mut arguments) = call(job);
                    arguments.insert("file".to_owned(), candidate["file"].clone());
                    arguments.insert("line".to_owned(), candidate["line"].clone());
                    Some((tool, arguments))
                }
                _ => None,
            };
        }
    };
    let state = |result: &ToolResultMessage| result.details["state"].as_str().unwrap_or_default().to_owned();
    let then =
        |arguments: Value| Some(("debug".to_owned(), arguments.as_object().cloned().unwrap_or_default()));
    let Some(launch) = results.first() else { return Some(call(job)) };
    // A session that ended without a stop, or did not start, needs no further call.
    if launch.is_error || state(launch) == "terminated" {
        return None;
    }
    // The calls after the launch do not depend on whether an expression can be evaluated.
    let mut rest = Vec::new();
    let session = launch.details["session"].clone();
    if state(launch) == "stopped" {
        let evaluate =
            |expression| json!({ "action": "evaluate", "session": session, "expression": expression });
        rest.extend(show.iter().map(evaluate));
        rest.push(json!({ "action": "breakpoints", "session": session, "remove": true }));
        rest.push(json!({ "action": "continue", "session": session }));
    }
    let done = results.len() - 1;
    match rest.get(done) {
        Some(arguments) => then(arguments.clone()),
        None if done == rest.len() && results.last().is_some_and(|last| state(last) != "terminated") => {
            then(json!({ "action": "terminate", "session": session }))
        }
        None => None,
    }
}

/// The places to choose from, if the failure is an ambiguous name.
fn choices(result: Option<&&ToolResultMessage>) -> Option<Vec<String>> {
    let candidates = result?.details["candidates"].as_array()?;
    let choice = |it: &Value| Some(format!("{}: {}", it["place"].as_str()?, it["text"].as_str()?.trim()));
    candidates.iter().take(MAX_CHOICES).map(choice).collect()
}

fn fail(mut message: AssistantMessage, text: String, error: &str) -> AssistantMessage {
    message.content = vec![Content::text(text)];
    message.stop_reason = StopReason::Error;
    message.error_message = Some(error.to_owned());
    message
}

/// Names the nearest sentence of the grammar, and how to configure a model.
fn unknown(prompt: &str) -> String {
    let what = match grammar::nearest(prompt) {
        Some(nearest) => format!("the nearest it can do is `{nearest}`"),
        None => "it can rename, move, find, describe, check, fix, format, debug and test".to_owned(),
    };
    format!(
        "The built-in planner does not understand this; {what}.\n\
         `pilcrow run --help-planner` lists all sentences. For other requests set a key (ANTHROPIC_API_KEY, OPENAI_API_KEY, …) or model.default, or start a local server."
    )
}

/// Returns the tool call that does `job`.
fn call(job: &Job) -> Call {
    let (tool, arguments) = match job {
        Job::Rename { symbol, new_name, place } => {
            ("lsp", with_place(json!({ "action": "rename", "symbol": symbol, "new_name": new_name }), place))
        }
        Job::MoveFile { from, to } => ("lsp", json!({ "action": "rename_file", "file": from, "to": to })),
        Job::Find { action: "symbols", symbol, place } => match place.file {
            Some(_) => ("lsp", with_place(json!({ "action": "symbols" }), place)),
            None => ("lsp", json!({ "action": "symbols", "query": symbol })),
        },
        Job::Find { action, symbol, place } => {
            ("lsp", with_place(json!({ "action": action, "symbol": symbol }), place))
        }
        Job::Tidy { action, file } if file == grammar::EVERYTHING => {
            ("lsp", json!({ "action": action, "files": [file] }))
        }
        Job::Tidy { action, file } => ("lsp", json!({ "action": action, "file": file })),
        Job::Fix { kind, place } => {
            let mut arguments = with_place(json!({ "action": "fix_all" }), place);
            if let Some(kind) = kind {
                arguments["kind"] = json!(kind);
            }
            ("lsp", arguments)
        }
        Job::Diagnostics { file } => {
            let place = Place { file: file.clone(), line: None };
            ("lsp", with_place(json!({ "action": "diagnostics" }), &place))
        }
        Job::Debug { program, stop, .. } => {
            let point = json!({ "file": stop.file, "line": stop.line });
            ("debug", json!({ "action": "launch", "program": program, "breakpoints": [point] }))
        }
        Job::Test { name, place } => {
            let mut arguments = with_place(json!({ "action": "test" }), place);
            if let Some(name) = name {
                arguments["name"] = json!(name);
            }
            ("debug", arguments)
        }
        Job::Probe { expression, at, program } => {
            let program = program.as_ref().or(at.file.as_ref());
            let point = json!({ "file": at.file, "line": at.line, "expressions": [expression] });
            ("debug", json!({ "action": "probe", "program": program, "points": [point] }))
        }
        Job::RunTests => ("bash", json!({ "command": RUN_TESTS, "timeout": 600 })),
        Job::Undo => ("undo", json!({})),
        Job::Redo => ("undo", json!({ "redo": true })),
    };
    match arguments {
        Value::Object(arguments) => (tool.to_owned(), arguments),
        _ => (tool.to_owned(), Map::new()),
    }
}

fn with_place(mut arguments: Value, place: &Place) -> Value {
    if let Some(file) = &place.file {
        arguments["file"] = json!(file);
    }
    if let Some(line) = place.line {
        arguments["line"] = json!(line);
        // The declaration on the line.
        if arguments["symbol"] == "this"
            && let Some(arguments) = arguments.as_object_mut()
        {
            arguments.remove("symbol");
        }
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(transcript: &[Message]) -> AssistantMessage {
        answer(AssistantMessage::empty("planner", "pilcrow", "planner"), transcript, None)
    }

    fn result(text: &str, is_error: bool) -> Message {
        Message::ToolResult(ToolResultMessage {
            tool_call_id: "planner-0".to_owned(),
            tool_name: "lsp".to_owned(),
            content: vec![Content::text(text)],
            details: Value::Null,
            is_error,
            added_tools: Vec::new(),
            timestamp: 0,
        })
    }

    #[test]
    fn a_job_becomes_a_call_and_its_result_the_answer() {
        let prompt = Message::user("rename a to b in x.py:3");
        let first = ask(std::slice::from_ref(&prompt));
        let calls: Vec<_> = first.tool_calls().collect();
        assert_eq!(calls[0].name, "lsp");
        let arguments =
            json!({ "action": "rename", "symbol": "a", "new_name": "b", "file": "x.py", "line": 3 });
        assert_eq!(Value::Object(calls[0].arguments.clone()), arguments);
        assert_eq!(first.stop_reason, StopReason::ToolUse);
        let last = ask(&[prompt, Message::Assistant(first), result("renamed", false)]);
        assert_eq!((last.text().as_str(), last.stop_reason), ("renamed", StopReason::Stop));
    }

    /// Requests that new users typed.
    #[test]
    fn requests_of_new_users_become_calls() {
        let said = [
            "rename make_str to to_str",
            "rename make_str to_str",
            "rename src/click/utils.py to src/click/helpers.py",
            "rename utils.py to helpers.py",
            "change the name of make_str to to_str",
            "rename the method Context.invoke to call in src/click/core.py line 740",
            "where is make_str used?",
            "where's make_str",
            "where is the class Context?",
            "find usages of echo",
            "references echo",
            "go to the definition of echo",
            "who extends Command",
            "what implements Shape?",
            "list all callers of echo",
            "explain echo",
            "what is Context?",
            "find class Context",
            "outline src/click/utils.py",
            "check src/click/utils.py",
            "are there any errors in src/click/utils.py?",
            "check for errors",
            "format the code in src/click/utils.py",
            "rename make_str in src/click/utils.py to to_str",
            "please rename the function make_str in src/click/utils.py:7 to to_str",
            "can you please rename make_str to to_str for me",
            "could you tidy up?",
            "I would like you to format src/click/utils.py, thanks",
            "how does make_str work?",
            "how does the class Context work in src/click/core.py",
            "how does this work?",
            "what is wrong with src/click/utils.py?",
            "please what's wrong in src/click/utils.py",
            "what is wrong with you",
            "format everything",
            "please format all files",
            "run the test suite",
            "undo my last change",
            "debug the failing test in tests/test_a.py",
            "debug the failing tests in tests/test_a.py:7",
            "debug test test_b in tests/test_a.py",
            // Not understood.
            "rename make_str to",
            "where is the bug?",
            "find bugs",
            "find type errors",
            "what is the best way to test this?",
            "explain the architecture",
            "check this",
            "debug the failing test",
        ]
        .map(|prompt| {
            let call = grammar::parse(prompt).map(|job| call(&job));
            let call = call.map(|(tool, arguments)| format!("{tool} {}", Value::Object(arguments)));
            format!("{prompt}\n    {}\n", call.unwrap_or_else(|| "-".to_owned()))
        });
        expect_test::expect![[r#"
            rename make_str to to_str
                lsp {"action":"rename","symbol":"make_str","new_name":"to_str"}
            rename make_str to_str
                lsp {"action":"rename","symbol":"make_str","new_name":"to_str"}
            rename src/click/utils.py to src/click/helpers.py
                lsp {"action":"rename_file","file":"src/click/utils.py","to":"src/click/helpers.py"}
            rename utils.py to helpers.py
                lsp {"action":"rename_file","file":"utils.py","to":"helpers.py"}
            change the name of make_str to to_str
                lsp {"action":"rename","symbol":"make_str","new_name":"to_str"}
            rename the method Context.invoke to call in src/click/core.py line 740
                lsp {"action":"rename","symbol":"Context.invoke","new_name":"call","file":"src/click/core.py","line":740}
            where is make_str used?
                lsp {"action":"references","symbol":"make_str"}
            where's make_str
                lsp {"action":"definition","symbol":"make_str"}
            where is the class Context?
                lsp {"action":"definition","symbol":"Context"}
            find usages of echo
                lsp {"action":"references","symbol":"echo"}
            references echo
                lsp {"action":"references","symbol":"echo"}
            go to the definition of echo
                lsp {"action":"definition","symbol":"echo"}
            who extends Command
                lsp {"action":"subtypes","symbol":"Command"}
            what implements Shape?
                lsp {"action":"implementation","symbol":"Shape"}
            list all callers of echo
                lsp {"action":"callers","symbol":"echo"}
            explain echo
                lsp {"action":"hover","symbol":"echo"}
            what is Context?
                lsp {"action":"hover","symbol":"Context"}
            find class Context
                lsp {"action":"symbols","query":"Context"}
            outline src/click/utils.py
                lsp {"action":"symbols","file":"src/click/utils.py"}
            check src/click/utils.py
                lsp {"action":"diagnostics","file":"src/click/utils.py"}
            are there any errors in src/click/utils.py?
                lsp {"action":"diagnostics","file":"src/click/utils.py"}
            check for errors
                lsp {"action":"diagnostics"}
            format the code in src/click/utils.py
                lsp {"action":"format","file":"src/click/utils.py"}
            rename make_str in src/click/utils.py to to_str
                lsp {"action":"rename","symbol":"make_str","new_name":"to_str","file":"src/click/utils.py"}
            please rename the function make_str in src/click/utils.py:7 to to_str
                lsp {"action":"rename","symbol":"make_str","new_name":"to_str","file":"src/click/utils.py","line":7}
            can you please rename make_str to to_str for me
                lsp {"action":"rename","symbol":"make_str","new_name":"to_str"}
            could you tidy up?
                -
            I would like you to format src/click/utils.py, thanks
                lsp {"action":"format","file":"src/click/utils.py"}
            how does make_str work?
                lsp {"action":"hover","symbol":"make_str"}
            how does the class Context work in src/click/core.py
                lsp {"action":"hover","symbol":"Context","file":"src/click/core.py"}
            how does this work?
                lsp {"action":"hover","symbol":"this"}
            what is wrong with src/click/utils.py?
                lsp {"action":"diagnostics","file":"src/click/utils.py"}
            please what's wrong in src/click/utils.py
                lsp {"action":"diagnostics","file":"src/click/utils.py"}
            what is wrong with you
                -
            format everything
                lsp {"action":"format","files":["**"]}
            please format all files
                lsp {"action":"format","files":["**"]}
            run the test suite
                bash {"command":"if [ -f Cargo.toml ]; then cargo test; elif [ -f go.mod ]; then go test ./...; elif [ -f package.json ]; then npm test; else python3 -m pytest; fi","timeout":600}
            undo my last change
                undo {}
            debug the failing test in tests/test_a.py
                debug {"action":"test","file":"tests/test_a.py"}
            debug the failing tests in tests/test_a.py:7
                debug {"action":"test","file":"tests/test_a.py","line":7}
            debug test test_b in tests/test_a.py
                debug {"action":"test","file":"tests/test_a.py","name":"test_b"}
            rename make_str to
                -
            where is the bug?
                -
            find bugs
                -
            find type errors
                -
            what is the best way to test this?
                -
            explain the architecture
                -
            check this
                -
            debug the failing test
                -
        "#]].assert_eq(&said.concat());
    }

    #[test]
    fn an_ambiguous_name_becomes_a_question() {
        let candidate = |line: u64| json!({ "place": format!("a.py:{line}"), "file": "a.py", "line": line, "text": "def f():" });
        let with = |details: Value, is_error: bool| {
            let Message::ToolResult(mut message) = result("ambiguous", is_error) else { panic!("a result") };
            message.details = details;
            Message::ToolResult(message)
        };
        let mut transcript = vec![Message::user("rename f to g")];
        let first = ask(&transcript);
        transcript.push(Message::Assistant(first));
        transcript.push(with(json!({ "candidates": [candidate(1), candidate(7)] }), true));
        let question = ask(&transcript);
        let call = question.tool_calls().next().expect("a call").clone();
        assert_eq!(call.name, "ask");
        assert_eq!(call.arguments["options"], json!(["a.py:1: def f():", "a.py:7: def f():"]));
        transcript.push(Message::Assistant(question));
        // A dismissed question ends in the failure.
        let mut dismissed = transcript.clone();
        dismissed.push(with(Value::Null, false));
        assert_eq!(
            (ask(&dismissed).stop_reason, ask(&dismissed).text().as_str()),
            (StopReason::Error, "ambiguous")
        );
        transcript.push(with(json!({ "answer": "a.py:7: def f():" }), false));
        let again = ask(&transcript);
        let call = again.tool_calls().next().expect("a call").clone();
        let expected =
            json!({ "action": "rename", "symbol": "f", "new_name": "g", "file": "a.py", "line": 7 });
        assert_eq!(Value::Object(call.arguments), expected);
        transcript.push(Message::Assistant(again));
        transcript.push(result("renamed", false));
        assert_eq!(
            (ask(&transcript).text().as_str(), ask(&transcript).stop_reason),
            ("renamed", StopReason::Stop)
        );
    }

    #[test]
    fn the_word_this_means_the_declaration_on_the_line() {
        let first = ask(&[Message::user("rename this to b in x.py:3")]);
        let arguments = first.tool_calls().next().map(|call| Value::Object(call.arguments.clone()));
        let expected = json!({ "action": "rename", "new_name": "b", "file": "x.py", "line": 3 });
        assert_eq!(arguments, Some(expected));
    }

    #[test]
    fn failed_and_unknown_prompts_end_in_an_error() {
        let prompt = Message::user("rename a to b");
        let first = ask(std::slice::from_ref(&prompt));
        let last = ask(&[prompt, Message::Assistant(first), result("no symbol a", true)]);
        assert_eq!((last.text().as_str(), last.stop_reason), ("no symbol a", StopReason::Error));
        let prompt = Message::user("run the tests");
        let first = ask(std::slice::from_ref(&prompt));
        let Message::ToolResult(mut failed) = result("1 failed", false) else { panic!("a result") };
        (failed.tool_name, failed.details) = ("bash".to_owned(), json!({ "exit_code": 1 }));
        let last = ask(&[prompt, Message::Assistant(first), Message::ToolResult(failed)]);
        assert_eq!((last.text().as_str(), last.stop_reason), ("1 failed", StopReason::Error));
        let prompt = Message::user("rename a to b");
        let first = ask(std::slice::from_ref(&prompt));
        let Message::ToolResult(mut refused) = result("the user said no", true) else { panic!("a result") };
        refused.details = json!({ "cancelled": "Rename" });
        let last = ask(&[prompt, Message::Assistant(first), Message::ToolResult(refused)]);
        assert_eq!((last.text().as_str(), last.stop_reason), ("Rename cancelled.", StopReason::Aborted));
        let last = ask(&[Message::user("make it faster")]);
        assert_eq!(last.stop_reason, StopReason::Error);
        expect_test::expect![[r#"
            The built-in planner does not understand this; it can rename, move, find, describe, check, fix, format, debug and test.
            `pilcrow run --help-planner` lists all sentences. For other requests set a key (ANTHROPIC_API_KEY, OPENAI_API_KEY, …) or model.default, or start a local server."#]].assert_eq(&last.text());
        assert_eq!(last.text().lines().count(), 2);
    }

    #[test]
    fn debugging_stops_shows_and_continues_to_the_end() {
        let mut transcript = vec![Message::user("debug a.py stopping at b.py:3 and show n")];
        let mut actions = Vec::new();
        for state in ["stopped", "", "", "running", "terminated"] {
            let message = ask(&transcript);
            let call = message.tool_calls().next().expect("a call").clone();
            actions.push(call.arguments["action"].as_str().unwrap_or_default().to_owned());
            transcript.push(Message::Assistant(message));
            let Message::ToolResult(mut message) = result(state, false) else { panic!("a result") };
            message.details = json!({ "session": "debug-1", "state": state });
            transcript.push(Message::ToolResult(message));
        }
        assert_eq!(actions, ["launch", "evaluate", "breakpoints", "continue", "terminate"]);
        let last = ask(&transcript);
        assert_eq!((last.tool_calls().count(), last.stop_reason), (0, StopReason::Stop));
        assert!(last.text().starts_with("stopped") && last.text().ends_with("terminated"), "{}", last.text());
    }

    #[test]
    fn a_fixed_call_ignores_the_prompt() {
        let call = ("lsp".to_owned(), Map::from_iter([("action".to_owned(), json!("format"))]));
        let empty = AssistantMessage::empty("planner", "pilcrow", "planner");
        let first = answer(empty.clone(), &[Message::user("tidy this up")], Some(&call));
        assert_eq!(first.tool_calls().next().map(|it| &it.arguments), Some(&call.1));
        let transcript = [Message::user("tidy this up"), Message::Assistant(first), result("done", false)];
        assert_eq!(answer(empty, &transcript, Some(&call)).text(), "done");
    }

    #[test]
    fn an_earlier_prompt_does_not_answer_a_later_one() {
        let last = ask(&[Message::user("undo"), result("undone", false), Message::user("undo")]);
        assert_eq!(last.tool_calls().count(), 1);
    }
}
