//! Execution of other programs, with a deadline and errors that show their output.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, Read};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// The output and the status of a program.
pub(crate) struct Output {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a program and captures its output.
///
/// Fails if the program cannot start or exceeds its deadline. The caller checks its exit status.
/// Blocks.
pub(crate) fn capture(command: &mut Command, deadline: Duration) -> Result<Output> {
    capture_with(command, Stdio::null(), deadline)
}

fn capture_with(command: &mut Command, stdin: Stdio, deadline: Duration) -> Result<Output> {
    let shown = show(command);
    let mut child = command
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {shown}"))?;
    let out = read_in_thread(child.stdout.take());
    let err = read_in_thread(child.stderr.take());
    let status = wait(&mut child, deadline, &shown)?;
    let collect = |reader: thread::JoinHandle<Vec<u8>>| {
        String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
    };
    Ok(Output { status, stdout: collect(out), stderr: collect(err) })
}

/// Like [`capture_ok`], for programs that change the tools directory.
///
/// Their standard input holds the directory's lock, so that it stays locked while they write, even if we are
/// killed.
pub(crate) fn install(command: &mut Command, stdin: Stdio, deadline: Duration) -> Result<Output> {
    let shown = show(command);
    let output = capture_with(command, stdin, deadline)?;
    succeeded(output, &shown)
}

/// Like [`capture`]; a failure is an error that ends with the program's output.
pub(crate) fn capture_ok(command: &mut Command, deadline: Duration) -> Result<Output> {
    let shown = show(command);
    let output = capture(command, deadline)?;
    succeeded(output, &shown)
}

fn succeeded(output: Output, shown: &str) -> Result<Output> {
    if !output.status.success() {
        let said = format!("{}\n{}", output.stdout.trim_end(), output.stderr.trim_end());
        bail!("{shown}: {}\n{}", output.status, tail(said.trim(), 40));
    }
    Ok(output)
}

/// Runs a program with this process's output, so that the user sees it at once.
///
/// Fails unless it succeeds.
pub(crate) fn show_ok(command: &mut Command, deadline: Duration) -> Result<()> {
    let shown = show(command);
    let mut child = command.stdin(Stdio::null()).spawn().with_context(|| format!("cannot start {shown}"))?;
    let status = wait(&mut child, deadline, &shown)?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}

/// Like [`show_ok`]; returns the standard output.
pub(crate) fn show_and_keep(command: &mut Command, deadline: Duration) -> Result<String> {
    let shown = show(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {shown}"))?;
    let stdout = child.stdout.take();
    let reader = thread::spawn(move || {
        let mut kept = String::new();
        for line in std::io::BufReader::new(stdout.into_iter().next()?).lines().map_while(Result::ok) {
            println!("{line}");
            kept.push_str(&line);
            kept.push('\n');
        }
        Some(kept)
    });
    let status = wait(&mut child, deadline, &shown)?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(reader.join().ok().flatten().unwrap_or_default())
}

/// Checks that a program is on `PATH`; the error names the install command.
pub(crate) fn require(program: &str, install: &str) -> Result<()> {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|directory| directory.join(program).is_file()));
    if !found {
        bail!("{program} is missing; install it with: {install}");
    }
    Ok(())
}

/// The command as typed in a shell, for messages.
pub(crate) fn show(command: &Command) -> String {
    std::iter::once(command.get_program()).chain(command.get_args()).map(quote).collect::<Vec<_>>().join(" ")
}

/// Quotes a word for a POSIX shell if necessary.
pub(crate) fn quote(word: impl AsRef<OsStr>) -> String {
    let word = word.as_ref().to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@+,%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

fn wait(child: &mut std::process::Child, deadline: Duration, shown: &str) -> Result<ExitStatus> {
    let until = Instant::now() + deadline;
    loop {
        if let Some(status) = child.try_wait().with_context(|| format!("cannot wait for {shown}"))? {
            return Ok(status);
        }
        if Instant::now() >= until {
            // Kill it with its descendants. It stays in this process's group, so that Ctrl-C ends
            // it as well.
            let mut kill = Command::new("kill");
            kill.arg("-KILL").args(tree_of(child.id()).iter().map(u32::to_string));
            kill.status().with_context(|| format!("cannot end {shown}"))?;
            child.wait().with_context(|| format!("cannot wait for {shown}"))?;
            bail!("{shown}: not finished after {} s, killed", deadline.as_secs());
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// A process and its descendants.
fn tree_of(pid: u32) -> Vec<u32> {
    let mut tree = vec![pid];
    let mut at = 0;
    while let Some(pid) = tree.get(at) {
        // A process that has ended meanwhile has no children.
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let children: Vec<String> =
            tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok()).collect();
        tree.extend(
            children
                .iter()
                .flat_map(|list| list.split_whitespace())
                .filter_map(|pid| pid.parse::<u32>().ok()),
        );
        at += 1;
    }
    tree
}

fn read_in_thread(stream: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            // A read error ends the text; the exit status shows the failure.
            if let Err(error) = stream.read_to_end(&mut bytes) {
                bytes.extend_from_slice(format!("\n[output lost: {error}]").as_bytes());
            }
        }
        bytes
    })
}

fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    let skipped = all.len().saturating_sub(lines);
    if skipped == 0 {
        text.to_owned()
    } else {
        format!("[{skipped} lines omitted]\n{}", all[skipped..].join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quote("a-b/c.d"), "a-b/c.d");
        assert_eq!(quote("a b"), "'a b'");
        assert_eq!(quote("it's"), r"'it'\''s'");
        assert_eq!(quote(""), "''");
    }

    #[test]
    fn a_program_past_its_deadline_is_killed_with_its_children() {
        // A surviving child would hold the pipes open for its lifetime, and block this test.
        let started = Instant::now();
        let error = capture(Command::new("sh").args(["-c", "sleep 600 & wait"]), Duration::from_millis(200));
        assert!(error.err().expect("it overstayed").to_string().contains("not finished"));
        let directory = tempfile::tempdir().expect("temp");
        let pid_file = directory.path().join("pid");
        let script = format!("sleep 600 & echo $! > '{}'; wait", pid_file.display());
        capture(Command::new("sh").args(["-c", &script]), Duration::from_millis(500))
            .err()
            .expect("it overstayed");
        let pid = fs::read_to_string(pid_file).expect("it started");
        let state = format!("/proc/{}/stat", pid.trim());
        while fs::read_to_string(&state).is_ok_and(|stat| !stat.contains(") Z ")) {
            assert!(started.elapsed() < Duration::from_secs(60), "its child still runs");
            thread::yield_now();
        }
    }

    #[test]
    fn a_failure_shows_the_output() {
        let error =
            capture_ok(Command::new("sh").args(["-c", "echo why >&2; exit 3"]), Duration::from_secs(20));
        let said = error.err().expect("it failed").to_string();
        assert!(said.contains("why") && said.contains('3'), "{said}");
    }
}
