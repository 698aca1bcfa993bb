//! Retries, overflows, compaction and timeouts.

use expect_test::expect;
use llm::protocol::openai_completions;
use llm::{Endpoint, Message, ModelInfo, RemoteModel};
use paths::{AbsPath, StateDir};
use serde_json::json;
use testing::model::{ModelServer, Reply};

use super::*;
use crate::compaction::Limits as CompactionLimits;
use crate::store::SessionStore;
use crate::{Retries, TerminationReason};

fn broken(kind: &str) -> Value {
    json!({"text": "half", "error": "it broke", "error_kind": kind})
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_failed_while_streaming_is_retried() {
    let expecting = json!({"expect": {"messages": 1, "last_role": "user"}, "text": "ok"});
    let (outcome, running) = setup(&[broken("network"), broken("unavailable"), expecting]).run().await;
    assert_eq!((outcome.reason, outcome.turns), (TerminationReason::NoToolCalls, 3));
    let shown = running.shown();
    let kept: Vec<&String> =
        shown.iter().filter(|it| it.contains("retry") || it.contains("turn_end")).collect();
    let expected = [
        "turn_end 1 results=0 continue=true",
        "retry 1 1000",
        "turn_end 2 results=0 continue=true",
        "retry 2 2000",
        "retry_end 2 true",
        "turn_end 3 results=0 continue=false",
    ];
    assert_eq!(kept, expected);
    let starts = shown.iter().filter(|it| *it == "agent_start").count();
    assert_eq!(starts, 1, "a retry is a turn of the same run");
}

#[tokio::test(start_paused = true)]
async fn a_failed_response_is_stored_but_not_in_the_context() {
    let directory = tempfile::tempdir().unwrap();
    let path = AbsPath::new(directory.path().canonicalize().unwrap().join("s")).unwrap();
    let store = SessionStore::new(StateDir::new(path.clone()));
    let script = [broken("network"), text("ok")].map(|it| format!("{it}\n")).concat();
    let model = Arc::new(ScriptModel::parse("t", &script).unwrap());
    let session = Session::builder(model, Registry::default()).store(store.clone()).build();
    assert_eq!(session.prompt("go").await.final_text, "ok");
    assert!(session.close(DEADLINE).await);
    let loaded = store.load(session.id()).unwrap();
    let said: Vec<String> = loaded.context().iter().map(Message::text).collect();
    assert_eq!(said, ["go", "ok"]);
    let text = paths::StateDir::new(path).read(&loaded.file).unwrap().unwrap();
    let lines = String::from_utf8(text).unwrap();
    let lines: Vec<Value> = lines.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let failed = lines.iter().find(|it| it["message"]["stopReason"] == "error").expect("it stays");
    let edit = lines.iter().find(|it| it["type"] == "context_edit").expect("it is left out");
    assert_eq!((&edit["targetId"], &edit["replacement"]), (&failed["id"], &Value::Null), "{lines:#?}");
}

/// Sets another model while the first one's answer fails.
struct Choosing(Mutex<Option<(Session, Arc<ScriptModel>)>>);

impl crate::Hooks for Choosing {
    fn finish_turn<'a>(
        &'a self,
        _: crate::hooks::TurnReport<'a>,
    ) -> BoxFuture<'a, crate::hooks::TurnDecision> {
        if let Some((session, model)) = self.0.lock().take() {
            session.set_model(model);
        }
        Box::pin(async { crate::hooks::TurnDecision::LoopDecides })
    }
}

#[tokio::test]
async fn an_overflow_of_a_replaced_model_does_not_compact() {
    let hooks = Arc::new(Choosing(Mutex::default()));
    let script = [text("1"), broken("context_overflow")].map(|it| format!("{it}\n")).concat();
    let first = Arc::new(ScriptModel::parse("first", &script).unwrap());
    let other = Arc::new(ScriptModel::parse("other", "{\"text\": \"ok\"}").unwrap());
    let events = Arc::new(Recorder::default());
    let session = Session::builder(first.clone(), Registry::default())
        .sink(events.clone())
        .limits(Limits {
            compaction: CompactionLimits { keep: 1, ..CompactionLimits::default() },
            ..Limits::default()
        })
        .hooks(hooks.clone())
        .build();
    session.prompt("one").await;
    *hooks.0.lock() = Some((session.clone(), other.clone()));
    assert_eq!(session.prompt("two").await.final_text, "ok");
    assert_eq!((first.unused(), other.unused()), (0, 0));
    let shown = events.shown();
    assert!(!shown.iter().any(|it| it.starts_with("compaction")), "{shown:?}");
}

#[tokio::test]
async fn settled_is_sent_when_idle_and_after_a_compaction() {
    let waiting = json!({"wait_for_cancel": true});
    let running = setup(&[text("1"), waiting, text("a summary"), text("2")]).limits(keeping(1)).start();
    running.prompt(&long("one")).await;
    let steer_then_compact = async {
        let mut state = running.session.state();
        state.wait_for(|it| it.streaming && it.messages.len() == 3).await.unwrap();
        running.session.steer(Message::user("later")).await;
        tokio::join!(running.session.compact(""), running.prompt("three"))
    };
    let (_, (compacted, _)) = tokio::join!(running.prompt("two"), steer_then_compact);
    assert!(compacted.unwrap());
    running.session.close(DEADLINE).await;
    let expected = [
        "agent_end NoToolCalls",
        "settled aborted=false",
        "agent_end Aborted",
        "compaction_end",
        "agent_end NoToolCalls",
        "settled aborted=false",
    ];
    let mut ended = running.events.shown();
    ended.iter_mut().filter(|it| it.starts_with("compaction_end")).for_each(|it| it.truncate(14));
    ended.retain(|it| ["settled", "agent_end", "compaction_end"].iter().any(|kind| it.starts_with(kind)));
    assert_eq!(ended, expected, "not between what was asked for");
}

#[tokio::test(start_paused = true)]
async fn a_run_gives_up_after_five_retries_and_settles_once() {
    let script: Vec<Value> = (0..6).map(|_| broken("rate_limit")).collect();
    let before = tokio::time::Instant::now();
    let (outcome, running) = setup(&script).run().await;
    assert_eq!((outcome.reason, outcome.turns), (TerminationReason::Error, 6));
    let waited = before.elapsed().as_secs_f64() / f64::from(1 + 2 + 4 + 8 + 16);
    assert!((0.75..=1.01).contains(&waited), "{waited}");
    running.events.wait_for("settled aborted=false").await;
    let shown = running.events.shown();
    assert_eq!(shown[shown.len() - 3..], ["retry_end 5 false", "agent_end Error", "settled aborted=false"]);
    assert_eq!(shown.iter().filter(|it| it.starts_with("settled")).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_ends_the_wait_before_a_retry() {
    let running = setup(&[broken("network"), text("not asked")]).start();
    let abort = async {
        running.events.wait_for("retry 1 1000").await;
        running.session.abort();
    };
    let (outcome, ()) = tokio::join!(running.prompt("go"), abort);
    assert_eq!((outcome.reason, running.model.unused()), (TerminationReason::Aborted, 1));
}

#[tokio::test]
async fn a_retried_request_reports_its_end() {
    let refused = Reply::status(503).header("retry-after-ms", "1").body("busy");
    let taken = [refused.clone(), Reply::text("hello")];
    for (replies, success) in [(taken.to_vec(), true), (vec![refused; 6], false)] {
        let server = ModelServer::start(replies).await.unwrap();
        let endpoint = Endpoint::new("local", &server.base_url(), "m");
        let model = RemoteModel::new(Arc::new(openai_completions::PROTOCOL), endpoint);
        let events = Arc::new(Recorder::default());
        let session = Session::builder(Arc::new(model), Registry::default()).sink(events.clone()).build();
        session.prompt("go").await;
        let shown = events.shown();
        let last = if success { "retry_end 1 true" } else { "retry_end 5 false" };
        let ends: Vec<&String> = shown.iter().filter(|it| it.starts_with("retry_end")).collect();
        assert_eq!(ends, [last], "{shown:?}");
        let at = |line: &str| shown.iter().position(|it| it.starts_with(line)).unwrap();
        assert!(at("retry ") < at("retry_end") && at("retry_end") < at("start Assistant"), "{shown:?}");
        assert_eq!(server.unused(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_delay_switches_to_the_next_model() {
    let next = Arc::new(ScriptModel::parse("next", "{\"text\": \"from the next\"}").unwrap());
    let script: String = (0..4).map(|_| format!("{}\n", broken("network"))).collect();
    let first = Arc::new(ScriptModel::parse("first", &script).unwrap());
    let session = Session::builder(first.clone(), Registry::default()).fallbacks([next as _]).build();
    let before = tokio::time::Instant::now();
    let outcome = session.prompt("go").await;
    assert_eq!((outcome.final_text.as_str(), first.unused()), ("from the next", 0));
    let waited = before.elapsed().as_secs_f64() / f64::from(1 + 2 + 4);
    assert!((0.75..=1.01).contains(&waited), "not the 8 s of the fourth attempt: {waited}");
    assert_eq!(session.state().borrow().model, "next");
}

#[tokio::test(start_paused = true)]
async fn the_total_timeout_ends_a_run_after_48_hours() {
    let running = setup(&[json!({"text": "…", "wait_for_cancel": true})]).start();
    let before = tokio::time::Instant::now();
    let outcome = running.session.prompt("go").await;
    assert_eq!(outcome.reason, TerminationReason::TimeoutTotal);
    let hours = before.elapsed().as_secs_f64() / 3600.0;
    assert!((48.0..48.01).contains(&hours), "{hours}");
}

#[tokio::test(start_paused = true)]
async fn a_model_that_stays_silent_ends_the_run_by_its_idle_timeout() {
    let script: Vec<Value> = (0..6).map(|_| broken("timeout")).collect();
    let (outcome, _) = setup(&script).run().await;
    assert_eq!((outcome.reason, outcome.turns), (TerminationReason::TimeoutIdle, 6));
}

fn keeping(keep: u64) -> Limits {
    let compaction = CompactionLimits { window: 2_000, reserve: 500, keep, ..CompactionLimits::default() };
    Limits { compaction, ..Limits::default() }
}

/// Builds a text of about 500 tokens.
fn long(word: &str) -> String {
    format!("{word} {}", "x".repeat(2_000))
}

#[tokio::test]
async fn the_context_is_compacted_before_it_is_too_large() {
    let summarized = json!({"expect": {"system_contains": ["You summarize a conversation"], "last_contains": ["[User]: one"]},
                            "text": "what was done"});
    let last = json!({"expect": {"messages": 4, "tools": []}, "text": "ok"});
    let script = [text("1"), text("2"), text("3"), summarized, last];
    let running = setup(&script).limits(keeping(100)).start();
    for word in ["one", "two", "three"] {
        running.prompt(&long(word)).await;
    }
    let outcome = running.prompt("four").await;
    assert_eq!((outcome.final_text.as_str(), running.model.unused()), ("ok", 0), "{outcome:?}");
    let shown = running.shown();
    let at = |line: &str| shown.iter().position(|it| it == line).unwrap_or_else(|| panic!("{shown:?}"));
    let made = at("compaction_end 2 made");
    assert!(at("compaction_start threshold") < made);
    assert!(shown[made + 1..].contains(&"turn_start 1".to_owned()), "before the turn");
    let messages = running.session.messages().await.unwrap();
    let summary = crate::store::summary_text(&messages[0]);
    let (by_model, said) = crate::compaction::kept::without(&summary);
    assert_eq!(by_model, "what was done");
    let said: Vec<&str> = said.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!((said.len(), &said[1][..6], said[2]), (3, "> one ", "(1 message left out)"));
    assert_eq!(messages.len(), 5);
    let state = running.session.state().borrow().clone();
    assert_eq!(state.messages.to_vec(), messages, "the state follows");
    assert!(!state.compacting);
}

#[tokio::test]
async fn a_summary_omits_failed_answers() {
    let refused = json!({"text": "I refuse", "error": "unknown request", "error_kind": "provider"});
    let summarized =
        json!({"expect": {"last_contains": ["[User]: one"], "last_lacks": ["refuse"]}, "text": "done"});
    let running = setup(&[refused, text("2"), text("3"), summarized, text("4")]).limits(keeping(100)).start();
    for word in ["one", "two", "three", "four"] {
        running.prompt(&long(word)).await;
    }
    assert_eq!(running.model.unused(), 0, "{:?}", running.shown());
}

#[tokio::test]
async fn the_summarizer_compacts_and_the_own_model_replaces_it() {
    let of = |name: &str, script: &[Value]| {
        let script: String = script.iter().map(|line| format!("{line}\n")).collect();
        Arc::new(llm::ScriptModel::parse(name, &script).unwrap())
    };
    let own = [text("1"), text("2"), text("3")];
    for (small, more, expected) in [
        (text("in few words"), vec![text("ok")], "in few words"),
        (
            json!({"text": "half", "error": "it broke", "error_kind": "provider"}),
            vec![text("own words"), text("ok")],
            "own words",
        ),
    ] {
        let (model, small) = (of("own", &[own.as_slice(), &more].concat()), of("small", &[small]));
        let events = Arc::new(Recorder::default());
        let session = Session::builder(model.clone(), Registry::default())
            .summarizer(Some(small.clone()))
            .sink(events.clone())
            .limits(keeping(100))
            .build();
        for word in ["one", "two", "three"] {
            session.prompt(&*long(word)).await;
        }
        let outcome = session.prompt("four").await;
        assert_eq!(
            (outcome.final_text.as_str(), model.unused(), small.unused()),
            ("ok", 0, 0),
            "{outcome:?}"
        );
        let asked = small.requests();
        assert_eq!(asked.len(), 1);
        assert_eq!(asked[0].system, crate::compaction::summary::INSTRUCTIONS.trim());
        let messages = session.messages().await.unwrap();
        let summary = crate::store::summary_text(&messages[0]);
        assert_eq!(crate::compaction::kept::without(&summary).0, expected);
    }
}

#[test]
fn less_is_reserved_and_kept_in_a_small_window() {
    let usual = crate::compaction::Limits::default();
    assert_eq!(usual.within(128_000), usual);
    for window in [8_000, 16_000, 32_000, 64_000] {
        let limits = usual.within(window);
        assert!(limits.reserve >= window / 5 && limits.keep >= window / 8, "{limits:?}");
        // Instructions, summary and kept messages leave room to continue.
        let after = 3_000 + window / 8 + limits.keep;
        assert!(after + window / 40 < limits.threshold(), "{window}: {after} of {}", limits.threshold());
    }
}

/// Checks that every request fits, and that each summary has the previous one once.
#[tokio::test]
async fn small_windows_are_compacted_again_and_again() {
    for window in [8_000, 16_000, 32_000] {
        // A prompt and its answer use about a twentieth of the window.
        let prompts = 60;
        let words = "word ".repeat(usize::try_from(window).unwrap() / 25 / 2);
        let script: String =
            (0..prompts).map(|at| format!("{}\n", text(&format!("answer {at} {words}")))).collect();
        let model = Arc::new(Rules(ScriptModel::parse("t", &script).unwrap()));
        let compaction = CompactionLimits { window, ..CompactionLimits::default() };
        let session = Session::builder(model.clone(), Registry::default())
            .system("i".repeat(12_000))
            .limits(Limits { compaction, ..Limits::default() })
            .build();
        let mut made = 0;
        for at in 0..prompts {
            let outcome = session.prompt(format!("prompt {at} {words}")).await;
            assert_eq!(outcome.reason, TerminationReason::NoToolCalls);
            let messages = session.messages().await.unwrap();
            let tokens: u64 = messages.iter().map(|it| crate::transcript::estimate(it, "script")).sum();
            assert!(tokens + 3_000 < window, "{tokens} tokens in a window of {window}");
            let summary = messages[0].text();
            if summary.contains("<summary>") {
                made += 1;
                assert_eq!(summary.matches("## Goal").count(), 1, "{summary}");
                let goal = summary.split("## Goal\n").nth(1).unwrap();
                assert!(goal.starts_with(&format!("- prompt 0 {}", &words[..20])), "it stays: {summary}");
                assert!(summary.len() < usize::try_from(window / 2).unwrap(), "{}", summary.len());
            }
        }
        assert!(made > 10 && session.messages().await.unwrap().len() > 2, "{made}");
    }
}

#[tokio::test]
async fn an_overflow_below_the_estimate_is_compacted() {
    let overflow = json!({"error": "prompt is too long", "error_kind": "context_overflow"});
    let script = [text("1"), text("2"), overflow, text("a summary"), text("ok")];
    let compaction = CompactionLimits { window: 16_000, ..CompactionLimits::default() };
    let running = setup(&script).limits(Limits { compaction, ..Limits::default() }).start();
    running.prompt(&long("one")).await;
    running.prompt(&long("two")).await;
    let outcome = running.prompt(&long("three")).await;
    assert_eq!((outcome.final_text.as_str(), running.model.unused()), ("ok", 0), "{outcome:?}");
}

/// Returns a new key for each request.
#[derive(Default)]
struct Keys(AtomicUsize);

impl crate::Hooks for Arc<Keys> {
    fn get_api_key<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Option<llm::ApiKey>> {
        let count = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        Box::pin(async move { llm::ApiKey::new(&format!("key-{count}")) })
    }
}

#[tokio::test(start_paused = true)]
async fn a_summary_request_is_retried_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let path = AbsPath::new(directory.path().canonicalize().unwrap()).unwrap();
    let store = SessionStore::new(StateDir::new(path));
    let summarized = json!({"text": "what was done", "usage": {"input": 10, "output": 5}});
    let last = json!({"text": "ok", "usage": {"input": 3, "output": 4}});
    let script = [text("1"), text("2"), text("3"), broken("network"), summarized, last];
    let script: String = script.iter().map(|line| format!("{line}\n")).collect();
    let model = Arc::new(ScriptModel::parse("test", &script).unwrap());
    let events = Arc::new(Recorder::default());
    let session = Session::builder(model.clone(), Registry::default())
        .sink(events.clone())
        .limits(keeping(100))
        .hooks(Arc::new(Arc::new(Keys::default())))
        .store(store.clone())
        .build();
    for word in ["one", "two", "three"] {
        session.prompt(&*long(word)).await;
    }
    let outcome = session.prompt("four").await;
    assert_eq!((outcome.final_text.as_str(), outcome.usage.total_tokens), ("ok", 22), "{outcome:?}");
    let shown = events.shown();
    assert!(shown.contains(&"retry 1 1000".to_owned()) && shown.contains(&"retry_end 1 true".to_owned()));
    let requests = model.requests();
    let (keys, id) = (requests.iter().map(|it| it.api_key.clone()), session.id());
    let expected: Vec<Option<llm::ApiKey>> =
        (1..=6).map(|at| llm::ApiKey::new(&format!("key-{at}"))).collect();
    assert_eq!(keys.collect::<Vec<_>>(), expected);
    assert!(requests.iter().all(|it| it.session_id == id && it.observer.is_some()));
    assert!(session.close(DEADLINE).await);
    let loaded = store.load(id).unwrap();
    let entry = loaded.entries.iter().find(|entry| entry.kind == "usage").unwrap();
    let entry: Value = serde_json::from_str(loaded.line(entry)).unwrap();
    assert_eq!((&entry["kind"], &entry["usage"]["totalTokens"]), (&json!("compaction"), &json!(15)));
}

#[tokio::test]
async fn a_refused_image_is_removed_and_the_run_goes_on() {
    let refused = json!({"error": "400: Could not process image", "error_kind": "provider"});
    let image = || ("AAAA".to_owned(), "image/png".to_owned());
    let running = setup(&[refused.clone(), text("ok"), text("later")]).start();
    let outcome = running.session.prompt(crate::Prompt::with_images("see", [image()])).await;
    assert_eq!((outcome.final_text.as_str(), outcome.error), ("ok", None));
    running.prompt("two").await;
    let has_image = |request: &llm::Request| {
        let mut blocks = request.messages.iter().flat_map(Message::content);
        blocks.any(|block| matches!(block, llm::Content::Image { .. }))
    };
    assert_eq!(running.model.requests().iter().map(has_image).collect::<Vec<_>>(), [true, false, false]);

    // Without an image there is nothing to remove.
    let running = setup(&[refused, text("not asked")]).start();
    let outcome = running.prompt("see").await;
    assert_eq!((outcome.reason, running.model.unused()), (TerminationReason::Error, 1));
}

#[tokio::test]
async fn an_overflow_is_compacted_and_retried_once() {
    let overflow = json!({"error": "prompt is too long", "error_kind": "context_overflow"});
    let limits = keeping(1);
    let script = [text("1"), overflow.clone(), text("a summary"), text("ok")];
    let running = setup(&script).limits(limits).start();
    running.prompt(&long("one")).await;
    let outcome = running.prompt("two").await;
    assert_eq!((outcome.final_text.as_str(), running.model.unused()), ("ok", 0));
    assert!(running.shown().contains(&"compaction_start overflow".to_owned()));
    assert!(!running.shown().iter().any(|it| it.starts_with("retry")), "it is no transient failure");

    let script = [text("1"), overflow.clone(), text("a summary"), overflow.clone(), text("not asked")];
    let running = setup(&script).limits(limits).start();
    running.prompt(&long("one")).await;
    let outcome = running.prompt("two").await;
    assert_eq!((outcome.reason, running.model.unused()), (TerminationReason::Error, 1));
    assert_eq!(outcome.error.as_deref(), Some("prompt is too long"));

    let (outcome, _) = setup(&[overflow]).run().await;
    assert_eq!(outcome.reason, TerminationReason::Error, "there is nothing to leave out");
}

/// A model with this window.
struct Windowed(Arc<ScriptModel>, llm::ModelInfo);

impl llm::Model for Windowed {
    fn info(&self) -> &llm::ModelInfo {
        &self.1
    }
    fn stream(
        &self,
        request: llm::Request,
        cancel: tokio_util::sync::CancellationToken,
    ) -> llm::MessageStream {
        self.0.stream(request, cancel)
    }
}

#[tokio::test]
async fn an_overflow_detected_by_counts_is_compacted() {
    let full = json!({"text": "", "stop_reason": "length", "usage": {"input": 9990, "output": 0}});
    let cut = json!({"text": "said", "usage": {"input": 10_050, "output": 5}});
    let start = |script: &[Value], automatic| {
        let script: String = script.iter().map(|line| format!("{line}\n")).collect();
        let model = Arc::new(ScriptModel::parse("test", &script).unwrap());
        let info = llm::ModelInfo { context_window: Some(10_000), ..llm::Model::info(&*model).clone() };
        let events = Arc::new(Recorder::default());
        let compaction = CompactionLimits { automatic, keep: 1, ..CompactionLimits::default() };
        let session = Session::builder(Arc::new(Windowed(model.clone(), info)), Registry::default())
            .sink(events.clone())
            .limits(Limits { compaction, ..Limits::default() })
            .build();
        (session, model, events)
    };
    for automatic in [true, false] {
        let script = [text("1"), full.clone(), text("a summary"), text("ok")];
        let (session, model, events) = start(&script, automatic);
        session.prompt(&*long("one")).await;
        let outcome = session.prompt("two").await;
        assert_eq!((outcome.final_text.as_str(), model.unused()), ("ok", 0), "{outcome:?}");
        assert!(events.shown().contains(&"compaction_start overflow".to_owned()));

        // If compaction did not help, the run fails instead of looping.
        let script = [text("1"), full.clone(), text("a summary"), full.clone(), text("not asked")];
        let (session, model, _) = start(&script, automatic);
        session.prompt(&*long("one")).await;
        let outcome = session.prompt("two").await;
        assert_eq!((outcome.reason, model.unused()), (TerminationReason::Error, 1));
        expect!["the context fills the model's window, which leaves no room for an answer"]
            .assert_eq(&outcome.error.unwrap());

        // The answer stays; the next turn compacts.
        let script = [text("1"), cut.clone(), text("a summary"), text("ok")];
        let (session, model, events) = start(&script, automatic);
        session.prompt(&*long("one")).await;
        assert_eq!(session.prompt("two").await.final_text, "said");
        assert_eq!(session.prompt("three").await.final_text, "ok");
        assert_eq!(model.unused(), 0);
        let made = events.shown().iter().filter(|it| it.starts_with("compaction_start")).count();
        assert_eq!(made, 1, "{automatic}");

        // No second compaction follows if the user compacted before the next turn.
        let script = [text("1"), cut.clone(), text("a summary"), text("ok")];
        let (session, model, events) = start(&script, automatic);
        session.prompt(&*long("one")).await;
        session.prompt("two").await;
        assert!(session.compact("").await.unwrap());
        assert_eq!(session.prompt("three").await.final_text, "ok");
        assert_eq!(model.unused(), 0);
        let made = events.shown().iter().filter(|it| it.starts_with("compaction_start")).count();
        assert_eq!(made, 1, "{automatic}, asked for");
    }
}

#[tokio::test]
async fn sizes_reported_before_a_compaction_are_not_sent() {
    let sized = json!({"text": "2", "usage": {"input": 900, "output": 5}});
    let overflow = json!({"error": "prompt is too long", "error_kind": "context_overflow"});
    let script = [text("1"), sized, overflow, text("a summary"), text("ok")];
    let running = setup(&script).limits(keeping(8)).start();
    running.prompt(&long("one")).await;
    running.prompt("two, in as many words as are kept with it").await;
    let outcome = running.prompt("three").await;
    assert_eq!(outcome.final_text, "ok", "{outcome:?}");
    let requests = running.model.requests();
    let sent = requests.iter().map(|request| {
        let sizes = request.messages.iter().filter_map(|it| match it {
            Message::Assistant(answer) if it.text() == "2" => Some(answer.usage.total_tokens),
            _ => None,
        });
        sizes.collect::<Vec<_>>()
    });
    let sent: Vec<_> = sent.filter(|sizes| !sizes.is_empty()).collect();
    assert_eq!((sent.first(), sent.last()), (Some(&vec![905]), Some(&vec![0])), "{sent:?}");
}

#[tokio::test]
async fn concurrent_compactions_make_one_and_cancel_the_run() {
    let waiting = json!({"wait_for_cancel": true});
    let script = [text("1"), text("2"), waiting, text("a summary"), text("ok")];
    let running = setup(&script).limits(keeping(1)).start();
    running.prompt(&long("one")).await;
    running.prompt("two").await;
    let prompt = running.prompt("three");
    let compact = async {
        running.events.wait_for("turn_start 1").await;
        let state = running.session.state();
        let mut state = state;
        state.wait_for(|it| it.streaming && it.messages.len() == 5).await.unwrap();
        tokio::join!(running.session.compact(""), running.session.compact("briefly"))
    };
    let (outcome, (first, second)) = tokio::join!(prompt, compact);
    assert_eq!(outcome.reason, TerminationReason::Aborted);
    assert_eq!((first.unwrap(), second.unwrap()), (true, false));
    let made = running.shown().iter().filter(|it| it.starts_with("compaction_end")).count();
    assert_eq!(made, 1);
    assert_eq!(running.prompt("on").await.final_text, "ok");
}

/// Answers from the script, and cannot summarize.
struct Rules(ScriptModel);

impl llm::Model for Rules {
    fn info(&self) -> &ModelInfo {
        self.0.info()
    }
    fn stream(
        &self,
        request: llm::Request,
        cancel: tokio_util::sync::CancellationToken,
    ) -> llm::MessageStream {
        self.0.stream(request, cancel)
    }
    fn can_summarize(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn without_a_model_summary_an_extract_is_used() {
    let script = [text("1"), text("ok")].map(|it| format!("{it}\n")).concat();
    let model = Rules(ScriptModel::parse("t", &script).unwrap());
    let session = Session::builder(Arc::new(model), Registry::default()).limits(keeping(1)).build();
    session.prompt(long("rename it").as_str()).await;
    assert!(session.compact("").await.unwrap() || session.messages().await.unwrap().len() == 2);
    session.append(Message::user("next")).await.unwrap();
    let failing = setup(&[text("1"), text("2"), json!({"error": "down"})]).limits(keeping(1)).start();
    failing.prompt(&long("rename it")).await;
    failing.prompt("and this").await;
    assert!(failing.session.compact("").await.unwrap());
    let summary = failing.session.messages().await.unwrap()[0].text();
    assert!(summary.contains("## Goal") && summary.contains("- rename"), "{summary}");
    assert!(failing.shown().contains(&"notice".to_owned()), "it says that it is an extract");
}

#[test]
fn default_limits_are_as_documented() {
    let limits = crate::compaction::Limits::default();
    assert_eq!((limits.window, limits.reserve, limits.keep), (128_000, 16_384, 20_000));
    let retries = Retries::default();
    assert_eq!((retries.max, retries.delay.as_secs(), retries.max_delay.as_secs()), (5, 1, 60));
}
