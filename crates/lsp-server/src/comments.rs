//! Which of the lines that look like requests stand in comments. Where a grammar reads the language
//! a line of a string is none; where there is no grammar, or the text around the line does not parse,
//! the look of the line decides.
//!
//! Parsed is once for each text, away from the tasks that read and answer, and only where a line
//! looks like a request.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use editor_sync::buffers::{Moment, Open};
use parking_lot::Mutex;
use syntax::{Language, Stop, Tree};

use super::request_line;
use super::request_line::RequestLine;

/// Texts of which the answer is remembered.
const MAX_KNOWN: usize = 16;
/// A text that takes longer is judged by its lines.
const PATIENCE: Duration = Duration::from_secs(2);

/// By the language ids of LSP, VS Code, Neovim's file types and Emacs's modes.
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

/// The requests of one text, with these markers.
type Known = (Moment, Vec<String>, Arc<[RequestLine]>);

/// The answers so far.
#[derive(Default)]
pub struct Comments {
    known: Mutex<VecDeque<Known>>,
    turn: tokio::sync::Mutex<()>,
}

impl Comments {
    /// Every request of a document, in order.
    pub async fn requests(&self, open: &Open, markers: &[String]) -> Arc<[RequestLine]> {
        let found = request_line::find_all(&open.text, &open.language_id, markers);
        let id = open.language_id.to_ascii_lowercase();
        let grammar = GRAMMARS.iter().find(|(ids, _)| ids.contains(&id.as_str()));
        let Some((_, language)) = grammar.filter(|_| !found.is_empty()) else { return found.into() };
        let moment = open.moment();
        if let Some(known) = self.known(&moment, markers) {
            return known;
        }
        let _turn = self.turn.lock().await;
        if let Some(known) = self.known(&moment, markers) {
            return known;
        }
        let (language, text, all) = (*language, Arc::clone(&open.text), found.clone());
        let look = tokio::task::spawn_blocking(move || in_comments(language, &text, all));
        // A grammar that fails is no reason to offer nothing.
        let requests: Arc<[RequestLine]> = look.await.unwrap_or(found).into();
        let mut known = self.lock();
        known.push_back((moment, markers.to_vec(), Arc::clone(&requests)));
        if known.len() > MAX_KNOWN {
            known.pop_front();
        }
        requests
    }

    fn known(&self, moment: &Moment, markers: &[String]) -> Option<Arc<[RequestLine]>> {
        let known = self.lock();
        let mut same = known.iter().filter(|(at, with, _)| at == moment && with == markers);
        same.next().map(|(.., requests)| Arc::clone(requests))
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, VecDeque<Known>> {
        // Entries are put in and taken out whole.
        self.known.lock()
    }
}

fn in_comments(language: Language, text: &str, mut found: Vec<RequestLine>) -> Vec<RequestLine> {
    let ends = Instant::now() + PATIENCE;
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
    fn a_line_of_a_string_is_no_request() {
        check("python", "# ¶ one\nhelp = \"\"\"\n# ¶ rename a to b\n\"\"\"\n", &["one"]);
        check("rust", "// ¶ one\nconst A: &str = \"\n// ¶ two\n\";\n", &["one"]);
        check("javascriptreact", "const a = <b>\n  {/* ¶ one */}\n  // ¶ two\n</b>;\n", &["one"]);
        check("c", "/*\n * ¶ one\n */\nint a = b\n * c;\n", &["one"]);
        // What does not parse is judged by its look.
        check("python", "def (:\n# ¶ one\n", &["one"]);
    }
}
