//! Who the client is and how it is to be spoken to: facts from `initialize`, and what is known of
//! an editor as data (`docs/formats/editor-definition.md`).

use serde_json::Value;
use text::PositionEncoding;

/// What a client said of itself at `initialize`.
#[derive(Debug, Clone)]
pub struct ClientFacts {
    /// `clientInfo.name`, empty when it gave none.
    pub name: String,
    /// `clientInfo.version`.
    pub version: Option<String>,
    /// The unit in which both sides count characters: UTF-8 if offered, else UTF-16. To be answered
    /// as `capabilities.positionEncoding`.
    pub position_encoding: PositionEncoding,
    /// It takes `workspace/applyEdit`.
    pub apply_edit: bool,
    /// It says that it takes versioned edits.
    pub document_changes: bool,
    /// File operations it takes: `create`, `rename`, `delete`.
    pub resource_operations: Vec<String>,
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
        let utf8 = offered.iter().any(|encoding| encoding == "utf-8");
        let edit = &capabilities["workspace"]["workspaceEdit"];
        Self {
            name: text(&params["clientInfo"]["name"]).unwrap_or_default(),
            version: text(&params["clientInfo"]["version"]),
            position_encoding: if utf8 { PositionEncoding::Utf8 } else { PositionEncoding::Utf16 },
            apply_edit: capabilities["workspace"]["applyEdit"].as_bool() == Some(true),
            document_changes: edit["documentChanges"].as_bool() == Some(true),
            resource_operations: texts(&edit["resourceOperations"]),
        }
    }

    /// As `capabilities.positionEncoding` of the answer to `initialize` spells it.
    pub fn encoding_name(&self) -> &'static str {
        match self.position_encoding {
            PositionEncoding::Utf8 => "utf-8",
            PositionEncoding::Utf16 => "utf-16",
            PositionEncoding::Utf32 => "utf-32",
        }
    }
}
