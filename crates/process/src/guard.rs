//! The guard: a small process that ends Pilcrow's children if Pilcrow cannot.
//!
//! Pilcrow starts `pilcrow __guard` before its first child, in a group of its own so that the
//! terminal's signals do not reach it. Pilcrow holds the only writing end of its stdin. The guard
//! reads which groups exist, one line each; when the pipe closes, however Pilcrow died, it ends
//! them.
//!
//! Lines: `mark ID` (children of this Pilcrow carry ID in their environment), `add PGID`, `remove
//! PGID`, `gently PGID` (the group may first end by itself), `sign URI` (a file to lock until the
//! groups without extra time have ended, and to write to then), `revert URI` (a workspace's state, in
//! which the caller reverts unfinished commits). Pilcrow reports a child right after
//! its start, since its number is not known sooner. A Pilcrow killed between these two steps, some
//! microseconds apart, leaves that child behind.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use paths::{AbsPath, path_to_uri, uri_to_path};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use crate::deadlines;
use crate::process_table::{Table, mark_names};

/// Runs the guard: reads group ids from stdin until it closes, then ends them.
///
/// Blocks. Ignores SIGINT, SIGTERM and SIGHUP: the guard ends when Pilcrow does. Returns the state
/// directories of workspaces in which Pilcrow may have left unfinished commits.
pub fn guard_main() -> Vec<AbsPath> {
    // Handlers stay for the life of the process, so the signals are ignored.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let _handlers = runtime.as_ref().ok().map(|runtime| {
        use tokio::signal::unix::{SignalKind, signal};
        let _in_runtime = runtime.enter();
        [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(|kind| signal(kind).ok())
    });
    let Orders { mark, groups, gently, signs, states } = read_orders(std::io::stdin().lock());
    let (gentle, others): (Vec<i32>, Vec<i32>) = groups.iter().partition(|it| gently.contains(it));
    let deadline = Instant::now() + deadlines::GUARDED_STREAMS;
    end_groups(&others);
    for mut sign in signs {
        // Without the stamp the end is unknown, and later changes count as foreign.
        stamp(&mut sign).ok();
    }
    let gentle_groups: Vec<Pid> = gentle.iter().filter_map(|pgid| Pid::from_raw(*pgid)).collect();
    wait_until_gone(&gentle_groups, deadline);
    end_groups(&gentle);
    end_marked(mark.as_deref());
    states
}

/// The orders that the guard received.
#[derive(Default)]
struct Orders {
    mark: Option<String>,
    /// The groups that still exist.
    groups: BTreeSet<i32>,
    /// Groups that first get time to end.
    gently: BTreeSet<i32>,
    /// Files to stamp when the groups have ended.
    signs: Vec<File>,
    /// States of workspaces, to report at the end.
    states: Vec<AbsPath>,
}

/// Reads orders until the end of input.
fn read_orders(input: impl BufRead) -> Orders {
    let Orders { mut mark, mut groups, mut gently, mut signs, mut states } = Orders::default();
    for line in input.lines() {
        let Ok(line) = line else { break };
        match line.split_once(' ') {
            Some(("mark", id)) if !id.is_empty() => mark = Some(id.to_owned()),
            Some(("add", pgid)) => groups.extend(pgid.parse::<i32>().ok().filter(|pgid| *pgid > 1)),
            Some(("gently", pgid)) => gently.extend(pgid.parse::<i32>().ok()),
            Some(("remove", pgid)) => {
                pgid.parse::<i32>().ok().map(|pgid| groups.remove(&pgid));
            }
            Some(("sign", uri)) => signs.extend(hold(uri)),
            Some(("revert", uri)) => states.extend(uri_to_path(uri).and_then(AbsPath::new)),
            _ => {}
        }
    }
    Orders { mark, groups, gently, signs, states }
}

/// Locks a file until the stamp; `None` if its directory is gone.
fn hold(uri: &str) -> Option<File> {
    let path = uri_to_path(uri)?;
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path).ok()?;
    file.try_lock().ok()?;
    Some(file)
}

/// Sends SIGTERM to each group, and SIGKILL to those that survive it.
fn end_groups(groups: &[i32]) {
    let groups: Vec<Pid> = groups.iter().filter_map(|pgid| Pid::from_raw(*pgid)).collect();
    let there: Vec<Pid> =
        groups.into_iter().filter(|group| kill_process_group(*group, Signal::TERM).is_ok()).collect();
    wait_until_gone(&there, Instant::now() + deadlines::GUARDED);
    for group in there {
        // An error means that the group has ended, as intended.
        kill_process_group(group, Signal::KILL).ok();
    }
}

/// Writes a line break, so that the file is newer than all earlier writes.
///
/// A system with fine-grained timestamps uses one for a file whose timestamp was read; on others, timestamps
/// advance in steps.
pub fn stamp(file: &mut File) -> std::io::Result<()> {
    file.metadata()?;
    file.write_all(b"\n")
}

fn wait_until_gone(groups: &[Pid], deadline: Instant) {
    // They are not children of this process, so no signal reports their end: poll.
    while groups.iter().any(|group| test_kill_process_group(*group).is_ok()) && Instant::now() < deadline {
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// Sends SIGKILL to processes that left their group but carry this Pilcrow's mark.
fn end_marked(mark: Option<&str>) {
    let Some(mark) = mark else { return };
    let marked = |entry: &&crate::process_table::Entry| {
        !entry.zombie
            && entry.pid != std::process::id()
            && entry.mark().is_some_and(|names| mark_names(&names, mark))
    };
    Table::read().entries().iter().filter(marked).for_each(crate::process_table::Entry::kill);
}

/// Pilcrow's side of its guard.
#[derive(Debug)]
pub(crate) struct Guard {
    program: PathBuf,
    mark: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    groups: BTreeSet<u32>,
    gently: BTreeSet<u32>,
    signs: BTreeSet<String>,
    states: BTreeSet<String>,
    pipe: Option<File>,
    closed: bool,
}

impl Guard {
    /// Creates a guard that is not running yet.
    pub(crate) fn new(program: PathBuf, mark: String) -> Self {
        Self { program, mark, state: Mutex::default() }
    }

    /// Starts the guard if it is not running and sends it all orders.
    ///
    /// Returns the new process, which the caller registers and reaps.
    pub(crate) fn ensure(&self) -> std::io::Result<Option<tokio::process::Child>> {
        let mut state = self.state.lock();
        if state.closed || state.pipe.as_mut().is_some_and(|pipe| pipe.write_all(b"\n").is_ok()) {
            return Ok(None);
        }
        let mut child = tokio::process::Command::new(&self.program)
            .arg("__guard")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            .process_group(0)
            .spawn()?;
        let stdin = child.stdin.take().expect("a pipe was requested as its stdin");
        let pipe: OwnedFd = stdin.into_owned_fd()?;
        // A stopped guard does not read; it must not block Pilcrow.
        rustix::fs::fcntl_setfl(&pipe, rustix::fs::OFlags::NONBLOCK)?;
        let mut pipe = File::from(pipe);
        let mut orders = format!("mark {}\n", self.mark);
        for group in &state.groups {
            orders += &format!("add {group}\n");
        }
        for group in &state.gently {
            orders += &format!("gently {group}\n");
        }
        for uri in &state.signs {
            orders += &format!("sign {uri}\n");
        }
        for uri in &state.states {
            orders += &format!("revert {uri}\n");
        }
        pipe.write_all(orders.as_bytes())?;
        state.pipe = Some(pipe);
        Ok(Some(child))
    }

    /// Adds a group to end when Pilcrow has ended.
    pub(crate) fn add(&self, group: u32) {
        let mut state = self.state.lock();
        state.groups.insert(group);
        state.send(&format!("add {group}\n"));
    }

    /// Gives a group time to end by itself first.
    pub(crate) fn gently(&self, group: u32) {
        let mut state = self.state.lock();
        state.gently.insert(group);
        state.send(&format!("gently {group}\n"));
    }

    /// Adds a file to lock, and to write to when the groups have ended.
    pub(crate) fn sign(&self, path: &AbsPath) {
        let mut state = self.state.lock();
        let uri = path_to_uri(path.as_path());
        state.send(&format!("sign {uri}\n"));
        state.signs.insert(uri);
    }

    /// Adds a workspace's state to report at the end.
    pub(crate) fn revert(&self, path: &AbsPath) {
        let mut state = self.state.lock();
        let uri = path_to_uri(path.as_path());
        state.send(&format!("revert {uri}\n"));
        state.states.insert(uri);
    }

    /// Removes a group that has ended.
    pub(crate) fn remove(&self, group: u32) {
        let mut state = self.state.lock();
        state.groups.remove(&group);
        state.gently.remove(&group);
        state.send(&format!("remove {group}\n"));
    }

    /// Closes the pipe: the guard ends the groups it knows and exits.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.pipe = None;
    }
}

impl State {
    fn send(&mut self, order: &str) {
        if let Some(pipe) = &mut self.pipe
            && let Err(error) = pipe.write_all(order.as_bytes())
        {
            tracing::warn!(%error, "the guard process is gone; a new one is started with the next child");
            self.pipe = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_add_and_remove_groups_and_bad_lines_are_ignored() {
        let orders = "mark ab12\nadd 10\nadd 11\n\nadd x\nadd 1\nadd -5\nadd 0\nremove 10\nremove 99\nboo 3\nadd 12\ngently 12\ngently";
        let orders = read_orders(orders.as_bytes());
        assert_eq!(orders.mark.as_deref(), Some("ab12"));
        assert_eq!(orders.groups.into_iter().collect::<Vec<_>>(), [11, 12]);
        assert_eq!(orders.gently.into_iter().collect::<Vec<_>>(), [12]);
    }

    #[test]
    fn a_signed_file_is_locked_until_the_end() {
        let temp = tempfile::tempdir().unwrap();
        let (here, gone) = (temp.path().join("with a space"), temp.path().join("gone/ended"));
        let orders = format!("sign {}\nsign {}\nsign nonsense\n", path_to_uri(&here), path_to_uri(&gone));
        let orders = read_orders(orders.as_bytes());
        assert_eq!(orders.signs.len(), 1);
        let file = File::open(&here).unwrap();
        assert!(file.try_lock().is_err());
        drop(orders);
        // A child that another test is starting has a copy until it executes its program.
        let begun = Instant::now();
        while file.try_lock().is_err() {
            assert!(begun.elapsed() < Duration::from_secs(20));
            std::thread::yield_now();
        }
    }
}
