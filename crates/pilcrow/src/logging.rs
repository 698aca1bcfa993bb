//! What Pilcrow tells about itself: everything to a file, warnings to stderr, nothing to stdout.
//!
//! A file per day and process in the state's `log/` (0600), one event a line, with the spans it happened
//! in. Files go after 7 days, the oldest sooner when there are more than 64 MiB. Secrets are replaced
//! before an event reaches either place. Nothing is read, made or opened before the first event, so
//! that starting costs nothing.

mod files;
mod format;

use std::io::Write;
use std::sync::OnceLock;

use anyhow::Context as _;
use parking_lot::Mutex;
use paths::StateDir;
use policy::Redactor;
use tracing::metadata::LevelFilter;
use tracing::{Event, Level, Metadata, Subscriber, span};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Filter, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

pub use files::newest;

/// Logs the process from now on: to `log/` in `state` what `filter` lets through (the words of
/// `PILCROW_LOG`), warnings to stderr. A filter that cannot be read counts as `info`; the configuration
/// refuses one before it comes here.
///
/// `tell` is given every line from info on that is let through, redacted, without a word for its
/// level; it must neither block nor log.
///
/// # Errors
/// When something logs this process already.
pub fn start(state: &StateDir, filter: &str, tell: Option<Tell>) -> anyhow::Result<()> {
    let sink = Sink { tell, ..Sink::new(state, filter, Box::new(std::io::stderr())) };
    let subscriber = Registry::default().with(sink);
    tracing::subscriber::set_global_default(subscriber).context("the log was started before")
}

/// Takes a line of the log.
pub type Tell = Box<dyn Fn(Level, &str) + Send + Sync>;

struct Sink {
    tell: Option<Tell>,
    filter: Targets,
    redactor: OnceLock<Redactor>,
    files: Mutex<files::Files>,
    stderr: Mutex<Box<dyn Write + Send>>,
}

/// The fields of a span as they are shown, kept with it.
struct SpanFields(String);

impl Sink {
    fn new(state: &StateDir, filter: &str, stderr: Box<dyn Write + Send>) -> Self {
        let filter = filter.parse().unwrap_or_else(|_| Targets::new().with_default(Level::INFO));
        let files = Mutex::new(files::Files::new(state.clone()));
        Self { tell: None, filter, redactor: OnceLock::new(), files, stderr: Mutex::new(stderr) }
    }

    fn redact(&self, text: &str) -> String {
        self.redactor.get_or_init(Redactor::from_env).redact(text).into_owned()
    }

    /// A line for the person. When even that cannot be written there is nobody left to tell.
    fn say(&self, line: &str) {
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
            self.say(&self.redact(&format::for_people(*metadata.level(), &fields)));
        }
        if !self.filter.would_enable(metadata.target(), metadata.level()) {
            return;
        }
        if let Some(tell) = self.tell.as_ref().filter(|_| *metadata.level() <= Level::INFO) {
            tell(*metadata.level(), &self.redact(&format::sentence(&fields)));
        }
        let mut spans = String::new();
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            let extensions = span.extensions();
            let fields = extensions.get::<SpanFields>().map_or("", |SpanFields(fields)| fields);
            format::add_span(&mut spans, span.name(), fields);
        }
        let now = jiff::Timestamp::now();
        // Secrets of several lines are found before they become one.
        let line = format::one_line(&self.redact(&format::event(now, metadata, &spans, &fields)));
        let mut files = self.files.lock();
        if let Some(complaint) = files.append(now, &line) {
            drop(files);
            self.say(&complaint);
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

    /// What stderr got, and the files with their names.
    fn logged(filter: &str, work: impl FnOnce()) -> (String, Vec<(String, String)>) {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(AbsPath::new(temp.path()).unwrap());
        let captured = Captured::default();
        let sink = Sink::new(&state, filter, Box::new(captured.clone()));
        tracing::subscriber::with_default(Registry::default().with(sink), work);
        let folder = state.child("log").unwrap();
        let read = |name: String| {
            let path = folder.path().join(&name);
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            (name, std::fs::read_to_string(path).unwrap())
        };
        let files = folder.list().unwrap().into_iter().map(read).collect();
        let stderr = String::from_utf8(captured.0.lock().clone()).unwrap();
        (stderr, files)
    }

    #[test]
    fn events_go_to_the_file_with_their_spans_and_warnings_to_the_person() {
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
        let day = jiff::Timestamp::now().to_string()[..10].to_owned();
        assert!(name.ends_with(&format!(".{}.log", std::process::id())), "{name}");
        assert!(name.starts_with(&day) || !text.contains(&day), "{name}");
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
    fn the_filter_is_for_the_file_and_warnings_always_reach_the_person() {
        let (stderr, files) = logged("off", || tracing::warn!("look"));
        assert_eq!((stderr.as_str(), files.len()), ("warning: look\n", 0));
        let (stderr, files) = logged("error,pilcrow::logging=trace", || {
            tracing::trace!("fine");
            tracing::info!(target: "other", "not this");
        });
        assert_eq!(stderr, "");
        assert!(files[0].1.contains("TRACE pilcrow::logging::tests fine"), "{files:?}");
        assert!(!files[0].1.contains("not this"));
    }

    #[test]
    fn secrets_reach_neither_place() {
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
    fn who_is_told_hears_the_level_beside_the_words() {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(AbsPath::new(temp.path()).unwrap());
        let told = Arc::new(Mutex::new(Vec::new()));
        let hears = Arc::clone(&told);
        let tell: Tell = Box::new(move |level, line| hears.lock().push((level, line.to_owned())));
        let sink = Sink { tell: Some(tell), ..Sink::new(&state, "info", Box::new(Captured::default())) };
        tracing::subscriber::with_default(Registry::default().with(sink), || {
            tracing::info!("opened /a");
            tracing::warn!(server = "ruff", "it is slow");
            tracing::debug!("too fine");
        });
        let expected =
            [(Level::INFO, "opened /a".to_owned()), (Level::WARN, "it is slow (server=ruff)".to_owned())];
        assert_eq!(*told.lock(), expected);
    }

    #[test]
    fn nothing_is_made_before_the_first_event() {
        let (stderr, files) = logged("info", || ());
        assert_eq!((stderr.as_str(), files.len()), ("", 0));
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_told_once() {
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
        assert_eq!(stderr.matches("warning: the log cannot be written").count(), 1, "{stderr}");
    }
}
