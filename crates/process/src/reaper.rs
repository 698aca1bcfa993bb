//! Ends children: groups by signal, processes that left their group by descent.
//!
//! On Linux this process is the subreaper of its descendants: one that loses its parent (a daemon,
//! a `setsid` grandchild) becomes its child. Three properties distinguish it from a child that
//! other code in this process started: it is not registered, its group is not Pilcrow's, and the
//! mark in its environment names this Pilcrow or is missing. Such orphans are reaped when they end,
//! and killed when the child that they descend from is ended. Elsewhere only groups are ended.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Once, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::deadlines;
use crate::process::{Child, Shared};
use crate::process_table::{self, Entry, Table, mark_names};

/// Interval of polling for the end of a process whose parent still lives.
///
/// Such a process sends no signal to Pilcrow.
const LOOK: Duration = Duration::from_millis(15);

/// Children of [`Processes`](crate::Processes), with their owner's mark.
///
/// Locked while a child is started, so that it does not count as an orphan meanwhile, and while an orphan is
/// reaped.
static REGISTERED: Mutex<BTreeMap<u32, String>> = Mutex::new(BTreeMap::new());

/// Makes this process the parent of orphaned descendants; later calls do nothing.
pub(crate) fn adopt_orphans() {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        #[cfg(target_os = "linux")]
        if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
            tracing::warn!(%error, "grandchildren that leave their group may outlive Pilcrow");
        }
    });
}

/// Starts a child and registers it for the program `mark`, as one step.
pub(crate) fn register(
    mark: &str,
    start: impl FnOnce() -> std::io::Result<tokio::process::Child>,
) -> std::io::Result<(tokio::process::Child, u32)> {
    let started = register_some(mark, || start().map(Some))?;
    Ok(started.expect("`start` returned a child"))
}

/// [`register`] for a call that may start nothing.
pub(crate) fn register_some(
    mark: &str,
    start: impl FnOnce() -> std::io::Result<Option<tokio::process::Child>>,
) -> std::io::Result<Option<(tokio::process::Child, u32)>> {
    let mut registered = REGISTERED.lock();
    let Some(child) = start()? else { return Ok(None) };
    let id = child.id().expect("a child that was not reaped has an id");
    registered.insert(id, mark.to_owned());
    Ok(Some((child, id)))
}

/// Removes a child after it was reaped.
pub(crate) fn unregister(id: u32) {
    REGISTERED.lock().remove(&id);
}

/// Removes a program's children after their last owner is gone.
pub(crate) fn forget_program(mark: &str) {
    REGISTERED.lock().retain(|_, program| program != mark);
}

/// The status of a process that SIGKILL ended.
pub(crate) fn killed() -> ExitStatus {
    ExitStatus::from_raw(Signal::KILL.as_raw())
}

/// Reaps orphans as they end, so that no zombie stays.
pub(crate) async fn reap_orphans(shared: Weak<Shared>, stop: CancellationToken) {
    use tokio::signal::unix::{SignalKind, signal};
    let mut ended = match signal(SignalKind::child()) {
        Ok(ended) => ended,
        Err(error) => {
            tracing::warn!(%error, "orphans are reaped only when their run ends");
            return;
        }
    };
    loop {
        // Both futures may be dropped: the next poll finds a missed signal.
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ended.recv() => {}
        }
        // The same signal wakes the owners that wait for their children.
        tokio::task::yield_now().await;
        if !has_zombies() {
            let Some(shared) = shared.upgrade() else { return };
            shared.changed.notify_waiters();
            continue;
        }
        let Ok(table) = tokio::task::spawn_blocking(Table::read).await else { return };
        reap(orphans(&table).filter(|entry| entry.zombie));
        let Some(shared) = shared.upgrade() else { return };
        shared.changed.notify_waiters();
    }
}

/// Whether a child is an unreaped zombie.
///
/// Callers read the process table only then, since that takes time for every process.
fn has_zombies() -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    // Having no children is an error.
    matches!(rustix::process::waitid(WaitId::All, look), Ok(Some(_)))
}

/// Ends `child`: see [`Process::end`](crate::Process::end).
pub(crate) async fn end(shared: &Arc<Shared>, child: &Arc<Child>, grace: Duration) -> ExitStatus {
    let ours = |shared: &Shared| {
        shared.children.lock().get(&child.id).is_some_and(|known| Arc::ptr_eq(known, child))
    };
    if !ours(shared) {
        // The child ended before.
        return child.exited().await;
    }
    // Collect its descendants now: one that clears its environment cannot be recognized later.
    let mut left: HashSet<(u32, u64)> = HashSet::new();
    if !child.has_exited() {
        left.extend(read_table().await.descendants(child.id).iter().map(|entry| (entry.pid, entry.started)));
    }
    signal_group(child, Signal::TERM);
    let term_deadline = Instant::now() + grace;
    while !is_gone(child).await {
        if Instant::now() >= term_deadline {
            signal_group(child, Signal::KILL);
            break;
        }
        pause(shared, term_deadline).await;
    }
    let deadline = Instant::now() + deadlines::KILL;
    let status = timeout_at(deadline, child.exited()).await;
    let rest = end_left_behind(shared, child, &mut left, deadline).await;
    if status.is_ok() && rest.is_empty() {
        forget(shared, child);
    }
    status.unwrap_or_else(|_| killed())
}

/// Whether `child` and its group have ended.
async fn is_gone(child: &Child) -> bool {
    child.has_exited() && group_is_empty(child).await
}

/// Kills the group at once, and descendants outside it in the background.
pub(crate) fn kill_now(shared: &Arc<Shared>, child: &Arc<Child>) {
    signal_group(child, Signal::KILL);
    let (strong, child) = (Arc::clone(shared), Arc::clone(child));
    // Without a runtime nothing more can be done: it is shutting down, and the guard ends the rest.
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        let work = async move {
            end(&strong, &child, Duration::ZERO).await;
        };
        shared.tasks.spawn_on(work, &runtime);
    }
}

/// Ends all children: see [`Processes::end_all`](crate::Processes::end_all).
pub(crate) async fn end_all(shared: &Arc<Shared>, deadline: Duration) -> Vec<u32> {
    let grace = (deadline / 3).min(deadlines::CHILDREN);
    let deadline = Instant::now() + deadline;
    let children: Vec<Arc<Child>> = shared.children.lock().values().cloned().collect();
    let ends = futures_util::future::join_all(children.iter().map(|child| end(shared, child, grace)));
    timeout_at(deadline, ends).await.ok();

    // Stray processes without a known child: they cleared their environment and left early.
    let mut rest;
    loop {
        let table = read_table().await;
        let known = REGISTERED.lock().clone();
        let strays: Vec<Entry> = orphans(&table)
            .filter(|entry| known.get(&entry.group).is_none_or(|program| *program == shared.id))
            .filter(|entry| entry.mark().is_none_or(|mark| mark_names(&mark, &shared.id)))
            .copied()
            .collect();
        let below = strays.iter().flat_map(|stray| table.descendants(stray.pid));
        let all: Vec<Entry> = strays.iter().copied().chain(below).collect();
        reap(all.iter().filter(|entry| entry.zombie));
        all.iter().filter(|entry| !entry.zombie).for_each(Entry::kill);
        rest = all.iter().filter(|entry| !entry.zombie).map(|entry| entry.pid).collect::<Vec<_>>();
        if rest.is_empty() || Instant::now() >= deadline {
            break;
        }
        pause(shared, deadline).await;
    }
    rest.extend(shared.children.lock().values().filter(|child| !child.has_exited()).map(|child| child.id));
    rest.sort_unstable();
    rest.dedup();
    if let Some(guard) = &shared.guard {
        guard.close();
    }
    // The guard ends at once: it has nothing left to wait for.
    while REGISTERED.lock().values().any(|program| *program == shared.id) && Instant::now() < deadline {
        pause(shared, deadline).await;
    }
    rest
}

/// Kills descendants of `child` outside Pilcrow's groups until none is left.
///
/// Returns those left at the deadline.
async fn end_left_behind(
    shared: &Shared,
    child: &Child,
    left: &mut HashSet<(u32, u64)>,
    deadline: Instant,
) -> Vec<u32> {
    loop {
        let table = read_table().await;
        let known = REGISTERED.lock().clone();
        let mut found: Vec<Entry> = Vec::new();
        for entry in table.descendants(std::process::id()) {
            if known.contains_key(&entry.pid) || known.contains_key(&entry.group) && entry.group != child.id {
                continue;
            }
            let is_left = left.contains(&(entry.pid, entry.started))
                || entry.mark().is_some_and(|mark| mark_names(&mark, &child.name));
            if is_left {
                found.extend(table.descendants(entry.pid));
                found.push(entry);
            }
        }
        reap(found.iter().filter(|entry| entry.zombie));
        found.retain(|entry| !entry.zombie);
        if found.is_empty() || Instant::now() >= deadline {
            return found.iter().map(|entry| entry.pid).collect();
        }
        left.extend(found.iter().map(|entry| (entry.pid, entry.started)));
        found.iter().for_each(Entry::kill);
        pause(shared, deadline).await;
    }
}

/// Signals the group of `child` if it is certainly still that group.
fn signal_group(child: &Child, signal: Signal) {
    let Some(group) = i32::try_from(child.id).ok().and_then(Pid::from_raw) else { return };
    // The number of a reaped process may be given to a new group, but not while members are left.
    if child.has_exited() && members(&Table::read(), child.id).is_empty() && cfg!(target_os = "linux") {
        return;
    }
    match rustix::process::kill_process_group(group, signal) {
        Ok(()) => {}
        Err(rustix::io::Errno::SRCH) => {
            // A child that is about to lead its own session leads no group yet.
            let me = std::process::id();
            if signal == Signal::KILL {
                Table::read().children(me).filter(|entry| entry.pid == child.id).for_each(Entry::kill);
            }
        }
        Err(error) => tracing::warn!(group = child.id, %error, "a process group could not be signalled"),
    }
}

/// Whether a group has living members.
///
/// The first process of a sandbox ends after the command, and may be ending now.
pub(crate) fn has_members(group: u32) -> bool {
    members(&Table::read(), group).iter().any(|entry| !entry.exiting)
}

async fn group_is_empty(child: &Child) -> bool {
    let table = read_table().await;
    reap(orphans(&table).filter(|entry| entry.zombie));
    members(&table, child.id).is_empty()
}

/// The oldest living process that `child` started, in any group.
pub(crate) fn oldest_left(child: &Child) -> Option<u32> {
    let left = started_by(child, &Table::read());
    left.into_iter().min_by_key(|entry| (entry.started, entry.pid)).map(|entry| entry.pid)
}

/// Bytes of memory of a child and all that it started.
///
/// Shared memory counts for each process.
pub(crate) fn memory(child: &Child) -> u64 {
    let table = Table::read();
    let below = table.descendants(child.id);
    let all = started_by(child, &table).into_iter().chain(below).map(|entry| entry.pid);
    let all = all.collect::<BTreeSet<u32>>();
    all.iter().copied().filter_map(process_table::resident).sum::<u64>() + files_in_memory(&all)
}

/// Bytes of the files in `/dev` of a sandbox, such as shared memory.
///
/// They are in no process.
fn files_in_memory(ids: &BTreeSet<u32>) -> u64 {
    let device = |path: &str| rustix::fs::stat(path).ok().map(|it| it.st_dev);
    let (own, mut counted) = (device("/dev"), BTreeSet::new());
    let sizes = ids.iter().filter_map(|id| {
        let path = format!("/proc/{id}/root/dev");
        let is_new = device(&path).is_some_and(|it| Some(it) != own && counted.insert(it));
        let system = is_new.then(|| rustix::fs::statvfs(path.as_str()).ok()).flatten()?;
        Some(system.f_blocks.saturating_sub(system.f_bfree).saturating_mul(system.f_frsize))
    });
    sizes.sum()
}

/// The living processes that `child` started, in any group, itself included.
fn started_by(child: &Child, table: &Table) -> Vec<Entry> {
    let is_its = |entry: &Entry| {
        entry.group == child.id || entry.mark().is_some_and(|mark| mark_names(&mark, &child.name))
    };
    let descendants = table.descendants(std::process::id());
    descendants.into_iter().filter(|entry| !entry.zombie && is_its(entry)).collect()
}

/// The living members of a group that descend from this process.
fn members(table: &Table, group: u32) -> Vec<Entry> {
    let descendants = table.descendants(std::process::id());
    descendants.into_iter().filter(|entry| entry.group == group && !entry.zombie).collect()
}

/// Children that this process did not start: they lost their parent.
fn orphans(table: &Table) -> impl Iterator<Item = &Entry> {
    let me = std::process::id();
    // 0 where the group's leader is in another namespace.
    let our_group = table.entries().iter().find(|entry| entry.pid == me).map(|entry| entry.group);
    let known = REGISTERED.lock().clone();
    table.children(me).filter(move |entry| !known.contains_key(&entry.pid) && Some(entry.group) != our_group)
}

/// Reaps children of this process that no [`Process`](crate::Process) waits for.
fn reap<'a>(entries: impl Iterator<Item = &'a Entry>) {
    let me = std::process::id();
    let registered = REGISTERED.lock();
    for entry in entries {
        if entry.parent != me || registered.contains_key(&entry.pid) {
            continue;
        }
        let Some(pid) = i32::try_from(entry.pid).ok().and_then(Pid::from_raw) else { continue };
        match rustix::process::waitpid(Some(pid), WaitOptions::NOHANG) {
            // ECHILD: another poll reaped it first.
            Ok(_) | Err(rustix::io::Errno::CHILD) => {}
            Err(error) => tracing::warn!(pid = entry.pid, %error, "an orphan could not be reaped"),
        }
    }
}

/// Removes a child that has ended with all its descendants.
fn forget(shared: &Shared, child: &Arc<Child>) {
    let mut children = shared.children.lock();
    if children.get(&child.id).is_some_and(|known| Arc::ptr_eq(known, child)) {
        children.remove(&child.id);
        if let Some(guard) = &shared.guard {
            guard.remove(child.id);
        }
    }
}

/// Waits until a child changed or the next poll.
async fn pause(shared: &Shared, deadline: Instant) {
    let look = deadline.min(Instant::now() + LOOK);
    timeout_at(look, shared.changed.notified()).await.ok();
}

async fn read_table() -> Table {
    tokio::task::spawn_blocking(Table::read).await.unwrap_or_default()
}
