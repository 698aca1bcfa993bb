//! Stored sessions: written while running, listed, loaded, resumed.

#![expect(clippy::disallowed_methods, reason = "a crash is imitated by cutting a file")]

use expect_test::expect;
use std::path::PathBuf;

use llm::{AssistantMessage, Content, StreamEvent};
use paths::{AbsPath, StateDir};
use serde_json::json;

use super::*;
use crate::TerminationReason;
use crate::store::{SessionStore, StoreError};
use crate::tool::pipeline::Pipeline;

struct TestStore {
    _directory: tempfile::TempDir,
    path: PathBuf,
    store: SessionStore,
}

fn test_store() -> TestStore {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap().join("sessions");
    let store = SessionStore::new(StateDir::new(AbsPath::new(&path).unwrap()));
    TestStore { _directory: directory, path, store }
}

impl TestStore {
    fn session(&self, script: &[Value], resume: Option<&str>) -> Session {
        let script: String = script.iter().map(|line| format!("{line}\n")).collect();
        let model = Arc::new(ScriptModel::parse("t", &script).unwrap());
        let tools = Registry::new([Arc::new(echo("t")) as Arc<dyn Tool>]).unwrap();
        let builder = Session::builder(model, tools).store(self.store.clone()).cwd("/project");
        match resume {
            Some(id) => builder.resume(self.store.load(id).unwrap()).build(),
            None => builder.build(),
        }
    }

    fn file(&self) -> PathBuf {
        let files = std::fs::read_dir(&self.path).unwrap().map(|entry| entry.unwrap().path());
        let mut files = files.filter(|path| path.extension().is_some_and(|it| it == "jsonl"));
        let file = files.next().unwrap();
        assert_eq!(files.next(), None);
        file
    }
}

#[tokio::test]
async fn a_replay_has_the_prompts_and_answers_of_the_session() {
    let kept = test_store();
    let session = kept.session(&[], None);
    let answer = |text: &str, call: Option<Value>| {
        let calls = call.map(|it| Content::ToolCall(serde_json::from_value(it).unwrap()));
        let content = std::iter::once(Content::text(text)).chain(calls).collect();
        Message::Assistant(AssistantMessage { content, ..AssistantMessage::empty("t", "t", "t") })
    };
    for message in [
        Message::user("one"),
        answer("1", Some(json!({"id": "c", "name": "t", "arguments": {}}))),
        Message::user("said meanwhile"),
        answer("2", None),
        Message::user("two"),
        answer("3", None),
        Message::user("never answered"),
    ] {
        session.append(message).await.unwrap();
    }
    let replay = crate::ReplayModel::new(&kept.store.load(session.id()).unwrap());
    assert_eq!(replay.prompts(), ["one\n\nsaid meanwhile", "two"]);
}

#[tokio::test]
async fn secrets_reach_neither_the_file_nor_the_sinks() {
    let kept = test_store();
    let key = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";
    let script = [calls(&[call("a", "t", json!({"text": key}))]), text("done")];
    let script: String = script.iter().map(|line| format!("{line}\n")).collect();
    let tools = Registry::new([Arc::new(echo("t")) as Arc<dyn Tool>]).unwrap();
    let events = Arc::new(Recorder::default());
    let model = Arc::new(ScriptModel::parse("t", &script).unwrap());
    let session = Session::builder(model, tools).store(kept.store.clone()).sink(events.clone()).build();
    let outcome = session.prompt(&*format!("use {key}")).await;
    assert!(outcome.messages[2].text().contains(key), "the run works with what was said");
    assert!(session.close(DEADLINE).await);
    let delivered = serde_json::to_string(&*events.envelopes.lock()).unwrap();
    let written = std::fs::read_to_string(kept.file()).unwrap();
    for seen in [delivered, written] {
        assert!(seen.contains("use [redacted:github-token]") && !seen.contains(key), "{seen}");
    }
}

#[tokio::test]
async fn a_secret_split_between_deltas_is_redacted() {
    let key = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";
    let answer = json!({
        "thinking": format!("I think {key} of it"),
        "text": format!("it is {key}"),
        "tool_calls": [call("a", "t", json!({"text": format!("say {key} please")}))],
        "chunk": 7,
    });
    let (_, running) = setup(&[answer, text("done")]).tool(echo("t")).run().await;
    assert!(running.session.close(DEADLINE).await);
    let (mut thinking, mut said, mut called) = (String::new(), String::new(), String::new());
    for envelope in running.events.envelopes.lock().iter() {
        let Event::MessageUpdate { update, .. } = &envelope.event else { continue };
        match update {
            StreamEvent::ThinkingDelta { delta, .. } => thinking.push_str(delta),
            StreamEvent::TextDelta { delta, .. } => said.push_str(delta),
            StreamEvent::ToolCallDelta { delta, .. } => called.push_str(delta),
            StreamEvent::TextEnd { .. } => said.push('|'),
            _ => {}
        }
    }
    assert_eq!(thinking, "I think [redacted:github-token] of it");
    assert_eq!(said, "it is [redacted:github-token]|done|", "what waits comes before the end of its block");
    assert_eq!(called, "{\"text\":\"say [redacted:github-token] please\"}");
}

#[tokio::test]
async fn a_session_is_written_as_it_runs_and_can_be_shown() {
    let kept = test_store();
    let session = kept.session(&[calls(&[call("a", "t", json!({"n": 1}))]), text("done")], None);
    assert!(kept.store.list().unwrap().is_empty(), "nothing is written before the first message");
    let outcome = session.prompt("first\nline, and more").await;
    let loaded = kept.store.load(session.id()).unwrap();
    assert_eq!(loaded.context(), outcome.messages);
    assert_eq!((loaded.header.version, loaded.header.cwd.as_str()), (3, "/project"));
    assert!(loaded.warnings.is_empty() && loaded.entries[0].parent_id.is_none());
    for pair in loaded.entries.windows(2) {
        assert_eq!(pair[1].parent_id.as_ref(), Some(&pair[0].id));
    }
    let list = kept.store.list().unwrap();
    assert_eq!(list.len(), 1);
    assert_eq!((list[0].messages, list[0].title.as_str()), (4, "first line, and more"));
    assert!(list[0].last_active >= list[0].created);
    assert_eq!(
        kept.store.load(&session.id()[28..]).unwrap().header.id,
        session.id(),
        "a part of the id will do"
    );
    assert!(matches!(kept.store.load("nosuch"), Err(StoreError::NotFound { .. })));
}

#[tokio::test]
async fn a_session_resumes_after_a_crash_cut_its_last_line() {
    let kept = test_store();
    let session = kept.session(&[text("one")], None);
    session.prompt("go").await;
    let id = session.id().to_owned();
    assert!(session.close(DEADLINE).await);
    let file = kept.file();
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.truncate(bytes.len() - 9);
    std::fs::write(&file, bytes).unwrap();
    let expecting = json!({"expect": {"messages": 2, "last_contains": ["again"]}, "text": "two"});
    let session = kept.session(&[expecting], Some(&id));
    assert_eq!(session.id(), id);
    let outcome = session.prompt("again").await;
    assert_eq!((outcome.final_text.as_str(), outcome.error.as_deref()), ("two", None));
    let loaded = kept.store.load(&id).unwrap();
    let said: Vec<String> = loaded.context().iter().map(llm::Message::text).collect();
    assert_eq!(said, ["go", "again", "two"]);
    assert_eq!(loaded.warnings.len(), 1);
    assert_eq!(kept.file(), file, "the same file");
}

#[tokio::test]
async fn an_unwritable_file_ends_the_run_with_an_error() {
    let kept = test_store();
    std::fs::write(&kept.path, "a file where the directory should be").unwrap();
    let session = kept.session(&[text("one")], None);
    let outcome = session.prompt("go").await;
    assert_eq!(outcome.reason, TerminationReason::Error);
    let error = outcome.error.unwrap().replace(&kept.path.display().to_string(), "STORE");
    expect!["cannot write the session file: "].assert_eq(error.split("STORE").next().unwrap());
}

#[tokio::test]
async fn a_list_reads_only_changed_files() {
    let kept = test_store();
    for prompt in ["the first", "the second"] {
        let session = kept.session(&[text("ok")], None);
        session.prompt(prompt).await;
        session.close(DEADLINE).await;
    }
    let listed = || -> Vec<(String, usize)> {
        kept.store.list().unwrap().into_iter().map(|it| (it.title, it.messages)).collect()
    };
    let both = [("the second".to_owned(), 2), ("the first".to_owned(), 2)];
    assert_eq!(listed(), both);
    // A file that looks unchanged is not read again.
    let newest = kept.store.list().unwrap().remove(0);
    let file = kept.path.join(&newest.file);
    let (whole, modified) =
        (std::fs::read(&file).unwrap(), std::fs::metadata(&file).unwrap().modified().unwrap());
    let set = |bytes: &[u8]| {
        std::fs::write(&file, bytes).unwrap();
        std::fs::File::options().write(true).open(&file).unwrap().set_modified(modified).unwrap();
    };
    set(&vec![b'x'; whole.len()]);
    assert_eq!(listed(), both);
    set(&whole);
    let session = kept.session(&[text("more")], Some(&newest.id));
    session.prompt("and on").await;
    session.close(DEADLINE).await;
    assert_eq!(listed()[0], ("the second".to_owned(), 4));
    assert_eq!(kept.store.list().unwrap()[0].usage, kept.store.load(&newest.id).unwrap().usage());
    // The cache is rebuilt if unreadable, and holds nothing of deleted sessions.
    let known = kept.path.join("summaries.json");
    std::fs::write(&known, "{").unwrap();
    assert_eq!(listed().len(), 2);
    kept.store.delete(&newest.id).unwrap();
    assert!(!std::fs::read_to_string(&known).unwrap().contains("the second"));
    assert_eq!(listed(), both[1..]);
    std::fs::remove_file(kept.file()).unwrap();
    assert!(listed().is_empty() && !std::fs::read_to_string(&known).unwrap().contains("the first"));
}

#[tokio::test]
async fn an_ambiguous_id_is_rejected() {
    let kept = test_store();
    for _ in 0..2 {
        kept.session(&[text("one")], None).prompt("go").await;
    }
    let error = kept.store.load("0").unwrap_err();
    assert_eq!(error.to_string(), "2 sessions match \"0\"; give more characters of the id");
    assert_eq!(kept.store.list().unwrap().len(), 2);
}

fn said(loaded: &crate::store::LoadedSession) -> Vec<String> {
    loaded.context().iter().map(llm::Message::text).collect()
}

/// Two prompts in a closed session; returns its id and entries.
async fn two_prompts(kept: &TestStore) -> (String, Vec<String>) {
    let session = kept.session(&[text("one"), text("two")], None);
    session.prompt("first").await;
    session.prompt("second").await;
    assert!(session.close(DEADLINE).await);
    let loaded = kept.store.load(session.id()).unwrap();
    let messages = loaded.entries.iter().filter(|entry| entry.kind == "message");
    (session.id().to_owned(), messages.map(|entry| entry.id.clone()).collect())
}

#[tokio::test]
async fn the_model_is_recorded_before_its_first_request() {
    let kept = test_store();
    let session = kept.session(&[json!({"wait_for_cancel": true})], None);
    let killed = async {
        session.state().wait_for(|it| it.streaming).await.unwrap();
        let loaded = kept.store.load(session.id()).unwrap();
        session.abort();
        loaded
    };
    let (_, loaded) = tokio::join!(session.prompt("go"), killed);
    let (provider, model) = loaded.last_settings().0.unwrap();
    let info = &session.state().borrow().model.clone();
    assert_eq!((provider.as_str(), &model), ("script", info));
    assert_eq!(said(&loaded), ["go"]);
}

#[tokio::test]
async fn a_fork_inherits_entries_by_order_not_by_time() {
    let kept = test_store();
    let (id, entries) = two_prompts(&kept).await;
    // Timestamps do not matter: all entries get the same one, and the last clock runs backwards.
    let file = kept.file();
    let text = std::fs::read_to_string(&file).unwrap();
    let stamp = |line: &str, time: &str| {
        let mut value: Value = serde_json::from_str(line).unwrap();
        value["timestamp"] = json!(time);
        format!("{value}\n")
    };
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.len() - 1;
    let same: String = lines
        .iter()
        .enumerate()
        .map(|(at, line)| stamp(line, if at == last { "2020" } else { "2026" }))
        .collect();
    std::fs::write(&file, same).unwrap();
    let parent = kept.store.load(&id).unwrap();
    let child = kept.store.fork(&parent, Some(&entries[1]), "/elsewhere").unwrap();
    let loaded = kept.store.load(&child).unwrap();
    assert_eq!(said(&loaded), ["first", "one"]);
    assert_eq!(loaded.header.parent_session.as_ref(), Some(&id));
    assert_eq!(
        (loaded.header.branch_point.as_ref(), loaded.header.cwd.as_str()),
        (Some(&entries[1]), "/elsewhere")
    );
    let whole = kept.store.fork(&parent, None, "/p").unwrap();
    assert_eq!(said(&kept.store.load(&whole).unwrap()), ["first", "one", "second", "two"]);
    let grandchild = kept.store.fork(&loaded, Some(&entries[0][..6]), "/p").unwrap();
    assert_eq!(said(&kept.store.load(&grandchild).unwrap()), ["first"]);
    assert!(matches!(kept.store.fork(&parent, Some("nosuch"), "/p"), Err(StoreError::NoEntry { .. })));
    let list = kept.store.list().unwrap();
    assert_eq!(list.iter().filter(|it| it.parent_session.is_some()).count(), 3);
    kept.store.delete(&child).unwrap();
    assert!(matches!(kept.store.load(&child), Err(StoreError::NotFound { .. })));
    assert_eq!(said(&kept.store.load(&id).unwrap()).len(), 4, "the parent stays");
    assert_eq!(said(&kept.store.load(&grandchild).unwrap()), ["first"], "the child's fork stays too");
}

#[tokio::test]
async fn a_session_continues_from_an_older_entry_and_keeps_both() {
    let kept = test_store();
    let (id, entries) = two_prompts(&kept).await;
    let session = kept.session(&[text("other")], Some(&id));
    session.switch_to(&*entries[1]).await.unwrap();
    assert_eq!(session.messages().await.unwrap().len(), 2);
    assert!(session.switch_to("nosuch").await.is_err());
    let outcome = session.prompt("instead").await;
    assert_eq!(outcome.final_text, "other");
    assert!(session.close(DEADLINE).await);
    let mut loaded = kept.store.load(&id).unwrap();
    assert_eq!(said(&loaded), ["first", "one", "instead", "other"]);
    assert_eq!(loaded.tree().iter().map(|line| line.depth).max(), Some(1));
    assert!(loaded.select(&entries[3]));
    assert_eq!(said(&loaded), ["first", "one", "second", "two"], "nothing is lost");
    let mut file = kept.store.reopen(&kept.store.load_locked(&id).unwrap());
    file.append_label(&entries[3], Some("first try")).unwrap();
    file.append_branch(&entries[1], "tried something else").unwrap();
    drop(file);
    let loaded = kept.store.load(&id).unwrap();
    assert_eq!(loaded.labels()[&entries[3]], "first try");
    let now = said(&loaded);
    assert_eq!(now.len(), 3);
    expect![[r#"
        Summary of another branch of the conversation, which was abandoned:

        <summary>
        tried something else
        </summary>"#]]
    .assert_eq(&now[2]);
}

#[tokio::test]
async fn a_second_writer_is_rejected_and_a_changed_file_detected() {
    let kept = test_store();
    let session = kept.session(&[text("one"), text("two")], None);
    session.prompt("go").await;
    let error = kept.store.load_locked(session.id()).unwrap_err();
    assert!(matches!(error, StoreError::InUse { .. }), "{error}");
    assert!(matches!(kept.store.delete(session.id()), Err(StoreError::InUse { .. })));
    // A session loaded without the lock detects the conflict with its first entry.
    let late = kept.session(&[text("late")], Some(session.id()));
    let outcome = late.prompt("me too").await;
    assert_eq!(outcome.reason, TerminationReason::Error);
    assert_eq!(outcome.error.unwrap(), format!("cannot write the session file: {error}"));
    let stale = kept.store.load(session.id()).unwrap();
    session.prompt("on").await;
    assert!(session.close(DEADLINE).await);
    let error = kept.store.reopen(&stale).append_label("x", None).unwrap_err();
    assert!(matches!(error, StoreError::Changed { .. }), "{error}");
    assert_eq!(said(&kept.store.load(session.id()).unwrap()).len(), 4);
}

#[tokio::test]
async fn an_older_version_is_rewritten_when_resumed() {
    let kept = test_store();
    let (id, _) = two_prompts(&kept).await;
    let file = kept.file();
    let old = concat!(
        r#"{"type":"session","id":"ID","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/p"}"#,
        "\n",
        r#"{"type":"message","timestamp":"t","message":{"role":"user","content":"long ago"}}"#,
        "\n"
    );
    std::fs::write(&file, old.replace("ID", &id)).unwrap();
    let session = kept.session(&[text("welcome back")], Some(&id));
    session.prompt("again").await;
    assert!(session.close(DEADLINE).await);
    let loaded = kept.store.load(&id).unwrap();
    assert_eq!(said(&loaded), ["long ago", "again", "welcome back"]);
    assert!(std::fs::read_to_string(&file).unwrap().lines().next().unwrap().contains(r#""version":3"#));
}

#[tokio::test]
async fn a_resumed_session_has_its_summary_and_settings() {
    let kept = test_store();
    let (id, _) = two_prompts(&kept).await;
    let session = kept.session(&[text("sum"), text("more")], Some(&id));
    session.set_thinking_level(Some(llm::ThinkingLevel::Low));
    let limits_keep_20000 = session.compact("").await.unwrap();
    assert!(!limits_keep_20000, "it is short, so nothing is compacted");
    session.prompt("third").await;
    assert!(session.close(DEADLINE).await);
    let mut file = kept.store.reopen(&kept.store.load_locked(&id).unwrap());
    let loaded = kept.store.load(&id).unwrap();
    let third = loaded.entries.iter().rev().find(|it| it.kind == "message").unwrap().id.clone();
    file.append_compaction("all of it", Some(&third), 9, &Value::Null).unwrap();
    drop(file);
    let session = kept.session(&[text("ok")], Some(&id));
    let state = session.state().borrow().clone();
    assert_eq!((state.messages.len(), state.thinking_level), (2, Some(llm::ThinkingLevel::Low)));
    assert_eq!(crate::store::summary_text(&state.messages.to_vec()[0]), "all of it");
}

#[tokio::test]
async fn a_result_takes_a_quarter_of_the_window_and_is_stored_whole() {
    let kept = test_store();
    let large = |name: &str| {
        tool(name, |_, _| {
            Box::pin(async {
                ToolResult::text((0..20_000).map(|at| format!("line {at}\n")).collect::<String>())
            })
        })
    };
    let script = [calls(&[call("a", "large", json!({})), call("b", "large", json!({}))]), text("ok")];
    let script: String = script.iter().map(|line| format!("{line}\n")).collect();
    let tools = Registry::new([Arc::new(large("large")) as Arc<dyn Tool>]).unwrap();
    let compaction = crate::compaction::Limits { window: 40_000, ..crate::compaction::Limits::default() };
    let session = Session::builder(Arc::new(ScriptModel::parse("t", &script).unwrap()), tools)
        .store(kept.store.clone())
        .limits(Limits { compaction, ..Limits::default() })
        .build();
    let outcome = session.prompt("go").await;
    assert_eq!(outcome.final_text, "ok");
    let texts: Vec<String> = outcome.messages[2..4].iter().map(llm::Message::text).collect();
    let tokens = |text: &String| text.len() / 4;
    assert!((9_000..=10_100).contains(&tokens(&texts[0])), "a quarter: {}", tokens(&texts[0]));
    let room = 40_000 - 16_384 - 10_000;
    assert!(tokens(&texts[1]) <= room.min(10_100), "no more than is left: {}", tokens(&texts[1]));
    assert!(texts[0].starts_with("line 0\n") && texts[0].ends_with("line 19999\n"));
    let (_, rest) = texts[0].split_once("the full output is in ").unwrap();
    let path = rest.split(" …]").next().unwrap().to_owned();
    let whole = std::fs::read_to_string(&path).unwrap();
    assert_eq!(whole.lines().count(), 20_000);
    assert!(session.close(DEADLINE).await);
    // A fork has its own copy.
    let fork = kept.store.fork(&kept.store.load(session.id()).unwrap(), None, "/p").unwrap();
    // An empty id, as from an unset variable, or one letter deletes nothing.
    for short in ["", &session.id()[..1], &session.id()[..7]] {
        kept.store.delete(short).unwrap_err();
    }
    assert!(std::path::Path::new(&path).exists());
    kept.store.delete(session.id()).unwrap();
    assert!(!std::path::Path::new(&path).exists(), "it goes with its session");
    for text in said(&kept.store.load(&fork).unwrap()).iter().filter(|it| it.starts_with("line 0")) {
        let (_, rest) = text.split_once("the full output is in ").unwrap();
        let own = rest.split(" …]").next().unwrap();
        assert!(own.contains(&fork), "{own}");
        assert_eq!(std::fs::read_to_string(own).unwrap(), whole);
    }
    kept.store.delete(&fork).unwrap();
    assert_eq!(std::fs::read_dir(kept.path.join("outputs")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_batch_takes_at_most_the_remaining_room() {
    let some = tool("some", |_, _| Box::pin(async { ToolResult::text("some words ".repeat(145)) }));
    let picture = tool("picture", |_, _| {
        Box::pin(async {
            let image = Content::Image { data: "AAAA".to_owned(), mime_type: "image/png".to_owned() };
            ToolResult { content: vec![Content::text("here"), image], ..ToolResult::text("") }
        })
    });
    let tiny = tool("tiny", |_, _| Box::pin(async { ToolResult::text("ok") }));
    let tools = Registry::new([some, picture, tiny].map(|it| Arc::new(it) as Arc<dyn Tool>)).unwrap();
    for name in ["some", "picture", "tiny"] {
        let kept = test_store();
        let many: Vec<Value> = (0..40).map(|at| call(&format!("c{at}"), name, json!({}))).collect();
        let script = [calls(&many), text("ok")].map(|it| format!("{it}\n")).concat();
        // The context has room for 9,000 tokens before the compaction.
        let compaction = crate::compaction::Limits { window: 12_000, ..crate::compaction::Limits::default() };
        let session = Session::builder(Arc::new(ScriptModel::parse("t", &script).unwrap()), tools.clone())
            .store(kept.store.clone())
            .limits(Limits { compaction, ..Limits::default() })
            .build();
        let outcome = session.prompt("go").await;
        let results: Vec<&Message> =
            outcome.messages.iter().filter(|it| matches!(it, Message::ToolResult(_))).collect();
        assert_eq!(results.len(), 40);
        let tokens: u64 = results.iter().map(|it| crate::transcript::estimate(it, "script")).sum();
        // The notes that name the files fit into the reserve.
        assert!(tokens < 9_000 + 40 * 60, "{name}: {tokens} tokens");
        let whole = |it: &&&Message| match name {
            "some" => it.text().len() == 145 * 11,
            "picture" => it.content().iter().any(|block| matches!(block, Content::Image { .. })),
            _ => it.text() == "ok",
        };
        let whole = results.iter().filter(whole).count();
        let expected = match name {
            "some" => 15..=23,
            "picture" => 4..=7,
            _ => 40..=40,
        };
        assert!(expected.contains(&whole), "{name}: {whole} are whole");
        let last = results[39].text();
        assert!(name == "tiny" || last.contains("omitted"), "{last}");
        assert!(session.close(DEADLINE).await);
    }
}

#[tokio::test]
async fn the_model_summarizes_an_abandoned_branch() {
    let kept = test_store();
    let (id, entries) = two_prompts(&kept).await;
    let script = [
        json!({"expect": {"last_contains": ["second", "mind the names"], "last_lacks": ["first"]}, "text": "## Goal\nA second thing."}),
        json!({"expect": {"last_contains": ["go on"]}, "text": "ok"}),
        json!({"wait_for_cancel": true}),
        json!({"error": "it broke"}),
        text("end"),
    ];
    let session = kept.session(&script, Some(&id));
    session.switch_with_summary(&*entries[1], "mind the names").await.unwrap();
    let messages = session.messages().await.unwrap();
    assert_eq!(messages.len(), 3);
    expect![[r#"
        Summary of another branch of the conversation, which was abandoned:

        <summary>
        ## Goal
        A second thing.
        </summary>"#]]
    .assert_eq(&messages[2].text());
    assert_eq!(session.prompt("go on").await.final_text, "ok");
    // A cancelled switch changes nothing; an abort counts once the model is asked.
    let abort = async {
        loop {
            session.abort();
            tokio::task::yield_now().await;
        }
    };
    let cancelled = tokio::select! {
        switched = session.switch_with_summary(&*entries[3], "") => switched,
        () = abort => unreachable!(),
    };
    assert!(matches!(cancelled, Err(crate::SessionError::Cancelled)), "{cancelled:?}");
    assert_eq!(session.messages().await.unwrap().len(), 5);
    // If the model fails, an extract replaces the summary.
    session.switch_with_summary(&*entries[3], "").await.unwrap();
    let messages = session.messages().await.unwrap();
    let texts: Vec<String> = messages.iter().map(Message::text).collect();
    assert_eq!(texts[..4], ["first", "one", "second", "two"]);
    assert!(
        texts.len() == 5 && texts[4].contains("go on") && !texts[4].contains("second thing"),
        "{texts:?}"
    );
    assert!(session.switch_with_summary("nosuch", "").await.is_err());
    assert_eq!(session.prompt("on").await.final_text, "end");
    assert!(session.close(DEADLINE).await);
    assert_eq!(said(&kept.store.load(&id).unwrap()).len(), 7, "the file says the same");
}

/// A tool with a long result, which records the results that it should forget.
struct LongTool(TestTool, Mutex<Vec<String>>);

impl Tool for LongTool {
    fn definition(&self) -> &llm::ToolDefinition {
        self.0.definition()
    }
    fn effects(&self, args: &Value) -> policy::Effects {
        self.0.effects(args)
    }
    fn forget(&self, result: &str) {
        self.1.lock().push(result.lines().next().unwrap_or_default().to_owned());
    }
    fn execute<'a>(
        &'a self,
        args: Value,
        cx: &'a crate::ToolCx,
    ) -> futures_util::future::BoxFuture<'a, ToolResult> {
        self.0.execute(args, cx)
    }
}

#[tokio::test]
async fn another_model_gets_old_results_as_one_line() {
    let kept = test_store();
    let long = tool("read", |args, _| {
        let text = format!("[{}#3F2A]\n{}", args["text"].as_str().unwrap(), "1kq:words\n".repeat(160));
        Box::pin(async { ToolResult::text(text) })
    });
    let tool = Arc::new(LongTool(long, Mutex::default()));
    let read = |path: &str| calls(&[call(path, "read", json!({ "text": path }))]);
    let model = |name: &str, script: &[Value]| {
        let script: String = script.iter().map(|line| format!("{line}\n")).collect();
        Arc::new(ScriptModel::parse(name, &script).unwrap())
    };
    let first = model("first", &[read("a.rs"), read("b.rs"), text("done")]);
    let second = model("second", &[text("other")]);
    let compaction =
        crate::compaction::Limits { window: 2_000, reserve: 500, keep: 400, ..Default::default() };
    let (tools, _) = Pipeline::base([tool.clone() as Arc<dyn Tool>]).build().unwrap();
    let session = Session::builder(first.clone(), tools)
        .store(kept.store.clone())
        .limits(Limits { compaction, ..Limits::default() })
        .build();
    session.prompt("go").await;
    session.set_model(second.clone());
    session.prompt("on").await;
    assert!(session.close(DEADLINE).await);
    let results = |messages: &[Message]| {
        let results = messages.iter().filter(|it| matches!(it, Message::ToolResult(_)));
        results.map(|it| it.text().lines().next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let removed = "[removed to save room: 161 lines from `read`, beginning with `[a.rs#3F2A]`; \
                   call the tool again if you need it]";
    assert_eq!(results(&first.requests()[2].messages), ["[a.rs#3F2A]", "[b.rs#3F2A]"]);
    assert_eq!(results(&second.requests()[0].messages), [removed, "[b.rs#3F2A]"]);
    assert_eq!(*tool.1.lock(), ["[a.rs#3F2A]"]);
    let loaded = kept.store.load(session.id()).unwrap();
    assert_eq!(results(&loaded.context()), [removed, "[b.rs#3F2A]"]);
    assert!(loaded.text().contains("[a.rs#3F2A]\\n1kq:words"), "the file keeps everything");
}
