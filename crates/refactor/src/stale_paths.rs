//! Stale paths: lines whose text still names the old place after a move.
//!
//! The search reports a line for a path that leads to the old place and to nothing that exists after the
//! move. Servers may skip files that their project excludes. An `#include` that matches both the old and the
//! new place, depending on the include directories, is reported as ambiguous. The search changes no file.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use workspace::{Budget, Document, Operation, Workspace, WorkspaceEdit};

/// Extensions that an import of a script may omit.
const SCRIPTS: [&str; 11] = ["d.ts", "ts", "tsx", "js", "jsx", "mjs", "cjs", "mts", "cts", "vue", "svelte"];

/// The old places that an edit moves, as paths relative to the workspace.
pub(crate) struct OldPlaces {
    /// Old and new place of each moved file or directory.
    places: BTreeMap<String, String>,
    news: HashSet<String>,
    /// The directories among `places`.
    directories: BTreeSet<String>,
    /// Targets of script imports.
    ///
    /// These are paths without extension, and the directory of an `index`.
    scripts: BTreeSet<String>,
    modules: Vec<Module>,
    /// Words of which every file that names an old place contains at least one.
    keys: BTreeSet<String>,
}

/// A module of a language in which modules have names.
struct Module {
    language: Language,
    /// Its path without extension; the directory of a package.
    stem: String,
    /// The full names of the module.
    names: Vec<ModuleName>,
    /// Whether its package binds the name to something else, which an import may mean.
    hidden: bool,
}

/// A full name of a module.
struct ModuleName {
    /// The directory in which files may use it.
    root: String,
    old: String,
    /// The name after the move.
    new: Option<String>,
}

/// A language in which modules have names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    Python,
    Rust,
}

impl Language {
    /// The stem of the file that represents its directory.
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

impl OldPlaces {
    /// Reads the moves of an edit.
    pub fn of(workspace: &Workspace, edit: &WorkspaceEdit, budget: &Budget) -> Self {
        let mut moves: Vec<(String, String, bool)> = Vec::new();
        let mut places = BTreeMap::new();
        for operation in &edit.operations {
            let Operation::Rename { from, to, .. } = operation else { continue };
            let (old, new) = (workspace.relative(from), workspace.relative(to));
            let directory = from.as_path().is_dir();
            if directory {
                for path in workspace.candidates(workspace.files(from), budget.clone()) {
                    let below = workspace.relative(&path);
                    let moved = format!("{new}{}", below.strip_prefix(&old).unwrap_or_default());
                    places.insert(below, moved);
                }
            }
            places.insert(old.clone(), new.clone());
            moves.push((old, new, directory));
        }
        let package = |directory: &str| {
            let exists = |file: &str| workspace.root().join(format!("{directory}/{file}")).as_path().exists();
            exists("__init__.py") || exists("__init__.pyi")
        };
        Self::new(places, &moves, &package)
    }

    /// Finds the modules whose package binds their name to something else.
    pub(crate) fn find_hidden(&mut self, workspace: &Workspace, after: impl Fn(&Document) -> String) {
        for module in self.modules.iter_mut().filter(|module| module.language == Language::Python) {
            let package = workspace.root().join(parent(&module.stem)).join("__init__.py");
            let document = workspace.document(&package).ok();
            module.hidden = document.is_some_and(|document| binds(&after(&document), last(&module.stem)));
        }
    }

    /// Derives the names of the moved files, modules and packages.
    ///
    /// `moves`: old and new place, and whether it is a directory; `package`: whether a directory is a package.
    fn new(
        places: BTreeMap<String, String>,
        moves: &[(String, String, bool)],
        package: &dyn Fn(&str) -> bool,
    ) -> Self {
        let mut moved = Self {
            directories: moves.iter().filter(|it| it.2).map(|it| it.0.clone()).collect(),
            scripts: BTreeSet::new(),
            modules: Vec::new(),
            keys: BTreeSet::new(),
            news: places.values().cloned().collect(),
            places,
        };
        for old in moved.places.keys() {
            let Some(stem) = script_stem(old) else { continue };
            if let Some(directory) = stem.strip_suffix("/index") {
                moved.scripts.insert(directory.to_owned());
            }
            moved.scripts.insert(stem.to_owned());
        }
        for (old, new, directory) in moves {
            let stem = without_extension(old);
            let name = last(if *directory { old } else { stem });
            let is_head = ["index", "__init__", "mod"].contains(&name);
            let key = if is_head { last(parent(old)) } else { name };
            moved.keys.insert(key.to_owned());
            moved.keys.insert(name.to_owned());
            for language in [Language::Python, Language::Rust] {
                let holds = |it: &String| inside(it, old) && Language::of(it) == Some(language);
                if !moved.places.keys().any(holds) {
                    continue;
                }
                let module = |place: &str| match *directory {
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

    /// Whether a text may name an old place.
    pub fn may_be_in(&self, text: &str) -> bool {
        self.keys.iter().any(|key| text.contains(key.as_str()))
    }

    /// The place of a path after the moves, if it moves.
    pub fn new_name(&self, old: &str) -> Option<String> {
        let within = |directory: &&String| below(old, directory).is_some();
        self.places.get(old).cloned().or_else(|| {
            let directory = self.directories.iter().find(within)?;
            Some(format!("{}{}", self.places.get(directory)?, old.strip_prefix(directory.as_str())?))
        })
    }

    /// Whether something moves to a path.
    pub fn is_new(&self, name: &str) -> bool {
        self.news.contains(name)
    }

    /// The lines of `text`, from 0, that name an old place, and whether that is all.
    ///
    /// `file` is the file's place after the moves; `exists` says what exists after them.
    pub fn lines(
        &self,
        file: &str,
        text: &str,
        exists: &dyn Fn(&str) -> bool,
        is_over: &dyn Fn() -> bool,
    ) -> (BTreeSet<usize>, bool) {
        let mut found = BTreeSet::new();
        let scripts = script_stem(file).is_some() || extension(file) == "astro";
        let lists = lists_files(file);
        for (number, line) in text.lines().enumerate() {
            let path = |token: &Token<'_>| {
                self.path(parent(file), line, token, lists, exists) == Some(Leads::Old)
                    || (scripts && token.quoted && self.is_import(parent(file), token.text, exists))
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
            let module_file = format!("{stem}.{}", language.extension());
            let head = format!("{stem}/{}.{}", language.head(), language.extension());
            if exists(&module_file) || exists(&head) {
                continue;
            }
            match language {
                Language::Python => python_lines(module, file, text, &mut found),
                Language::Rust => rust_lines(module, file, text, &mut found),
            }
        }
        (found, true)
    }

    /// Lines of `text`, from 0, whose `#include` matches both places.
    ///
    /// The flag says whether these are all.
    pub(crate) fn ambiguous_includes(
        &self,
        file: &str,
        text: &str,
        exists: &dyn Fn(&str) -> bool,
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
            let leads = |token: Token<'_>| self.path(parent(file), line, &token, false, exists);
            if tokens(line).any(|token| leads(token) == Some(Leads::Either)) {
                found.insert(number);
            }
        }
        (found, true)
    }

    /// Resolves a path from the directory of its file or from the workspace.
    ///
    /// In a file that `lists` files, a name with an extension is a path too.
    fn path(
        &self,
        directory: &str,
        line: &str,
        token: &Token<'_>,
        lists: bool,
        exists: &dyn Fn(&str) -> bool,
    ) -> Option<Leads> {
        let text = token.text.trim_end_matches('.');
        let slash = text.contains('/');
        let alone = token.quoted || lists && text.contains('.');
        let leads = |path: &str| self.new_name(path).is_some() && (slash || !self.directories.contains(path));
        let here = (slash || alone).then(|| joined(directory, text)).flatten();
        let top = (slash && !text.starts_with('.')).then(|| joined("", text)).flatten();
        let paths: Vec<String> = here.into_iter().chain(top).collect();
        if paths.iter().any(|path| exists(path)) {
            return None;
        }
        if paths.iter().any(|path| leads(path)) {
            return Some(Leads::Old);
        }
        if !token.quoted || text.starts_with('.') || !is_include(line) {
            return None;
        }
        // Only the end of an include path is known; any path with this end may be meant. It names a directory that
        // moves if it reaches up to it.
        let begins = |path: &str| {
            let before = path.strip_suffix(text)?;
            (before.is_empty() || before.ends_with('/')).then_some(before.len())
        };
        let moves =
            |old: &str| self.directories.iter().find(|it| inside(old, it)).map_or(old, String::as_str).len();
        let names = |old: &str| {
            begins(old).is_some_and(|at| at < moves(old)) && !self.directories.contains(old) && !exists(old)
        };
        if !self.places.keys().any(|old| names(old)) {
            return None;
        }
        let too = self.places.values().any(|new| begins(new).is_some());
        Some(if too { Leads::Either } else { Leads::Old })
    }

    /// Whether a script imports an old place.
    fn is_import(&self, directory: &str, text: &str, exists: &dyn Fn(&str) -> bool) -> bool {
        if !text.starts_with("./") && !text.starts_with("../") && text != "." && text != ".." {
            return false;
        }
        let Some(path) = joined(directory, text) else { return false };
        let stem = script_stem(&path).unwrap_or(&path);
        self.scripts.contains(stem)
            && !exists(&path)
            && !SCRIPTS
                .iter()
                .any(|it| exists(&format!("{stem}.{it}")) || exists(&format!("{stem}/index.{it}")))
    }
}

/// Names of a Python module from its package root, the workspace, and `src`.
fn python_names(stem: &str, after: &str, package: &dyn Fn(&str) -> bool) -> Vec<ModuleName> {
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
        old.split('.').all(is_name).then(|| ModuleName { new: name(&root, after), old, root })
    };
    roots.into_iter().filter_map(named).collect()
}

/// The path of a Rust module in its crate.
fn rust_names(stem: &str, after: &str) -> Vec<ModuleName> {
    let Some(at) = stem.rfind("src/").filter(|at| *at == 0 || stem.as_bytes()[at - 1] == b'/') else {
        return Vec::new();
    };
    let root = stem[..at + 3].to_owned();
    let name = |stem: &str| below(stem, &root).map(|rest| format!("crate::{}", rest.replace('/', "::")));
    name(stem).map(|old| ModuleName { old, new: name(after), root: root.clone() }).into_iter().collect()
}

fn python_lines(module: &Module, file: &str, text: &str, found: &mut BTreeSet<usize>) {
    let names = |path: &str| {
        module.names.iter().any(|name| {
            // A name of one word may be another module in another directory.
            let here = name.old.contains('.')
                || name.root.is_empty()
                || last(&name.root) == "src"
                || below(file, &name.root).is_some();
            here && begins(path, &name.old, ".") && !name.is_new(path, ".")
        })
    };
    if Language::of(file) == Some(Language::Python) {
        for Import { line, path, member } in python_imports(text) {
            if member && module.hidden {
                continue;
            }
            let dots = path.len() - path.trim_start_matches('.').len();
            let is_old_place = match dots {
                0 => names(&path),
                _ => {
                    let mut directory = parent(file);
                    (1..dots).for_each(|_| directory = parent(directory));
                    let rest = path[dots..].replace('.', "/");
                    joined(directory, &rest).is_some_and(|path| inside(&path, &module.stem))
                }
            };
            if is_old_place {
                found.insert(line);
            }
        }
    }
    for name in module.names.iter().filter(|name| name.old.contains('.')) {
        dotted_lines(name, ".", text, found);
    }
}

fn rust_lines(module: &Module, file: &str, text: &str, found: &mut BTreeSet<usize>) {
    if Language::of(file) != Some(Language::Rust) {
        return;
    }
    let directory = parent(&module.stem);
    let is_parent =
        parent(file) == directory && ["mod", "lib", "main"].contains(&without_extension(last(file)));
    if is_parent || without_extension(file) == directory {
        let end = format!("mod {};", last(&module.stem));
        let declares_module = |line: &str| {
            // A comment may follow.
            let line = line.split("//").next().unwrap_or_default().trim();
            line.strip_suffix(&end).is_some_and(|before| before.is_empty() || before.starts_with("pub"))
        };
        found.extend(
            text.lines().enumerate().filter(|(_, line)| declares_module(line)).map(|(number, _)| number),
        );
    }
    for name in module.names.iter().filter(|name| below(file, &name.root).is_some()) {
        dotted_lines(name, "::", text, found);
    }
}

impl ModuleName {
    /// Whether `path` begins with the module's new name.
    fn is_new(&self, path: &str, between: &str) -> bool {
        self.new.as_deref().is_some_and(|new| begins(path, new, between))
    }
}

/// Finds lines that contain the whole name.
fn dotted_lines(name: &ModuleName, between: &str, text: &str, found: &mut BTreeSet<usize>) {
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

/// A Python import of `a.b` or `..a`.
///
/// `from a import b` imports `a` and its member `a.b`.
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

/// Whether a package binds `name` to something other than its module.
fn binds(text: &str, name: &str) -> bool {
    let imported = python_imports(text).into_iter().any(|it| {
        let path = it.path.trim_start_matches('.');
        it.member && path != name && path.rsplit('.').next() == Some(name)
    });
    let starts = [format!("def {name}("), format!("class {name}"), format!("{name} =")];
    imported || text.lines().any(|line| starts.iter().any(|start| line.starts_with(start.as_str())))
}

/// The target of a path.
#[derive(PartialEq)]
enum Leads {
    Old,
    /// The old or the new place, depending on the include directories.
    Either,
}

/// Whether a line is an `#include` or `#import`.
fn is_include(line: &str) -> bool {
    let words = ["include_next", "include", "import"];
    let word = line.trim_start().strip_prefix('#').map(str::trim_start);
    let path = word.and_then(|it| words.iter().find_map(|word| it.strip_prefix(word)));
    path.is_some_and(|it| ["<", "\"", "/*"].iter().any(|start| it.trim_start().starts_with(start)))
}

/// A word that may be a path.
struct Token<'a> {
    text: &'a str,
    /// Whether it fills a pair of quotes or brackets.
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

/// `text` relative to `directory`; `None` outside the workspace.
fn joined(directory: &str, text: &str) -> Option<String> {
    let mut parts: Vec<&str> = directory.split('/').filter(|part| !part.is_empty()).collect();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The path of a script without the extension that imports omit.
fn script_stem(name: &str) -> Option<&str> {
    SCRIPTS.iter().find_map(|it| name.strip_suffix(it)?.strip_suffix('.'))
}

/// Whether a file is a build file that lists others by name.
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

fn inside(path: &str, directory: &str) -> bool {
    path == directory || below(path, directory).is_some()
}

/// Returns the rest of `path` below `directory`.
fn below<'a>(path: &'a str, directory: &str) -> Option<&'a str> {
    if directory.is_empty() { Some(path) } else { path.strip_prefix(directory)?.strip_prefix('/') }
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
    fn a_long_text_is_abandoned_when_time_is_over() {
        let places = (0..3).map(|it| (format!("src/{it}.txt"), format!("lib/{it}.txt"))).collect();
        let moves = [("src".to_owned(), "lib".to_owned(), true)];
        let moved = OldPlaces::new(places, &moves, &|_| false);
        let text = format!("see src/0.txt\n{}", "none of src/9.md ".repeat(1000));
        let exists = |name: &str| moved.is_new(name) || name.ends_with(".md");
        assert_eq!(moved.lines("a.txt", &text, &exists, &|| false), (BTreeSet::from([0]), true));
        let asked = Cell::new(0);
        let is_over = || asked.replace(asked.get() + 1) > 10;
        assert_eq!(moved.lines("a.txt", &text, &exists, &is_over), (BTreeSet::from([0]), false));
        assert_eq!(asked.get(), 12);
    }
}
