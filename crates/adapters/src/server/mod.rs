//! Definitions of language servers, as data: one TOML file each.
//!
//! `docs/formats/server-definition.md` has the format.
//!
//! Reads no files. Invariants: no code selects a server by its name; a server's peculiarity is a key of its
//! definition.

mod feature;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use paths::AbsPath;
use regex::Regex;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::definitions::{BuiltIn, Definition, Definitions, Parse, Summary};
use crate::format::{self, DefinitionError, Globs, OldKeys, Verified, verified};
use crate::install::{Install, exact};
use crate::values::{empty, unfold};

pub use feature::Feature;

/// Longest silence of work in progress during which answers wait for it.
const LONGEST_SILENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerDefinition {
    /// Unique name; the file's name without `.toml`.
    pub name: String,
    /// Description for users in one line.
    #[serde(default)]
    pub about: String,
    /// Group of alternative servers: a file uses the first installed one.
    pub group: Option<String>,
    /// Order within the group, lowest first.
    #[serde(default)]
    pub rank: u32,
    pub languages: Vec<Language>,
    /// Rule that finds the root directory of a file.
    #[serde(default)]
    pub root: RootRule,
    /// Whether the server finds uses only in open files and files of its own project.
    ///
    /// Before a rename, Pilcrow opens the files that contain the name. For other requests it opens those
    /// that the server's first answer lacks.
    #[serde(default)]
    pub open_candidates: bool,
    /// Whether Pilcrow waits for diagnostics of an opened file before a request.
    #[serde(default)]
    pub await_candidates: bool,
    /// Whether a note lists files with the name that are missing from the answer.
    #[serde(default)]
    pub report_missed_candidates: bool,
    /// Whether a document opens with the text on the disk, followed by unsaved changes.
    #[serde(default)]
    pub open_saved_text: bool,
    /// Methods that Pilcrow never cancels, because the server would fail permanently.
    #[serde(default)]
    pub uncancellable_requests: Vec<String>,
    /// Texts of errors after which Pilcrow restarts the server: it fails permanently.
    #[serde(default)]
    pub restart_errors: Vec<String>,
    /// Whether Pilcrow formats a whole file as the range of all its lines.
    #[serde(default)]
    pub format_by_range: bool,
    /// Programs that the server calls for a feature, of which it needs one.
    ///
    /// An empty list disables the feature.
    #[serde(default)]
    pub requires: BTreeMap<Feature, Vec<String>>,
    /// Whether the server updates references to a moved file only within its directory.
    ///
    /// Pilcrow refuses other moves.
    #[serde(default)]
    pub moves_within_directory: bool,
    /// Extensions of a module and its stub (`py` and `pyi`).
    #[serde(default)]
    pub stub_extensions: Vec<Vec<String>>,
    /// Pattern of the type in the name of an outline entry with members.
    ///
    /// The entry's children are the members.
    ///
    /// The first group is the type: `impl Trait for Type` gives `Type.member` as a member's path.
    #[serde(default, deserialize_with = "pattern")]
    pub container_pattern: Option<Regex>,
    /// Stems of files that represent their directory, such as `__init__`.
    #[serde(default)]
    pub directory_modules: Vec<String>,
    /// Rule for passing the target of a symbol's move to the server.
    pub move_symbol: Option<MoveRule>,
    /// The version of the language that the server uses for all packages.
    pub language_version: Option<LanguageVersionRule>,
    pub command: CommandRule,
    /// Paths below the root that the server changes itself; `.` for the whole root.
    ///
    /// A directory's name ends with `/`, and is created if it is missing.
    ///
    /// The sandbox denies it other changes of the project.
    #[serde(default)]
    pub writes: Vec<String>,
    /// The priority of each feature, 1 to 100. `None`: every feature at 50.
    pub features: Option<BTreeMap<Feature, u8>>,
    /// `initializationOptions`, with dotted keys unfolded.
    #[serde(default, deserialize_with = "unfolded")]
    pub initialization_options: Option<Value>,
    /// The answer to `workspace/configuration`, with dotted keys unfolded.
    #[serde(default = "empty", deserialize_with = "unfolded_value")]
    pub settings: Value,
    /// Whether the server requests its settings.
    ///
    /// A notification of them would make it load the project twice.
    #[serde(default)]
    pub pull_settings: bool,
    /// Capabilities merged over Pilcrow's own client capabilities.
    #[serde(default = "empty")]
    pub client_capabilities: Value,
    /// Conditions under which the server has loaded its project.
    #[serde(default)]
    pub ready: ReadyRule,
    /// Rules by which Pilcrow interprets its diagnostics.
    #[serde(default)]
    pub diagnostics: DiagnosticsRule,
    /// Changes by other programs that Pilcrow reports to it.
    #[serde(default)]
    pub watch: WatchRule,
    #[serde(deserialize_with = "exact")]
    pub install: Install,
    /// The versions that last passed the tests.
    ///
    /// `None` if the definition was written from documentation and never run.
    #[serde(default, deserialize_with = "verified")]
    pub verified: Option<Verified>,
    /// Whether the server can check a file before it is written.
    #[serde(default)]
    pub checks_new_files: bool,
    /// Whether other open files find such a file too; else imports resolve on the disk.
    #[serde(default)]
    pub resolves_new_files: bool,
    /// Whether the project defines it.
    ///
    /// Pilcrow then shows its command before the first run.
    #[serde(skip)]
    pub from_project: bool,
    /// Text of the file, by which definitions are compared.
    #[serde(skip)]
    source: Box<str>,
}

fn pattern<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Regex>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let pattern = Regex::new(&text).map_err(D::Error::custom)?;
    match pattern.captures_len() {
        2 => Ok(Some(pattern)),
        _ => Err(D::Error::custom("the pattern needs one group")),
    }
}

/// A language and its files.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Language {
    /// Language id of LSP, `languageId`.
    pub id: String,
    /// Globs over a file's name, or over its whole path if they contain a `/`.
    pub patterns: Globs,
}

/// Rule that finds the root directory of a file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RootRule {
    /// Names of files or directories that mark a root; `*` is allowed.
    pub markers: Vec<String>,
    /// Markers that count only below no marked directory.
    ///
    /// Otherwise two nested roots would both answer for the files of the inner one.
    pub fallback_markers: Vec<String>,
    /// Choice among several marked directories.
    pub prefer: Prefer,
    /// Whether the server needs a marked root.
    pub required: bool,
    /// Whether one server serves all roots as workspace folders, if it supports them.
    pub workspace_folders: bool,
    /// Settings files, each with the dotted keys that list the project's files.
    ///
    /// A directory whose settings file has none of these tables inherits the settings of a directory above.
    /// If those list files, the directory is not a root, because the server would treat the files as its own.
    pub include_keys: BTreeMap<String, Vec<String>>,
}

/// The choice of the root among several marked directories.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prefer {
    /// The marked directory nearest to the file.
    #[default]
    Nearest,
    /// The marked directory nearest to the workspace's root.
    Outermost,
}

/// The command that starts a server.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandRule {
    /// Program names or absolute paths; the first usable one is started.
    pub candidates: Vec<String>,
    #[serde(default)]
    pub args: Vec<String>,
    /// Arguments with which a candidate must exit with success before it is used.
    pub probe: Option<Vec<String>>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Variables with the last match of a glob as value.
    ///
    /// Pilcrow omits a variable that is already set or whose glob matches nothing.
    #[serde(default)]
    pub env_glob: BTreeMap<String, String>,
}

/// A code action that moves a symbol, and the argument that names the target file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MoveRule {
    pub kind: String,
    /// The path to the file in the command's first argument: `a.b`.
    pub argument: String,
}

/// The version of the language that a server uses for all packages.
///
/// A package may have another one installed.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LanguageVersionRule {
    /// Method of the notification of the version, and its field.
    pub notification: String,
    pub field: String,
    /// Path in a package of the JSON file whose `version` is the installed one.
    pub manifest: String,
}

/// Conditions under which a server counts as loaded; all given ones must hold.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReadyRule {
    /// Whether loading lasts while work that the server started itself is under way.
    ///
    /// The server reports such work by `$/progress`.
    pub progress: bool,
    /// Time in ms in which work of `progress` must begin, from the first open document.
    pub grace_ms: u64,
    /// Texts in the titles of work that does not count as loading.
    pub ignored_progress: Vec<String>,
    /// Texts in the titles of work that reports an error; answers do not wait for it.
    pub error_progress: Vec<String>,
    /// Texts of which the server must have sent one in a `window/logMessage`.
    pub log_messages: Vec<String>,
    /// Methods of which the server must have sent a request.
    pub requests: Vec<String>,
    /// Method of the server's status notifications.
    pub status_method: Option<String>,
    /// Field of the status that is true once the server has loaded.
    pub status_field: Option<String>,
    /// Field of the status that is `ok` while the project is loaded.
    ///
    /// `error` means that the project is not loaded and that edits of the server would be incomplete.
    pub status_health: Option<String>,
    /// Field of the status with the reason.
    pub status_text: Option<String>,
    /// Whether documents are opened only after the server has loaded.
    ///
    /// A server that has not listed the project's files yet would not count an opened document among them
    /// after it is closed.
    pub delay_open: bool,
    /// The time after which the server counts as loaded in any case.
    pub timeout_s: u64,
}

impl Default for ReadyRule {
    fn default() -> Self {
        Self {
            progress: false,
            grace_ms: 0,
            ignored_progress: Vec::new(),
            error_progress: Vec::new(),
            log_messages: Vec::new(),
            requests: Vec::new(),
            status_method: None,
            status_field: None,
            status_health: None,
            status_text: None,
            delay_open: false,
            timeout_s: 60,
        }
    }
}

impl ReadyRule {
    /// Returns the rule for a server that was never run.
    fn cautious() -> Self {
        Self { progress: true, grace_ms: 2000, timeout_s: 300, ..Self::default() }
    }

    /// Returns how long to wait for work to begin.
    pub fn grace(&self) -> Duration {
        Duration::from_millis(self.grace_ms)
    }
}

impl DiagnosticsRule {
    /// Returns the rule for a server that was never run.
    ///
    /// Many servers publish an empty list first and check afterwards.
    fn cautious() -> Self {
        Self { progress: true, debounce_ms: 1000, ..Self::default() }
    }
}

/// Files below the root to watch for changes by other programs.
///
/// Pilcrow always watches the server's languages and root markers.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WatchRule {
    /// Whether to watch the whole workspace, not only files below the server's root.
    pub workspace: bool,
    /// Globs over the names of further files.
    files: Globs,
    /// Globs of ignored files to watch too, below the root and each directory above it.
    pub include_ignored: Vec<String>,
    /// Command that reloads the server's projects after files appear or disappear.
    pub reload_command: Option<String>,
    /// Whether the server finds a new file that is open only after a marker changes.
    pub touch_marker: bool,
    /// Request about a file that fails once the server has noticed its deletion.
    pub deletion_probe: Option<String>,
    /// Options merged over `initialization_options` if all watched files fit the limit.
    #[serde(deserialize_with = "unfolded")]
    pub initialization_options: Option<Value>,
}

impl WatchRule {
    /// Whether the rule watches a file because of its name.
    pub fn names(&self, path: &AbsPath) -> bool {
        self.files.is_match(path.file_name())
    }
}

/// Rules for the published diagnostics of a server.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DiagnosticsRule {
    /// Time in which another publish may follow one without a version, in ms.
    ///
    /// With `progress` it may follow any publish, from the end of the work.
    pub debounce_ms: u64,
    /// Whether diagnostics published during work that `$/progress` reports are partial.
    pub progress: bool,
    /// Whether the server answers `textDocument/diagnostic` without announcing it.
    ///
    /// It may publish partial diagnostics.
    pub pull: bool,
    /// Whether Pilcrow ignores diagnostics without a version.
    pub require_version: bool,
    /// Codes for which Pilcrow ignores a publish, since files changed meanwhile.
    pub discard_codes: Vec<String>,
    /// Value of `source` of diagnostics that the server finds only in saved files.
    ///
    /// Pilcrow does not attribute them to an edit.
    pub on_save: Vec<String>,
    /// Codes of warnings that depend on the order in which the server infers types.
    ///
    /// Pilcrow does not attribute them to an edit.
    #[serde(default)]
    pub inferred_codes: Vec<String>,
    /// Endings of messages that are not part of the problem and come and go.
    pub message_suffixes: Vec<String>,
    /// Codes, or prefixes of messages, for a file that belongs to no project.
    ///
    /// The server then checks nothing else in it.
    pub outside_project_codes: Vec<String>,
    /// Command that checks a text that did not change.
    ///
    /// Servers that publish nothing when nothing changes need it.
    pub clean: Option<CleanRule>,
    /// Notification about the server's work on one file.
    pub file_status: Option<FileStatusRule>,
    /// Request that the server answers after it has published everything.
    ///
    /// Diagnostics that it publishes for a changed text before that may be based on old texts of other files.
    pub barrier_request: Option<String>,
    /// The way to make the server check an unchanged text again.
    ///
    /// By default Pilcrow closes and opens the document.
    #[serde(default, deserialize_with = "recheck")]
    pub recheck: Option<RecheckRule>,
    /// Request for the diagnostics of `on_save`.
    pub check: Option<CheckRule>,
}

/// A notification that starts a check of saved files, for the sources of `on_save`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckRule {
    pub method: String,
    #[serde(default = "empty")]
    pub params: Value,
    /// Prefix of the progress tokens of that check.
    pub progress: String,
    /// Time after the end of the check in which the server may still publish, in ms.
    #[serde(default)]
    pub debounce_ms: u64,
}

/// The way in which a server checks an unchanged text again.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RecheckRule {
    /// Fields of `textDocument/didChange` that make it read included files again.
    ///
    /// If another file changed, the client sends the text again with them before it trusts the diagnostics.
    pub params: serde_json::Map<String, Value>,
    /// Endings of the names of files that no other file includes.
    pub unaffected_extensions: Vec<String>,
}

/// Parses `recheck = true`, or a table.
fn recheck<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RecheckRule>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form {
        Flag(bool),
        Rule(RecheckRule),
    }
    Ok(match Form::deserialize(deserializer)? {
        Form::Flag(flag) => flag.then(RecheckRule::default),
        Form::Rule(rule) => Some(rule),
    })
}

/// A notification about the server's work on one file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileStatusRule {
    pub method: String,
    /// Field that holds the file's URI.
    pub file: String,
    /// Field that holds the status.
    pub field: String,
    /// Status of a server that is idle.
    pub idle: Value,
}

/// A command that lists the problems of the current text.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CleanRule {
    pub command: String,
    /// Arguments of each run; `${file}` is the path.
    pub arguments: Vec<Vec<Value>>,
    /// Field of the answer with the list; if all are empty, the text is clean.
    pub field: String,
    /// Field of a listed problem with the `code` of its published diagnostic.
    ///
    /// Published diagnostics are partial while the code of a problem that `errors` describes is missing.
    pub code: Option<String>,
    /// Fields and their values in the problems that must be published.
    #[serde(default)]
    pub errors: BTreeMap<String, Value>,
}

/// Keys that format 1 named differently.
const OLD_KEYS: OldKeys = &[
    ("", "opens_holders", "open_candidates"),
    ("", "waits_for_holders", "await_candidates"),
    ("", "names_holders_left", "report_missed_candidates"),
    ("", "opens_saved", "open_saved_text"),
    ("", "tries_new_files", "checks_new_files"),
    ("", "finds_new_files", "resolves_new_files"),
    ("", "formats_by_range", "format_by_range"),
    ("", "moves_within_folder", "moves_within_directory"),
    ("", "twins", "stub_extensions"),
    ("", "needs", "requires"),
    ("root", "lone_markers", "fallback_markers"),
    ("root", "folders", "workspace_folders"),
    ("root", "claims", "include_keys"),
    ("ready", "besides", "ignored_progress"),
    ("ready", "before_opening", "delay_open"),
    ("diagnostics", "again_by_change", "recheck"),
    ("diagnostics", "settle_ms", "debounce_ms"),
    ("diagnostics", "anew", "recheck"),
    ("diagnostics", "void", "discard_codes"),
    ("diagnostics", "disowns", "outside_project_codes"),
    ("diagnostics", "busy", "file_status"),
    ("diagnostics", "done", "barrier_request"),
    ("diagnostics", "refuse_unversioned", "require_version"),
    ("diagnostics.check", "settle_ms", "debounce_ms"),
    ("diagnostics.recheck", "apart", "unaffected_extensions"),
    ("watch", "ignored", "include_ignored"),
    ("watch", "command", "reload_command"),
    ("watch", "by_marker", "touch_marker"),
    ("watch", "gone", "deletion_probe"),
];

/// Keys whose absence selects the cautious rules for an untested server.
#[derive(Deserialize)]
struct GivenRules {
    ready: Option<serde::de::IgnoredAny>,
    diagnostics: Option<serde::de::IgnoredAny>,
}

fn unfolded<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Ok(Option::<Value>::deserialize(deserializer)?.map(unfold))
}

fn unfolded_value<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    Value::deserialize(deserializer).map(unfold)
}

impl Parse for ServerDefinition {
    fn parse(text: &str, origin: &str, from_project: bool) -> Result<Self, DefinitionError> {
        let mut definition: Self = format::parse(text, origin, OLD_KEYS)?;
        format::check_candidates(&definition.command.candidates, origin)?;
        // Nothing is known about how an untested server loads and publishes.
        if definition.verified.is_none() {
            let given: GivenRules = format::parse(text, origin, OLD_KEYS)?;
            if given.ready.is_none() {
                definition.ready = ReadyRule::cautious();
            }
            if given.diagnostics.is_none() {
                definition.diagnostics = DiagnosticsRule::cautious();
            }
        }
        (definition.from_project, definition.source) = (from_project, text.into());
        Ok(definition)
    }
}

impl Definition for ServerDefinition {
    const DIRECTORY: &'static str = "servers";

    fn summary(&self) -> Summary<'_> {
        Summary {
            name: &self.name,
            about: &self.about,
            group: self.group.as_deref(),
            rank: self.rank,
            install: &self.install,
            programs: &self.command.candidates,
            verified: self.verified.as_ref(),
            from_project: self.from_project,
        }
    }

    fn covers(&self, path: &Path) -> bool {
        self.language_id(path).is_some()
    }

    fn built_in() -> &'static [BuiltIn<Self>] {
        &crate::SERVERS
    }

    fn source(&self) -> &str {
        &self.source
    }
}

impl Definitions<ServerDefinition> {
    /// Lists the servers for `feature` of a file, best first; in a group by rank.
    pub fn for_feature(&self, path: &Path, feature: Feature) -> Vec<std::sync::Arc<ServerDefinition>> {
        let mut found = self.for_path(path);
        found.retain(|definition| definition.priority(feature) > 0);
        found.sort_by_key(|definition| {
            (std::cmp::Reverse(definition.priority(feature)), definition.rank, definition.name.clone())
        });
        found
    }
}

impl ServerDefinition {
    /// Returns how long work may be silent before Pilcrow stops waiting for it.
    pub fn longest_silence(&self) -> Duration {
        Duration::from_secs(self.ready.timeout_s).min(LONGEST_SILENCE)
    }

    /// Returns the `languageId` of a file; `None` if the server does not support it.
    pub fn language_id(&self, path: &Path) -> Option<&str> {
        let name = path.file_name()?;
        self.languages
            .iter()
            .find(|language| language.patterns.is_match(name) || language.patterns.is_match(path))
            .map(|language| language.id.as_str())
    }

    /// Whether the server knows the types of its language.
    ///
    /// Judged by the feature `definition`, which a linter does not offer.
    pub fn types(&self) -> bool {
        self.priority(Feature::Definition) > 0
    }

    /// The priority of the server for `feature`; 0 disables it.
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

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "name = \"s\"\n[[languages]]\nid = \"x\"\npatterns = [\"*.x\", \"**/conf/*\"]\n\
        [command]\ncandidates = [\"s\"]\n[install]\nhow = \"page\"\ncommand = \"read it\"\n";

    #[test]
    fn languages_match_by_name_or_path() {
        let definition = ServerDefinition::parse(SMALL, "s.toml", false).unwrap();
        let id = |path: &str| definition.language_id(Path::new(path)).map(str::to_owned);
        assert_eq!(id("/a/b.x"), Some("x".into()));
        assert_eq!(id("/a/conf/any"), Some("x".into()));
        assert_eq!(id("/a/b.xy"), None);
        assert_eq!(definition.priority(Feature::Rename), 50);
    }

    #[test]
    fn an_unverified_server_gets_the_cautious_rules() {
        let rules = |more: &str| {
            let it = ServerDefinition::parse(&format!("{SMALL}{more}"), "s.toml", false).unwrap();
            (it.ready.progress, it.ready.grace_ms, it.diagnostics.progress, it.diagnostics.debounce_ms)
        };
        assert_eq!(rules(""), (true, 2000, true, 1000));
        assert_eq!(rules("[ready]\n[diagnostics]\n"), (false, 0, false, 0));
        assert_eq!(rules("[ready]\ngrace_ms = 1\n"), (false, 1, true, 1000));
        let tried = "verified = { version = \"1\", date = \"2026-11-23\", how = \"x\" }\n";
        let it = ServerDefinition::parse(&format!("{tried}{SMALL}"), "s.toml", false).unwrap();
        assert!(!it.ready.progress && it.diagnostics.debounce_ms == 0);
    }

    #[test]
    fn an_unlisted_feature_has_the_priority_of_a_similar_one() {
        let text = format!("{SMALL}[features]\ndefinition = 70\nimplementation = 3\ncode_action = 20\n");
        let definition = ServerDefinition::parse(&text, "s.toml", false).unwrap();
        let numbers = [Feature::TypeDefinition, Feature::Implementation, Feature::FixAll, Feature::Hover]
            .map(|feature| definition.priority(feature));
        assert_eq!(numbers, [70, 3, 20, 0]);
    }

    #[test]
    fn an_invalid_definition_is_refused_with_its_origin() {
        let refuse = |text: &str| ServerDefinition::parse(text, "s.toml", false).unwrap_err().to_string();
        let newer = format!("format = 3\nnews = 1\n{SMALL}");
        assert_eq!(refuse(&newer), "s.toml: has format 3; this version reads up to 2; use a newer Pilcrow");
        assert!(refuse(&format!("nmae = 1\n{SMALL}")).contains("nmae"));
        let none = SMALL.replace("[\"s\"]", "[]");
        assert_eq!(refuse(&none), "s.toml: command.candidates is empty; name a program");
    }
}
