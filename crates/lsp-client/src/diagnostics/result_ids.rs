//! Reports of pull diagnostics by their result id.
//!
//! A server may answer `unchanged` for a result id (LSP 3.17 §DocumentDiagnosticReport).
//!
//! Invariants: `unchanged` counts only for the report that the request named.

use std::collections::HashMap;

use paths::AbsPath;
use serde_json::Value;

use crate::answer::RawJson;
use crate::server::protocol::Report;

/// Maximum number of files; the oldest report is dropped first.
const LIMIT: usize = 256;

/// The newest report of each file that has a result id.
#[derive(Default)]
pub(crate) struct ResultIds {
    count: u64,
    files: HashMap<AbsPath, Known>,
}

struct Known {
    number: u64,
    id: String,
    items: RawJson,
}

impl ResultIds {
    /// The `previousResultId` of a file.
    pub fn id(&self, path: &AbsPath) -> Option<String> {
        self.files.get(path).map(|known| known.id.clone())
    }

    /// Reads the answer to a request that named the result id `asked`.
    ///
    /// `None` if it has no list, or is `unchanged` without a matching report.
    pub fn take(&mut self, path: &AbsPath, asked: Option<&str>, report: &Report<'_>) -> Option<RawJson> {
        for (uri, related) in report.related_documents.iter().flatten() {
            if let Some(related_path) = paths::uri_to_path(uri).and_then(AbsPath::new)
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

    /// Stores a full report with a result id.
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
