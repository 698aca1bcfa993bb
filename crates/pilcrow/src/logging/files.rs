//! The files of the log: `DAY.PID.log`, and further parts `DAY.PID.N.log`.

use jiff::{SignedDuration, Timestamp};
use paths::StateDir;

/// Number of days until the logger deletes a file.
const DAYS: i64 = 7;

/// Maximum size of all files, in bytes.
const TOTAL: u64 = 64 << 20;

/// Size at which a process starts another file, in bytes.
///
/// The logger can then delete the oldest part.
const PART: u64 = 8 << 20;

/// A file of the log.
#[derive(Debug)]
struct LogFile {
    name: String,
    /// Day of the file, such as `2026-01-31`.
    day: String,
    pid: u32,
    part: u32,
    bytes: u64,
}

/// Reads the newest `count` lines of all processes, oldest first.
///
/// With `server`, reads only lines with the field `server` of that name. Blocks for files of at most 64 MiB
/// together.
///
/// # Errors
/// If the log cannot be read.
pub fn newest(state: &StateDir, count: usize, server: Option<&str>) -> anyhow::Result<Vec<String>> {
    let directory = state.child("log")?;
    let field = server.map(|name| format!("server={name}"));
    let matches = |line: &str| {
        field.as_ref().is_none_or(|field| {
            let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || "-_.".contains(c));
            line.match_indices(field.as_str()).any(|(at, field)| ends(&line[at + field.len()..]))
        })
    };
    let mut lines: Vec<String> = Vec::new();
    let mut files = list(state)?;
    // Reads whole days, since the files of one day overlap.
    while let (true, Some(last)) = (lines.len() < count, files.last()) {
        let day = last.day.clone();
        while let Some(file) = files.pop_if(|file| file.day == day) {
            // Another process may have pruned the file.
            let Some(bytes) = directory.read(&file.name)? else { continue };
            let text = String::from_utf8_lossy(&bytes);
            lines.extend(text.lines().filter(|line| matches(line)).map(str::to_owned));
        }
    }
    // Each line begins with a timestamp of fixed length.
    lines.sort_by(|a, b| a.split(' ').next().cmp(&b.split(' ').next()));
    Ok(lines.split_off(lines.len().saturating_sub(count)))
}

/// Lists the files of `state`'s log, oldest first.
fn list(state: &StateDir) -> Result<Vec<LogFile>, paths::StateError> {
    let directory = state.child("log")?;
    let file = |name: String| {
        let bytes = std::fs::metadata(directory.path().join(&name)).ok()?.len();
        let parts: Vec<&str> = name.strip_suffix(".log")?.split('.').collect();
        let (day, pid, part) = match parts[..] {
            [day, pid] => (day, pid, 1),
            [day, pid, part] => (day, pid, part.parse().ok()?),
            _ => return None,
        };
        let (day, pid) = (day.to_owned(), pid.parse().ok()?);
        Some(LogFile { name, day, pid, bytes, part })
    };
    let mut files: Vec<LogFile> = directory.list()?.into_iter().filter_map(file).collect();
    files.sort_by(|a, b| (&a.day, a.part, a.pid).cmp(&(&b.day, b.part, b.pid)));
    Ok(files)
}

/// The log files that this process writes.
#[derive(Debug)]
pub(super) struct Files {
    state: StateDir,
    part: u32,
    /// Bytes written to the part; `None` before the first event.
    written: Option<u64>,
    has_warned: bool,
}

impl Files {
    pub(super) fn new(state: StateDir) -> Self {
        Self { state, part: 1, written: None, has_warned: false }
    }

    /// Appends a line. Returns a warning for the user the first time it fails.
    pub(super) fn append(&mut self, now: Timestamp, line: &str) -> Option<String> {
        match self.try_append(now, line) {
            Ok(()) => None,
            Err(_) if self.has_warned => None,
            Err(error) => {
                self.has_warned = true;
                Some(format!("warning: cannot write the log: {error}\n"))
            }
        }
    }

    fn try_append(&mut self, now: Timestamp, line: &str) -> Result<(), paths::StateError> {
        let length = line.len() as u64;
        match self.written {
            None => prune(&self.state, now)?,
            Some(written) if written + length > PART => {
                self.part += 1;
                self.written = Some(0);
                prune(&self.state, now)?;
            }
            Some(_) => {}
        }
        let (day, pid) = (day(now), std::process::id());
        let name = match self.part {
            1 => format!("{day}.{pid}.log"),
            part => format!("{day}.{pid}.{part}.log"),
        };
        self.state.child("log")?.append(&name, line.as_bytes(), false)?;
        self.written = Some(self.written.unwrap_or_default() + length);
        Ok(())
    }
}

/// Deletes files that are too old, and the oldest above the limit.
fn prune(state: &StateDir, now: Timestamp) -> Result<(), paths::StateError> {
    let directory = state.child("log")?;
    let oldest = day(now - SignedDuration::from_hours(24 * (DAYS - 1)));
    let files = list(state)?;
    // Includes the file that this process will write.
    let mut total: u64 = files.iter().map(|file| file.bytes).sum::<u64>() + PART;
    for file in files {
        if file.day < oldest || total > TOTAL {
            directory.remove(&file.name)?;
            total -= file.bytes;
        }
    }
    Ok(())
}

fn day(time: Timestamp) -> String {
    let mut text = time.to_string();
    text.truncate(10);
    text
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make the files they need")]
mod tests {
    use paths::AbsPath;

    use super::*;

    fn state() -> (tempfile::TempDir, StateDir) {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(AbsPath::new(temp.path()).unwrap());
        (temp, state)
    }

    fn names(state: &StateDir) -> Vec<String> {
        list(state).unwrap().into_iter().map(|file| file.name).collect()
    }

    fn put(state: &StateDir, name: &str, bytes: u64) {
        let path = state.path().join("log").join(name);
        state.append(&format!("log/{name}"), b"", false).unwrap();
        std::fs::File::options().write(true).open(path).unwrap().set_len(bytes).unwrap();
    }

    #[test]
    fn old_files_and_those_above_the_limit_are_deleted() {
        let (_temp, state) = state();
        let now: Timestamp = "2026-03-10T12:00:00Z".parse().unwrap();
        for (name, megabytes) in [
            ("2026-03-03.1.log", 1),
            ("2026-03-04.1.log", 1),
            ("2026-03-09.2.log", 30),
            ("2026-03-10.2.log", 20),
            ("2026-03-10.2.2.log", 15),
            ("notes.txt", 1),
        ] {
            put(&state, name, megabytes << 20);
        }
        let mut files = Files::new(state.clone());
        assert_eq!(files.append(now, "x\n"), None);
        let own = format!("2026-03-10.{}.log", std::process::id());
        let mut expected = ["2026-03-10.2.log".to_owned(), "2026-03-10.2.2.log".to_owned(), own];
        expected.sort();
        let mut names = names(&state);
        names.sort();
        assert_eq!(names, expected);
        assert!(state.path().join("log/notes.txt").as_path().exists());
    }

    #[test]
    fn newest_lines_of_all_processes_are_sorted_by_time() {
        let (_temp, state) = state();
        for (name, text) in [
            ("2026-03-09.1.log", "2026-03-09T10:00:00.000Z INFO a old\n"),
            (
                "2026-03-10.1.log",
                "2026-03-10T10:00:00.000Z INFO a one\n2026-03-10T12:00:00.000Z INFO a three server=ruff x=1\n",
            ),
            (
                "2026-03-10.2.log",
                "2026-03-10T11:00:00.000Z INFO a two server=ruff-lsp\n2026-03-10T13:00:00.000Z INFO a run{server=ruff}:four\n",
            ),
        ] {
            state.append(&format!("log/{name}"), text.as_bytes(), false).unwrap();
        }
        let last_words = |count: usize, server: Option<&str>| -> Vec<String> {
            let lines = newest(&state, count, server).unwrap();
            lines.iter().map(|line| line.split(" a ").nth(1).unwrap().to_owned()).collect()
        };
        assert_eq!(
            last_words(3, None),
            ["two server=ruff-lsp", "three server=ruff x=1", "run{server=ruff}:four"]
        );
        assert_eq!(last_words(9, None).len(), 5);
        assert_eq!(last_words(9, Some("ruff")), ["three server=ruff x=1", "run{server=ruff}:four"]);
        assert_eq!(last_words(0, None), [""; 0]);
    }

    #[test]
    fn a_process_starts_another_file_by_day_and_size() {
        let (_temp, state) = state();
        let mut files = Files::new(state.clone());
        let at = |text: &str| -> Timestamp { text.parse().unwrap() };
        let half = "x".repeat((PART / 2) as usize);
        for time in ["2026-03-10T23:59:59Z", "2026-03-11T00:00:01Z", "2026-03-11T00:00:02Z"] {
            assert_eq!(files.append(at(time), &half), None);
        }
        let pid = std::process::id();
        let expected = ["2026-03-10.P.log", "2026-03-11.P.log", "2026-03-11.P.2.log"];
        assert_eq!(names(&state), expected.map(|name| name.replace('P', &pid.to_string())));
    }
}
