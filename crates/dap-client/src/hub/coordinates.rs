//! Conversion of lines, columns and paths between a client and the adapter.
//!
//! The adapter uses lines and columns from 1, and plain paths. Pure. Knows the members with
//! positions of each message (DAP 1.71); others stay unchanged.

use std::path::Path;

use serde_json::{Value, json};

use crate::client::envelope::{Envelope, Kind};

/// Numbering and file names of a client (DAP §InitializeRequestArguments).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coordinates {
    /// Whether its first line is 1 rather than 0.
    pub lines_from_1: bool,
    /// Whether its first column is 1 rather than 0.
    pub columns_from_1: bool,
    /// Whether its paths are URIs.
    pub uris: bool,
}

impl Coordinates {
    /// The coordinates of all adapters.
    pub(crate) const ADAPTER: Self = Self { lines_from_1: true, columns_from_1: true, uris: false };

    /// Reads the arguments of `initialize`.
    ///
    /// A missing member has the protocol's default.
    pub fn read(arguments: &Value) -> Self {
        Self {
            lines_from_1: arguments["linesStartAt1"].as_bool().unwrap_or(true),
            columns_from_1: arguments["columnsStartAt1"].as_bool().unwrap_or(true),
            uris: arguments["pathFormat"] == "uri",
        }
    }

    /// Converts a message of this client for the adapter.
    pub fn to_adapter(self, message: &mut Envelope) {
        self.convert(message, true);
    }

    /// Converts a message of the adapter for this client.
    pub(crate) fn to_client(self, message: &mut Envelope) {
        self.convert(message, false);
    }

    fn convert(self, message: &mut Envelope, inward: bool) {
        if self == Self::ADAPTER {
            return;
        }
        let positions = positions(message.kind, &message.name);
        if positions.is_empty() {
            return;
        }
        let mut content = message.content();
        for path in positions {
            each(&mut content, path, &mut |value| self.position(value, inward));
        }
        message.set_content(&content);
    }

    /// Converts one object that holds a position, or a source.
    fn position(self, value: &mut Value, inward: bool) {
        let Value::Object(members) = value else { return };
        let sign = if inward { 1 } else { -1 };
        let shift = |from_1: bool| if from_1 { 0 } else { sign };
        for (name, offset) in [
            ("line", shift(self.lines_from_1)),
            ("endLine", shift(self.lines_from_1)),
            ("column", shift(self.columns_from_1)),
            ("endColumn", shift(self.columns_from_1)),
            ("start", shift(self.columns_from_1)),
        ] {
            if let Some(number) = members.get(name).and_then(Value::as_i64).filter(|_| offset != 0) {
                // A frame without a source has line 0, which does not change.
                members.insert(name.to_owned(), json!((number + offset).max(0)));
            }
        }
        if let Some(lines) = members.get_mut("lines").and_then(Value::as_array_mut) {
            for line in lines {
                if let Some(number) = line.as_i64() {
                    *line = json!((number + shift(self.lines_from_1)).max(0));
                }
            }
        }
        for name in ["source", "location"] {
            if let Some(source) = members.get_mut(name) {
                self.source(source, inward);
            }
        }
        if self.uris && members.contains_key("path") {
            self.source(value, inward);
        }
    }

    fn source(self, source: &mut Value, inward: bool) {
        if !self.uris {
            return;
        }
        if let Some(path) = source["path"].as_str() {
            let converted = if inward {
                paths::uri_to_path(path).map(|path| path.to_string_lossy().into_owned())
            } else {
                Path::new(path).is_absolute().then(|| paths::path_to_uri(Path::new(path)))
            };
            if let Some(converted) = converted {
                source["path"] = json!(converted);
            }
        }
        if let Some(sources) = source.get_mut("sources").and_then(Value::as_array_mut) {
            sources.iter_mut().for_each(|source| self.source(source, inward));
        }
    }
}

/// Paths of the members of a message that hold positions.
///
/// `*` stands for each item of a list.
fn positions(kind: Kind, name: &str) -> &'static [&'static [&'static str]] {
    match (kind, name) {
        (Kind::Request, "setBreakpoints") => &[&[], &["breakpoints", "*"]],
        (Kind::Request, "breakpointLocations" | "gotoTargets" | "completions" | "evaluate" | "source") => {
            &[&[]]
        }
        (
            Kind::Response,
            "setBreakpoints"
            | "setFunctionBreakpoints"
            | "setDataBreakpoints"
            | "setInstructionBreakpoints"
            | "setExceptionBreakpoints"
            | "breakpointLocations",
        ) => &[&["breakpoints", "*"]],
        (Kind::Response, "stackTrace") => &[&["stackFrames", "*"]],
        (Kind::Response, "scopes") => &[&["scopes", "*"]],
        (Kind::Response, "gotoTargets" | "stepInTargets" | "completions") => &[&["targets", "*"]],
        (Kind::Response, "loadedSources") => &[&["sources", "*"]],
        (Kind::Response, "disassemble") => &[&["instructions", "*"]],
        (Kind::Response, "locations") => &[&[]],
        (Kind::Event, "output" | "loadedSource") => &[&[]],
        (Kind::Event, "breakpoint") => &[&["breakpoint"]],
        _ => &[],
    }
}

fn each(value: &mut Value, path: &[&str], act: &mut dyn FnMut(&mut Value)) {
    match path {
        [] => act(value),
        ["*", rest @ ..] => {
            value.as_array_mut().into_iter().flatten().for_each(|item| each(item, rest, act));
        }
        [name, rest @ ..] => {
            if let Some(member) = value.get_mut(*name) {
                each(member, rest, act);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ODD: Coordinates = Coordinates { lines_from_1: false, columns_from_1: false, uris: true };

    #[test]
    fn positions_are_converted_both_ways() {
        let sent = json!({"source": {"path": "file:///p/a%20b.py"}, "breakpoints": [{"line": 0, "column": 3}], "lines": [0]});
        let mut message = Envelope::request("setBreakpoints", sent);
        ODD.to_adapter(&mut message);
        let expected =
            json!({"source": {"path": "/p/a b.py"}, "breakpoints": [{"line": 1, "column": 4}], "lines": [1]});
        assert_eq!(message.content(), expected);
        let body = json!({"stackFrames": [{"id": 1, "line": 7, "column": 1, "source": {"path": "/p/a b.py"}},
            {"id": 2, "line": 0, "column": 0}]});
        let mut message = Envelope::answer("stackTrace", body);
        ODD.to_client(&mut message);
        let frames = &message.content()["stackFrames"];
        assert_eq!(
            frames[0],
            json!({"id": 1, "line": 6, "column": 0, "source": {"path": "file:///p/a%20b.py"}})
        );
        assert_eq!(frames[1]["line"], 0);
    }

    #[test]
    fn messages_without_positions_stay_unchanged() {
        let body = json!({"variables": [{"name": "line", "value": "3", "line": 3}]});
        let mut message = Envelope::answer("variables", body.clone());
        ODD.to_client(&mut message);
        assert_eq!(message.content(), body);
    }
}
