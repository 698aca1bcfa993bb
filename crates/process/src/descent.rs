//! Recognition of processes that a run of the agent started.

use crate::process_table::{Entry, MARK};

/// Maximum number of steps; a process with more ancestors counts as one of a run.
const MAX_STEPS: usize = 1_000;

/// The name of Pilcrow's executable.
const PROGRAM: &str = "pilcrow";

/// Reason why such a process is refused.
pub const NO_CONSENT: &str =
    "a process that a run of the agent started cannot permit anything; run it in a terminal of your own";

/// Whether a Pilcrow started a process or one of its ancestors. Blocks briefly.
///
/// Such a process must not permit anything in the user's name. It can remove the mark from its own
/// environment and leave its parent, but it cannot change the marks of the processes above it, and
/// the Pilcrow that reaps orphans becomes its parent. A process that has ended counts as well.
pub fn descends_from_run(pid: u32) -> bool {
    let own = std::process::id();
    if pid == own && std::env::var_os(MARK).is_some_and(|mark| !mark.is_empty()) {
        return true;
    }
    if !cfg!(target_os = "linux") {
        return false;
    }
    // `/proc` may be that of an outer PID namespace, where this process has another number.
    let own_shown = shown_id().unwrap_or(own);
    let pid = if pid == own { own_shown } else { pid };
    let mut at = pid;
    for _ in 0..MAX_STEPS {
        let Some(entry) = Entry::read(at).filter(|it| !it.zombie) else {
            if at == pid {
                return true;
            }
            // An ancestor has just ended, so its children have another one.
            at = pid;
            continue;
        };
        let is_run = at != pid && (at == own_shown || is_pilcrow(at));
        if is_run || entry.mark().is_some_and(|mark| !mark.is_empty()) {
            return true;
        }
        // The parent of the first process, and of one in another namespace.
        if entry.parent == 0 {
            return false;
        }
        at = entry.parent;
    }
    true
}

/// The id of this process in the PID namespace that `/proc` shows.
fn shown_id() -> Option<u32> {
    std::fs::read_link("/proc/self").ok()?.to_str()?.parse().ok()
}

/// Whether a process executes Pilcrow, also a file that an update replaced.
///
/// A sandbox denies reading the file of a process outside it, but not its name.
fn is_pilcrow(pid: u32) -> bool {
    let file = std::fs::read_link(format!("/proc/{pid}/exe"));
    let file = file.ok().and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
    let name = || std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    file.is_some_and(|file| file.trim_end_matches(" (deleted)") == PROGRAM) || name().trim_end() == PROGRAM
}
