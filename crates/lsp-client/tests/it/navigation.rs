//! Navigation and requests of an editor, with the forms of their answers.

use lsp_client::{Navigate, Note, Types, UnaskedWhy};
use paths::AbsPath;
use policy::ErrorCode;
use serde_json::{Value, json};
use testing::language_server::{Script, Step};

use crate::bench::{LONG, bench, build, cx, range};

const ALL: &str = "def outer(): inner()\ndef inner(): pass\n";

fn at(line: u32, start: u32, end: u32) -> Value {
    json!({"uri": "${root}/a.txt", "range": range(line, start, end)})
}

#[tokio::test]
async fn each_navigation_is_its_own_request() {
    let script = Script::new(json!({
        "textDocumentSync": 2, "definitionProvider": true, "declarationProvider": {},
        "typeDefinitionProvider": true, "implementationProvider": true,
    }))
    .on("textDocument/definition", [Step::Result(at(1, 4, 9))])
    .on("textDocument/declaration", [Step::Result(json!([at(1, 4, 9)]))])
    .on(
        "textDocument/typeDefinition",
        [Step::Result(json!([{
            "targetUri": "${root}/a.txt", "targetRange": range(1, 0, 17), "targetSelectionRange": range(1, 4, 9),
        }]))],
    )
    .on("textDocument/implementation", [Step::Result(Value::Null)]);
    let bench = bench(&[("a.txt", ALL)], script);
    let doc = bench.doc("a.txt");
    for (to, expected) in [
        (Navigate::Definition, 1),
        (Navigate::Declaration, 1),
        (Navigate::TypeDefinition, 1),
        (Navigate::Implementation, 0),
    ] {
        let found = bench.pool.navigate(to, &doc, 13, &cx(LONG)).await.unwrap().value;
        assert_eq!(found.len(), expected, "{to:?}");
        assert!(found.iter().all(|it| &doc.text[it.range.clone()] == "inner"), "{found:?}");
    }
}

fn item(name: &str, line: u32, start: u32) -> Value {
    json!({
        "name": name, "kind": 12, "uri": "${root}/a.txt", "range": range(line, 0, 17), "data": {"id": name},
        "selectionRange": range(line, start, start + name.len() as u32),
    })
}

#[tokio::test]
async fn call_hierarchies_go_both_ways_with_locations() {
    let script = Script::new(json!({"textDocumentSync": 2, "callHierarchyProvider": true}))
        .on("textDocument/prepareCallHierarchy", [Step::Result(json!([item("inner", 1, 4)]))])
        .on("textDocument/prepareCallHierarchy", [Step::Result(json!([item("outer", 0, 4)]))])
        .on("textDocument/prepareCallHierarchy", [Step::Result(Value::Null)])
        .on(
            "callHierarchy/incomingCalls",
            [Step::Result(json!([{"from": item("outer", 0, 4), "fromRanges": [range(0, 13, 18)]}]))],
        )
        .on(
            "callHierarchy/outgoingCalls",
            [Step::Result(json!([{"to": item("inner", 1, 4), "fromRanges": [range(0, 13, 18)]}]))],
        );
    let bench = bench(&[("a.txt", ALL)], script);
    let doc = bench.doc("a.txt");
    for (other, line) in [("outer", 1), ("inner", 2)] {
        let found = match other {
            "outer" => bench.callers(&doc, 25).await.unwrap(),
            _ => bench.pool.callees(&doc, 25, &cx(LONG)).await.unwrap().value,
        };
        assert_eq!((found[0].symbol.name.as_str(), found[0].symbol.line), (other, line));
        // The call itself is in the caller, in either direction.
        assert_eq!((found[0].places[0].line, &doc.text[found[0].places[0].range.clone()]), (1, "inner"));
    }
    // The item is sent back as received.
    assert_eq!(bench.got("scripted", "callHierarchy/incomingCalls")[0]["item"]["data"]["id"], "inner");
    let error = bench.callers(&doc, 0).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::NotFound);
    assert_eq!(error.to_string(), "scripted: it finds no function at \"def\"; name another place");
}

#[tokio::test]
async fn type_hierarchies_go_both_ways() {
    let script = Script::new(json!({"textDocumentSync": 2, "typeHierarchyProvider": true}))
        .on("textDocument/prepareTypeHierarchy", [Step::Result(json!([item("inner", 1, 4)]))])
        .on("typeHierarchy/supertypes", [Step::Result(json!([item("outer", 0, 4)]))])
        .on("typeHierarchy/subtypes", [Step::Result(Value::Null)]);
    let bench = bench(&[("a.txt", ALL)], script);
    let doc = bench.doc("a.txt");
    let found = bench.pool.types(Types::Super, &doc, 25, &cx(LONG)).await.unwrap().value;
    assert_eq!((found[0].name.as_str(), &doc.text[found[0].selection.clone()]), ("outer", "outer"));
    assert!(bench.pool.types(Types::Sub, &doc, 25, &cx(LONG)).await.unwrap().value.is_empty());
}

#[tokio::test]
async fn editor_information_can_be_requested() {
    let script = Script::new(json!({
        "textDocumentSync": 2, "signatureHelpProvider": {}, "documentHighlightProvider": true,
        "completionProvider": {}, "inlayHintProvider": true,
    }))
    .on(
        "textDocument/signatureHelp",
        [Step::Result(json!({
            "activeSignature": 1, "activeParameter": 0,
            "signatures": [{"label": "f()"}, {"label": "f(a, b)", "documentation": {"kind": "markdown", "value": "Does f."},
                "parameters": [{"label": [2, 3]}, {"label": "b"}]}],
        }))],
    )
    .on("textDocument/signatureHelp", [Step::Result(Value::Null)])
    .on(
        "textDocument/documentHighlight",
        [Step::Result(json!([{"range": range(1, 4, 9), "kind": 3}, {"range": range(0, 13, 18), "kind": 2}]))],
    )
    .on(
        "textDocument/completion",
        [Step::Result(json!({"isIncomplete": true, "items": [
            {"label": "later", "sortText": "b", "kind": 3, "tags": [1]},
            {"label": "first", "sortText": "a", "kind": 2, "labelDetails": {"description": "mod"}},
        ]}))],
    )
    .on("textDocument/completion", [Step::Result(json!([{"label": "only"}]))])
    .on(
        "textDocument/inlayHint",
        [Step::Result(json!([
            {"position": {"line": 0, "character": 19}, "label": [{"value": "x"}, {"value": "="}], "paddingRight": true},
            {"position": {"line": 0, "character": 11}, "label": ": int"},
        ]))],
    );
    let bench = bench(&[("a.txt", ALL)], script);
    let (doc, cx) = (bench.doc("a.txt"), cx(LONG));
    let signatures = bench.pool.signature(&doc, 19, &cx).await.unwrap().value;
    assert_eq!(signatures.iter().map(|it| it.active).collect::<Vec<_>>(), [false, true]);
    assert_eq!(signatures[1].parameter.as_deref(), Some("a"));
    assert_eq!(signatures[1].documentation.as_deref(), Some("Does f."));
    assert!(bench.pool.signature(&doc, 0, &cx).await.unwrap().value.is_empty());

    let found = bench.pool.highlights(&doc, 13, &cx).await.unwrap().value;
    assert_eq!(found.iter().map(|it| (it.line, it.kind)).collect::<Vec<_>>(), [(1, "read"), (2, "write")]);

    let (items, whole) = bench.pool.completion(&doc, 18, &cx).await.unwrap().value;
    let shown: Vec<_> = items.iter().map(|it| (it.label.as_str(), it.kind, it.deprecated)).collect();
    assert_eq!((shown, whole), (vec![("first", "method", false), ("later", "function", true)], false));
    assert_eq!(items[0].detail.as_deref(), Some("mod"));
    assert!(bench.pool.completion(&doc, 18, &cx).await.unwrap().value.1);

    let hints = bench.pool.inlay_hints(&doc, 0..doc.text.len(), &cx).await.unwrap().value;
    let shown: Vec<_> = hints.iter().map(|it| (it.offset, it.label.as_str())).collect();
    assert_eq!(shown, [(11, ": int"), (19, "x= ")]);
}

#[tokio::test]
async fn an_empty_answer_during_loading_carries_a_note() {
    let work = |kind: &str| {
        Step::notify(
            "$/progress",
            json!({"token": "t", "value": {"kind": kind, "title": "indexing", "percentage": 7}}),
        )
    };
    let script = Script::new(json!({"textDocumentSync": 2, "implementationProvider": true}))
        .on("initialized", [work("begin")])
        .on("textDocument/implementation", [work("end"), Step::Result(json!([]))]);
    let more = "[ready]\nprogress = true\ngrace_ms = 30000\n";
    let bench = crate::bench::build(&[("a.txt", ALL)], vec![("scripted", script, more)], |_| ());
    let doc = bench.doc("a.txt");
    let short = cx(std::time::Duration::from_secs(2));
    let answer = bench.pool.navigate(Navigate::Implementation, &doc, 4, &short).await.unwrap();
    let (server, detail) = ("scripted".to_owned(), Some("indexing 7%".to_owned()));
    assert_eq!(answer.notes, [Note::Loading { server, detail }]);
    let answer = bench.pool.navigate(Navigate::Implementation, &doc, 4, &cx(LONG)).await.unwrap();
    assert_eq!(answer.notes, []);
}

#[tokio::test]
async fn workspace_symbols_without_range_are_resolved() {
    let bare = json!([{"name": "inner", "kind": 12, "location": {"uri": "${root}/a.txt"}, "data": 1}]);
    let whole = json!({"name": "inner", "kind": 12, "location": at(1, 4, 9)});
    let script =
        Script::new(json!({"textDocumentSync": 2, "workspaceSymbolProvider": {"resolveProvider": true}}))
            .on("workspace/symbol", [Step::Result(bare)])
            .on("workspaceSymbol/resolve", [Step::Result(whole)]);
    let bench = bench(&[("a.txt", ALL)], script);
    let found = bench.pool.workspace_symbols("inn", None, &cx(LONG)).await.unwrap().value.symbols;
    assert_eq!((found[0].line, found[0].range.clone()), (2, 25..30));
    assert_eq!(bench.got("scripted", "workspace/symbol")[0]["query"], "inn");
}

/// Covers servers that do not run and stay so: nothing is known of their files.
#[tokio::test]
async fn workspace_symbols_name_the_omitted_files() {
    let script =
        |capabilities: Value| Script::new(capabilities).on("workspace/symbol", [Step::Result(json!([]))]);
    let able = script(json!({"textDocumentSync": 2, "hoverProvider": true, "workspaceSymbolProvider": true}));
    let mute = script(json!({"textDocumentSync": 2, "hoverProvider": true}))
        .on("textDocument/hover", [Step::Result(json!({"contents": "x"}))]);
    let speaks = |ending: &str| format!("[[languages]]\nid = \"{ending}\"\npatterns = [\"*.{ending}\"]\n");
    let gone = speaks("gone") + "[command]\ncandidates = [\"/no/such/program\"]\n";
    let untried = "verified = false\n".to_owned() + &gone.replace("gone", "untried");
    let rooted = "[root]\nmarkers = [\"mark\"]\n";
    let files = [
        ("a/mark", ""),
        ("a/x.txt", "x"),
        ("b/mark", ""),
        ("b/y.txt", "y"),
        ("b/z.txt", "z"),
        ("q.quiet", "x"),
        ("g.gone", "x"),
        ("u.untried", "x"),
        ("a.unknown", "x"),
    ];
    let servers = vec![
        ("able", able, rooted),
        ("gone", Script::default(), gone.as_str()),
        ("mute", mute, &speaks("quiet")),
        ("untried", Script::default(), untried.as_str()),
    ]
    .into_iter()
    .map(|(name, script, more)| (name, script, more.to_owned()))
    .collect::<Vec<_>>();
    let servers = servers.iter().map(|(name, script, more)| (*name, script.clone(), more.as_str())).collect();
    let bench = build(&files, servers, |_| ());
    bench.pool.hover(&bench.doc("q.quiet"), 0, &cx(LONG)).await.unwrap();
    let unasked = async || {
        let found = bench.pool.workspace_symbols("x", None, &cx(LONG)).await.unwrap().value;
        assert!(!found.is_cut);
        let files =
            |files: &[AbsPath]| files.iter().map(|it| bench.workspace.relative(it)).collect::<Vec<_>>();
        found
            .unasked
            .iter()
            .map(|it| (it.why, it.servers.join(" "), files(&it.files).join(" ")))
            .collect::<Vec<_>>()
    };
    let reported = |why, server: &str, files: &str| (why, server.to_owned(), files.to_owned());
    let others = || {
        vec![reported(UnaskedWhy::Unable, "mute", "q.quiet"), reported(UnaskedWhy::Missing, "gone", "g.gone")]
    };
    let idle = vec![reported(UnaskedWhy::Idle, "able", "b/y.txt b/z.txt")];
    assert_eq!(unasked().await, [idle, others()].concat());
    assert_eq!(unasked().await.len(), 3, "the request starts no server");
    bench.pool.symbols(&bench.doc("b/y.txt"), &cx(LONG)).await.unwrap_err();
    assert_eq!(unasked().await, others());
}

#[tokio::test]
async fn candidates_are_opened_for_implementations() {
    let range = range(0, 0, 3);
    let item = |file: &str| json!({"name": "Box", "kind": 5, "uri": format!("${{root}}/{file}"), "range": range, "selectionRange": range});
    let script = || {
        Script::new(
            json!({"textDocumentSync": 2, "implementationProvider": true, "typeHierarchyProvider": true}),
        )
        .on(
            "textDocument/implementation",
            [Step::Result(json!([{"uri": "${root}/../b/y.txt", "range": range}]))],
        )
        .on("textDocument/prepareTypeHierarchy", [Step::Result(json!([item("x.txt")]))])
        .on("typeHierarchy/subtypes", [Step::Result(json!([item("../b/y.txt")]))])
        .on("typeHierarchy/supertypes", [Step::Result(json!([]))])
    };
    let more = "open_candidates = true\n[root]\nmarkers = [\"package\"]\n";
    let files =
        [("a/package", ""), ("a/x.txt", "Box"), ("b/package", ""), ("b/y.txt", "Box"), ("b/z.txt", "other")];
    let opened_by = async |question: &str| {
        let bench = build(&files, vec![("scripted", script(), more)], |_| ());
        let doc = bench.doc("a/x.txt");
        let found = match question {
            "implementation" => {
                let found = bench.pool.navigate(Navigate::Implementation, &doc, 0, &cx(LONG)).await.unwrap();
                found.value.into_iter().map(|it| it.path).collect::<Vec<_>>()
            }
            way => {
                let way = if way == "subtypes" { Types::Sub } else { Types::Super };
                let found = bench.pool.types(way, &doc, 0, &cx(LONG)).await.unwrap();
                found.value.into_iter().map(|it| it.file).collect()
            }
        };
        let opened = bench.got("scripted", "textDocument/didOpen");
        let opened: Vec<bool> = ["a/x.txt", "b/y.txt", "b/z.txt"]
            .iter()
            .map(|file| opened.iter().any(|it| it["textDocument"]["uri"] == bench.uri(file)))
            .collect();
        let found: Vec<bool> = found.iter().map(|path| *path == bench.path("b/y.txt")).collect();
        (opened, found)
    };
    assert_eq!(opened_by("implementation").await, (vec![true, true, false], vec![true]));
    assert_eq!(opened_by("subtypes").await, (vec![true, true, false], vec![true]));
    // The declaration of a type names its supertypes.
    assert_eq!(opened_by("supertypes").await, (vec![true, false, false], vec![]));
}

/// Requests from one server in each package that may use the symbol.
///
/// A file of each stays open, so that the server keeps the package loaded.
#[tokio::test]
async fn one_server_answers_for_each_package() {
    let place = |file: &str| json!([{"uri": format!("${{root}}/{file}"), "range": range(0, 0, 3)}]);
    let script = Script::new(
        json!({"textDocumentSync": 2, "implementationProvider": true, "definitionProvider": true}),
    )
    .on("textDocument/definition", [Step::Result(place("a/x.txt"))])
    .on("textDocument/implementation", [Step::Result(json!([]))])
    .on("textDocument/implementation", [Step::Result(place("b/y.txt"))]);
    let more = "open_candidates = true\n[root]\nmarkers = [\"package\"]\nprefer = \"outermost\"\n";
    let files = [
        ("package", ""),
        ("a/package", ""),
        ("a/x.txt", "Box"),
        ("b/package", ""),
        ("b/w.txt", "Box"),
        ("b/y.txt", "Box"),
    ];
    let bench = build(&files, vec![("scripted", script, more)], |_| ());
    let found = bench.pool.navigate(Navigate::Implementation, &bench.doc("a/x.txt"), 0, &cx(LONG)).await;
    let found: Vec<_> =
        found.unwrap().value.into_iter().map(|it| bench.workspace.relative(&it.path)).collect();
    assert_eq!(found, ["b/y.txt"]);
    let asked = bench.got("scripted", "textDocument/implementation");
    let asked: Vec<_> = asked.iter().map(|it| &it["textDocument"]["uri"]).collect();
    assert_eq!(asked, [&bench.uri("a/x.txt"), &bench.uri("b/w.txt")]);
    // A file of another package is for the same server, which reads earlier messages first.
    bench.pool.navigate(Navigate::Implementation, &bench.doc("b/y.txt"), 0, &cx(LONG)).await.unwrap();
    assert_eq!(bench.got("scripted", "initialize").len(), 1);
    let closed = bench.got("scripted", "textDocument/didClose");
    let is_other = |it: &Value| it["textDocument"]["uri"] == bench.uri("b/w.txt");
    assert!(!closed.is_empty() && closed.iter().all(is_other), "{closed:?}");
}

/// Creates a candidate, which the server's first answer lacks.
#[tokio::test]
async fn new_candidates_are_opened_if_an_answer_lacks_them() {
    let watchers = json!({"registrations": [{"id": "w", "method": "workspace/didChangeWatchedFiles",
        "registerOptions": {"watchers": [{"globPattern": "**/*"}]}}]});
    let script = Script::new(json!({"textDocumentSync": 2, "referencesProvider": true}))
        .on("initialized", [Step::request("w", "client/registerCapability", watchers)])
        .on("textDocument/references", [Step::Result(json!([]))]);
    let more = "open_candidates = true\n[root]\nmarkers = [\"package\"]\n[watch]\nworkspace = true\n";
    let files = [("a/package", ""), ("a/x.txt", "Box"), ("b/package", "")];
    let bench = build(&files, vec![("scripted", script, more)], |_| ());
    let doc = bench.doc("a/x.txt");
    bench.pool.references(&doc, 0, true, &cx(LONG)).await.unwrap();
    bench.write("b/new.txt", "Box");
    // The disk is not scanned for each request.
    tokio::time::sleep(std::time::Duration::from_millis(150)).await;
    bench.pool.references(&doc, 0, true, &cx(LONG)).await.unwrap();
    let of_it = |it: &Value| it["params"]["textDocument"]["uri"] == bench.uri("b/new.txt");
    let reported = bench.record("scripted").into_iter().filter_map(|it| {
        let method = it["method"].as_str()?.to_owned();
        (of_it(&it) || method.ends_with("references") || method.ends_with("WatchedFiles")).then_some(method)
    });
    let reported: Vec<String> = reported.take(5).collect();
    let asked = || "textDocument/references".to_owned();
    let watched = "workspace/didChangeWatchedFiles".to_owned();
    assert_eq!(reported, [asked(), watched, asked(), "textDocument/didOpen".to_owned(), asked()]);
}

#[tokio::test]
async fn candidates_are_opened_unless_an_answer_has_them() {
    let place = |file: &str| json!({"uri": format!("${{root}}/{file}"), "range": range(0, 0, 3)});
    let script = Script::new(json!({"textDocumentSync": 2, "referencesProvider": true}))
        .on("textDocument/references", [Step::Result(json!([place("b/known.txt"), place("c/mark.txt")]))])
        .on("textDocument/references", [Step::Result(json!([place("b/known.txt"), place("c/far.txt")]))]);
    let more = "open_candidates = true\n[root]\nmarkers = [\"package\"]\nprefer = \"outermost\"\n";
    let files = [
        ("package", ""),
        ("a/x.txt", "Box"),
        ("b/known.txt", "Box"),
        ("c/far.txt", "Box"),
        ("c/mark.txt", "\u{feff}Box"),
    ];
    let bench = build(&files, vec![("scripted", script, more)], |_| ());
    let found = bench.pool.references(&bench.doc("a/x.txt"), 0, true, &cx(LONG)).await.unwrap();
    let found: Vec<_> = found.value.into_iter().map(|it| bench.workspace.relative(&it.path)).collect();
    assert_eq!(found, ["b/known.txt", "c/far.txt"]);
    let opened = bench.got("scripted", "textDocument/didOpen");
    let opened: Vec<_> = opened.iter().map(|it| &it["textDocument"]["uri"]).collect();
    // A server may count a byte order mark that Pilcrow does not.
    assert_eq!(opened, [&bench.uri("a/x.txt"), &bench.uri("c/far.txt"), &bench.uri("c/mark.txt")]);
    assert_eq!(bench.got("scripted", "textDocument/references").len(), 2);
    // The server reads earlier messages before the next request. One file of the package stays open.
    bench.pool.references(&bench.doc("a/x.txt"), 0, true, &cx(LONG)).await.unwrap();
    let closed = bench.got("scripted", "textDocument/didClose");
    let is_mark = |it: &Value| it["textDocument"]["uri"] == bench.uri("c/mark.txt");
    assert!(!closed.is_empty() && closed.iter().all(is_mark), "{closed:?}");
}
