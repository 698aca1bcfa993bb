//! What still names the old place of a file that moves: looked for in the text of the workspace, as the
//! edit would leave it.
//!
//! Says only what a line holds: a path that leads to the old place and to nothing that is there
//! afterwards. Changes nothing. A server may leave out files that its project leaves out. An include to
//! which old and new place answer alike, each from another folder that is searched, is told as such.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::{Duration, Instant};

use workspace::{Document, Operation, Workspace, WorkspaceEdit};

use super::rename::edited;
use crate::server::Clock;

/// At most this many files are looked at.
const LOOKED_AT: usize = 20_000;
/// A larger file is not looked at.
const LARGEST: usize = 1 << 20;
/// For at most this long.
const LONGEST: Duration = Duration::from_secs(5);
/// Places named in a note.
const NAMED: usize = 12;

const SCRIPTS: [&str; 11] = ["d.ts", "ts", "tsx", "js", "jsx", "mjs", "cjs", "mts", "cts", "vue", "svelte"];

/// A word about the lines that name the old place after `edit`.
pub(super) async fn still_named(
    workspace: &Workspace,
    edit: &WorkspaceEdit,
    clock: Clock<'_>,
) -> Option<String> {
    let (workspace, edit, cancel) = (workspace.clone(), edit.clone(), clock.cancel.clone());
    let clock = clock.within(LONGEST);
    let until = clock.at(90);
    let search = tokio::task::spawn_blocking(move || {
        let is_over = || Instant::now() >= until || cancel.is_cancelled();
        let mut moved = Moved::of(&workspace, &edit, &is_over);
        for module in moved.modules.iter_mut().filter(|it| it.language == Language::Python) {
            let package = workspace.root().join(parent(&module.stem)).join("__init__.py");
            let document = workspace.document(&package).ok();
            module.hidden = document.is_some_and(|it| binds(&after(&edit, &it), last(&module.stem)));
        }
        let mut places = Vec::new();
        let mut doubtful = Vec::new();
        let mut cut = false;
        for (count, path) in workspace.files(workspace.root()).enumerate() {
            if count >= LOOKED_AT || is_over() {
                cut = true;
                break;
            }
            // What cannot be read as text names nothing.
            let Ok(document) = workspace.document(&path) else { continue };
            if !moved.may_be_in(&document.text) {
                continue;
            }
            if document.text.len() > LARGEST {
                cut = true;
                continue;
            }
            let text = after(&edit, &document);
            let old = workspace.relative(&path);
            let name = moved.new_name(&old).unwrap_or(old);
            let there = |name: &str| {
                moved.is_new(name)
                    || (moved.new_name(name).is_none() && workspace.root().join(name).as_path().exists())
            };
            let (lines, whole) = moved.lines(&name, &text, &there, &is_over);
            let (in_doubt, all) = moved.in_doubt(&name, &text, &there, &is_over);
            let place = |line: &usize| format!("{name}:{}", line + 1);
            places.extend(lines.iter().map(place));
            doubtful.extend(in_doubt.difference(&lines).map(place));
            cut |= !whole || !all;
        }
        (places, doubtful, cut)
    });
    let nothing = || (Vec::new(), Vec::new(), true);
    // It ends by itself; a file that cannot be read by then is not waited for.
    let (places, doubtful, cut) = tokio::select! {
        biased;
        () = clock.cancel.cancelled() => nothing(),
        found = search => found.unwrap_or_else(|_| nothing()),
        () = tokio::time::sleep_until(clock.until.into()) => nothing(),
    };
    told(&places, &doubtful, cut)
}

/// The text of a document as `edit` leaves it.
fn after(edit: &WorkspaceEdit, document: &Document) -> String {
    let mut text = document.text.to_string();
    for (_, edits) in edited(edit).filter(|(path, _)| **path == document.path) {
        text = text::apply(&text, edits).unwrap_or(text);
    }
    text
}

/// The note about `places`, and about includes that are `doubtful`.
fn told(places: &[String], doubtful: &[String], cut: bool) -> Option<String> {
    let unsearched = if cut { " (not every file was searched)" } else { "" };
    let note = |about: &str, places: &[String]| {
        let shown = places.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        let more = match places.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more lines; look for the old name with `grep`"),
        };
        (!places.is_empty()).then(|| format!("{about}{unsearched}: {shown}{more}"))
    };
    let named = note("still names the old place, as text", places);
    let folders = "`#include` lines that may need another search folder (`-I`) now, if they mean what moves";
    let notes: Vec<String> = named.into_iter().chain(note(folders, doubtful)).collect();
    if notes.is_empty() {
        return cut.then(|| "not every file was searched for the old place".to_owned());
    }
    Some(notes.join("; "))
}

/// The moves of an edit, in paths relative to the workspace.
struct Moved {
    /// Old and new; the folder that moves, and its files.
    places: BTreeMap<String, String>,
    /// The new ones.
    news: HashSet<String>,
    /// Those of `places` that are folders.
    folders: BTreeSet<String>,
    /// What imports of scripts lead to: without extension, and the folder of an `index`.
    scripts: BTreeSet<String>,
    modules: Vec<Module>,
    /// One of these is in every file that names an old place.
    keys: BTreeSet<String>,
}

/// A module by its names in a language with a name for each module.
struct Module {
    language: Language,
    /// Its path without extension; a package's folder.
    stem: String,
    /// Its full names, each with the folder in which files may use it, and what it is called afterwards.
    names: Vec<Name>,
    /// Its package gives the name to something else, which may be what is imported from there.
    hidden: bool,
}

struct Name {
    root: String,
    old: String,
    new: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    Python,
    Rust,
}

impl Language {
    /// The file that stands for its folder.
    fn head(self) -> &'static str {
        match self {
            Self::Python => "__init__",
            Self::Rust => "mod",
        }
    }

    fn extension(self) -> &'static str {
        match self {
            Self::Python => "py",
            Self::Rust => "rs",
        }
    }

    fn of(name: &str) -> Option<Self> {
        match extension(name) {
            "py" | "pyi" => Some(Self::Python),
            "rs" => Some(Self::Rust),
            _ => None,
        }
    }
}

impl Moved {
    fn of(workspace: &Workspace, edit: &WorkspaceEdit, is_over: &dyn Fn() -> bool) -> Self {
        let mut moves: Vec<(String, String, bool)> = Vec::new();
        let mut places = BTreeMap::new();
        for operation in &edit.operations {
            let Operation::Rename { from, to, .. } = operation else { continue };
            let (old, new) = (workspace.relative(from), workspace.relative(to));
            let folder = from.as_path().is_dir();
            if folder {
                for path in workspace.files(from).take(LOOKED_AT).take_while(|_| !is_over()) {
                    let below = workspace.relative(&path);
                    let moved = format!("{new}{}", below.strip_prefix(&old).unwrap_or_default());
                    places.insert(below, moved);
                }
            }
            places.insert(old.clone(), new.clone());
            moves.push((old, new, folder));
        }
        let package = |folder: &str| {
            let is = |file: &str| workspace.root().join(format!("{folder}/{file}")).as_path().exists();
            is("__init__.py") || is("__init__.pyi")
        };
        Self::new(places, &moves, &package)
    }

    /// `moves`: what was asked to move, with whether it is a folder; `package`: whether a folder is one.
    fn new(
        places: BTreeMap<String, String>,
        moves: &[(String, String, bool)],
        package: &dyn Fn(&str) -> bool,
    ) -> Self {
        let mut moved = Self {
            folders: moves.iter().filter(|it| it.2).map(|it| it.0.clone()).collect(),
            scripts: BTreeSet::new(),
            modules: Vec::new(),
            keys: BTreeSet::new(),
            news: places.values().cloned().collect(),
            places,
        };
        for old in moved.places.keys() {
            let Some(stem) = script_stem(old) else { continue };
            if let Some(folder) = stem.strip_suffix("/index") {
                moved.scripts.insert(folder.to_owned());
            }
            moved.scripts.insert(stem.to_owned());
        }
        for (old, new, folder) in moves {
            let stem = without_extension(old);
            let name = last(if *folder { old } else { stem });
            let is_head = ["index", "__init__", "mod"].contains(&name);
            let key = if is_head { last(parent(old)) } else { name };
            moved.keys.insert(key.to_owned());
            moved.keys.insert(name.to_owned());
            for language in [Language::Python, Language::Rust] {
                let holds = |it: &String| inside(it, old) && Language::of(it) == Some(language);
                if !moved.places.keys().any(holds) {
                    continue;
                }
                let module = |place: &str| match *folder {
                    true => place.to_owned(),
                    false => {
                        let stem = without_extension(place);
                        stem.strip_suffix(&format!("/{}", language.head())).unwrap_or(stem).to_owned()
                    }
                };
                let (stem, after) = (module(old), module(new));
                let names = match language {
                    Language::Python => python_names(&stem, &after, package),
                    Language::Rust => rust_names(&stem, &after),
                };
                moved.modules.push(Module { language, stem, names, hidden: false });
            }
        }
        moved.keys.retain(|key| !key.is_empty());
        moved
    }

    fn may_be_in(&self, text: &str) -> bool {
        self.keys.iter().any(|key| text.contains(key.as_str()))
    }

    fn new_name(&self, old: &str) -> Option<String> {
        let within = |folder: &&String| below(old, folder).is_some();
        self.places.get(old).cloned().or_else(|| {
            let folder = self.folders.iter().find(within)?;
            Some(format!("{}{}", self.places.get(folder)?, old.strip_prefix(folder.as_str())?))
        })
    }

    fn is_new(&self, name: &str) -> bool {
        self.news.contains(name)
    }

    /// The lines (from 0) of `text` that name an old place, and whether that is all: not where the time `is_over`.
    /// `holder` is where the file will be; `there` says what will be there.
    fn lines(
        &self,
        holder: &str,
        text: &str,
        there: &dyn Fn(&str) -> bool,
        is_over: &dyn Fn() -> bool,
    ) -> (BTreeSet<usize>, bool) {
        let mut found = BTreeSet::new();
        let scripts = script_stem(holder).is_some() || extension(holder) == "astro";
        let lists = lists_files(holder);
        for (number, line) in text.lines().enumerate() {
            let path = |token: &Token<'_>| {
                self.path(parent(holder), line, token, lists, there) == Some(Leads::Old)
                    || (scripts && token.quoted && self.is_import(parent(holder), token.text, there))
            };
            if !self.may_be_in(line) {
                continue;
            }
            for token in tokens(line) {
                if is_over() {
                    return (found, false);
                }
                if path(&token) {
                    found.insert(number);
                    break;
                }
            }
        }
        for module in &self.modules {
            if is_over() {
                return (found, false);
            }
            let (stem, language) = (&module.stem, module.language);
            let file = format!("{stem}.{}", language.extension());
            let head = format!("{stem}/{}.{}", language.head(), language.extension());
            if there(&file) || there(&head) {
                continue;
            }
            match language {
                Language::Python => python_lines(module, holder, text, &mut found),
                Language::Rust => rust_lines(module, holder, text, &mut found),
            }
        }
        (found, true)
    }

    /// The lines (from 0) of `text` whose includes the old place and the new one answer alike, and whether
    /// that is all.
    fn in_doubt(
        &self,
        holder: &str,
        text: &str,
        there: &dyn Fn(&str) -> bool,
        is_over: &dyn Fn() -> bool,
    ) -> (BTreeSet<usize>, bool) {
        let mut found = BTreeSet::new();
        for (number, line) in text.lines().enumerate() {
            if !is_include(line) || !self.may_be_in(line) {
                continue;
            }
            if is_over() {
                return (found, false);
            }
            let leads = |token: Token<'_>| self.path(parent(holder), line, &token, false, there);
            if tokens(line).any(|token| leads(token) == Some(Leads::Either)) {
                found.insert(number);
            }
        }
        (found, true)
    }

    /// Whether a path, from the folder of its file or from the workspace's, leads to an old place. Where
    /// a file `lists` files, a name with an ending is one too.
    fn path(
        &self,
        folder: &str,
        line: &str,
        token: &Token<'_>,
        lists: bool,
        there: &dyn Fn(&str) -> bool,
    ) -> Option<Leads> {
        let text = token.text.trim_end_matches('.');
        let slash = text.contains('/');
        let alone = token.quoted || lists && text.contains('.');
        let leads = |path: &str| self.new_name(path).is_some() && (slash || !self.folders.contains(path));
        let here = (slash || alone).then(|| joined(folder, text)).flatten();
        let top = (slash && !text.starts_with('.')).then(|| joined("", text)).flatten();
        let paths: Vec<String> = here.into_iter().chain(top).collect();
        if paths.iter().any(|path| there(path)) {
            return None;
        }
        if paths.iter().any(|path| leads(path)) {
            return Some(Leads::Old);
        }
        if !token.quoted || text.starts_with('.') || !is_include(line) {
            return None;
        }
        // Of an include only the end is known; what else has this end may be meant. It names a folder that
        // moves where it reaches to it.
        let begins = |path: &str| {
            let before = path.strip_suffix(text)?;
            (before.is_empty() || before.ends_with('/')).then_some(before.len())
        };
        let moves =
            |old: &str| self.folders.iter().find(|it| inside(old, it)).map_or(old, String::as_str).len();
        let names = |old: &str| {
            begins(old).is_some_and(|at| at < moves(old)) && !self.folders.contains(old) && !there(old)
        };
        if !self.places.keys().any(|old| names(old)) {
            return None;
        }
        let too = self.places.values().any(|new| begins(new).is_some());
        Some(if too { Leads::Either } else { Leads::Old })
    }

    /// Whether what a script imports was at an old place.
    fn is_import(&self, folder: &str, text: &str, there: &dyn Fn(&str) -> bool) -> bool {
        if !text.starts_with("./") && !text.starts_with("../") && text != "." && text != ".." {
            return false;
        }
        let Some(path) = joined(folder, text) else { return false };
        let stem = script_stem(&path).unwrap_or(&path);
        self.scripts.contains(stem)
            && !there(&path)
            && !SCRIPTS
                .iter()
                .any(|it| there(&format!("{stem}.{it}")) || there(&format!("{stem}/index.{it}")))
    }
}

/// The names of a Python module: from where its packages begin, from the workspace and from `src`.
fn python_names(stem: &str, after: &str, package: &dyn Fn(&str) -> bool) -> Vec<Name> {
    let mut root = parent(stem);
    while !root.is_empty() && package(root) {
        root = parent(root);
    }
    let mut roots = BTreeSet::from([root.to_owned(), String::new()]);
    if let Some((before, _)) = stem.rsplit_once("src/")
        && (before.is_empty() || before.ends_with('/'))
    {
        roots.insert(format!("{before}src"));
    }
    let name = |root: &str, stem: &str| below(stem, root).map(|rest| rest.replace('/', "."));
    let named = |root: String| {
        let old = name(&root, stem)?;
        let is_name = |it: &str| !it.is_empty() && it.chars().all(|c| c.is_alphanumeric() || c == '_');
        old.split('.').all(is_name).then(|| Name { new: name(&root, after), old, root })
    };
    roots.into_iter().filter_map(named).collect()
}

/// The path of a Rust module from its crate on.
fn rust_names(stem: &str, after: &str) -> Vec<Name> {
    let Some(at) = stem.rfind("src/").filter(|at| *at == 0 || stem.as_bytes()[at - 1] == b'/') else {
        return Vec::new();
    };
    let root = stem[..at + 3].to_owned();
    let name = |stem: &str| below(stem, &root).map(|rest| format!("crate::{}", rest.replace('/', "::")));
    name(stem).map(|old| Name { old, new: name(after), root: root.clone() }).into_iter().collect()
}

fn python_lines(module: &Module, holder: &str, text: &str, found: &mut BTreeSet<usize>) {
    let names = |path: &str| {
        module.names.iter().any(|name| {
            // A name of one word may be another module's elsewhere.
            let here = name.old.contains('.')
                || name.root.is_empty()
                || last(&name.root) == "src"
                || below(holder, &name.root).is_some();
            here && begins(path, &name.old, ".") && !name.is_new(path, ".")
        })
    };
    if Language::of(holder) == Some(Language::Python) {
        for Import { line, path, member } in python_imports(text) {
            if member && module.hidden {
                continue;
            }
            let dots = path.len() - path.trim_start_matches('.').len();
            let is = match dots {
                0 => names(&path),
                _ => {
                    let mut folder = parent(holder);
                    (1..dots).for_each(|_| folder = parent(folder));
                    let rest = path[dots..].replace('.', "/");
                    joined(folder, &rest).is_some_and(|path| inside(&path, &module.stem))
                }
            };
            if is {
                found.insert(line);
            }
        }
    }
    for name in module.names.iter().filter(|name| name.old.contains('.')) {
        dotted_lines(name, ".", text, found);
    }
}

fn rust_lines(module: &Module, holder: &str, text: &str, found: &mut BTreeSet<usize>) {
    if Language::of(holder) != Some(Language::Rust) {
        return;
    }
    let folder = parent(&module.stem);
    let declares =
        parent(holder) == folder && ["mod", "lib", "main"].contains(&without_extension(last(holder)));
    if declares || without_extension(holder) == folder {
        let end = format!("mod {};", last(&module.stem));
        let is = |line: &str| {
            let line = line.trim();
            line.strip_suffix(&end).is_some_and(|before| before.is_empty() || before.starts_with("pub"))
        };
        found.extend(text.lines().enumerate().filter(|(_, line)| is(line)).map(|(number, _)| number));
    }
    for name in module.names.iter().filter(|name| below(holder, &name.root).is_some()) {
        dotted_lines(name, "::", text, found);
    }
}

impl Name {
    /// Whether `path` goes on to where the module is afterwards.
    fn is_new(&self, path: &str, between: &str) -> bool {
        self.new.as_deref().is_some_and(|new| begins(path, new, between))
    }
}

/// Lines that hold the name as a whole.
fn dotted_lines(name: &Name, between: &str, text: &str, found: &mut BTreeSet<usize>) {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    for (number, line) in text.lines().enumerate() {
        let whole = line.match_indices(&name.old).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let starts = !before.is_some_and(|c| part(c) || ".:/-$".contains(c));
            let ends = !line[at + name.old.len()..].starts_with(part);
            starts && ends && !name.is_new(&line[at..], between)
        });
        if whole {
            found.insert(number);
        }
    }
}

/// An import of Python: `a.b`, `..a`; `from a import b` is one of `a` and one of its member `a.b`.
struct Import {
    line: usize,
    path: String,
    member: bool,
}

fn python_imports(text: &str) -> Vec<Import> {
    let mut out = Vec::new();
    let mut lines = text.lines().enumerate();
    let names = |list: &str| -> Vec<String> {
        let list = list.split('#').next().unwrap_or_default().trim().trim_end_matches('\\');
        let words = list.split([',', '(', ')']).filter_map(|it| it.split_whitespace().next());
        words.map(str::to_owned).collect()
    };
    while let Some((line, text)) = lines.next() {
        let text = text.trim_start();
        if let Some(list) = text.strip_prefix("import ") {
            out.extend(names(list).into_iter().map(|path| Import { line, path, member: false }));
        } else if let Some(rest) = text.strip_prefix("from ")
            && let Some((from, list)) = rest.split_once(" import")
        {
            let from = from.trim();
            let between = if from.ends_with('.') { "" } else { "." };
            let member =
                |line, name: String| Import { line, path: format!("{from}{between}{name}"), member: true };
            if !from.trim_matches('.').is_empty() {
                out.push(Import { line, path: from.to_owned(), member: false });
            }
            out.extend(names(list).into_iter().map(|name| member(line, name)));
            let mut open = list.contains('(') && !list.contains(')');
            while open && let Some((line, text)) = lines.next() {
                out.extend(names(text).into_iter().map(|name| member(line, name)));
                open = !text.contains(')');
            }
        }
    }
    out
}

/// Whether a package's own text gives `name` to something that is not its module.
fn binds(text: &str, name: &str) -> bool {
    let imported = python_imports(text).into_iter().any(|it| {
        let path = it.path.trim_start_matches('.');
        it.member && path != name && path.rsplit('.').next() == Some(name)
    });
    let starts = [format!("def {name}("), format!("class {name}"), format!("{name} =")];
    imported || text.lines().any(|line| starts.iter().any(|start| line.starts_with(start.as_str())))
}

/// Where a path leads.
#[derive(PartialEq)]
enum Leads {
    Old,
    /// To the old place or the new one, as folders are searched.
    Either,
}

/// Whether a line is an `#include` or `#import`.
fn is_include(line: &str) -> bool {
    let words = ["include_next", "include", "import"];
    let word = line.trim_start().strip_prefix('#').map(str::trim_start);
    let path = word.and_then(|it| words.iter().find_map(|word| it.strip_prefix(word)));
    path.is_some_and(|it| ["<", "\"", "/*"].iter().any(|start| it.trim_start().starts_with(start)))
}

/// What may be a path.
struct Token<'a> {
    text: &'a str,
    /// It stands alone between quotes or brackets.
    quoted: bool,
}

fn tokens(line: &str) -> impl Iterator<Item = Token<'_>> {
    let part = |c: char| c.is_alphanumeric() || "_-./@~+".contains(c);
    let mut rest = 0;
    std::iter::from_fn(move || {
        let start = rest + line[rest..].find(part)?;
        let end = line[start..].find(|c| !part(c)).map_or(line.len(), |at| start + at);
        rest = end;
        let around = (line[..start].chars().next_back(), line[end..].chars().next());
        let quoted = matches!(
            around,
            (Some('"'), Some('"'))
                | (Some('\''), Some('\''))
                | (Some('`'), Some('`'))
                | (Some('<'), Some('>'))
        );
        Some(Token { text: &line[start..end], quoted })
    })
}

/// `text` from `folder` on; `None` outside the workspace.
fn joined(folder: &str, text: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The path of a script without what an import leaves out.
fn script_stem(name: &str) -> Option<&str> {
    SCRIPTS.iter().find_map(|it| name.strip_suffix(it)?.strip_suffix('.'))
}

/// Whether a file says how a project is built, by the names of its files.
fn lists_files(name: &str) -> bool {
    let file = last(name);
    ["Makefile", "makefile", "GNUmakefile", "CMakeLists.txt"].contains(&file)
        || ["mk", "am", "cmake", "pro", "pri"].contains(&extension(file))
}

fn begins(path: &str, name: &str, between: &str) -> bool {
    path.strip_prefix(name).is_some_and(|rest| {
        rest.is_empty()
            || rest.starts_with(between)
            || !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_')
    })
}

fn inside(path: &str, folder: &str) -> bool {
    path == folder || below(path, folder).is_some()
}

/// The rest of `path` below `folder`.
fn below<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    if folder.is_empty() { Some(path) } else { path.strip_prefix(folder)?.strip_prefix('/') }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn extension(path: &str) -> &str {
    last(path).rsplit_once('.').map_or("", |(_, extension)| extension)
}

fn without_extension(path: &str) -> &str {
    match extension(path) {
        "" => path,
        extension => &path[..path.len() - extension.len() - 1],
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_long_text_is_left_when_the_time_is_over() {
        let places = (0..3).map(|it| (format!("src/{it}.txt"), format!("lib/{it}.txt"))).collect();
        let moves = [("src".to_owned(), "lib".to_owned(), true)];
        let moved = Moved::new(places, &moves, &|_| false);
        let text = format!("see src/0.txt\n{}", "none of src/9.md ".repeat(1000));
        let there = |name: &str| moved.is_new(name) || name.ends_with(".md");
        assert_eq!(moved.lines("a.txt", &text, &there, &|| false), (BTreeSet::from([0]), true));
        let asked = Cell::new(0);
        let is_over = || asked.replace(asked.get() + 1) > 10;
        assert_eq!(moved.lines("a.txt", &text, &there, &is_over), (BTreeSet::from([0]), false));
        assert_eq!(asked.get(), 12);
    }
}
