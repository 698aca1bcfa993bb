//! A scenario directory as a value: its texts, byte for byte, and its `case.toml`.

use std::collections::BTreeMap;
use std::path::Path;

use hashline::Limits;
use serde::Deserialize;

/// Texts by path.
pub type Files = BTreeMap<String, String>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The purpose of the case, one sentence.
    #[serde(rename = "why")]
    _why: String,
    /// Rules and hazards, by their names in `rules.toml`.
    pub covers: Vec<String>,
    /// The path of single texts; its extension decides the grammar.
    #[serde(default = "default_path")]
    pub path: String,
    /// Reason of the expected refusal; otherwise `expected` must exist.
    pub refused: Option<String>,
    pub strategy: Option<String>,
    /// Kinds of notes that must occur.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Whether no note may occur.
    #[serde(default)]
    pub no_notes: bool,
    /// Whether a note must occur.
    #[serde(default)]
    pub some_note: bool,
    /// Parts of the rendered notes and outcome, or refusal.
    #[serde(default)]
    pub says: Vec<String>,
    /// Parts that must not be rendered.
    #[serde(default)]
    pub never_says: Vec<String>,
    #[serde(default)]
    pub options: Options,
    /// Whether the change from snapshot to current is recorded as the editor's typing.
    #[serde(default)]
    pub typed: bool,
    /// The state of the current text: `missing`, `not_utf8` or `too_large`.
    pub current_is: Option<String>,
    #[serde(default, rename = "step")]
    pub steps: Vec<Step>,
    #[serde(default)]
    make: BTreeMap<String, Make>,
    #[serde(skip)]
    texts: BTreeMap<String, Files>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Whether lines are shown without checks.
    pub no_checks: bool,
    pub dialect: Option<String>,
    /// Whether `edit.parse_regression` is `refuse`.
    pub refuse_parse_regression: bool,
    limits: LimitsOf,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LimitsOf {
    paths: Option<usize>,
    versions: Option<usize>,
    bytes: Option<usize>,
}

impl Options {
    pub fn limits(&self) -> Limits {
        let default = Limits::default();
        Limits {
            paths: self.limits.paths.unwrap_or(default.paths),
            versions: self.limits.versions.unwrap_or(default.versions),
            bytes: self.limits.bytes.unwrap_or(default.bytes),
        }
    }
}

/// Events before the patch, one per step.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    /// The path, if not the case's.
    pub path: Option<String>,
    /// Lines to show; an empty list means all of them.
    pub read: Option<Vec<[usize; 2]>>,
    /// Text that another program writes.
    pub write: Option<String>,
    /// Text with which a user ends after typing; the editor records the edit.
    pub typed: Option<String>,
    /// Patch to apply; its outcome is recorded and shown.
    pub edit: Option<String>,
    /// The text read back after the edit, if not the planned one.
    pub read_back: Option<String>,
    /// Patch that must be refused for the reason in `reason`.
    pub refuse: Option<String>,
    pub reason: Option<String>,
}

/// Generator of a text that is too long to write out.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Make {
    /// Content of each line; `{n}` is its number.
    row: Option<String>,
    #[serde(default)]
    rows: usize,
    /// Name of another text to use instead.
    of: Option<String>,
    /// Replacements in that text, each of its only occurrence.
    #[serde(default)]
    replace: Vec<[String; 2]>,
}

fn default_path() -> String {
    "f.txt".to_owned()
}

impl Case {
    pub fn read(directory: &Path) -> Result<Case, String> {
        let read = |path: &Path| {
            let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
            String::from_utf8(bytes).map_err(|_| format!("{}: not UTF-8", path.display()))
        };
        let mut case: Case = toml::from_str(&read(&directory.join("case.toml"))?)
            .map_err(|error| format!("case.toml: {error}"))?;
        for entry in std::fs::read_dir(directory).map_err(|error| error.to_string())? {
            let path = entry.map_err(|error| error.to_string())?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name == "case.toml" {
                continue;
            }
            let mut files = Files::new();
            if path.is_dir() {
                collect(&path, "", &mut files, &read)?;
            } else {
                files.insert(case.path.clone(), read(&path)?);
            }
            case.texts.insert(name, files);
        }
        // Texts derive from an existing one, in order: `expected` from `current` from `snapshot`.
        let mut left: Vec<(&String, &Make)> = case.make.iter().collect();
        while !left.is_empty() {
            let before = left.len();
            left.retain(|(name, make)| match make.text(&case.texts, &case.path) {
                Some(text) => {
                    case.texts.insert((*name).clone(), Files::from([(case.path.clone(), text)]));
                    false
                }
                None => true,
            });
            if left.len() == before {
                return Err(format!("[make.{}] cannot be made", left[0].0));
            }
        }
        Ok(case)
    }

    pub fn files(&self, name: &str) -> Option<&Files> {
        self.texts.get(name)
    }

    /// The one text of that name.
    pub fn text(&self, name: &str) -> Result<&str, String> {
        let one = self.texts.get(name).and_then(|files| files.values().next());
        one.map(String::as_str).ok_or_else(|| format!("there is no text `{name}`"))
    }
}

impl Make {
    fn text(&self, texts: &BTreeMap<String, Files>, path: &str) -> Option<String> {
        let mut text = match (&self.row, &self.of) {
            (Some(row), None) => (1..=self.rows).map(|n| row.replace("{n}", &n.to_string())).collect(),
            (None, Some(of)) => texts.get(of)?.get(path)?.clone(),
            _ => return None,
        };
        for [from, to] in &self.replace {
            if text.matches(from.as_str()).count() != 1 {
                return None;
            }
            text = text.replace(from.as_str(), to);
        }
        Some(text)
    }
}

fn collect(
    directory: &Path,
    above: &str,
    files: &mut Files,
    read: &dyn Fn(&Path) -> Result<String, String>,
) -> Result<(), String> {
    for entry in std::fs::read_dir(directory).map_err(|error| error.to_string())? {
        let path = entry.map_err(|error| error.to_string())?.path();
        let name = format!("{above}{}", path.file_name().unwrap_or_default().to_string_lossy());
        if path.is_dir() {
            collect(&path, &format!("{name}/"), files, read)?;
        } else {
            files.insert(name, read(&path)?);
        }
    }
    Ok(())
}
