//! The files that a server registered to watch (LSP 3.17 §DidChangeWatchedFiles).
//!
//! The server is notified of all files that its globs match. Only files that a glob names are scanned: a glob
//! whose last part has no part of a name or an extension (`**`, `src/**/*`, registered by ty 0.0.105) covers
//! every file, and scanning a whole workspace before each request would cost too much. Outside the workspace
//! only single directories are scanned, not trees: pyrefly 1.4.1 registers all installed Python packages.
//!
//! Pure: reads no file.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};
use paths::AbsPath;
use serde_json::Value;

/// Globs with more alternatives are not scanned.
const MOST_ALTERNATIVES: usize = 256;

/// The current registrations of a server.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    /// Base, glob and kinds as parsed, to compare registrations.
    source: Vec<(AbsPath, String, u64)>,
    by_base: HashMap<PathBuf, Vec<Watch>>,
    /// Directories to walk, if they are in the workspace.
    pub tops: BTreeSet<AbsPath>,
    /// Single directories, with globs of names in them.
    pub places: BTreeSet<(AbsPath, String)>,
    /// Names without a star from globs of any directory.
    ///
    /// The scan searches for them in the server's root and above it, also for ignored ones (`go.work`).
    pub ends: BTreeSet<String>,
    /// Hidden directories by name, each with a name to scan (`.cargo`, `config.toml`).
    pub hidden: BTreeSet<(String, String)>,
}

#[derive(Debug, Clone)]
struct Watch {
    glob: Arc<GlobMatcher>,
    kinds: u64,
    named: Named,
}

/// The requirement of a glob's last part on a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Named {
    Nothing,
    /// A part of the name.
    Part,
    Whole,
}

impl Watchers {
    /// Parses the options of all registrations; skips invalid globs.
    ///
    /// `root` is the base of globs without one.
    pub fn new<'a>(options: impl Iterator<Item = &'a Value>, root: &AbsPath) -> Self {
        let watchers = options.flat_map(|it| it["watchers"].as_array().into_iter().flatten());
        let mut source: Vec<(AbsPath, String, u64)> = watchers
            .filter_map(|watcher| {
                let (base, glob) = based(&watcher["globPattern"], root)?;
                Some((base, glob, watcher["kind"].as_u64().unwrap_or(7)))
            })
            .collect();
        source.sort();
        source.dedup();
        let mut out = Self::default();
        let mut globs = HashMap::new();
        for (base, glob, kinds) in &source {
            let read = globs.entry(glob.clone()).or_insert_with(|| read(glob));
            for (matcher, named) in &read.globs {
                let watch = Watch { glob: Arc::clone(matcher), kinds: *kinds, named: *named };
                // A glob of any directory also covers those above the root.
                let base = match base == root && glob.starts_with("**") {
                    true => base.as_path().ancestors().last().unwrap_or(base.as_path()),
                    false => base.as_path(),
                };
                out.by_base.entry(base.to_owned()).or_default().push(watch);
            }
            for parts in &read.named {
                out.add_named(base, parts);
            }
        }
        out.source = source;
        out
    }

    /// Adds a glob with a known name, by its parts.
    fn add_named(&mut self, base: &AbsPath, parts: &[String]) {
        let Some((_, directories)) = parts.split_last() else { return };
        let lead = directories.iter().take_while(|part| !is_wild(part)).count();
        let anchor = directories[..lead].iter().fold(base.clone(), |at, part| at.join(part));
        if lead == directories.len() {
            self.places.insert((anchor, parts[lead..].join("/")));
            return;
        }
        self.tops.insert(anchor);
        let end = parts.iter().rposition(|part| is_wild(part)).map_or(0, |at| at + 1);
        if end < parts.len() {
            self.ends.insert(parts[end..].join("/"));
        }
        let is_hidden = |part: &String| part.starts_with('.') && part != ".." && !is_wild(part);
        if let Some(at) = directories.iter().position(is_hidden)
            && !parts[at..].iter().any(|part| part.contains("**"))
        {
            self.hidden.insert((parts[at].clone(), parts[at + 1..].join("/")));
        }
    }

    fn of<'a>(&'a self, path: &'a AbsPath) -> impl Iterator<Item = &'a Watch> {
        let bases = path.as_path().ancestors().skip(1);
        let based = bases.filter_map(|base| Some((base, self.by_base.get(base)?)));
        based.flat_map(move |(base, watches)| {
            let below = path.as_path().strip_prefix(base).unwrap_or(Path::new(""));
            watches.iter().filter(move |it| it.glob.is_match(below))
        })
    }

    /// Whether the server is notified of this change of a file (`FileChangeType`).
    pub fn reports(&self, path: &AbsPath, kind: u8) -> bool {
        self.of(path).any(|it| it.kinds & (1 << (kind - 1)) != 0)
    }

    /// Whether a glob names a file, by its name or a part of it.
    pub fn names(&self, path: &AbsPath) -> bool {
        self.of(path).any(|it| it.named >= Named::Part)
    }

    /// Whether a glob names a file by its whole name.
    pub(crate) fn names_whole(&self, path: &AbsPath) -> bool {
        self.of(path).any(|it| it.named == Named::Whole)
    }

    /// Whether both have the same registrations.
    pub(crate) fn are_same(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

/// The base directory and glob of a `GlobPattern`.
///
/// A base restricts the glob to files below it.
fn based(pattern: &Value, root: &AbsPath) -> Option<(AbsPath, String)> {
    let Some(glob) = pattern.as_str() else {
        let base = pattern["baseUri"].as_str().or(pattern["baseUri"]["uri"].as_str())?;
        let base = paths::uri_to_path(base).and_then(AbsPath::new)?;
        return Some((base, pattern["pattern"].as_str()?.to_owned()));
    };
    let Some(from_top) = glob.strip_prefix('/') else {
        return Some((root.clone(), glob.trim_start_matches("./").to_owned()));
    };
    let top = root.as_path().ancestors().last().and_then(AbsPath::new)?;
    Some((top, from_top.to_owned()))
}

/// A parsed glob with the parts of each alternative that names a file.
struct Read {
    globs: Vec<(Arc<GlobMatcher>, Named)>,
    named: Vec<Vec<String>>,
}

fn read(glob: &str) -> Read {
    // A single star stays within one path component.
    let built = |glob: &str| {
        let built = GlobBuilder::new(glob).literal_separator(true).empty_alternates(true).build();
        built.ok().map(|it| Arc::new(it.compile_matcher()))
    };
    let each: Vec<(String, Vec<String>, Named)> = alternatives(glob)
        .into_iter()
        .map(|it| {
            let parts: Vec<String> = it.split('/').filter(|it| !it.is_empty()).map(str::to_owned).collect();
            let named = parts.last().map_or(Named::Nothing, |last| names(last));
            (it, parts, named)
        })
        .collect();
    let first = each.first().map_or(Named::Nothing, |it| it.2);
    let globs: Vec<_> = match each.iter().all(|it| it.2 == first) {
        true => built(glob).map(|it| (it, first)).into_iter().collect(),
        false => each.iter().filter_map(|it| Some((built(&it.0)?, it.2))).collect(),
    };
    let named = each.into_iter().filter(|it| !globs.is_empty() && it.2 != Named::Nothing).map(|it| it.1);
    Read { named: named.collect(), globs }
}

fn is_wild(part: &str) -> bool {
    part.contains(['*', '?', '['])
}

fn names(last: &str) -> Named {
    let mut in_class = false;
    let has_word = last.chars().any(|it| {
        in_class = it == '[' || in_class && it != ']';
        !in_class && it.is_alphanumeric()
    });
    match has_word {
        false => Named::Nothing,
        true if is_wild(last) => Named::Part,
        true => Named::Whole,
    }
}

/// The alternatives of a glob without braces; none if there are too many.
fn alternatives(glob: &str) -> Vec<String> {
    let (mut open, mut done) = (vec![glob.to_owned()], Vec::new());
    while let Some(glob) = open.pop() {
        match braces(&glob) {
            None => done.push(glob),
            Some((before, inner, after)) => {
                open.extend(inner.iter().map(|it| format!("{before}{it}{after}")));
            }
        }
        if open.len() + done.len() > MOST_ALTERNATIVES {
            return Vec::new();
        }
    }
    done
}

/// The text before, in and after the first braces, which may be nested.
fn braces(glob: &str) -> Option<(&str, Vec<&str>, &str)> {
    let start = glob.find('{')?;
    let (mut depth, mut from, mut inner) = (0_usize, start + 1, Vec::new());
    for (at, it) in glob.char_indices().skip_while(|(at, _)| *at < start) {
        match it {
            '{' => depth += 1,
            ',' if depth == 1 => {
                inner.push(&glob[from..at]);
                from = at + 1;
            }
            '}' if depth == 1 => {
                inner.push(&glob[from..at]);
                return Some((&glob[..start], inner, &glob[at + 1..]));
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn path(path: &str) -> AbsPath {
        AbsPath::new(path).unwrap()
    }

    fn watchers(each: Value) -> Watchers {
        Watchers::new([json!({"watchers": each})].iter(), &path("/w/r"))
    }

    #[test]
    fn watchers_match_absolute_and_relative_paths() {
        let check = |glob: Value, at: &str| watchers(json!([{"globPattern": glob}])).reports(&path(at), 2);
        assert!(check(json!("**"), "/w/r/a/b.py"));
        assert!(check(json!("**/*.{py,pyi}"), "/w/r/a/b.py") && check(json!("**/*.{py,pyi}"), "/w/q/b.pyi"));
        assert!(check(json!("/w/r/Cargo.toml"), "/w/r/Cargo.toml"));
        assert!(!check(json!("**/*.rs"), "/w/r/a/b.py"));
        assert!(check(json!("src/*.py"), "/w/r/src/b.py") && !check(json!("src/*.py"), "/w/r/src/a/b.py"));
        let relative = |base: Value| json!({"baseUri": base, "pattern": "**/*.py"});
        assert!(check(relative(json!("file:///w/r/")), "/w/r/src/b.py"));
        assert!(check(relative(json!({"uri": "file:///w/r", "name": "r"})), "/w/r/src/b.py"));
        assert!(!check(relative(json!("file:///q")), "/w/r/src/b.py"), "only below its base");
        assert!(!check(json!("**/{a"), "/w/r/{a"), "no glob");
    }

    #[test]
    fn only_registered_kinds_are_reported() {
        let two = watchers(json!([
            {"globPattern": "**/a", "kind": 1}, {"globPattern": "**/*a", "kind": 4}, {"globPattern": "**/b"}
        ]));
        let kinds = |at: &str| [1, 2, 3].map(|kind| two.reports(&path(at), kind));
        assert_eq!(kinds("/w/r/a"), [true, false, true]);
        assert_eq!(kinds("/w/r/aa"), [false, false, true]);
        assert_eq!(kinds("/w/r/b"), [true; 3]);
    }

    #[test]
    fn a_glob_that_matches_every_file_names_none() {
        let named = |glob: &str, at: &str| {
            let watchers = watchers(json!([{"globPattern": glob}]));
            (watchers.names(&path(at)), watchers.names_whole(&path(at)))
        };
        for glob in ["**", "**/*", "src/**", "**/*.*", "**/[a-z]*", "{**/*,src/**}"] {
            assert_eq!(named(glob, "/w/r/src/lib.rs"), (false, false), "{glob}");
            let all = watchers(json!([{"globPattern": glob}]));
            assert!(all.reports(&path("/w/r/src/lib.rs"), 2) && all.tops.is_empty() && all.places.is_empty());
        }
        assert_eq!(named("**/Cargo.{lock,toml}", "/w/r/a/Cargo.lock"), (true, true));
        assert_eq!(named("**/*.{go,mod,sum,work}", "/w/r/go.work"), (true, false));
        assert_eq!(named("**/{go.work,*.mod,*}", "/w/r/go.work"), (true, true));
        assert_eq!(named("**/{go.work,*.mod,*}", "/w/r/x"), (false, false));
        assert_eq!(named("**/tsconfig{,.*}.json", "/w/r/tsconfig.json"), (true, true));
        let many = format!("**/{}x", "{a,b}".repeat(9));
        assert_eq!(named(&many, "/w/r/ababababax"), (false, false));
    }

    #[test]
    fn globs_name_the_directories_to_scan() {
        let it = watchers(json!([
            {"globPattern": "**/Cargo.lock"},
            {"globPattern": "**/.cargo/config.toml"},
            {"globPattern": ".github/*/*.yml"},
            {"globPattern": "conf/*.toml"},
            {"globPattern": "/home/me/.config/x.toml"},
            {"globPattern": {"baseUri": "file:///lib", "pattern": "**/*.so"}},
        ]));
        let places = [("/home/me/.config", "x.toml"), ("/w/r/conf", "*.toml")];
        let expected: BTreeSet<_> = places.map(|(at, it)| (path(at), it.to_owned())).into();
        assert_eq!(it.places, expected);
        assert_eq!(it.tops, BTreeSet::from(["/lib", "/w/r", "/w/r/.github"].map(path)));
        assert_eq!(it.ends, BTreeSet::from([".cargo/config.toml", "Cargo.lock"].map(str::to_owned)));
        let hidden = [(".cargo", "config.toml"), (".github", "*/*.yml")];
        assert_eq!(it.hidden, BTreeSet::from(hidden.map(|(at, it)| (at.to_owned(), it.to_owned()))));
    }

    #[test]
    fn equal_registrations_compare_equal() {
        let (one, two) = (json!({"globPattern": "**/a"}), json!({"globPattern": "**/b"}));
        let both = watchers(json!([one, two]));
        assert!(both.are_same(&watchers(json!([two, one]))) && !both.are_same(&watchers(json!([one]))));
    }
}
