//! The files that a server asked to hear of (LSP 3.17 §DidChangeWatchedFiles), and which of them are looked for.
//!
//! It hears of all that its globs match. Looked for on the disk is only what they name: a glob whose last part
//! has no word of a name or an ending (`**`, `src/**/*`, as ty 0.0.105 registers them) is of everything, and to
//! look at every file of a workspace before each question would cost more than it tells. Outside of the workspace
//! only single folders are looked into, no trees: pyrefly 1.4.1 registers all that Python has installed.
//!
//! Pure: reads no file.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};
use serde_json::Value;
use workspace::AbsPath;

/// A glob of more alternatives is not looked for.
const MOST_ALTERNATIVES: usize = 256;

/// What a server registered, as it is now.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    /// As it was read: base, glob and kinds. It says whether something was registered anew.
    source: Vec<(AbsPath, String, u64)>,
    by_base: HashMap<PathBuf, Vec<Watch>>,
    /// Folders that are walked, if they lie in the workspace.
    pub tops: BTreeSet<AbsPath>,
    /// Single folders, and globs of names in them.
    pub places: BTreeSet<(AbsPath, String)>,
    /// What globs of any folder name without a star: looked for in a server's root and above it though it be
    /// ignored (`go.work`).
    pub ends: BTreeSet<String>,
    /// Hidden folders by their names, and what is looked for in each (`.cargo`, `config.toml`).
    pub hidden: BTreeSet<(String, String)>,
}

#[derive(Debug, Clone)]
struct Watch {
    glob: Arc<GlobMatcher>,
    kinds: u64,
    named: Named,
}

/// What the last part of a glob says of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Named {
    Nothing,
    /// A part of it.
    Part,
    Whole,
}

impl Watchers {
    /// Reads the options of all registrations; a glob that is none is left out. `root`: what globs without a base
    /// are below.
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
                // One of any folder is of those above the root too.
                let base = match base == root && glob.starts_with("**") {
                    true => base.as_path().ancestors().last().unwrap_or(base.as_path()),
                    false => base.as_path(),
                };
                out.by_base.entry(base.to_owned()).or_default().push(watch);
            }
            for parts in &read.named {
                out.is_looked_for(base, parts);
            }
        }
        out.source = source;
        out
    }

    /// A glob of which a name is known, by its parts.
    fn is_looked_for(&mut self, base: &AbsPath, parts: &[String]) {
        let Some((_, folders)) = parts.split_last() else { return };
        let lead = folders.iter().take_while(|part| !is_wild(part)).count();
        let anchor = folders[..lead].iter().fold(base.clone(), |at, part| at.join(part));
        if lead == folders.len() {
            self.places.insert((anchor, parts[lead..].join("/")));
            return;
        }
        self.tops.insert(anchor);
        let end = parts.iter().rposition(|part| is_wild(part)).map_or(0, |at| at + 1);
        if end < parts.len() {
            self.ends.insert(parts[end..].join("/"));
        }
        let is_hidden = |part: &String| part.starts_with('.') && part != ".." && !is_wild(part);
        if let Some(at) = folders.iter().position(is_hidden)
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

    /// Whether the server is told that this happened to a file (`FileChangeType`).
    pub fn tells(&self, path: &AbsPath, kind: u8) -> bool {
        self.of(path).any(|it| it.kinds & (1 << (kind - 1)) != 0)
    }

    /// Whether some glob names a file, by its name or a part of that.
    pub fn names(&self, path: &AbsPath) -> bool {
        self.of(path).any(|it| it.named >= Named::Part)
    }

    /// Whether some glob names it by its whole name.
    pub fn names_whole(&self, path: &AbsPath) -> bool {
        self.of(path).any(|it| it.named == Named::Whole)
    }

    /// Whether nothing was registered or taken back between them.
    pub fn are_same(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

/// `GlobPattern`: the folder that it is below, and the glob. One with a base is of what lies below that alone.
fn based(pattern: &Value, root: &AbsPath) -> Option<(AbsPath, String)> {
    let Some(glob) = pattern.as_str() else {
        let base = pattern["baseUri"].as_str().or(pattern["baseUri"]["uri"].as_str())?;
        let base = workspace::uri_to_path(base).and_then(AbsPath::new)?;
        return Some((base, pattern["pattern"].as_str()?.to_owned()));
    };
    let Some(from_top) = glob.strip_prefix('/') else {
        return Some((root.clone(), glob.trim_start_matches("./").to_owned()));
    };
    let top = root.as_path().ancestors().last().and_then(AbsPath::new)?;
    Some((top, from_top.to_owned()))
}

/// A glob, and those of its alternatives that name something, each by its parts.
struct Read {
    globs: Vec<(Arc<GlobMatcher>, Named)>,
    named: Vec<Vec<String>>,
}

fn read(glob: &str) -> Read {
    // A single star stays within one part of a path.
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

/// A glob without braces for each of its alternatives; none where there are too many.
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

/// What stands before, in and after the first braces, which may hold others.
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
    fn watchers_match_whole_paths_and_relative_ones() {
        let check = |glob: Value, at: &str| watchers(json!([{"globPattern": glob}])).tells(&path(at), 2);
        assert!(check(json!("**"), "/w/r/a/b.py"));
        assert!(check(json!("**/*.{py,pyi}"), "/w/r/a/b.py") && check(json!("**/*.{py,pyi}"), "/w/q/b.pyi"));
        assert!(check(json!("/w/r/Cargo.toml"), "/w/r/Cargo.toml"));
        assert!(!check(json!("**/*.rs"), "/w/r/a/b.py"));
        assert!(check(json!("src/*.py"), "/w/r/src/b.py") && !check(json!("src/*.py"), "/w/r/src/a/b.py"));
        let relative = |base: Value| json!({"baseUri": base, "pattern": "**/*.py"});
        assert!(check(relative(json!("file:///w/r/")), "/w/r/src/b.py"));
        assert!(check(relative(json!({"uri": "file:///w/r", "name": "r"})), "/w/r/src/b.py"));
        assert!(!check(relative(json!("file:///q")), "/w/r/src/b.py"), "below its base alone");
        assert!(!check(json!("**/{a"), "/w/r/{a"), "no glob");
    }

    #[test]
    fn what_is_not_of_the_kind_is_not_told() {
        let two = watchers(json!([
            {"globPattern": "**/a", "kind": 1}, {"globPattern": "**/*a", "kind": 4}, {"globPattern": "**/b"}
        ]));
        let kinds = |at: &str| [1, 2, 3].map(|kind| two.tells(&path(at), kind));
        assert_eq!(kinds("/w/r/a"), [true, false, true]);
        assert_eq!(kinds("/w/r/aa"), [false, false, true]);
        assert_eq!(kinds("/w/r/b"), [true; 3]);
    }

    #[test]
    fn a_glob_of_everything_names_nothing() {
        let named = |glob: &str, at: &str| {
            let watchers = watchers(json!([{"globPattern": glob}]));
            (watchers.names(&path(at)), watchers.names_whole(&path(at)))
        };
        for glob in ["**", "**/*", "src/**", "**/*.*", "**/[a-z]*", "{**/*,src/**}"] {
            assert_eq!(named(glob, "/w/r/src/lib.rs"), (false, false), "{glob}");
            let all = watchers(json!([{"globPattern": glob}]));
            assert!(all.tells(&path("/w/r/src/lib.rs"), 2) && all.tops.is_empty() && all.places.is_empty());
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
    fn it_is_known_where_to_look() {
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
    fn the_same_registered_again_is_nothing_new() {
        let (one, two) = (json!({"globPattern": "**/a"}), json!({"globPattern": "**/b"}));
        let both = watchers(json!([one, two]));
        assert!(both.are_same(&watchers(json!([two, one]))) && !both.are_same(&watchers(json!([one]))));
    }
}
