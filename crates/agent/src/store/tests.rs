//! Parsing of session files: versions, damaged lines, and trees.

use llm::Message;
use serde_json::{Value, json};

use super::entry::{VERSION, header_line, message_line};
use super::*;

fn file(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn header() -> Value {
    json!({"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/p"})
}

fn entry(kind: &str, id: &str, parent: Option<&str>, fields: Value) -> Value {
    let mut entry = json!({"type": kind, "id": id, "parentId": parent, "timestamp": "t"});
    entry.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    entry
}

fn user(id: &str, parent: Option<&str>, text: &str) -> Value {
    entry("message", id, parent, json!({"message": {"role": "user", "content": text, "timestamp": 1}}))
}

fn texts(session: &LoadedSession) -> Vec<String> {
    session.context().iter().map(Message::text).collect()
}

#[track_caller]
fn read(text: &str) -> LoadedSession {
    parse("f", text.to_owned()).unwrap()
}

#[test]
fn the_context_is_the_path_from_the_root_to_the_newest_entry() {
    let text = file(&[
        header(),
        user("a", None, "one"),
        user("b", Some("a"), "left"),
        json!({"type": "model_change", "id": "m", "parentId": "a", "timestamp": "t", "modelId": "x"}),
        json!({"type": "message", "id": "h", "parentId": "m", "message": {"role": "unknown", "command": "ls"}}),
        user("c", Some("h"), "right"),
    ]);
    let session = read(&text);
    assert_eq!(texts(&session), ["one", "right"]);
    assert_eq!((session.entries.len(), session.warnings.len()), (5, 0), "what is not known is kept");
    let unknown = session.body(&session.entries[3]).unwrap();
    assert!(matches!(unknown, EntryBody::Other(value) if value["message"]["command"] == "ls"));
}

#[test]
fn a_torn_last_line_is_dropped_with_a_warning() {
    let whole = file(&[header(), user("a", None, "one"), user("b", Some("a"), "two é")]);
    for cut in whole.len() - 90..whole.len() - 1 {
        let Some(text) = whole.get(..cut) else { continue };
        let session = read(text);
        assert_eq!(texts(&session), ["one"], "cut at {cut}");
        assert_eq!(session.warnings, ["f: skipped the last line, which a crash cut"]);
        let resumed = format!("{text}\n{}\n", user("c", Some("a"), "three"));
        let session = read(&resumed);
        assert_eq!(texts(&session), ["one", "three"], "cut at {cut}, then resumed");
        assert!(session.warnings[0].starts_with("f: skipped line 3"), "{:?}", session.warnings);
    }
}

#[test]
fn a_damaged_line_does_not_cut_off_the_beginning() {
    // Its beginning is missing, or everything else is.
    let damaged: [fn(&Value) -> String; 2] =
        [|line| format!("{}\n", &line.to_string()[1..]), |line| format!("{}\n", &line.to_string()[..12])];
    let (one, two) = (user("a", None, "one"), user("b", Some("a"), "two"));
    let (three, four) = (user("c", Some("b"), "three"), user("d", Some("c"), "four"));
    for damage in damaged {
        let text = file(&[header(), one.clone()]) + &damage(&two) + &file(&[three.clone(), four.clone()]);
        let session = read(&text);
        assert_eq!((texts(&session).join(" "), session.warnings.len()), ("one three four".to_owned(), 1));
        let lost = damage(&two) + &damage(&three);
        let session = read(&(file(&[header(), one.clone()]) + &lost + &file(std::slice::from_ref(&four))));
        assert_eq!((texts(&session).join(" "), session.warnings.len()), ("one four".to_owned(), 2));
    }
    // The successor of the line does not follow another branch if the line still names its parent.
    let beside = user("x", Some("a"), "beside");
    let text = file(&[header(), one, beside]) + &damaged[0](&two) + &file(&[three]);
    assert_eq!(texts(&read(&text)), ["one", "three"]);
}

#[test]
fn unknown_blocks_become_a_note() {
    let content = json!([{"type": "text", "text": "one"}, {"type": "hologram", "data": 1}, {"type": "text", "text": "two"}]);
    let message = json!({"role": "user", "content": content, "timestamp": 1});
    let session = read(&file(&[header(), entry("message", "a", None, json!({ "message": message }))]));
    let shown = texts(&session).join("");
    assert!(shown.contains("one") && shown.contains("two") && shown.contains("type hologram"), "{shown}");
    assert!(session.text().contains("\"data\":1"), "the file keeps it");
}

#[test]
fn newer_versions_and_other_files_are_rejected() {
    for (line, part) in [
        (
            json!({"type": "session", "version": 4, "id": "s"}),
            "it has version 4, newer than the supported version 3; update",
        ),
        (json!({"type": "message"}), "not a session header"),
    ] {
        assert!(parse("f", file(&[line])).unwrap_err().contains(part));
    }
    assert!(parse("f", String::new()).is_err());
    assert!(parse("f", "not json".to_owned()).is_err());
}

#[test]
fn version_1_is_linear_and_keeps_entries_by_index() {
    let message = |text: &str| json!({"type": "message", "timestamp": "t", "message": {"role": "user", "content": text}});
    let session = read(&file(&[
        json!({"type": "session", "id": "s", "timestamp": "t", "cwd": "/p"}),
        message("one"),
        message("two"),
        json!({"type": "compaction", "timestamp": "t", "summary": "short", "firstKeptEntryIndex": 2, "tokensBefore": 9}),
        message("three"),
    ]));
    let context = texts(&session);
    assert_eq!((context.len(), &context[1..]), (3, &["two".to_owned(), "three".to_owned()][..]));
    assert!(context[0].contains("<summary>\nshort\n</summary>"));
    assert_eq!((session.header.version, session.entries.len()), (3, 4));
    assert_eq!(session.entries[3].parent_id.as_deref(), Some("00000003"));
}

#[test]
fn version_2_roles_become_entry_types() {
    let hook = json!({"role": "hookMessage", "customType": "k", "content": "said", "display": true});
    let session = read(&file(&[
        json!({"type": "session", "version": 2, "id": "s", "timestamp": "t", "cwd": "/p"}),
        entry("message", "a", None, json!({ "message": hook })),
    ]));
    assert_eq!(texts(&session), ["said"]);
    assert!(session.text().contains(r#""role":"custom""#));
}

#[test]
fn every_type_of_entry_is_understood() {
    let command = json!({"role": "bashExecution", "command": "ls", "output": "a\n", "exitCode": 2});
    let hidden = json!({"role": "bashExecution", "command": "ls", "output": "", "excludeFromContext": true});
    let kinds = [
        user("a", None, "one"),
        entry("model_change", "b", Some("a"), json!({"provider": "p", "modelId": "m"})),
        entry("thinking_level_change", "c", Some("b"), json!({"thinkingLevel": "high"})),
        entry("usage", "d", Some("c"), json!({"kind": "compaction", "usage": {"input": 1}})),
        entry("message", "e", Some("d"), json!({ "message": command })),
        entry("message", "f", Some("e"), json!({ "message": hidden })),
        entry("custom", "g", Some("f"), json!({"customType": "k", "data": {"n": 1}})),
        entry(
            "custom_message",
            "h",
            Some("g"),
            json!({"customType": "k", "content": "noted", "display": false}),
        ),
        entry("label", "i", Some("h"), json!({"targetId": "a", "label": "start"})),
        entry("session_info", "j", Some("i"), json!({"name": "A name"})),
        user("k", Some("j"), "dropped"),
        entry("context_edit", "l", Some("k"), json!({"targetId": "k", "replacement": null})),
        entry("branch_summary", "m", Some("l"), json!({"fromId": "x", "summary": "elsewhere"})),
        entry("tool_activation", "n", Some("m"), json!({"tools": ["t", "u"]})),
        entry("checkpoint", "o", Some("n"), json!({"id2": 1})),
        entry("permission", "p", Some("o"), json!({})),
        entry("something_new", "q", Some("p"), json!({})),
    ];
    let lines: Vec<Value> = std::iter::once(header()).chain(kinds).collect();
    let session = read(&file(&lines));
    assert_eq!((session.entries.len(), session.warnings.len()), (17, 0));
    let context = texts(&session);
    assert_eq!(context[..3], ["one", "Ran `ls`\n```\na\n```\n(status 2)", "noted"]);
    assert!(context[3].contains("elsewhere") && context.len() == 4, "{context:?}");
    assert_eq!(session.activated(), ["t", "u"]);
    let model = Some(("p".to_owned(), "m".to_owned()));
    assert_eq!(session.last_settings(), (model, Some(llm::ThinkingLevel::High)));
    assert_eq!(session.name().as_deref(), Some("A name"));
    assert_eq!(session.labels()["a"], "start");
    let others = session.entries.iter().filter(|it| matches!(session.body(it), Ok(EntryBody::Other(_))));
    assert_eq!(others.count(), 2, "usage and what is new");
}

#[test]
fn the_newest_summary_replaces_earlier_messages() {
    let compaction = |id: &str, parent: &str, kept: &str, summary: &str| {
        let fields = json!({"summary": summary, "firstKeptEntryId": kept, "tokensBefore": 1});
        entry("compaction", id, Some(parent), fields)
    };
    let lines = [
        header(),
        user("a", None, "one"),
        user("b", Some("a"), "two"),
        compaction("c", "b", "b", "first"),
        user("d", Some("c"), "three"),
        compaction("e", "d", "d", "second"),
        user("f", Some("e"), "four"),
        compaction("g", "f", "g", "third"),
        user("h", Some("d"), "beside"),
    ];
    let mut session = read(&file(&lines));
    let summaries = |session: &LoadedSession| -> Vec<String> {
        session.context().iter().map(|it| if is_summary(it) { summary_text(it) } else { it.text() }).collect()
    };
    assert_eq!(summaries(&session), ["first", "two", "three", "beside"]);
    assert!(session.select("f"));
    assert_eq!(summaries(&session), ["second", "three", "four"]);
    let before: Vec<bool> = session.context_items().iter().map(|it| it.before_compaction).collect();
    assert_eq!(before, [true, true, false]);
    assert!(session.select("g"));
    assert_eq!(summaries(&session), ["third"], "nothing stays");
    assert!(!session.select("nosuch"));
}

#[test]
fn the_tree_shows_branches_orphans_and_the_current_path() {
    let lines = [
        header(),
        user("a", None, "one"),
        user("b", Some("a"), "two"),
        user("x", Some("lost"), "orphan"),
        user("c", Some("a"), "other"),
        entry("label", "l", Some("c"), json!({"targetId": "b", "label": "first try"})),
    ];
    let session = read(&file(&lines));
    let shown: Vec<String> = session
        .tree()
        .iter()
        .map(|line| {
            let current = if line.is_current { "*" } else { "" };
            let label = line.label.as_deref().unwrap_or_default();
            format!("{}{}{current}{label}", " ".repeat(line.depth), session.entries[line.entry].id)
        })
        .collect();
    assert_eq!(shown, ["a*", " bfirst try", " c*", " l*", "x"]);
}

#[test]
fn cyclic_parents_terminate() {
    let text = file(&[header(), user("a", Some("b"), "one"), user("b", Some("a"), "two")]);
    let session = read(&text);
    assert_eq!(texts(&session), ["one", "two"]);
    assert_eq!(session.tree().len(), 2);
}

#[test]
fn written_lines_are_read_back() {
    let header = Header {
        version: VERSION,
        id: "s".to_owned(),
        timestamp: "t".to_owned(),
        cwd: "/p".to_owned(),
        parent_session: None,
        branch_point: None,
    };
    let message = Message::user("hi\n\u{2028}there");
    let text = header_line(&header) + &message_line("a", None, "t", &message).unwrap();
    let session = read(&text);
    assert_eq!(session.header, header);
    assert_eq!(texts(&session), ["hi\n\u{2028}there"]);
    assert!(!session.torn);
}
