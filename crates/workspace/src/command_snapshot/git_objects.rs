//! Git's view of a workspace: contents of blobs, checkout conversions, own files.
//!
//! Runs no code of the repository.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ignore::gitignore::{Gitignore, GitignoreBuilder, gitconfig_excludes_path};
use paths::AbsPath;
use policy::SpawnGrant;
use process::Processes;
use process::deadlines;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::scan::Stamp;
use crate::command_snapshot::git_index::Index;
use crate::documents::content::{Content, Image};
use crate::journal::command_backup::MOST_BYTES;

/// Maximum number of git's own files to check.
const MOST_GIT_FILES: usize = 2_000;
/// Files that git reads before it prints contents.
const READ_BY_GIT: &[&str] = &["HEAD", "config", "commondir", "packed-refs", "objects/info/alternates"];
/// Time limit for git to print contents.
const GIT_DEADLINE: Duration = Duration::from_secs(30);

/// Reads the contents of `blobs` by git. Omits blobs that git does not print.
pub(super) async fn run_git(
    root: &AbsPath,
    git: &Path,
    blobs: BTreeSet<[u8; 20]>,
    processes: &Arc<Processes>,
) -> HashMap<[u8; 20], Vec<u8>> {
    let contents = read_objects(root, git, &blobs.iter().map(hex).collect::<Vec<_>>(), processes).await;
    blobs.into_iter().zip(contents).filter_map(|(blob, content)| Some((blob, content?))).collect()
}

/// Reads the contents of blobs by their names, such as `HEAD:PATH`.
///
/// `None` for one that does not exist; fewer if git does not print all.
pub(super) async fn read_objects(
    root: &AbsPath,
    git: &Path,
    names: &[String],
    processes: &Arc<Processes>,
) -> Vec<Option<Vec<u8>>> {
    let mut found = Vec::new();
    // Git would wait for a pipe.
    let is_blocked = |name: &&&str| {
        paths::open_file(git.join(name), true).is_err_and(|it| it.kind() == std::io::ErrorKind::InvalidInput)
    };
    if let Some(name) = READ_BY_GIT.iter().find(is_blocked) {
        tracing::warn!("cannot compare with git: {name} of the repository is not a regular file");
        return found;
    }
    let (command, grant) = SpawnGrant::for_git_objects(root, git);
    let mut process = match processes.spawn(&command, &grant).await {
        Ok(process) => process,
        Err(error) => {
            tracing::warn!(%error, "cannot compare the changes of a command with git");
            return found;
        }
    };
    let (Some(mut stdin), Some(stdout)) = (process.take_stdin(), process.take_stdout()) else {
        return found;
    };
    let names: String = names.iter().flat_map(|name| [name, "\n"]).collect();
    let writes = async move {
        // git may end before it has read all: its answers so far count.
        if let Err(error) = stdin.write_all(names.as_bytes()).await {
            tracing::debug!(%error, "git did not read all names");
        }
    };
    let reads = read_blobs(stdout, &mut found);
    if tokio::time::timeout(GIT_DEADLINE, futures_util::future::join(writes, reads)).await.is_err() {
        tracing::warn!("git did not return the contents of files in time");
    }
    process.end(deadlines::FINISHED_PROGRAM).await;
    found
}

/// Reads the answers of `git cat-file --batch`, in the order of the names.
///
/// Each is `NAME blob SIZE`, the content, a line end; or `NAME missing`.
async fn read_blobs(stdout: tokio::process::ChildStdout, found: &mut Vec<Option<Vec<u8>>>) {
    use tokio::io::AsyncBufReadExt;
    let mut reader = tokio::io::BufReader::new(stdout);
    let mut left = MOST_BYTES;
    loop {
        let mut line = Vec::new();
        if !matches!(reader.read_until(b'\n', &mut line).await, Ok(1..)) {
            return;
        }
        let line = String::from_utf8_lossy(&line);
        let mut words = line.trim_end().rsplit(' ');
        let (size, kind) = (words.next().and_then(|size| size.parse::<u64>().ok()), words.next());
        let Some(size) = size else {
            found.push(None);
            continue;
        };
        if size > left {
            return;
        }
        left -= size;
        let mut content = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
        let read = reader.read_exact(&mut content).await.is_ok() && reader.read_u8().await.is_ok();
        if !read {
            return;
        }
        found.push(Some(content).filter(|_| kind == Some("blob")));
    }
}

fn hex(blob: &[u8; 20]) -> String {
    blob.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the content that git checks out for a blob, chosen by its size.
///
/// It is the blob itself, or the blob with the line ends of Windows.
pub(super) fn on_disk(blob: &[u8], stamp: Stamp) -> Option<std::borrow::Cow<'_, [u8]>> {
    if blob.len() as u64 == stamp.size {
        return Some(blob.into());
    }
    let ends = blob.iter().filter(|byte| **byte == b'\n').count();
    if stamp.is_link || blob.contains(&b'\r') || (blob.len() + ends) as u64 != stamp.size {
        return None;
    }
    let mut content = Vec::with_capacity(blob.len() + ends);
    for byte in blob {
        if *byte == b'\n' {
            content.push(b'\r');
        }
        content.push(*byte);
    }
    Some(content.into())
}

pub(super) fn from_blob(content: &[u8], stamp: Stamp) -> Image {
    if stamp.is_link {
        let target = std::ffi::OsString::from_vec(content.to_vec());
        return Image::new(Content::Link(target.into()), None);
    }
    Image::new(Content::of(content.to_vec()), Some(stamp.mode))
}

/// Finds the files whose content git filters between disk and repository.
///
/// A filter may keep the size. `None` if the list is ambiguous.
pub(super) fn filtered(
    root: &AbsPath,
    index: Option<&Index>,
    files: &BTreeMap<PathBuf, Stamp>,
) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new("");
    let own = index.map(|index| (String::new(), index.git.join("info/attributes")));
    let named = files.keys().filter(|path| path.file_name().is_some_and(|name| name == ".gitattributes"));
    let named = named.map(|path| {
        let directory = path.parent().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        (directory, root.join(path).as_path().to_owned())
    });
    for (directory, path) in own.into_iter().chain(named) {
        let Ok(text) = paths::read_settings(&path) else { continue };
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            let pattern = words.next().unwrap_or_default();
            let turns = |word: &str| {
                word.starts_with("filter=")
                    || word.starts_with("working-tree-encoding=")
                    || matches!(word, "ident" | "crlf" | "eol=crlf")
            };
            if !words.any(turns) {
                continue;
            }
            if pattern.starts_with(['"', '[']) {
                return None;
            }
            let below = if pattern.trim_end_matches('/').contains('/') {
                format!("/{directory}/{}", pattern.trim_start_matches('/'))
            } else {
                format!("/{directory}/**/{pattern}")
            };
            builder.add_line(None, &below.replace("//", "/")).ok()?;
        }
    }
    builder.build().ok()
}

/// Builds the rules for paths that only the user's own ignore files name.
///
/// These are `.git/info/exclude` and the global one.
pub(super) fn private(root: &AbsPath, index: Option<&Index>) -> Gitignore {
    let git = index.map_or_else(|| root.join(".git").as_path().to_owned(), |index| index.git.clone());
    let mut builder = GitignoreBuilder::new("");
    for path in [Some(git.join("info/exclude")), gitconfig_excludes_path()].into_iter().flatten() {
        let Ok(text) = paths::read_settings(&path) else { continue };
        for line in text.lines() {
            if let Err(error) = builder.add_line(None, line) {
                tracing::debug!(%error, "a line of an ignore file is not a pattern");
            }
        }
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// Lists branches, settings and hooks below `.git`, whose changes are reported.
pub(super) fn git_files(root: &AbsPath) -> Vec<(PathBuf, Stamp)> {
    let git = root.join(".git").as_path().to_owned();
    let mut all = Vec::new();
    let mut next: Vec<PathBuf> =
        ["HEAD", "config", "packed-refs", "hooks", "info", "refs"].map(|name| git.join(name)).to_vec();
    while let Some(path) = next.pop() {
        let Ok(meta) = std::fs::symlink_metadata(&path) else { continue };
        if meta.is_dir() {
            let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
            next.extend(entries.map(|entry| entry.path()).take(MOST_GIT_FILES));
        } else {
            all.push((path, Stamp::of(&meta)));
        }
        if all.len() >= MOST_GIT_FILES {
            break;
        }
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_missing_blob_starts_no_program_of_the_project() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let git = |args: &[&str]| {
            let done = std::process::Command::new("git").current_dir(&root).args(args).output().unwrap();
            assert!(done.status.success(), "{done:?}");
        };
        git(&["init", "-q"]);
        git(&["init", "-q", "--bare", "other"]);
        let ran = root.join("ran");
        for (key, value) in [
            ("remote.origin.url", root.join("other").to_str().unwrap()),
            ("remote.origin.promisor", "true"),
            ("remote.origin.uploadpack", &format!("touch {};", ran.display())),
            ("extensions.partialClone", "origin"),
            ("core.repositoryformatversion", "1"),
        ] {
            git(&["config", key, value]);
        }
        let (processes, root) = (Processes::new(None), AbsPath::new(&root).unwrap());
        let blobs = BTreeSet::from([[7; 20]]);
        assert!(run_git(&root, &root.as_path().join(".git"), blobs, &processes).await.is_empty());
        assert!(!ran.exists());
        processes.end_all(Duration::from_secs(5)).await;
    }
}
