//! What we tell servers that we can do, and what they tell us.
//!
//! Server capabilities stay raw JSON: one field that a newer server writes differently must not make
//! all of them unreadable.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};
use text::PositionEncoding;
use workspace::AbsPath;

use crate::definition::{Feature, merge};
use crate::watchers::Watchers;

/// Questions about one place or one file, which may take a third of the time of a call.
pub(crate) const QUICK: &[&str] = &[
    "textDocument/completion",
    "textDocument/declaration",
    "textDocument/definition",
    "textDocument/documentHighlight",
    "textDocument/documentSymbol",
    "textDocument/hover",
    "textDocument/inlayHint",
    "textDocument/prepareRename",
    "textDocument/signatureHelp",
    "textDocument/typeDefinition",
];

/// Questions that are asked again when the server says that the text changed meanwhile, or that it gave
/// them up. Others may have done something already.
pub(crate) const ASKED_AGAIN: &[&str] = &[
    "callHierarchy/incomingCalls",
    "callHierarchy/outgoingCalls",
    "codeAction/resolve",
    "textDocument/codeAction",
    "textDocument/completion",
    "textDocument/declaration",
    "textDocument/definition",
    "textDocument/diagnostic",
    "textDocument/documentHighlight",
    "textDocument/documentSymbol",
    "textDocument/formatting",
    "textDocument/hover",
    "textDocument/implementation",
    "textDocument/inlayHint",
    "textDocument/prepareCallHierarchy",
    "textDocument/prepareRename",
    "textDocument/prepareTypeHierarchy",
    "textDocument/rangeFormatting",
    "textDocument/references",
    "textDocument/rename",
    "textDocument/signatureHelp",
    "textDocument/typeDefinition",
    "typeHierarchy/subtypes",
    "typeHierarchy/supertypes",
    "workspace/diagnostic",
    "workspace/symbol",
    "workspace/willCreateFiles",
    "workspace/willDeleteFiles",
    "workspace/willRenameFiles",
    "workspaceSymbol/resolve",
];

/// Our side, in one table (LSP 3.17 §ClientCapabilities); `over` is laid on it.
pub(crate) fn client(over: &Value) -> Value {
    // What a server registers later than it says so is missed by the first question, so dynamic
    // registration is offered only where there is no other way.
    let dynamic = json!({"dynamicRegistration": true});
    let plain = json!({"dynamicRegistration": false});
    let links = json!({"dynamicRegistration": false, "linkSupport": true});
    let kinds: Vec<u8> = (1..=26).collect();
    let completions: Vec<u8> = (1..=25).collect();
    let mut capabilities = json!({
        "general": {
            "positionEncodings": ["utf-8", "utf-16", "utf-32"],
            "staleRequestSupport": {"cancel": true, "retryOnContentModified": ASKED_AGAIN},
        },
        "workspace": {
            "applyEdit": true,
            "workspaceEdit": {
                "documentChanges": true,
                "resourceOperations": ["create", "rename", "delete"],
                "failureHandling": "transactional",
                "normalizesLineEndings": true,
                "changeAnnotationSupport": {"groupsOnLabel": false},
            },
            "didChangeConfiguration": dynamic,
            "didChangeWatchedFiles": {"dynamicRegistration": true, "relativePatternSupport": true},
            "symbol": {
                "dynamicRegistration": false,
                "symbolKind": {"valueSet": kinds},
                "resolveSupport": {"properties": ["location.range"]},
            },
            "executeCommand": plain,
            "configuration": true,
            "workspaceFolders": true,
            "fileOperations": {
                "dynamicRegistration": false,
                "willCreate": true,
                "didCreate": true,
                "willRename": true,
                "didRename": true,
                "willDelete": true,
                "didDelete": true,
            },
            "diagnostics": {"refreshSupport": true},
            "inlayHint": {"refreshSupport": true},
        },
        "textDocument": {
            "synchronization": {"dynamicRegistration": false, "didSave": true},
            "definition": links,
            "declaration": links,
            "typeDefinition": links,
            "implementation": links,
            "references": plain,
            "documentHighlight": plain,
            "callHierarchy": plain,
            "typeHierarchy": plain,
            "inlayHint": plain,
            "signatureHelp": {
                "dynamicRegistration": false,
                "signatureInformation": {
                    "documentationFormat": ["markdown", "plaintext"],
                    "parameterInformation": {"labelOffsetSupport": true},
                    "activeParameterSupport": true,
                },
            },
            "completion": {
                "dynamicRegistration": false,
                "completionItem": {
                    "snippetSupport": false,
                    "deprecatedSupport": true,
                    "tagSupport": {"valueSet": [1]},
                    "labelDetailsSupport": true,
                },
                "completionItemKind": {"valueSet": completions},
                "contextSupport": true,
            },
            "hover": {"dynamicRegistration": false, "contentFormat": ["markdown", "plaintext"]},
            "documentSymbol": {
                "dynamicRegistration": false,
                "symbolKind": {"valueSet": kinds},
                "hierarchicalDocumentSymbolSupport": true,
            },
            "rename": {
                "dynamicRegistration": false,
                "prepareSupport": true,
                "prepareSupportDefaultBehavior": 1,
                "honorsChangeAnnotations": true,
            },
            "formatting": plain,
            "rangeFormatting": plain,
            "codeAction": {
                "dynamicRegistration": false,
                "codeActionLiteralSupport": {"codeActionKind": {"valueSet": [
                    "", "quickfix", "refactor", "refactor.extract", "refactor.inline", "refactor.move",
                    "refactor.rewrite", "source", "source.organizeImports", "source.fixAll"
                ]}},
                "isPreferredSupport": true,
                "disabledSupport": true,
                "dataSupport": true,
                "resolveSupport": {"properties": ["edit", "command"]},
                "honorsChangeAnnotations": true,
            },
            "publishDiagnostics": {
                "versionSupport": true,
                "relatedInformation": true,
                "codeDescriptionSupport": true,
                "dataSupport": true,
                "tagSupport": {"valueSet": [1, 2]},
            },
            "diagnostic": {"dynamicRegistration": false, "relatedDocumentSupport": true},
        },
        "window": {
            "workDoneProgress": true,
            "showMessage": {"messageActionItem": {"additionalPropertiesSupport": false}},
            "showDocument": {"support": true},
        },
        "experimental": {"snippetTextEdit": true},
    });
    merge(&mut capabilities, over.clone());
    capabilities
}

/// What a server offers: what it said at `initialize`, and what it registered since.
#[derive(Debug, Default)]
pub(crate) struct Capabilities {
    server: Value,
    registered: HashMap<String, (String, Value)>,
    /// What it watches, since it was asked for last.
    watchers: Option<Arc<Watchers>>,
}

impl Capabilities {
    pub fn initialized(&mut self, server: Value) {
        self.server = server;
    }

    /// What it said at `initialize`.
    pub fn raw(&self) -> &Value {
        &self.server
    }

    /// One field of that; `None` where it is not there.
    pub fn server(&self, key: &str) -> Option<&Value> {
        self.server.get(key).filter(|value| !value.is_null())
    }

    /// `client/registerCapability`.
    pub fn register(&mut self, id: &str, method: &str, options: Value) {
        self.watchers = None;
        self.registered.insert(id.to_owned(), (method.to_owned(), options));
    }

    /// `client/unregisterCapability`.
    pub fn unregister(&mut self, id: &str) {
        self.watchers = None;
        self.registered.remove(id);
    }

    pub fn encoding(&self) -> PositionEncoding {
        // Some clangd versions say it outside the capabilities' proper place; only the place counts.
        match self.server["positionEncoding"].as_str() {
            Some("utf-8") => PositionEncoding::Utf8,
            Some("utf-32") => PositionEncoding::Utf32,
            _ => PositionEncoding::Utf16,
        }
    }

    /// Options of every registration of `method`.
    pub fn registrations(&self, method: &str) -> Vec<&Value> {
        self.registered.values().filter(|(name, _)| name == method).map(|(_, options)| options).collect()
    }

    /// The files that it asked to hear of; `root` is its own.
    pub fn watchers(&mut self, root: &AbsPath) -> Arc<Watchers> {
        if let Some(watchers) = &self.watchers {
            return Arc::clone(watchers);
        }
        let options = self.registrations("workspace/didChangeWatchedFiles").into_iter();
        let watchers = Arc::new(Watchers::new(options, root));
        self.watchers = Some(Arc::clone(&watchers));
        watchers
    }

    /// The options of a provider, static or registered; `None` when it is not offered.
    pub fn provider(&self, key: &str, method: &str) -> Option<&Value> {
        let fixed = key.split('.').try_fold(&self.server, |value, part| value.get(part));
        match fixed {
            Some(Value::Null | Value::Bool(false)) | None => self.registrations(method).into_iter().next(),
            Some(options) => Some(options),
        }
    }

    /// Whether requests of `feature` can be sent. Diagnostics need no capability: they are pushed.
    pub fn offers(&self, feature: Feature) -> bool {
        asked_by(feature).is_none_or(|(key, method)| {
            self.provider(key, method).is_some_and(|options| is_of_its_kinds(options, feature))
        })
    }

    /// Whether folders can be added while it runs.
    pub fn takes_folders(&self) -> bool {
        let folders = &self.server["workspace"]["workspaceFolders"];
        let told = match &folders["changeNotifications"] {
            Value::Bool(told) => *told,
            Value::String(id) => !id.is_empty(),
            _ => !self.registrations("workspace/didChangeWorkspaceFolders").is_empty(),
        };
        folders["supported"] == Value::Bool(true) && told
    }

    /// How a server wants to hear that a document was saved; `None`: not at all.
    pub fn save(&self) -> Option<Value> {
        let fixed = match &self.server["textDocumentSync"]["save"] {
            Value::Bool(true) => Some(json!({})),
            options @ Value::Object(_) => Some(options.clone()),
            // A bare number is the old form, of servers that hear of everything, saves included.
            _ if self.server["textDocumentSync"].as_u64().is_some_and(|kind| kind > 0) => Some(json!({})),
            _ => None,
        };
        fixed.or_else(|| self.registrations("textDocument/didSave").first().map(|options| (*options).clone()))
    }

    /// Whether documents are to be opened at all, and whether changes may be sent as ranges.
    pub fn sync(&self) -> (bool, bool) {
        let sync = &self.server["textDocumentSync"];
        let kind = sync.as_u64().or(sync["change"].as_u64()).unwrap_or(0);
        let open = sync.is_u64() && kind > 0
            || sync["openClose"].as_bool().unwrap_or(kind > 0)
            || !self.registrations("textDocument/didOpen").is_empty();
        let incremental = kind == 2
            || self.registrations("textDocument/didChange").iter().any(|options| options["syncKind"] == 2);
        (open, incremental)
    }
}

/// Under which key a server says that it offers a feature, and the method that asks for it; `None` for
/// diagnostics.
fn asked_by(feature: Feature) -> Option<(&'static str, &'static str)> {
    Some(match feature {
        Feature::Definition => ("definitionProvider", "textDocument/definition"),
        Feature::Declaration => ("declarationProvider", "textDocument/declaration"),
        Feature::TypeDefinition => ("typeDefinitionProvider", "textDocument/typeDefinition"),
        Feature::Implementation => ("implementationProvider", "textDocument/implementation"),
        Feature::Signature => ("signatureHelpProvider", "textDocument/signatureHelp"),
        Feature::Highlights => ("documentHighlightProvider", "textDocument/documentHighlight"),
        Feature::CallHierarchy => ("callHierarchyProvider", "textDocument/prepareCallHierarchy"),
        Feature::TypeHierarchy => ("typeHierarchyProvider", "textDocument/prepareTypeHierarchy"),
        Feature::Completion => ("completionProvider", "textDocument/completion"),
        Feature::InlayHints => ("inlayHintProvider", "textDocument/inlayHint"),
        Feature::References => ("referencesProvider", "textDocument/references"),
        Feature::Hover => ("hoverProvider", "textDocument/hover"),
        Feature::Symbols => ("documentSymbolProvider", "textDocument/documentSymbol"),
        Feature::WorkspaceSymbols => ("workspaceSymbolProvider", "workspace/symbol"),
        Feature::Rename => ("renameProvider", "textDocument/rename"),
        Feature::RenameFile => ("workspace.fileOperations.willRename", "workspace/willRenameFiles"),
        Feature::OrganizeImports | Feature::CodeAction | Feature::FixAll => {
            ("codeActionProvider", "textDocument/codeAction")
        }
        Feature::Format => ("documentFormattingProvider", "textDocument/formatting"),
        Feature::Diagnostics => return None,
    })
}

/// Whether a feature that is some kind of code action is among those that a server lists; one that lists none
/// may have any.
fn is_of_its_kinds(options: &Value, feature: Feature) -> bool {
    let wanted: &[&str] = match feature {
        Feature::OrganizeImports => &["source.organizeImports"],
        Feature::FixAll => &["source.fixAll", "quickfix"],
        _ => return true,
    };
    let kinds = options["codeActionKinds"].as_array().into_iter().flatten();
    // The empty kind, beside others, says nothing of any (rust-analyzer 1.96).
    let kinds: Vec<&str> = kinds.filter_map(Value::as_str).filter(|kind| !kind.is_empty()).collect();
    let below = |kind: &str, outer: &str| {
        kind.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    kinds.is_empty() || kinds.iter().any(|kind| wanted.iter().any(|it| below(kind, it) || below(it, kind)))
}

/// The feature that a method alone asks one server for; `None` where all servers of a file may have
/// something to say.
pub(crate) fn feature_of(method: &str) -> Option<Feature> {
    let mut features = Feature::ALL.iter().filter(|it| asked_by(**it).is_some_and(|(_, by)| by == method));
    let feature = features.next().filter(|it| **it != Feature::RenameFile)?;
    features.next().is_none().then_some(*feature)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_table_is_what_the_types_of_the_specification_allow() {
        let ours = client(&json!({}));
        let typed: lsp_types::ClientCapabilities = serde_json::from_value(ours.clone()).unwrap();
        let back = serde_json::to_value(typed).unwrap();
        // Every key that we wrote is known to the types.
        fn lost(ours: &Value, back: &Value, at: &str, out: &mut Vec<String>) {
            if let Value::Object(map) = ours {
                for (key, value) in map {
                    match back.get(key) {
                        None => out.push(format!("{at}.{key}")),
                        Some(back) => lost(value, back, &format!("{at}.{key}"), out),
                    }
                }
            }
        }
        let mut out = Vec::new();
        lost(&ours, &back, "", &mut out);
        assert_eq!(out, Vec::<String>::new());
    }

    #[test]
    fn providers_are_static_or_registered() {
        let mut capabilities = Capabilities::default();
        capabilities
            .initialized(json!({"renameProvider": false, "hoverProvider": {}, "textDocumentSync": 2}));
        assert!(capabilities.offers(Feature::Hover));
        assert!(!capabilities.offers(Feature::Rename));
        capabilities.register("1", "textDocument/rename", json!({"prepareProvider": true}));
        assert_eq!(
            capabilities.provider("renameProvider", "textDocument/rename").unwrap()["prepareProvider"],
            true
        );
        capabilities.unregister("1");
        assert!(!capabilities.offers(Feature::Rename));
        assert_eq!((capabilities.sync(), capabilities.save()), ((true, true), Some(json!({}))));
        capabilities.initialized(json!({"textDocumentSync": {"openClose": true, "change": 1}}));
        assert_eq!((capabilities.sync(), capabilities.save()), ((true, false), None));
        capabilities.initialized(json!({}));
        assert_eq!(capabilities.sync(), (false, false));
    }

    #[test]
    fn imports_are_organized_by_who_lists_that_among_its_actions_or_lists_none() {
        let offers = |provider: Value| {
            let mut capabilities = Capabilities::default();
            capabilities.initialized(json!({"codeActionProvider": provider}));
            [Feature::CodeAction, Feature::OrganizeImports, Feature::FixAll].map(|it| capabilities.offers(it))
        };
        let kinds = |kinds: &[&str]| json!({"codeActionKinds": kinds});
        assert_eq!(offers(json!(true)), [true, true, true]);
        assert_eq!(offers(json!(false)), [false, false, false]);
        assert_eq!(offers(kinds(&[])), [true, true, true]);
        assert_eq!(offers(kinds(&["", "refactor"])), [true, false, false]);
        assert_eq!(offers(kinds(&["quickfix", "source.organizeImports.ts"])), [true, true, true]);
        assert_eq!(offers(kinds(&["source"])), [true, true, true]);
        assert_eq!(offers(kinds(&["source.organizeImportsNot"])), [true, false, false]);
    }

    #[test]
    fn folders_are_added_only_where_they_are_taken() {
        let takes = |folders: Value| {
            let mut capabilities = Capabilities::default();
            capabilities.initialized(json!({"workspace": {"workspaceFolders": folders}}));
            capabilities.takes_folders()
        };
        assert!(takes(json!({"supported": true, "changeNotifications": true})));
        assert!(takes(
            json!({"supported": true, "changeNotifications": "workspace/didChangeWorkspaceFolders"})
        ));
        assert!(!takes(json!({"supported": true})));
        assert!(!takes(json!({"supported": false, "changeNotifications": true})));
        assert!(!takes(Value::Null));
    }
}
