//! Tests of protected files.

use paths::canonical_existing as canonical;

use super::restore::set_mode;
use super::*;

/// A program that runs alone.
struct Alone(Running, ProtectedFiles);

impl Alone {
    fn start(paths: &[AbsPath], has_mounts: bool, root: Option<&AbsPath>) -> Self {
        let mut running = Running::new();
        let protected = running.start(paths.to_vec(), GitChanges::default(), has_mounts, root.map(roots));
        Self(running, protected)
    }

    fn revert(mut self) -> Vec<ProtectedChange> {
        self.0.revert(&self.1, &Versions::new())
    }
}

fn roots(top: &AbsPath) -> ProjectRoots {
    ProjectRoots { workspace: top.clone(), top: top.clone() }
}

fn top() -> (tempfile::TempDir, AbsPath) {
    let temp = tempfile::tempdir().unwrap();
    let top = canonical(&AbsPath::new(temp.path()).unwrap());
    (temp, top)
}

/// The changed files with the problems.
fn shown(changes: &[ProtectedChange], top: &AbsPath) -> Vec<String> {
    let problem = |it: &ProtectedChange| it.outcome.as_ref().err().cloned().unwrap_or_default();
    let name = |it: &ProtectedChange| it.path.strip_prefix(top).unwrap().display().to_string();
    changes.iter().map(|it| format!("{} {}", name(it), problem(it)).trim().to_owned()).collect()
}

fn at(top: &AbsPath, names: &[&str]) -> Vec<AbsPath> {
    names.iter().map(|name| top.join(name)).collect()
}

fn create(top: &AbsPath, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = top.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

fn text(top: &AbsPath, name: &str) -> String {
    std::fs::read_to_string(top.join(name)).unwrap()
}

#[test]
fn changes_of_protected_files_are_reverted() {
    let (_temp, top) = top();
    create(
        &top,
        &[(".git/config", "a"), (".git/hooks/old", "a"), (".vscode/gone", "a"), ("elsewhere/x", "")],
    );
    let names = [".git/hooks", ".git/config", ".vscode/gone", ".vscode/tasks.json", ".husky"];
    assert_eq!(Alone::start(&at(&top, &names), false, None).revert(), []);

    let protected = Alone::start(&at(&top, &names), false, None);
    create(&top, &[(".git/config", "changed"), (".git/hooks/new", ""), (".vscode/tasks.json/x", "")]);
    std::fs::remove_file(top.join(".git/hooks/old")).unwrap();
    std::os::unix::fs::symlink(top.join("elsewhere"), top.join(".husky")).unwrap();
    std::fs::remove_file(top.join(".vscode/gone")).unwrap();
    std::os::unix::fs::symlink(top.join("elsewhere"), top.join(".vscode/gone")).unwrap();
    let changes = protected.revert();
    let expected =
        [".git/hooks/new", ".husky", ".vscode/tasks.json", ".git/config", ".git/hooks/old", ".vscode/gone"];
    assert_eq!(shown(&changes, &top), expected);
    let how = "protected; the change is kept beside it as `config.reverted-1`";
    assert_eq!(changes[3].outcome.as_deref(), Ok(how));
    assert_eq!(text(&top, ".git/config"), "a");
    // The change may be the user's own.
    assert_eq!(text(&top, ".git/config.reverted-1"), "changed");
    assert!(top.join(".vscode/tasks.json.reverted-1/x").as_path().exists());
    assert!(top.join(".git/hooks/old").as_path().exists() && !top.join(".husky").as_path().exists());
    assert_eq!(std::fs::read_dir(top.join("elsewhere")).unwrap().count(), 1);
}

#[test]
fn a_change_is_reverted_whatever_lies_beside_it() {
    let (_temp, top) = top();
    create(&top, &[(".git/config", "a"), (".git/hooks/x", "a")]);
    let protected = Alone::start(&at(&top, &[".git/hooks", ".git/config"]), false, None);
    for number in 0..200 {
        create(&top, &[(&format!(".git/config.reverted-{number}"), "")]);
    }
    let long = format!(".git/hooks/{}", "x".repeat(255));
    create(&top, &[(".git/config", "changed"), (&long, "")]);
    for (name, mode) in [(".git/hooks", 0), (".git", 0o500)] {
        assert!(set_mode(top.join(name).as_path(), mode));
    }
    let changes = protected.revert();
    let hooks = [".git/hooks".to_owned(), long, ".git/config".to_owned()];
    assert_eq!(shown(&changes, &top), hooks);
    assert_eq!([text(&top, ".git/config"), text(&top, ".git/hooks/x")], ["a", "a"]);
    let others = std::fs::read_dir(top.join(".git")).unwrap().map(|it| it.unwrap().path());
    let kept = others.filter(|path| std::fs::read(path).is_ok_and(|it| it == b"changed"));
    assert_eq!(kept.count(), 1);
}

#[test]
fn running_programs_share_one_baseline() {
    let (_temp, top) = top();
    let files = [(".git/config", "a"), (".vscode/tasks.json", "a"), ("sub/.envrc", "a")];
    create(&top, &files);
    let paths = at(&top, &[".git/config", ".vscode/tasks.json"]);
    let (mut running, none) = (Running::new(), GitChanges::default);
    let first = running.start(paths.clone(), none(), false, Some(roots(&top)));
    create(&top, &files.map(|(name, _)| (name, "changed")));
    create(&top, &[("sub/r/.git/config", "[core]\nfsmonitor = x")]);
    std::fs::rename(top.join(".vscode"), top.join("moved")).unwrap();
    std::os::unix::fs::symlink(top.join("moved"), top.join(".vscode")).unwrap();
    let tasks = [top.join(".vscode"), top.join("moved/tasks.json")];
    let second = running.start([&paths[..1], &tasks].concat(), none(), false, Some(roots(&top)));
    let git = running.start(paths[..1].to_vec(), none(), false, None);
    let end = |running: &mut Running, it: &ProtectedFiles| {
        let changes = running.revert(it, &Versions::new());
        running.release(it);
        shown(&changes, &top)
    };
    assert_eq!(end(&mut running, &git), [".git/config"]);
    let others = [".vscode", ".vscode/tasks.json", "sub/.envrc", "sub/r/.git/config"];
    assert_eq!(end(&mut running, &second), others);
    assert_eq!(end(&mut running, &first), Vec::<String>::new());
    assert_eq!(files.map(|(name, _)| text(&top, name)), ["a", "a", "a"]);
    assert!(running.tops.is_empty() && running.roots.is_empty());
    let third = running.start(paths, none(), false, Some(roots(&top)));
    assert_eq!(end(&mut running, &third), Vec::<String>::new());
    [first, second, git, third].into_iter().for_each(std::mem::forget);
}

#[test]
fn changes_of_git_are_checked_when_it_ends() {
    let (_temp, top) = top();
    create(&top, &[(".git/config", "[remote \"o\"]\nurl = a\n"), (".envrc", "a"), (".husky/old", "a")]);
    let paths = at(&top, &[".git/config", ".envrc", ".husky"]);
    let mut running = Running::new();
    let first = running.start(paths.clone(), GitChanges::default(), true, Some(roots(&top)));
    let directory = top.join(".git");
    let checkout = Some(Checkout { top: top.clone(), own: directory.clone(), shared: directory });
    let git = GitChanges { paths: paths.clone(), worktrees: false, checkout };
    let second = running.start(Vec::new(), git, true, Some(roots(&top)));

    create(&top, &[(".git/config", "[remote \"o\"]\nurl = b\n"), (".envrc", "b"), (".husky/new/x", "b")]);
    std::fs::remove_file(top.join(".husky/old")).unwrap();
    assert_eq!(running.revert(&first, &Versions::new()), []);
    let changed = running.changed_by_checkout(&second);
    assert_eq!(
        changed,
        [".husky/old", ".envrc", ".husky/new/x"].map(|name| top.join(name)).map(PathBuf::from)
    );
    let versions = [None, Some(b"b".to_vec()), Some(b"b".to_vec())].map(|it| vec![it]);
    let versions = changed.into_iter().zip(versions).collect();
    let changes = running.revert(&second, &versions);
    assert_eq!(shown(&changes, &top), [".husky/new", ".envrc"].map(|name| format!("{name} {CHECKED_OUT}")));
    running.release(&second);

    // The change of git is the state to restore, and no mount shows whose the change is.
    create(&top, &[(".git/config", "[core]\nfsmonitor = x\n"), (".envrc", "c"), (".husky/old", "a")]);
    let changes = running.revert(&first, &versions);
    assert_eq!(shown(&changes, &top), [".husky/old", ".envrc", ".git/config"]);
    assert_eq!([text(&top, ".envrc"), text(&top, ".git/config")], ["b", "[remote \"o\"]\nurl = b\n"]);
    let how = "it may run programs: core.fsmonitor; the change is kept beside it as `config.reverted-1`";
    assert_eq!(changes[2].outcome.as_deref(), Ok(how));
    [first, second].into_iter().for_each(std::mem::forget);
}

#[test]
fn a_mount_distinguishes_changes_of_the_user() {
    let (_temp, top) = top();
    create(
        &top,
        &[(".git/config", "[user]\nname = a"), (".envrc", "a"), (".mcp.json", "a"), (".git/hooks/x", "a")],
    );
    let paths = at(&top, &[".git/config", ".envrc", ".mcp.json", ".git/hooks"]);
    let replace = |name: &str, text: &str| {
        create(&top, &[("new", text)]);
        std::fs::rename(top.join("new"), top.join(name)).unwrap();
    };
    let protected = Alone::start(&paths, true, None);
    create(&top, &[(".envrc", "mine"), (".git/hooks/y", "mine")]);
    replace(".mcp.json", "other");
    replace(".git/config", "[user]\nname = b");
    assert_eq!(shown(&protected.revert(), &top), [".mcp.json"]);
    let protected = Alone::start(&paths, true, None);
    std::fs::hard_link(top.join(".envrc"), top.join("link")).unwrap();
    create(&top, &[("link", "other")]);
    replace(".git/config", "[core]\nfsmonitor = x");
    assert_eq!(shown(&protected.revert(), &top), [".envrc", ".git/config"]);
    assert_eq!(text(&top, ".git/config"), "[user]\nname = b");
}

#[test]
fn an_accepted_change_stays() {
    let (_temp, top) = top();
    create(&top, &[(".envrc", "a"), (".mcp.json", "a")]);
    let mut running =
        Alone::start(&at(&top, &[".envrc", ".mcp.json", ".vscode/tasks.json", ".husky"]), false, None);
    create(
        &top,
        &[(".envrc", "mine"), (".mcp.json", "other"), (".vscode/tasks.json", "mine"), (".husky/x", "mine")],
    );
    for name in [".envrc", ".mcp.json", ".vscode/tasks.json", ".husky/x"] {
        running.0.accept(&top.join(name), Some(b"mine"));
    }
    assert_eq!(shown(&running.revert(), &top), [".mcp.json"]);
    let mut running = Alone::start(&at(&top, &[".envrc"]), false, None);
    std::fs::remove_file(top.join(".envrc")).unwrap();
    running.0.accept(&top.join(".envrc"), None);
    assert_eq!(running.revert(), []);
}

#[test]
fn a_file_with_the_same_content_is_unchanged() {
    let (_temp, top) = top();
    create(&top, &[(".envrc", "a"), ("sub/.git/config", "[core]\n"), ("sub/.git/hooks/x", "a")]);
    let protected = Alone::start(&at(&top, &[".envrc"]), false, Some(&top));
    std::fs::remove_file(top.join(".envrc")).unwrap();
    create(&top, &[(".envrc", "a")]);
    // Another repository in the same place.
    std::fs::rename(top.join("sub"), top.join("old")).unwrap();
    create(
        &top,
        &[
            ("sub/.git/config", "[user]\nname = a\n"),
            ("sub/.git/hooks/y", ""),
            ("sub/.git/hooks/x.sample", ""),
        ],
    );
    assert_eq!(shown(&protected.revert(), &top), ["sub/.git/hooks/y"]);
    assert_eq!(text(&top, "sub/.git/config"), "[user]\nname = a\n");
    assert!(!top.join("sub/.git/hooks/x").as_path().exists());
}

#[test]
fn a_new_repository_runs_no_program() {
    let (_temp, top) = top();
    let config = "[user]\nname = a\n[core]\nfsmonitor = x\n";
    let protected = Alone::start(&at(&top, &[".git"]), true, Some(&top));
    create(
        &top,
        &[
            (".git/config", config),
            (".git/hooks/pre-commit", ""),
            (".git/hooks/a.sample", ""),
            (".git/commondir", "/x"),
        ],
    );
    create(
        &top,
        &[
            ("sub/.git/config", config),
            ("linked/.git", "gitdir: ../sub/x"),
            ("module/.git", "gitdir: ../.git/modules/m"),
        ],
    );
    create(&top, &[(".git/modules/m/config", config)]);
    let changes = protected.revert();
    let names = [
        ".git/config",
        ".git/commondir",
        ".git/hooks/pre-commit",
        "linked/.git",
        ".git/modules/m/config",
        "sub/.git/config",
    ];
    assert_eq!(shown(&changes, &top), names);
    let how = "it may run programs: core.fsmonitor; the change is kept beside it as `config.reverted-1`";
    assert_eq!(changes[0].outcome.as_deref(), Ok(how));
    assert_eq!(text(&top, ".git/config"), "[user]\n\tname = \"a\"\n");
    for git in ["file", "link"] {
        let protected = Alone::start(&at(&top, &["p/.git"]), true, Some(&top.join("p")));
        create(&top, &[("p/x", "")]);
        match git {
            "file" => create(&top, &[("p/.git", "gitdir: ../sub/.git")]),
            _ => std::os::unix::fs::symlink(top.join("sub/.git"), top.join("p/.git")).unwrap(),
        }
        assert_eq!(shown(&protected.revert(), &top), ["p/.git"], "{git}");
    }
}

#[test]
fn a_new_worktree_leads_only_to_the_repository_around_it() {
    let (_temp, top) = top();
    create(&top, &[(".git/HEAD", ""), ("evil/config", "")]);
    let protected = Alone::start(&[], true, Some(&top));
    for (name, leads_to) in [("good", "../.."), ("bad", "../../../evil")] {
        create(
            &top,
            &[
                (&format!("{name}/.git"), &format!("gitdir: ../.git/worktrees/{name}")),
                (&format!(".git/worktrees/{name}/commondir"), leads_to),
            ],
        );
    }
    assert_eq!(shown(&protected.revert(), &top), [".git/worktrees/bad/commondir"]);
}

#[test]
fn nested_repositories_and_settings_are_found_within_limits() {
    let (_temp, top) = top();
    for name in [
        "ignored/r/.git/config",
        "r/.git/config",
        "a/b/.vscode/tasks.json",
        "a/.envrc",
        "s/.git",
        ".envrc",
        "a/b/c/d/.envrc",
        ".git/HEAD",
    ] {
        create(&top, &[(name, "")]);
    }
    create(&top, &[(".gitignore", "ignored")]);
    let search = NestedFiles::find(&roots(&top));
    let relative = |path: &AbsPath| path.strip_prefix(&top).unwrap().display().to_string();
    let found: BTreeSet<String> = search.paths().iter().map(relative).collect();
    let expected = ["a/.envrc", "a/b/.vscode/tasks.json", "r/.git", "s/.git"].map(str::to_owned);
    assert_eq!(found, expected.into_iter().collect());
    create(&top, &[("a/new", "")]);
    assert!(search.is_complete() && !search.is_current());

    // A removed repository is not reported.
    let protected = Alone::start(&[], true, Some(&top));
    std::fs::remove_dir_all(top.join("r")).unwrap();
    create(&top, &[("a/.envrc", "changed")]);
    assert_eq!(shown(&protected.revert(), &top), ["a/.envrc"]);
}

#[test]
fn files_beside_a_workspace_are_protected_in_its_repository() {
    let (_temp, top) = top();
    let deep = "a/w/b/c/d/.envrc";
    create(&top, &[(".git/HEAD", ""), ("a/w/x", ""), ("other/.vscode/tasks.json", "a"), (deep, "a")]);
    let roots = ProjectRoots { workspace: top.join("a/w"), top: top.clone() };
    let mut running = Running::new();
    let protected = running.start(Vec::new(), GitChanges::default(), true, Some(roots));
    create(&top, &[("other/.vscode/tasks.json", "changed"), (deep, "changed")]);
    let changes = Alone(running, protected).revert();
    assert_eq!(shown(&changes, &top), [deep, "other/.vscode/tasks.json"]);
}

#[test]
fn the_limits_leave_the_files_of_the_project_itself() {
    let (_temp, top) = top();
    create(&top, &[(".envrc", "a"), ("sub/.husky/0", "a")]);
    for number in 1..=MAX_FILES {
        create(&top, &[(&format!("sub/.husky/{number}"), "")]);
    }
    let protected = Alone::start(&at(&top, &[".envrc"]), false, Some(&top));
    assert_eq!(protected.1.unprotected, [format!("all of {}", top.join("sub/.husky"))]);
    create(&top, &[(".envrc", "changed"), ("sub/.husky/new", "")]);
    assert_eq!(shown(&protected.revert(), &top), [".envrc"]);
    for number in 0..5_000 {
        create(&top, &[(&format!("many/{number}"), "")]);
    }
    let unprotected = Alone::start(&at(&top, &[".envrc"]), false, Some(&top)).1.unprotected.clone();
    assert_eq!(unprotected.last().map(String::as_str), Some("all subdirectories"));
}

#[test]
fn a_moved_directory_is_moved_back() {
    let (_temp, top) = top();
    std::fs::create_dir_all(top.join(".git/hooks")).unwrap();
    create(&top, &[(".git/config", "a"), (".git/HEAD", "main")]);
    let tops = at(&top, &[".git/hooks", ".git/config"]);

    let protected = Alone::start(&tops, false, None);
    std::fs::rename(top.join(".git"), top.join("x")).unwrap();
    create(&top, &[("x/config", "changed")]);
    assert_eq!(shown(&protected.revert(), &top), [".git", ".git/config"]);
    assert_eq!([text(&top, ".git/config"), text(&top, ".git/HEAD")], ["a", "main"]);

    let protected = Alone::start(&tops, false, None);
    std::fs::rename(top.join(".git"), top.join("x")).unwrap();
    std::fs::create_dir_all(top.join(".git/hooks")).unwrap();
    assert_eq!(shown(&protected.revert(), &top), [".git"]);
    assert_eq!(text(&top, ".git/HEAD"), "main");
    assert!(top.join(".git.reverted-1/hooks").as_path().is_dir());

    let protected = Alone::start(&tops, false, None);
    std::fs::remove_dir_all(top.join(".git")).unwrap();
    let gone = "its directory was deleted";
    assert_eq!(
        shown(&protected.revert(), &top),
        [format!(".git/config {gone}"), format!(".git/hooks {gone}")]
    );
    assert!(!top.join(".git").as_path().exists());
}

#[test]
fn a_new_link_to_a_protected_file_is_set_aside() {
    let (_temp, top) = top();
    std::fs::create_dir_all(top.join("elsewhere")).unwrap();
    let protected = Alone::start(&at(&top, &[".vscode/tasks.json"]), true, None);
    create(&top, &[("elsewhere/tasks.json", "")]);
    std::os::unix::fs::symlink(top.join("elsewhere"), top.join(".vscode")).unwrap();
    assert_eq!(shown(&protected.revert(), &top), [".vscode/tasks.json"]);
    assert!(!exists(&top.join(".vscode")) && exists(&top.join(".vscode.reverted-1")));
    assert!(exists(&top.join("elsewhere/tasks.json")));
}
