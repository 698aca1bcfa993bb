//! The log: all events to a file, warnings to stderr, nothing to stdout.
//!
//! All processes append to one file in the state's `log/` (0600), with one event per line and its spans. A full
//! file replaces the one before it. Secrets are redacted. Nothing is read, created or opened before the first
//! event, so that starting costs nothing.

mod format;

use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use parking_lot::Mutex;
use paths::StateDir;
use policy::Redactor;
use tracing::metadata::LevelFilter;
use tracing::{Event, Level, Metadata, Subscriber, span};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Filter, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

/// The file of the log, and the size in bytes at which the next one begins.
const FILE: &str = "pilcrow.log";
const LIMIT: u64 = 32 << 20;

/// The newest `count` lines, oldest first.
///
/// With `server` only those with the field `server` of that name. Blocks for files of at most 64 MiB
/// together.
///
/// # Errors
/// If the log cannot be read.
pub fn newest(state: &StateDir, count: usize, server: Option<&str>) -> anyhow::Result<Vec<String>> {
    let field = server.map(|name| format!("server={name}"));
    let matches = |line: &&str| {
        field.as_ref().is_none_or(|field| {
            let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || "-_.".contains(c));
            line.match_indices(field.as_str()).any(|(at, field)| ends(&line[at + field.len()..]))
        })
    };
    let bytes = state.child("log")?.read_rotated(FILE)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut lines: Vec<String> = text.lines().rev().filter(matches).take(count).map(str::to_owned).collect();
    lines.reverse();
    Ok(lines)
}

/// Starts logging.
///
/// Events that pass `filter` (as in `PILCROW_LOG`) go to `log/` in `state`, warnings to stderr. An invalid
/// filter counts as `info`; the configuration already refuses it.
///
/// `listener` receives every line from info on that passes, redacted, without its level; it must neither
/// block nor log.
///
/// # Errors
/// If logging was already started.
pub fn start(state: &StateDir, filter: &str, listener: Option<Listener>) -> anyhow::Result<()> {
    let sink = Sink { listener, ..Sink::new(state, filter, Box::new(std::io::stderr())) };
    let subscriber = Registry::default().with(sink);
    tracing::subscriber::set_global_default(subscriber).context("logging was already started")
}

/// Callback that receives a line of the log, with its level.
pub type Listener = Box<dyn Fn(Level, &str) + Send + Sync>;

struct Sink {
    listener: Option<Listener>,
    filter: Targets,
    redactor: OnceLock<Redactor>,
    state: StateDir,
    has_warned: AtomicBool,
    stderr: Mutex<Box<dyn Write + Send>>,
}

/// The rendered fields of a span.
struct SpanFields(String);

impl Sink {
    fn new(state: &StateDir, filter: &str, stderr: Box<dyn Write + Send>) -> Self {
        let filter = filter.parse().unwrap_or_else(|_| Targets::new().with_default(Level::INFO));
        let (state, stderr) = (state.clone(), Mutex::new(stderr));
        Self { listener: None, filter, redactor: OnceLock::new(), state, has_warned: false.into(), stderr }
    }

    fn redact(&self, text: &str) -> String {
        self.redactor.get_or_init(Redactor::from_env).redact(text).into_owned()
    }

    /// Writes a line to stderr. A failure has no place to be reported.
    fn write_stderr(&self, line: &str) {
        let mut stderr = self.stderr.lock();
        stderr.write_all(line.as_bytes()).ok();
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Sink {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        *metadata.level() <= Level::WARN || self.filter.would_enable(metadata.target(), metadata.level())
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let filter = Filter::<Registry>::max_level_hint(&self.filter)?;
        Some(filter.max(LevelFilter::WARN))
    }

    fn on_new_span(&self, attributes: &span::Attributes<'_>, id: &span::Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = format::Fields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(SpanFields(fields.join()));
    }

    fn on_record(&self, id: &span::Id, values: &span::Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = format::Fields::default();
        values.record(&mut fields);
        let mut extensions = span.extensions_mut();
        if let Some(SpanFields(known)) = extensions.get_mut::<SpanFields>() {
            if !known.is_empty() {
                known.push(' ');
            }
            known.push_str(&fields.join());
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let metadata = event.metadata();
        let mut fields = format::Fields::default();
        event.record(&mut fields);
        if *metadata.level() <= Level::WARN {
            self.write_stderr(&self.redact(&format::warning(*metadata.level(), &fields)));
        }
        if !self.filter.would_enable(metadata.target(), metadata.level()) {
            return;
        }
        if let Some(listener) = self.listener.as_ref().filter(|_| *metadata.level() <= Level::INFO) {
            listener(*metadata.level(), &self.redact(&format::sentence(&fields)));
        }
        let mut spans = String::new();
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            let extensions = span.extensions();
            let fields = extensions.get::<SpanFields>().map_or("", |SpanFields(fields)| fields);
            format::add_span(&mut spans, span.name(), fields);
        }
        let now = jiff::Timestamp::now();
        // Redacts before joining lines, because a secret can have several.
        let line = format::one_line(&self.redact(&format::event(now, metadata, &spans, &fields)));
        let log = self.state.child("log");
        let written = log.and_then(|log| log.append_rotated(FILE, line.as_bytes(), LIMIT));
        if let Err(error) = written
            && !self.has_warned.swap(true, Ordering::Relaxed)
        {
            self.write_stderr(&format!("warning: cannot write the log: {error}\n"));
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make the files they need")]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    use paths::AbsPath;

    use super::*;

    #[derive(Clone, Default)]
    struct Captured(Arc<Mutex<Vec<u8>>>);

    impl Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Logs in `work`; returns the text on stderr, and the files with their names.
    fn logged(filter: &str, work: impl FnOnce()) -> (String, Vec<(String, String)>) {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(AbsPath::new(temp.path()).unwrap());
        let captured = Captured::default();
        let sink = Sink::new(&state, filter, Box::new(captured.clone()));
        tracing::subscriber::with_default(Registry::default().with(sink), work);
        let directory = state.child("log").unwrap();
        let read = |name: String| {
            let path = directory.path().join(&name);
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            (name, std::fs::read_to_string(path).unwrap())
        };
        let files = directory.list().unwrap().into_iter().map(read).collect();
        let stderr = String::from_utf8(captured.0.lock().clone()).unwrap();
        (stderr, files)
    }

    #[test]
    fn events_go_to_the_file_with_spans_and_warnings_to_stderr() {
        let (stderr, files) = logged("info", || {
            let run = tracing::info_span!("run", id = "r1", more = tracing::field::Empty);
            run.record("more", 2);
            let _in_run = run.entered();
            let _in_call = tracing::info_span!("call").entered();
            tracing::debug!("too fine");
            tracing::info!(files = 3, "committed");
            tracing::warn!(server = "ruff", "it is\nslow");
            tracing::error!("broken");
        });
        assert_eq!(stderr, "warning: it is\nslow (server=ruff)\nerror: broken\n");
        let [(name, text)] = &files[..] else { panic!("{files:?}") };
        assert_eq!(name, FILE);
        let lines: Vec<&str> = text.lines().map(|line| line.split_once("Z ").unwrap().1).collect();
        let place = "pilcrow::logging::tests run{id=r1 more=2}:call: ";
        assert_eq!(
            lines,
            [
                format!("INFO {place}committed files=3"),
                format!("WARN {place}it is\\nslow server=ruff"),
                format!("ERROR {place}broken"),
            ]
        );
    }

    #[test]
    fn the_filter_does_not_hide_warnings_on_stderr() {
        let (stderr, files) = logged("off", || tracing::warn!("look"));
        assert_eq!((stderr.as_str(), files.len()), ("warning: look\n", 0));
        let (stderr, files) = logged("error,pilcrow::logging=trace", || {
            tracing::trace!("fine");
            tracing::info!(target: "other", "not this");
        });
        assert_eq!(stderr, "");
        let (_, line) = files[0].1.trim_end().split_once("Z ").unwrap();
        assert_eq!(line, "TRACE pilcrow::logging::tests fine");
        assert!(!files[0].1.contains("not this"));
    }

    #[test]
    fn secrets_are_redacted_in_both_places() {
        let key = "sk-abcdefghijklmnop0123456789";
        let (stderr, files) = logged("info", || {
            let _in_span = tracing::info_span!("server", key).entered();
            tracing::warn!(key, "the key {key} was refused");
        });
        assert!(!stderr.contains(key) && !files[0].1.contains(key), "{stderr}{files:?}");
        assert_eq!(stderr.matches("[redacted:api-key]").count(), 2);
        assert_eq!(files[0].1.matches("[redacted:api-key]").count(), 3);
    }

    #[test]
    fn the_listener_receives_level_and_text() {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(AbsPath::new(temp.path()).unwrap());
        let received = Arc::new(Mutex::new(Vec::new()));
        let receiver = Arc::clone(&received);
        let listener: Listener = Box::new(move |level, line| receiver.lock().push((level, line.to_owned())));
        let sink =
            Sink { listener: Some(listener), ..Sink::new(&state, "info", Box::new(Captured::default())) };
        tracing::subscriber::with_default(Registry::default().with(sink), || {
            tracing::info!("opened /a");
            tracing::warn!(server = "ruff", "it is slow");
            tracing::debug!("too fine");
        });
        let expected =
            [(Level::INFO, "opened /a".to_owned()), (Level::WARN, "it is slow (server=ruff)".to_owned())];
        assert_eq!(*received.lock(), expected);
    }

    #[test]
    fn newest_lines_can_be_those_of_one_server() {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(AbsPath::new(temp.path()).unwrap());
        let text = "old\none\ntwo server=ruff-lsp\nthree server=ruff x=1\nrun{server=ruff}:four\n";
        state.append(&format!("log/{FILE}"), text.as_bytes(), false).unwrap();
        let newest = |count: usize, server: Option<&str>| newest(&state, count, server).unwrap();
        let of_ruff = ["three server=ruff x=1", "run{server=ruff}:four"];
        assert_eq!(newest(2, None), of_ruff);
        assert_eq!(newest(9, None).len(), 5);
        assert_eq!(newest(9, Some("ruff")), of_ruff);
        assert_eq!(newest(0, None), [""; 0]);
    }

    #[test]
    fn no_file_is_created_before_the_first_event() {
        let (stderr, files) = logged("info", || ());
        assert_eq!((stderr.as_str(), files.len()), ("", 0));
    }

    #[test]
    fn an_unwritable_directory_is_reported_once() {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("log"), "a file is in the way").unwrap();
        let state = StateDir::new(AbsPath::new(temp.path()).unwrap());
        let captured = Captured::default();
        let sink = Sink::new(&state, "info", Box::new(captured.clone()));
        tracing::subscriber::with_default(Registry::default().with(sink), || {
            tracing::info!("one");
            tracing::info!("two");
        });
        let stderr = String::from_utf8(captured.0.lock().clone()).unwrap();
        assert_eq!(stderr.matches("warning: cannot write the log").count(), 1, "{stderr}");
    }
}
