//! Where a server's program and its root folder are.
//!
//! Looks at the disk, starts nothing. The nearest place wins: the project's own tools before the
//! person's. A virtual environment that is activated counts in the folder that holds it, before others there;
//! where the project holds it elsewhere, or not at all, after all of the project's own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use globset::Glob;
use workspace::AbsPath;

use crate::definition::{Prefer, RootRule, ServerDefinition};
use crate::install::{COMPLETE, InstallLock};

/// Folders of a project that hold programs, beside those of npm.
const PROJECT_BIN: &[&str] = &[".venv/bin", "venv/bin"];
/// Folders of a tools folder that hold programs.
const TOOLS_BIN: &[&str] = &["bin", "node_modules/.bin", "python/bin"];

/// Where programs are searched, besides the project.
#[derive(Debug, Clone, Default)]
pub struct SearchPath {
    /// Our managed folder: `<managed>/<definition>/<version>/` holds a server that Pilcrow installed, to the
    /// end if it has a mark of completion.
    pub managed: Option<PathBuf>,
    /// `PILCROW_TOOLS`: a folder whose `bin`, `node_modules/.bin` and `python/bin` hold programs.
    pub tools: Option<PathBuf>,
    /// The virtual environment that is activated: `VIRTUAL_ENV`, else that of Conda. It need not be there.
    pub activated: Option<PathBuf>,
    /// The folders of `PATH`.
    pub path: Vec<PathBuf>,
}

impl SearchPath {
    /// As the environment says: `PILCROW_TOOLS`, `VIRTUAL_ENV` or `CONDA_PREFIX`, and `PATH`; no managed folder.
    pub fn from_env() -> Self {
        Self::from(|name| std::env::var_os(name))
    }

    fn from(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let folder = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        // The base of Conda is no project's: many shells begin with it.
        let is_base = variable("CONDA_DEFAULT_ENV").is_none_or(|name| name == "base");
        let activated = folder("VIRTUAL_ENV").or_else(|| folder("CONDA_PREFIX").filter(|_| !is_base));
        Self {
            managed: None,
            tools: folder("PILCROW_TOOLS"),
            activated: activated.filter(|it| it.is_absolute()),
            path: std::env::split_paths(&variable("PATH").unwrap_or_default()).collect(),
        }
    }

    /// Every program that could be the server of `definition`, best first; empty when none is there.
    /// Blocking.
    pub fn find(&self, definition: &ServerDefinition, root: &AbsPath, workspace: &AbsPath) -> Vec<PathBuf> {
        self.find_named(&definition.name, &definition.command.candidates, root, workspace)
    }

    /// [`SearchPath::find`] for any definition that has a name and candidates. Blocking.
    pub fn find_named(
        &self,
        owner: &str,
        candidates: &[String],
        root: &AbsPath,
        workspace: &AbsPath,
    ) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let folders = self.folders(owner, root, workspace);
        for candidate in candidates {
            if Path::new(candidate).is_absolute() {
                found.extend(Some(PathBuf::from(candidate)).filter(|path| is_program(path)));
                continue;
            }
            found.extend(
                folders.iter().map(|folder| below(folder, candidate)).filter(|path| is_program(path)),
            );
        }
        let mut seen = std::collections::HashSet::new();
        found.retain(|path| seen.insert(path.clone()));
        found
    }

    /// A file that another program runs, where [`SearchPath::find_named`] looks and on `PATH`. Blocking.
    pub fn find_script(
        &self,
        owner: &str,
        name: &str,
        root: &AbsPath,
        workspace: &AbsPath,
    ) -> Option<PathBuf> {
        let folders = self.folders(owner, root, workspace);
        folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file())
    }

    /// `PATH` for the server's process, if it needs another than ours: a tools folder's programs call
    /// each other (`node`).
    pub fn path_variable(&self) -> Option<OsString> {
        let tools = self.tools.as_ref()?;
        let folders = TOOLS_BIN.iter().map(|bin| tools.join(bin)).chain(self.path.iter().cloned());
        std::env::join_paths(folders).ok()
    }

    /// A program on `PATH`, by its name. Blocking.
    pub fn on_path(&self, name: &str) -> Option<PathBuf> {
        // A relative folder on PATH would mean whatever the current folder is.
        let folders = self.path.iter().filter(|folder| folder.is_absolute());
        folders.map(|folder| folder.join(name)).find(|path| is_program(path))
    }

    /// A program that a server calls: it sees the tools folder and `PATH`. Blocking.
    pub(crate) fn helper(&self, name: &str) -> Option<PathBuf> {
        let tools =
            self.tools.iter().flat_map(|tools| TOOLS_BIN.iter().map(|bin| tools.join(bin).join(name)));
        tools.into_iter().find(|path| is_program(path)).or_else(|| self.on_path(name))
    }

    /// The first of `programs` in a folder that something was installed into. Blocking.
    pub(crate) fn in_folder(programs: &[String], folder: &Path) -> Option<PathBuf> {
        let bins = TOOLS_BIN.iter().map(|bin| folder.join(bin));
        let mut places =
            programs.iter().flat_map(|program| bins.clone().map(move |bin| below(&bin, program)));
        // A script is run by another program.
        let is_script =
            |path: &Path| path.extension().is_some_and(|it| it == "cjs" || it == "js") && path.is_file();
        places.find(|path| is_program(path) || is_script(path))
    }

    /// The virtual environment of a file or folder: the nearest from there up to `top`, else the one that is
    /// activated. Blocking.
    pub fn environment(&self, scope: &Path, top: &Path) -> Option<PathBuf> {
        let activated = self.activated();
        let folders = scope.ancestors().take_while(|folder| folder.starts_with(top));
        let places = folders.flat_map(|folder| {
            let own = [".venv", "venv", "env"].map(|name| folder.join(name));
            activated_in(activated, folder).map(Path::to_path_buf).into_iter().chain(own)
        });
        let mut places = places.chain(activated.map(Path::to_path_buf));
        places.find(|venv| is_environment(venv) && is_program(&venv.join("bin/python")))
    }

    /// The activated environment, where it is one.
    fn activated(&self) -> Option<&Path> {
        self.activated.as_deref().filter(|folder| is_environment(folder))
    }

    fn folders(&self, owner: &str, root: &AbsPath, workspace: &AbsPath) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        let activated = self.activated();
        for folder in upward(root, workspace) {
            let modules = folder.as_path().join("node_modules/.bin");
            let own = PROJECT_BIN.iter().map(|bin| folder.as_path().join(bin));
            let active = activated_in(activated, folder.as_path()).map(|venv| venv.join("bin"));
            folders.extend(std::iter::once(modules).chain(active).chain(own));
            let env = folder.as_path().join("env");
            folders.extend(is_environment(&env).then(|| env.join("bin")));
        }
        folders.extend(activated.map(|venv| venv.join("bin")));
        if let Some(managed) = &self.managed {
            for version in installed(managed, owner) {
                folders.extend(TOOLS_BIN.iter().map(|bin| version.join(bin)));
            }
        }
        if let Some(tools) = &self.tools {
            folders.extend(TOOLS_BIN.iter().map(|bin| tools.join(bin)));
        }
        // A relative folder on PATH would mean whatever the current folder is.
        folders.extend(self.path.iter().filter(|folder| folder.is_absolute()).cloned());
        folders
    }
}

/// The root folder of `file` for a server: a marked folder between it and the workspace's root, which
/// is the answer where none is marked and the rule does not require one. Blocking.
pub fn find_root(rule: &RootRule, file: &AbsPath, workspace: &AbsPath) -> Option<AbsPath> {
    let folders = match file.parent().filter(|folder| folder.starts_with(workspace)) {
        Some(folder) => upward(&folder, workspace),
        None => Vec::new(),
    };
    let mut marked = folders.iter().filter(|folder| is_marked(&rule.markers, folder)).cloned();
    let found = match rule.prefer {
        Prefer::Nearest => {
            let nearest = marked.next();
            nearest.map(|nearest| claiming(rule, &nearest, marked).unwrap_or(nearest))
        }
        Prefer::Outermost => marked.next_back(),
    };
    let lone = || folders.iter().rfind(|folder| is_marked(&rule.lone_markers, folder)).cloned();
    found.or_else(lone).or_else(|| (!rule.required).then(|| workspace.clone()))
}

/// `folder` and its parents up to `top`.
fn upward(folder: &AbsPath, top: &AbsPath) -> Vec<AbsPath> {
    let mut folders = Vec::new();
    let mut at = Some(folder.clone());
    while let Some(folder) = at.filter(|folder| folder.starts_with(top)) {
        at = folder.parent();
        folders.push(folder);
    }
    folders
}

/// Whose settings a folder is given that has none of its own, of those `above`, where they name files.
fn claiming(rule: &RootRule, folder: &AbsPath, above: impl Iterator<Item = AbsPath>) -> Option<AbsPath> {
    if rule.claims.is_empty() {
        return None;
    }
    let mut above = above.peekable();
    // Most are below no other, and nothing is read for them.
    above.peek()?;
    if claims(rule, folder) != Some(Claims::NoSettings) {
        return None;
    }
    above
        .filter_map(|folder| Some((claims(rule, &folder)?, folder)))
        .find(|(claims, _)| *claims != Claims::NoSettings)
        .and_then(|(claims, folder)| (claims == Claims::Files).then_some(folder))
}

/// What a folder's settings files say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claims {
    /// Nothing that is for the server.
    NoSettings,
    /// Settings that do not name the project's files.
    Settings,
    Files,
}

/// `None`: there is no such file.
fn claims(rule: &RootRule, folder: &AbsPath) -> Option<Claims> {
    let read = |(name, keys): (&String, &Vec<String>)| {
        let text = std::fs::read_to_string(folder.join(name)).ok()?;
        if !name.ends_with(".toml") {
            // With comments and the like: what names a key may name files by it.
            let has = keys.iter().any(|key| text.contains(&format!("\"{key}\"")));
            return Some(if has { Claims::Files } else { Claims::Settings });
        }
        let table = |key: &str| key.rsplit_once('.').map(|(table, _)| table.to_owned());
        // Most of these files say nothing for the server, and are not parsed for it.
        let named = |key: &String| table(key).is_none_or(|it| text.contains(last_part(&it)));
        if !keys.iter().any(named) {
            return Some(Claims::NoSettings);
        }
        let text: toml::Table = text.parse().ok()?;
        let has = |key: &str| {
            let mut parts = key.split('.');
            let first = parts.next().and_then(|part| text.get(part));
            parts.try_fold(first?, |value, part| value.get(part))
        };
        Some(match () {
            () if keys.iter().any(|key| has(key).is_some()) => Claims::Files,
            () if keys.iter().filter_map(|key| table(key)).any(|it| has(&it).is_some()) => Claims::Settings,
            () => Claims::NoSettings,
        })
    };
    // The file that names files wins over one that says nothing.
    rule.claims.iter().filter_map(read).max_by_key(|claims| *claims as u8)
}

fn last_part(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

fn is_marked(markers: &[String], folder: &AbsPath) -> bool {
    markers.iter().any(|marker| {
        if marker.contains('*') {
            return !matches(&folder.join(marker).as_path().to_string_lossy()).is_empty();
        }
        folder.as_path().join(marker).exists()
    })
}

/// The `node_modules` that a program of npm lies in, behind its links: what was installed with it is there
/// too. Blocking.
pub(crate) fn modules_of(program: &Path) -> Option<PathBuf> {
    let file = program.canonicalize().ok()?;
    file.ancestors().find(|folder| folder.ends_with("node_modules")).map(Path::to_path_buf)
}

/// A name in a folder, or a path from there.
fn below(folder: &Path, name: &str) -> PathBuf {
    match name.strip_prefix("../") {
        Some(rest) => folder.parent().map_or_else(|| folder.join(name), |parent| below(parent, rest)),
        None => folder.join(name),
    }
}

fn is_program(path: &Path) -> bool {
    let Ok(metadata) = std::fs::metadata(path) else { return false };
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        metadata.is_file() && metadata.permissions().mode() & 0o111 != 0
    }
    #[cfg(not(unix))]
    metadata.is_file()
}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut entries: Vec<_> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    entries.sort();
    entries
}

/// The versions that were installed to the end: the one that was installed last, as the lock says, then the
/// newest first.
fn installed(managed: &Path, owner: &str) -> Vec<PathBuf> {
    let mut found = sorted(&managed.join(owner));
    found.retain(|version| version.join(COMPLETE).exists());
    let last = if found.len() > 1 { InstallLock::version_in(managed, owner) } else { None };
    // 1.10 is newer than 1.9.
    let key = |path: &PathBuf| -> (bool, Vec<(u64, String)>) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let parts = name.split(['.', '-', '+']).map(|part| (part.parse().unwrap_or(0), part.to_owned()));
        (last.as_ref() == Some(&name), parts.collect())
    };
    found.sort_by_key(|path| std::cmp::Reverse(key(path)));
    found
}

/// What an absolute glob matches, in order; `*` stays within one component. Blocking.
pub(crate) fn matches(pattern: &str) -> Vec<PathBuf> {
    matches_below(Path::new(""), pattern)
}

/// What is there that matches a glob relative to `folder`, whose own name is taken as it is. Blocking.
pub(crate) fn matches_below(folder: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
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
            .flat_map(|folder| sorted(folder))
            .filter(|path| path.file_name().is_some_and(|name| matcher.is_match(name)))
            .collect();
    }
    found.retain(|path| path.exists());
    found
}

/// The activated environment, if this folder holds it.
fn activated_in<'a>(activated: Option<&'a Path>, folder: &Path) -> Option<&'a Path> {
    activated.filter(|venv| venv.parent() == Some(folder))
}

/// Whether a folder is a virtual environment, or one of Conda, whatever its name.
fn is_environment(folder: &Path) -> bool {
    folder.join("pyvenv.cfg").is_file() || folder.join("conda-meta").is_dir()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write files of their own")]
mod tests {
    use super::*;

    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new(files: &[&str]) -> Self {
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

        fn at(&self, path: &str) -> AbsPath {
            AbsPath::new(self.0.path()).unwrap().join(path)
        }
    }

    fn definition(candidates: &str) -> ServerDefinition {
        let text = format!(
            "name = \"s\"\nlanguages = []\n[command]\ncandidates = {candidates}\n\
             [install]\nhow = \"page\"\ncommand = \"x\"\n"
        );
        ServerDefinition::parse(&text, "s.toml", false).unwrap()
    }

    #[test]
    #[cfg(unix)]
    fn what_was_installed_with_a_program_lies_behind_its_links() {
        let tree =
            Tree::new(&["i/node_modules/@x/server/bin/s.js", "i/node_modules/.bin/other", "bin/plain"]);
        let link = |to: &str, from: &str| std::os::unix::fs::symlink(to, tree.at(from).as_path()).unwrap();
        link("../@x/server/bin/s.js", "i/node_modules/.bin/s");
        link("../i/node_modules/.bin/s", "bin/s");
        let modules = tree.at("i/node_modules").as_path().canonicalize().unwrap();
        assert_eq!(modules_of(tree.at("bin/s").as_path()), Some(modules));
        assert_eq!(modules_of(tree.at("bin/plain").as_path()), None);
        assert_eq!(modules_of(tree.at("bin/none").as_path()), None);
    }

    #[test]
    fn a_folder_env_is_a_virtual_environment_only_where_it_says_so() {
        let tree = Tree::new(&["a/env/bin/s", "a/env/bin/python", "b/env/bin/s", "b/env/bin/python"]);
        std::fs::write(tree.at("b/env/pyvenv.cfg").as_path(), "").unwrap();
        let found = |name: &str| {
            let root = tree.at(name);
            let programs = SearchPath::default().find(&definition("[\"s\"]"), &root, &root);
            (programs, SearchPath::default().environment(root.as_path(), root.as_path()))
        };
        assert_eq!(found("a"), (Vec::new(), None));
        assert_eq!(found("b"), (vec![tree.at("b/env/bin/s").into()], Some(tree.at("b/env").into())));
    }

    #[test]
    fn an_activated_environment_comes_after_the_projects_own() {
        let tree = Tree::new(&[
            "w/p/.venv/pyvenv.cfg",
            "w/p/.venv/bin/python",
            "w/p/.venv/bin/s",
            "w/q/a.py",
            "w/dev/pyvenv.cfg",
            "w/dev/bin/python",
            "w/dev/bin/s",
            "w/venv/pyvenv.cfg",
            "w/venv/bin/python",
            "w/venv/bin/s",
            "w/envs/dev/pyvenv.cfg",
            "w/envs/dev/bin/python",
            "w/envs/dev/bin/s",
            "out/pyvenv.cfg",
            "out/bin/python",
            "out/bin/s",
            "conda/conda-meta/history",
            "conda/bin/python",
            "conda/bin/s",
            "plain/bin/python",
            "plain/bin/s",
            "managed/s/1/bin/s",
            "managed/s/1/.complete",
            "path/s",
        ]);
        let check = |activated: &str,
                     scope: &str,
                     top: &str,
                     programs: &[&str],
                     environment: Option<&str>| {
            let search = SearchPath {
                managed: Some(tree.at("managed").into()),
                activated: Some(tree.at(activated).into()),
                ..SearchPath::default()
            };
            let (scope, top) = (tree.at(scope), tree.at(top));
            let found = search.find(&definition("[\"s\"]"), &scope, &top);
            let expected: Vec<PathBuf> = programs.iter().map(|it| tree.at(it).into()).collect();
            assert_eq!(found, expected, "{activated} activated, for {scope}");
            let found = search.environment(scope.as_path(), top.as_path());
            assert_eq!(found, environment.map(|it| tree.at(it).into()), "{activated} activated, for {scope}");
        };
        let (own, venv, managed) = ("w/p/.venv/bin/s", "w/venv/bin/s", "managed/s/1/bin/s");
        // Elsewhere, in the project or not: after what is the project's.
        check("out", "w/p", "w", &[own, venv, "out/bin/s", managed], Some("w/p/.venv"));
        check("out", "w/q", "w", &[venv, "out/bin/s", managed], Some("w/venv"));
        check("out", "w/q", "w/q", &["out/bin/s", managed], Some("out"));
        check("w/envs/dev", "w/q", "w", &[venv, "w/envs/dev/bin/s", managed], Some("w/venv"));
        check("w/p/.venv", "w/q", "w/q", &[own, managed], Some("w/p/.venv"));
        // In a folder above the file it is meant before the others there, and a nearer one is nearer.
        check("w/dev", "w/q", "w", &["w/dev/bin/s", venv, managed], Some("w/dev"));
        check("w/dev", "w/p", "w", &[own, "w/dev/bin/s", venv, managed], Some("w/p/.venv"));
        check("conda", "w/q", "w/q", &["conda/bin/s", managed], Some("conda"));
        // What is none, or is gone, is none.
        check("plain", "w/q", "w/q", &[managed], None);
        check("gone", "w/q", "w/q", &[managed], None);
    }

    #[test]
    fn what_is_activated_is_known_from_the_environment() {
        let activated = |variables: &[(&str, &str)]| {
            let variable = |name: &str| variables.iter().find(|it| it.0 == name).map(|it| it.1.into());
            SearchPath::from(variable).activated
        };
        let conda = ("CONDA_PREFIX", "/c");
        assert_eq!(activated(&[("VIRTUAL_ENV", "/v"), conda, ("CONDA_DEFAULT_ENV", "x")]), Some("/v".into()));
        assert_eq!(activated(&[conda, ("CONDA_DEFAULT_ENV", "x")]), Some("/c".into()));
        for none in [&[conda, ("CONDA_DEFAULT_ENV", "base")][..], &[conda], &[("VIRTUAL_ENV", "v")], &[]] {
            assert_eq!(activated(none), None, "{none:?}");
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
    fn a_lone_marker_counts_below_no_marked_folder() {
        let names = ["o/setup.py", "o/docs/needs.txt", "p/needs.txt", "p/q/needs.txt", "p/r/setup.py"];
        let tree = Tree::new(&names);
        let (markers, lone_markers) = (vec!["setup.py".to_owned()], vec!["needs.txt".to_owned()]);
        let rule = RootRule { markers, lone_markers, ..RootRule::default() };
        let root = |file: &str| find_root(&rule, &tree.at(file), &tree.at("")).unwrap();
        assert_eq!(root("o/docs/x.py"), tree.at("o"));
        assert_eq!(root("p/q/x.py"), tree.at("p"));
        assert_eq!(root("p/r/x.py"), tree.at("p/r"));
        assert_eq!(root("s/x.py"), tree.at(""));
    }

    #[test]
    fn a_folder_that_is_given_settings_that_claim_files_is_no_root() {
        let names = ["o/pyproject.toml", "o/a/pyproject.toml", "o/a/x.py", "o/b/setup.py", "o/b/x.py"];
        let tree = Tree::new(&names);
        let rule = RootRule {
            markers: ["x.json", "pyproject.toml", "setup.py"].map(str::to_owned).to_vec(),
            claims: [
                ("x.json".to_owned(), vec!["include".to_owned()]),
                ("pyproject.toml".to_owned(), vec!["tool.x.include".to_owned(), "tool.y.include".to_owned()]),
            ]
            .into(),
            ..RootRule::default()
        };
        let write = |name: &str, text: &str| std::fs::write(tree.at(name).as_path(), text).unwrap();
        let root = |file: &str| find_root(&rule, &tree.at(file), &tree.at("")).unwrap();
        assert_eq!(root("o/a/x.py"), tree.at("o/a"), "nobody has settings");
        write("o/pyproject.toml", "[tool.y]\nstrict = true\n");
        assert_eq!(root("o/a/x.py"), tree.at("o/a"), "they claim nothing");
        write("o/pyproject.toml", "[tool.y]\ninclude = [\"src\"]\n");
        assert_eq!(root("o/a/x.py"), tree.at("o"));
        assert_eq!(root("o/b/x.py"), tree.at("o/b"), "it has no file that could have settings");
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
    fn the_nearest_program_wins() {
        let tree = Tree::new(&[
            "w/p/node_modules/.bin/s",
            "w/.venv/bin/s",
            "w/venv/bin/README",
            "managed/s/1.9/bin/s",
            "managed/s/1.9/.complete",
            "managed/s/1.10/bin/s",
            "managed/s/1.10/.complete",
            "managed/s/2/bin/s",
            "tools/python/bin/s",
            "tools/bin/t",
            "path/bin/s",
        ]);
        let search = SearchPath {
            managed: Some(tree.at("managed").into()),
            tools: Some(tree.at("tools").into()),
            path: vec!["relative".into(), tree.at("path/bin").into()],
            ..SearchPath::default()
        };
        let find = |candidates: &str| {
            let found = search.find(&definition(candidates), &tree.at("w/p"), &tree.at("w"));
            found.iter().map(|path| path.strip_prefix(tree.0.path()).unwrap().to_owned()).collect::<Vec<_>>()
        };
        let expected: Vec<PathBuf> = [
            "w/p/node_modules/.bin/s",
            "w/.venv/bin/s",
            "managed/s/1.10/bin/s",
            "managed/s/1.9/bin/s",
            "tools/python/bin/s",
            "path/bin/s",
        ]
        .map(PathBuf::from)
        .into();
        assert_eq!(find("[\"s\"]"), expected);
        assert_eq!(find("[\"README\"]"), [PathBuf::from("w/venv/bin/README")]);
        // An older one that was installed last is the one that is wanted.
        let lock = |version: &str| {
            let text = format!(
                "{{\"format\": 1, \"adapters\": {{\"s\": {{\"version\": {version:?}, \"how\": \"npm\", \"packages\": [], \"installed_at\": 1}}}}}}"
            );
            std::fs::write(tree.at("managed/lock.json").as_path(), text).unwrap();
        };
        lock("1.9");
        assert_eq!(
            find("[\"s\"]")[2..4],
            [PathBuf::from("managed/s/1.9/bin/s"), "managed/s/1.10/bin/s".into()]
        );
        lock("2");
        assert_eq!(find("[\"s\"]"), expected, "what is not there to the end is not wanted");
        let absolute = tree.at("tools/bin/t").to_string();
        assert_eq!(find(&format!("[{absolute:?}, \"t\"]")), [PathBuf::from("tools/bin/t")]);
        assert!(find("[\"/no/such\", \"none\"]").is_empty());
    }

    #[test]
    fn a_compiler_of_the_same_name_is_not_the_server_of_typescript_7() {
        let tree = Tree::new(&["w/node_modules/.bin/tsc", "path/bin/tsc"]);
        let search = SearchPath { path: vec![tree.at("path/bin").into()], ..SearchPath::default() };
        let definitions = crate::Definitions::built_in();
        let definition = definitions.get("typescript-native").unwrap();
        let find = || search.find(definition, &tree.at("w"), &tree.at("w"));
        assert!(find().is_empty(), "{:?}", find());
        let own = tree.at("w/node_modules/@typescript/typescript-linux-x64/lib/tsc");
        std::fs::create_dir_all(own.parent().unwrap().as_path()).unwrap();
        std::fs::copy(tree.at("path/bin/tsc").as_path(), own.as_path()).unwrap();
        assert_eq!(find(), [PathBuf::from(own)]);
    }

    #[test]
    fn a_file_that_cannot_run_is_no_program() {
        let tree = Tree::new(&["path/s"]);
        let search = SearchPath { path: vec![tree.at("path").into()], ..SearchPath::default() };
        assert!(search.find(&definition("[\"s\"]"), &tree.at("w"), &tree.at("w")).is_empty());
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
