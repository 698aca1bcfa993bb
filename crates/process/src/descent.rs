//! Recognition of processes that a run of the agent started.

use crate::process_table::{Entry, MARK};

/// Maximum number of steps; a process with more ancestors counts as one of a run.
const MAX_STEPS: usize = 1_000;

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
        let is_pilcrow = at != pid && (at == own || program(at).is_some_and(|name| name == "pilcrow"));
        if is_pilcrow || entry.mark().is_some_and(|mark| !mark.is_empty()) {
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

/// The name of the file that a process executes, also one that an update replaced.
fn program(pid: u32) -> Option<String> {
    let path = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    Some(path.file_name()?.to_str()?.trim_end_matches(" (deleted)").to_owned())
}
