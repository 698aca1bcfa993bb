//! A scenario folder as a value: its texts, byte for byte, and what `case.toml` says.

use std::collections::BTreeMap;
use std::path::Path;

use hashline::Limits;
use serde::Deserialize;

/// Texts by path.
pub type Files = BTreeMap<String, String>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// What the case shows, one sentence.
    #[serde(rename = "why")]
    _why: String,
    /// Rules and hazards, by their names in `rules.toml`.
    pub covers: Vec<String>,
    /// The path of single texts; its end decides the grammar.
    #[serde(default = "default_path")]
    pub path: String,
    /// The reason of the refusal that must come; else `expected` must.
    pub refused: Option<String>,
    pub strategy: Option<String>,
    /// Kinds of notes that must be there.
    #[serde(default)]
    pub notes: Vec<String>,
    /// No note may be there.
    #[serde(default)]
    pub no_notes: bool,
    /// Some note must be there.
    #[serde(default)]
    pub some_note: bool,
    /// Parts of what the model is told: the notes and the outcome, or the refusal.
    #[serde(default)]
    pub says: Vec<String>,
    /// What it must not be told.
    #[serde(default)]
    pub never_says: Vec<String>,
    #[serde(default)]
    pub options: Options,
    /// The change from snapshot to current is known as the editor's typing.
    #[serde(default)]
    pub typed: bool,
    /// What stands in place of the current text: `missing`, `not_utf8` or `too_large`.
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
    /// Lines are shown without checks.
    pub no_checks: bool,
    pub dialect: Option<String>,
    /// `edit.parse_regression = "refuse"`.
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

/// What happened before the patch, one thing a step.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    /// Of another path than the case's.
    pub path: Option<String>,
    /// These lines are shown; an empty list stands for all of them.
    pub read: Option<Vec<[usize; 2]>>,
    /// These lines were shown as a fold.
    pub fold: Option<[usize; 2]>,
    /// Someone else writes this text.
    pub write: Option<String>,
    /// Someone types, and ends with this text; the editor knows the edit.
    pub typed: Option<String>,
    /// This patch is applied, and its outcome recorded and shown.
    pub edit: Option<String>,
    /// What was read back after the edit, where that is not what was planned.
    pub read_back: Option<String>,
    /// This patch is refused for the reason in `reason`.
    pub refuse: Option<String>,
    pub reason: Option<String>,
}

/// A text that is too long to write out.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Make {
    /// Each line, `{n}` standing for its number.
    row: Option<String>,
    #[serde(default)]
    rows: usize,
    /// Or another text,
    of: Option<String>,
    /// with the one place where this stands changed.
    #[serde(default)]
    replace: Vec<[String; 2]>,
}

fn default_path() -> String {
    "f.txt".to_owned()
}

impl Case {
    pub fn read(folder: &Path) -> Result<Case, String> {
        let read = |path: &Path| {
            let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
            String::from_utf8(bytes).map_err(|_| format!("{}: not UTF-8", path.display()))
        };
        let mut case: Case = toml::from_str(&read(&folder.join("case.toml"))?)
            .map_err(|error| format!("case.toml: {error}"))?;
        for entry in std::fs::read_dir(folder).map_err(|error| error.to_string())? {
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
        // In order of name, each from texts that are there: `expected` of `current` of `snapshot`.
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
    folder: &Path,
    above: &str,
    files: &mut Files,
    read: &dyn Fn(&Path) -> Result<String, String>,
) -> Result<(), String> {
    for entry in std::fs::read_dir(folder).map_err(|error| error.to_string())? {
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
