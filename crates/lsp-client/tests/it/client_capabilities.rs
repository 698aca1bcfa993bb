//! The declared client capabilities, each with its evidence.
//!
//! One table, compared with the declaration and with recorded messages.

use std::collections::{BTreeMap, BTreeSet};

use lsp_client::{ActionQuery, CommandEdits, Navigate, Types};
use serde_json::{Value, json};
use testing::language_server::{Script, Step};
use workspace::{ChangeKind, Commit, CommitId, CommittedFile, RunId};

use crate::bench::{LONG, bench, cx, range};

/// Evidence for a declared capability.
#[derive(Clone, Copy)]
enum By {
    /// Test that sends it as a request or notification.
    Sent(&'static str),
    Answered(&'static str),
    /// A test of how answers are read: `it/FILE::NAME` or `src/FILE::NAME`.
    Read(&'static str),
}

/// Every declared capability by its whole path.
///
/// Omits `false` values, which promise nothing, and the objects around the values.
const TABLE: &[(&str, By)] = &[
    ("general.positionEncodings", By::Read("it/answers::positions_are_bytes_in_every_encoding")),
    (
        "general.staleRequestSupport.cancel",
        By::Read("it/answers::a_silent_server_costs_at_most_the_deadline"),
    ),
    (
        "general.staleRequestSupport.retryOnContentModified",
        By::Read("it/answers::content_modified_repeats_the_request"),
    ),
    ("workspace.applyEdit", By::Answered("workspace/applyEdit")),
    ("workspace.workspaceEdit.documentChanges", By::Read("it/edits::operations_are_applied_in_their_order")),
    (
        "workspace.workspaceEdit.resourceOperations",
        By::Read("it/edits::the_options_of_file_operations_are_kept"),
    ),
    (
        "workspace.workspaceEdit.failureHandling",
        By::Read("it/edits::overlapping_and_misplaced_edits_are_refused"),
    ),
    (
        "workspace.workspaceEdit.normalizesLineEndings",
        By::Read("it/edits::inserted_text_gets_the_files_line_ends"),
    ),
    (
        "workspace.workspaceEdit.changeAnnotationSupport",
        By::Read("it/edits::confirmations_keep_their_words_and_counts"),
    ),
    ("workspace.didChangeConfiguration.dynamicRegistration", By::Answered("client/registerCapability")),
    ("workspace.didChangeWatchedFiles.dynamicRegistration", By::Sent("workspace/didChangeWatchedFiles")),
    (
        "workspace.didChangeWatchedFiles.relativePatternSupport",
        By::Read("src/files/watchers::watchers_match_absolute_and_relative_paths"),
    ),
    (
        "workspace.symbol.symbolKind.valueSet",
        By::Read("src/server/protocol::symbol_kinds_have_lower_case_names"),
    ),
    (
        "workspace.symbol.resolveSupport.properties",
        By::Read("it/navigation::workspace_symbols_without_range_are_resolved"),
    ),
    ("workspace.executeCommand", By::Sent("workspace/executeCommand")),
    ("workspace.configuration", By::Answered("workspace/configuration")),
    ("workspace.workspaceFolders", By::Answered("workspace/workspaceFolders")),
    ("workspace.fileOperations.willCreate", By::Sent("workspace/willCreateFiles")),
    ("workspace.fileOperations.didCreate", By::Sent("workspace/didCreateFiles")),
    ("workspace.fileOperations.willRename", By::Sent("workspace/willRenameFiles")),
    ("workspace.fileOperations.didRename", By::Sent("workspace/didRenameFiles")),
    ("workspace.fileOperations.willDelete", By::Sent("workspace/willDeleteFiles")),
    ("workspace.fileOperations.didDelete", By::Sent("workspace/didDeleteFiles")),
    ("workspace.diagnostics.refreshSupport", By::Answered("workspace/diagnostic/refresh")),
    ("workspace.inlayHint.refreshSupport", By::Answered("workspace/inlayHint/refresh")),
    ("textDocument.synchronization.didSave", By::Sent("textDocument/didSave")),
    ("textDocument.definition.linkSupport", By::Read("src/server/protocol::locations_come_in_many_forms")),
    ("textDocument.declaration.linkSupport", By::Read("src/server/protocol::locations_come_in_many_forms")),
    (
        "textDocument.typeDefinition.linkSupport",
        By::Read("src/server/protocol::locations_come_in_many_forms"),
    ),
    (
        "textDocument.implementation.linkSupport",
        By::Read("src/server/protocol::locations_come_in_many_forms"),
    ),
    ("textDocument.references", By::Sent("textDocument/references")),
    ("textDocument.documentHighlight", By::Sent("textDocument/documentHighlight")),
    ("textDocument.callHierarchy", By::Sent("callHierarchy/incomingCalls")),
    ("textDocument.typeHierarchy", By::Sent("typeHierarchy/subtypes")),
    ("textDocument.inlayHint", By::Sent("textDocument/inlayHint")),
    (
        "textDocument.signatureHelp.signatureInformation.documentationFormat",
        By::Read("it/navigation::editor_information_can_be_requested"),
    ),
    (
        "textDocument.signatureHelp.signatureInformation.parameterInformation.labelOffsetSupport",
        By::Read("src/features/hints::a_parameter_is_named_by_text_or_by_place"),
    ),
    (
        "textDocument.signatureHelp.signatureInformation.activeParameterSupport",
        By::Read("it/navigation::editor_information_can_be_requested"),
    ),
    (
        "textDocument.completion.completionItem.deprecatedSupport",
        By::Read("it/navigation::editor_information_can_be_requested"),
    ),
    (
        "textDocument.completion.completionItem.tagSupport.valueSet",
        By::Read("it/navigation::editor_information_can_be_requested"),
    ),
    (
        "textDocument.completion.completionItem.labelDetailsSupport",
        By::Read("it/navigation::editor_information_can_be_requested"),
    ),
    (
        "textDocument.completion.completionItemKind.valueSet",
        By::Read("it/navigation::editor_information_can_be_requested"),
    ),
    ("textDocument.completion.contextSupport", By::Sent("textDocument/completion")),
    ("textDocument.hover.contentFormat", By::Read("it/answers::unusual_responses_are_accepted_or_reported")),
    (
        "textDocument.documentSymbol.symbolKind.valueSet",
        By::Read("src/server/protocol::symbol_kinds_have_lower_case_names"),
    ),
    (
        "textDocument.documentSymbol.hierarchicalDocumentSymbolSupport",
        By::Read("it/answers::both_forms_of_symbols_have_paths"),
    ),
    ("textDocument.rename.prepareSupport", By::Sent("textDocument/prepareRename")),
    ("textDocument.rename.prepareSupportDefaultBehavior", By::Read("it/edits::prepare_rename_is_sent_first")),
    (
        "textDocument.rename.honorsChangeAnnotations",
        By::Read("it/edits::confirmations_keep_their_words_and_counts"),
    ),
    ("textDocument.formatting", By::Sent("textDocument/formatting")),
    ("textDocument.rangeFormatting", By::Sent("textDocument/rangeFormatting")),
    (
        "textDocument.codeAction.codeActionLiteralSupport.codeActionKind.valueSet",
        By::Read("it/actions::code_action_requests_carry_the_servers_diagnostics"),
    ),
    (
        "textDocument.codeAction.isPreferredSupport",
        By::Read("it/actions::code_action_requests_carry_the_servers_diagnostics"),
    ),
    (
        "textDocument.codeAction.disabledSupport",
        By::Read("it/actions::code_action_requests_carry_the_servers_diagnostics"),
    ),
    (
        "textDocument.codeAction.dataSupport",
        By::Read("it/actions::an_action_is_resolved_to_its_edit_and_its_command"),
    ),
    ("textDocument.codeAction.resolveSupport.properties", By::Sent("codeAction/resolve")),
    (
        "textDocument.codeAction.honorsChangeAnnotations",
        By::Read("it/actions::an_action_reports_that_it_needs_confirmation"),
    ),
    (
        "textDocument.publishDiagnostics.versionSupport",
        By::Read("it/diagnostics::diagnostics_of_an_older_version_are_dropped"),
    ),
    (
        "textDocument.publishDiagnostics.relatedInformation",
        By::Read("it/diagnostics::related_information_is_parsed"),
    ),
    (
        "textDocument.publishDiagnostics.codeDescriptionSupport",
        By::Read("it/diagnostics::related_information_is_parsed"),
    ),
    (
        "textDocument.publishDiagnostics.dataSupport",
        By::Read("it/actions::code_action_requests_carry_the_servers_diagnostics"),
    ),
    (
        "textDocument.publishDiagnostics.tagSupport.valueSet",
        By::Read("it/diagnostics::related_information_is_parsed"),
    ),
    (
        "textDocument.diagnostic.relatedDocumentSupport",
        By::Read("it/diagnostics::related_documents_have_their_own_reports"),
    ),
    ("window.workDoneProgress", By::Answered("window/workDoneProgress/create")),
    ("window.showMessage.messageActionItem", By::Answered("window/showMessageRequest")),
    ("window.showDocument.support", By::Answered("window/showDocument")),
    ("experimental.snippetTextEdit", By::Read("it/edits::snippet_edits_become_plain_text")),
    // The requests that the client sends.
    ("textDocument.definition.linkSupport", By::Sent("textDocument/definition")),
    ("textDocument.declaration.linkSupport", By::Sent("textDocument/declaration")),
    ("textDocument.typeDefinition.linkSupport", By::Sent("textDocument/typeDefinition")),
    ("textDocument.implementation.linkSupport", By::Sent("textDocument/implementation")),
    (
        "textDocument.signatureHelp.signatureInformation.activeParameterSupport",
        By::Sent("textDocument/signatureHelp"),
    ),
    ("textDocument.hover.contentFormat", By::Sent("textDocument/hover")),
    (
        "textDocument.documentSymbol.hierarchicalDocumentSymbolSupport",
        By::Sent("textDocument/documentSymbol"),
    ),
    ("workspace.symbol.symbolKind.valueSet", By::Sent("workspace/symbol")),
    ("textDocument.rename.honorsChangeAnnotations", By::Sent("textDocument/rename")),
    ("textDocument.codeAction.dataSupport", By::Sent("textDocument/codeAction")),
    ("textDocument.diagnostic.relatedDocumentSupport", By::Sent("textDocument/diagnostic")),
    ("workspace.didChangeConfiguration.dynamicRegistration", By::Sent("workspace/didChangeConfiguration")),
];

/// Messages that a server sends by itself, and the capability that permits each.
const HANDLED: &[(&str, &str)] = &[
    ("workspace/configuration", "workspace.configuration"),
    ("workspace/workspaceFolders", "workspace.workspaceFolders"),
    ("workspace/applyEdit", "workspace.applyEdit"),
    ("workspace/diagnostic/refresh", "workspace.diagnostics.refreshSupport"),
    ("workspace/inlayHint/refresh", "workspace.inlayHint.refreshSupport"),
    ("client/registerCapability", "workspace.didChangeWatchedFiles.dynamicRegistration"),
    ("client/unregisterCapability", "workspace.didChangeWatchedFiles.dynamicRegistration"),
    ("window/workDoneProgress/create", "window.workDoneProgress"),
    ("window/showMessageRequest", "window.showMessage.messageActionItem"),
    ("window/showDocument", "window.showDocument.support"),
    ("$/progress", "window.workDoneProgress"),
    ("textDocument/publishDiagnostics", "textDocument.publishDiagnostics.versionSupport"),
    // Any server may send these messages (LSP 3.17 §Window).
    ("window/logMessage", ""),
    ("window/showMessage", ""),
    // The capability is not declared, since the client stores nothing; a server that sends the
    // request gets a response.
    ("workspace/semanticTokens/refresh", ""),
    ("workspace/inlineValue/refresh", ""),
    ("workspace/codeLens/refresh", ""),
    ("workspace/foldingRange/refresh", ""),
];

/// Every promise in `value` by its path.
fn promises(value: &Value, at: &str, out: &mut BTreeSet<String>) {
    let before = out.len();
    for (name, inner) in value.as_object().into_iter().flatten() {
        let at = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
        match inner {
            Value::Object(_) => promises(inner, &at, out),
            Value::Bool(false) => {}
            _ => drop(out.insert(at)),
        }
    }
    if out.len() == before {
        out.insert(at.to_owned());
    }
}

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

/// A server that offers every capability and sends every permitted request.
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
        "signatureHelpProvider": {}, "completionProvider": {}, "diagnosticProvider": {"workspaceDiagnostics": true},
        "renameProvider": {"prepareProvider": true}, "codeActionProvider": {"resolveProvider": true},
        "executeCommandProvider": {"commands": ["c"]},
        "workspace": {"fileOperations": {
            "willRename": filters, "didRename": filters, "willCreate": filters, "didCreate": filters,
            "willDelete": filters, "didDelete": filters,
        }},
    });
    for name in providers {
        capabilities[format!("{name}Provider")] = json!(true);
    }
    capabilities["workspaceSymbolProvider"] = json!({"resolveProvider": true});
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
    let symbol = |location: Value| json!({"name": "x", "kind": 5, "location": location});
    let (file, whole) =
        (json!({"uri": "${root}/a.txt"}), json!({"uri": "${root}/a.txt", "range": range(0, 0, 1)}));
    for (method, result) in [
        ("workspace/symbol", json!([symbol(file)])),
        ("workspaceSymbol/resolve", symbol(whole)),
        ("workspace/diagnostic", json!({"items": []})),
        ("callHierarchy/outgoingCalls", Value::Null),
        ("typeHierarchy/supertypes", Value::Null),
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
    // The server rejects each request once, because the text changed meanwhile.
    for (method, turns) in &mut script.methods {
        if !matches!(method.as_str(), "initialized" | COMMAND) {
            turns.insert(0, vec![Step::Error(json!({"code": -32801, "message": "content modified"}))]);
        }
    }
    script
}

/// The method of commands, which may have had an effect before they fail.
const COMMAND: &str = "workspace/executeCommand";

#[tokio::test]
async fn every_declared_capability_is_implemented() {
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
    bench.callers(&doc, 0).await.unwrap();
    pool.callees(&doc, 0, &cx).await.unwrap();
    pool.types(Types::Sub, &doc, 0, &cx).await.unwrap();
    pool.types(Types::Super, &doc, 0, &cx).await.unwrap();
    pool.reported(&BTreeSet::from([doc.path.clone()]), &cx).await.unwrap();
    pool.inlay_hints(&doc, 0..1, &cx).await.unwrap();
    pool.signature(&doc, 0, &cx).await.unwrap();
    pool.completion(&doc, 0, &cx).await.unwrap();
    bench.rename(&doc, 0, "y", &cx).await.unwrap();
    pool.format(&doc, None, &cx).await.unwrap();
    pool.format(&doc, Some(0..1), &cx).await.unwrap();
    let (servers, _) = pool.servers_for_move(&b, &b, &cx).await.unwrap();
    let places = (&b, &bench.path("d.txt"));
    servers[0].will_rename(None, places, "move", cx.clock()).await.unwrap();
    pool.will_change(&[bench.path("e.txt")], std::slice::from_ref(&c), &cx).await.unwrap();
    let query = ActionQuery { range: 0..1, only: &[], diagnostics: &[] };
    let actions = pool.code_actions(&doc, &query, &cx).await.unwrap().value;
    let resolved = pool.resolve_action(&doc, &actions[0], &cx).await.unwrap();
    pool.run_command(&resolved.command.unwrap(), &Refusing, &cx).await.unwrap();
    // The commit has a change of every kind.
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
    promises(&initialize["capabilities"], "", &mut declared);
    let table: BTreeSet<String> = TABLE.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(declared, table, "the declared capabilities differ from the table");

    // The server answered all requests, so all were repeated; these are all.
    let record = bench.record("scripted");
    let asked: BTreeSet<&str> = record
        .iter()
        .filter(|message| message.get("id").is_some())
        .filter_map(|message| message["method"].as_str())
        .filter(|method| !matches!(*method, "initialize" | "shutdown" | COMMAND))
        .collect();
    let again = &initialize["capabilities"]["general"]["staleRequestSupport"]["retryOnContentModified"];
    let again: Vec<&str> = again.as_array().unwrap().iter().map(|method| method.as_str().unwrap()).collect();
    assert_eq!(again, Vec::from_iter(asked), "the repeated requests differ from the declared ones");
    let sent: BTreeSet<&str> = record.iter().filter_map(|message| message["method"].as_str()).collect();
    let answers: BTreeMap<&str, &Value> = record
        .iter()
        .filter(|message| message.get("method").is_none())
        .filter_map(|message| Some((message["id"].as_str()?, message)))
        .collect();
    for (name, by) in TABLE {
        match by {
            By::Sent(method) => assert!(sent.contains(method), "{name} is declared, {method} was never sent"),
            By::Answered(method) => {
                let answer = answers.get(method).unwrap_or_else(|| panic!("{method} was not answered"));
                assert!(answer.get("error").is_none(), "{name}: {answer}");
            }
            By::Read(test) => {
                let (file, test) = test.split_once("::").unwrap();
                let directory = if file.starts_with("it/") { "tests/" } else { "" };
                let source = source(&format!("{directory}{file}.rs"));
                assert!(source.contains(&format!("fn {test}(")), "{name}: there is no test {test}");
            }
        }
    }
    let handled: BTreeSet<String> = HANDLED.iter().map(|(method, _)| (*method).to_owned()).collect();
    assert_eq!(
        methods_named(&source("src/server/handler.rs")),
        handled,
        "the handled messages differ from the list"
    );
    for (method, need) in HANDLED {
        assert!(need.is_empty() || declared.contains(*need), "{method} is handled, {need} not declared");
    }
    let saved = &bench.got("scripted", "textDocument/didSave");
    assert_eq!(*saved, [json!({"textDocument": {"uri": bench.uri("a.txt")}, "text": "y y\n"})]);
}

fn source(file: &str) -> String {
    std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

/// The methods of the protocol that a source file names in strings.
fn methods_named(source: &str) -> BTreeSet<String> {
    let code: Vec<&str> = source.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let texts = code.split('"').skip(1).step_by(2);
    let is_method = |text: &&str| {
        text.contains('/') && text.chars().all(|c| c.is_ascii_alphabetic() || c == '/' || c == '$')
    };
    texts.filter(is_method).map(str::to_owned).collect()
}
