//! Search for the programs of servers and debug adapters.
//!
//! Reads the disk, starts nothing. The nearest directory wins: the project's tools before the user's. An
//! activated virtual environment comes first in the directory that contains it, and after all environments of
//! the project if it is elsewhere.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use paths::AbsPath;

use crate::install::{COMPLETE, InstallLock};
use crate::roots::{sorted, upward};
use crate::server::ServerDefinition;

/// Subdirectories of a project that contain programs, besides npm's.
const PROJECT_BIN: &[&str] = &[".venv/bin", "venv/bin"];
/// Subdirectories of a tools directory that contain programs.
const TOOLS_BIN: &[&str] = &["bin", "node_modules/.bin", "python/bin"];

/// The directories in which Pilcrow searches for programs, besides the project's.
#[derive(Debug, Clone, Default)]
pub struct SearchPath {
    /// The managed directory, with programs in `<managed>/<definition>/<version>/`.
    ///
    /// An installed program is complete if it has a completion mark.
    pub managed: Option<PathBuf>,
    /// `PILCROW_TOOLS`: a directory with installed tools.
    ///
    /// Its `bin`, `node_modules/.bin` and `python/bin` contain programs.
    pub tools: Option<PathBuf>,
    /// The activated virtual environment, from `VIRTUAL_ENV`, else Conda's.
    ///
    /// It need not exist.
    pub activated: Option<PathBuf>,
    /// The directories of `PATH`.
    pub path: Vec<PathBuf>,
}

impl SearchPath {
    /// Reads the search path of the environment, without a managed directory.
    ///
    /// Uses `PILCROW_TOOLS`, `VIRTUAL_ENV` or `CONDA_PREFIX`, and `PATH`.
    pub fn from_env() -> Self {
        Self::from(|name| std::env::var_os(name))
    }

    fn from(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let directory = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        // Conda's base belongs to no project: many shells start with it.
        let is_base = variable("CONDA_DEFAULT_ENV").is_none_or(|name| name == "base");
        let activated = directory("VIRTUAL_ENV").or_else(|| directory("CONDA_PREFIX").filter(|_| !is_base));
        Self {
            managed: None,
            tools: directory("PILCROW_TOOLS"),
            activated: activated.filter(|it| it.is_absolute()),
            path: std::env::split_paths(&variable("PATH").unwrap_or_default()).collect(),
        }
    }

    /// Lists every program that can be the server of `definition`, best first. Blocks.
    pub fn find(&self, definition: &ServerDefinition, root: &AbsPath, workspace: &AbsPath) -> Vec<PathBuf> {
        self.find_named(&definition.name, &definition.command.candidates, root, workspace)
    }

    fn find_named(
        &self,
        owner: &str,
        candidates: &[String],
        root: &AbsPath,
        workspace: &AbsPath,
    ) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let directories = self.directories(owner, root, workspace);
        for candidate in candidates {
            if Path::new(candidate).is_absolute() {
                found.extend(Some(PathBuf::from(candidate)).filter(|path| is_program(path)));
                continue;
            }
            found.extend(
                directories
                    .iter()
                    .map(|directory| below(directory, candidate))
                    .filter(|path| is_program(path)),
            );
        }
        let mut seen = std::collections::HashSet::new();
        found.retain(|path| seen.insert(path.clone()));
        found
    }

    /// Finds a file that another program runs, by [`SearchPath::find`]. Blocks.
    fn find_script(&self, owner: &str, name: &str, root: &AbsPath, workspace: &AbsPath) -> Option<PathBuf> {
        let directories = self.directories(owner, root, workspace);
        directories.iter().map(|directory| directory.join(name)).find(|path| path.is_file())
    }

    /// Returns `PATH` for the server's process, if it differs from ours.
    ///
    /// Programs of a tools directory call each other (`node`).
    pub fn path_variable(&self) -> Option<OsString> {
        let tools = self.tools.as_ref()?;
        let directories = TOOLS_BIN.iter().map(|bin| tools.join(bin)).chain(self.path.iter().cloned());
        std::env::join_paths(directories).ok()
    }

    /// Finds the program of this name on `PATH`. Blocks.
    pub fn on_path(&self, name: &str) -> Option<PathBuf> {
        // A relative directory on PATH would depend on the current directory.
        let directories = self.path.iter().filter(|directory| directory.is_absolute());
        directories.map(|directory| directory.join(name)).find(|path| is_program(path))
    }

    /// Finds a program that a server calls, among the tools or on `PATH`. Blocks.
    pub fn helper(&self, name: &str) -> Option<PathBuf> {
        let tools =
            self.tools.iter().flat_map(|tools| TOOLS_BIN.iter().map(|bin| tools.join(bin).join(name)));
        tools.into_iter().find(|path| is_program(path)).or_else(|| self.on_path(name))
    }

    /// Finds the first of `programs` in an installation directory. Blocks.
    pub(crate) fn in_directory(programs: &[String], directory: &Path) -> Option<PathBuf> {
        let bins = TOOLS_BIN.iter().map(|bin| directory.join(bin));
        let mut places =
            programs.iter().flat_map(|program| bins.clone().map(move |bin| below(&bin, program)));
        // A script need not be executable: another program runs it.
        let is_script =
            |path: &Path| path.extension().is_some_and(|it| it == "cjs" || it == "js") && path.is_file();
        places.find(|path| is_program(path) || is_script(path))
    }

    /// Finds the virtual environment of a file or directory. Blocks.
    ///
    /// It is the nearest one up to `top`, else the activated one.
    pub fn environment(&self, scope: &Path, top: &Path) -> Option<PathBuf> {
        let activated = self.activated();
        let directories = scope.ancestors().take_while(|directory| directory.starts_with(top));
        let places = directories.flat_map(|directory| {
            let own = [".venv", "venv", "env"].map(|name| directory.join(name));
            activated_in(activated, directory).map(Path::to_path_buf).into_iter().chain(own)
        });
        let mut places = places.chain(activated.map(Path::to_path_buf));
        places.find(|venv| is_environment(venv) && is_program(&venv.join("bin/python")))
    }

    /// Returns the activated environment, if its directory is an environment.
    fn activated(&self) -> Option<&Path> {
        self.activated.as_deref().filter(|directory| is_environment(directory))
    }

    fn directories(&self, owner: &str, root: &AbsPath, workspace: &AbsPath) -> Vec<PathBuf> {
        let mut directories = Vec::new();
        let activated = self.activated();
        for directory in upward(root, workspace) {
            let modules = directory.as_path().join("node_modules/.bin");
            let own = PROJECT_BIN.iter().map(|bin| directory.as_path().join(bin));
            let active = activated_in(activated, directory.as_path()).map(|venv| venv.join("bin"));
            directories.extend(std::iter::once(modules).chain(active).chain(own));
            let env = directory.as_path().join("env");
            directories.extend(is_environment(&env).then(|| env.join("bin")));
        }
        directories.extend(activated.map(|venv| venv.join("bin")));
        if let Some(managed) = &self.managed {
            for version in installed(managed, owner) {
                directories.extend(TOOLS_BIN.iter().map(|bin| version.join(bin)));
            }
        }
        if let Some(tools) = &self.tools {
            directories.extend(TOOLS_BIN.iter().map(|bin| tools.join(bin)));
        }
        // A relative directory on PATH would depend on the current directory.
        directories.extend(self.path.iter().filter(|directory| directory.is_absolute()).cloned());
        directories
    }
}

/// Finds the programs that debug adapters need in one project.
#[derive(Debug, Clone)]
pub struct ProjectPrograms {
    pub search: SearchPath,
    /// The root of the workspace.
    pub workspace: AbsPath,
}

impl ProjectPrograms {
    /// Finds every program of `names` for the definition `owner`, best first. Blocks.
    ///
    /// A script need not be executable, since another program runs it; a path with a `/` is relative to
    /// `root`.
    pub fn find(&self, owner: &str, names: &[String], root: &AbsPath) -> Vec<PathBuf> {
        let find = |name: &String| -> Vec<PathBuf> {
            if [".js", ".cjs", ".mjs"].iter().any(|extension| name.ends_with(extension)) {
                return self.search.find_script(owner, name, root, &self.workspace).into_iter().collect();
            }
            if name.contains('/') && !name.starts_with("../") {
                let path = root.join(name).as_path().to_owned();
                return path.is_file().then_some(path).into_iter().collect();
            }
            self.search.find_named(owner, std::slice::from_ref(name), root, &self.workspace)
        };
        names.iter().flat_map(find).collect()
    }

    /// Finds the virtual environment of a directory. Blocks.
    ///
    /// A directory outside the workspace has the workspace's.
    pub fn environment(&self, directory: &AbsPath) -> Option<PathBuf> {
        let inside = directory.starts_with(&self.workspace);
        let scope = if inside { directory } else { &self.workspace };
        self.search.environment(scope.as_path(), self.workspace.as_path())
    }
}

/// Finds the `node_modules` that contains an npm program, links resolved. Blocks.
///
/// It also contains the program's dependencies.
pub fn modules_of(program: &Path) -> Option<PathBuf> {
    let file = program.canonicalize().ok()?;
    file.ancestors().find(|directory| directory.ends_with("node_modules")).map(Path::to_path_buf)
}

/// Joins a directory with a name or a relative path.
fn below(directory: &Path, name: &str) -> PathBuf {
    match name.strip_prefix("../") {
        Some(rest) => directory.parent().map_or_else(|| directory.join(name), |parent| below(parent, rest)),
        None => directory.join(name),
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

/// Lists the complete versions: the one that the lock names, then the newest first.
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

/// The activated environment, if this directory contains it.
fn activated_in<'a>(activated: Option<&'a Path>, directory: &Path) -> Option<&'a Path> {
    activated.filter(|venv| venv.parent() == Some(directory))
}

/// Whether a directory is a virtual or Conda environment, whatever its name.
fn is_environment(directory: &Path) -> bool {
    directory.join("pyvenv.cfg").is_file() || directory.join("conda-meta").is_dir()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write files of their own")]
mod tests {
    use super::*;
    use crate::definitions::{Parse, ServerDefinitions};
    use crate::roots::tests::Tree;

    fn definition(candidates: &str) -> ServerDefinition {
        let text = format!(
            "name = \"s\"\nlanguages = []\n[command]\ncandidates = {candidates}\n\
             [install]\nhow = \"page\"\ncommand = \"x\"\n"
        );
        ServerDefinition::parse(&text, "s.toml", false).unwrap()
    }

    #[test]
    #[cfg(unix)]
    fn the_modules_of_an_npm_program_are_found_behind_links() {
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
    fn a_directory_env_needs_a_pyvenv_cfg() {
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
        // An environment elsewhere, inside the project or not, comes after the project's own.
        check("out", "w/p", "w", &[own, venv, "out/bin/s", managed], Some("w/p/.venv"));
        check("out", "w/q", "w", &[venv, "out/bin/s", managed], Some("w/venv"));
        check("out", "w/q", "w/q", &["out/bin/s", managed], Some("out"));
        check("w/envs/dev", "w/q", "w", &[venv, "w/envs/dev/bin/s", managed], Some("w/venv"));
        check("w/p/.venv", "w/q", "w/q", &[own, managed], Some("w/p/.venv"));
        // An environment in a directory above the file comes before the others there; a nearer one wins.
        check("w/dev", "w/q", "w", &["w/dev/bin/s", venv, managed], Some("w/dev"));
        check("w/dev", "w/p", "w", &[own, "w/dev/bin/s", venv, managed], Some("w/p/.venv"));
        check("conda", "w/q", "w/q", &["conda/bin/s", managed], Some("conda"));
        // The search ignores a directory that does not exist or is not an environment.
        check("plain", "w/q", "w/q", &[managed], None);
        check("gone", "w/q", "w/q", &[managed], None);
    }

    #[test]
    fn the_activated_environment_comes_from_variables() {
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
        // An older version that was installed last wins.
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
        assert_eq!(find("[\"s\"]"), expected, "an incomplete version is ignored");
        let absolute = tree.at("tools/bin/t").to_string();
        assert_eq!(find(&format!("[{absolute:?}, \"t\"]")), [PathBuf::from("tools/bin/t")]);
        assert!(find("[\"/no/such\", \"none\"]").is_empty());
    }

    #[test]
    fn a_compiler_named_tsc_is_not_the_typescript_server() {
        let tree = Tree::new(&["w/node_modules/.bin/tsc", "path/bin/tsc"]);
        let search = SearchPath { path: vec![tree.at("path/bin").into()], ..SearchPath::default() };
        let definitions = ServerDefinitions::built_in();
        let definition = definitions.get("typescript-native").unwrap();
        let find = || search.find(definition, &tree.at("w"), &tree.at("w"));
        assert!(find().is_empty(), "{:?}", find());
        let own = tree.at("w/node_modules/@typescript/typescript-linux-x64/lib/tsc");
        std::fs::create_dir_all(own.parent().unwrap().as_path()).unwrap();
        std::fs::copy(tree.at("path/bin/tsc").as_path(), own.as_path()).unwrap();
        assert_eq!(find(), [PathBuf::from(own)]);
    }

    #[test]
    fn a_file_that_cannot_run_is_not_a_program() {
        let tree = Tree::new(&["path/s"]);
        let search = SearchPath { path: vec![tree.at("path").into()], ..SearchPath::default() };
        assert!(search.find(&definition("[\"s\"]"), &tree.at("w"), &tree.at("w")).is_empty());
    }
}
