//! Cache of syntax trees, parsed before an edit needs them.
//!
//! Holds about 64 MiB and evicts the least recently used. Background tasks parse, reparse and drop
//! large trees, since each takes milliseconds. A missing tree costs time only.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hashline::{Block, Broken, Judgement, Lines, NoBlock, Syntax};
use parking_lot::{Condvar, Mutex};
use syntax::{Comparison, Language, Stop, Tree};
use text::TextEdit;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use workspace::ContentHash;

/// Estimated bytes of all cached trees.
const MAX_BYTES: usize = 64 << 20;
/// Longest estimated time to parse a whole text.
///
/// Above it, only the lines around an edit are checked.
const MAX_PARSE: Duration = Duration::from_millis(20);
/// Time limit of a parse that is requested or expected to be fast.
const DEADLINE: Duration = Duration::from_secs(2);
/// Time limit of the parse of a large text that has no window.
const MAX_WAIT: Duration = Duration::from_millis(300);
/// Time that an edit waits for a tree that a background task is parsing.
const MAX_WAIT_FOR_TREE: Duration = MAX_PARSE;
/// Maximum number of concurrent background parses.
const MAX_PENDING: usize = 2;

/// Identity of a tree: a text in a language.
type Key = (Language, ContentHash);

/// Syntax trees by text, shared by all tools of a session.
#[derive(Debug, Default)]
pub struct Trees {
    cache: Arc<(Mutex<Cache>, Condvar)>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

#[derive(Debug, Default)]
struct Cache {
    entries: Vec<(Key, Tree, usize)>,
    bytes: usize,
    pending: Vec<Key>,
}

impl Trees {
    /// Starts to parse a text in the background, if it has a grammar. Does not wait.
    pub fn prepare(&self, path: &str, text: &Arc<str>) {
        let Some(language) = Language::of(path, text) else { return };
        let whole = Arc::clone(text);
        self.spawn_parse(language, text, move |stop| Tree::parse(language, &whole, stop).ok());
    }

    /// Runs `work` in the background to parse a text.
    fn spawn_parse(
        &self,
        language: Language,
        text: &str,
        work: impl FnOnce(Stop<'_>) -> Option<Tree> + Send + 'static,
    ) {
        let Ok(runtime) = Handle::try_current() else { return };
        let (key, size) = (key(language, text), size(language, text));
        let mut cache = lock(&self.cache);
        let known = cache.get(key).is_some() || cache.pending.contains(&key);
        let fits = size <= MAX_BYTES && cache.pending.len() < MAX_PENDING;
        if known || !fits || self.tasks.is_closed() {
            return;
        }
        cache.pending.push(key);
        drop(cache);
        let (cache, stop) = (Arc::clone(&self.cache), self.stop.clone());
        self.tasks.spawn_blocking_on(
            move || {
                let tree = work(Stop(&|| stop.is_cancelled()));
                let mut cached = lock(&cache);
                cached.pending.retain(|pending| *pending != key);
                let evicted = tree.map_or_else(Vec::new, |tree| cached.put(key, tree, size));
                cache.1.notify_all();
                // Dropped here, where nothing waits, and after the lock.
                drop(cached);
                drop(evicted);
            },
            &runtime,
        );
    }

    /// Returns the tree of a text.
    ///
    /// `None` without a grammar, above the limit of the cache, or after two seconds.
    /// A blocking thread parses a text whose tree is not cached.
    pub(crate) async fn tree(&self, path: &str, text: &Arc<str>) -> Option<Tree> {
        let language = Language::of(path, text).filter(|language| size(*language, text) <= MAX_BYTES)?;
        if let Some(tree) = lock(&self.cache).get(key(language, text)) {
            return Some(tree);
        }
        let (stop, text) = (self.stop.clone(), Arc::clone(text));
        let cache = Arc::clone(&self.cache);
        let parsed = self.tasks.spawn_blocking(move || {
            let start = Instant::now();
            let expired = || stop.is_cancelled() || start.elapsed() > DEADLINE;
            let tree = Tree::parse(language, &text, Stop(&expired)).ok()?;
            let evicted = lock(&cache).put(key(language, &text), tree.clone(), size(language, &text));
            drop(evicted);
            Some(tree)
        });
        parsed.await.ok().flatten()
    }

    /// Cancels the background parses and waits for them.
    pub async fn close(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Returns a cached tree; waits briefly for one that is being parsed.
    fn get(&self, key: Key) -> Option<Tree> {
        let mut cache = lock(&self.cache);
        self.cache.1.wait_while_for(&mut cache, |cache| cache.pending.contains(&key), MAX_WAIT_FOR_TREE);
        cache.get(key)
    }

    fn put(&self, key: Key, tree: Tree, bytes: usize) {
        let evicted = lock(&self.cache).put(key, tree, bytes);
        self.drop_in_background(evicted);
    }

    fn drop_in_background(&self, trees: Vec<Tree>) {
        match Handle::try_current() {
            Ok(runtime) if !trees.is_empty() => {
                self.tasks.spawn_blocking_on(move || drop(trees), &runtime);
            }
            _ => drop(trees),
        }
    }
}

impl Drop for Trees {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Cache {
    fn get(&mut self, key: Key) -> Option<Tree> {
        let at = self.entries.iter().position(|(cached, ..)| *cached == key)?;
        let entry = self.entries.remove(at);
        let tree = entry.1.clone();
        self.entries.push(entry);
        Some(tree)
    }

    /// Adds a tree and returns those that are evicted.
    fn put(&mut self, key: Key, tree: Tree, bytes: usize) -> Vec<Tree> {
        if bytes > MAX_BYTES || self.get(key).is_some() {
            return vec![tree];
        }
        self.bytes += bytes;
        self.entries.push((key, tree, bytes));
        let mut evicted = Vec::new();
        while self.bytes > MAX_BYTES {
            let (_, tree, bytes) = self.entries.remove(0);
            self.bytes -= bytes;
            evicted.push(tree);
        }
        evicted
    }
}

fn lock(cache: &(Mutex<Cache>, Condvar)) -> parking_lot::MutexGuard<'_, Cache> {
    cache.0.lock()
}

fn key(language: Language, text: &str) -> Key {
    (language, ContentHash::of(text.as_bytes()))
}

/// Estimates the size of the tree of a text, in bytes.
fn size(language: Language, text: &str) -> usize {
    text.len().saturating_mul(language.tree_bytes_per_byte())
}

fn takes_long(language: Language, text: &str) -> bool {
    let estimate = text.len() as u128 * language.parse_nanos_per_byte() as u128;
    estimate > MAX_PARSE.as_nanos()
}

/// Implements the edit engine's syntax checks for one edit.
///
/// Caches the trees once the edit is applied.
#[derive(Debug)]
pub struct Grammars<'a> {
    trees: &'a Trees,
    results: Mutex<Vec<(Key, ParseResult)>>,
}

/// The result of a check, from which a tree can be cached.
#[derive(Debug)]
enum ParseResult {
    Tree(Tree),
    /// The parse covered only a part; the tree derives from the one before the edit.
    Edit {
        tree: Tree,
        before: Arc<str>,
        edits: Vec<TextEdit>,
    },
}

impl<'a> Grammars<'a> {
    /// Creates the checks of one edit, which use and fill `trees`.
    pub fn new(trees: &'a Trees) -> Self {
        Self { trees, results: Mutex::default() }
    }

    /// Caches the tree of a file's new text after the edit, or starts to parse it.
    ///
    /// Does not wait.
    pub(crate) fn store(&self, path: &str, text: &Arc<str>) {
        let Some(language) = Language::of(path, text) else { return };
        let key = key(language, text);
        let result = {
            let mut results = self.results.lock();
            let at = results.iter().position(|(known, _)| *known == key);
            at.map(|at| results.swap_remove(at).1)
        };
        match result {
            Some(ParseResult::Tree(tree)) => self.trees.put(key, tree, size(language, text)),
            Some(ParseResult::Edit { tree, before, edits }) => {
                let after = Arc::clone(text);
                self.trees.spawn_parse(language, text, move |stop| {
                    tree.reparse(&before, &edits, &after, stop).ok()
                });
            }
            None => self.trees.prepare(path, text),
        }
    }

    /// Returns a tree that is cached or was parsed for this edit.
    fn find(&self, key: Key) -> Option<Tree> {
        let parsed = self.results.lock().iter().find_map(|(known, result)| match result {
            ParseResult::Tree(tree) if *known == key => Some(tree.clone()),
            _ => None,
        });
        parsed.or_else(|| self.trees.get(key))
    }

    fn parse(&self, language: Language, text: &str, deadline: Duration) -> Option<Tree> {
        let start = Instant::now();
        let tree = Tree::parse(language, text, Stop(&|| start.elapsed() > deadline)).ok()?;
        self.results.lock().push((key(language, text), ParseResult::Tree(tree.clone())));
        Some(tree)
    }

    /// Compares the syntax before and after edits.
    ///
    /// Parses only a part of the text if that suffices.
    fn compare(
        &self,
        tree: Tree,
        before: &Arc<str>,
        edits: &[TextEdit],
        after: &str,
        stop: Stop<'_>,
    ) -> Option<Comparison> {
        let key = key(tree.language(), after);
        if tree.surely_parses(before, edits, stop).ok()? {
            let edit = ParseResult::Edit { tree, before: Arc::clone(before), edits: edits.to_vec() };
            self.results.lock().push((key, edit));
            return Some(Comparison { was_broken: false, new_errors: Vec::new() });
        }
        let (new, comparison) = Comparison::of(&tree, before, edits, after, stop).ok()?;
        self.results.lock().push((key, ParseResult::Tree(new)));
        Some(comparison)
    }
}

impl Drop for Grammars<'_> {
    fn drop(&mut self) {
        let results = std::mem::take(&mut *self.results.lock());
        let trees = results.into_iter().map(|(_, result)| match result {
            ParseResult::Tree(tree) | ParseResult::Edit { tree, .. } => tree,
        });
        self.trees.drop_in_background(trees.collect());
    }
}

impl Syntax for Grammars<'_> {
    fn judge(&self, path: &str, new_path: &str, before: &Arc<str>, edits: &[TextEdit]) -> Option<Judgement> {
        let language = Language::of(path, before)?;
        let after = text::apply(before, edits).ok()?;
        // Text that is valid in one language is not an error in another.
        if Language::of(new_path, &after) != Some(language) {
            return None;
        }
        let start = Instant::now();
        let expired = || start.elapsed() > DEADLINE;
        let mut nearby = false;
        let mut comparison = None;
        let mut tree = self.find(key(language, before));
        if tree.is_none() && takes_long(language, before) {
            comparison = Comparison::of_window(language, before, edits, Stop(&expired)).ok()?;
            nearby = comparison.is_some();
        }
        if comparison.is_none() {
            let deadline = if takes_long(language, before) { MAX_WAIT } else { DEADLINE };
            tree = tree.or_else(|| self.parse(language, before, deadline));
            comparison = Some(self.compare(tree?, before, edits, &after, Stop(&expired))?);
        }
        let Comparison { was_broken, new_errors } = comparison?;
        let mut broken = Vec::new();
        if !new_errors.is_empty() {
            let lines = Lines::new(after.as_str().into());
            broken.extend(new_errors.iter().map(|error| Broken {
                line: lines.line_of(error.range.start),
                message: error.message(&after),
            }));
        }
        Some(Judgement { was_broken, broken, nearby })
    }

    fn block(&self, path: &str, text: &Arc<str>, line: usize) -> Result<Block, NoBlock> {
        let language = Language::of(path, text).ok_or(NoBlock::Unknown)?;
        let tree = self.find(key(language, text)).or_else(|| self.parse(language, text, DEADLINE));
        match tree.ok_or(NoBlock::Unknown)?.block(text, line) {
            Ok(block) => Ok(Block { lines: block.lines, leading: block.leading, part_of: block.part_of }),
            Err(unclear) => {
                Err(NoBlock::Unclear { message: unclear.message, candidates: unclear.candidates })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(functions: usize) -> Arc<str> {
        (0..functions).map(|at| format!("fn f{at}() {{\n    g({at});\n}}\n\n")).collect::<String>().into()
    }

    fn edit(text: &str, from: &str, to: &str) -> Vec<TextEdit> {
        let at = text.rfind(from).unwrap();
        vec![TextEdit::replace(at..at + from.len(), to)]
    }

    #[tokio::test]
    async fn a_tree_is_parsed_in_the_background_and_used() {
        let (trees, text) = (Trees::default(), source(3));
        trees.prepare("a.rs", &text);
        trees.tasks.close();
        trees.tasks.wait().await;
        assert!(trees.get(key(Language::Rust, &text)).is_some());
        let judged = Grammars::new(&trees).judge("a.rs", "a.rs", &text, &edit(&text, "}", "")).unwrap();
        assert!(!judged.nearby && judged.broken.len() == 1, "{judged:?}");
        assert_eq!(Grammars::new(&trees).judge("a.txt", "a.txt", &text, &[]), None);
    }

    #[test]
    fn an_edit_that_changes_the_language_is_not_judged() {
        let trees = Trees::default();
        let judge = |path: &str, new_path: &str, text: &str, from: &str, to: &str| {
            Grammars::new(&trees).judge(path, new_path, &text.into(), &edit(text, from, to))
        };
        let header = "int one;\nint two;\n";
        assert_eq!(judge("a.h", "a.h", header, "int two;", "using namespace std;"), None);
        assert_eq!(judge("a.h", "a.h", header, "int two;", "int three;"), Some(Judgement::default()));
        let script = "#!/bin/sh\necho one\n";
        assert_eq!(judge("run", "run", script, script, "#!/usr/bin/python3\nprint((1, 'one'))\n"), None);
        assert_eq!(judge("a.json", "a.toml", "{}\n", "{}", "a = 1"), None);
        assert!(judge("a.json", "b.json", "{}\n", "{}", "a = 1").is_some_and(|it| !it.broken.is_empty()));
    }

    #[tokio::test]
    async fn the_tree_after_an_edit_is_cached_for_the_next() {
        let (trees, text) = (Trees::default(), source(3));
        let edits = edit(&text, "g(2)", "h(2)");
        let after: Arc<str> = text::apply(&text, &edits).unwrap().into();
        let grammars = Grammars::new(&trees);
        assert_eq!(grammars.judge("a.rs", "a.rs", &text, &edits), Some(Judgement::default()));
        grammars.store("a.rs", &after);
        drop(grammars);
        assert!(trees.get(key(Language::Rust, &after)).is_some());
        assert!(trees.get(key(Language::Rust, &text)).is_none(), "the old text is not cached");
    }

    #[tokio::test]
    async fn a_large_text_is_judged_nearby_until_its_tree_is_cached() {
        let (trees, text) = (Trees::default(), source(6_000));
        assert!(takes_long(Language::Rust, &text));
        let middle = text.find("g(2500)").unwrap();
        let edits = [TextEdit::replace(middle..middle + 7, "g(2500")];
        let judged = Grammars::new(&trees).judge("a.rs", "a.rs", &text, &edits).unwrap();
        assert!(judged.nearby && !judged.was_broken, "{judged:?}");
        let line = text[..middle].matches('\n').count() + 1;
        assert_eq!(judged.broken.iter().map(|broken| broken.line).collect::<Vec<_>>(), [line]);
        trees.tree("a.rs", &text).await.unwrap();
        let whole = Grammars::new(&trees).judge("a.rs", "a.rs", &text, &edits).unwrap();
        assert_eq!(whole, Judgement { nearby: false, ..judged });
    }

    #[test]
    fn large_html_is_judged_as_a_whole_or_not_at_all() {
        let text: Arc<str> = "<p>some <b>words</b> of it</p>\n".repeat(6_000).into();
        assert!(takes_long(Language::Html, &text));
        let trees = Trees::default();
        let judged =
            Grammars::new(&trees).judge("a.html", "a.html", &text, &edit(&text, "words</b>", "words"));
        assert!(
            judged.as_ref().is_none_or(|judged| !judged.nearby && !judged.broken.is_empty()),
            "{judged:?}"
        );
    }

    #[tokio::test]
    async fn the_tree_after_a_partial_check_is_parsed_in_the_background() {
        let (trees, text) = (Trees::default(), source(3_000));
        trees.tree("a.rs", &text).await.unwrap();
        let edits = edit(&text, "g(1500)", "h(1500)");
        let after: Arc<str> = text::apply(&text, &edits).unwrap().into();
        let grammars = Grammars::new(&trees);
        assert_eq!(grammars.judge("a.rs", "a.rs", &text, &edits), Some(Judgement::default()));
        assert!(matches!(grammars.results.lock()[..], [(_, ParseResult::Edit { .. })]));
        grammars.store("a.rs", &after);
        drop(grammars);
        trees.tasks.close();
        trees.tasks.wait().await;
        let tree = trees.get(key(Language::Rust, &after)).unwrap();
        assert!(tree.text_len() == after.len() && !tree.is_broken(&after));
    }

    #[tokio::test]
    async fn a_text_whose_tree_is_too_large_is_judged_nearby_each_time() {
        let (trees, text) = (Trees::default(), source(100_000));
        assert!(size(Language::Rust, &text) > MAX_BYTES);
        trees.prepare("a.rs", &text);
        assert!(trees.tasks.is_empty(), "a tree that does not fit is not parsed");
        for (to, broken) in [("h(5000)", 0), ("h(5000", 1)] {
            let judged =
                Grammars::new(&trees).judge("a.rs", "a.rs", &text, &edit(&text, "g(5000)", to)).unwrap();
            assert!(judged.nearby && judged.broken.len() == broken, "{judged:?}");
        }
    }

    #[test]
    fn the_least_recently_used_trees_are_evicted() {
        let trees = Trees::default();
        let texts: Vec<Arc<str>> = (0..12).map(|at| source(10_000 + at)).collect();
        let each = size(Language::Rust, &texts[0]);
        assert!(each * 12 > MAX_BYTES && each * 2 < MAX_BYTES);
        for text in &texts {
            // The test parses without a time limit.
            let tree = Tree::parse(Language::Rust, text, Stop::NEVER).unwrap();
            trees.put(key(Language::Rust, text), tree, each);
            trees.get(key(Language::Rust, &texts[0])).unwrap();
        }
        assert!(lock(&trees.cache).bytes <= MAX_BYTES);
        assert!(trees.get(key(Language::Rust, &texts[1])).is_none());
        assert!(trees.get(key(Language::Rust, &texts[11])).is_some());
    }

    #[tokio::test]
    async fn closing_waits_for_background_parses() {
        let (trees, text) = (Trees::default(), source(20_000));
        trees.prepare("a.rs", &text);
        trees.close().await;
        assert!(lock(&trees.cache).pending.is_empty());
        trees.prepare("b.rs", &source(2));
        assert!(trees.tasks.is_empty());
    }
}
