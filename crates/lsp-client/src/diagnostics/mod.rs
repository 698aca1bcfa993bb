//! Published diagnostics, and waiting for those of the text that was sent.
//!
//! Invariants: diagnostics of another text are never returned; those that a speculative edit causes are
//! returned to that edit alone.

pub(crate) mod check_on_save;
pub(crate) mod result_ids;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use paths::AbsPath;
use serde_json::Value;
use tokio::sync::watch;

use crate::answer::RawJson;
use crate::server::documents::{Sent, Synced};
use crate::server::loading::ProgressKind;
use adapters::DiagnosticsRule;

/// Time without a publish until diagnostics of an answered speculative edit count.
const QUIET: Duration = Duration::from_millis(500);
/// That time for an unanswered speculative edit, whose answers may still arrive.
const LONG_QUIET: Duration = Duration::from_secs(2);
/// Time in which an empty list may be the server's list for a closed file.
const CLEARING: Duration = Duration::from_secs(2);

/// Maximum time for announced work to begin.
const ANNOUNCED: Duration = Duration::from_secs(5);

/// The reader of published diagnostics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// Any request, about the true texts.
    Any,
    /// Any request, ignoring this many publishes, since later changes outdate them.
    After(u64),
    /// The active speculative edit.
    Speculative,
}

/// Maximum number of files; bounds a server that publishes for a whole workspace.
const LIMIT: usize = 4096;

pub(crate) struct PushedDiagnostics {
    rule: DiagnosticsRule,
    /// Maximum time for which work may continue without progress.
    silent: Duration,
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    count: u64,
    files: HashMap<AbsPath, Push>,
    /// Announced work that has not ended, by its progress token.
    work: HashMap<String, Work>,
    work_ended: Option<Instant>,
    /// The status of files that the server reports as busy.
    busy: HashMap<AbsPath, Busy>,
    /// Whether the server sends versions.
    ///
    /// Then a publish without one is not about an open text (basedpyright 1.40.2 reports closed files like
    /// that).
    versioned: bool,
    /// All diagnostics published during a speculative edit.
    speculative: Option<HashMap<AbsPath, Push>>,
    after: Option<After>,
    last_change: LastChange,
    disk_changes: DiskChanges,
}

/// The last report to the server of changed files on the disk.
#[derive(Default)]
struct DiskChanges {
    /// Number of reports.
    count: u64,
    /// The last report; the path is set if it named only one file.
    last: (Option<AbsPath>, Sent),
    /// The last change before it that was not of the same single file.
    before: Sent,
}

/// The last change of a file that the server received.
///
/// `pushes` is the number of publishes so far; earlier publishes for other files may be outdated.
#[derive(Default)]
struct LastChange {
    last: Option<(AbsPath, u64)>,
    /// Number of publishes before the previous change of another file.
    before: u64,
}

/// State after a speculative edit, while diagnostics may still be about its texts.
struct After {
    quiet: Duration,
    /// Time of the revert, or of the last diagnostics that may be about the edit.
    last: Instant,
    /// The first version of each file of the edit that is not the edit's own.
    versions: HashMap<AbsPath, i32>,
    /// The last publish of each file, accepted when nothing more arrives.
    held: HashMap<AbsPath, Push>,
}

struct Work {
    begun: bool,
    /// Whether answers about the project do not depend on the work.
    unrelated: bool,
    /// Time from which the work no longer counts.
    until: Instant,
}

/// The server's status of a file.
#[derive(Clone, Copy, PartialEq)]
enum Busy {
    Working,
    Idle(Instant),
}

#[derive(Clone)]
struct Push {
    number: u64,
    /// The number of the first publish about the same version of the file.
    first: u64,
    at: Instant,
    /// Arrival time of the previous publish about the same file.
    previous: Option<Instant>,
    version: Option<i32>,
    items: RawJson,
}

impl PushedDiagnostics {
    pub fn new(rule: DiagnosticsRule, silent: Duration) -> Self {
        Self { rule, silent, state: Mutex::default(), changed: watch::channel(()).0 }
    }

    fn state(&self) -> parking_lot::MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Returns the number of publishes, and of changes that the server has received.
    pub fn now(&self) -> Sent {
        let state = self.state();
        Sent { pushes: state.count, disk_changes: state.disk_changes.count }
    }

    /// Records that the next message reports these files as changed on disk.
    pub(crate) fn record_disk_changes<'a>(&self, mut paths: impl Iterator<Item = &'a AbsPath>) {
        let Some(first) = paths.next() else { return };
        let one = paths.all(|path| path == first).then(|| first.clone());
        let mut state = self.state();
        let pushes = state.count;
        let disk_changes = &mut state.disk_changes;
        disk_changes.count += 1;
        if one.is_none() || disk_changes.last.0 != one {
            disk_changes.before = disk_changes.last.1;
        }
        disk_changes.last = (one, Sent { pushes, disk_changes: disk_changes.count });
    }

    /// Whether diagnostics of a text may predate the last change of other files.
    ///
    /// That is so if the text was sent before the change and nothing was published for it by then. Unknown
    /// for servers that send no versions.
    pub(crate) fn may_predate_changes(&self, path: &AbsPath, synced: &Synced) -> bool {
        let state = self.state();
        let disk_changes = match &state.disk_changes.last {
            (Some(last), _) if last == path => state.disk_changes.before,
            (_, last) => *last,
        };
        let pushed = state.files.get(path).filter(|push| push.version == Some(synced.number));
        (state.versioned || state.count == 0)
            && synced.sent.disk_changes < disk_changes.disk_changes
            && pushed.is_none_or(|push| push.first > disk_changes.pushes)
    }

    /// Records that the server is about to receive a change after `pushes` publishes.
    pub(crate) fn record_change(&self, path: &AbsPath, pushes: u64) {
        let last_change = &mut self.state().last_change;
        if let Some((last, count)) = &last_change.last
            && last != path
        {
            last_change.before = *count;
        }
        last_change.last = Some((path.clone(), pushes));
    }

    /// The number of publishes when another file than `path` was last changed.
    pub(crate) fn pushes_before_change(&self, path: &AbsPath) -> u64 {
        let last_change = &self.state().last_change;
        match &last_change.last {
            Some((last, count)) if last != path => *count,
            _ => last_change.before,
        }
    }

    /// Whether the known diagnostics of the sent text are among the first `pushes`.
    pub(crate) fn is_outdated(&self, path: &AbsPath, synced: &Synced, pushes: u64) -> bool {
        self.state().files.get(path).is_some_and(|push| {
            let of_it = match push.version {
                Some(version) => version == synced.number,
                None => push.number > synced.sent.pushes,
            };
            of_it && push.number <= pushes
        })
    }

    /// Whether the server sends versions, by which outdated diagnostics are recognized.
    pub(crate) fn is_versioned(&self) -> bool {
        self.state().versioned
    }

    /// Whether announced work, or work on a file, is under way.
    pub(crate) fn is_working(&self, path: &AbsPath) -> bool {
        let state = self.state();
        let now = Instant::now();
        state.work.values().any(|work| now < work.until) || state.busy.get(path) == Some(&Busy::Working)
    }

    /// Whether nothing was published yet and no work is under way that could publish.
    pub fn is_silent(&self, path: &AbsPath) -> bool {
        self.state().count == 0 && !self.is_working(path)
    }

    /// Handles any other notification.
    pub fn status(&self, method: &str, params: &Value) {
        let Some(rule) = self.rule.file_status.as_ref().filter(|rule| rule.method == method) else { return };
        let path = params[&rule.file].as_str().and_then(paths::uri_to_path).and_then(AbsPath::new);
        let Some(path) = path else { return };
        {
            let mut state = self.state();
            if state.busy.len() >= LIMIT {
                state.busy.retain(|_, busy| *busy == Busy::Working);
            }
            let idle = params[&rule.field] == rule.idle;
            state.busy.insert(path, if idle { Busy::Idle(Instant::now()) } else { Busy::Working });
        }
        self.changed.send_replace(());
    }

    /// Handles `textDocument/publishDiagnostics`.
    pub fn push(&self, path: AbsPath, version: Option<i32>, items: RawJson) {
        if self.is_void(&items) {
            return;
        }
        {
            let mut state = self.state();
            state.accept_held();
            state.count += 1;
            let known = state.files.get(&path);
            let previous = known.map(|push| push.at);
            let same = known.filter(|push| version.is_some() && push.version == version);
            let first = same.map_or(state.count, |push| push.first);
            let push = Push { number: state.count, first, at: Instant::now(), previous, version, items };
            state.receive(path, push);
        }
        self.changed.send_replace(());
    }

    fn is_void(&self, items: &RawJson) -> bool {
        if !self.rule.discard_codes.iter().any(|code| items.get().contains(code.as_str())) {
            return false;
        }
        let items: Vec<Value> = serde_json::from_str(items.get()).unwrap_or_default();
        items.iter().any(|item| self.rule.discard_codes.iter().any(|code| item["code"] == **code))
    }

    /// Begins a speculative edit, before its texts are sent.
    pub(crate) fn begin_speculation(&self) {
        let mut state = self.state();
        state.accept_held();
        // Held diagnostics may be about the previous speculative edit.
        if let Some(after) = state.after.take() {
            state.after = Some(After { held: HashMap::new(), ..after });
        }
        state.speculative = Some(HashMap::new());
    }

    /// Ends a speculative edit whose texts were reverted.
    ///
    /// `versions`: the first version of each of its files that is not its own; `answered`: all of its
    /// diagnostics have arrived.
    pub(crate) fn end_speculation(&self, versions: HashMap<AbsPath, i32>, answered: bool) {
        {
            let mut state = self.state();
            // Diagnostics of files outside the edit, unknown before it, may be right; if the edit caused
            // them, the server publishes again.
            let mut held = state.speculative.take().unwrap_or_default();
            held.retain(|path, push| {
                let known = state.files.get(path).is_some_and(|known| known.version == push.version);
                !known && !versions.contains_key(path)
            });
            let quiet = Duration::from_millis(self.rule.debounce_ms);
            let quiet = quiet.max(if answered { QUIET } else { LONG_QUIET });
            let after = After { quiet, last: Instant::now(), versions, held };
            state.after = Some(after);
        }
        self.changed.send_replace(());
    }

    /// Handles `window/workDoneProgress/create`: work is about to begin.
    pub fn announced(&self, token: &Value) {
        let until = Instant::now() + self.silent.min(ANNOUNCED);
        self.state().work(token.to_string(), Work { begun: false, unrelated: false, until });
    }

    /// Whether work that answers depend on has had no progress for too long.
    pub(crate) fn is_stuck(&self) -> bool {
        let now = Instant::now();
        self.state().work.values().any(|work| work.begun && !work.unrelated && now >= work.until)
    }

    /// Handles `$/progress`, with the kind of work that begins.
    pub fn progress(&self, params: &Value, kind: ProgressKind) {
        {
            let mut state = self.state();
            let token = params["token"].to_string();
            match params["value"]["kind"].as_str() {
                // It was announced as work.
                Some("begin") if kind == ProgressKind::Error => {
                    state.work.remove(&token);
                }
                Some("begin") => {
                    let until = Instant::now() + self.silent;
                    let unrelated = kind == ProgressKind::Unrelated;
                    state.work(token, Work { begun: true, unrelated, until });
                }
                Some("report") => {
                    let Some(work) = state.work.get_mut(&token) else { return };
                    work.until = Instant::now() + self.silent;
                }
                Some("end") => {
                    state.work.remove(&token);
                    state.work_ended = Some(Instant::now());
                }
                _ => return,
            }
        }
        self.changed.send_replace(());
    }

    /// Time from which a publish counts if nothing else arrives.
    ///
    /// `None` while the server works.
    fn stable_at(&self, state: &State, path: &AbsPath, push: &Push) -> Option<Instant> {
        match state.busy.get(path) {
            Some(Busy::Working) => return None,
            // The server has finished the file.
            Some(Busy::Idle(since)) if *since >= push.at => return Some(push.at),
            _ => {}
        }
        let last = if self.rule.progress {
            // During work, this is the time at which it will have had no progress for too long.
            let work = state.work.values().map(|work| work.until);
            work.chain(state.work_ended).chain([push.at]).max().unwrap_or(push.at)
        } else {
            push.at
        };
        Some(last + Duration::from_millis(self.rule.debounce_ms))
    }

    /// Waits for the diagnostics of exactly the sent text.
    ///
    /// `None` if they are not known by `until`. Cancel-safe.
    pub async fn wait(
        &self,
        path: &AbsPath,
        synced: &Synced,
        until: Instant,
        reader: Reader,
    ) -> Option<RawJson> {
        self.wait_for(path, synced, until, reader, &|_| true).await
    }

    /// Waits for the first publish that `whole` accepts as complete.
    pub async fn wait_for(
        &self,
        path: &AbsPath,
        synced: &Synced,
        until: Instant,
        reader: Reader,
        whole: &(dyn Fn(&RawJson) -> bool + Sync),
    ) -> Option<RawJson> {
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            let (push, stable_at, believed) = {
                let mut state = self.state();
                state.accept_held();
                let push = match reader {
                    Reader::Any => state.files.get(path).cloned(),
                    Reader::After(pushes) => {
                        state.files.get(path).filter(|push| push.number > pushes).cloned()
                    }
                    Reader::Speculative => {
                        state.speculative.as_ref().and_then(|speculative| speculative.get(path).cloned())
                    }
                };
                let stable_at = push.as_ref().and_then(|push| self.stable_at(&state, path, push));
                (push, stable_at, state.after.as_ref().map(|after| after.last + after.quiet))
            };
            let mut wake = believed.map_or(until, |believed| until.min(believed));
            if let Some(push) = push {
                let parts = self.rule.progress || self.rule.file_status.is_some();
                let needs_quiet = match push.version {
                    Some(version) => (version == synced.number).then_some(parts),
                    None if self.rule.require_version => None,
                    // A publish after the change may still be about the text before it, or partial; another
                    // within the debounce time replaces it.
                    None => (push.number > synced.sent.pushes).then_some(true),
                };
                // Some servers report no problems for a file that was closed before it was opened; such a
                // publish may arrive now.
                let clearing = push.version.is_none()
                    && push.items.get() == "[]"
                    && synced.closed.is_some_and(|closed| push.previous.is_none_or(|at| at < closed));
                let stable_at = match clearing {
                    true => stable_at.map(|at| at.max(push.at + CLEARING)),
                    false => stable_at,
                };
                let at = match (needs_quiet, stable_at) {
                    (Some(false), _) => Some(push.at),
                    (Some(true), stable_at) => stable_at,
                    (None, _) => None,
                };
                match at {
                    Some(at) if Instant::now() < at => wake = wake.min(at),
                    // A partial publish is followed by another.
                    Some(_) if whole(&push.items) => return Some(push.items),
                    Some(_) | None => {}
                }
            }
            if Instant::now() >= until {
                return None;
            }
            tokio::select! {
                _ = changed.changed() => {}
                () = tokio::time::sleep_until(wake.into()) => {}
            }
        }
    }
}

impl State {
    fn work(&mut self, token: String, work: Work) {
        if self.work.len() >= LIMIT {
            let now = Instant::now();
            self.work.retain(|_, work| now < work.until);
        }
        self.work.insert(token, work);
    }

    /// Stores a publish, holds it back or drops it.
    fn receive(&mut self, path: AbsPath, push: Push) {
        self.versioned |= push.version.is_some();
        if self.versioned && push.version.is_none() {
            return;
        }
        if let Some(speculative) = &mut self.speculative {
            speculative.insert(path, push);
            return;
        }
        if let Some(after) = &mut self.after {
            match (push.version, after.versions.get(&path)) {
                (Some(version), Some(first)) if version < *first => return,
                (Some(_), Some(_)) => {}
                // A publish for another file, or without a version, may be about the speculative texts.
                _ => {
                    after.last = push.at;
                    after.held.insert(path, push);
                    return;
                }
            }
        }
        self.store(path, push);
    }

    fn store(&mut self, path: AbsPath, push: Push) {
        // A late publish, about an older text than the stored one.
        let known = self.files.get(&path).and_then(|known| known.version);
        if push.version.zip(known).is_some_and(|(version, known)| version < known) {
            return;
        }
        if self.files.len() >= LIMIT && !self.files.contains_key(&path) {
            let oldest = self.files.iter().min_by_key(|(_, push)| push.number);
            if let Some(oldest) = oldest.map(|(path, _)| path.clone()) {
                self.files.remove(&oldest);
            }
        }
        self.files.insert(path, push);
    }

    /// Accepts held diagnostics after the server was quiet for long enough.
    fn accept_held(&mut self) {
        if self.speculative.is_some() {
            return;
        }
        let Some(after) = self.after.take_if(|after| after.last.elapsed() >= after.quiet) else { return };
        for (path, push) in after.held {
            self.store(path, push);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::view::View;
    use serde_json::json;

    /// Waits while a publish is held back after progress.
    ///
    /// `silent` is the longest time without progress.
    async fn held(
        silent: Duration,
        until: Duration,
        act: impl FnOnce(&PushedDiagnostics),
    ) -> Option<Duration> {
        let rule = DiagnosticsRule { progress: true, debounce_ms: 10, ..DiagnosticsRule::default() };
        let diagnostics = PushedDiagnostics::new(rule, silent);
        let path = AbsPath::new("/p/a.txt").unwrap();
        let synced = Synced {
            uri: String::new(),
            number: 1,
            opened: 1,
            version: workspace::Version { hash: workspace::ContentHash::of(b""), editor: None },
            view: std::sync::Arc::new(View::new("".into())),
            sent: Sent::default(),
            closed: None,
        };
        act(&diagnostics);
        diagnostics.push(path.clone(), None, RawJson::empty_list());
        let started = Instant::now();
        let items = diagnostics.wait(&path, &synced, started + until, Reader::Any).await;
        items.map(|_| started.elapsed())
    }

    #[tokio::test]
    async fn endless_work_does_not_withhold_diagnostics() {
        let (short, long) = (Duration::from_millis(100), Duration::from_secs(20));
        let begin = |diagnostics: &PushedDiagnostics| {
            diagnostics.progress(&json!({"token": "t", "value": {"kind": "begin"}}), ProgressKind::Loading);
        };
        let end = |diagnostics: &PushedDiagnostics| {
            begin(diagnostics);
            diagnostics.progress(&json!({"token": "t", "value": {"kind": "end"}}), ProgressKind::Loading);
            assert!(!diagnostics.is_stuck());
        };
        assert_eq!(held(long, short, begin).await, None);
        assert!(held(short, long, begin).await.unwrap() >= short);
        assert!(held(short, long, |diagnostics| diagnostics.announced(&json!("t"))).await.unwrap() >= short);
        assert!(held(long, long, end).await.unwrap() < long);
        let diagnostics = PushedDiagnostics::new(DiagnosticsRule::default(), Duration::ZERO);
        diagnostics.announced(&json!("t"));
        assert!(!diagnostics.is_stuck());
        begin(&diagnostics);
        assert!(diagnostics.is_stuck());
    }
}
