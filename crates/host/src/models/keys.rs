//! API keys from environment variables, the system's keyring, or a command.
//!
//! Pilcrow resolves keys on use and never writes them. Runs use several keys of a provider in turn: each run
//! takes the next key and keeps it, so that the provider's caches stay valid, until the provider refuses it;
//! then the key pauses. [`super::key_rotation`] stores the rotation across processes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use llm::{ApiKey, AwsCredentials, KeyError, KeyRejection, KeySource, RejectionReason};
use parking_lot::Mutex;
use paths::{AbsPath, StateDir};
use policy::Policy;
use process::Processes;
use shell::CommandLine;
use tokio::io::AsyncReadExt as _;

use super::catalogue;
use super::key_rotation::{self, Rotation};
use super::keyring;
use crate::config::{KeyCommand, Secret};

/// Time limit of a command that prints a key.
const COMMAND_DEADLINE: Duration = Duration::from_secs(30);
/// Maximum size of the output of such a command, in bytes.
const MAX_OUTPUT: u64 = 64 * 1024;

/// Runs the commands that print keys.
///
/// The user configured them, so they need no question, but a rule can deny them.
#[derive(Debug, Clone)]
pub struct Runner {
    pub processes: Arc<Processes>,
    pub policy: Arc<Policy>,
    /// Working directory; not the project, whose files might influence the program.
    pub cwd: AbsPath,
    /// Directory of the stored rotation.
    pub state: StateDir,
}

/// The source of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    /// The first variable that is set.
    Environment(Vec<String>),
    /// Entry of this provider in the keyring.
    Keyring(String),
    /// A setting of the user.
    Setting(Secret),
}

/// The keys of one provider, shared by the process.
///
/// A key refused in one run pauses in all.
#[derive(Debug)]
struct KeyRing {
    sources: Vec<Source>,
    /// End of the pause of each key; `None` for a usable one.
    paused: Mutex<Vec<Option<Instant>>>,
    /// Output of each command, and its time.
    printed: Mutex<BTreeMap<usize, (ApiKey, Instant)>>,
    /// Next key if the rotation cannot be stored.
    next: AtomicUsize,
}

/// The keys of one provider for one run.
#[derive(Debug)]
pub struct RunKeys {
    provider: String,
    ring: Arc<KeyRing>,
    runner: Runner,
    /// Index of the key in use.
    ///
    /// `None` before the first request, so that an unused model takes no turn.
    current: Mutex<Option<usize>>,
    /// The keys given to requests, which may be concurrent.
    given: Mutex<BTreeMap<usize, ApiKey>>,
}

static RINGS: Mutex<BTreeMap<String, Arc<KeyRing>>> = Mutex::new(BTreeMap::new());

/// Finds the keys of a provider; `None` if it needs none.
///
/// The error says how to set one.
pub fn find(
    provider: &str,
    settings: &[Secret],
    variables: &[String],
    runner: Runner,
) -> Result<Option<RunKeys>, String> {
    let sources = if !settings.is_empty() {
        if let Some(name) = unset(settings) {
            return Err(format!("the key of {provider} needs the variable {name}; set it"));
        }
        settings.iter().cloned().map(Source::Setting).collect()
    } else if variables.is_empty() {
        // The provider needs no key, but accepts one.
        match keyring::get(provider) {
            Ok(Some(_)) => vec![Source::Keyring(provider.to_owned())],
            Ok(None) | Err(_) => return Ok(None),
        }
    } else if from_environment(variables).is_some() {
        vec![Source::Environment(variables.to_vec())]
    } else {
        let names = variables.join(" or ");
        let help = format!("set {names}, or run `pilcrow auth set {provider}`");
        match keyring::get(provider) {
            Ok(Some(_)) => vec![Source::Keyring(provider.to_owned())],
            Ok(None) => return Err(format!("no API key for {provider}: {help}")),
            Err(error) => {
                return Err(format!("no API key for {provider}: set {names} ({error})"));
            }
        }
    };
    let name = format!("{provider} {sources:?}");
    let ring = RINGS.lock().entry(name).or_insert_with(|| Arc::new(KeyRing::new(sources))).clone();
    let (provider, current, given) = (provider.to_owned(), Mutex::default(), Mutex::default());
    Ok(Some(RunKeys { provider, ring, runner, current, given }))
}

/// Returns the first non-empty variable.
pub fn from_environment(variables: &[String]) -> Option<ApiKey> {
    variables.iter().find_map(|name| {
        let value = std::env::var(name).ok()?;
        policy::learn_secret(&value);
        ApiKey::new(&value)
    })
}

/// Returns the first variable that is needed and not set.
pub fn unset(settings: &[Secret]) -> Option<String> {
    settings.iter().find_map(|secret| match secret {
        Secret::Variables(text) => expand(text).err(),
        Secret::Command(_) => None,
    })
}

/// Replaces the variables of a text.
///
/// The error names a variable that is not set.
fn expand(text: &str) -> Result<Option<ApiKey>, String> {
    let env = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    catalogue::expand(text, &env).map(|key| {
        // The name of the variable may not look like that of a secret.
        policy::learn_secret(&key);
        ApiKey::new(&key)
    })
}

impl KeyRing {
    fn new(sources: Vec<Source>) -> KeyRing {
        let paused = Mutex::new(vec![None; sources.len()]);
        // Without a stored rotation, processes with a single run still use different keys.
        let begin = usize::try_from(llm::now_ms()).unwrap_or_default();
        KeyRing { sources, paused, printed: Mutex::default(), next: AtomicUsize::new(begin) }
    }

    /// Returns the index of the key for a new run.
    ///
    /// Advances the rotation and adopts the pauses of other processes.
    fn next_key(&self, state: &StateDir, provider: &str) -> usize {
        let count = self.sources.len();
        if count == 1 {
            return 0;
        }
        let stored = key_rotation::change(state, provider, count, |rotation| {
            let at = rotation.next;
            rotation.next = (at + 1) % count;
            (at, rotation.clone())
        });
        let Some((at, Rotation { until, .. })) = stored else {
            return self.next.fetch_add(1, Ordering::Relaxed) % count;
        };
        let mut paused = self.paused.lock();
        let now = key_rotation::now();
        for (index, until) in until.into_iter().filter(|(index, _)| *index < count) {
            let left = Duration::from_secs(until.saturating_sub(now));
            paused[index] = paused[index].max(Instant::now().checked_add(left));
        }
        at
    }

    /// Pauses a key in this and other processes.
    fn pause(&self, state: &StateDir, provider: &str, index: usize, pause: Duration) {
        self.paused.lock()[index] = Instant::now().checked_add(pause);
        let count = self.sources.len();
        if count > 1 {
            let until = key_rotation::now().saturating_add(pause.as_secs());
            key_rotation::change(state, provider, count, |rotation| rotation.until.insert(index, until));
        }
    }

    /// Finds the first key from `at` on that is not paused.
    ///
    /// If all are paused, takes the one with the shortest pause.
    fn usable(&self, at: usize) -> usize {
        let (paused, count, now) = (self.paused.lock(), self.sources.len(), Instant::now());
        let order = (0..count).map(|offset| (at + offset) % count);
        order.min_by_key(|index| paused[*index].filter(|until| *until > now)).unwrap_or(at)
    }

    fn has_usable(&self) -> bool {
        let now = Instant::now();
        self.paused.lock().iter().any(|until| until.is_none_or(|until| until <= now))
    }
}

impl RunKeys {
    async fn look_up(&self, index: usize) -> Result<Option<ApiKey>, String> {
        match &self.ring.sources[index] {
            Source::Environment(names) => match from_environment(names) {
                Some(key) => Ok(Some(key)),
                None => Err(format!("{} is no longer set; set it again", names.join(" or "))),
            },
            Source::Keyring(provider) => {
                let provider = provider.clone();
                let found = tokio::task::spawn_blocking(move || keyring::get(&provider)).await;
                found.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
            }
            Source::Setting(Secret::Variables(text)) => expand(text)
                .map_err(|name| format!("the key of {} needs the variable {name}; set it", self.provider)),
            Source::Setting(Secret::Command(command)) => {
                let printed = self.ring.printed.lock().get(&index).cloned();
                if let Some((key, _)) = printed.filter(|(_, at)| at.elapsed() < command.ttl.0) {
                    return Ok(Some(key));
                }
                let key = self.print(command).await?;
                self.ring.printed.lock().insert(index, (key.clone(), Instant::now()));
                Ok(Some(key))
            }
        }
    }

    async fn print(&self, command: &KeyCommand) -> Result<ApiKey, String> {
        let [program, args @ ..] = command.command.as_slice() else {
            return Err(format!("the command for the key of {} is empty; name a program", self.provider));
        };
        let env = command.env.iter().filter_map(|name| Some((name.clone(), std::env::var(name).ok()?)));
        let line = CommandLine {
            program: program.into(),
            args: args.to_vec(),
            env: env.collect(),
            cwd: self.runner.cwd.clone(),
        };
        let failed =
            |reason: String| format!("the command for the key of {} failed: {reason}", self.provider);
        let grant = self.runner.policy.grant_invoked("providers.api_key", &line);
        let grant = grant.map_err(|denied| failed(denied.to_string()))?;
        let process = self.runner.processes.spawn(&line, &grant).await;
        let mut process = process.map_err(|error| failed(error.to_string()))?;
        drop(process.take_stdin());
        let mut printed = String::new();
        let read = async {
            if let Some(stdout) = process.take_stdout() {
                stdout
                    .take(MAX_OUTPUT)
                    .read_to_string(&mut printed)
                    .await
                    .map_err(|error| failed(error.to_string()))?;
            }
            Ok::<_, String>(process.exited().await)
        };
        let status = match tokio::time::timeout(COMMAND_DEADLINE, read).await {
            Ok(status) => status?,
            Err(_) => return Err(failed(format!("it took more than {} s", COMMAND_DEADLINE.as_secs()))),
        };
        if !status.success() {
            let tail = process.stderr_tail();
            let last = tail.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
            return Err(failed(format!("{status}: {}", redact_keys(last))));
        }
        let first = printed.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        policy::learn_passing_secret(first);
        ApiKey::new(first).ok_or_else(|| failed("it printed nothing".to_owned()))
    }
}

/// Redacts words that look like keys in a line of a failed key command.
fn redact_keys(line: &str) -> String {
    const MIN_LENGTH: usize = 12;
    let is_like_key = |word: &str| {
        word.len() >= MIN_LENGTH
            && !word.starts_with('/')
            && word.bytes().any(|byte| byte.is_ascii_digit())
            && word.bytes().any(|byte| byte.is_ascii_alphabetic())
    };
    let words = line.split_whitespace().map(|word| if is_like_key(word) { "[redacted]" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

impl KeySource for RunKeys {
    fn key(&self) -> BoxFuture<'_, Result<Option<ApiKey>, KeyError>> {
        Box::pin(async {
            let index = {
                let mut current = self.current.lock();
                let index = current.unwrap_or_else(|| self.ring.next_key(&self.runner.state, &self.provider));
                *current.insert(self.ring.usable(index))
            };
            let key = self.look_up(index).await.map_err(KeyError)?;
            self.given.lock().extend(key.clone().map(|key| (index, key)));
            Ok(key)
        })
    }

    fn advance(&self) {
        *self.current.lock() = None;
    }

    fn rejected(&self, key: &ApiKey, refusal: KeyRejection) -> bool {
        let given = |(index, it): (&usize, &ApiKey)| (it == key).then_some(*index);
        let Some(index) = self.given.lock().iter().find_map(given) else { return false };
        // A key printed a while ago may have expired; the command runs again before the key pauses.
        let printed = self.ring.printed.lock().remove(&index);
        if let (RejectionReason::Unknown, Some((old, at))) = (refusal.why, printed)
            && old == *key
            && at.elapsed() > Duration::from_secs(1)
        {
            return true;
        }
        self.ring.pause(&self.runner.state, &self.provider, index, pause(refusal));
        self.ring.has_usable()
    }
}

/// Returns how long a refused key pauses.
fn pause(refusal: KeyRejection) -> Duration {
    const SECONDS: fn(u64) -> Duration = Duration::from_secs;
    match refusal.why {
        RejectionReason::Rate => refusal.after.unwrap_or(SECONDS(60)).clamp(SECONDS(1), SECONDS(3600)),
        // With a used-up daily quota Google asks to wait only seconds, because the minute's quota is also used up.
        RejectionReason::Quota => refusal.after.unwrap_or_default().max(SECONDS(3600)),
        RejectionReason::Unknown => SECONDS(600),
    }
}

/// Finds credentials for Amazon.
///
/// Reads them from the environment, else from a profile in the user's files. `env` reads variables.
pub fn aws(env: &dyn Fn(&str) -> Option<String>) -> Option<AwsCredentials> {
    let region = env("AWS_REGION").or_else(|| env("AWS_DEFAULT_REGION"));
    let from_environment = || {
        Some(AwsCredentials {
            access_key_id: env("AWS_ACCESS_KEY_ID")?,
            secret_access_key: ApiKey::new(&env("AWS_SECRET_ACCESS_KEY")?)?,
            session_token: env("AWS_SESSION_TOKEN").and_then(|token| ApiKey::new(&token)),
            region: region.clone(),
        })
    };
    let from_profile = || {
        let directory = || Some(std::path::Path::new(&env("HOME")?).join(".aws"));
        let file = |variable: &str, name: &str| match env(variable) {
            Some(file) => Some(file.into()),
            None => Some(directory()?.join(name)),
        };
        let read =
            |file: Option<std::path::PathBuf>| file.and_then(|file| std::fs::read_to_string(file).ok());
        let profile = env("AWS_PROFILE").unwrap_or_else(|| "default".to_owned());
        let keys = read(file("AWS_SHARED_CREDENTIALS_FILE", "credentials"))?;
        let settings = read(file("AWS_CONFIG_FILE", "config")).unwrap_or_default();
        parse_profile(&keys, &settings, &profile, region.clone())
    };
    from_environment().or_else(from_profile)
}

/// Parses the credentials of a profile; registers them as secrets.
fn parse_profile(
    keys: &str,
    settings: &str,
    profile: &str,
    region: Option<String>,
) -> Option<AwsCredentials> {
    let section = |text: &str, name: &str| -> BTreeMap<String, String> {
        let lines = text.lines().map(str::trim).skip_while(|line| *line != format!("[{name}]")).skip(1);
        let lines = lines.take_while(|line| !line.starts_with('['));
        let pairs = lines.filter_map(|line| line.split_once('='));
        pairs.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect()
    };
    let keys = section(keys, profile);
    let settings = match profile {
        "default" => section(settings, profile),
        _ => section(settings, &format!("profile {profile}")),
    };
    let secret = |name: &str| {
        let value = keys.get(name)?;
        policy::learn_secret(value);
        ApiKey::new(value)
    };
    Some(AwsCredentials {
        access_key_id: keys.get("aws_access_key_id")?.clone(),
        secret_access_key: secret("aws_secret_access_key")?,
        session_token: secret("aws_session_token"),
        region: region.or_else(|| settings.get("region").cloned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_key_pauses_while_others_are_usable() {
        let source = |name: &str| Source::Environment(vec![name.to_owned()]);
        let ring = KeyRing::new(vec![source("A"), source("B"), source("C")]);
        assert_eq!([ring.usable(0), ring.usable(2)], [0, 2]);
        let now = Instant::now();
        *ring.paused.lock() = vec![Some(now + Duration::from_secs(60)), None, Some(now)];
        assert_eq!([ring.usable(0), ring.usable(2)], [1, 2], "the pause of the third is over");
        let later = |seconds| Some(now + Duration::from_secs(seconds));
        *ring.paused.lock() = vec![later(60), later(30), later(90)];
        assert_eq!(ring.usable(0), 1);
        assert!(!ring.has_usable());
    }

    #[test]
    fn processes_share_rotation_and_pauses() {
        let home = tempfile::tempdir().unwrap();
        let state = StateDir::new(AbsPath::new(home.path()).unwrap());
        let process = |count: usize| {
            KeyRing::new((0..count).map(|index| Source::Environment(vec![format!("KEY_{index}")])).collect())
        };
        let begins = |count| process(count).next_key(&state, "mine");
        let first = begins(3);
        let next = |by: usize| (first + by) % 3;
        assert_eq!([begins(3), begins(3), begins(3)], [next(1), next(2), next(0)]);
        let ring = process(3);
        assert_eq!(
            (ring.next_key(&state, "mine"), ring.next_key(&state, "mine")),
            (next(1), next(2)),
            "two runs"
        );
        process(3).pause(&state, "mine", next(0), Duration::from_secs(60));
        let ring = process(3);
        let begun = ring.next_key(&state, "mine");
        assert_eq!(
            (begun, ring.usable(begun)),
            (next(0), next(1)),
            "a key refused in another process pauses"
        );
        let stored = String::from_utf8(state.read(key_rotation::FILE).unwrap().unwrap()).unwrap();
        assert!(!stored.contains("KEY_"), "{stored}");
        // Another number of keys is another list.
        assert!(begins(2) < 2);
        let ring = process(2);
        let begun = ring.next_key(&state, "mine");
        assert_eq!(ring.usable(begun), begun, "the pauses are reset");
        state.write_atomic(key_rotation::FILE, b"{").unwrap();
        assert_eq!((begins(2) + 1) % 2, begins(2), "a damaged file is reset");
        let newer = br#"{"format": 2, "providers": []}"#;
        state.write_atomic(key_rotation::FILE, newer).unwrap();
        assert!(begins(2) < 2);
        assert_eq!(state.read(key_rotation::FILE).unwrap().unwrap(), newer, "a newer format is not changed");
    }

    #[test]
    fn a_key_setting_needs_its_variable() {
        let unset = |texts: &[&str]| {
            unset(&texts.iter().map(|text| Secret::Variables((*text).to_owned())).collect::<Vec<_>>())
        };
        assert_eq!(unset(&["${PATH}"]), None);
        let gone = unset(&["${PATH}", "${PILCROW_TEST_A,PILCROW_TEST_B}"]);
        assert_eq!(gone.as_deref(), Some("PILCROW_TEST_A or PILCROW_TEST_B"));
    }

    #[test]
    fn errors_of_key_commands_are_redacted() {
        assert_eq!(redact_keys("  /opt/sdk-455/bin: no login of me "), "/opt/sdk-455/bin: no login of me");
        assert_eq!(redact_keys("bad token tok-5f3a9c1d5e8b!"), "bad token [redacted]");
    }

    #[test]
    fn a_used_up_quota_pauses_longer_than_requested() {
        let seconds = |why, after: Option<u64>| {
            pause(KeyRejection { why, after: after.map(Duration::from_secs) }).as_secs()
        };
        let quota = |after| seconds(RejectionReason::Quota, after);
        assert_eq!([quota(None), quota(Some(26)), quota(Some(7200))], [3600, 3600, 7200]);
        let rate = |after| seconds(RejectionReason::Rate, after);
        assert_eq!([rate(None), rate(Some(26)), rate(Some(7200))], [60, 26, 3600]);
    }

    #[test]
    fn amazon_profiles_are_read() {
        let keys = "[default]\naws_access_key_id = AKID\naws_secret_access_key=s/=x\n\n[work]\naws_access_key_id=W\n\
                    aws_secret_access_key = w\naws_session_token = t\n";
        let settings = "[default]\nregion = eu-west-1\n[profile work]\nregion=us-west-2\n";
        let keys_of =
            |profile, region: Option<&str>| parse_profile(keys, settings, profile, region.map(str::to_owned));
        let default = keys_of("default", None).unwrap();
        assert_eq!((default.access_key_id.as_str(), default.region.as_deref()), ("AKID", Some("eu-west-1")));
        assert_eq!(default.secret_access_key, ApiKey::new("s/=x").unwrap());
        let work = keys_of("work", Some("sa-east-1")).unwrap();
        assert_eq!((work.region.as_deref(), work.session_token), (Some("sa-east-1"), ApiKey::new("t")));
        assert_eq!(keys_of("other", None), None);
    }
}
