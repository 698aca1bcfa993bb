//! Client and server capabilities.
//!
//! Server capabilities stay raw JSON: otherwise one field of an unknown form would make all others
//! unreadable.

use std::collections::HashMap;
use std::sync::Arc;

use paths::AbsPath;
use serde_json::{Value, json};
use text::PositionEncoding;

use crate::files::watchers::Watchers;
use crate::server::request_table::{Request, RequestTable};
use adapters::{Feature, merge};

/// The client's capabilities in one table, with `over` merged into it.
///
/// See LSP 3.17 §ClientCapabilities.
pub(crate) fn client(requests: RequestTable, over: &Value) -> Value {
    // The first request may miss a capability that a server registers later, so the table offers dynamic
    // registration only where there is no other way.
    let mut capabilities: Value =
        serde_json::from_str(include_str!("client_capabilities.json")).expect("the table is JSON");
    let mut repeated: Vec<&str> = requests.repeated().collect();
    repeated.sort_unstable();
    repeated.dedup();
    capabilities["general"]["staleRequestSupport"]["retryOnContentModified"] = json!(repeated);
    for (key, announced) in requests.announced() {
        capabilities["textDocument"][key] = announced;
    }
    merge(&mut capabilities, over.clone());
    capabilities
}

/// The capabilities of a server: from `initialize`, and registered since.
#[derive(Debug, Default)]
pub(crate) struct Capabilities {
    requests: RequestTable,
    server: Value,
    registered: HashMap<String, (String, Value)>,
    /// The watched files that the last call computed.
    watchers: Option<Arc<Watchers>>,
}

impl Capabilities {
    pub fn new(requests: RequestTable) -> Self {
        Self { requests, ..Self::default() }
    }

    pub fn initialized(&mut self, server: Value) {
        self.server = server;
    }

    /// The capabilities in the answer to `initialize`.
    pub fn raw(&self) -> &Value {
        &self.server
    }

    /// One field of the answer to `initialize`; `None` if it is missing.
    pub fn server(&self, key: &str) -> Option<&Value> {
        self.server.get(key).filter(|value| !value.is_null())
    }

    /// Handles `client/registerCapability`.
    pub fn register(&mut self, id: &str, method: &str, options: Value) {
        self.watchers = None;
        self.registered.insert(id.to_owned(), (method.to_owned(), options));
    }

    /// Handles `client/unregisterCapability`.
    pub fn unregister(&mut self, id: &str) {
        self.watchers = None;
        self.registered.remove(id);
    }

    pub fn encoding(&self) -> PositionEncoding {
        // Some clangd versions send the field in the wrong place, which is ignored.
        match self.server["positionEncoding"].as_str() {
            Some("utf-8") => PositionEncoding::Utf8,
            Some("utf-32") => PositionEncoding::Utf32,
            _ => PositionEncoding::Utf16,
        }
    }

    /// The options of every registration of `method`.
    pub fn registrations(&self, method: &str) -> Vec<&Value> {
        self.registered.values().filter(|(name, _)| name == method).map(|(_, options)| options).collect()
    }

    /// The files that the server registered to watch; `root` is the server's root.
    pub fn watchers(&mut self, root: &AbsPath) -> Arc<Watchers> {
        if let Some(watchers) = &self.watchers {
            return Arc::clone(watchers);
        }
        let options = self.registrations("workspace/didChangeWatchedFiles").into_iter();
        let watchers = Arc::new(Watchers::new(options, root));
        self.watchers = Some(Arc::clone(&watchers));
        watchers
    }

    /// The options of a provider, static or registered; `None` if it is not offered.
    pub fn provider(&self, key: &str, method: &str) -> Option<&Value> {
        let fixed = key.split('.').try_fold(&self.server, |value, part| value.get(part));
        match fixed {
            Some(Value::Null | Value::Bool(false)) | None => self.registrations(method).into_iter().next(),
            Some(options) => Some(options),
        }
    }

    /// Whether requests of `feature` can be sent.
    ///
    /// Diagnostics need no capability: they are published.
    pub fn offers(&self, feature: Feature) -> bool {
        self.requests.of_feature(feature).is_none_or(|request| self.offers_request(request))
    }

    /// Whether a request can be sent.
    pub(crate) fn offers_request(&self, request: &Request) -> bool {
        let Some(key) = request.provider else { return true };
        self.provider(key, request.method).is_some_and(|options| is_of_its_kinds(options, request.feature))
    }

    /// Whether workspace folders can be added while the server runs.
    pub(crate) fn takes_folders(&self) -> bool {
        let folders = &self.server["workspace"]["workspaceFolders"];
        let notified = match &folders["changeNotifications"] {
            Value::Bool(notified) => *notified,
            Value::String(id) => !id.is_empty(),
            _ => !self.registrations("workspace/didChangeWorkspaceFolders").is_empty(),
        };
        folders["supported"] == Value::Bool(true) && notified
    }

    /// The options of `didSave`; `None`: the server takes no such notification.
    pub fn save(&self) -> Option<Value> {
        let fixed = match &self.server["textDocumentSync"]["save"] {
            Value::Bool(true) => Some(json!({})),
            options @ Value::Object(_) => Some(options.clone()),
            // A bare number is the old form; such servers accept all notifications, including
            // saves.
            _ if self.server["textDocumentSync"].as_u64().is_some_and(|kind| kind > 0) => Some(json!({})),
            _ => None,
        };
        fixed.or_else(|| self.registrations("textDocument/didSave").first().map(|options| (*options).clone()))
    }

    /// Whether documents are opened at all, and whether changes may be sent as ranges.
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

/// Whether a server may offer a kind of code action.
///
/// A server without a list may offer any.
fn is_of_its_kinds(options: &Value, feature: Option<Feature>) -> bool {
    let wanted: &[&str] = match feature {
        Some(Feature::OrganizeImports) => &["source.organizeImports"],
        Some(Feature::FixAll) => &["source.fixAll", "quickfix"],
        _ => return true,
    };
    let kinds = options["codeActionKinds"].as_array().into_iter().flatten();
    // An empty kind in the list means nothing (rust-analyzer 1.96).
    let kinds: Vec<&str> = kinds.filter_map(Value::as_str).filter(|kind| !kind.is_empty()).collect();
    let below = |kind: &str, outer: &str| {
        kind.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    kinds.is_empty() || kinds.iter().any(|kind| wanted.iter().any(|it| below(kind, it) || below(it, kind)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::REQUESTS;

    #[test]
    fn client_capabilities_match_the_specification() {
        let ours = client(REQUESTS, &json!({}));
        let typed: lsp_types::ClientCapabilities = serde_json::from_value(ours.clone()).unwrap();
        let back = serde_json::to_value(typed).unwrap();
        // The types of `lsp_types` know all keys of the table.
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
        let mut capabilities = Capabilities::new(REQUESTS);
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
    fn organize_imports_needs_the_kind_or_no_list() {
        let offers = |provider: Value| {
            let mut capabilities = Capabilities::new(REQUESTS);
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
    fn workspace_folders_are_added_where_supported() {
        let takes = |folders: Value| {
            let mut capabilities = Capabilities::new(REQUESTS);
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
