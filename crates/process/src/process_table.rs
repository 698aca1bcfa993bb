//! The system's processes, read from `/proc`, with their parents and marks.
//!
//! A table shows one moment: check an entry again before acting on it ([`Entry::kill`]). Systems
//! other than Linux have an empty table; Pilcrow ends only process groups there.

use std::collections::HashSet;

/// The variable with the names of a child's ancestors in Pilcrow.
pub(crate) const MARK: &str = "PILCROW_CHILD";

/// `PF_EXITING`, a flag of a process.
const EXITING: u32 = 0x4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) zombie: bool,
    /// Whether it has begun to end, and runs no more of its program.
    pub(crate) exiting: bool,
    /// Ticks since the system started; identifies a process together with `pid`.
    pub(crate) started: u64,
}

/// All processes at one time.
#[derive(Debug, Default)]
pub(crate) struct Table(Vec<Entry>);

impl Table {
    /// Reads the current processes; blocks for some microseconds per process.
    pub(crate) fn read() -> Self {
        if !cfg!(target_os = "linux") {
            return Self::default();
        }
        let Ok(directory) = std::fs::read_dir("/proc") else { return Self::default() };
        let pids = directory.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        Self(pids.filter_map(Entry::read).collect())
    }

    /// All processes below `pid`, without itself.
    pub(crate) fn descendants(&self, pid: u32) -> Vec<Entry> {
        let mut known = HashSet::from([pid]);
        let mut found = Vec::new();
        loop {
            let before = found.len();
            for entry in &self.0 {
                if known.contains(&entry.parent) && known.insert(entry.pid) {
                    found.push(*entry);
                }
            }
            if found.len() == before {
                return found;
            }
        }
    }

    /// Memory of `pid` and its descendants in bytes; shared memory counts for each.
    pub(crate) fn resident(&self, pid: u32) -> u64 {
        let below = self.descendants(pid).into_iter().map(|entry| entry.pid);
        std::iter::once(pid).chain(below).filter_map(resident).sum()
    }

    /// The direct children of `pid`.
    pub(crate) fn children(&self, pid: u32) -> impl Iterator<Item = &Entry> {
        self.0.iter().filter(move |entry| entry.parent == pid)
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.0
    }
}

impl Entry {
    /// The running process `pid`, if any.
    pub(crate) fn read(pid: u32) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Parses a line of `/proc/PID/stat`; the name in parentheses may hold any bytes.
    fn parse(stat: &str) -> Option<Self> {
        let (pid, rest) = stat.split_once(" (")?;
        let (_, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let flags: u32 = fields.get(6)?.parse().ok()?;
        Some(Self {
            pid: pid.parse().ok()?,
            exiting: flags & EXITING != 0,
            zombie: matches!(*fields.first()?, "Z" | "X" | "x"),
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }

    /// The value of [`MARK`] in its initial environment, if it can be read.
    pub(crate) fn mark(&self) -> Option<String> {
        let environ = std::fs::read(format!("/proc/{}/environ", self.pid)).ok()?;
        environ.split(|byte| *byte == 0).find_map(|variable| {
            let variable = std::str::from_utf8(variable).ok()?;
            variable.strip_prefix(MARK)?.strip_prefix('=').map(str::to_owned)
        })
    }

    /// Its id in the innermost namespace of process ids.
    pub(crate) fn id_inside(&self) -> Option<i64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
        ids.split_whitespace().last()?.parse().ok()
    }

    /// Sends SIGKILL if the number still belongs to this process.
    #[cfg(target_os = "linux")]
    pub(crate) fn kill(&self) {
        self.signal(rustix::process::Signal::KILL);
    }

    /// Sends SIGSTOP if the id still has the same process.
    #[cfg(target_os = "linux")]
    pub(crate) fn stop(&self) {
        self.signal(rustix::process::Signal::STOP);
    }

    #[cfg(target_os = "linux")]
    fn signal(&self, signal: rustix::process::Signal) {
        use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return };
        // The descriptor is opened first: its process cannot change after the check.
        let Ok(fd) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        if Self::read(self.pid).is_some_and(|now| now.started == self.started)
            && let Err(error) = pidfd_send_signal(&fd, signal)
            && error != rustix::io::Errno::SRCH
        {
            tracing::warn!(pid = self.pid, %error, "a process could not be signalled");
        }
    }

    /// Does nothing: tables are empty here, so there is no entry to kill.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn kill(&self) {}

    /// Does nothing, as [`Self::kill`].
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn stop(&self) {}
}

/// `VmRSS` of a process, in bytes.
pub(crate) fn resident(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Whether `mark` names `name`, a child (`ID.N`) or all of one Pilcrow's (`ID`).
pub(crate) fn mark_names(mark: &str, name: &str) -> bool {
    mark.split(',')
        .any(|part| part.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_with_parentheses_in_the_name_is_parsed() {
        let line = "42 (a) b (c)) S 7 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 9876 1 2";
        let entry = Entry::parse(line).unwrap();
        assert_eq!(
            entry,
            Entry { pid: 42, parent: 7, group: 42, zombie: false, exiting: false, started: 9876 }
        );
        assert!(Entry::parse("42 (x) Z 7").is_none());
        assert!(Entry::parse("").is_none());
    }

    #[test]
    fn descendants_are_found_at_any_depth_and_in_any_order() {
        let entry =
            |pid, parent| Entry { pid, parent, group: pid, zombie: false, exiting: false, started: 0 };
        let table = Table(vec![entry(30, 20), entry(20, 10), entry(10, 1), entry(11, 1), entry(40, 30)]);
        let pids: Vec<u32> = table.descendants(10).iter().map(|entry| entry.pid).collect();
        assert_eq!(pids, [20, 30, 40]);
    }

    #[test]
    fn marks_name_children_and_whole_programs() {
        assert!(mark_names("aa.1,bb.22", "bb.22"));
        assert!(mark_names("aa.1,bb.22", "aa"));
        assert!(!mark_names("aa.1,bb.22", "bb.2"));
        assert!(!mark_names("aa.1", "a"));
    }

    #[test]
    fn this_process_is_in_the_table() {
        let me = std::process::id();
        let table = Table::read();
        assert!(table.entries().iter().any(|entry| entry.pid == me && !entry.zombie));
        assert!(table.resident(me) > 1 << 20);
    }
}
