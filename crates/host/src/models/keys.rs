//! Where keys come from: variables of the environment, the system's keyring, or what a command prints. They are looked up when
//! they are used, and none is written anywhere. Several of one provider are used in turn: each run begins with the next
//! one and stays with it, so that the provider's caches hold, until it is refused; that one is then left alone for a while. Whose turn
//! it is and what is left alone outlasts the process ([`super::turns`]).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use llm::{ApiKey, AwsCredentials, KeyError, KeyRejection, KeySource, RejectionReason};
use parking_lot::{Mutex, MutexGuard};
use paths::{AbsPath, StateDir};
use policy::Policy;
use process::Processes;
use shell::CommandLine;
use tokio::io::AsyncReadExt as _;

use super::catalogue::expanded;
use super::keyring;
use super::turns::{self, Kept};
use crate::config::{KeyCommand, Secret};

/// How long a command may take to print a key.
const COMMAND_DEADLINE: Duration = Duration::from_secs(30);
/// The longest that is taken for a key.
const LONGEST: u64 = 64 * 1024;

/// What runs the commands that print keys: the person's own, so nobody is asked, but a rule may deny them.
#[derive(Debug, Clone)]
pub struct Runner {
    pub processes: Arc<Processes>,
    pub policy: Arc<Policy>,
    /// Not the project, whose files a program might take for its own.
    pub cwd: AbsPath,
    /// Where it is kept whose turn it is.
    pub state: StateDir,
}

/// One place that a key comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    /// The first of these variables that is set.
    Environment(Vec<String>),
    /// The key of this provider.
    Keyring(String),
    /// What the person wrote.
    Written(Secret),
}

/// The keys of one provider, the same for the whole process, so that one that is refused in one run is left alone in the others.
#[derive(Debug)]
struct Ring {
    sources: Vec<Source>,
    /// Until when each is left alone.
    cooling: Mutex<Vec<Option<Instant>>>,
    /// What commands printed, and when.
    printed: Mutex<BTreeMap<usize, (ApiKey, Instant)>>,
    /// Where the next run begins, where that cannot be kept.
    next: AtomicUsize,
}

/// The keys of one provider for one run.
#[derive(Debug)]
pub struct Turn {
    provider: String,
    ring: Arc<Ring>,
    runner: Runner,
    /// The one in use; none before the first request, so that a model that is never asked takes no turn.
    at: Mutex<Option<usize>>,
}

static RINGS: Mutex<BTreeMap<String, Arc<Ring>>> = Mutex::new(BTreeMap::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change is one assignment.
    mutex.lock()
}

/// KeySource that are there, or why not.
pub fn find(
    provider: &str,
    written: &[Secret],
    variables: &[String],
    runner: Runner,
) -> Result<Option<Turn>, String> {
    let sources = if !written.is_empty() {
        if let Some(name) = unset(written) {
            return Err(format!("{name} is not set, which holds a key of {provider}"));
        }
        written.iter().cloned().map(Source::Written).collect()
    } else if variables.is_empty() {
        // It needs none, but may be given one.
        match keyring::get(provider) {
            Ok(Some(_)) => vec![Source::Keyring(provider.to_owned())],
            Ok(None) | Err(_) => return Ok(None),
        }
    } else if from_environment(variables).is_some() {
        vec![Source::Environment(variables.to_vec())]
    } else {
        let names = variables.join(" or ");
        let way = format!("set {names}, or keep the key with `pilcrow auth set {provider}`");
        match keyring::get(provider) {
            Ok(Some(_)) => vec![Source::Keyring(provider.to_owned())],
            Ok(None) => return Err(format!("there is no key of {provider}: {way}")),
            Err(error) => return Err(format!("there is no key of {provider}: set {names} ({error})")),
        }
    };
    let name = format!("{provider} {sources:?}");
    let ring = lock(&RINGS).entry(name).or_insert_with(|| Arc::new(Ring::new(sources))).clone();
    Ok(Some(Turn { provider: provider.to_owned(), ring, runner, at: Mutex::default() }))
}

/// The first of these variables that holds something.
pub fn from_environment(variables: &[String]) -> Option<ApiKey> {
    variables.iter().find_map(|name| {
        let value = std::env::var(name).ok()?;
        policy::learn_secret(&value);
        ApiKey::new(&value)
    })
}

/// The first variable of these that is needed and not set.
pub fn unset(written: &[Secret]) -> Option<String> {
    written.iter().find_map(|secret| match secret {
        Secret::Variables(text) => read(text).err(),
        Secret::Command(_) => None,
    })
}

/// A text with its variables; the name of one that is not set.
fn read(text: &str) -> Result<Option<ApiKey>, String> {
    let env = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    expanded(text, &env, &mut Vec::new()).map(|key| {
        // Its variable may have a name that says nothing.
        policy::learn_secret(&key);
        ApiKey::new(&key)
    })
}

impl Ring {
    fn new(sources: Vec<Source>) -> Ring {
        let cooling = Mutex::new(vec![None; sources.len()]);
        // A process that makes one run would begin with the same key each time.
        let begin = usize::try_from(llm::now_ms()).unwrap_or_default();
        Ring { sources, cooling, printed: Mutex::default(), next: AtomicUsize::new(begin) }
    }

    /// Where a run begins, and that another begins with the next; what other processes left alone is left alone here.
    fn begin(&self, state: &StateDir, provider: &str) -> usize {
        let count = self.sources.len();
        if count == 1 {
            return 0;
        }
        let kept = turns::change(state, provider, count, |kept| {
            let at = kept.next;
            kept.next = (at + 1) % count;
            (at, kept.clone())
        });
        let Some((at, Kept { until, .. })) = kept else {
            return self.next.fetch_add(1, Ordering::Relaxed) % count;
        };
        let mut cooling = lock(&self.cooling);
        let now = turns::now();
        for (index, until) in until.into_iter().filter(|(index, _)| *index < count) {
            let left = Duration::from_secs(until.saturating_sub(now));
            cooling[index] = cooling[index].max(Instant::now().checked_add(left));
        }
        at
    }

    /// Leaves a key alone, here and in other processes.
    fn leave(&self, state: &StateDir, provider: &str, index: usize, rest: Duration) {
        lock(&self.cooling)[index] = Instant::now().checked_add(rest);
        let count = self.sources.len();
        if count > 1 {
            let until = turns::now().saturating_add(rest.as_secs());
            turns::change(state, provider, count, |kept| kept.until.insert(index, until));
        }
    }

    /// The first from `at` on that is not left alone, else the one that is for the shortest time.
    fn usable(&self, at: usize) -> usize {
        let (cooling, count, now) = (lock(&self.cooling), self.sources.len(), Instant::now());
        let order = (0..count).map(|offset| (at + offset) % count);
        order.min_by_key(|index| cooling[*index].filter(|until| *until > now)).unwrap_or(at)
    }

    fn has_usable(&self) -> bool {
        let now = Instant::now();
        lock(&self.cooling).iter().any(|until| until.is_none_or(|until| until <= now))
    }
}

impl Turn {
    async fn look_up(&self, index: usize) -> Result<Option<ApiKey>, String> {
        match &self.ring.sources[index] {
            Source::Environment(names) => match from_environment(names) {
                Some(key) => Ok(Some(key)),
                None => Err(format!("{} is not set any more", names.join(" or "))),
            },
            Source::Keyring(provider) => {
                let provider = provider.clone();
                let asked = tokio::task::spawn_blocking(move || keyring::get(&provider)).await;
                asked.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
            }
            Source::Written(Secret::Variables(text)) => read(text)
                .map_err(|name| format!("{name} is not set, which holds a key of {}", self.provider)),
            Source::Written(Secret::Command(command)) => {
                let printed = lock(&self.ring.printed).get(&index).cloned();
                if let Some((key, _)) = printed.filter(|(_, at)| at.elapsed() < command.ttl) {
                    return Ok(Some(key));
                }
                let key = self.print(command).await?;
                lock(&self.ring.printed).insert(index, (key.clone(), Instant::now()));
                Ok(Some(key))
            }
        }
    }

    async fn print(&self, command: &KeyCommand) -> Result<ApiKey, String> {
        let [program, args @ ..] = command.command.as_slice() else {
            return Err(format!("the command for the key of {} is empty", self.provider));
        };
        let env = command.env.iter().filter_map(|name| Some((name.clone(), std::env::var(name).ok()?)));
        let line = CommandLine {
            program: program.into(),
            args: args.to_vec(),
            env: env.collect(),
            cwd: self.runner.cwd.clone(),
        };
        let failed = |why: String| format!("the command for the key of {} failed: {why}", self.provider);
        let grant = self.runner.policy.grant_invoked("providers.api_key", &line);
        let grant = grant.map_err(|denied| failed(denied.to_string()))?;
        let process = self.runner.processes.spawn(&line, &grant).await;
        let mut process = process.map_err(|error| failed(error.to_string()))?;
        drop(process.take_stdin());
        let mut printed = String::new();
        let read = async {
            if let Some(stdout) = process.take_stdout() {
                stdout
                    .take(LONGEST)
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
            return Err(failed(format!("{status}: {}", without_keys(last))));
        }
        let first = printed.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        policy::learn_passing_secret(first);
        ApiKey::new(first).ok_or_else(|| failed("it printed nothing".to_owned()))
    }
}

/// A line of a command that should have printed a key, without the words in it that look like one.
fn without_keys(line: &str) -> String {
    const LEAST: usize = 12;
    let looks_like_one = |word: &str| {
        word.len() >= LEAST
            && !word.starts_with('/')
            && word.bytes().any(|byte| byte.is_ascii_digit())
            && word.bytes().any(|byte| byte.is_ascii_alphabetic())
    };
    let words = line.split_whitespace().map(|word| if looks_like_one(word) { "[redacted]" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

impl KeySource for Turn {
    fn key(&self) -> BoxFuture<'_, Result<Option<ApiKey>, KeyError>> {
        Box::pin(async {
            let index = {
                let mut at = lock(&self.at);
                let begun = at.unwrap_or_else(|| self.ring.begin(&self.runner.state, &self.provider));
                *at.insert(self.ring.usable(begun))
            };
            self.look_up(index).await.map_err(KeyError)
        })
    }

    fn rejected(&self, key: &ApiKey, refusal: KeyRejection) -> bool {
        let Some(index) = *lock(&self.at) else { return false };
        // One that was printed a while ago may have ended early; a new one is asked for before it is given up.
        let printed = lock(&self.ring.printed).remove(&index);
        if let (RejectionReason::Unknown, Some((old, at))) = (refusal.why, printed)
            && old == *key
            && at.elapsed() > Duration::from_secs(1)
        {
            return true;
        }
        self.ring.leave(&self.runner.state, &self.provider, index, rest(refusal));
        self.ring.has_usable()
    }
}

/// How long a refused key is left alone.
fn rest(refusal: KeyRejection) -> Duration {
    const SECONDS: fn(u64) -> Duration = Duration::from_secs;
    match refusal.why {
        RejectionReason::Rate => refusal.after.unwrap_or(SECONDS(60)).clamp(SECONDS(1), SECONDS(3600)),
        // Google asks for seconds beside a day's quota, since the minute's is reached as well.
        RejectionReason::Quota => refusal.after.unwrap_or_default().max(SECONDS(3600)),
        RejectionReason::Unknown => SECONDS(600),
    }
}

/// KeySource that requests to Amazon are signed with: of the environment, else of a profile in the person's file. `env` gives variables.
pub fn aws(env: &dyn Fn(&str) -> Option<String>) -> Option<AwsCredentials> {
    let region = env("AWS_REGION").or_else(|| env("AWS_DEFAULT_REGION"));
    let of_environment = || {
        Some(AwsCredentials {
            access_key_id: env("AWS_ACCESS_KEY_ID")?,
            secret_access_key: ApiKey::new(&env("AWS_SECRET_ACCESS_KEY")?)?,
            session_token: env("AWS_SESSION_TOKEN").and_then(|token| ApiKey::new(&token)),
            region: region.clone(),
        })
    };
    let of_profile = || {
        let folder = || Some(std::path::Path::new(&env("HOME")?).join(".aws"));
        let file = |variable: &str, name: &str| match env(variable) {
            Some(file) => Some(file.into()),
            None => Some(folder()?.join(name)),
        };
        let read =
            |file: Option<std::path::PathBuf>| file.and_then(|file| std::fs::read_to_string(file).ok());
        let profile = env("AWS_PROFILE").unwrap_or_else(|| "default".to_owned());
        let keys = read(file("AWS_SHARED_CREDENTIALS_FILE", "credentials"))?;
        let settings = read(file("AWS_CONFIG_FILE", "config")).unwrap_or_default();
        of_profile(&keys, &settings, &profile, region.clone())
    };
    of_environment().or_else(of_profile)
}

/// The keys of a profile, which are taken note of.
fn of_profile(keys: &str, settings: &str, profile: &str, region: Option<String>) -> Option<AwsCredentials> {
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
    fn a_refused_key_is_left_alone_and_the_least_cold_is_used_when_all_are() {
        let source = |name: &str| Source::Environment(vec![name.to_owned()]);
        let ring = Ring::new(vec![source("A"), source("B"), source("C")]);
        assert_eq!([ring.usable(0), ring.usable(2)], [0, 2]);
        let now = Instant::now();
        *lock(&ring.cooling) = vec![Some(now + Duration::from_secs(60)), None, Some(now)];
        assert_eq!([ring.usable(0), ring.usable(2)], [1, 2], "the third has rested");
        let later = |seconds| Some(now + Duration::from_secs(seconds));
        *lock(&ring.cooling) = vec![later(60), later(30), later(90)];
        assert_eq!(ring.usable(0), 1);
        assert!(!ring.has_usable());
    }

    #[test]
    fn keys_are_used_in_turn_and_left_alone_by_processes_one_after_another() {
        let home = tempfile::tempdir().unwrap();
        let state = StateDir::new(AbsPath::new(home.path()).unwrap());
        let process = |count: usize| {
            Ring::new((0..count).map(|it| Source::Environment(vec![format!("KEY_{it}")])).collect())
        };
        let begins = |count| process(count).begin(&state, "mine");
        let first = begins(3);
        let next = |by: usize| (first + by) % 3;
        assert_eq!([begins(3), begins(3), begins(3)], [next(1), next(2), next(0)]);
        let ring = process(3);
        assert_eq!(
            (ring.begin(&state, "mine"), ring.begin(&state, "mine")),
            (next(1), next(2)),
            "of two runs"
        );
        process(3).leave(&state, "mine", next(0), Duration::from_secs(60));
        let ring = process(3);
        let begun = ring.begin(&state, "mine");
        assert_eq!(
            (begun, ring.usable(begun)),
            (next(0), next(1)),
            "what another process was refused is left alone"
        );
        let kept = String::from_utf8(state.read(turns::FILE).unwrap().unwrap()).unwrap();
        assert!(!kept.contains("KEY_"), "{kept}");
        // Another number of keys is another list.
        assert!(begins(2) < 2);
        let ring = process(2);
        let begun = ring.begin(&state, "mine");
        assert_eq!(ring.usable(begun), begun, "what was left alone is in no list any more");
        state.write_atomic(turns::FILE, b"{").unwrap();
        assert_eq!((begins(2) + 1) % 2, begins(2), "what is damaged begins anew");
        let newer = br#"{"format": 2, "providers": []}"#;
        state.write_atomic(turns::FILE, newer).unwrap();
        assert!(begins(2) < 2);
        assert_eq!(state.read(turns::FILE).unwrap().unwrap(), newer, "what a newer program wrote stays");
    }

    #[test]
    fn a_key_of_the_settings_is_there_only_with_its_variable() {
        let unset = |texts: &[&str]| {
            unset(&texts.iter().map(|it| Secret::Variables((*it).to_owned())).collect::<Vec<_>>())
        };
        assert_eq!(unset(&["${PATH}"]), None);
        let gone = unset(&["${PATH}", "${PILCROW_TEST_A,PILCROW_TEST_B}"]);
        assert_eq!(gone.as_deref(), Some("PILCROW_TEST_A or PILCROW_TEST_B"));
    }

    #[test]
    fn what_a_command_says_of_its_failure_has_no_key() {
        assert_eq!(without_keys("  /opt/sdk-455/bin: no login of me "), "/opt/sdk-455/bin: no login of me");
        assert_eq!(without_keys("bad token tok-5f3a9c1d5e8b!"), "bad token [redacted]");
    }

    #[test]
    fn a_used_up_quota_is_left_alone_for_longer_than_is_asked() {
        let seconds = |why, after: Option<u64>| {
            rest(KeyRejection { why, after: after.map(Duration::from_secs) }).as_secs()
        };
        let quota = |after| seconds(RejectionReason::Quota, after);
        assert_eq!([quota(None), quota(Some(26)), quota(Some(7200))], [3600, 3600, 7200]);
        let rate = |after| seconds(RejectionReason::Rate, after);
        assert_eq!([rate(None), rate(Some(26)), rate(Some(7200))], [60, 26, 3600]);
    }

    #[test]
    fn a_profile_of_amazon_is_read() {
        let keys = "[default]\naws_access_key_id = AKID\naws_secret_access_key=s/=x\n\n[work]\naws_access_key_id=W\n\
                    aws_secret_access_key = w\naws_session_token = t\n";
        let settings = "[default]\nregion = eu-west-1\n[profile work]\nregion=us-west-2\n";
        let keys_of =
            |profile, region: Option<&str>| of_profile(keys, settings, profile, region.map(str::to_owned));
        let default = keys_of("default", None).unwrap();
        assert_eq!((default.access_key_id.as_str(), default.region.as_deref()), ("AKID", Some("eu-west-1")));
        assert_eq!(default.secret_access_key, ApiKey::new("s/=x").unwrap());
        let work = keys_of("work", Some("sa-east-1")).unwrap();
        assert_eq!((work.region.as_deref(), work.session_token), (Some("sa-east-1"), ApiKey::new("t")));
        assert_eq!(keys_of("other", None), None);
    }
}
