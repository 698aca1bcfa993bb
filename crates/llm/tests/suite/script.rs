//! Scripts: answers, expectations, errors.

use expect_test::expect;
use std::time::Duration;

use llm::{
    AssistantMessage, ErrorKind, Message, Model, Request, ScriptModel, StopReason, StreamEvent,
    ToolDefinition,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

async fn ask(model: &ScriptModel, messages: &[&str]) -> AssistantMessage {
    let request = Request {
        messages: messages.iter().map(|text| Message::user(*text)).collect::<Vec<_>>().into(),
        tools: vec![ToolDefinition {
            name: "read".to_owned(),
            label: String::new(),
            description: String::new(),
            parameters: json!({"type": "object"}),
        }],
        ..Request::default()
    };
    let mut last = model.stream(request, CancellationToken::new()).final_message();
    AssistantMessage::clone(last.get().await.as_ref())
}

#[tokio::test]
async fn answers_come_in_order_with_all_their_fields() {
    let script = concat!(
        "{\"format\": 1}\n// a comment\n\n",
        r#"{"thinking": "hm", "text": "Reading.", "tool_calls": [{"name": "read", "arguments": {"path": "a"}}, {"name": "read", "arguments_text": "{oops"}], "usage": {"input": 5, "output": 2}}"#,
        "\n",
        r#"{"content": [{"tool_call": {"id": "x", "name": "t"}}, {"text": "cut"}], "stop_reason": "length"}"#,
        "\n",
        r#"{"text": "half", "error": "it broke"}"#,
        "\n"
    );
    let model = ScriptModel::parse("t", script).unwrap();
    let first = ask(&model, &["go"]).await;
    assert_eq!((first.stop_reason, first.text().as_str()), (StopReason::ToolUse, "Reading."));
    assert_eq!(first.usage.total_tokens, 7);
    let calls: Vec<_> = first.tool_calls().collect();
    assert_eq!((calls[0].id.as_str(), &calls[0].arguments["path"]), ("script_4_read_1", &json!("a")));
    assert_eq!(calls[1].id, "script_4_read_2");
    assert!(calls[1].arguments_error.is_some() && calls[1].arguments.is_empty());
    let second = ask(&model, &["go"]).await;
    assert_eq!((second.stop_reason, second.tool_calls().count()), (StopReason::Length, 1));
    assert_eq!(model.unused(), 1);
    let third = ask(&model, &["go"]).await;
    assert_eq!((third.stop_reason, third.text().as_str()), (StopReason::Error, "half"));
    assert_eq!(third.error_message.as_deref(), Some("it broke"));
    let fourth = ask(&model, &["go"]).await;
    assert_eq!(fourth.error_kind, Some(ErrorKind::Script));
    assert_eq!(fourth.error_message.as_deref(), Some("the script has no answer left (it has 3)"));
    assert_eq!(model.requests().len(), 4);
}

#[tokio::test]
async fn an_unmet_expectation_names_its_line() {
    let mut errors = String::new();
    for expect in [
        r#"{"last_contains": ["tag"]}"#,
        r#"{"last_lacks": ["hello"]}"#,
        r#"{"last_role": "toolResult"}"#,
        r#"{"last_is_error": true}"#,
        r#"{"messages": 2}"#,
        r#"{"tools": ["read", "edit"]}"#,
        r#"{"tools_include": ["edit"]}"#,
        r#"{"tools_exclude": ["read"]}"#,
        r#"{"system_contains": ["x"]}"#,
    ] {
        let model =
            ScriptModel::parse("t", &format!("\n{{\"expect\": {expect}, \"text\": \"ok\"}}")).unwrap();
        let error = ask(&model, &["hello"]).await.error_message.unwrap();
        errors.push_str(&format!("{error}\n"));
    }
    expect![[r#"
        line 2 of the script: the last message lacks "tag"; it is "hello"
        line 2 of the script: the last message has "hello"; it is "hello"
        line 2 of the script: the last message is from user, expected toolResult
        line 2 of the script: the last message is no error result; its text is "hello"
        line 2 of the script: the request has 1 messages, expected 2
        line 2 of the script: the tools are ["read"], expected ["read", "edit"]
        line 2 of the script: the tools lack edit; they are ["read"]
        line 2 of the script: the tools have read
        line 2 of the script: the instructions lack "x"
    "#]]
    .assert_eq(&errors);
    let met = r#"{"expect": {"last_contains": ["hel", "lo"], "last_role": "user", "messages": 1, "tools": ["read"], "last_is_error": false}, "text": "ok"}"#;
    assert_eq!(ask(&ScriptModel::parse("t", met).unwrap(), &["hello"]).await.text(), "ok");
}

#[tokio::test]
async fn captured_text_can_be_used_later() {
    let script = concat!(
        r##"{"capture": {"tag": {"after": "[a.py#", "before": "]"}}, "text": "saw {{tag}}"}"##,
        "\n",
        r#"{"tool_calls": [{"name": "read", "arguments": {"l": ["{{tag}}!"]}}]}"#,
        "\n",
        r#"{"capture": {"none": {"after": "<<", "before": ">>"}}, "text": "x"}"#
    );
    let model = ScriptModel::parse("t", script).unwrap();
    assert_eq!(ask(&model, &["[a.py#OLD1]", "[a.py#3F2A] text"]).await.text(), "saw 3F2A");
    let call = ask(&model, &["go"]).await;
    assert_eq!(call.tool_calls().next().unwrap().arguments["l"], json!(["3F2A!"]));
    expect![[r#"line 3 of the script: no message has text between "<<" and ">>" to capture as none"#]]
        .assert_eq(&ask(&model, &["go"]).await.error_message.unwrap());
}

#[tokio::test]
async fn an_answer_can_wait_for_cancel() {
    let script = r#"{"text": "one two three", "chunk": 4, "wait_for_cancel": true}"#;
    let model = ScriptModel::parse("t", script).unwrap();
    let cancel = CancellationToken::new();
    let mut stream = model.stream(Request::default(), cancel.clone());
    let mut deltas = 0;
    let message = tokio::time::timeout(Duration::from_secs(30), async {
        while let Some(event) = stream.next().await {
            match event {
                StreamEvent::TextDelta { .. } => deltas += 1,
                StreamEvent::TextEnd { .. } => cancel.cancel(),
                StreamEvent::Error { message } => return message,
                _ => {}
            }
        }
        panic!("no final event");
    });
    let message = message.await.unwrap();
    assert_eq!(
        (deltas, message.stop_reason, message.text().as_str()),
        (4, StopReason::Aborted, "one two three")
    );
}

#[test]
fn an_invalid_script_names_the_line() {
    for (script, part) in [
        ("{\"text\": \"a\"}\n{\"txt\": \"b\"}", "cannot parse line 2 of the script: unknown field `txt`"),
        ("{", "cannot parse line 1 of the script"),
        ("{\"format\": 2}", "has format 2, newer than the supported format 1"),
        ("{\"format\": \"x\"}", "format must be 1"),
        ("{\"text\": \"a\", \"content\": [{\"text\": \"b\"}]}", "either content or text"),
    ] {
        let error = ScriptModel::parse("t", script).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}
