//! Request lines that are in comments rather than in strings.
//!
//! Without a grammar for the language, or where the text around a line does not parse, every line that
//! looks like a request counts. [`Comments`] parses each text at most once, in a blocking task, and
//! only if a line looks like a request.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use editor_sync::buffers::{OpenBuffer, Revision};
use parking_lot::Mutex;
use syntax::{Language, Stop, Tree};

use super::request_line;
use super::request_line::RequestLine;

/// Maximum number of cached texts.
const MAX_KNOWN: usize = 16;
/// Deadline of parsing. After it, all lines that look like requests count.
const PARSE_DEADLINE: Duration = Duration::from_secs(2);

/// The grammar for each language id of LSP, VS Code, Neovim and Emacs.
const GRAMMARS: &[(&[&str], Language)] = &[
    (&["shellscript", "sh", "bash"], Language::Bash),
    (&["c"], Language::C),
    (&["cpp", "c++"], Language::Cpp),
    (&["css"], Language::Css),
    (&["go"], Language::Go),
    (&["html", "mhtml"], Language::Html),
    (&["java"], Language::Java),
    (&["javascript", "javascriptreact", "js", "js2"], Language::JavaScript),
    (&["json", "jsonc"], Language::JsonC),
    (&["lua"], Language::Lua),
    (&["markdown"], Language::Markdown),
    (&["python"], Language::Python),
    (&["rust"], Language::Rust),
    (&["toml"], Language::Toml),
    (&["typescriptreact"], Language::Tsx),
    (&["typescript"], Language::TypeScript),
    (&["yaml"], Language::Yaml),
];

/// A cache entry: a revision, its markers, and its requests.
type Known = (Revision, Vec<String>, Arc<[RequestLine]>);

/// A cache of requests by text.
#[derive(Default)]
pub struct Comments {
    known: Mutex<VecDeque<Known>>,
    /// Lock of the task that parses a text.
    parsing: tokio::sync::Mutex<()>,
}

impl Comments {
    /// Every request of a document, in order.
    pub async fn requests(&self, open: &OpenBuffer, markers: &[String]) -> Arc<[RequestLine]> {
        let found = request_line::find_all(&open.text, &open.language_id, markers);
        let id = open.language_id.to_ascii_lowercase();
        let grammar = GRAMMARS.iter().find(|(ids, _)| ids.contains(&id.as_str()));
        let Some((_, language)) = grammar.filter(|_| !found.is_empty()) else { return found.into() };
        let revision = open.revision();
        if let Some(known) = self.known(&revision, markers) {
            return known;
        }
        let _parsing = self.parsing.lock().await;
        if let Some(known) = self.known(&revision, markers) {
            return known;
        }
        let (language, text, all) = (*language, Arc::clone(&open.text), found.clone());
        let parse = tokio::task::spawn_blocking(move || in_comments(language, &text, all));
        // If the grammar panics, all lines that look like requests count.
        let requests: Arc<[RequestLine]> = parse.await.unwrap_or(found).into();
        let mut known = self.lock();
        known.push_back((revision, markers.to_vec(), Arc::clone(&requests)));
        if known.len() > MAX_KNOWN {
            known.pop_front();
        }
        requests
    }

    fn known(&self, revision: &Revision, markers: &[String]) -> Option<Arc<[RequestLine]>> {
        let known = self.lock();
        let mut same = known.iter().filter(|(at, with, _)| at == revision && with == markers);
        same.next().map(|(.., requests)| Arc::clone(requests))
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, VecDeque<Known>> {
        self.known.lock()
    }
}

fn in_comments(language: Language, text: &str, mut found: Vec<RequestLine>) -> Vec<RequestLine> {
    let ends = Instant::now() + PARSE_DEADLINE;
    if let Ok(tree) = Tree::parse(language, text, Stop(&|| Instant::now() >= ends)) {
        found.retain(|request| tree.is_comment(text, request.marker) != Some(false));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(language: &str, text: &str, expected: &[&str]) {
        let found = request_line::find_all(text, language, &["¶".to_owned()]);
        let (_, grammar) = GRAMMARS.iter().find(|(ids, _)| ids.contains(&language)).unwrap();
        let found = in_comments(*grammar, text, found);
        let shown: Vec<&str> = found.iter().map(|request| request.text.as_str()).collect();
        assert_eq!(shown, expected, "{language}: {text}");
    }

    #[test]
    fn a_line_in_a_string_is_not_a_request() {
        check("python", "# ¶ one\nhelp = \"\"\"\n# ¶ rename a to b\n\"\"\"\n", &["one"]);
        check("rust", "// ¶ one\nconst A: &str = \"\n// ¶ two\n\";\n", &["one"]);
        check("javascriptreact", "const a = <b>\n  {/* ¶ one */}\n  // ¶ two\n</b>;\n", &["one"]);
        check("c", "/*\n * ¶ one\n */\nint a = b\n * c;\n", &["one"]);
        // This text does not parse.
        check("python", "def (:\n# ¶ one\n", &["one"]);
    }
}
