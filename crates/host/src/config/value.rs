//! Values and their types: from TOML, from text (environment, flags), and back for people.

use std::time::Duration;

use policy::Rule;
use toml::de::DeValue;

/// The type of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Bool,
    Integer {
        least: i64,
        most: i64,
    },
    /// `500ms`, `3s`, `10m`, `1h`.
    Duration {
        most_secs: u64,
    },
    Text,
    /// `http` or `https`.
    Url,
    /// The name of a variable of the environment.
    Variable,
    /// A filter of the log.
    Filter,
    Choice(&'static [&'static str]),
    /// A list of policy rules.
    Rules,
    /// A list of short texts, none of them empty.
    Texts,
    /// What a key is read from: a text with `${NAME}`s, or a command.
    Secret,
    /// A list of texts with `${NAME}`s.
    Secrets,
    /// A list of globs with the role that each gives.
    Paths,
}

/// A command that prints a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyCommand {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// For how long a key is good.
    pub ttl: Duration,
    /// Variables that it is given though they look like secrets.
    pub env: Vec<String>,
}

/// How long a printed key is good where that is not said.
const TTL: Duration = Duration::from_secs(300);

/// A value of some kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Bool(bool),
    Integer(i64),
    Duration(Duration, String),
    Text(String),
    List(Vec<String>),
    Command(KeyCommand),
    /// A glob and a role each.
    Paths(Vec<(String, String)>),
}

impl Kind {
    /// What is expected, for people.
    pub fn expected(self) -> String {
        match self {
            Self::Bool => "true or false".into(),
            Self::Integer { least, most } => format!("a whole number from {least} to {most}"),
            Self::Duration { most_secs } => {
                format!("a time such as \"500ms\", \"3s\" or \"10m\", at most {most_secs}s")
            }
            Self::Text => "a text that is not empty".into(),
            Self::Url => "a URL that begins with http:// or https://".into(),
            Self::Variable => "the name of a variable of the environment, not a key itself".into(),
            Self::Filter => "a filter such as \"info\" or \"info,lsp_client=debug\"".into(),
            Self::Choice(choices) => format!("one of {}", choices.join(", ")),
            Self::Rules => "a list of rules such as [\"allow write docs/**\"]".into(),
            Self::Texts => "a list of texts that are not empty".into(),
            Self::Secret => {
                "a text such as \"${NAME}\" that names variables, or { command = [\"PROGRAM\", …], ttl = \"5m\" }; \
                 a key itself is kept by `pilcrow auth set`, not here"
                    .into()
            }
            Self::Secrets => "a list of texts such as [\"${FIRST}\", \"${SECOND}\"] that name variables; a key itself is kept by `pilcrow auth set`, not here".into(),
            Self::Paths => "a list of tables such as { glob = \"docs/**\", role = \"smol\" }".into(),
        }
    }

    /// The value of this kind that a TOML value is; the error says why not.
    pub fn read_toml(self, value: &DeValue<'_>) -> Result<Value, String> {
        match (self, value) {
            (Self::Bool, DeValue::Boolean(value)) => Ok(Value::Bool(*value)),
            (Self::Integer { .. }, DeValue::Integer(value)) => {
                let number = i64::from_str_radix(value.as_str(), value.radix());
                number.map_err(|_| self.refusal(value.as_str())).and_then(|number| self.integer(number))
            }
            (Self::Secret | Self::Paths, value @ (DeValue::Table(_) | DeValue::Array(_))) => {
                self.structured(&as_json(value))
            }
            (Self::Rules | Self::Texts | Self::Secrets, DeValue::Array(items)) => {
                let items = items.iter().map(|item| match item.get_ref() {
                    DeValue::String(text) => Ok(text.to_string()),
                    other => Err(self.refusal(other.type_str())),
                });
                items.collect::<Result<_, _>>().and_then(|items| self.list(items))
            }
            // What is no text may be a key all the same.
            (Self::Secret | Self::Secrets, DeValue::Integer(_)) => Err(self.refusal("another value")),
            (Self::Bool | Self::Integer { .. }, DeValue::String(text)) => Err(self.quoted(text)),
            (
                Self::Bool | Self::Integer { .. } | Self::Rules | Self::Texts | Self::Secrets | Self::Paths,
                other,
            ) => Err(self.refusal(other.type_str())),
            (_, DeValue::String(text)) => self.read_text(text),
            (_, other) => Err(self.refusal(other.type_str())),
        }
    }

    /// The value of this kind that a JSON value is; the error says why not.
    pub fn read_json(self, value: &serde_json::Value) -> Result<Value, String> {
        use serde_json::Value as Json;
        match (self, value) {
            (Self::Bool, Json::Bool(value)) => Ok(Value::Bool(*value)),
            (Self::Integer { .. }, Json::Number(number)) => number
                .as_i64()
                .ok_or_else(|| self.refusal(&number.to_string()))
                .and_then(|it| self.integer(it)),
            (Self::Secret | Self::Paths, value @ (Json::Object(_) | Json::Array(_))) => {
                self.structured(value)
            }
            (Self::Rules | Self::Texts | Self::Secrets, Json::Array(items)) => {
                let items = items.iter().map(|item| match item {
                    Json::String(text) => Ok(text.clone()),
                    _ if self == Self::Secrets => Err(self.refusal("another value")),
                    other => Err(self.refusal(&other.to_string())),
                });
                items.collect::<Result<_, _>>().and_then(|items| self.list(items))
            }
            (Self::Paths, Json::Number(_)) => Err(self.refusal("another value")),
            (Self::Secrets, _) => Err(self.refusal("another value")),
            (Self::Secret, other) if !other.is_string() => Err(self.refusal("another value")),
            (Self::Bool | Self::Integer { .. }, Json::String(text)) => Err(self.quoted(text)),
            (Self::Bool | Self::Integer { .. } | Self::Rules | Self::Texts | Self::Paths, other) => {
                Err(self.refusal(&other.to_string()))
            }
            (_, Json::String(text)) => self.read_text(text),
            (_, other) => Err(self.refusal(&other.to_string())),
        }
    }

    /// The value of this kind that a text from the environment or a flag is.
    pub fn read_text(self, text: &str) -> Result<Value, String> {
        let refusal = || self.refusal(&format!("{text:?}"));
        let fits = match self {
            Self::Bool => {
                return match text {
                    "true" | "1" => Ok(Value::Bool(true)),
                    "false" | "0" => Ok(Value::Bool(false)),
                    _ => Err(refusal()),
                };
            }
            Self::Integer { .. } => {
                return text.parse().map_err(|_| refusal()).and_then(|number| self.integer(number));
            }
            Self::Duration { most_secs } => {
                let duration = parse_duration(text).ok_or_else(refusal)?;
                if duration > Duration::from_secs(most_secs) {
                    return Err(refusal());
                }
                return Ok(Value::Duration(duration, text.to_owned()));
            }
            Self::Rules => {
                let lines = text.split([';', '\n']).map(str::trim).filter(|line| !line.is_empty());
                return self.list(lines.map(str::to_owned).collect());
            }
            Self::Texts | Self::Secrets => {
                let items = text.split_whitespace().map(str::to_owned);
                return self.list(items.collect());
            }
            Self::Paths => return Err(refusal()),
            // What was written may be a key, so it is not repeated.
            Self::Secret => match names_variables(text) {
                true => return Ok(Value::Text(text.to_owned())),
                false => return Err(self.refusal("a key")),
            },
            Self::Text => !text.trim().is_empty(),
            Self::Url => ["http://", "https://"].iter().any(|scheme| {
                text.strip_prefix(scheme).is_some_and(|host| !host.is_empty() && !host.starts_with('/'))
            }),
            Self::Variable => {
                !text.is_empty()
                    && !text.starts_with(|c: char| c.is_ascii_digit())
                    && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            }
            Self::Filter => text.parse::<tracing_subscriber::filter::Targets>().is_ok(),
            Self::Choice(choices) => choices.contains(&text),
        };
        if fits { Ok(Value::Text(text.to_owned())) } else { Err(refusal()) }
    }

    fn integer(self, number: i64) -> Result<Value, String> {
        match self {
            Self::Integer { least, most } if (least..=most).contains(&number) => Ok(Value::Integer(number)),
            _ => Err(self.refusal(&number.to_string())),
        }
    }

    fn list(self, items: Vec<String>) -> Result<Value, String> {
        match self {
            Self::Rules => {
                for line in &items {
                    Rule::parse(line, "").map_err(|error| error.to_string())?;
                }
            }
            Self::Secrets if items.is_empty() => return Err(self.refusal("an empty one")),
            Self::Secrets if !items.iter().all(|item| names_variables(item)) => {
                return Err(self.refusal("a key"));
            }
            _ if items.iter().any(|item| item.trim().is_empty()) => return Err(self.refusal("an empty one")),
            _ => {}
        }
        Ok(Value::List(items))
    }

    /// A value that is a table, or a list of tables.
    fn structured(self, value: &serde_json::Value) -> Result<Value, String> {
        match self {
            Self::Secret => match serde_json::from_value::<WrittenCommand>(value.clone()) {
                Ok(written) if written.command.first().is_some_and(|program| !program.is_empty()) => {
                    let ttl = match written.ttl {
                        None => TTL,
                        Some(text) => parse_duration(&text).ok_or_else(|| self.refusal("another ttl"))?,
                    };
                    Ok(Value::Command(KeyCommand { command: written.command, ttl, env: written.env }))
                }
                Ok(_) => Err(self.refusal("a command without a program")),
                // What stands in the wrong place may be a key, which the error would quote.
                Err(_) => Err(self.refusal("a table or list of another form")),
            },
            _ => {
                let paths: Vec<WrittenPath> = serde_json::from_value(value.clone())
                    .map_err(|error| format!("it must be {}: {error}", self.expected()))?;
                for path in &paths {
                    globset::Glob::new(&path.glob).map_err(|error| error.to_string())?;
                }
                Ok(Value::Paths(paths.into_iter().map(|path| (path.glob, path.role)).collect()))
            }
        }
    }

    /// Why a text is no value of this kind.
    fn quoted(self, text: &str) -> String {
        let refusal = self.refusal(&format!("{text:?}"));
        let fits = self.read_text(text).is_ok();
        if fits { format!("{refusal}; leave out the quotes") } else { refusal }
    }

    fn refusal(self, found: &str) -> String {
        format!("it must be {}, not {found}", self.expected())
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCommand {
    command: Vec<String>,
    ttl: Option<String>,
    #[serde(default)]
    env: Vec<String>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPath {
    glob: String,
    role: String,
}

/// Whether a text names a variable at least.
fn names_variables(text: &str) -> bool {
    text.split_once("${").is_some_and(|(_, rest)| rest.find('}').is_some_and(|end| end > 0))
}

fn as_json(value: &DeValue<'_>) -> serde_json::Value {
    match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Boolean(value) => (*value).into(),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).unwrap_or_default().into()
        }
        DeValue::Float(number) => number.as_str().into(),
        DeValue::Datetime(time) => time.to_string().into(),
        DeValue::Array(items) => items.iter().map(|item| as_json(item.get_ref())).collect(),
        DeValue::Table(table) => {
            let members =
                table.iter().map(|(name, value)| (name.get_ref().to_string(), as_json(value.get_ref())));
            serde_json::Value::Object(members.collect())
        }
    }
}

fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let number: u64 = text[..digits].parse().ok()?;
    match &text[digits..] {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_secs(number.checked_mul(60)?)),
        "h" => Some(Duration::from_secs(number.checked_mul(3600)?)),
        _ => None,
    }
}

impl Value {
    pub fn json(&self) -> serde_json::Value {
        match self {
            Self::Bool(value) => (*value).into(),
            Self::Integer(value) => (*value).into(),
            Self::Duration(_, text) | Self::Text(text) => text.as_str().into(),
            Self::List(items) => items.clone().into(),
            Self::Command(KeyCommand { command, ttl, env }) => {
                let ttl = format!("{}ms", ttl.as_millis());
                serde_json::json!({ "command": command, "ttl": ttl, "env": env })
            }
            Self::Paths(paths) => {
                paths.iter().map(|(glob, role)| serde_json::json!({ "glob": glob, "role": role })).collect()
            }
        }
    }

    /// The text of a text; the table says that it is one.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Duration(_, text) => text,
            _ => unreachable!("the table says that this key is a text"),
        }
    }

    pub(super) fn bool(&self) -> bool {
        matches!(self, Self::Bool(true))
    }

    pub(super) fn size(&self) -> usize {
        match self {
            Self::Integer(number) => usize::try_from(*number).unwrap_or_default(),
            _ => unreachable!("the table says that this key is a number"),
        }
    }

    pub(super) fn duration(&self) -> Duration {
        match self {
            Self::Duration(duration, _) => *duration,
            _ => unreachable!("the table says that this key is a time"),
        }
    }

    pub(super) fn list(&self) -> &[String] {
        match self {
            Self::List(items) => items,
            _ => unreachable!("the table says that this key is a list"),
        }
    }
}
