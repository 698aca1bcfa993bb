//! Checks for irreversible publication: rewritten history, published packages.

use super::script::Command;
use super::word::{UNKNOWN, Word};
use super::{CheckContext, Hit, targets};

type Report<'a> = &'a mut dyn FnMut(Hit);

/// The subcommand and the words after it, without the options before it.
fn subcommand<'a>(command: &'a Command, valued: &[&str]) -> Option<(&'a str, &'a [Word])> {
    let args = command.args();
    let mut at = 0;
    while let Some(word) = args.get(at) {
        if valued.contains(&word.text.as_str()) {
            at += 2;
        } else if word.text.starts_with(['-', '+']) {
            at += 1;
        } else {
            return Some((&word.text, &args[at + 1..]));
        }
    }
    None
}

pub(super) fn history(cx: &CheckContext<'_>, report: Report<'_>) {
    for command in &cx.script.commands {
        match command.name() {
            "git" => git(command, report),
            "git-filter-repo" | "bfg" => report(Hit::of(command, "rewrites history")),
            name @ ("rm" | "mv" | "find") => {
                let all: Vec<&Word> = command.operands().collect();
                let recursive = command.has('r', "recursive") || command.has('R', "");
                let args = command.args();
                let deletes = args.iter().any(|word| word.text == "-delete")
                    || args.windows(2).any(|pair| pair[0].text.starts_with("-exec") && pair[1].text == "rm");
                let (paths, all_below) = match name {
                    "rm" => (all.as_slice(), recursive),
                    "mv" => (&all[..all.len().saturating_sub(1)], true),
                    _ if deletes => (all.get(..1).unwrap_or_default(), true),
                    _ => continue,
                };
                if paths.iter().any(|word| is_git(&word.text, all_below)) {
                    report(Hit::of(command, "deletes or moves the repository's history"));
                }
            }
            "hg" => {
                let found = subcommand(command, &["-R", "--cwd", "--config"]);
                let strips = found.is_some_and(|(name, rest)| {
                    matches!(name, "strip" | "histedit" | "rebase")
                        || (name == "push" && has(rest, &["-f", "--force"]))
                });
                if strips {
                    report(Hit::of(command, "rewrites history"));
                }
            }
            _ => {}
        }
    }
}

/// Whether a path is git's own directory, or `below` it.
fn is_git(path: &str, below: bool) -> bool {
    let mut names = path.trim_end_matches('/').split('/');
    names.next_back() == Some(".git") || below && names.any(|name| name == ".git")
}

fn has(words: &[Word], wanted: &[&str]) -> bool {
    words.iter().any(|word| wanted.contains(&word.text.as_str()))
}

fn git(command: &Command, report: Report<'_>) {
    let Some((name, rest)) = subcommand(command, &["-C", "-c", "--git-dir", "--work-tree", "--namespace"])
    else {
        return;
    };
    // Options are read as git reads them: their beginnings suffice.
    let long = |wanted: &str| {
        let given = rest.iter().filter_map(|word| word.text.split('=').next());
        given.filter(|name| name.starts_with("--") && name.len() > 2).any(|name| wanted.starts_with(name))
    };
    let short = |letter: char| {
        rest.iter().any(|word| {
            word.text
                .strip_prefix('-')
                .is_some_and(|letters| !letters.starts_with('-') && letters.contains(letter))
        })
    };
    let about = match name {
        "push" => {
            let forced = short('f')
                || long("--force")
                || long("--force-with-lease")
                || long("--mirror")
                || long("--prune");
            let deletes = long("--delete") || short('d');
            let refs = rest.iter().filter(|word| !word.text.starts_with('-')).skip(1);
            let by_ref = refs.clone().any(|word| word.text.starts_with(['+', ':']));
            if forced || by_ref {
                "overwrites commits that others may have"
            } else if deletes {
                "deletes a branch that others may have"
            } else if rest.iter().any(|word| word.text.starts_with(UNKNOWN)) {
                report(Hit::of(command, "may be forced").sure(false));
                return;
            } else {
                return;
            }
        }
        "rebase"
            if !has(
                rest,
                &["--abort", "--continue", "--skip", "--quit", "--show-current-patch", "--edit-todo"],
            ) =>
        {
            "rewrites history"
        }
        // The subcommand without a word lists entries, too.
        "replace" if rest.is_empty() || short('l') || long("--list") => return,
        "filter-branch" | "filter-repo" | "replace" => "rewrites history",
        "commit" if long("--amend") => "rewrites the last commit",
        "reset" if long("--hard") => "discards uncommitted changes",
        "clean" if short('f') || long("--force") => "deletes untracked files",
        "checkout" if short('f') || long("--force") || has(rest, &["--", "."]) => {
            "discards uncommitted changes"
        }
        "restore" if !long("--staged") && !short('S') || short('W') || long("--worktree") => {
            "discards uncommitted changes"
        }
        "config" if is_unsafe_setting(rest) => "may name a program that git runs",
        "reflog" if has(rest, &["expire", "delete"]) => "deletes the reflog or unreachable commits",
        "gc" if rest
            .iter()
            .any(|word| word.text.starts_with("--prune=now") || word.text == "--prune=all") =>
        {
            "deletes the reflog or unreachable commits"
        }
        "update-ref" if short('d') => "deletes a reference",
        "branch" if short('D') || (short('d') && short('f')) => "deletes a branch that may not be merged",
        "stash" if has(rest, &["drop", "clear"]) => "discards stashed changes",
        _ => return,
    };
    report(Hit::of(command, about));
}

/// Whether `git config` with these words writes a setting that may name a program.
fn is_unsafe_setting(words: &[Word]) -> bool {
    const VALUED: [&str; 6] = ["--blob", "--comment", "--default", "--file", "--type", "-f"];
    let text = |at: usize| words.get(at).map_or("", |word| &word.text);
    let is_setting = |at: &usize| {
        text(*at).contains('.')
            && !text(*at).starts_with('-')
            && (*at == 0 || !VALUED.contains(&text(at - 1)))
    };
    let reads = text(0) == "get" || words.iter().any(|word| word.text.starts_with("--get"));
    let setting = (0..words.len()).find(is_setting).filter(|_| !reads);
    setting.is_some_and(|at| !super::git_config::is_harmless_setting(text(at), text(at + 1)))
}

/// Checks for commands that delete databases and remote resources.
pub(super) fn remote_destruction(cx: &CheckContext<'_>, report: Report<'_>) {
    for command in &cx.script.commands {
        let Some((name, rest)) = subcommand(command, VALUED) else { continue };
        let words = || std::iter::once(name).chain(rest.iter().map(|word| word.text.as_str()));
        let destroys = match command.name() {
            "terraform" | "tofu" | "pulumi" | "terragrunt" | "cdk" => {
                words().any(|it| it.trim_start_matches('-') == "destroy")
            }
            "kubectl" | "oc" => matches!(name, "delete" | "drain"),
            "helm" => matches!(name, "uninstall" | "delete"),
            "aws" | "gcloud" | "az" | "doctl" | "heroku" | "fly" | "flyctl" | "vercel" | "netlify" => words()
                .any(|it| {
                    let verb = it.split(['-', ':']).find(|it| !it.is_empty()).unwrap_or_default();
                    matches!(verb, "delete" | "destroy" | "terminate" | "rm" | "rb" | "remove")
                }),
            "gsutil" => matches!(name, "rm" | "rb"),
            "gh" | "glab" => {
                matches!(name, "repo" | "secret" | "release")
                    && rest.first().is_some_and(|it| it.text == "delete")
            }
            "dropdb" | "dropuser" => true,
            "redis-cli" => {
                words().any(|it| matches!(it.to_ascii_lowercase().as_str(), "flushall" | "flushdb"))
            }
            "psql" | "mysql" | "mariadb" | "sqlcmd" | "mongosh" | "mongo" | "sqlite3"
            | "clickhouse-client" => command.args().iter().any(|word| {
                let text = word.text.to_ascii_lowercase();
                ["drop database", "drop table", "drop schema", "truncate table", "dropdatabase("]
                    .iter()
                    .any(|it| text.contains(it))
            }),
            _ => false,
        };
        if destroys && !has(command.args(), &["--dry-run", "--dry-run=client", "--help", "-h"]) {
            report(Hit::of(command, "deletes a database or remote resources"));
        }
    }
}

/// Checks for code that runs later: scheduled, or when the user logs in.
pub(super) fn persistence(cx: &CheckContext<'_>, report: Report<'_>) {
    const PROFILES: [&str; 9] = [
        ".bashrc",
        ".bash_profile",
        ".bash_login",
        ".profile",
        ".zshrc",
        ".zprofile",
        ".zshenv",
        ".bash_logout",
        ".xprofile",
    ];
    let in_home = |path: &str| {
        let home = cx.places.home.as_deref().unwrap_or("/home");
        path.strip_prefix(home).is_some_and(|rest| {
            let rest = rest.trim_start_matches('/');
            PROFILES.contains(&rest)
                || [".config/systemd/", ".config/autostart/", "Library/LaunchAgents/", ".config/fish/"]
                    .iter()
                    .any(|it| rest.starts_with(it))
        })
    };
    for command in &cx.script.commands {
        let about = match command.name() {
            "crontab" if !command.has('l', "list") => "schedules commands",
            "at" | "batch" if !command.has('l', "") => "schedules commands",
            "systemctl" if command.operands().any(|it| matches!(it.text.as_str(), "enable" | "link")) => {
                "starts a service later"
            }
            "launchctl"
                if command
                    .operands()
                    .any(|it| matches!(it.text.as_str(), "load" | "bootstrap" | "enable")) =>
            {
                "starts a service later"
            }
            _ => {
                let redirects = command.redirects.iter().filter(|it| it.writes).map(|it| it.to.text.clone());
                let targets = targets::of(command).into_iter().map(|it| it.to.text);
                if !redirects.chain(targets).any(|to| in_home(&cx.places.absolute(&to, &command.cwd))) {
                    continue;
                }
                "changes a file that runs when you log in"
            }
        };
        report(Hit::of(command, about));
    }
}

/// Options before a subcommand that take the next word as value.
const VALUED: &[&str] = &[
    "-C",
    "-F",
    "-H",
    "-R",
    "-Z",
    "-w",
    "--access",
    "--auth-type",
    "--cache",
    "--color",
    "--config",
    "--config-file",
    "--context",
    "--cwd",
    "--dir",
    "--directory",
    "--filter",
    "--host",
    "--hostname",
    "--index",
    "--loglevel",
    "--manifest-path",
    "--otp",
    "--prefix",
    "--project",
    "--registry",
    "--repo",
    "--scope",
    "--tag",
    "--token",
    "--userconfig",
    "--workspace",
];

pub(super) fn publish(cx: &CheckContext<'_>, report: Report<'_>) {
    for command in &cx.script.commands {
        let Some((name, rest)) = subcommand(command, VALUED) else { continue };
        // `gh` uses `-n` for another option.
        let only_tries = has(command.args(), &["--dry-run", "--help", "-h"])
            || (command.name() == "cargo" && has(rest, &["-n"]));
        if only_tries {
            continue;
        }
        let second = rest
            .iter()
            .map(|word| word.text.as_str())
            .find(|text| !text.starts_with('-'))
            .unwrap_or_default();
        let publishes = match command.name() {
            "npm" | "pnpm" | "bun" => {
                matches!(name, "publish" | "unpublish" | "deprecate")
                    || (name == "dist-tag" && second == "add")
            }
            "yarn" => {
                name == "publish"
                    || (name == "npm" && second == "publish")
                    || (name == "workspace" && has(rest, &["publish"]))
            }
            "cargo" => matches!(name, "publish" | "yank" | "release"),
            "twine" => name == "upload",
            "gem" => matches!(name, "push" | "yank"),
            "poetry" | "uv" | "flit" | "hatch" | "pdm" | "jsr" | "deno" | "lerna" | "vsce" | "ovsx"
            | "wasm-pack" | "maturin" => name == "publish",
            "npx" | "bunx" | "pnpx" | "uvx" | "pipx" => {
                matches!(
                    (name.rsplit('/').next().unwrap_or_default(), second),
                    ("lerna" | "vsce" | "ovsx" | "jsr", "publish") | ("np" | "semantic-release", _)
                ) || (name == "run" && second == "twine")
            }
            "python" | "python3" => has(command.args(), &["twine"]) && has(command.args(), &["upload"]),
            "docker" | "podman" | "nerdctl" | "buildah" => {
                name == "push"
                    || (matches!(name, "image" | "compose") && has(rest, &["push"]))
                    || (matches!(name, "build" | "buildx") && has(rest, &["--push"]))
            }
            "helm" | "skopeo" | "oras" => matches!(name, "push" | "copy"),
            "gh" | "glab" => name == "release" && matches!(second, "create" | "upload" | "edit" | "delete"),
            "mvn" | "mvnw" | "gradle" | "gradlew" | "sbt" => command.args().iter().any(|word| {
                word.text == "deploy"
                    || word.text.starts_with("publish") && word.text != "publishToMavenLocal"
            }),
            "dotnet" | "nuget" => name == "push" || (name == "nuget" && second == "push"),
            "pod" => name == "trunk" && second == "push",
            "semantic-release" | "np" => true,
            _ => false,
        };
        if publishes {
            report(Hit::of(command, "publishes a package"));
        }
    }
}
