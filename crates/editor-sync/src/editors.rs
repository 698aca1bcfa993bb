//! The client's name and capabilities, from `initialize`.

use std::sync::Arc;

use adapters::EditorDefinition;
use serde_json::Value;
use text::PositionEncoding;

/// The client's parameters of `initialize`.
#[derive(Debug, Clone)]
pub struct ClientFacts {
    /// `clientInfo.name`; empty if the client gave none.
    pub name: String,
    /// `clientInfo.version`.
    pub version: Option<String>,
    /// The encoding of positions, answered as `capabilities.positionEncoding`.
    /// UTF-8 if the client offers it, else UTF-16 if it offers that or nothing, else UTF-32.
    pub position_encoding: PositionEncoding,
    /// Whether it supports `workspace/applyEdit`.
    pub apply_edit: bool,
    /// Whether it announces support for versioned edits.
    pub document_changes: bool,
    /// Supported file operations: `create`, `rename`, `delete`.
    pub resource_operations: Vec<String>,
    pub editor: Arc<EditorDefinition>,
}

impl ClientFacts {
    /// Reads the parameters of `initialize`.
    pub fn from_initialize(params: &Value) -> Self {
        let capabilities = &params["capabilities"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let texts = |value: &Value| -> Vec<String> {
            value.as_array().into_iter().flatten().filter_map(text).collect()
        };
        let offered = texts(&capabilities["general"]["positionEncodings"]);
        let offers = |name: &str| offered.iter().any(|encoding| encoding == name);
        let position_encoding = if offers("utf-8") {
            PositionEncoding::Utf8
        } else if offers("utf-32") && !offers("utf-16") {
            PositionEncoding::Utf32
        } else {
            PositionEncoding::Utf16
        };
        let edit = &capabilities["workspace"]["workspaceEdit"];
        let name = text(&params["clientInfo"]["name"]).unwrap_or_default();
        Self {
            version: text(&params["clientInfo"]["version"]),
            position_encoding,
            apply_edit: capabilities["workspace"]["applyEdit"].as_bool() == Some(true),
            document_changes: edit["documentChanges"].as_bool() == Some(true),
            resource_operations: texts(&edit["resourceOperations"]),
            editor: EditorDefinition::for_client(&name),
            name,
        }
    }

    /// The name of the encoding in `capabilities.positionEncoding`.
    pub fn encoding_name(&self) -> &'static str {
        match self.position_encoding {
            PositionEncoding::Utf8 => "utf-8",
            PositionEncoding::Utf16 => "utf-16",
            PositionEncoding::Utf32 => "utf-32",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_encoding_is_one_the_client_offers() {
        let chosen = |offered: Value| {
            let params = json!({ "capabilities": { "general": { "positionEncodings": offered } } });
            ClientFacts::from_initialize(&params).encoding_name()
        };
        assert_eq!(chosen(json!(["utf-16"])), "utf-16");
        assert_eq!(chosen(json!(["utf-16", "utf-32", "utf-8"])), "utf-8");
        assert_eq!(chosen(json!(["utf-32"])), "utf-32");
        assert_eq!(chosen(Value::Null), "utf-16");
    }
}
