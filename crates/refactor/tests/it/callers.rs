//! Callers in other packages and through overridden methods.

use refactor::Callers;
use serde_json::{Value, json};
use testing::language_server::{Script, Step};

use crate::bench::{Bench, LONG, bench, build, cx, range};
use crate::shown;

async fn callers(bench: &Bench, doc: &workspace::Document, offset: usize) -> Callers {
    refactor::callers(&bench.workspace, &bench.pool, doc, offset, &cx(LONG)).await.unwrap()
}

fn item(name: &str, line: u32, start: u32) -> Value {
    json!({
        "name": name, "kind": 12, "uri": "${root}/a.txt", "range": range(line, 0, 17), "data": {"id": name},
        "selectionRange": range(line, start, start + name.len() as u32),
    })
}

#[tokio::test]
async fn callers_include_calls_of_overridden_methods() {
    let text = "Top old\nLow old\nx.old() old()\n";
    let place =
        |line: u32, start: u32| json!({"uri": "${root}/a.txt", "range": range(line, start, start + 3)});
    let class = |name: &str, line: u32| {
        let method = json!({"name": "old", "kind": 6, "range": range(line, 4, 7), "selectionRange": range(line, 4, 7)});
        json!({"name": name, "kind": 5, "range": range(line, 0, 7), "selectionRange": range(line, 0, 3), "children": [method]})
    };
    let caller = json!({"from": item("x", 2, 0), "fromRanges": [range(2, 8, 11), range(2, 8, 11)]});
    let script = Script::new(json!({
        "textDocumentSync": 2, "callHierarchyProvider": true, "documentSymbolProvider": true,
        "implementationProvider": true, "referencesProvider": true,
    }))
    .on("textDocument/prepareCallHierarchy", [Step::Result(json!([item("old", 1, 4)]))])
    .on("callHierarchy/incomingCalls", [Step::Result(json!([caller, caller]))])
    .on("textDocument/documentSymbol", [Step::Result(json!([class("Top", 0), class("Low", 1)]))])
    .on("textDocument/implementation", [Step::Result(json!([place(1, 4)]))])
    .on("textDocument/implementation", [Step::Result(json!([place(0, 4), place(1, 4)]))])
    .on("textDocument/references", [Step::Result(json!([place(2, 2)]))]);
    let bench = bench(&[("a.txt", text)], script);
    let found = callers(&bench, &bench.doc("a.txt"), 12).await;
    let calls: Vec<usize> = found.calls.iter().map(|call| call.places.len()).collect();
    assert_eq!(calls, [1]);
    let note = shown(&bench, &found.notes);
    assert_eq!(note, "overrides: bases Top.old (a.txt:1); uses a.txt:3");
}

/// Calls among the uses in other packages are callers too.
///
/// The server follows calls in one package only.
#[tokio::test]
async fn callers_in_other_packages_are_listed_or_named() {
    let range = range(0, 0, 5);
    let item =
        json!({"name": "inner", "kind": 12, "uri": "${root}/x.txt", "range": range, "selectionRange": range});
    let place = |file: &str| json!({"uri": format!("${{root}}/../{file}"), "range": range});
    let offers = json!({
        "textDocumentSync": 2, "callHierarchyProvider": true, "referencesProvider": true,
        "documentSymbolProvider": true,
    });
    let more = "open_candidates = true\n[root]\nmarkers = [\"package\"]\n";
    let files = [
        ("a/package", ""),
        ("a/x.txt", "inner"),
        ("b/package", ""),
        ("b/y.txt", "inner(1)"),
        ("c/package", ""),
        ("c/z.txt", "inner"),
        ("d/package", ""),
        ("d/w.txt", "inner(2)"),
    ];
    for (uses, expected, named) in [
        (vec![place("b/y.txt"), place("c/z.txt")], vec!["b/y.txt"], Some("not calls: c")),
        (vec![place("b/y.txt")], vec!["b/y.txt"], None),
        (vec![place("c/z.txt")], vec![], Some("not calls: c")),
        (vec![], vec![], None),
    ] {
        let script = Script::new(offers.clone())
            .on("textDocument/prepareCallHierarchy", [Step::Result(json!([item]))])
            .on("callHierarchy/incomingCalls", [Step::Result(json!([]))])
            .on("textDocument/documentSymbol", [Step::Result(json!([]))])
            .on("textDocument/references", [Step::Result(json!(uses))]);
        let bench = build(&files, vec![("scripted", script, more)], |_| ());
        let doc = bench.doc("a/x.txt");
        let found = callers(&bench, &doc, 0).await;
        let files: Vec<String> =
            found.calls.iter().map(|call| bench.workspace.relative(&call.symbol.file)).collect();
        assert_eq!(files, expected);
        let note = shown(&bench, &found.notes);
        match named {
            Some(named) => assert!(note.ends_with(named), "{note}"),
            None => assert!(!note.contains("not calls"), "{note}"),
        }
    }
}
