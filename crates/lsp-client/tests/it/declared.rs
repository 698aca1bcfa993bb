//! What we declare to servers, and what stands behind each of it: one table, compared with what is
//! declared and with what was seen to be done.

use std::collections::{BTreeMap, BTreeSet};

use lsp_client::{ActionQuery, Calls, CommandEdits, Navigate, Types};
use serde_json::{Value, json};
use testing::language_server::{Script, Step};
use workspace::{ChangeKind, Commit, CommitId, CommittedFile, RunId};

use crate::bench::{LONG, bench, cx, range};

/// What shows that something declared is so.
#[derive(Clone, Copy)]
enum By {
    /// We ask or tell this.
    Sent(&'static str),
    /// We answer this.
    Answered(&'static str),
    /// How answers are read, which the test of that name shows.
    Read(&'static str),
}

/// Everything that is declared.
const TABLE: &[(&str, By)] = &[
    ("general.positionEncodings", By::Read("answers::places_are_bytes_whatever_the_server_counts")),
    ("general.staleRequestSupport", By::Read("answers::content_modified_is_asked_again")),
    ("workspace.applyEdit", By::Answered("workspace/applyEdit")),
    ("workspace.workspaceEdit", By::Read("edits::operations_are_followed_in_their_order")),
    ("workspace.didChangeConfiguration", By::Sent("workspace/didChangeConfiguration")),
    ("workspace.didChangeWatchedFiles", By::Sent("workspace/didChangeWatchedFiles")),
    ("workspace.symbol", By::Sent("workspace/symbol")),
    ("workspace.executeCommand", By::Sent("workspace/executeCommand")),
    ("workspace.configuration", By::Answered("workspace/configuration")),
    ("workspace.workspaceFolders", By::Answered("workspace/workspaceFolders")),
    ("workspace.fileOperations.willRename", By::Sent("workspace/willRenameFiles")),
    ("workspace.fileOperations.didRename", By::Sent("workspace/didRenameFiles")),
    ("workspace.fileOperations.didCreate", By::Sent("workspace/didCreateFiles")),
    ("workspace.fileOperations.didDelete", By::Sent("workspace/didDeleteFiles")),
    ("workspace.diagnostics", By::Answered("workspace/diagnostic/refresh")),
    ("workspace.inlayHint", By::Answered("workspace/inlayHint/refresh")),
    ("textDocument.synchronization", By::Sent("textDocument/didSave")),
    ("textDocument.definition", By::Sent("textDocument/definition")),
    ("textDocument.declaration", By::Sent("textDocument/declaration")),
    ("textDocument.typeDefinition", By::Sent("textDocument/typeDefinition")),
    ("textDocument.implementation", By::Sent("textDocument/implementation")),
    ("textDocument.references", By::Sent("textDocument/references")),
    ("textDocument.documentHighlight", By::Sent("textDocument/documentHighlight")),
    ("textDocument.callHierarchy", By::Sent("callHierarchy/incomingCalls")),
    ("textDocument.typeHierarchy", By::Sent("typeHierarchy/subtypes")),
    ("textDocument.inlayHint", By::Sent("textDocument/inlayHint")),
    ("textDocument.signatureHelp", By::Sent("textDocument/signatureHelp")),
    ("textDocument.completion", By::Sent("textDocument/completion")),
    ("textDocument.hover", By::Sent("textDocument/hover")),
    ("textDocument.documentSymbol", By::Sent("textDocument/documentSymbol")),
    ("textDocument.rename", By::Sent("textDocument/prepareRename")),
    ("textDocument.formatting", By::Sent("textDocument/formatting")),
    ("textDocument.rangeFormatting", By::Sent("textDocument/rangeFormatting")),
    ("textDocument.codeAction", By::Sent("codeAction/resolve")),
    ("textDocument.publishDiagnostics", By::Read("diagnostics::a_push_for_an_older_version_is_never_shown")),
    ("textDocument.diagnostic", By::Sent("textDocument/diagnostic")),
    ("window.workDoneProgress", By::Answered("window/workDoneProgress/create")),
    ("window.showMessage", By::Answered("window/showMessageRequest")),
    ("window.showDocument", By::Answered("window/showDocument")),
    ("experimental.snippetTextEdit", By::Read("edits::snippets_come_as_the_text_that_they_leave")),
];

struct Refusing;

impl CommandEdits for Refusing {
    fn apply<'a>(
        &'a self,
        _: &'a str,
        _: workspace::WorkspaceEdit,
    ) -> futures_util::future::BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Err("not now".to_owned()) })
    }
}

/// A server that offers all there is and sends every request that it may.
fn offers_all() -> Script {
    let item = json!([{"name": "x", "kind": 5, "uri": "${root}/a.txt", "range": range(0, 0, 1),
        "selectionRange": range(0, 0, 1)}]);
    let filters = json!({"filters": [{"pattern": {"glob": "**/*"}}]});
    let providers = [
        "definition",
        "declaration",
        "typeDefinition",
        "implementation",
        "references",
        "documentHighlight",
        "callHierarchy",
        "typeHierarchy",
        "inlayHint",
        "hover",
        "documentSymbol",
        "documentFormatting",
        "documentRangeFormatting",
        "workspaceSymbol",
    ];
    let mut capabilities = json!({
        "textDocumentSync": {"openClose": true, "change": 2, "save": {"includeText": true}},
        "signatureHelpProvider": {}, "completionProvider": {}, "diagnosticProvider": {},
        "renameProvider": {"prepareProvider": true}, "codeActionProvider": {"resolveProvider": true},
        "executeCommandProvider": {"commands": ["c"]},
        "workspace": {"fileOperations": {
            "willRename": filters, "didRename": filters, "didCreate": filters, "didDelete": filters,
        }},
    });
    for name in providers {
        capabilities[format!("{name}Provider")] = json!(true);
    }
    let mut asks: Vec<Step> = TABLE
        .iter()
        .filter_map(|(_, by)| match by {
            By::Answered(method) => Some(Step::request(method, method, json!({"items": [], "edit": {}}))),
            _ => None,
        })
        .collect();
    let watch = json!({"registrations": [{"id": "w", "method": "workspace/didChangeWatchedFiles",
        "registerOptions": {"watchers": [{"globPattern": "**/*"}]}}]});
    asks.push(Step::request("watch", "client/registerCapability", watch));
    let mut script = Script::new(capabilities).on("initialized", asks);
    let edit = json!({"changes": {"${root}/a.txt": [{"range": range(0, 0, 1), "newText": "y"}]}});
    for (method, result) in [
        ("textDocument/prepareCallHierarchy", item.clone()),
        ("textDocument/prepareTypeHierarchy", item),
        ("textDocument/prepareRename", json!({"defaultBehavior": true})),
        ("textDocument/rename", edit.clone()),
        ("textDocument/diagnostic", json!({"kind": "full", "items": []})),
        ("textDocument/codeAction", json!([{"title": "t", "data": 1}])),
        (
            "codeAction/resolve",
            json!({"title": "t", "edit": edit, "command": {"title": "c", "command": "c"}}),
        ),
    ] {
        script = script.on(method, [Step::Result(result)]);
    }
    for (_, by) in TABLE {
        if let By::Sent(method) = by
            && !script.methods.contains_key(*method)
            && !method.contains("/did")
        {
            script = script.on(method, [Step::Result(Value::Null)]);
        }
    }
    script
}

#[tokio::test]
async fn everything_declared_is_in_the_table_and_done() {
    let bench = bench(&[("a.txt", "x y\n"), ("b.txt", "b"), ("c.txt", "c")], offers_all());
    let (doc, cx) = (bench.doc("a.txt"), cx(LONG));
    let pool = &bench.pool;
    let (b, c) = (bench.path("b.txt"), bench.path("c.txt"));
    pool.diagnostics(&doc, &cx).await.unwrap();
    for to in
        [Navigate::Definition, Navigate::Declaration, Navigate::TypeDefinition, Navigate::Implementation]
    {
        pool.navigate(to, &doc, 0, &cx).await.unwrap();
    }
    pool.references(&doc, 0, true, &cx).await.unwrap();
    pool.hover(&doc, 0, &cx).await.unwrap();
    pool.symbols(&doc, &cx).await.unwrap();
    pool.workspace_symbols("x", Some(&doc), &cx).await.unwrap();
    pool.highlights(&doc, 0, &cx).await.unwrap();
    pool.calls(Calls::Incoming, &doc, 0, &cx).await.unwrap();
    pool.types(Types::Sub, &doc, 0, &cx).await.unwrap();
    pool.inlay_hints(&doc, 0..1, &cx).await.unwrap();
    pool.signature(&doc, 0, &cx).await.unwrap();
    pool.completion(&doc, 0, &cx).await.unwrap();
    pool.rename(&doc, 0, "y", &cx).await.unwrap();
    pool.format(&doc, None, &cx).await.unwrap();
    pool.format(&doc, Some(0..1), &cx).await.unwrap();
    pool.rename_file(&b, &bench.path("d.txt"), &cx).await.unwrap();
    let query = ActionQuery { range: 0..1, only: &[], diagnostics: &[] };
    let actions = pool.code_actions(&doc, &query, &cx).await.unwrap().value;
    let resolved = pool.resolve_action(&doc, &actions[0], &cx).await.unwrap();
    pool.run_command(&resolved.command.unwrap(), &Refusing, &cx).await.unwrap();
    // A commit of every kind.
    std::fs::rename(&b, bench.path("d.txt")).unwrap();
    std::fs::remove_file(&c).unwrap();
    bench.write("e.txt", "e");
    bench.write("a.txt", "y y\n");
    let file = |path, kind| CommittedFile { path, kind, edits: Vec::new(), version: None };
    let files = vec![
        file(bench.path("a.txt"), ChangeKind::Modified),
        file(c, ChangeKind::Deleted),
        file(bench.path("d.txt"), ChangeKind::Renamed { from: b }),
        file(bench.path("e.txt"), ChangeKind::Created),
    ];
    let (id, run, label) = (CommitId("1".into()), RunId::new(), "test".into());
    pool.did_commit(&Commit { id, run, label, files, notes: Vec::new() }).await;
    pool.hover(&doc, 0, &cx).await.unwrap();

    let initialize = bench.got("scripted", "initialize").remove(0);
    let mut declared = BTreeSet::new();
    for (scope, inner) in initialize["capabilities"].as_object().unwrap() {
        for (name, value) in inner.as_object().unwrap() {
            let operations = value.as_object().filter(|_| name == "fileOperations").into_iter().flatten();
            let operations: Vec<&String> =
                operations.map(|(name, _)| name).filter(|name| *name != "dynamicRegistration").collect();
            match operations.is_empty() {
                true => drop(declared.insert(format!("{scope}.{name}"))),
                false => declared.extend(operations.iter().map(|it| format!("{scope}.{name}.{it}"))),
            }
        }
    }
    let table: BTreeSet<String> = TABLE.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(declared, table, "what is declared and the table differ");

    let record = bench.record("scripted");
    let sent: BTreeSet<&str> = record.iter().filter_map(|message| message["method"].as_str()).collect();
    let answers: BTreeMap<&str, &Value> = record
        .iter()
        .filter(|message| message.get("method").is_none())
        .filter_map(|message| Some((message["id"].as_str()?, message)))
        .collect();
    let source =
        concat!(include_str!("answers.rs"), include_str!("edits.rs"), include_str!("diagnostics.rs"));
    for (name, by) in TABLE {
        match by {
            By::Sent(method) => assert!(sent.contains(method), "{name} is declared, {method} was never sent"),
            By::Answered(method) => {
                let answer = answers.get(method).unwrap_or_else(|| panic!("{method} was not answered"));
                assert!(answer.get("error").is_none(), "{name}: {answer}");
            }
            By::Read(test) => {
                let test = test.rsplit("::").next().unwrap();
                assert!(source.contains(&format!("async fn {test}(")), "{name}: there is no test {test}");
            }
        }
    }
    let saved = &bench.got("scripted", "textDocument/didSave");
    assert_eq!(*saved, [json!({"textDocument": {"uri": bench.uri("a.txt")}, "text": "y y\n"})]);
}
