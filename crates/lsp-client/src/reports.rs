//! What servers answered when they were asked for diagnostics, under the names that they gave it: asked
//! with such a name, a server may say `unchanged` (LSP 3.17 §DocumentDiagnosticReport).
//!
//! What must stay true: `unchanged` is believed only of the report that the question named.

use std::collections::HashMap;

use serde_json::Value;
use workspace::AbsPath;

use crate::answer::RawJson;
use crate::protocol::Report;

/// Files remembered; the one that was told of first is forgotten first.
const LIMIT: usize = 256;

/// The newest report of each file that has a name.
#[derive(Default)]
pub(crate) struct Reports {
    count: u64,
    files: HashMap<AbsPath, Known>,
}

struct Known {
    number: u64,
    id: String,
    items: RawJson,
}

impl Reports {
    /// The name to be told when a file is asked about.
    pub fn id(&self, path: &AbsPath) -> Option<String> {
        self.files.get(path).map(|known| known.id.clone())
    }

    /// Takes a report that answers a question which named `asked`: the list, `None` when it has none or the
    /// server says `unchanged` of what nobody asked about.
    pub fn take(&mut self, path: &AbsPath, asked: Option<&str>, report: &Report<'_>) -> Option<RawJson> {
        for (uri, related) in report.related_documents.iter().flatten() {
            if let Some(related_path) = workspace::uri_to_path(uri).and_then(AbsPath::new)
                && related.kind.as_deref() != Some("unchanged")
                && related_path != *path
            {
                drop(self.keep(&related_path, related));
            }
        }
        if report.kind.as_deref() == Some("unchanged") {
            let known = self.files.get(path).filter(|known| asked == Some(&known.id))?;
            return Some(known.items.clone());
        }
        self.keep(path, report)
    }

    /// Remembers a full report, if it has a name; one without a list says nothing.
    fn keep(&mut self, path: &AbsPath, report: &Report<'_>) -> Option<RawJson> {
        let items = RawJson::new(report.items?);
        let Some(id) = report.result_id.as_ref().and_then(Value::as_str) else {
            self.files.remove(path);
            return Some(items);
        };
        self.count += 1;
        let known = Known { number: self.count, id: id.to_owned(), items: items.clone() };
        self.files.insert(path.clone(), known);
        if self.files.len() > LIMIT {
            let oldest = self.files.iter().min_by_key(|(_, known)| known.number);
            if let Some(oldest) = oldest.map(|(path, _)| path.clone()) {
                self.files.remove(&oldest);
            }
        }
        Some(items)
    }
}
