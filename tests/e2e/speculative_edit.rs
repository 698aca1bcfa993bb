//! Speculative edits (`edit.verify = "before"`), questions, and typing meanwhile.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testing::language_server::Documents;
use tests::editor::uri;
use tests::{Editor, Sandbox, Scripted, wait_for};

const A: &str = "def greet(): ...\n\ngreet()\n";
const B: &str = "from a import greet\ngreet()\n";
const LONG: Duration = Duration::from_secs(60);
const PULL: &str = "textDocument/diagnostic";

/// A server that renames `greet` in both files, with these diagnostics turns.
fn renaming(policy: &str, turns: Value) -> (Sandbox, Scripted) {
    let mut sandbox = Sandbox::with(&[("a.py", A), ("b.py", B), ("c.py", "x = 1\n")]);
    let edit = |line: usize, start: usize| {
        json!({"range": {"start": {"line": line, "character": start}, "end": {"line": line, "character": start + 5}},
            "newText": "${params.newName}"})
    };
    let by_uri = json!({ uri(&sandbox, "a.py"): [edit(0, 4), edit(2, 0)], uri(&sandbox, "b.py"): [edit(0, 14), edit(1, 0)] });
    let script = json!({"methods": {
        "textDocument/rename": [[{"result": {"changes": by_uri}}]],
        "textDocument/diagnostic": turns,
    }});
    let scripted = Scripted::install(&mut sandbox, &[script]);
    sandbox.variables.insert("PILCROW_EDIT_VERIFY".to_owned(), "before".to_owned());
    sandbox.variables.insert("PILCROW_EDIT_VERIFY_POLICY".to_owned(), policy.to_owned());
    (sandbox, scripted)
}

fn full(items: Value) -> Value {
    json!([{"result": {"kind": "full", "items": items}}])
}

fn bad() -> Value {
    let place = json!({"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}});
    full(json!([{"range": place, "severity": 1, "message": "it is bad", "code": "E1"}]))
}

/// Starts an editor that trusts the directory and accepts events.
fn start(sandbox: &Sandbox) -> Editor {
    Editor::start_with(sandbox, |params| {
        params["initializationOptions"] = json!({"pilcrow": {"trusted": true}});
        params["capabilities"]["experimental"] = json!({"pilcrow": {"events": true}});
    })
}

fn rename(editor: &mut Editor, file: &str) -> String {
    let position = json!({"line": 0, "character": 6});
    editor.run(
        "pilcrow.refactor",
        json!({"kind": "rename", "uri": file, "position": position, "new_name": "welcome"}),
    )
}

/// Every event of the run.
fn events(editor: &Editor) -> String {
    editor.all("pilcrow/event").iter().map(|event| format!("{event}\n")).collect()
}

/// The details of the previews of edits in the events.
fn previews(editor: &Editor) -> impl Iterator<Item = Value> {
    let events = editor.all("pilcrow/event").into_iter();
    let details = |event: Value| event.pointer("/event/details/diagnostics/tried").cloned();
    events.filter_map(details)
}

/// The number of errors that a preview of an edit found.
fn introduced(editor: &Editor) -> Option<usize> {
    previews(editor).find_map(|it| it["introduced"].as_array().map(Vec::len))
}

/// Names and texts of the server's open documents, by its received messages.
fn server_has(sandbox: &Sandbox) -> Vec<(String, String)> {
    let mut documents = Documents::default();
    for message in testing::recorded(&sandbox.beside("scripted tools/record.jsonl")) {
        documents.take(message["method"].as_str().unwrap_or_default(), &message["params"]);
    }
    let name = |uri: &str| uri.rsplit('/').next().unwrap_or_default().to_owned();
    documents.open.into_iter().map(|(uri, it)| (name(&uri), it.text)).collect()
}

fn welcome(text: &str) -> String {
    text.replace("greet", "welcome")
}

#[test]
fn the_answer_about_new_errors_decides_the_edit() {
    for (answer, ends) in [(Some("Allow"), "done"), (Some("Deny"), "stopped"), (None, "stopped")] {
        let clean = full(json!([]));
        let (sandbox, _) = renaming("ask", json!([clean, clean, bad()]));
        let mut editor = start(&sandbox);
        let file = uri(&sandbox, "a.py");
        editor.open(&file, "python", A);
        editor.answers.push_back(answer);
        let session = rename(&mut editor, &file);
        assert_eq!(editor.ended(&session), ends, "{answer:?}");
        let asked = editor.all("window/showMessageRequest");
        let said = asked[0]["message"].as_str().expect("a message").to_owned();
        let named =
            "language servers find new errors: a.py:1: error: it is bad [E1] (basedpyright); b.py:1: error";
        assert!(asked.len() == 1 && said.contains(named), "{asked:#?}");
        let is_made = answer == Some("Allow");
        let text = |text: &str| if is_made { welcome(text) } else { text.to_owned() };
        assert_eq!((editor.text(&file).to_owned(), sandbox.read("b.py")), (text(A), text(B)), "{answer:?}");
        assert_eq!(sandbox.read("a.py"), A, "an open file is not written");
        assert_eq!(introduced(&editor), is_made.then_some(2), "{}", events(&editor));
        // The speculative text is reverted, and the committed one is shown.
        let truth = [("a.py", text(A)), ("b.py", text(B))].map(|(name, text)| (name.to_owned(), text));
        let is_true = || server_has(&sandbox).iter().all(|shown| truth.contains(shown));
        assert!(wait_for(LONG, is_true), "{answer:?}: {:?}", server_has(&sandbox));
        editor.shut_down();
    }
}

/// Types in another file of the server during the preview.
///
/// Pilcrow plans and previews the edit again, once.
#[test]
fn a_speculative_edit_retries_once_after_typing() {
    let clean = || full(json!([]));
    let never = || json!(["never"]);
    for times in [1, 2] {
        // The turns are the baseline of all three files, the preview, both again, then the
        // diagnostics after it.
        let second = if times == 1 { clean() } else { never() };
        let rounds = [clean(), never(), clean(), second];
        let mut turns: Vec<Value> = rounds.iter().flat_map(|turn| vec![turn.clone(); 3]).collect();
        turns.push(clean());
        let (sandbox, scripted) = renaming("report", json!(turns));
        let mut editor = start(&sandbox);
        let (file, other) = (uri(&sandbox, "a.py"), uri(&sandbox, "c.py"));
        editor.open(&file, "python", A);
        editor.open(&other, "python", "x = 1\n");
        editor.replace(&other, 0..0, "# typed 0\n");
        let session = rename(&mut editor, &file);
        for time in 1..=times {
            let began = Instant::now();
            while scripted.got(PULL) < time * 6 {
                assert!(began.elapsed() < LONG, "attempt {time}: {}", scripted.got(PULL));
                editor.pump(Duration::from_millis(20));
            }
            let tried = server_has(&sandbox);
            assert!(tried.contains(&("b.py".to_owned(), welcome(B))), "{tried:?}");
            assert_eq!((editor.text(&file), sandbox.read("b.py").as_str()), (A, B), "it is only previewed");
            editor.replace(&other, 0..0, &format!("# typed {time}\n"));
        }
        assert_eq!(editor.ended(&session), "done");
        assert_eq!(scripted.got("textDocument/rename"), 2, "planned again once");
        let gave_up = previews(&editor).any(|it| it["not_tried"][0]["why"] == "text moved");
        assert_eq!((gave_up, introduced(&editor).is_some()), (times == 2, times == 1), "{}", events(&editor));
        assert_eq!((editor.text(&file), sandbox.read("b.py")), (welcome(A).as_str(), welcome(B)));
        let typed = (0..=times).rev().map(|time| format!("# typed {time}\n")).collect::<String>() + "x = 1\n";
        assert_eq!((editor.text(&other), sandbox.read("c.py").as_str()), (typed.as_str(), "x = 1\n"));
        let truth = [("a.py", welcome(A)), ("b.py", welcome(B)), ("c.py", typed)];
        let truth = truth.map(|(name, text)| (name.to_owned(), text));
        assert!(wait_for(LONG, || server_has(&sandbox) == truth), "{:?}", server_has(&sandbox));
        editor.shut_down();
    }
}
