//! Syntax trees of the texts that were shown, made before an edit asks for them and kept for the
//! next one.
//!
//! At most 64 MiB of them by estimate, least used out. Large trees take milliseconds to drop and to
//! follow an edit, so that is done elsewhere too. A tree that is not there costs time and nothing
//! else: whoever asks gets on without.

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

/// Bytes of trees kept.
const MAX_BYTES: usize = 64 << 20;
/// A text whose parse is estimated to take longer is judged by the lines around an edit.
const MAX_PARSE: Duration = Duration::from_millis(20);
/// The longest that a text is parsed for, where that was not expected to take long, or was asked for.
const DEADLINE: Duration = Duration::from_secs(2);
/// The longest that an edit waits for the parse of a large text that has no window.
const MAX_WAIT: Duration = Duration::from_millis(300);
/// The longest that an edit waits for a tree that is being made; a text parsed for this one edit takes
/// as long.
const MAX_WAIT_FOR_TREE: Duration = MAX_PARSE;
/// Trees made at one time.
const MAX_MAKING: usize = 2;

/// A text in a language: what a tree is of.
type Key = (Language, ContentHash);

/// Trees by text, for all tools of a session.
#[derive(Debug, Default)]
pub struct Trees {
    cache: Arc<(Mutex<Cache>, Condvar)>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

#[derive(Debug, Default)]
struct Cache {
    kept: Vec<(Key, Tree, usize)>,
    bytes: usize,
    making: Vec<Key>,
}

impl Trees {
    /// Begins to make the tree of a text, if there is a grammar for it and a runtime to make it on.
    /// Does not wait.
    pub fn prepare(&self, path: &str, text: &Arc<str>) {
        let Some(language) = Language::of(path, text) else { return };
        let whole = Arc::clone(text);
        self.make(language, text, move |stop| Tree::parse(language, &whole, stop).ok());
    }

    /// Has `work` make the tree of a text.
    fn make(
        &self,
        language: Language,
        text: &str,
        work: impl FnOnce(Stop<'_>) -> Option<Tree> + Send + 'static,
    ) {
        let Ok(runtime) = Handle::try_current() else { return };
        let (key, size) = (key(language, text), size(language, text));
        let mut cache = lock(&self.cache);
        let known = cache.get(key).is_some() || cache.making.contains(&key);
        let fits = size <= MAX_BYTES && cache.making.len() < MAX_MAKING;
        if known || !fits || self.tasks.is_closed() {
            return;
        }
        cache.making.push(key);
        drop(cache);
        let (cache, stop) = (Arc::clone(&self.cache), self.stop.clone());
        self.tasks.spawn_blocking_on(
            move || {
                let tree = work(Stop(&|| stop.is_cancelled()));
                let mut kept = lock(&cache);
                kept.making.retain(|making| *making != key);
                let out = tree.map_or_else(Vec::new, |tree| kept.put(key, tree, size));
                cache.1.notify_all();
                // Dropped here, where nobody waits, and after the lock.
                drop(kept);
                drop(out);
            },
            &runtime,
        );
    }

    /// The tree of a text, made off the caller's thread if it is not at hand; `None` when there is no
    /// grammar for it, or it takes longer than two seconds.
    pub(crate) async fn tree(&self, path: &str, text: &Arc<str>) -> Option<Tree> {
        let language = Language::of(path, text)?;
        if let Some(tree) = lock(&self.cache).get(key(language, text)) {
            return Some(tree);
        }
        let (stop, text) = (self.stop.clone(), Arc::clone(text));
        let cache = Arc::clone(&self.cache);
        let made = self.tasks.spawn_blocking(move || {
            let start = Instant::now();
            let late = || stop.is_cancelled() || start.elapsed() > DEADLINE;
            let tree = Tree::parse(language, &text, Stop(&late)).ok()?;
            let out = lock(&cache).put(key(language, &text), tree.clone(), size(language, &text));
            drop(out);
            Some(tree)
        });
        made.await.ok().flatten()
    }

    /// Stops what is being made and waits for it.
    pub async fn close(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// The tree that is there, or will be in a moment.
    fn get(&self, key: Key) -> Option<Tree> {
        let mut cache = lock(&self.cache);
        self.cache.1.wait_while_for(&mut cache, |cache| cache.making.contains(&key), MAX_WAIT_FOR_TREE);
        cache.get(key)
    }

    fn put(&self, key: Key, tree: Tree, bytes: usize) {
        let out = lock(&self.cache).put(key, tree, bytes);
        self.drop_elsewhere(out);
    }

    fn drop_elsewhere(&self, trees: Vec<Tree>) {
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
        let at = self.kept.iter().position(|(kept, ..)| *kept == key)?;
        let entry = self.kept.remove(at);
        let tree = entry.1.clone();
        self.kept.push(entry);
        Some(tree)
    }

    /// Keeps a tree; what is not kept any more for it.
    fn put(&mut self, key: Key, tree: Tree, bytes: usize) -> Vec<Tree> {
        if bytes > MAX_BYTES || self.get(key).is_some() {
            return vec![tree];
        }
        self.bytes += bytes;
        self.kept.push((key, tree, bytes));
        let mut out = Vec::new();
        while self.bytes > MAX_BYTES {
            let (_, tree, bytes) = self.kept.remove(0);
            self.bytes -= bytes;
            out.push(tree);
        }
        out
    }
}

fn lock(cache: &(Mutex<Cache>, Condvar)) -> parking_lot::MutexGuard<'_, Cache> {
    cache.0.lock()
}

fn key(language: Language, text: &str) -> Key {
    (language, ContentHash::of(text.as_bytes()))
}

/// What the tree of a text is estimated to take.
fn size(language: Language, text: &str) -> usize {
    text.len().saturating_mul(language.tree_bytes_per_byte())
}

fn takes_long(language: Language, text: &str) -> bool {
    let estimate = text.len() as u128 * language.parse_nanos_per_byte() as u128;
    estimate > MAX_PARSE.as_nanos()
}

/// The grammars as the edit engine asks for them, for one edit. The trees that it made are kept
/// when the edit is done.
#[derive(Debug)]
pub struct Grammars<'a> {
    trees: &'a Trees,
    made: Mutex<Vec<(Key, Made)>>,
}

/// What an edit brought about that the next one can use.
#[derive(Debug)]
enum Made {
    Tree(Tree),
    /// Of a text that was told to parse from a part of it: its tree is to be made of the one before.
    Edit {
        tree: Tree,
        before: Arc<str>,
        edits: Vec<TextEdit>,
    },
}

impl<'a> Grammars<'a> {
    /// Answers from, and for, these trees.
    pub fn new(trees: &'a Trees) -> Self {
        Self { trees, made: Mutex::default() }
    }

    /// The edit was made, and this is what a file holds now: its tree is kept, or made. Does not wait.
    pub(crate) fn keep(&self, path: &str, text: &Arc<str>) {
        let Some(language) = Language::of(path, text) else { return };
        let key = key(language, text);
        let made = {
            let mut made = self.made();
            made.iter().position(|(made, _)| *made == key).map(|at| made.swap_remove(at).1)
        };
        match made {
            Some(Made::Tree(tree)) => self.trees.put(key, tree, size(language, text)),
            Some(Made::Edit { tree, before, edits }) => {
                let after = Arc::clone(text);
                self.trees.make(language, text, move |stop| tree.reparse(&before, &edits, &after, stop).ok());
            }
            None => self.trees.prepare(path, text),
        }
    }

    fn made(&self) -> parking_lot::MutexGuard<'_, Vec<(Key, Made)>> {
        self.made.lock()
    }

    /// The tree of a text that is at hand, or was made for this edit.
    fn at_hand(&self, key: Key) -> Option<Tree> {
        let made = self.made().iter().find_map(|(made, what)| match what {
            Made::Tree(tree) if *made == key => Some(tree.clone()),
            _ => None,
        });
        made.or_else(|| self.trees.get(key))
    }

    fn parsed(&self, language: Language, text: &str, deadline: Duration) -> Option<Tree> {
        let start = Instant::now();
        let tree = Tree::parse(language, text, Stop(&|| start.elapsed() > deadline)).ok()?;
        self.made().push((key(language, text), Made::Tree(tree.clone())));
        Some(tree)
    }

    /// What edits break, told from the tree of the text before them. A part of the text is asked first.
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
            let made = Made::Edit { tree, before: Arc::clone(before), edits: edits.to_vec() };
            self.made().push((key, made));
            return Some(Comparison { was_broken: false, new_errors: Vec::new() });
        }
        let (new, comparison) = Comparison::of(&tree, before, edits, after, stop).ok()?;
        self.made().push((key, Made::Tree(new)));
        Some(comparison)
    }
}

impl Drop for Grammars<'_> {
    fn drop(&mut self) {
        let made = std::mem::take(&mut *self.made());
        let trees = made.into_iter().map(|(_, made)| match made {
            Made::Tree(tree) | Made::Edit { tree, .. } => tree,
        });
        self.trees.drop_elsewhere(trees.collect());
    }
}

impl Syntax for Grammars<'_> {
    fn judge(&self, path: &str, new_path: &str, before: &Arc<str>, edits: &[TextEdit]) -> Option<Judgement> {
        let language = Language::of(path, before)?;
        let after = text::apply(before, edits).ok()?;
        // What is right in one language is no error for being none in another.
        if Language::of(new_path, &after) != Some(language) {
            return None;
        }
        let start = Instant::now();
        let late = || start.elapsed() > DEADLINE;
        let mut nearby = false;
        let mut comparison = None;
        let mut tree = self.at_hand(key(language, before));
        if tree.is_none() && takes_long(language, before) {
            comparison = Comparison::of_window(language, before, edits, Stop(&late)).ok()?;
            nearby = comparison.is_some();
        }
        if comparison.is_none() {
            let deadline = if takes_long(language, before) { MAX_WAIT } else { DEADLINE };
            tree = tree.or_else(|| self.parsed(language, before, deadline));
            comparison = Some(self.compare(tree?, before, edits, &after, Stop(&late))?);
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
        let tree = self.at_hand(key(language, text)).or_else(|| self.parsed(language, text, DEADLINE));
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
    async fn a_tree_is_made_beside_and_used() {
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
    async fn the_tree_after_an_edit_is_kept_for_the_next() {
        let (trees, text) = (Trees::default(), source(3));
        let edits = edit(&text, "g(2)", "h(2)");
        let after: Arc<str> = text::apply(&text, &edits).unwrap().into();
        let grammars = Grammars::new(&trees);
        assert_eq!(grammars.judge("a.rs", "a.rs", &text, &edits), Some(Judgement::default()));
        grammars.keep("a.rs", &after);
        drop(grammars);
        assert!(trees.get(key(Language::Rust, &after)).is_some());
        assert!(trees.get(key(Language::Rust, &text)).is_none(), "nobody asked for it");
    }

    #[tokio::test]
    async fn a_large_text_without_a_tree_is_judged_nearby_and_with_one_as_a_whole() {
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
    async fn the_tree_after_an_edit_told_from_a_part_is_made_beside() {
        let (trees, text) = (Trees::default(), source(3_000));
        trees.tree("a.rs", &text).await.unwrap();
        let edits = edit(&text, "g(1500)", "h(1500)");
        let after: Arc<str> = text::apply(&text, &edits).unwrap().into();
        let grammars = Grammars::new(&trees);
        assert_eq!(grammars.judge("a.rs", "a.rs", &text, &edits), Some(Judgement::default()));
        assert!(matches!(grammars.made()[..], [(_, Made::Edit { .. })]));
        grammars.keep("a.rs", &after);
        drop(grammars);
        trees.tasks.close();
        trees.tasks.wait().await;
        let tree = trees.get(key(Language::Rust, &after)).unwrap();
        assert!(tree.text_len() == after.len() && !tree.is_broken(&after));
    }

    #[tokio::test]
    async fn a_text_whose_tree_is_too_large_to_keep_is_judged_nearby_each_time() {
        let (trees, text) = (Trees::default(), source(100_000));
        assert!(size(Language::Rust, &text) > MAX_BYTES);
        trees.prepare("a.rs", &text);
        assert!(trees.tasks.is_empty(), "nothing is made that cannot be kept");
        for (to, broken) in [("h(5000)", 0), ("h(5000", 1)] {
            let judged =
                Grammars::new(&trees).judge("a.rs", "a.rs", &text, &edit(&text, "g(5000)", to)).unwrap();
            assert!(judged.nearby && judged.broken.len() == broken, "{judged:?}");
        }
    }

    #[test]
    fn trees_are_bounded_least_used_out() {
        let trees = Trees::default();
        let texts: Vec<Arc<str>> = (0..12).map(|at| source(10_000 + at)).collect();
        let each = size(Language::Rust, &texts[0]);
        assert!(each * 12 > MAX_BYTES && each * 2 < MAX_BYTES);
        for text in &texts {
            // However long that takes.
            let tree = Tree::parse(Language::Rust, text, Stop::NEVER).unwrap();
            trees.put(key(Language::Rust, text), tree, each);
            trees.get(key(Language::Rust, &texts[0])).unwrap();
        }
        assert!(lock(&trees.cache).bytes <= MAX_BYTES);
        assert!(trees.get(key(Language::Rust, &texts[1])).is_none());
        assert!(trees.get(key(Language::Rust, &texts[11])).is_some());
    }

    #[tokio::test]
    async fn closing_waits_for_what_is_being_made() {
        let (trees, text) = (Trees::default(), source(20_000));
        trees.prepare("a.rs", &text);
        trees.close().await;
        assert!(lock(&trees.cache).making.is_empty());
        trees.prepare("b.rs", &source(2));
        assert!(trees.tasks.is_empty());
    }
}
