//! Root directories of projects, and globs over the file system.
//!
//! Reads the file system, starts nothing.

use std::path::{Path, PathBuf};

use globset::Glob;
use paths::AbsPath;

use crate::server::{Prefer, RootRule};

/// Finds the root directory of `file`, between it and the workspace's root. Blocks.
///
/// It is a marked directory. If none is marked, it is the workspace's root, unless the rule requires a marker.
pub fn find_root(rule: &RootRule, file: &AbsPath, workspace: &AbsPath) -> Option<AbsPath> {
    find(rule, rule.prefer, file, workspace)
}

/// Finds the package of `file`; one server may serve several packages. Blocks.
///
/// It is the nearest marked directory, else the workspace's root.
pub fn find_package(rule: &RootRule, file: &AbsPath, workspace: &AbsPath) -> AbsPath {
    find(rule, Prefer::Nearest, file, workspace).unwrap_or_else(|| workspace.clone())
}

fn find(rule: &RootRule, prefer: Prefer, file: &AbsPath, workspace: &AbsPath) -> Option<AbsPath> {
    let directories = match file.parent().filter(|directory| directory.starts_with(workspace)) {
        Some(directory) => upward(&directory, workspace),
        None => Vec::new(),
    };
    let mut marked = directories.iter().filter(|directory| is_marked(&rule.markers, directory)).cloned();
    let found = match prefer {
        Prefer::Nearest => {
            let nearest = marked.next();
            nearest.map(|nearest| inherited_from(rule, &nearest, marked).unwrap_or(nearest))
        }
        Prefer::Outermost => marked.next_back(),
    };
    let lone = || directories.iter().rfind(|directory| is_marked(&rule.fallback_markers, directory)).cloned();
    found.or_else(lone).or_else(|| (!rule.required).then(|| workspace.clone()))
}

/// Lists `directory` and its parents up to `top`.
pub(crate) fn upward(directory: &AbsPath, top: &AbsPath) -> Vec<AbsPath> {
    let mut directories = Vec::new();
    let mut at = Some(directory.clone());
    while let Some(directory) = at.filter(|directory| directory.starts_with(top)) {
        at = directory.parent();
        directories.push(directory);
    }
    directories
}

/// Finds the settings that a directory without its own inherits from above.
///
/// `None` if those settings list no files.
fn inherited_from(
    rule: &RootRule,
    directory: &AbsPath,
    above: impl Iterator<Item = AbsPath>,
) -> Option<AbsPath> {
    if rule.include_keys.is_empty() {
        return None;
    }
    let mut above = above.peekable();
    // Most directories have no marked one above, and no file is read for them.
    above.peek()?;
    if settings_kind(rule, directory) != Some(SettingsKind::NoSettings) {
        return None;
    }
    above
        .filter_map(|directory| Some((settings_kind(rule, &directory)?, directory)))
        .find(|(kind, _)| *kind != SettingsKind::NoSettings)
        .and_then(|(kind, directory)| (kind == SettingsKind::Files).then_some(directory))
}

/// Contents of a directory's settings files, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SettingsKind {
    /// The directory has no settings of the server.
    NoSettings,
    /// The settings do not list the project's files.
    Settings,
    Files,
}

/// Classifies the settings files of a directory; `None` without such a file.
fn settings_kind(rule: &RootRule, directory: &AbsPath) -> Option<SettingsKind> {
    let read = |(name, keys): (&String, &Vec<String>)| {
        let text = paths::read_settings(directory.join(name)).ok()?;
        if !name.ends_with(".toml") {
            // JSON with comments: text that contains a key may list files.
            let has = keys.iter().any(|key| text.contains(&format!("\"{key}\"")));
            return Some(if has { SettingsKind::Files } else { SettingsKind::Settings });
        }
        let table = |key: &str| key.rsplit_once('.').map(|(table, _)| table.to_owned());
        // Most of these files have no settings of the server; skip their parsing.
        let named = |key: &String| table(key).is_none_or(|it| text.contains(last_part(&it)));
        if !keys.iter().any(named) {
            return Some(SettingsKind::NoSettings);
        }
        let text: toml::Table = text.parse().ok()?;
        let has = |key: &str| {
            let mut parts = key.split('.');
            let first = parts.next().and_then(|part| text.get(part));
            parts.try_fold(first?, |value, part| value.get(part))
        };
        Some(match () {
            () if keys.iter().any(|key| has(key).is_some()) => SettingsKind::Files,
            () if keys.iter().filter_map(|key| table(key)).any(|it| has(&it).is_some()) => {
                SettingsKind::Settings
            }
            () => SettingsKind::NoSettings,
        })
    };
    // A file that lists files wins over one without settings.
    rule.include_keys.iter().filter_map(read).max_by_key(|kind| *kind as u8)
}

fn last_part(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

fn is_marked(markers: &[String], directory: &AbsPath) -> bool {
    markers.iter().any(|marker| {
        if marker.contains('*') {
            return !matches(&directory.join(marker).as_path().to_string_lossy()).is_empty();
        }
        directory.as_path().join(marker).exists()
    })
}

/// Lists the matches of an absolute glob, in order. Blocks.
///
/// `*` stays within one component.
pub fn matches(pattern: &str) -> Vec<PathBuf> {
    matches_below(Path::new(""), pattern)
}

/// Lists the matches of a glob in `directory`, whose own name is literal. Blocks.
pub fn matches_below(directory: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![directory.to_owned()];
    for component in Path::new(pattern).components() {
        let text = component.as_os_str().to_string_lossy();
        if !text.contains('*') {
            found.iter_mut().for_each(|path| path.push(component));
            continue;
        }
        let Ok(glob) = Glob::new(&text) else { return Vec::new() };
        let matcher = glob.compile_matcher();
        found = found
            .iter()
            .flat_map(|directory| sorted(directory))
            .filter(|path| path.file_name().is_some_and(|name| matcher.is_match(name)))
            .collect();
    }
    found.retain(|path| path.exists());
    found
}

pub(crate) fn sorted(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut entries: Vec<_> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    entries.sort();
    entries
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write files of their own")]
pub(crate) mod tests {
    use super::*;

    pub(crate) struct Tree(pub(crate) tempfile::TempDir);

    impl Tree {
        pub(crate) fn new(files: &[&str]) -> Self {
            let tree = Self(tempfile::tempdir().unwrap());
            for file in files {
                let path = tree.0.path().join(file);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(&path, "").unwrap();
                #[cfg(unix)]
                if file.contains("bin/") {
                    use std::os::unix::fs::PermissionsExt;
                    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
                }
            }
            tree
        }

        pub(crate) fn at(&self, path: &str) -> AbsPath {
            AbsPath::new(self.0.path()).unwrap().join(path)
        }
    }

    #[test]
    fn every_package_of_a_monorepo_has_its_own_root() {
        let tree = Tree::new(&["Cargo.toml", "a/pyproject.toml", "a/src/p/m.py", "b/q.py", "c/x.sln"]);
        let root = |markers: &[&str], prefer, file: &str| {
            let markers = markers.iter().map(|&marker| marker.to_owned()).collect();
            let rule = RootRule { markers, prefer, ..RootRule::default() };
            find_root(&rule, &tree.at(file), &tree.at("")).unwrap()
        };
        let nearest = Prefer::Nearest;
        assert_eq!(root(&["pyproject.toml"], nearest, "a/src/p/m.py"), tree.at("a"));
        assert_eq!(root(&["pyproject.toml"], nearest, "b/q.py"), tree.at(""));
        assert_eq!(root(&["pyproject.toml", "Cargo.toml"], nearest, "a/src/p/m.py"), tree.at("a"));
        assert_eq!(root(&["pyproject.toml", "Cargo.toml"], Prefer::Outermost, "a/src/p/m.py"), tree.at(""));
        assert_eq!(root(&["*.sln"], nearest, "c/y/z.cs"), tree.at("c"));
        assert_eq!(root(&["pyproject.toml"], nearest, "../elsewhere/x.py"), tree.at(""));
        let rule = RootRule { markers: vec!["pyproject.toml".into()], required: true, ..RootRule::default() };
        let required = |file: &str| find_root(&rule, &tree.at(file), &tree.at(""));
        assert_eq!((required("a/src/p/m.py"), required("b/q.py")), (Some(tree.at("a")), None));
    }

    #[test]
    fn a_fallback_marker_counts_below_no_marked_directory() {
        let names = ["o/setup.py", "o/docs/needs.txt", "p/needs.txt", "p/q/needs.txt", "p/r/setup.py"];
        let tree = Tree::new(&names);
        let (markers, fallback_markers) = (vec!["setup.py".to_owned()], vec!["needs.txt".to_owned()]);
        let rule = RootRule { markers, fallback_markers, ..RootRule::default() };
        let root = |file: &str| find_root(&rule, &tree.at(file), &tree.at("")).unwrap();
        assert_eq!(root("o/docs/x.py"), tree.at("o"));
        assert_eq!(root("p/q/x.py"), tree.at("p"));
        assert_eq!(root("p/r/x.py"), tree.at("p/r"));
        assert_eq!(root("s/x.py"), tree.at(""));
    }

    #[test]
    fn a_directory_with_inherited_file_lists_is_not_a_root() {
        let names = ["o/pyproject.toml", "o/a/pyproject.toml", "o/a/x.py", "o/b/setup.py", "o/b/x.py"];
        let tree = Tree::new(&names);
        let rule = RootRule {
            markers: ["x.json", "pyproject.toml", "setup.py"].map(str::to_owned).to_vec(),
            include_keys: [
                ("x.json".to_owned(), vec!["include".to_owned()]),
                ("pyproject.toml".to_owned(), vec!["tool.x.include".to_owned(), "tool.y.include".to_owned()]),
            ]
            .into(),
            ..RootRule::default()
        };
        let write = |name: &str, text: &str| std::fs::write(tree.at(name).as_path(), text).unwrap();
        let root = |file: &str| find_root(&rule, &tree.at(file), &tree.at("")).unwrap();
        assert_eq!(root("o/a/x.py"), tree.at("o/a"), "no directory has settings");
        write("o/pyproject.toml", "[tool.y]\nstrict = true\n");
        assert_eq!(root("o/a/x.py"), tree.at("o/a"), "the settings list no files");
        write("o/pyproject.toml", "[tool.y]\ninclude = [\"src\"]\n");
        assert_eq!(root("o/a/x.py"), tree.at("o"));
        assert_eq!(root("o/b/x.py"), tree.at("o/b"), "it has no settings file");
        write("o/a/pyproject.toml", "[project]\nname = \"x\"\n[tool.z]\ninclude = []\n");
        assert_eq!(root("o/a/x.py"), tree.at("o"));
        for own in ["[tool.x]\n", "[tool.y]\ninclude = [\".\"]\n"] {
            write("o/a/pyproject.toml", own);
            assert_eq!(root("o/a/x.py"), tree.at("o/a"), "{own}");
        }
        write("o/a/pyproject.toml", "");
        write("o/a/x.json", "{ // none\n}");
        assert_eq!(root("o/a/x.py"), tree.at("o/a"));
        write("pyproject.toml", "");
        write("x.json", "{ /* all */ \"include\": [\"o\"] }");
        write("o/pyproject.toml", "");
        assert_eq!(root("o/q.py"), tree.at(""));
    }

    #[test]
    fn globs_match_within_components() {
        let tree = Tree::new(&["rustc-1.96/library/x", "rustc-1.95/library/x", "rustc-0/other"]);
        let found = matches(&tree.at("rustc-*/library").to_string());
        assert_eq!(
            found,
            [PathBuf::from(tree.at("rustc-1.95/library")), tree.at("rustc-1.96/library").into()]
        );
    }
}
