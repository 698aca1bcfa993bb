//! Renames: stub files, overrides, methods whose relation remains unknown.

use std::time::Duration;

use expect_test::expect;
use serde_json::{Value, json};
use testing::language_server::{Script, Step};

use crate::bench::{LONG, bench, build, cx, range};
use crate::{rename, rename_within, shown};

fn edit(line: u32, start: u32, end: u32, text: &str) -> Value {
    json!({"range": range(line, start, end), "newText": text})
}

/// Three classes with a method `old`.
///
/// `Low` overrides the one of `Top`; `Lone` has only the name.
const CLASSES: &str = "Top old\nLow old\nLone old\nx.old\n";

fn classes() -> Value {
    let class = |name: &str, line: u32| {
        let at = name.len() as u32 + 1;
        let method = json!({"name": "old", "kind": 6, "range": range(line, at, at + 3), "selectionRange": range(line, at, at + 3)});
        json!({"name": name, "kind": 5, "range": range(line, 0, at + 3), "selectionRange": range(line, 0, at - 1), "children": [method]})
    };
    json!([class("Top", 0), class("Low", 1), class("Lone", 2)])
}

fn place_of(line: u32, start: u32) -> Value {
    json!({"uri": "${root}/a.txt", "range": range(line, start, start + 3)})
}

/// Notes of a rename of `old` at a byte.
///
/// `implementing`: the server's implementations of each method in turn.
async fn left_behind(offset: usize, line: u32, more: &str, implementing: &[Value]) -> String {
    let answers = implementing.iter().map(|answer| Step::Result(answer.clone())).collect();
    left_behind_within(LONG, offset, line, more, answers).await
}

async fn left_behind_within(
    deadline: Duration,
    offset: usize,
    line: u32,
    more: &str,
    implementing: Vec<Step>,
) -> String {
    let start =
        u32::try_from(offset - CLASSES.lines().take(line as usize).map(|it| it.len() + 1).sum::<usize>())
            .unwrap();
    let edit = json!({"changes": {"${root}/a.txt": [edit(line, start, start + 3, "new")]}});
    let mut script = Script::new(json!({
        "textDocumentSync": 2, "renameProvider": true, "documentSymbolProvider": true, "referencesProvider": true,
        "implementationProvider": !implementing.is_empty(),
    }))
    .on("textDocument/rename", [Step::Result(edit)])
    .on("textDocument/documentSymbol", [Step::Result(classes())])
    .on("textDocument/references", [Step::Result(json!([place_of(3, 2)]))]);
    for answer in implementing {
        script = script.on("textDocument/implementation", [answer]);
    }
    let bench = build(&[("a.txt", CLASSES)], vec![("scripted", script, more)], |_| ());
    let doc = bench.doc("a.txt");
    let renamed = rename_within(&bench, &doc, offset, &cx(deadline)).await.unwrap();
    shown(&bench, &renamed.notes)
}

#[tokio::test]
async fn a_timeout_reports_the_time_of_the_search() {
    let said = left_behind_within(Duration::from_secs(2), 12, 1, "", vec![Step::Never]).await;
    let after = said.split_once("did not answer textDocument/implementation within ").unwrap().1;
    // The search gets 30 % of the call's remaining time.
    let millis: u64 = after.split_once("ms").unwrap().0.parse().unwrap();
    assert!((100..=600).contains(&millis) && millis.is_multiple_of(10), "{said}");
}

#[tokio::test]
async fn related_methods_that_keep_their_name_are_reported() {
    let (top, low, lone) = (place_of(0, 4), place_of(1, 4), place_of(2, 5));
    // Implementations of `Low`, then of `Top` and `Lone`.
    let said = left_behind(12, 1, "", &[json!([low]), json!([top, low]), json!([lone])]).await;
    expect!["not renamed: bases Top.old (a.txt:1); uses a.txt:4"].assert_eq(&said);
    // A sibling does not override it.
    let said = left_behind(12, 1, "", &[json!([low]), json!([top, low, lone]), json!([lone])]).await;
    expect!["not renamed: bases Top.old (a.txt:1); siblings Lone.old (a.txt:3); uses a.txt:4"]
        .assert_eq(&said);
    // Implementations of `Top`, then of `Lone`: an overriding method is not a base.
    let said = left_behind(4, 0, "", &[json!([top, low]), json!([lone])]).await;
    expect!["not renamed: overriding Low.old (a.txt:2); uses a.txt:4"].assert_eq(&said);
    // The method is unrelated to the others.
    assert_eq!(left_behind(21, 2, "", &[json!([lone]), json!([top, low]), json!([low])]).await, "");
    // The server does not know, or its answer is useless.
    let empty = "[requires]\nimplementation = []\n";
    for said in [left_behind(12, 1, "", &[]).await, left_behind(12, 1, empty, &[json!([low])]).await] {
        assert_eq!(said, "not renamed: unknown Top.old (a.txt:1), Lone.old (a.txt:3); not offered");
    }
}

/// Covers a base whose name occurs in more files than the search reads.
///
/// These files come before the file of the override.
#[tokio::test]
async fn overrides_beyond_the_searched_files_are_reported() {
    let none = json!([]);
    let far = json!([{"uri": "${root}/z.txt", "range": range(0, 4, 7)}]);
    for (implementing, named) in [(far, true), (none, false)] {
        let others: Vec<String> = (0..41).map(|number| format!("b{number:02}.txt")).collect();
        let mut files: Vec<(&str, &str)> = others.iter().map(|name| (name.as_str(), "x.old()")).collect();
        files.extend([("a.txt", "Top old\n"), ("z.txt", "Low old\n")]);
        let script = Script::new(json!({
            "textDocumentSync": 2, "renameProvider": true, "documentSymbolProvider": true,
            "implementationProvider": true, "referencesProvider": true,
        }))
        .on(
            "textDocument/rename",
            [Step::Result(json!({"changes": {"${root}/a.txt": [edit(0, 4, 7, "new")]}}))],
        )
        .on("textDocument/documentSymbol", [Step::Result(json!([classes()[0]]))])
        .on("textDocument/documentSymbol", [Step::Result(json!([]))])
        .on("textDocument/references", [Step::Result(json!([]))])
        .on("textDocument/implementation", [Step::Result(implementing)]);
        let bench = bench(&files, script);
        let renamed = rename(&bench, &bench.doc("a.txt"), 4).await.unwrap();
        let note = shown(&bench, &renamed.notes);
        let overriding = if named { "overriding old (z.txt:1); " } else { "" };
        assert_eq!(note, format!("not renamed: {overriding}TooManyPlaces"));
    }
}

#[tokio::test]
async fn unresolved_members_are_reported() {
    let text = format!("Top old\n{}", "x.old\n".repeat(26));
    let edit = json!({"changes": {"${root}/a.txt": [edit(0, 4, 7, "new")]}});
    for (definition, said) in [
        (Step::Result(json!([])), "resolved 24 of 26"),
        (
            Step::Error(json!({"code": -32603, "message": "it broke"})),
            "resolved 0 of 26: scripted: textDocument/definition: it broke",
        ),
    ] {
        let script = Script::new(json!({
            "textDocumentSync": 2, "renameProvider": true, "documentSymbolProvider": true,
            "definitionProvider": true,
        }))
        .on("textDocument/rename", [Step::Result(edit.clone())])
        .on("textDocument/documentSymbol", [Step::Result(json!([classes()[0]]))])
        .on("textDocument/definition", [definition]);
        let bench = bench(&[("a.txt", &text)], script);
        let renamed = rename(&bench, &bench.doc("a.txt"), 4).await.unwrap();
        let note = shown(&bench, &renamed.notes);
        assert_eq!(note, format!("not renamed: {said}"));
    }
}

/// Blocks the scan with a FIFO of ignore rules that nothing writes to.
#[tokio::test]
async fn a_pipe_as_ignore_file_does_not_hold_up_a_rename() {
    let class = json!([classes()[0]]);
    let script = Script::new(
        json!({"textDocumentSync": 2, "renameProvider": true, "documentSymbolProvider": true, "hoverProvider": true}),
    )
    .on(
        "textDocument/rename",
        [Step::Result(json!({"changes": {"${root}/a.txt": [edit(0, 4, 7, "new")]}}))],
    )
    .on("textDocument/hover", [Step::Result(json!({"contents": "fine"}))])
    .on("textDocument/documentSymbol", [Step::Result(class)]);
    let bench = bench(&[("a.txt", "Top old\n"), ("deep/b.txt", "b")], script);
    bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap();
    let rules = bench.path("deep/.gitignore");
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600));
    rustix::fs::mknodat(rustix::fs::CWD, rules.as_path(), kind, mode, 0).unwrap();
    let (doc, cx) = (bench.doc("a.txt"), cx(Duration::from_secs(3)));
    let renamed = tokio::time::timeout(Duration::from_secs(10), rename_within(&bench, &doc, 4, &cx)).await;
    assert!(renamed.expect("it ends").is_ok());
}

/// Renames `old`, which `a.one` and `a.two` declare in `Box`.
///
/// The server renames in the file that it is asked about.
async fn renamed_in_two_sides(two: &str, answers: [Value; 2]) -> Result<Vec<String>, String> {
    let symbol = |line: u32| {
        json!({"name": "Box", "kind": 5, "range": range(0, 0, 3), "selectionRange": range(0, 0, 3), "children": [
            {"name": "old", "kind": 6, "range": range(line, 0, 3), "selectionRange": range(line, 0, 3)}
        ]})
    };
    let [first, second] = answers;
    let script =
        Script::new(json!({"textDocumentSync": 2, "renameProvider": true, "documentSymbolProvider": true}))
            .on("textDocument/documentSymbol", [Step::Result(json!([symbol(1)]))])
            .on("textDocument/documentSymbol", [Step::Result(json!([symbol(2)]))])
            .on("textDocument/rename", [Step::Result(json!({"changes": first}))])
            // The server is asked about the other side.
            .on("textDocument/rename", [Step::Result(json!({"changes": second}))]);
    let more = "open_candidates = true\nstub_extensions = [[\"one\", \"two\"]]\n[[languages]]\nid = \"sides\"\npatterns = [\"*.one\", \"*.two\"]\n";
    let files = [("a.one", "Box\nold\n"), ("a.two", two), ("user.two", "old\n")];
    let bench = build(&files, vec![("scripted", script, more)], |_| ());
    match rename(&bench, &bench.doc("a.one"), 4).await {
        Ok(renamed) => Ok(bench.outcome(renamed.edit)),
        Err(error) => Err(error.to_string()),
    }
}

#[tokio::test]
async fn a_stub_is_renamed_with_its_module_or_nothing_is() {
    let place = |line: u32| json!([{"range": range(line, 0, 3), "newText": "new"}]);
    let one = json!({"${root}/a.one": place(1)});
    let two = json!({"${root}/a.two": place(2)});
    let both = renamed_in_two_sides("Box\n\nold\n", [one.clone(), two]).await;
    assert_eq!(both.unwrap(), ["a.one: Box\nnew\n", "a.two: Box\n\nnew\n"]);
    let refused = renamed_in_two_sides("Box\n\nold\n", [one.clone(), json!({})]).await.unwrap_err();
    expect!["nothing was renamed: a.two:3, the stub of a.one, declares old too, but the server does not change it\nRename it there with `edit` first, and where it is used in user.two; then rename again"].assert_eq(&refused);
    let alone = renamed_in_two_sides("Box\n\nolder\n", [one, json!({})]).await;
    assert_eq!(alone.unwrap(), ["a.one: Box\nnew\n"], "the other does not declare it");
}

const SIDES: &str = "stub_extensions = [[\"one\", \"two\"]]\n[[languages]]\nid = \"sides\"\npatterns = [\"*.one\", \"*.two\"]\n";

#[tokio::test]
async fn an_imported_name_is_renamed_in_the_stub_too() {
    let at = |start: u32| json!([{"range": range(0, start, start + 3), "newText": "new"}]);
    let own = Step::Result(
        json!([{"name": "old", "kind": 12, "range": range(0, 0, 3), "selectionRange": range(0, 0, 3)}]),
    );
    let none = Step::Result(json!([]));
    let first = json!({"${root}/m.one": at(0), "${root}/i.one": at(14)});
    let renames = |changes: Value| [Step::Result(json!({"changes": changes}))];
    let script =
        Script::new(json!({"textDocumentSync": 2, "renameProvider": true, "documentSymbolProvider": true}))
            .on("textDocument/documentSymbol", [none.clone()])
            .on("textDocument/documentSymbol", [own.clone()])
            .on("textDocument/documentSymbol", [none])
            .on("textDocument/documentSymbol", [own])
            .on("textDocument/rename", renames(first.clone()))
            // Pilcrow asks again with all the files open.
            .on("textDocument/rename", renames(first))
            // Pilcrow asks for the other file of `i`, whose edit adds its user `u.one`, and for the other file of `u`.
            .on("textDocument/rename", renames(json!({"${root}/i.two": at(0), "${root}/u.one": at(14)})))
            .on("textDocument/rename", renames(json!({"${root}/u.two": at(0)})));
    let files = [
        ("m.one", "old\n"),
        ("i.one", "from m import old\n"),
        ("i.two", "old\n"),
        ("u.one", "from i import old\n"),
        ("u.two", "old\n"),
    ];
    let bench = build(&files, vec![("scripted", script, SIDES)], |_| ());
    let answer = rename(&bench, &bench.doc("m.one"), 0).await.unwrap();
    assert_eq!(
        bench.outcome(answer.edit),
        [
            "i.one: from m import new\n",
            "i.two: new\n",
            "m.one: new\n",
            "u.one: from i import new\n",
            "u.two: new\n"
        ]
    );
}
