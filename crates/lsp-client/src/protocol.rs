//! The protocol's shapes that are read here: from `lsp_types` where those read real traffic, our own
//! where an answer has many forms or a URI must be taken as it comes.
//!
//! `lsp_types` is named in no other file, so that it can be replaced in one place.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::snippet;

pub(crate) use lsp_types::{DocumentSymbol, Position, Range, SymbolKind};

/// A range in a file, whichever of the two forms it came in.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum AnyLocation {
    Link {
        #[serde(rename = "targetUri")]
        uri: String,
        #[serde(rename = "targetSelectionRange")]
        range: Range,
    },
    Plain {
        uri: String,
        range: Range,
    },
}

impl AnyLocation {
    pub fn parts(self) -> (String, Range) {
        match self {
            Self::Link { uri, range } | Self::Plain { uri, range } => (uri, range),
        }
    }
}

/// One, many, or none (`null`).
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Many<T> {
    Several(Vec<T>),
    One(T),
    None,
}

impl<T> Many<T> {
    pub fn into_vec(self) -> Vec<T> {
        match self {
            Self::Several(items) => items,
            Self::One(item) => vec![item],
            Self::None => Vec::new(),
        }
    }
}

/// `SymbolInformation` and `WorkspaceSymbol`, whose range may be left out.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FlatSymbol {
    pub name: String,
    pub kind: SymbolKind,
    #[serde(default)]
    pub container_name: Option<String>,
    pub location: SymbolLocation,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct SymbolLocation {
    pub uri: String,
    #[serde(default)]
    pub range: Option<Range>,
}

/// `CallHierarchyItem` and `TypeHierarchyItem`, in the parts that are shown; the whole goes back.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HierarchyItem {
    pub name: String,
    pub kind: SymbolKind,
    #[serde(default)]
    pub detail: Option<String>,
    pub uri: String,
    pub range: Range,
    pub selection_range: Range,
}

/// `CallHierarchyIncomingCall` and `CallHierarchyOutgoingCall`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CallLink {
    #[serde(default)]
    pub from: Option<HierarchyItem>,
    #[serde(default)]
    pub to: Option<HierarchyItem>,
    pub from_ranges: Vec<Range>,
}

/// `DocumentHighlight`.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RawHighlight {
    pub range: Range,
    #[serde(default)]
    pub kind: Option<u8>,
}

/// A text edit, annotated or not, or a snippet edit, which is taken as plain text.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Edit {
    pub range: Range,
    #[serde(default)]
    new_text: Option<String>,
    #[serde(default)]
    insert_text_format: Option<i32>,
    #[serde(default)]
    snippet: Option<Snippet>,
    #[serde(default)]
    pub annotation_id: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct Snippet {
    value: String,
}

impl Edit {
    /// What stands in the range afterwards.
    pub fn text(&self) -> String {
        match (&self.snippet, &self.new_text) {
            (Some(snippet), _) => snippet::plain(&snippet.value),
            (None, Some(text)) if self.insert_text_format == Some(2) => snippet::plain(text),
            (None, text) => text.clone().unwrap_or_default(),
        }
    }
}

/// `WorkspaceEdit`, its operations in order.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawWorkspaceEdit {
    #[serde(default)]
    pub changes: Option<BTreeMap<String, Vec<Edit>>>,
    #[serde(default)]
    pub document_changes: Option<Vec<DocumentChange>>,
    #[serde(default)]
    pub change_annotations: Option<BTreeMap<String, Annotation>>,
}

/// What a server says about a part of its edit.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Annotation {
    pub label: String,
    #[serde(default)]
    pub needs_confirmation: bool,
    #[serde(default)]
    pub description: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum DocumentChange {
    Operation(FileOperation),
    #[serde(rename_all = "camelCase")]
    Edit {
        text_document: VersionedDocument,
        edits: Vec<Edit>,
    },
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct VersionedDocument {
    pub uri: String,
    #[serde(default)]
    pub version: Option<i32>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FileOperation {
    #[serde(flatten)]
    pub what: FileKind,
    #[serde(default)]
    pub options: Option<Options>,
    #[serde(default)]
    pub annotation_id: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(crate) enum FileKind {
    Create {
        uri: String,
    },
    #[serde(rename_all = "camelCase")]
    Rename {
        old_uri: String,
        new_uri: String,
    },
    Delete {
        uri: String,
    },
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Options {
    pub overwrite: Option<bool>,
    pub ignore_if_exists: Option<bool>,
    pub ignore_if_not_exists: Option<bool>,
    pub recursive: Option<bool>,
}

/// `PublishDiagnosticsParams`.
#[derive(Debug, Deserialize)]
pub(crate) struct Published<'a> {
    #[serde(borrow)]
    pub uri: Cow<'a, str>,
    #[serde(default)]
    pub version: Option<Value>,
    #[serde(default, borrow)]
    pub diagnostics: Option<&'a RawValue>,
}

/// `DocumentDiagnosticReport`, and those of related documents by their URI.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report<'a> {
    #[serde(default, borrow)]
    pub kind: Option<Cow<'a, str>>,
    #[serde(default)]
    pub result_id: Option<Value>,
    #[serde(default, borrow)]
    pub items: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub related_documents: Option<HashMap<String, Report<'a>>>,
}

/// `WorkspaceDiagnosticReport`.
#[derive(Debug, Deserialize)]
pub(crate) struct WorkspaceReport<'a> {
    #[serde(default, borrow)]
    pub items: Vec<FileReport<'a>>,
}

/// `WorkspaceDocumentDiagnosticReport`.
#[derive(Debug, Deserialize)]
pub(crate) struct FileReport<'a> {
    pub uri: String,
    #[serde(default)]
    pub version: Option<i32>,
    #[serde(default, borrow)]
    pub kind: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub items: Option<&'a RawValue>,
}

/// A diagnostic, in the parts that are shown; the whole goes back to the server in code actions.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RawDiagnostic {
    pub range: Range,
    #[serde(default)]
    pub severity: Option<u8>,
    #[serde(default)]
    pub code: Option<Value>,
    #[serde(default)]
    pub source: Option<String>,
    pub message: Value,
}

/// A name for people, in lower case: `class`, `function`.
pub(crate) fn kind_name(kind: SymbolKind) -> String {
    // `Debug` of the type gives the name of the specification: `Class`, `EnumMember`.
    format!("{kind:?}").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_come_in_many_forms() {
        let count = |text: &str| serde_json::from_str::<Many<AnyLocation>>(text).unwrap().into_vec().len();
        let range = r#"{"start":{"line":0,"character":0},"end":{"line":0,"character":1}}"#;
        assert_eq!(count("null"), 0);
        assert_eq!(count(&format!(r#"{{"uri":"file:///a","range":{range}}}"#)), 1);
        assert_eq!(
            count(&format!(
                r#"[{{"targetUri":"file:///a","targetRange":{range},"targetSelectionRange":{range}}}]"#
            )),
            1
        );
    }

    #[test]
    fn kinds_have_names() {
        assert_eq!(kind_name(SymbolKind::CLASS), "class");
    }
}
