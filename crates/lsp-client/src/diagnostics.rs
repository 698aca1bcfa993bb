//! What servers push about files, and waiting for what is about the text that was sent.
//!
//! What must stay true: nothing that is about another text is ever given out; what is pushed because of
//! a trial reaches nobody but the trial.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::watch;
use workspace::AbsPath;

use crate::answer::RawJson;
use crate::definition::DiagnosticsRule;
use crate::documents::{Sent, Synced};

/// After a trial that was answered, how long no push may come before what came is believed …
const QUIET: Duration = Duration::from_millis(500);
/// … and after one that was not, whose answers may still come.
const LONG_QUIET: Duration = Duration::from_secs(2);
/// How long an empty list may turn out to be the one that says of a file that it was closed.
const CLEARING: Duration = Duration::from_secs(2);

/// How long work that was announced may take to begin.
const ANNOUNCED: Duration = Duration::from_secs(5);

/// To whom pushes are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// To all who ask, about the true texts.
    All,
    /// The same, without the first so many pushes: something else changed since they were made.
    After(u64),
    /// To the trial that is on.
    Trial,
}

/// Files remembered; a server that pushes a whole workspace is bounded by it.
const LIMIT: usize = 4096;

pub(crate) struct PushedDiagnostics {
    rule: DiagnosticsRule,
    /// How long work may go on in silence.
    silent: Duration,
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    count: u64,
    files: HashMap<AbsPath, Push>,
    /// Tokens of work that was announced and has not ended, and from when on it counts no more unless something
    /// is said of it.
    work: HashMap<String, Work>,
    work_ended: Option<Instant>,
    /// What it says that it does with files.
    busy: HashMap<AbsPath, Busy>,
    /// It sends versions: what comes without one is not about an open text (basedpyright 1.40.2 says
    /// so that of a file that was closed nothing is known).
    versioned: bool,
    /// While a trial is on, all that is pushed.
    trial: Option<HashMap<AbsPath, Push>>,
    after: Option<After>,
    moved: Moved,
    heard: Heard,
}

/// When the server last heard of files on the disk.
#[derive(Default)]
struct Heard {
    /// How often that was.
    count: u64,
    /// With the file, where it was one alone.
    last: (Option<AbsPath>, Sent),
    /// The last before it that was not of the same one alone.
    before: Sent,
}

/// When the server was last told that a file changed: that file, and how many pushes had come. What it
/// had pushed before of any other file may be wrong now.
#[derive(Default)]
struct Moved {
    last: Option<(AbsPath, u64)>,
    /// The same of the last file before it that is another one.
    before: u64,
}

/// After a trial, while what is pushed may still be about its texts.
struct After {
    quiet: Duration,
    /// When the trial was taken back, or something was pushed that may be about it.
    last: Instant,
    /// Of the trial's files, the first version that is none of its own.
    versions: HashMap<AbsPath, i32>,
    /// Believed, the last of each file, when nothing more comes.
    held: HashMap<AbsPath, Push>,
}

struct Work {
    begun: bool,
    /// What it knows of the project does not depend on it.
    besides: bool,
    /// From then on it counts no more.
    until: Instant,
}

/// What a server says that it does with a file.
#[derive(Clone, Copy, PartialEq)]
enum Busy {
    Working,
    /// Nothing, since then.
    Idle(Instant),
}

#[derive(Clone)]
struct Push {
    number: u64,
    /// The number of the first about the same version of the file.
    first: u64,
    at: Instant,
    /// When the one before it about the same file came.
    previous: Option<Instant>,
    version: Option<i32>,
    items: RawJson,
}

impl PushedDiagnostics {
    pub fn new(rule: DiagnosticsRule, silent: Duration) -> Self {
        Self { rule, silent, state: Mutex::default(), changed: watch::channel(()).0 }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has come, and what the server has heard of, by now.
    pub fn now(&self) -> Sent {
        let state = self.state();
        Sent { pushes: state.count, heard: state.heard.count }
    }

    /// The server is told that these files on the disk changed, came or went, by what is sent next.
    pub fn hears<'a>(&self, mut paths: impl Iterator<Item = &'a AbsPath>) {
        let Some(first) = paths.next() else { return };
        let one = paths.all(|path| path == first).then(|| first.clone());
        let mut state = self.state();
        let pushes = state.count;
        let heard = &mut state.heard;
        heard.count += 1;
        if one.is_none() || heard.last.0 != one {
            heard.before = heard.last.1;
        }
        heard.last = (one, Sent { pushes, heard: heard.count });
    }

    /// Whether what is told of a text first may have been found before the server heard of other files last: it was
    /// sent before that, and nothing was told of it by then. Of who
    /// names no versions that is not known.
    pub fn may_be_late(&self, path: &AbsPath, synced: &Synced) -> bool {
        let state = self.state();
        let heard = match &state.heard.last {
            (Some(last), _) if last == path => state.heard.before,
            (_, last) => *last,
        };
        let told = state.files.get(path).filter(|push| push.version == Some(synced.number));
        (state.versioned || state.count == 0)
            && synced.sent.heard < heard.heard
            && told.is_none_or(|push| push.first > heard.pushes)
    }

    /// The server is about to be told that a file changed; `pushes` had come by then.
    pub fn moves(&self, path: &AbsPath, pushes: u64) {
        let moved = &mut self.state().moved;
        if let Some((last, count)) = &moved.last
            && last != path
        {
            moved.before = *count;
        }
        moved.last = Some((path.clone(), pushes));
    }

    /// How many pushes had come when the server was last told of a change of another file than `path`.
    pub fn moved(&self, path: &AbsPath) -> u64 {
        let moved = &self.state().moved;
        match &moved.last {
            Some((last, count)) if last != path => *count,
            _ => moved.before,
        }
    }

    /// Whether something is known of the text that was sent, but nothing that came after the first
    /// `pushes`.
    pub fn is_outdated(&self, path: &AbsPath, synced: &Synced, pushes: u64) -> bool {
        self.state().files.get(path).is_some_and(|push| {
            let of_it = match push.version {
                Some(version) => version == synced.number,
                None => push.number > synced.sent.pushes,
            };
            of_it && push.number <= pushes
        })
    }

    /// Whether it names versions, so that late words about an older text are told apart.
    pub fn is_versioned(&self) -> bool {
        self.state().versioned
    }

    /// Whether work that was announced goes on, or work on a file.
    pub fn is_working(&self, path: &AbsPath) -> bool {
        let state = self.state();
        let now = Instant::now();
        state.work.values().any(|work| now < work.until) || state.busy.get(path) == Some(&Busy::Working)
    }

    /// Whether nothing was ever pushed, and no work goes on that could end with that.
    pub fn is_mute(&self, path: &AbsPath) -> bool {
        self.state().count == 0 && !self.is_working(path)
    }

    /// Any notification that is not known otherwise.
    pub fn status(&self, method: &str, params: &Value) {
        let Some(rule) = self.rule.busy.as_ref().filter(|rule| rule.method == method) else { return };
        let path = params[&rule.file].as_str().and_then(workspace::uri_to_path).and_then(AbsPath::new);
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

    /// `textDocument/publishDiagnostics`.
    pub fn push(&self, path: AbsPath, version: Option<i32>, items: RawJson) {
        if self.is_void(&items) {
            return;
        }
        {
            let mut state = self.state();
            state.settle();
            state.count += 1;
            let known = state.files.get(&path);
            let previous = known.map(|push| push.at);
            let same = known.filter(|push| version.is_some() && push.version == version);
            let first = same.map_or(state.count, |push| push.first);
            let push = Push { number: state.count, first, at: Instant::now(), previous, version, items };
            state.take(path, push);
        }
        self.changed.send_replace(());
    }

    fn is_void(&self, items: &RawJson) -> bool {
        if !self.rule.void.iter().any(|code| items.get().contains(code.as_str())) {
            return false;
        }
        let items: Vec<Value> = serde_json::from_str(items.get()).unwrap_or_default();
        items.iter().any(|item| self.rule.void.iter().any(|code| item["code"] == **code))
    }

    /// From now on a trial is on; its texts are sent after this.
    pub fn begin_trial(&self) {
        let mut state = self.state();
        state.settle();
        // What is still held may be about the trial before.
        if let Some(after) = state.after.take() {
            state.after = Some(After { held: HashMap::new(), ..after });
        }
        state.trial = Some(HashMap::new());
    }

    /// The trial's texts were taken back. `versions`: of its files, the first that is none of its own;
    /// `answered`: nothing that it caused is still to come.
    pub fn end_trial(&self, versions: HashMap<AbsPath, i32>, answered: bool) {
        {
            let mut state = self.state();
            // Of files that the trial had nothing to do with, what was not known before it may be right;
            // if it was the trial's doing, it is said otherwise now.
            let mut held = state.trial.take().unwrap_or_default();
            held.retain(|path, push| {
                let known = state.files.get(path).is_some_and(|known| known.version == push.version);
                !known && !versions.contains_key(path)
            });
            let quiet = Duration::from_millis(self.rule.settle_ms);
            let quiet = quiet.max(if answered { QUIET } else { LONG_QUIET });
            let after = After { quiet, last: Instant::now(), versions, held };
            state.after = Some(after);
        }
        self.changed.send_replace(());
    }

    /// `window/workDoneProgress/create`: work is about to begin.
    pub fn announced(&self, token: &Value) {
        let until = Instant::now() + self.silent.min(ANNOUNCED);
        self.state().work(token.to_string(), Work { begun: false, besides: false, until });
    }

    /// Whether work that it began, and that its answers depend on, has been silent for so long that it is not
    /// waited for.
    pub fn is_stuck(&self) -> bool {
        let now = Instant::now();
        self.state().work.values().any(|work| work.begun && !work.besides && now >= work.until)
    }

    /// `$/progress`; `besides`: of what begins its answers do not depend.
    pub fn progress(&self, params: &Value, besides: bool) {
        {
            let mut state = self.state();
            let token = params["token"].to_string();
            match params["value"]["kind"].as_str() {
                Some("begin") => {
                    let until = Instant::now() + self.silent;
                    state.work(token, Work { begun: true, besides, until });
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

    /// When a push may be taken for the whole, if nothing else comes: `None` while the server works on the file.
    fn settled(&self, state: &State, path: &AbsPath, push: &Push) -> Option<Instant> {
        match state.busy.get(path) {
            Some(Busy::Working) => return None,
            // It is done with what it told.
            Some(Busy::Idle(since)) if *since >= push.at => return Some(push.at),
            _ => {}
        }
        let last = if self.rule.progress {
            // While work goes on, that is when it would have been silent for too long.
            let work = state.work.values().map(|work| work.until);
            work.chain(state.work_ended).chain([push.at]).max().unwrap_or(push.at)
        } else {
            push.at
        };
        Some(last + Duration::from_millis(self.rule.settle_ms))
    }

    /// The diagnostics of exactly the text that was sent, waiting for them until `until`; `None` when
    /// they are not known by then. Cancel-safe.
    pub async fn wait(&self, path: &AbsPath, synced: &Synced, until: Instant, told: Told) -> Option<RawJson> {
        self.wait_for(path, synced, until, told, &|_| true).await
    }

    /// The same of the first that `whole` says is no part.
    pub async fn wait_for(
        &self,
        path: &AbsPath,
        synced: &Synced,
        until: Instant,
        told: Told,
        whole: &(dyn Fn(&RawJson) -> bool + Sync),
    ) -> Option<RawJson> {
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            let (push, settled, believed) = {
                let mut state = self.state();
                state.settle();
                let push = match told {
                    Told::All => state.files.get(path).cloned(),
                    Told::After(pushes) => state.files.get(path).filter(|push| push.number > pushes).cloned(),
                    Told::Trial => state.trial.as_ref().and_then(|trial| trial.get(path).cloned()),
                };
                let settled = push.as_ref().and_then(|push| self.settled(&state, path, push));
                (push, settled, state.after.as_ref().map(|after| after.last + after.quiet))
            };
            let mut wake = believed.map_or(until, |believed| until.min(believed));
            if let Some(push) = push {
                let parts = self.rule.progress || self.rule.busy.is_some();
                let settles = match push.version {
                    Some(version) => (version == synced.number).then_some(parts),
                    None if self.rule.refuse_unversioned => None,
                    // What came after our change may still be about the text before it, or be a part;
                    // what follows within the settle time replaces it.
                    None => (push.number > synced.sent.pushes).then_some(true),
                };
                // Of a file that was closed before it was opened some say that nothing is wrong with it, and
                // that may come now.
                let clearing = push.version.is_none()
                    && push.items.get() == "[]"
                    && synced.closed.is_some_and(|closed| push.previous.is_none_or(|at| at < closed));
                let settled = match clearing {
                    true => settled.map(|at| at.max(push.at + CLEARING)),
                    false => settled,
                };
                let at = match (settles, settled) {
                    (Some(false), _) => Some(push.at),
                    (Some(true), settled) => settled,
                    (None, _) => None,
                };
                match at {
                    Some(at) if Instant::now() < at => wake = wake.min(at),
                    // One that is a part is followed by another.
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

    /// Puts a push where it belongs.
    fn take(&mut self, path: AbsPath, push: Push) {
        self.versioned |= push.version.is_some();
        if self.versioned && push.version.is_none() {
            return;
        }
        if let Some(trial) = &mut self.trial {
            trial.insert(path, push);
            return;
        }
        if let Some(after) = &mut self.after {
            match (push.version, after.versions.get(&path)) {
                (Some(version), Some(first)) if version < *first => return,
                (Some(_), Some(_)) => {}
                // Of another file, or without a version: it may be what the trial's texts made of it.
                _ => {
                    after.last = push.at;
                    after.held.insert(path, push);
                    return;
                }
            }
        }
        self.keep(path, push);
    }

    fn keep(&mut self, path: AbsPath, push: Push) {
        // About an older text than what is known: it came late.
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

    /// Believes what was held when it has been quiet for long enough.
    fn settle(&mut self) {
        if self.trial.is_some() {
            return;
        }
        let Some(after) = self.after.take_if(|after| after.last.elapsed() >= after.quiet) else { return };
        for (path, push) in after.held {
            self.keep(path, push);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::View;
    use serde_json::json;

    /// How long a push is held back after what was said of work, where `silent` is the longest silence.
    async fn held(
        silent: Duration,
        until: Duration,
        said: impl FnOnce(&PushedDiagnostics),
    ) -> Option<Duration> {
        let rule = DiagnosticsRule { progress: true, settle_ms: 10, ..DiagnosticsRule::default() };
        let told = PushedDiagnostics::new(rule, silent);
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
        said(&told);
        told.push(path.clone(), None, RawJson::empty_list());
        let started = Instant::now();
        let items = told.wait(&path, &synced, started + until, Told::All).await;
        items.map(|_| started.elapsed())
    }

    #[tokio::test]
    async fn work_that_never_begins_or_ends_does_not_withhold_for_good() {
        let (short, long) = (Duration::from_millis(100), Duration::from_secs(20));
        let begin = |told: &PushedDiagnostics| {
            told.progress(&json!({"token": "t", "value": {"kind": "begin"}}), false);
        };
        let end = |told: &PushedDiagnostics| {
            begin(told);
            told.progress(&json!({"token": "t", "value": {"kind": "end"}}), false);
            assert!(!told.is_stuck());
        };
        assert_eq!(held(long, short, begin).await, None);
        assert!(held(short, long, begin).await.unwrap() >= short);
        assert!(held(short, long, |told| told.announced(&json!("t"))).await.unwrap() >= short);
        assert!(held(long, long, end).await.unwrap() < long);
        let told = PushedDiagnostics::new(DiagnosticsRule::default(), Duration::ZERO);
        told.announced(&json!("t"));
        assert!(!told.is_stuck());
        begin(&told);
        assert!(told.is_stuck());
    }
}
