//! Types of the protocol.
//!
//! They come from `lsp_types` where those parse real traffic, and from this file where an answer has
//! many forms or a URI stays raw. No other file names `lsp_types`, so that it can be replaced in
//! one place.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::server::snippet;

pub(crate) use lsp_types::{DocumentSymbol, Position, Range, SymbolKind};

/// A range in either of its two forms.
///
/// Not an untagged enum, which would copy the input: answers of many megabytes consist of these.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AnyLocation<'a> {
    #[serde(default, borrow)]
    uri: Option<Uri<'a>>,
    range: Option<Range>,
    #[serde(default, borrow)]
    target_uri: Option<Uri<'a>>,
    target_selection_range: Option<Range>,
}

/// A URI as received.
#[derive(Debug, Deserialize)]
struct Uri<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> AnyLocation<'a> {
    /// The URI and the range; `None` if the value has neither form.
    pub fn parts(self) -> Option<(Cow<'a, str>, Range)> {
        let target = self.target_uri.zip(self.target_selection_range);
        let (Uri(uri), range) = target.or_else(|| self.uri.zip(self.range))?;
        Some((uri, range))
    }
}

/// One, many, or none (`null`).
#[derive(Debug)]
pub(crate) struct Many<T>(Vec<T>);

impl<T> Many<T> {
    pub(crate) fn into_vec(self) -> Vec<T> {
        self.0
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Many<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Reader<T> {
            type Value = Many<T>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("one, a list, or null")
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Many(Vec::new()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some(one) = list.next_element()? {
                    all.push(one);
                }
                Ok(Many(all))
            }

            fn visit_map<A: MapAccess<'de>>(self, one: A) -> Result<Self::Value, A::Error> {
                Ok(Many(vec![T::deserialize(MapAccessDeserializer::new(one))?]))
            }
        }

        deserializer.deserialize_any(Reader(PhantomData))
    }
}

/// `SymbolInformation` and `WorkspaceSymbol`, whose range is optional.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FlatSymbol {
    pub name: String,
    pub kind: SymbolKind,
    pub container_name: Option<String>,
    pub location: SymbolLocation,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct SymbolLocation {
    pub uri: String,
    pub range: Option<Range>,
}

/// The used fields of `CallHierarchyItem` and `TypeHierarchyItem`.
///
/// The whole item is sent back.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HierarchyItem {
    pub name: String,
    pub kind: SymbolKind,
    pub detail: Option<String>,
    pub uri: String,
    pub range: Range,
    pub selection_range: Range,
}

/// `CallHierarchyIncomingCall` and `CallHierarchyOutgoingCall`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CallLink {
    pub from: Option<HierarchyItem>,
    pub to: Option<HierarchyItem>,
    pub from_ranges: Vec<Range>,
}

/// A `DocumentHighlight` of the protocol.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RawHighlight {
    pub range: Range,
    pub kind: Option<u8>,
}

/// A text edit, annotated or not, or a snippet edit as plain text.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Edit {
    pub range: Range,
    new_text: Option<String>,
    insert_text_format: Option<i32>,
    snippet: Option<Snippet>,
    pub annotation_id: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct Snippet {
    value: String,
}

impl Edit {
    /// The text that replaces the range.
    pub fn text(&self) -> String {
        match (&self.snippet, &self.new_text) {
            (Some(snippet), _) => snippet::plain(&snippet.value),
            (None, Some(text)) if self.insert_text_format == Some(2) => snippet::plain(text),
            (None, text) => text.clone().unwrap_or_default(),
        }
    }
}

/// A `WorkspaceEdit` with its operations in order.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawWorkspaceEdit {
    pub changes: Option<BTreeMap<String, Vec<Edit>>>,
    pub document_changes: Option<Vec<DocumentChange>>,
    pub change_annotations: Option<BTreeMap<String, Annotation>>,
}

/// The annotation of a part of an edit.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Annotation {
    pub label: String,
    #[serde(default)]
    pub needs_confirmation: bool,
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
    pub version: Option<i32>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FileOperation {
    #[serde(flatten)]
    pub what: FileKind,
    pub options: Option<Options>,
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

/// A `PublishDiagnosticsParams` of the protocol.
#[derive(Debug, Deserialize)]
pub(crate) struct Published<'a> {
    #[serde(borrow)]
    pub uri: Cow<'a, str>,
    pub version: Option<Value>,
    #[serde(default, borrow)]
    pub diagnostics: Option<&'a RawValue>,
}

/// A `DocumentDiagnosticReport`, with those of related documents by their URI.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report<'a> {
    #[serde(default, borrow)]
    pub kind: Option<Cow<'a, str>>,
    pub result_id: Option<Value>,
    #[serde(default, borrow)]
    pub items: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub related_documents: Option<HashMap<String, Report<'a>>>,
}

/// A `WorkspaceDiagnosticReport` of the protocol.
#[derive(Debug, Deserialize)]
pub(crate) struct WorkspaceReport<'a> {
    #[serde(default, borrow)]
    pub items: Vec<FileReport<'a>>,
}

/// A `WorkspaceDocumentDiagnosticReport` of the protocol.
#[derive(Debug, Deserialize)]
pub(crate) struct FileReport<'a> {
    pub uri: String,
    pub version: Option<i32>,
    #[serde(default, borrow)]
    pub kind: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub items: Option<&'a RawValue>,
}

/// The used fields of a diagnostic; the whole is sent back in code action requests.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RawDiagnostic {
    pub range: Range,
    pub severity: Option<u8>,
    pub code: Option<Value>,
    pub source: Option<String>,
    pub message: Value,
}

/// A lower-case name: `class`, `function`.
pub(crate) fn kind_name(kind: SymbolKind) -> String {
    // `Debug` of the type gives the name of the specification: `Class`, `EnumMember`.
    format!("{kind:?}").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_come_in_many_forms() {
        let read = |text: &str| {
            let all = serde_json::from_str::<Many<AnyLocation<'_>>>(text).unwrap().into_vec();
            let uri = |it: AnyLocation<'_>| Some(it.parts()?.0.into_owned());
            all.into_iter().map(uri).collect::<Vec<_>>()
        };
        let count = |text: &str| read(text).iter().flatten().count();
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
    fn locations_have_one_of_their_forms() {
        let range = r#"{"start":{"line":0,"character":0},"end":{"line":0,"character":1}}"#;
        let read = |text: String| {
            let all = serde_json::from_str::<Many<AnyLocation<'_>>>(&text).unwrap().into_vec();
            all.into_iter().map(|it| Some(it.parts()?.0.into_owned())).collect::<Vec<_>>()
        };
        let link = format!(
            r#"{{"targetUri":"file:///b","targetSelectionRange":{range},"uri":"x","range":{range}}}"#
        );
        let plain = format!(r#"{{"uri":"file:///\u0061","range":{range}}}"#);
        let neither = r#"{"uri":"file:///c"}"#;
        assert_eq!(
            read(format!("[{link},{plain},{neither}]")),
            [Some("file:///b".to_owned()), Some("file:///a".to_owned()), None]
        );
        assert_eq!(read("[]".to_owned()), []);
        assert!(serde_json::from_str::<Many<AnyLocation<'_>>>("3").is_err());
    }

    #[test]
    fn symbol_kinds_have_lower_case_names() {
        assert_eq!(kind_name(SymbolKind::CLASS), "class");
    }
}
