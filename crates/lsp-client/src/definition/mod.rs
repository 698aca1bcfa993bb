//! What is known of a language server, as data: one TOML file each (`docs/formats/server-definition.md`).
//!
//! Does not look at the disk. What must stay true: no code anywhere asks for a server by its name; a
//! peculiarity is a key here.

mod feature;
mod values;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use globset::{Glob, GlobSet, GlobSetBuilder};
use serde::Deserialize;
use serde_json::Value;
use workspace::AbsPath;

use crate::install::{FileInstall, Install};

pub use feature::Feature;
use values::empty;
pub(crate) use values::{expand, expand_text, merge, names_venv, section, unfold, with_venv};

/// Work that a server says nothing of for longer holds nothing back.
const LONGEST_SILENCE: Duration = Duration::from_secs(60);

/// The newest format of a definition file that this program reads.
pub const FORMAT: u64 = 1;

/// One language server.
#[derive(Debug, Clone)]
pub struct ServerDefinition {
    /// Unique; the file's name without `.toml`.
    pub name: String,
    /// One line for people.
    pub about: String,
    /// Servers of one group replace each other: for a file, the first installed one of them is used.
    pub group: Option<String>,
    /// Order within the group, lowest first.
    pub rank: u32,
    /// What it speaks.
    pub languages: Vec<Language>,
    /// How its root folder is found.
    pub root: RootRule,
    /// It looks for uses in its own project's files and in open ones only: before references and
    /// rename the files that hold the name are opened.
    pub opens_holders: bool,
    /// What it was opened counts for such a question only when it has told diagnostics about it.
    pub waits_for_holders: bool,
    /// It may still not see that files speak of one thing: those that hold the name and are not in its
    /// answer are named.
    pub names_holders_left: bool,
    /// A document that an editor has not saved is opened as it is on the disk, and then changed.
    pub opens_saved: bool,
    /// A whole file is formatted as the range of all its lines.
    pub formats_by_range: bool,
    /// Other programs that it calls for a feature; without one of them it does not offer that.
    pub needs: BTreeMap<Feature, Vec<String>>,
    /// It mends what refers to a file only when the file keeps its folder: other moves are refused.
    pub moves_within_folder: bool,
    /// Endings of files that are two sides of one module (`py` and its stub `pyi`).
    pub twins: Vec<Vec<String>>,
    /// How it is told where a symbol is to be moved.
    pub move_symbol: Option<MoveRule>,
    /// How it is started.
    pub command: CommandRule,
    /// What it is good at, 1 to 100. `None`: everything it offers, at 50.
    pub features: Option<BTreeMap<Feature, u8>>,
    /// `initializationOptions`, with dotted keys unfolded.
    pub initialization_options: Option<Value>,
    /// What `workspace/configuration` answers, with dotted keys unfolded.
    pub settings: Value,
    /// Merged over our own client capabilities.
    pub client_capabilities: Value,
    /// When it has loaded its project.
    pub ready: ReadyRule,
    /// How its diagnostics come.
    pub diagnostics: DiagnosticsRule,
    /// Of which files it is told when others change them.
    pub watch: WatchRule,
    /// How a person gets it.
    pub install: Install,
    /// What the test run last saw working; `None`: written after the project's own pages, never run.
    pub verified: Option<Verified>,
    /// A file that is not there yet can be shown to it as if it were: what it says then is what it would
    /// say of the file.
    pub tries_new_files: bool,
    /// Others that it is shown find such a file too; else they look for it on the disk.
    pub finds_new_files: bool,
    /// Came with the project: its command is shown before it is first run.
    pub from_project: bool,
    /// What it was read from: two of one text are one.
    pub(crate) written: Box<str>,
}

/// A language and its files.
#[derive(Debug, Clone)]
pub struct Language {
    /// `languageId` of LSP.
    pub id: String,
    /// As written: globs over a file's name, or over its whole path if they hold a `/`.
    pub patterns: Vec<String>,
    matcher: GlobSet,
}

/// How the root folder of a file is found.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RootRule {
    /// Names of files or folders that mark a root; `*` may be used.
    #[serde(default)]
    pub markers: Vec<String>,
    /// The same, but below no folder that is marked: of two roots, one within the other, both would answer
    /// for what is in the inner one.
    #[serde(default)]
    pub lone_markers: Vec<String>,
    /// Which marked folder wins.
    #[serde(default)]
    pub prefer: Prefer,
    /// Without a marker the server is not for that file: it would have nothing to say.
    #[serde(default)]
    pub required: bool,
    /// One server works for all roots of a workspace at once, if it takes workspace folders.
    #[serde(default)]
    pub folders: bool,
    /// Files with its settings, each with the dotted keys by which those name the project's files. A folder
    /// with such a file that says nothing is given the settings of a folder above: it is no root where those
    /// name files, which it would take for its own.
    #[serde(default)]
    pub claims: BTreeMap<String, Vec<String>>,
}

/// Which of several marked folders is the root.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prefer {
    /// The one nearest to the file.
    #[default]
    Nearest,
    /// The one nearest to the workspace's root.
    Outermost,
}

/// How a server is started.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandRule {
    /// Programs, the first usable one is taken: names to be searched for, or absolute paths.
    pub candidates: Vec<String>,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Arguments with which a candidate must exit with success before it is used.
    #[serde(default)]
    pub probe: Option<Vec<String>>,
    /// Variables for it.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Variables whose value is the last match of a glob; left out when nothing matches or they are set.
    #[serde(default)]
    pub env_glob: BTreeMap<String, String>,
}

/// A code action that moves a symbol to a file, and where in its command the file is named.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MoveRule {
    /// The action's kind.
    pub kind: String,
    /// The place of the file's path in the command's first argument: `a.b`.
    pub argument: String,
}

/// When a server counts as loaded. All that is given must hold.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadyRule {
    /// It must not be in the middle of work that it reports by `$/progress` of its own accord.
    #[serde(default)]
    pub progress: bool,
    /// With `progress`: how long to wait for such work to begin, from the first opened document.
    #[serde(default)]
    pub grace_ms: u64,
    /// Work whose title holds one of these is none that loads the project.
    #[serde(default)]
    pub besides: Vec<String>,
    /// It has sent a `window/logMessage` that holds one of these.
    #[serde(default)]
    pub log_messages: Vec<String>,
    /// It has sent a request of one of these methods.
    #[serde(default)]
    pub requests: Vec<String>,
    /// It sends notifications of this method …
    #[serde(default)]
    pub status_method: Option<String>,
    /// … and in the last one this field was true.
    #[serde(default)]
    pub status_field: Option<String>,
    /// A field of the same notification that says `ok` while all is well; `error` means that the
    /// project is not loaded and an edit of the server would be half of one.
    #[serde(default)]
    pub status_health: Option<String>,
    /// The field that says why not.
    #[serde(default)]
    pub status_text: Option<String>,
    /// Nothing is opened in it before: what it is given before it has listed the project's files it does not
    /// take for one of them, once it was closed.
    #[serde(default)]
    pub before_opening: bool,
    /// After this long it counts as loaded whatever it says.
    #[serde(default = "default_ready_timeout")]
    pub timeout_s: u64,
}

fn default_ready_timeout() -> u64 {
    60
}

impl Default for ReadyRule {
    fn default() -> Self {
        Self {
            progress: false,
            grace_ms: 0,
            besides: Vec::new(),
            log_messages: Vec::new(),
            requests: Vec::new(),
            status_method: None,
            status_field: None,
            status_health: None,
            status_text: None,
            before_opening: false,
            timeout_s: default_ready_timeout(),
        }
    }
}

impl ReadyRule {
    /// Where the definition says nothing. Of a server that was never tried it is not known how it loads.
    fn of(verified: Option<&Verified>) -> Self {
        match verified {
            Some(_) => Self::default(),
            None => Self { progress: true, grace_ms: 2000, timeout_s: 300, ..Self::default() },
        }
    }

    /// How long to wait for work to begin.
    pub fn grace(&self) -> Duration {
        Duration::from_millis(self.grace_ms)
    }
}

impl DiagnosticsRule {
    /// Where the definition says nothing. Of a server that was never tried it is not known whether what it
    /// pushes first is all: many say at once that nothing is wrong, and look then.
    fn of(verified: Option<&Verified>) -> Self {
        match verified {
            Some(_) => Self::default(),
            None => Self { progress: true, settle_ms: 1000, ..Self::default() },
        }
    }
}

/// Which files are looked at for what other programs did to them, besides those of the server's languages
/// and its root markers, below its root.
#[derive(Debug, Clone, Default)]
pub struct WatchRule {
    /// Those of the whole workspace, not only those below its root.
    pub workspace: bool,
    /// Further files, by their names.
    names: GlobSet,
    /// Files that may be ignored: globs below the root and below each folder from there up to the workspace's.
    pub ignored: Vec<String>,
    /// A command that has it read its projects anew, when files came or went.
    pub command: Option<String>,
    /// When a file came that it had open before it was there, it is told that a marker of the root changed:
    /// else it does not see it.
    pub by_marker: bool,
    /// A question about a file that it fails once it has seen that the file went: it may answer others before.
    pub gone: Option<String>,
    /// Laid over `initialization_options` where all of these files are looked at, and none is beyond the limit.
    pub initialization_options: Option<Value>,
}

impl WatchRule {
    /// Whether a file is one of those that are looked at by name.
    pub fn names(&self, path: &AbsPath) -> bool {
        self.names.is_match(path.file_name())
    }
}

/// How a server's pushed diagnostics are to be taken.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiagnosticsRule {
    /// After a push without a version, how long another may follow that replaces it; with `progress`
    /// after any push, and after the end of the work.
    #[serde(default)]
    pub settle_ms: u64,
    /// What is pushed while the server reports work by `$/progress`, or is about to, is a part.
    #[serde(default)]
    pub progress: bool,
    /// It looks again at a text that is sent again as it is; else the document is closed and opened.
    #[serde(default)]
    pub again_by_change: bool,
    /// It answers `textDocument/diagnostic` without saying that it does: what it pushes is not believed.
    #[serde(default)]
    pub pull: bool,
    /// Pushes without a version are never believed.
    #[serde(default)]
    pub refuse_unversioned: bool,
    /// A push that holds one of these codes is none: files changed while it was made.
    #[serde(default)]
    pub void: Vec<String>,
    /// The `source` of diagnostics that it finds only when a file is saved: what an edit did to them
    /// is not known by its own text.
    #[serde(default)]
    pub on_save: Vec<String>,
    /// Codes by which it says that a file is none of its project's: it finds nothing else in it.
    #[serde(default)]
    pub disowns: Vec<String>,
    /// How it is asked whether a text is clean, since it tells nothing when nothing changes.
    #[serde(default)]
    pub clean: Option<CleanRule>,
    /// How it says that it works on a file, and that it is done with it.
    #[serde(default)]
    pub busy: Option<BusyRule>,
    /// A request that it answers when it has told all there is to tell of what it was sent: what it tells of a
    /// changed text before that may be made with other files as they were.
    #[serde(default)]
    pub done: Option<String>,
    /// How it is made to read anew what a text includes.
    #[serde(default)]
    pub anew: Option<AnewRule>,
    /// How it is asked to look for what it finds only when a file is saved.
    #[serde(default)]
    pub check: Option<CheckRule>,
}

/// A notification that has a server look at the files on the disk, for the sources of `on_save`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckRule {
    /// Its method.
    pub method: String,
    /// What it is given.
    #[serde(default = "empty")]
    pub params: Value,
    /// The tokens of the work that it reports meanwhile begin so.
    pub progress: String,
    /// How long after the end of that work it may still publish what it found.
    #[serde(default)]
    pub settle_ms: u64,
}

/// How a server that keeps what a text includes as it once read it is made to read that anew.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnewRule {
    /// Further fields of `textDocument/didChange`.
    pub params: serde_json::Map<String, Value>,
    /// How the names of files end whose changes do not call for it: others do not include them.
    #[serde(default)]
    pub apart: Vec<String>,
}

/// A notification of a server about what it does with one file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BusyRule {
    /// Its method.
    pub method: String,
    /// The field that holds the file's URI.
    pub file: String,
    /// The field that says what is done …
    pub field: String,
    /// … and what it holds when nothing is.
    pub idle: Value,
}

/// A command of a server that says what is wrong with the text as it is.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CleanRule {
    /// Its name.
    pub command: String,
    /// What it is given each time it is run; `${file}` is the path.
    pub arguments: Vec<Vec<Value>>,
    /// The field of its answer that holds the list. When all are empty, the text is clean.
    pub field: String,
    /// The field of a problem in it that is the `code` of the published one: what is published is a
    /// part as long as one of those that `errors` describes is missing.
    #[serde(default)]
    pub code: Option<String>,
    /// Fields, and what they hold in those that must be published.
    #[serde(default)]
    pub errors: BTreeMap<String, Value>,
}

/// What the test run last saw working; only it writes this.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verified {
    /// The server's version.
    pub version: String,
    /// The day, `YYYY-MM-DD`.
    pub date: String,
    /// The test.
    pub how: String,
}

/// Why a definition file cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{origin}: {reason}")]
pub struct DefinitionError {
    /// The file, or `built in: NAME`.
    pub origin: String,
    /// What is wrong.
    pub reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    format: Option<u64>,
    name: String,
    #[serde(default)]
    about: String,
    #[serde(default)]
    group: Option<String>,
    #[serde(default)]
    rank: u32,
    languages: Vec<FileLanguage>,
    #[serde(default)]
    root: RootRule,
    #[serde(default)]
    opens_holders: bool,
    #[serde(default)]
    waits_for_holders: bool,
    #[serde(default)]
    names_holders_left: bool,
    #[serde(default)]
    opens_saved: bool,
    #[serde(default)]
    formats_by_range: bool,
    #[serde(default)]
    tries_new_files: bool,
    #[serde(default)]
    finds_new_files: bool,
    #[serde(default)]
    needs: BTreeMap<Feature, Vec<String>>,
    #[serde(default)]
    moves_within_folder: bool,
    #[serde(default)]
    twins: Vec<Vec<String>>,
    #[serde(default)]
    move_symbol: Option<MoveRule>,
    command: CommandRule,
    #[serde(default)]
    features: Option<BTreeMap<Feature, u8>>,
    #[serde(default)]
    initialization_options: Option<Value>,
    #[serde(default)]
    settings: Option<Value>,
    #[serde(default)]
    client_capabilities: Option<Value>,
    #[serde(default)]
    ready: Option<ReadyRule>,
    #[serde(default)]
    diagnostics: Option<DiagnosticsRule>,
    #[serde(default)]
    watch: FileWatch,
    install: FileInstall,
    #[serde(default)]
    verified: Option<FileVerified>,
}

/// `verified = false`, or what was seen.
#[derive(Deserialize)]
#[serde(untagged)]
enum FileVerified {
    Never(bool),
    Seen(Verified),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FileWatch {
    workspace: bool,
    files: Vec<String>,
    ignored: Vec<String>,
    command: Option<String>,
    by_marker: bool,
    gone: Option<String>,
    initialization_options: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileLanguage {
    id: String,
    patterns: Vec<String>,
}

impl ServerDefinition {
    /// Reads a definition. `origin` names the file in errors.
    ///
    /// # Errors
    /// [`DefinitionError`] for a newer format, an unknown key, a bad glob, or no candidate to start.
    pub fn parse(text: &str, origin: &str, from_project: bool) -> Result<Self, DefinitionError> {
        let bad = |reason: String| DefinitionError { origin: origin.to_owned(), reason };
        let file: File = match toml::from_str(text) {
            Ok(file) => file,
            Err(error) => {
                // A newer file may have keys that are refused here: then its format is the reason.
                let table: Option<toml::Table> = toml::from_str(text).ok();
                let found = table.and_then(|table| table.get("format")?.as_integer());
                return Err(bad(match found.filter(|found| *found > FORMAT as i64) {
                    Some(found) => newer(found),
                    None => error.to_string(),
                }));
            }
        };
        if let Some(found) = file.format.filter(|found| *found > FORMAT) {
            return Err(bad(newer(found)));
        }
        if file.command.candidates.is_empty() {
            return Err(bad("command.candidates is empty; name a program".to_owned()));
        }
        let verified = match file.verified {
            None | Some(FileVerified::Never(false)) => None,
            Some(FileVerified::Seen(verified)) => Some(verified),
            Some(FileVerified::Never(true)) => {
                return Err(bad("verified is false, or {version, date, how}".to_owned()));
            }
        };
        let languages = file
            .languages
            .into_iter()
            .map(|FileLanguage { id, patterns }| {
                let matcher = globs(&patterns).map_err(|error| bad(error.to_string()))?;
                Ok(Language { id, patterns, matcher })
            })
            .collect::<Result<_, DefinitionError>>()?;
        let watch = WatchRule {
            workspace: file.watch.workspace,
            names: globs(&file.watch.files).map_err(|error| bad(error.to_string()))?,
            ignored: file.watch.ignored,
            command: file.watch.command,
            by_marker: file.watch.by_marker,
            gone: file.watch.gone,
            initialization_options: file.watch.initialization_options.map(unfold),
        };
        Ok(Self {
            written: text.into(),
            name: file.name,
            about: file.about,
            group: file.group,
            rank: file.rank,
            languages,
            root: file.root,
            opens_holders: file.opens_holders,
            waits_for_holders: file.waits_for_holders,
            names_holders_left: file.names_holders_left,
            opens_saved: file.opens_saved,
            formats_by_range: file.formats_by_range,
            tries_new_files: file.tries_new_files,
            finds_new_files: file.finds_new_files,
            needs: file.needs,
            moves_within_folder: file.moves_within_folder,
            twins: file.twins,
            move_symbol: file.move_symbol,
            command: file.command,
            features: file.features,
            initialization_options: file.initialization_options.map(unfold),
            settings: unfold(file.settings.unwrap_or_else(empty)),
            client_capabilities: file.client_capabilities.unwrap_or_else(empty),
            ready: file.ready.unwrap_or_else(|| ReadyRule::of(verified.as_ref())),
            diagnostics: file.diagnostics.unwrap_or_else(|| DiagnosticsRule::of(verified.as_ref())),
            watch,
            install: file.install.check().map_err(bad)?,
            verified,
            from_project,
        })
    }

    /// How long work that it began may go on without a word before it is not waited for any more.
    pub(crate) fn longest_silence(&self) -> Duration {
        Duration::from_secs(self.ready.timeout_s).min(LONGEST_SILENCE)
    }

    /// The `languageId` of a file; `None` when this server does not speak its language.
    pub fn language_id(&self, path: &Path) -> Option<&str> {
        let name = path.file_name()?;
        self.languages
            .iter()
            .find(|language| language.matcher.is_match(name) || language.matcher.is_match(path))
            .map(|language| language.id.as_str())
    }

    /// How good it is at `feature`; 0: it is not to be asked.
    pub fn priority(&self, feature: Feature) -> u8 {
        match &self.features {
            None => 50,
            Some(features) => {
                let own = features.get(&feature);
                let like = || feature.like().and_then(|like| features.get(&like));
                own.or_else(like).copied().unwrap_or(0)
            }
        }
    }
}

fn newer(found: impl std::fmt::Display) -> String {
    format!("has format {found}, this program knows up to {FORMAT}; use a newer Pilcrow")
}

fn globs(patterns: &[String]) -> Result<GlobSet, globset::Error> {
    let mut builder = GlobSetBuilder::new();
    for pattern in patterns {
        builder.add(Glob::new(pattern)?);
    }
    builder.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "name = \"s\"\n[[languages]]\nid = \"x\"\npatterns = [\"*.x\", \"**/conf/*\"]\n\
        [command]\ncandidates = [\"s\"]\n[install]\nhow = \"page\"\ncommand = \"read it\"\n";

    #[test]
    fn languages_are_found_by_name_or_path() {
        let definition = ServerDefinition::parse(SMALL, "s.toml", false).unwrap();
        let id = |path: &str| definition.language_id(Path::new(path)).map(str::to_owned);
        assert_eq!(id("/a/b.x"), Some("x".into()));
        assert_eq!(id("/a/conf/any"), Some("x".into()));
        assert_eq!(id("/a/b.xy"), None);
        assert_eq!(definition.priority(Feature::Rename), 50);
    }

    #[test]
    fn who_was_never_tried_is_not_believed_at_once_unless_the_definition_says_so() {
        let rules = |more: &str| {
            let it = ServerDefinition::parse(&format!("{SMALL}{more}"), "s.toml", false).unwrap();
            (it.ready.progress, it.ready.grace_ms, it.diagnostics.progress, it.diagnostics.settle_ms)
        };
        assert_eq!(rules(""), (true, 2000, true, 1000));
        assert_eq!(rules("[ready]\n[diagnostics]\n"), (false, 0, false, 0));
        assert_eq!(rules("[ready]\ngrace_ms = 1\n"), (false, 1, true, 1000));
        let tried = "verified = { version = \"1\", date = \"2026-11-23\", how = \"x\" }\n";
        let it = ServerDefinition::parse(&format!("{tried}{SMALL}"), "s.toml", false).unwrap();
        assert!(!it.ready.progress && it.diagnostics.settle_ms == 0);
    }

    #[test]
    fn a_feature_that_is_not_listed_counts_as_the_one_it_is_like() {
        let text = format!("{SMALL}[features]\ndefinition = 70\nimplementation = 3\ncode_action = 20\n");
        let definition = ServerDefinition::parse(&text, "s.toml", false).unwrap();
        let numbers = [Feature::TypeDefinition, Feature::Implementation, Feature::FixAll, Feature::Hover]
            .map(|feature| definition.priority(feature));
        assert_eq!(numbers, [70, 3, 20, 0]);
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_its_name() {
        let refuse = |text: &str| ServerDefinition::parse(text, "s.toml", false).unwrap_err().to_string();
        let newer = format!("format = 2\nnews = 1\n{SMALL}");
        assert_eq!(refuse(&newer), "s.toml: has format 2, this program knows up to 1; use a newer Pilcrow");
        assert!(refuse(&format!("nmae = 1\n{SMALL}")).contains("nmae"));
        let none = SMALL.replace("[\"s\"]", "[]");
        assert_eq!(refuse(&none), "s.toml: command.candidates is empty; name a program");
    }
}
