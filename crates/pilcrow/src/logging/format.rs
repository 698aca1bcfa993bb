//! Rendering of events: a line for the file, a sentence for the user. Pure.

use std::fmt::{Debug, Write};

use jiff::Timestamp;
use tracing::field::{Field, Visit};
use tracing::{Level, Metadata};

/// The message and the other fields of an event or span.
#[derive(Debug, Default)]
pub(super) struct Fields {
    pub(super) message: String,
    others: Vec<String>,
}

impl Fields {
    /// Joins the fields as `a=1 b=two`.
    pub(super) fn join(&self) -> String {
        self.others.join(" ")
    }

    fn add(&mut self, field: &Field, value: String) {
        match field.name() {
            "message" => self.message = value,
            name => self.others.push(format!("{name}={value}")),
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(field, format!("{value:?}"));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        let mut text = value.to_string();
        let mut cause = value.source();
        while let Some(error) = cause {
            write!(text, ": {error}").expect("a String takes every text");
            cause = error.source();
        }
        self.add(field, text);
    }
}

/// Adds one span to the path of spans.
pub(super) fn add_span(spans: &mut String, name: &str, fields: &str) {
    spans.push_str(name);
    if !fields.is_empty() {
        write!(spans, "{{{fields}}}").expect("a String takes every text");
    }
    spans.push(':');
}

/// Renders an event for the file: `TIME LEVEL TARGET SPANS MESSAGE FIELDS`.
pub(super) fn event(now: Timestamp, metadata: &Metadata<'_>, spans: &str, fields: &Fields) -> String {
    let (level, target) = (metadata.level(), metadata.target());
    let others = fields.join();
    let parts = [spans, &fields.message, &others];
    let rest: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    format!("{now:.3} {level} {target} {}", rest.join(" "))
}

/// Renders `text` as one line with its end, inner line ends as `\n`.
pub(super) fn one_line(text: &str) -> String {
    text.replace('\r', "\\r").replace('\n', "\\n") + "\n"
}

/// Renders a warning or error for the user, with its line end.
pub(super) fn warning(level: Level, fields: &Fields) -> String {
    let kind = if level == Level::ERROR { "error" } else { "warning" };
    format!("{kind}: {}\n", sentence(fields))
}

/// Renders the message and its fields, without the level.
pub(super) fn sentence(fields: &Fields) -> String {
    let others = fields.others.join(", ");
    match (fields.message.is_empty(), others.is_empty()) {
        (true, _) => others,
        (false, true) => fields.message.clone(),
        (false, false) => format!("{} ({others})", fields.message),
    }
}
