//! Triples of consecutive versions from a git repository's first-parent history.
//!
//! Versions are matched by path; a deletion ends the series. Texts that are not UTF-8 or larger than 1 MiB
//! are left out.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::case::{self, Case};
use crate::exec;

const DEADLINE: Duration = Duration::from_secs(300);
const LARGEST: usize = 1 << 20;

/// Three versions of one path: the last one's commit, and their objects.
struct Triple {
    commit: String,
    path: String,
    objects: [String; 3],
}

/// Returns at most `limit` cases, evenly spread.
pub(crate) fn cases(repo: &Path, limit: usize) -> Result<impl Iterator<Item = Result<Case>>> {
    let triples = triples(repo)?;
    let count = triples.len().min(limit);
    let total = triples.len();
    let mut wanted = (0..count).map(move |at| at * total / count.max(1)).peekable();
    let mut chosen = triples.into_iter().enumerate().filter(move |(at, _)| wanted.next_if_eq(at).is_some());
    let mut objects = Objects::open(repo)?;
    Ok(std::iter::from_fn(move || {
        loop {
            let (_, triple) = chosen.next()?;
            match read(&mut objects, &triple) {
                Ok(None) => {}
                Ok(Some(case)) => return Some(Ok(case)),
                Err(error) => return Some(Err(error)),
            }
        }
    }))
}

fn read(objects: &mut Objects, triple: &Triple) -> Result<Option<Case>> {
    let mut texts = Vec::new();
    for object in &triple.objects {
        match objects.text(object)? {
            Some(text) => texts.push(text),
            None => return Ok(None),
        }
    }
    let [v0, v1, v2] = &texts[..] else { return Ok(None) };
    let name = format!("{}:{}", &triple.commit[..triple.commit.len().min(10)], triple.path);
    Ok(case::of(name, &triple.path, [v0, v1, v2]))
}

fn triples(repo: &Path) -> Result<Vec<Triple>> {
    let mut git = Command::new("git");
    git.arg("-C").arg(repo).args([
        "-c",
        "core.quotePath=false",
        "log",
        "--first-parent",
        "--diff-merges=first-parent",
    ]);
    git.args(["--raw", "--no-abbrev", "--no-renames", "--reverse", "--format=commit %H"]);
    let log = exec::capture_ok(&mut git, DEADLINE)?;
    Ok(triples_of(&log.stdout))
}

fn triples_of(log: &str) -> Vec<Triple> {
    let mut commit = "";
    let mut versions: HashMap<&str, Vec<&str>> = HashMap::new();
    let mut triples = Vec::new();
    for line in log.lines() {
        if let Some(hash) = line.strip_prefix("commit ") {
            commit = hash;
        }
        // `:100644 100644 OLD NEW M<tab>PATH`; links and submodules have other modes.
        let Some((fields, path)) = line.strip_prefix(':').and_then(|line| line.split_once('\t')) else {
            continue;
        };
        let fields: Vec<&str> = fields.split(' ').collect();
        let [_, mode, _, object, _] = fields[..] else { continue };
        if !mode.starts_with("100") || path.starts_with('"') {
            versions.remove(path);
            continue;
        }
        let known = versions.entry(path).or_default();
        if known.last() == Some(&object) {
            continue;
        }
        known.push(object);
        if let [.., a, b, c] = known[..] {
            let objects = [a.to_owned(), b.to_owned(), c.to_owned()];
            triples.push(Triple { commit: commit.to_owned(), path: path.to_owned(), objects });
            known.remove(0);
        }
    }
    triples
}

/// A running `git cat-file --batch`, with one request at a time.
struct Objects {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Objects {
    fn open(repo: &Path) -> Result<Objects> {
        let mut git = Command::new("git");
        git.arg("-C").arg(repo).args(["cat-file", "--batch"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = git.spawn().context("cannot start git")?;
        let stdout = BufReader::new(child.stdout.take().context("its output is piped")?);
        Ok(Objects { stdin: child.stdin.take(), stdout, child })
    }

    /// Reads an object.
    ///
    /// Returns `None` unless it is UTF-8 text of a plausible size.
    fn text(&mut self, object: &str) -> Result<Option<String>> {
        let stdin = self.stdin.as_mut().context("its input is open")?;
        writeln!(stdin, "{object}").and_then(|()| stdin.flush()).context("git stopped reading")?;
        let mut header = String::new();
        self.stdout.read_line(&mut header)?;
        let size = header.split_whitespace().nth(2).and_then(|size| size.parse::<usize>().ok());
        let Some(size) = size else { bail!("git cat-file: {}", header.trim()) };
        let mut bytes = vec![0; size + 1];
        self.stdout.read_exact(&mut bytes)?;
        bytes.pop();
        let fits = size <= LARGEST && !bytes.contains(&0);
        Ok(if fits { String::from_utf8(bytes).ok() } else { None })
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        drop(self.stdin.take());
        if let Err(error) = self.child.wait() {
            eprintln!("cannot wait for git: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_followed_until_a_deletion() {
        let log = "commit c1\n:000000 100644 0 a1 A\ta\ncommit c2\n:100644 100644 a1 a2 M\ta\ncommit c3\n\
            :100644 100644 a2 a3 M\ta\n:100644 000000 b1 0 D\tb\ncommit c4\n:100644 100644 a3 a4 M\ta\n\
            commit c5\n:100644 000000 a4 0 D\ta\ncommit c6\n:000000 100644 0 a5 A\ta\n";
        let triples = triples_of(log);
        let found: Vec<(&str, &str)> =
            triples.iter().map(|triple| (triple.commit.as_str(), triple.objects[2].as_str())).collect();
        assert_eq!(found, [("c3", "a3"), ("c4", "a4")]);
        assert_eq!(triples[1].objects, ["a2", "a3", "a4"]);
    }
}
