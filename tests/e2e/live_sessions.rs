//! Live sessions over LSP: prompts, the queue, cancellation, replay, several processes.

use std::time::Duration;

use serde_json::{Value, json};
use tests::editor::uri;
use tests::{Editor, Sandbox};

fn with_script(files: &[(&str, &str)], lines: &[Value]) -> Sandbox {
    let mut sandbox = Sandbox::with(files);
    let script = sandbox.beside("script.jsonl");
    std::fs::write(&script, lines.iter().map(|line| format!("{line}\n")).collect::<String>())
        .expect("the script");
    sandbox.variables.insert("PILCROW_MODEL".to_owned(), format!("script:{}", script.display()));
    sandbox
}

/// A response that waits until the user answers its question.
fn asks() -> Value {
    json!({"tool_calls": [{"name": "ask", "arguments": {"question": "Go on?", "options": ["Yes", "No"]}}]})
}

fn says(text: &str) -> Value {
    json!({ "text": text })
}

/// A response after a request with this last message.
fn after(last: &str, text: &str) -> Value {
    json!({"expect": {"last_contains": [last]}, "text": text})
}

#[track_caller]
fn ok(editor: &mut Editor, method: &str, params: Value) -> Value {
    let answer = editor.request(method, params);
    assert!(answer.get("error").is_none(), "{method}: {answer}");
    answer["result"].clone()
}

#[track_caller]
fn new_session(editor: &mut Editor) -> String {
    ok(editor, "pilcrow/session/new", json!({}))["session"].as_str().expect("an id").to_owned()
}

#[track_caller]
fn prompt(editor: &mut Editor, session: &str, text: &str, delivery: &str) -> Value {
    ok(editor, "pilcrow/prompt", json!({"session": session, "text": text, "delivery": delivery}))
}

fn events(editor: &Editor, session: &str, kind: &str) -> Vec<Value> {
    let all = editor.all("pilcrow/event").into_iter().filter(|event| event["session_id"] == session);
    all.map(|mut event| event["event"].take()).filter(|event| event["type"] == kind).collect()
}

#[track_caller]
fn settled(editor: &mut Editor, session: &str, times: usize) {
    editor.wait("the end of the run", |editor| events(editor, session, "agent_settled").len() >= times);
}

/// The texts of the messages that the session added, in order.
fn texts(editor: &Editor, session: &str) -> Vec<String> {
    let ends = events(editor, session, "message_end").into_iter();
    let text = |event: Value| {
        let blocks = event["message"]["content"].as_array().cloned().unwrap_or_default();
        blocks.iter().filter_map(|block| block["text"].as_str()).collect::<String>()
    };
    ends.map(text).filter(|text| !text.is_empty()).collect()
}

#[track_caller]
fn question(editor: &mut Editor, title: Option<&str>) {
    editor.wait("a question", |editor| !editor.open_questions.is_empty());
    let (id, _) = editor.open_questions.remove(0);
    editor.answer_question(&id, title);
}

/// The code of a refused request.
#[track_caller]
fn refused(editor: &mut Editor, method: &str, params: Value) -> String {
    let answer = editor.request(method, params);
    answer["error"]["data"]["code"].as_str().unwrap_or_else(|| panic!("{method}: {answer}")).to_owned()
}

#[test]
fn a_live_session_takes_prompt_after_prompt() {
    let sandbox = with_script(&[], &[says("one"), after("second", "two"), after("third", "three")]);
    let mut editor = Editor::start(&sandbox);
    let session = new_session(&mut editor);
    let ack = prompt(&mut editor, &session, "first", "queue");
    assert_eq!(ack["status"], "started");
    settled(&mut editor, &session, 1);
    let started = &events(&editor, &session, "message_start")[0];
    assert_eq!(started["message_id"], ack["message_id"], "the acknowledged id is the message's");
    prompt(&mut editor, &session, "second", "steer");
    settled(&mut editor, &session, 2);
    // The command of a client without the plugin reaches the same session.
    let params = json!({"text": "third", "resume": session});
    assert_eq!(editor.command("pilcrow.prompt", params)["session"], json!(session));
    settled(&mut editor, &session, 3);
    assert_eq!(texts(&editor, &session), ["first", "one", "second", "two", "third", "three"]);
    let listed = ok(&mut editor, "pilcrow/session/list", json!({}))["sessions"].clone();
    assert_eq!((&listed[0]["title"], &listed[0]["live"]), (&json!("first"), &json!(true)));
    ok(&mut editor, "pilcrow/session/close", json!({"session": session}));
    assert_eq!(refused(&mut editor, "pilcrow/session/close", json!({"session": session})), "not_found");
    editor.shut_down();
}

#[test]
fn messages_queue_steer_and_interrupt() {
    let lines = [
        asks(),
        after("steered", "two"),
        after("queued", "three"),
        json!({"text": "Thinking.", "wait_for_cancel": true}),
        after("stop that", "four"),
    ];
    let sandbox = with_script(&[], &lines);
    let mut editor = Editor::start(&sandbox);
    let session = new_session(&mut editor);
    prompt(&mut editor, &session, "first", "queue");
    editor.wait("a question", |editor| !editor.open_questions.is_empty());
    assert_eq!(prompt(&mut editor, &session, "queued", "queue")["status"], "queued");
    assert_eq!(prompt(&mut editor, &session, "steered", "steer")["status"], "queued");
    question(&mut editor, Some("Yes"));
    settled(&mut editor, &session, 1);
    prompt(&mut editor, &session, "think", "queue");
    editor.wait("the answer's beginning", |editor| {
        events(editor, &session, "message_update").iter().any(|it| it.to_string().contains("Thinking"))
    });
    assert_eq!(prompt(&mut editor, &session, "stop that", "interrupt")["status"], "interrupting");
    editor.wait("the last answer", |editor| texts(editor, &session).contains(&"four".to_owned()));
    let said = texts(&editor, &session);
    let expected =
        ["first", "Yes", "steered", "two", "queued", "three", "think", "Thinking.", "stop that", "four"];
    let said: Vec<&str> = said.iter().map(|text| text.lines().next().unwrap_or_default()).collect();
    assert_eq!(said.len(), expected.len(), "{said:?}");
    assert_eq!((said[2], said[4], said[8]), ("steered", "queued", "stop that"));
    editor.shut_down();
}

#[test]
fn cancelled_runs_leave_the_session_and_its_queue() {
    let sandbox =
        with_script(&[], &[json!({"text": "Thinking.", "wait_for_cancel": true}), after("on", "Yes.")]);
    let mut editor = Editor::start(&sandbox);
    let session = new_session(&mut editor);
    assert_eq!(ok(&mut editor, "pilcrow/cancel", json!({"session": session}))["cancelled"], false);
    prompt(&mut editor, &session, "go", "queue");
    editor.wait("the answer's beginning", |editor| !events(editor, &session, "message_update").is_empty());
    prompt(&mut editor, &session, "and later", "queue");
    assert_eq!(ok(&mut editor, "pilcrow/cancel", json!({"session": session}))["cancelled"], true);
    settled(&mut editor, &session, 1);
    assert_eq!(events(&editor, &session, "agent_end")[0]["reason"], "aborted");
    let state = ok(&mut editor, "pilcrow/session/open", json!({"session": session}))["state"].clone();
    assert_eq!((&state["running"], &state["queue"][0]["text"]), (&json!(false), &json!("and later")));
    editor.shut_down();
}

#[test]
fn a_reloaded_client_gets_the_missed_events() {
    let sandbox = with_script(&[], &[says("one"), says("two"), says("three")]);
    let mut editor = Editor::start(&sandbox);
    let session = new_session(&mut editor);
    prompt(&mut editor, &session, "first", "queue");
    settled(&mut editor, &session, 1);
    let all = editor.all("pilcrow/event");
    let view = ok(&mut editor, "pilcrow/session/open", json!({"session": session, "since": 2}));
    assert_eq!(view["events"].as_array().unwrap()[..], all[2..]);
    assert_eq!((&view["seq"], view.get("state")), (&all[all.len() - 1]["seq"], None));
    let whole = ok(&mut editor, "pilcrow/session/open", json!({"session": session}));
    assert_eq!(whole["state"]["messages"].as_array().unwrap().len(), 2);
    // A session that is opened again continues its numbers.
    ok(&mut editor, "pilcrow/session/close", json!({"session": session}));
    let view = ok(&mut editor, "pilcrow/session/open", json!({"session": session, "since": 2}));
    assert_eq!((view["state"]["messages"].as_array().unwrap().len(), view.get("events")), (2, None));
    assert!(view["seq"].as_u64() >= all[all.len() - 1]["seq"].as_u64(), "{view}");

    // The process is killed; the next one has the whole state.
    prompt(&mut editor, &session, "second", "queue");
    settled(&mut editor, &session, 2);
    let killed = std::process::Command::new("kill").args(["-9", &editor.id().to_string()]).status();
    assert!(killed.unwrap().success());
    editor.exited(Duration::from_secs(10));
    let mut editor = Editor::start(&sandbox);
    let view = ok(&mut editor, "pilcrow/session/open", json!({"session": session, "since": 9}));
    let messages = view["state"]["messages"].as_array().unwrap();
    assert_eq!((messages.len(), &messages[0]["message"]["content"][0]["text"]), (4, &json!("first")));
    assert_eq!(view["state"]["title"], "first");
    editor.shut_down();
}

#[test]
fn a_session_has_one_process_and_sessions_run_side_by_side() {
    let sandbox = with_script(&[("a.txt", "one\r\n")], &[asks(), says("done")]);
    let mut editor = Editor::start(&sandbox);
    let (one, two) = (new_session(&mut editor), new_session(&mut editor));
    prompt(&mut editor, &one, "first", "queue");
    prompt(&mut editor, &two, "second", "queue");
    editor.wait("both questions", |editor| editor.open_questions.len() == 2);
    let mut other = Editor::start(&sandbox);
    assert_eq!(refused(&mut other, "pilcrow/session/open", json!({"session": one})), "conflict");
    other.shut_down();
    question(&mut editor, Some("Yes"));
    question(&mut editor, Some("Yes"));
    settled(&mut editor, &one, 1);
    settled(&mut editor, &two, 1);
    // Typed errors.
    for (method, params) in [
        ("pilcrow/session/open", json!({"session": "none-such"})),
        ("pilcrow/prompt", json!({"session": "none-such", "text": "go"})),
        ("pilcrow/cancel", json!({"session": "none-such"})),
    ] {
        assert_eq!(refused(&mut editor, method, params), "not_found", "{method}");
    }
    let empty = json!({"session": one, "text": " "});
    assert_eq!(refused(&mut editor, "pilcrow/prompt", empty), "invalid_arguments");
    let outside = json!({"cwd": "/etc"});
    assert_eq!(refused(&mut editor, "pilcrow/session/new", outside), "invalid_arguments");
    editor.shut_down();
}

#[test]
fn a_live_session_edits_the_unsaved_text_of_a_crlf_file() {
    let lines = [
        json!({"tool_calls": [{"name": "read", "arguments": {"path": "a.txt"}}]}),
        json!({
            "capture": {"a": {"after": "[a.txt#", "before": "]"}},
            "tool_calls": [{"name": "edit", "arguments": {"patch": "[a.txt#{{a}}]\nPUT 2:\n+TWO\n"}}],
        }),
        json!({"expect": {"last_is_error": false}, "text": "done"}),
    ];
    let sandbox = with_script(&[("a.txt", "one\r\n")], &lines);
    let mut editor = Editor::start(&sandbox);
    let file = uri(&sandbox, "a.txt");
    editor.open(&file, "plaintext", "one\r\n");
    editor.replace(&file, 5..5, "two\r\n");
    editor.answers.push_back(Some("Allow"));
    let session = new_session(&mut editor);
    prompt(&mut editor, &session, "go", "queue");
    settled(&mut editor, &session, 1);
    assert_eq!((editor.text(&file), sandbox.read("a.txt").as_str()), ("one\r\nTWO\r\n", "one\r\n"));
    let unsaved = |editor: &Editor| {
        events(editor, &session, "notice").iter().any(|it| it["text"] == "changed and not saved: a.txt")
    };
    editor.wait("the unsaved file", |editor| unsaved(editor));
    let undo = editor.run("pilcrow.undo", json!({"session": session}));
    assert_eq!(editor.ended(&undo), "done");
    assert_eq!(editor.text(&file), "one\r\ntwo\r\n");
    editor.shut_down();
}

#[test]
fn the_queue_is_edited_reordered_and_sent() {
    let lines = [asks(), after("b2", "two"), after("c", "three")];
    let sandbox = with_script(&[], &lines);
    let mut editor = Editor::start(&sandbox);
    let session = new_session(&mut editor);
    prompt(&mut editor, &session, "first", "queue");
    editor.wait("a question", |editor| !editor.open_questions.is_empty());
    let mut id = |text: &str| prompt(&mut editor, &session, text, "queue")["message_id"].clone();
    let (a, b, c) = (id("a"), id("b"), id("c"));
    let queue = |editor: &Editor| -> Vec<(String, String)> {
        let last = events(editor, &session, "queue_update").pop().unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let messages = last["messages"].as_array().unwrap().iter();
        messages.map(|message| (text(&message["queue"]), text(&message["text"]))).collect()
    };
    let of = |queue: &str, text: &str| (queue.to_owned(), text.to_owned());
    let edit = |editor: &mut Editor, id: &Value, mut change: Value| {
        change["session"] = json!(session);
        change["message_id"] = id.clone();
        ok(editor, "pilcrow/queue/edit", change);
    };
    edit(&mut editor, &c, json!({"before": a}));
    edit(&mut editor, &b, json!({"text": "b2", "delivery": "steer"}));
    let removed = ok(&mut editor, "pilcrow/queue/remove", json!({"session": session, "message_id": a}));
    assert_eq!(removed["text"], "a");
    editor.wait("the events", |editor| queue(editor) == [of("steering", "b2"), of("follow_up", "c")]);
    let gone = json!({"session": session, "message_id": a, "text": "again"});
    assert_eq!(refused(&mut editor, "pilcrow/queue/edit", gone), "not_found");
    question(&mut editor, Some("Yes"));
    settled(&mut editor, &session, 1);
    assert!(queue(&editor).is_empty());
    let delivered = events(&editor, &session, "message_start");
    assert!(delivered.iter().any(|start| start["message_id"] == b), "the queue's id is the message's");

    // A message that a cancelled run left is sent.
    let lines = [json!({"text": "Thinking.", "wait_for_cancel": true}), after("now", "four")];
    let sandbox = with_script(&[], &lines);
    let mut editor = Editor::start(&sandbox);
    let session = new_session(&mut editor);
    prompt(&mut editor, &session, "think", "queue");
    editor.wait("the answer's beginning", |editor| !events(editor, &session, "message_update").is_empty());
    let left = prompt(&mut editor, &session, "now", "queue")["message_id"].clone();
    ok(&mut editor, "pilcrow/cancel", json!({"session": session}));
    settled(&mut editor, &session, 1);
    let send = json!({"session": session, "message_id": left, "delivery": "interrupt"});
    ok(&mut editor, "pilcrow/queue/edit", send);
    editor.wait("the answer", |editor| texts(editor, &session).contains(&"four".to_owned()));
    editor.shut_down();
}

#[test]
fn questions_are_events_that_survive_a_reload() {
    let write = json!({"name": "write", "arguments": {"path": "new.txt", "content": "new"}});
    let lines =
        [asks(), json!({"tool_calls": [write]}), json!({"expect": {"last_is_error": false}, "text": "done"})];
    let sandbox = with_script(&[], &lines);
    let mut editor = Editor::start_with(&sandbox, |params| {
        params["capabilities"]["experimental"] = json!({"pilcrow": {"questions": true}});
    });
    let session = new_session(&mut editor);
    prompt(&mut editor, &session, "go", "queue");
    editor.wait("the question", |editor| events(editor, &session, "input_request").len() == 1);
    // A client that lost its view finds the question in the state.
    let state = ok(&mut editor, "pilcrow/session/open", json!({"session": session}))["state"].clone();
    let asked = &state["questions"][0];
    assert_eq!((&asked["question"], &asked["options"]), (&json!("Go on?"), &json!(["Yes", "No"])));
    let answer = json!({"session": session, "request_id": asked["request_id"], "answer": "Yes"});
    let wrong = json!({"session": session, "request_id": asked["request_id"], "answer": "once"});
    assert_eq!(refused(&mut editor, "pilcrow/permission", wrong), "not_found", "a question of another kind");
    ok(&mut editor, "pilcrow/input", answer.clone());
    assert_eq!(refused(&mut editor, "pilcrow/input", answer), "not_found", "the first answer counts");
    editor.wait("the permission", |editor| events(editor, &session, "permission_request").len() == 1);
    let asked = events(&editor, &session, "permission_request").remove(0);
    assert_eq!(asked["answers"], json!(["once", "session", "always", "no"]));
    let answer = json!({"session": session, "request_id": asked["request_id"], "answer": "once"});
    ok(&mut editor, "pilcrow/permission", answer);
    settled(&mut editor, &session, 1);
    assert_eq!(sandbox.read("new.txt"), "new");
    assert!(editor.all("window/showMessageRequest").is_empty());
    let state = ok(&mut editor, "pilcrow/session/open", json!({"session": session}))["state"].clone();
    assert_eq!(state["questions"], json!([]));
    editor.shut_down();

    // A client without the capability may answer by the event too; the message is withdrawn.
    let sandbox = with_script(&[], &[asks(), says("done")]);
    let mut editor = Editor::start(&sandbox);
    let session = new_session(&mut editor);
    prompt(&mut editor, &session, "go", "queue");
    editor.wait("a question", |editor| !editor.open_questions.is_empty());
    let asked = events(&editor, &session, "input_request").remove(0);
    let answer = json!({"session": session, "request_id": asked["request_id"], "answer": "No"});
    ok(&mut editor, "pilcrow/input", answer);
    settled(&mut editor, &session, 1);
    assert_eq!(events(&editor, &session, "input_resolved")[0]["answer"], "No");
    editor.shut_down();
}

#[test]
fn a_session_is_configured_forked_renamed_and_deleted() {
    let sandbox = with_script(&[], &[says("one"), says("two")]);
    let profile = sandbox.home().join("config/agents/careful");
    std::fs::create_dir_all(&profile).expect("a profile");
    let mut editor = Editor::start(&sandbox);
    let view = ok(&mut editor, "pilcrow/session/new", json!({}));
    let session = view["session"].as_str().unwrap().to_owned();
    let current = |options: &Value| -> Vec<String> {
        let options = options.as_array().unwrap().iter();
        options.skip(1).map(|option| option["currentValue"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(current(&view["options"]), ["default", "prompt", "apply", "default"]);
    let first = prompt(&mut editor, &session, "first", "queue")["message_id"].clone();
    settled(&mut editor, &session, 1);
    let set = |editor: &mut Editor, option: &str, value: &str| {
        let params = json!({"session": session, "option": option, "value": value});
        ok(editor, "pilcrow/session/setOption", params)["options"].clone()
    };
    set(&mut editor, "agent", "careful");
    set(&mut editor, "thinking", "high");
    set(&mut editor, "edits", "propose");
    let all = ["high", "permissive", "propose", "careful"];
    assert_eq!(current(&set(&mut editor, "mode", "permissive")), all);
    // Another profile opens the session again.
    assert_eq!(current(&set(&mut editor, "agent", "careful")), all);
    assert_eq!(set(&mut editor, "model", "planner")[0]["currentValue"], "planner");
    for (option, value) in
        [("mode", "plan"), ("edits", "none"), ("thinking", "a lot"), ("model", "none/such"), ("x", "y")]
    {
        let params = json!({"session": session, "option": option, "value": value});
        assert_eq!(
            refused(&mut editor, "pilcrow/session/setOption", params),
            "invalid_arguments",
            "{option}"
        );
    }
    ok(&mut editor, "pilcrow/session/rename", json!({"session": session, "title": "My work"}));
    let fork = ok(&mut editor, "pilcrow/session/fork", json!({"session": session, "message_id": first}));
    assert_eq!(fork["state"]["messages"].as_array().unwrap().len(), 1);
    assert_ne!(fork["session"], session);
    let listed = ok(&mut editor, "pilcrow/session/list", json!({}))["sessions"].clone();
    let titles: Vec<&Value> = listed.as_array().unwrap().iter().map(|it| &it["title"]).collect();
    assert!(titles.contains(&&json!("My work")), "{titles:?}");
    let status = ok(&mut editor, "pilcrow/status", json!({"session": session}));
    assert_eq!((&status["session"]["model"], &status["servers"]), (&json!("planner"), &json!([])));
    assert!(status["sandbox"].is_string() && status["session"]["usage"].is_object(), "{status}");
    for id in [json!(session), fork["session"].clone()] {
        ok(&mut editor, "pilcrow/session/delete", json!({"session": id}));
    }
    let listed = ok(&mut editor, "pilcrow/session/list", json!({}))["sessions"].clone();
    assert_eq!(listed, json!([]));
    editor.shut_down();
}

#[test]
fn a_prompt_links_what_its_completion_offers() {
    let code = "struct Client;\nimpl Client {\n    fn send(&self) {\n    }\n}\n";
    let files = [("src/main.rs", "one\n"), ("a.txt", "one\n"), ("src/net.rs", code)];
    let sandbox = with_script(&files, &[says("one"), says("two")]);
    sandbox.make_repository();
    let mut editor = Editor::start(&sandbox);
    let session = new_session(&mut editor);
    let items = ok(&mut editor, "pilcrow/context/complete", json!({"query": "smain"}))["items"].clone();
    assert_eq!((items.as_array().unwrap().len(), &items[0]["name"]), (1, &json!("src/main.rs")));
    let main = items[0]["uri"].as_str().unwrap();
    let context = json!([{"uri": main}, {"uri": format!("{main}#L1-L2")}]);
    ok(&mut editor, "pilcrow/prompt", json!({"session": session, "text": "go", "context": context}));
    settled(&mut editor, &session, 1);
    assert_eq!(
        texts(&editor, &session)[0],
        "go\n\n(This is about src/main.rs.)\n\n(This is about lines 1 to 2 of src/main.rs.)"
    );
    let focus = format!("{}#L3-L4", uri(&sandbox, "src/net.rs"));
    let mut complete = |query: &str| {
        let params = json!({"query": query, "focus": {"uri": focus}});
        ok(&mut editor, "pilcrow/context/complete", params)["items"].as_array().unwrap().clone()
    };
    let kinds: Vec<String> = complete("").iter().map(|it| it["kind"].as_str().unwrap().to_owned()).collect();
    assert_eq!(kinds, ["selection", "diagnostics", "file", "file", "file", "diagnostics", "session"]);
    let project = complete("diagnostics").into_iter().find(|it| it["name"] == "diagnostics").unwrap();
    let mut first = |query: &str, kind: &str| {
        let found = complete(query).into_iter().find(|it| it["kind"] == kind);
        found.unwrap_or_else(|| panic!("no {kind} for {query:?}"))
    };
    let items = [
        first("client.se", "symbol"),
        first("sel", "selection"),
        first("diagnostics:", "diagnostics"),
        project,
        first("go", "session"),
    ];
    let names: Vec<&str> = items.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(
        names[..4],
        ["src/net.rs:Client.send", "src/net.rs:3-4", "diagnostics:src/net.rs", "diagnostics"]
    );
    let next = new_session(&mut editor);
    ok(&mut editor, "pilcrow/prompt", json!({"session": next, "text": "go on", "context": items}));
    settled(&mut editor, &next, 1);
    let expected = "go on\n\n(This is about lines 3 to 4 of src/net.rs.)\n\n(This is about lines 3 to 4 of src/net.rs.)\
        \n\n(This is about the diagnostics of src/net.rs.)\n\n(This is about the diagnostics of the project.)\
        \n\n(This is about the earlier session “go (This is about src/main.rs.) (This is about lines 1 to 2 of src/main.rs.)”. \
        Its prompts:\n- go";
    let text = texts(&editor, &next)[0].clone();
    assert!(text.starts_with(expected) && text.ends_with("Its last answer:\none.)"), "{text}");
    let wrong = json!({"session": session, "text": "go", "context": [{"uri": "https://a/b"}]});
    assert_eq!(refused(&mut editor, "pilcrow/prompt", wrong), "invalid_arguments");
    let without_text = json!({"session": session});
    assert_eq!(refused(&mut editor, "pilcrow/prompt", without_text), "invalid_arguments");
    editor.shut_down();
}

#[test]
fn a_prompt_attaches_the_images_that_it_names() {
    let sandbox =
        with_script(&[("dot.gif", "GIF89a\u{1}\0\u{1}\0\0\0\0;")], &[asks(), says("two"), says("three")]);
    let mut editor = Editor::start(&sandbox);
    let session = new_session(&mut editor);
    prompt(&mut editor, &session, "look at @dot.gif.", "queue");
    editor.wait("a question", |editor| !editor.open_questions.is_empty());
    let queued = prompt(&mut editor, &session, "later", "queue")["message_id"].clone();
    let edit = json!({"session": session, "message_id": queued, "text": "compare @dot.gif"});
    ok(&mut editor, "pilcrow/queue/edit", edit);
    question(&mut editor, Some("Yes"));
    settled(&mut editor, &session, 1);
    let state = ok(&mut editor, "pilcrow/session/open", json!({"session": session}))["state"].clone();
    let messages = state["messages"].as_array().unwrap().iter().map(|it| &it["message"]);
    let blocks = messages.filter(|it| it["role"] == "user").map(|it| &it["content"][1]["mimeType"]);
    assert_eq!(blocks.collect::<Vec<_>>(), ["image/gif", "image/gif"]);
    let pasted = |images: Value| json!({"session": session, "text": "and this?", "images": images});
    for (images, code) in
        [(json!(["x"]), "invalid_arguments"), (json!(["R0lGODlhAQABAAAAAA=="]), "unsupported")]
    {
        assert_eq!(refused(&mut editor, "pilcrow/prompt", pasted(images)), code);
    }
    ok(&mut editor, "pilcrow/prompt", pasted(json!(["R0lGODlhAQABAAAAADs="])));
    settled(&mut editor, &session, 2);
    let state = ok(&mut editor, "pilcrow/session/open", json!({"session": session}))["state"].clone();
    let last = state["messages"].as_array().unwrap().iter().rfind(|it| it["message"]["role"] == "user");
    assert_eq!(last.unwrap()["message"]["content"][1]["mimeType"], "image/gif");
    editor.shut_down();
}

#[test]
fn a_session_of_another_folder_is_undone_and_deleted() {
    let write = json!({"name": "write", "arguments": {"path": "new.txt", "content": "new"}});
    let lines = [json!({"tool_calls": [write]}), says("done")];
    let sandbox = with_script(&[("one/a.txt", "one\n"), ("two/b.txt", "two\n")], &lines);
    let two = sandbox.project().join("two");
    let mut editor = Editor::start_with(&sandbox, |params| {
        let folder = |name: &str| json!({"uri": uri(&sandbox, name), "name": name});
        params["workspaceFolders"] = json!([folder("one"), folder("two")]);
    });
    let view = ok(&mut editor, "pilcrow/session/new", json!({"cwd": two}));
    let session = view["session"].as_str().unwrap().to_owned();
    prompt(&mut editor, &session, "go", "queue");
    question(&mut editor, Some("Allow"));
    settled(&mut editor, &session, 1);
    assert!(two.join("new.txt").exists());
    editor.open(&uri(&sandbox, "one/a.txt"), "plaintext", "one\n");
    let undone = editor.run("pilcrow.undo", json!({"session": session}));
    assert_eq!((editor.ended(&undone).as_str(), two.join("new.txt").exists()), ("done", false));
    ok(&mut editor, "pilcrow/session/rename", json!({"session": session, "title": "Second"}));
    ok(&mut editor, "pilcrow/session/close", json!({"session": session}));
    let view = ok(&mut editor, "pilcrow/session/open", json!({"session": session}));
    assert_eq!((&view["cwd"], &view["events"]), (&json!(two), &Value::Null));
    ok(&mut editor, "pilcrow/session/close", json!({"session": session}));
    ok(&mut editor, "pilcrow/session/delete", json!({"session": session}));
    let listed = ok(&mut editor, "pilcrow/session/list", json!({"cwd": two}))["sessions"].clone();
    assert_eq!(listed, json!([]));
    editor.shut_down();
}
