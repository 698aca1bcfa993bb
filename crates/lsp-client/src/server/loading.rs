//! The loading state of a server's project, and its progress.
//!
//! Uses only the definition's rule. The server's messages wake waiting requests.

use std::collections::HashMap;
use std::time::Instant;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

use adapters::ReadyRule;

pub(crate) struct Loading {
    rule: ReadyRule,
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

struct State {
    started: Instant,
    first_open: Option<Instant>,
    progress_seen: bool,
    work: HashMap<String, Work>,
    message_seen: bool,
    request_seen: bool,
    status: bool,
    /// Number of times the server began to load again.
    loads: u64,
    trouble: Option<Trouble>,
}

/// The server's report of a problem with the project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// The server's message.
    pub text: String,
    /// Whether the project is not loaded at all.
    pub severe: bool,
}

#[derive(Default)]
struct Work {
    title: String,
    message: Option<String>,
    percentage: Option<u64>,
    /// Whether the progress reports an error, and may never end.
    is_error: bool,
}

/// The subject of a progress that begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgressKind {
    /// Work that answers depend on.
    Loading,
    /// Work that answers do not depend on.
    Unrelated,
    /// An error in the project, shown until the user fixes it.
    Error,
}

enum Ready {
    Yes,
    /// The server is not ready; it may become ready by itself at that time.
    No(Instant),
}

impl Loading {
    pub fn new(rule: ReadyRule) -> Self {
        let state = State {
            started: Instant::now(),
            first_open: None,
            progress_seen: false,
            work: HashMap::new(),
            message_seen: false,
            request_seen: false,
            status: false,
            loads: 0,
            trouble: None,
        };
        Self { rule, state: Mutex::new(state), changed: watch::channel(()).0 }
    }

    fn state(&self) -> parking_lot::MutexGuard<'_, State> {
        // Each method leaves the state consistent.
        self.state.lock()
    }

    pub fn opened(&self) {
        self.state().first_open.get_or_insert_with(Instant::now);
    }

    /// Resets the state for a new workspace folder.
    ///
    /// Earlier reports of the server do not count for it.
    pub fn restart(&self) {
        let mut state = self.state();
        state.started = Instant::now();
        state.first_open = None;
        state.progress_seen = false;
        state.message_seen = false;
        state.request_seen = false;
        drop(state);
        self.changed.send_replace(());
    }

    /// The kind of a progress, by its title.
    pub(crate) fn kind(&self, params: &Value) -> ProgressKind {
        let title = params["value"]["title"].as_str().unwrap_or_default();
        let has = |texts: &[String]| texts.iter().any(|text| title.contains(text));
        match () {
            () if has(&self.rule.error_progress) => ProgressKind::Error,
            () if has(&self.rule.ignored_progress) => ProgressKind::Unrelated,
            () => ProgressKind::Loading,
        }
    }

    /// Handles `$/progress`.
    pub fn progress(&self, params: &Value) {
        let token = params["token"].to_string();
        let value = &params["value"];
        {
            let mut state = self.state();
            let text = |name: &str| value[name].as_str().map(str::to_owned);
            match value["kind"].as_str() {
                Some("begin") => {
                    let kind = self.kind(params);
                    if kind == ProgressKind::Unrelated {
                        return;
                    }
                    state.progress_seen = true;
                    let work = Work {
                        title: text("title").unwrap_or_default(),
                        message: text("message"),
                        percentage: value["percentage"].as_u64(),
                        is_error: kind == ProgressKind::Error,
                    };
                    state.work.insert(token, work);
                }
                Some("report") => {
                    if let Some(work) = state.work.get_mut(&token) {
                        work.message = text("message").or(work.message.take());
                        work.percentage = value["percentage"].as_u64().or(work.percentage);
                    }
                }
                Some("end") => {
                    state.work.remove(&token);
                }
                _ => return,
            }
        }
        self.changed.send_replace(());
    }

    /// Handles `window/logMessage`.
    pub(crate) fn log_message(&self, message: &str) {
        if self.rule.log_messages.iter().any(|wanted| message.contains(wanted)) {
            self.state().message_seen = true;
            self.changed.send_replace(());
        }
    }

    pub fn request(&self, method: &str) {
        if self.rule.requests.iter().any(|wanted| wanted == method) {
            self.state().request_seen = true;
            self.changed.send_replace(());
        }
    }

    pub fn status(&self, method: &str, params: &Value) {
        let (Some(wanted), Some(field)) = (&self.rule.status_method, &self.rule.status_field) else { return };
        if method == wanted {
            let trouble = self.rule.status_health.as_ref().and_then(|health| {
                let health = params[health].as_str().filter(|health| *health != "ok")?;
                let text = self.rule.status_text.as_ref().and_then(|text| params[text].as_str());
                let text = text.filter(|text| !text.trim().is_empty()).unwrap_or(health);
                Some(Trouble { text: text.trim().to_owned(), severe: health == "error" })
            });
            let mut state = self.state();
            let is_quiet = params[field].as_bool().unwrap_or(false);
            state.loads += u64::from(state.status && !is_quiet);
            state.status = is_quiet;
            state.trouble = trouble;
            drop(state);
            self.changed.send_replace(());
        }
    }

    /// The last problem that the server reported.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        let state = self.state();
        let error = state.work.values().find(|work| work.is_error);
        let error = error.map(|work| Trouble {
            text: work
                .message
                .as_ref()
                .map_or_else(|| work.title.clone(), |it| format!("{}: {it}", work.title)),
            severe: true,
        });
        error.or_else(|| state.trouble.clone())
    }

    /// The server's message if the project is not loaded at all.
    pub fn failure(&self) -> Option<String> {
        self.trouble().filter(|trouble| trouble.severe).map(|trouble| trouble.text)
    }

    fn ready(&self) -> Ready {
        let state = self.state();
        let now = Instant::now();
        let latest = state.started + std::time::Duration::from_secs(self.rule.timeout_s);
        if now >= latest {
            return Ready::Yes;
        }
        let said = self.rule.log_messages.is_empty() || state.message_seen;
        let asked = self.rule.requests.is_empty() || state.request_seen;
        let quiet = self.rule.status_method.is_none() || state.status;
        if !said || !asked || !quiet {
            return Ready::No(latest);
        }
        if self.rule.progress {
            if state.work.values().any(|work| !work.is_error) {
                return Ready::No(latest);
            }
            let grace = state.first_open.unwrap_or(now) + self.rule.grace();
            if !state.progress_seen && now < grace {
                return Ready::No(grace.min(latest));
            }
        }
        Ready::Yes
    }

    /// Waits until the server has loaded, at most until `until`.
    ///
    /// Returns whether it has loaded. Cancel-safe.
    pub async fn wait(&self, until: Instant) -> bool {
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            let Ready::No(again) = self.ready() else { return true };
            if Instant::now() >= until {
                return false;
            }
            let wake = again.min(until);
            // The loop checks again after any wake-up.
            tokio::select! {
                _ = changed.changed() => {}
                () = tokio::time::sleep_until(wake.into()) => {}
            }
        }
    }

    /// A number that grows when the server loads again after it was ready.
    pub fn loads(&self) -> u64 {
        self.state().loads
    }

    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.ready(), Ready::Yes)
    }

    /// The server's progress for the user: `indexing 43%: 3/7`; `None` if unknown.
    pub fn describe(&self) -> Option<String> {
        let state = self.state();
        let work = state.work.values().filter(|work| !work.is_error).max_by_key(|work| work.percentage)?;
        let mut text = work.title.clone();
        if let Some(percentage) = work.percentage {
            text.push_str(&format!(" {percentage}%"));
        }
        if let Some(message) = &work.message {
            text.push_str(&format!(": {message}"));
        }
        // basedpyright 1.40 begins without a title.
        let text = text.trim_start_matches(':').trim();
        (!text.is_empty()).then(|| text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(20);

    fn progress(loading: &Loading, value: Value) {
        loading.progress(&json!({"token": "t", "value": value}));
    }

    #[tokio::test]
    async fn reported_work_is_awaited_and_described() {
        let rule = ReadyRule { progress: true, grace_ms: 20_000, ..ReadyRule::default() };
        let loading = Loading::new(rule);
        loading.opened();
        assert!(!loading.wait(Instant::now()).await);
        progress(&loading, json!({"kind": "begin", "title": "indexing", "percentage": 0}));
        progress(&loading, json!({"kind": "report", "message": "3/7", "percentage": 43}));
        assert_eq!(loading.describe().unwrap(), "indexing 43%: 3/7");
        progress(&loading, json!({"kind": "begin", "title": "", "message": "13 files"}));
        assert_eq!(loading.describe().unwrap(), "13 files");
        progress(&loading, json!({"kind": "begin", "title": ""}));
        assert_eq!(loading.describe(), None);
        let waiting = loading.wait(Instant::now() + LONG);
        let ending = async { progress(&loading, json!({"kind": "end"})) };
        assert!(tokio::join!(waiting, ending).0);
        assert_eq!(loading.describe(), None);
    }

    #[test]
    fn ignored_progress_is_not_loading() {
        let besides = vec!["diagnosing".to_owned()];
        let loading =
            Loading::new(ReadyRule { progress: true, ignored_progress: besides, ..ReadyRule::default() });
        progress(&loading, json!({"kind": "begin", "title": "diagnosing changed files"}));
        assert!(loading.is_ready() && loading.describe().is_none());
        progress(&loading, json!({"kind": "begin", "title": "loading"}));
        assert!(!loading.is_ready());
    }

    #[test]
    fn progress_that_reports_an_error_is_not_awaited() {
        let error_progress = vec!["Error loading".to_owned()];
        let loading = Loading::new(ReadyRule { progress: true, error_progress, ..ReadyRule::default() });
        progress(
            &loading,
            json!({"kind": "begin", "title": "Error loading workspace", "message": "go.mod:6"}),
        );
        assert!(loading.is_ready() && loading.describe().is_none());
        assert_eq!(loading.failure().unwrap(), "Error loading workspace: go.mod:6");
        progress(&loading, json!({"kind": "end"}));
        assert_eq!(loading.failure(), None);
    }

    #[test]
    fn a_server_request_may_signal_readiness() {
        let requests = vec!["workspace/diagnostic/refresh".to_owned()];
        let loading = Loading::new(ReadyRule { requests, ..ReadyRule::default() });
        loading.request("workspace/configuration");
        assert!(!loading.is_ready());
        loading.request("workspace/diagnostic/refresh");
        assert!(loading.is_ready());
    }

    #[tokio::test]
    async fn messages_and_status_must_both_signal_readiness() {
        let rule = ReadyRule {
            log_messages: vec!["source file".into()],
            status_method: Some("x/status".into()),
            status_field: Some("quiescent".into()),
            ..ReadyRule::default()
        };
        let loading = Loading::new(rule);
        loading.log_message("Found 3 source files");
        assert!(!loading.is_ready());
        loading.status("x/status", &json!({"quiescent": true}));
        assert!(loading.wait(Instant::now() + LONG).await);
    }

    #[test]
    fn a_problem_stays_until_health_is_ok() {
        let rule = ReadyRule {
            status_method: Some("x/status".into()),
            status_field: Some("quiescent".into()),
            status_health: Some("health".into()),
            status_text: Some("message".into()),
            ..ReadyRule::default()
        };
        let loading = Loading::new(rule);
        let said = |health: &str, message: Value| {
            loading.status("x/status", &json!({"quiescent": true, "health": health, "message": message}));
            loading.trouble().map(|trouble| (trouble.text, trouble.severe))
        };
        assert_eq!(said("error", json!("no workspace")), Some(("no workspace".to_owned(), true)));
        assert_eq!(said("warning", Value::Null), Some(("warning".to_owned(), false)));
        assert_eq!(said("ok", json!("fine")), None);
    }

    #[tokio::test]
    async fn a_server_is_ready_without_a_rule_or_after_the_timeout() {
        assert!(Loading::new(ReadyRule::default()).is_ready());
        let rule = ReadyRule { log_messages: vec!["x".into()], timeout_s: 0, ..ReadyRule::default() };
        assert!(Loading::new(rule).is_ready());
    }
}
