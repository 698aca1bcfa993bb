//! Runs with a scripted model, and with a local server that speaks each protocol.

use expect_test::expect;
use serde_json::{Value, json};
use testing::model::{ModelServer, Reply};
use tests::{Sandbox, check_output, line_with};

fn chunk(delta: Value, reason: Value) -> String {
    let chunk = json!({"id": "r", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
    format!("data: {chunk}\n\n")
}

/// A streamed call of a tool, its arguments cut in the middle.
fn call(id: &str, name: &str, arguments: &Value) -> Reply {
    let arguments = arguments.to_string();
    let (first, rest) = arguments.split_at(arguments.len() / 2);
    let start =
        json!({"index": 0, "id": id, "type": "function", "function": {"name": name, "arguments": first}});
    let more = json!({"index": 0, "function": {"arguments": rest}});
    let stream = [
        chunk(json!({"role": "assistant", "tool_calls": [start]}), Value::Null),
        chunk(json!({"tool_calls": [more]}), Value::Null),
        chunk(json!({}), json!("tool_calls")),
        "data: [DONE]\n\n".to_owned(),
    ];
    Reply::stream(stream.concat(), 7)
}

/// Runs `work` with a model server that gives these replies.
///
/// The sandbox is configured to use it.
fn with_server(replies: Vec<Reply>, work: impl FnOnce(&Sandbox, &ModelServer)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let server = runtime.block_on(ModelServer::start(replies)).expect("the model server");
    let sandbox = Sandbox::with(&[("a.txt", "one\ntwo\n")]);
    let settings = format!(
        "[model]\ndefault = \"local/tiny\"\n[providers.local]\nbase_url = \"{}\"\napi_key_env = \"TINY_API_KEY\"\n",
        server.base_url()
    );
    std::fs::create_dir_all(sandbox.home().join("config")).expect("the configuration's folder");
    std::fs::write(sandbox.home().join("config/config.toml"), settings).expect("the configuration");
    work(&sandbox, &server);
}

const KEY: &str = "sk-local-7f3a9c1d5e8b2460";

#[test]
fn a_local_server_reads_and_writes_through_the_tools() {
    let replies = vec![
        call("c1", "read", &json!({"path": "a.txt"})),
        call("c2", "write", &json!({"path": "new.txt", "content": "made\n"})),
        Reply::text("I read a.txt and made new.txt."),
    ];
    with_server(replies, |sandbox, server| {
        let mut command = sandbox.command(&["run", "look, then make a file", "--yes"]);
        command.env("TINY_API_KEY", KEY);
        let ran = tests::sandbox::finish(command.spawn().expect("pilcrow starts"), tests::sandbox::DEADLINE)
            .expect(0);
        assert_eq!(ran.stdout.trim(), "I read a.txt and made new.txt.");
        assert_eq!(sandbox.read("new.txt"), "made\n");
        let received = server.received();
        assert_eq!(received.len(), 3);
        let key = ("authorization".to_owned(), format!("Bearer {KEY}"));
        assert!(received[0].headers.contains(&key), "{:?}", received[0].headers);
        let last =
            received[1].body["messages"].as_array().and_then(|all| all.last()).cloned().unwrap_or_default();
        assert_eq!((last["role"].as_str(), last["tool_call_id"].as_str()), (Some("tool"), Some("c1")));
        assert!(last["content"].as_str().is_some_and(|text| text.contains("\tone")), "{last}");
        // No file of Pilcrow contains the key: no session, log or journal.
        for (path, bytes) in files(&sandbox.home()) {
            assert!(!String::from_utf8_lossy(&bytes).contains(KEY), "the key is in {}", path.display());
        }
    });
}

#[test]
fn a_failing_server_ends_the_run_with_a_reason() {
    with_server(vec![Reply::status(401).body("{\"error\": {\"message\": \"bad key\"}}")], |sandbox, _| {
        let mut command = sandbox.command(&["run", "hello", "--yes"]);
        command.env("TINY_API_KEY", KEY);
        let ran = tests::sandbox::finish(command.spawn().expect("pilcrow starts"), tests::sandbox::DEADLINE)
            .expect(1);
        assert!(ran.all().contains("bad key") && !ran.all().contains(KEY), "{ran:?}");
    });
    with_server(Vec::new(), |sandbox, _| {
        let ran = sandbox.run(&["run", "hello", "--yes"]).expect(2);
        assert!(ran.all().contains("TINY_API_KEY"), "{ran:?}");
    });
}

#[test]
fn a_truncated_or_empty_answer_is_not_complete() {
    let end = |delta: Value, reason: &str| {
        Reply::stream(format!("{}data: [DONE]\n\n", chunk(delta, json!(reason))), usize::MAX)
    };
    for (delta, reason, said, expected) in [
        (json!({"content": "half an ans"}), "length", "half an ans", "the answer is cut off"),
        (json!({}), "length", "", "the answer is cut off"),
        (json!({}), "stop", "", "the model ended without an answer"),
    ] {
        with_server(vec![end(delta, reason)], |sandbox, _| {
            let mut command = sandbox.command(&["run", "hello", "--yes"]);
            command.env("TINY_API_KEY", KEY);
            let ran =
                tests::sandbox::finish(command.spawn().expect("pilcrow starts"), tests::sandbox::DEADLINE)
                    .expect(1);
            assert_eq!(ran.stdout.trim(), said);
            assert!(ran.stderr.contains(expected), "{ran:?}");
        });
    }
}

#[test]
fn a_scripted_model_edits_the_lines_it_read() {
    let sandbox = Sandbox::with(&[("a.txt", "one\ntwo\n")]);
    let script = sandbox.beside("script.jsonl");
    let lines = [
        json!({"tool_calls": [{"name": "read", "arguments": {"path": "a.txt"}}]}),
        json!({
            "capture": {"tag": {"after": "[a.txt#", "before": "]"}, "two": {"after": "\n2", "before": "\ttwo"}},
            "tool_calls": [{"name": "edit", "arguments": {"patch": "[a.txt#{{tag}}]\nPUT 2{{two}}:\n+TWO\n"}}],
        }),
        json!({"expect": {"last_is_error": false}, "text": "Done."}),
    ];
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    std::fs::write(&script, text.join("\n")).expect("the script");
    let model = format!("script:{}", script.display());
    let ran = sandbox.run(&["run", "shout", "--yes", "--model", &model]).expect(0);
    assert_eq!(ran.stdout.trim(), "Done.");
    assert_eq!(sandbox.read("a.txt"), "one\nTWO\n");
    sandbox.run(&["undo"]).expect(0);
    assert_eq!(sandbox.read("a.txt"), "one\ntwo\n");
}

fn events(events: &[Value]) -> Reply {
    let stream: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    Reply::stream(stream.into_bytes(), 11)
}

/// A call of `read`, and a text, as each protocol streams them.
fn streams(protocol: &str) -> [Reply; 2] {
    let (args, text) = (json!({"path": "a.txt"}), "It says one.");
    match protocol {
        "anthropic-messages" => {
            let message = |block: Value, delta: Value, reason: &str| {
                events(&[
                    json!({"type": "message_start", "message": {"id": "m1", "usage": {"input_tokens": 5}}}),
                    json!({"type": "content_block_start", "index": 0, "content_block": block}),
                    json!({"type": "content_block_delta", "index": 0, "delta": delta}),
                    json!({"type": "content_block_stop", "index": 0}),
                    json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 3}}),
                    json!({"type": "message_stop"}),
                ])
            };
            let call = json!({"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}});
            let json = json!({"type": "input_json_delta", "partial_json": args.to_string()});
            let words = json!({"type": "text_delta", "text": text});
            [message(call, json, "tool_use"), message(json!({"type": "text", "text": ""}), words, "end_turn")]
        }
        "openai-responses" => {
            let response = |item: Value| {
                events(&[
                    json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
                    json!({"type": "response.completed", "response": {"id": "r1", "status": "completed"}}),
                ])
            };
            let content = json!([{"type": "output_text", "text": text}]);
            [
                response(json!({
                    "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read",
                    "arguments": args.to_string(),
                })),
                response(json!({"type": "message", "id": "msg_1", "content": content})),
            ]
        }
        "google-generative-ai" => {
            let part = |part: Value| {
                events(&[json!({"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]})])
            };
            [part(json!({"functionCall": {"name": "read", "args": args}})), part(json!({"text": text}))]
        }
        _ => [call("c1", "read", &args), Reply::text(text)],
    }
}

/// Uses a provider that a user defines in `models.toml` alone, in each protocol.
#[test]
fn each_protocol_works_through_a_custom_provider() {
    let mut rows = std::collections::BTreeSet::new();
    for (protocol, target, header) in [
        ("anthropic-messages", "POST /v1/messages", "x-api-key"),
        ("google-generative-ai", "POST /v1/models/tiny:streamGenerateContent?alt=sse", "x-goog-api-key"),
        ("openai-completions", "POST /v1/chat/completions", "authorization"),
        ("openai-responses", "POST /v1/responses", "authorization"),
        ("mistral-conversations", "POST /v1/chat/completions", "authorization"),
    ] {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
        let server = runtime.block_on(ModelServer::start(streams(protocol).to_vec())).expect("the server");
        let sandbox = Sandbox::with(&[("a.txt", "one\ntwo\n")]);
        let models = format!(
            "[providers.mine]\nprotocol = \"{protocol}\"\nbase_url = \"{}\"\nvalues = {{ port = \"${{MINE_PORT}}\" }}\n\
             api_key_env = [\"MINE_KEY\"]\ndefault = \"tiny\"\n[providers.mine.models.tiny]\nthinking = {{ low = \"low\" }}\n",
            server.base_url().replace(&server.port().to_string(), "{port}"),
        );
        std::fs::create_dir_all(sandbox.home().join("config")).expect("the configuration's folder");
        std::fs::write(sandbox.home().join("config/models.toml"), models).expect("the catalogue");
        let mut command = sandbox.command(&["run", "what does a.txt say?", "--yes", "--model", "mine:high"]);
        command.env("MINE_KEY", KEY).env("MINE_PORT", server.port().to_string());
        let ran = tests::sandbox::finish(command.spawn().expect("pilcrow starts"), tests::sandbox::DEADLINE)
            .expect(0);
        assert_eq!(ran.stdout.trim(), "It says one.", "{protocol}");
        let received = server.received();
        assert_eq!(received.iter().map(|it| it.target.as_str()).collect::<Vec<_>>(), [target; 2]);
        let key =
            received[0].headers.iter().find(|(name, _)| name == header).map(|(_, value)| value.as_str());
        assert!(key.is_some_and(|it| it.ends_with(KEY)), "{protocol}: {:?}", received[0].headers);
        assert!(
            received[1].body.to_string().contains("\\tone"),
            "{protocol}: the file's line is in the result"
        );
        assert!(received[0].body.to_string().contains("\"low\""), "{protocol}: the level that is had");
        for (path, bytes) in files(&sandbox.home()) {
            assert!(!String::from_utf8_lossy(&bytes).contains(KEY), "the key is in {}", path.display());
        }
        let shown = sandbox.run(&["models", "list"]).expect(0).stdout;
        rows.insert(line_with(&shown, "mine/tiny").to_owned());
        assert!(shown.lines().any(|line| line.contains("no key") && line.contains("MINE_KEY")), "{shown}");
        let shown = sandbox.run(&["models", "show", "mine:high"]).expect(0).stdout;
        rows.extend(["requested", "cost "].map(|part| line_with(&shown, part).to_owned()));
    }
    let rows: Vec<&str> = rows.iter().map(|row| row.trim()).collect();
    check_output(
        &rows.join("\n"),
        &expect![[r#"
        high requested, low used
        cost         unknown
        mine/tiny  (default)"#]],
    );
}

pub fn files(directory: &std::path::Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(directory).expect("the test's own directory").map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            out.extend(files(&path));
        } else if path.is_file() {
            out.push((path.clone(), std::fs::read(&path).expect("the test's own file")));
        }
    }
    out
}

#[test]
fn a_model_finds_tools_beyond_the_listed_ones() {
    let names = |body: &Value| -> Vec<String> {
        let tools = body["tools"].as_array().into_iter().flatten();
        tools.filter_map(|tool| tool["function"]["name"].as_str().map(str::to_owned)).collect()
    };
    let run = |sandbox: &Sandbox, discovery: &str| {
        let mut command = sandbox.command(&["run", "go", "--yes"]);
        command.env("TINY_API_KEY", KEY).env("PILCROW_TOOLS_DISCOVERY", discovery);
        tests::sandbox::finish(command.spawn().expect("pilcrow starts"), tests::sandbox::DEADLINE)
    };
    let start = ["read", "edit", "write", "bash", "grep", "find", "lsp", "search_tools"];
    let replies = vec![
        call("c1", "search_tools", &json!({"query": "revert the last change"})),
        call("c2", "undo", &json!({})),
        Reply::text("done"),
    ];
    with_server(replies, |sandbox, server| {
        run(sandbox, "on").expect(0);
        let received = server.received();
        assert_eq!(names(&received[0].body), start);
        let found = received[1].body["messages"].to_string();
        let undo = found.find("undo: ").map(|at| &found[at..]).expect("the tool");
        check_output(
            undo.split("\\n").next().unwrap_or_default(),
            &expect![
                "undo: Revert (undo, take back) what the last run changed, or one `commit`. Changes made since by the user or by others stay; what can no longer be reverted is listed and left."
            ],
        );
        let mut grown = names(&received[1].body);
        assert_eq!(grown.drain(..start.len()).collect::<Vec<_>>(), start, "the prefix is unchanged");
        assert!(grown.contains(&"undo".to_owned()) && grown.len() <= 5, "{grown:?}");
        assert_eq!(names(&received[2].body)[start.len()..], grown);
    });
    with_server(vec![Reply::text("done")], |sandbox, server| {
        run(sandbox, "off").expect(0);
        let names = names(&server.received()[0].body);
        assert!(
            names.contains(&"undo".to_owned()) && !names.contains(&"search_tools".to_owned()),
            "{names:?}"
        );
    });
    let sandbox = Sandbox::with(&[]);
    let shown = sandbox.run(&["tools", "--budget"]).expect(0).stdout;
    // The environment has a path of any length, which also counts in the total.
    let is_constant = |line: &&str| !line.starts_with("environment") && !line.starts_with("total");
    let constant: String = shown.lines().filter(is_constant).map(|line| format!("{line}\n")).collect();
    check_output(
        &constant,
        &expect![[r#"
            instructions      712 bytes    161 tokens (o200k), about   178 by bytes
            read              575 bytes    134 tokens (o200k), about   144 by bytes
            edit             1485 bytes    435 tokens (o200k), about   372 by bytes
            write             348 bytes     76 tokens (o200k), about    87 by bytes
            bash              835 bytes    197 tokens (o200k), about   209 by bytes
            grep             1080 bytes    247 tokens (o200k), about   270 by bytes
            find              576 bytes    129 tokens (o200k), about   144 by bytes
            lsp              2314 bytes    563 tokens (o200k), about   579 by bytes
            search_tools      391 bytes     85 tokens (o200k), about    98 by bytes
            + debug, if the prompt needs it   5401 bytes   1256 tokens (o200k), about  1351 by bytes
        "#]],
    );
    let shown = sandbox.run(&["tools"]).expect(0).stdout;
    let undo = shown.lines().find(|line| line.starts_with("undo ")).expect("its row");
    check_output(undo, &expect!["undo           found by search  Undo"]);
}
