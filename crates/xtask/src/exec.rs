//! Running other programs: every one with a deadline, and an error that shows what it printed.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// What a program printed and how it ended.
pub(crate) struct Output {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs to the end with the output kept. `Err` when it cannot start or overstays its deadline;
/// its exit status is the caller's to judge. Blocks.
pub(crate) fn capture(command: &mut Command, deadline: Duration) -> Result<Output> {
    let shown = show(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start {shown}"))?;
    let out = read_in_thread(child.stdout.take());
    let err = read_in_thread(child.stderr.take());
    let status = wait(&mut child, deadline, &shown, true)?;
    let collect = |reader: thread::JoinHandle<Vec<u8>>| {
        String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
    };
    Ok(Output { status, stdout: collect(out), stderr: collect(err) })
}

/// Like [`capture`], and a failure is an error that ends with what the program said.
pub(crate) fn capture_ok(command: &mut Command, deadline: Duration) -> Result<Output> {
    let shown = show(command);
    let output = capture(command, deadline)?;
    if !output.status.success() {
        let said = format!("{}\n{}", output.stdout.trim_end(), output.stderr.trim_end());
        bail!("{shown}: {}\n{}", output.status, tail(said.trim(), 40));
    }
    Ok(output)
}

/// Runs with our own output, so that the person sees it as it comes. `Err` unless it succeeds.
pub(crate) fn show_ok(command: &mut Command, deadline: Duration) -> Result<()> {
    let shown = show(command);
    let mut child = command.stdin(Stdio::null()).spawn().with_context(|| format!("cannot start {shown}"))?;
    let status = wait(&mut child, deadline, &shown, false)?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}

/// A program on the person's PATH. `Err` names the command that installs it.
pub(crate) fn require(program: &str, install: &str) -> Result<()> {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()));
    if !found {
        bail!("{program} is missing; install it with: {install}");
    }
    Ok(())
}

/// The command as a shell would read it, for messages.
pub(crate) fn show(command: &Command) -> String {
    std::iter::once(command.get_program()).chain(command.get_args()).map(quote).collect::<Vec<_>>().join(" ")
}

/// Quoted for a POSIX shell where it needs it.
pub(crate) fn quote(word: impl AsRef<OsStr>) -> String {
    let word = word.as_ref().to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@+,%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

fn wait(
    child: &mut std::process::Child,
    deadline: Duration,
    shown: &str,
    own_group: bool,
) -> Result<ExitStatus> {
    let until = Instant::now() + deadline;
    loop {
        if let Some(status) = child.try_wait().with_context(|| format!("cannot wait for {shown}"))? {
            return Ok(status);
        }
        if Instant::now() >= until {
            // The group where it has one, so that nothing it started outlives it.
            if own_group {
                let ended =
                    Command::new("kill").arg("-KILL").arg("--").arg(format!("-{}", child.id())).status();
                ended.with_context(|| format!("cannot end {shown}"))?;
            } else {
                child.kill().with_context(|| format!("cannot end {shown}"))?;
            }
            child.wait().with_context(|| format!("cannot wait for {shown}"))?;
            bail!("{shown}: not finished after {} s, ended", deadline.as_secs());
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn read_in_thread(stream: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            // A read error ends the text; the exit status tells the rest.
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
        format!("[{skipped} lines left out]\n{}", all[skipped..].join("\n"))
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
    fn a_program_that_overstays_is_ended_with_what_it_started() {
        let error = capture(Command::new("sh").args(["-c", "sleep 60 & wait"]), Duration::from_millis(200));
        assert!(error.err().expect("it overstayed").to_string().contains("not finished"));
    }

    #[test]
    fn a_failure_shows_what_was_said() {
        let error =
            capture_ok(Command::new("sh").args(["-c", "echo why >&2; exit 3"]), Duration::from_secs(20));
        let said = error.err().expect("it failed").to_string();
        assert!(said.contains("why") && said.contains('3'), "{said}");
    }
}
