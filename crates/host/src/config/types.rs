//! The types of settings.
//!
//! Each checks a JSON value and describes itself for the schema and for errors.

use std::borrow::Cow;
use std::time::Duration;

use agent::{Drain, Steering};
use hashline::{Dialect, ParseRegression};
use policy::{Mode, Rule, SandboxMode};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use shell::Tier;
use tools::{ServerStart, Verify, VerifyPolicy};

use super::settings::{EditMode, OnUnsaved};

trait SettingType: Sized {
    /// Describes the accepted values, to follow "it must be".
    fn expected() -> String;
    fn schema(generator: &mut SchemaGenerator) -> Value;
    /// Reads a value of the right type; `None` if it does not fit.
    fn read(value: &Value) -> Option<Self>;
    /// Renders the error about a value that does not fit.
    fn refusal(value: &Value) -> String {
        format!("it must be {}, not {value}", Self::expected())
    }
}

/// Derives serde's and schemars' traits from [`SettingType`].
macro_rules! setting_type {
    ($type:ty $(, $($generics:tt)+)?) => {
        impl<'de, $($($generics)+)?> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let value = Value::deserialize(deserializer)?;
                Self::read(&value).ok_or_else(|| D::Error::custom(Self::refusal(&value)))
            }
        }

        impl$(<$($generics)+>)? JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                Self::schema(generator).try_into().expect("every type's schema is an object")
            }
        }
    };
}

/// `true` or `false`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Boolean(pub bool);
setting_type!(Boolean);

impl SettingType for Boolean {
    fn expected() -> String {
        "true or false".into()
    }

    fn schema(_: &mut SchemaGenerator) -> Value {
        json!({ "type": "boolean" })
    }

    fn read(value: &Value) -> Option<Self> {
        value.as_bool().map(Self)
    }
}

/// A whole number from `MIN` to `MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Integer<const MIN: i64, const MAX: i64>(pub usize);
setting_type!(Integer<MIN, MAX>, const MIN: i64, const MAX: i64);

impl<const MIN: i64, const MAX: i64> SettingType for Integer<MIN, MAX> {
    fn expected() -> String {
        format!("a whole number from {MIN} to {MAX}")
    }

    fn schema(_: &mut SchemaGenerator) -> Value {
        json!({ "type": "integer", "minimum": MIN, "maximum": MAX })
    }

    fn read(value: &Value) -> Option<Self> {
        let number = value.as_i64().filter(|number| (MIN..=MAX).contains(number))?;
        usize::try_from(number).ok().map(Self)
    }
}

/// A duration of at most `MAX` seconds: `500ms`, `3s`, `10m`, `1h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time<const MAX: u64>(pub Duration);
setting_type!(Time<MAX>, const MAX: u64);

impl<const MAX: u64> SettingType for Time<MAX> {
    fn expected() -> String {
        format!("a time such as \"500ms\", \"3s\" or \"10m\", at most {MAX}s")
    }

    fn schema(_: &mut SchemaGenerator) -> Value {
        json!({ "type": "string", "pattern": "^[0-9]+(ms|s|m|h)$" })
    }

    fn read(value: &Value) -> Option<Self> {
        let text = value.as_str()?;
        let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
        let number: u64 = digits.parse().ok()?;
        let duration = match unit {
            "ms" => Duration::from_millis(number),
            "s" => Duration::from_secs(number),
            "m" => Duration::from_secs(number.checked_mul(60)?),
            "h" => Duration::from_secs(number.checked_mul(3600)?),
            _ => return None,
        };
        (duration <= Duration::from_secs(MAX)).then_some(Self(duration))
    }
}

/// A type with a fixed list of values. Those of policy keys are listed from lax to
/// strict.
pub trait Choice: Sized + Copy + 'static {
    const VALUES: &'static [(&'static str, Self)];
}

/// One of a fixed list of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OneOf<T>(pub T);
setting_type!(OneOf<T>, T: Choice);

impl<T: Choice> OneOf<T> {
    fn words() -> Vec<&'static str> {
        T::VALUES.iter().map(|(word, _)| *word).collect()
    }
}

impl<T: Choice> SettingType for OneOf<T> {
    fn expected() -> String {
        format!("one of {}", Self::words().join(", "))
    }

    fn schema(_: &mut SchemaGenerator) -> Value {
        json!({ "type": "string", "enum": Self::words() })
    }

    fn read(value: &Value) -> Option<Self> {
        let text = value.as_str()?;
        T::VALUES.iter().find(|(word, _)| *word == text).map(|(_, value)| Self(*value))
    }
}

macro_rules! choices {
    ($($type:ty: $($word:literal => $value:expr),+;)+) => {
        $(impl Choice for $type {
            const VALUES: &'static [(&'static str, Self)] = &[$(($word, $value)),+];
        })+
    };
}

choices! {
    bool: "on" => true, "off" => false;
    ParseRegression: "warn" => Self::Warn, "refuse" => Self::Refuse;
    Verify: "after" => Self::After, "before" => Self::Before;
    VerifyPolicy: "report" => Self::Report, "ask" => Self::Ask, "no_new_errors" => Self::NoNewErrors;
    Dialect: "put" => Self::Put, "arrow" => Self::Arrow, "json" => Self::Json;
    Mode: "permissive" => Self::Permissive, "prompt" => Self::Prompt, "strict" => Self::Strict;
    SandboxMode: "off" => Self::Off, "auto" => Self::Auto, "required" => Self::Required;
    Tier: "critical" => Self::Critical, "high" => Self::High, "medium" => Self::Medium;
    ServerStart: "use" => Self::Use, "edit" => Self::Edit, "read" => Self::Read;
    Steering: "after_turn" => Self::AfterTurn, "interrupt" => Self::Interrupt;
    Drain: "one" => Self::One, "all" => Self::All;
    EditMode: "apply" => Self::Apply, "propose" => Self::Propose;
    OnUnsaved: "tell" => Self::Tell, "ask" => Self::Ask;
}

/// Defines types for checked texts.
///
/// Each line has the type, the accepted values, the constraint of the schema, and the function
/// that reads a value.
macro_rules! texts {
    ($($(#[$doc:meta])+ $type:ident, $expected:literal, $constraint:literal: $value:tt, $read:expr;)+) => {
        $($(#[$doc])+
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $type(pub String);
        setting_type!($type);

        impl SettingType for $type {
            fn expected() -> String {
                $expected.into()
            }

            fn schema(_: &mut SchemaGenerator) -> Value {
                json!({ "type": "string", $constraint: $value })
            }

            fn read(value: &Value) -> Option<Self> {
                let read: fn(&str) -> Option<&str> = $read;
                value.as_str().and_then(read).map(|text| Self(text.to_owned()))
            }
        })+
    };
}

texts! {
    /// Any text that is not empty.
    Text, "a text that is not empty", "minLength": 1, |text| (!text.trim().is_empty()).then_some(text);
    /// An `http` or `https` URL, stored without its last `/`.
    Url, "a URL that begins with http:// or https://", "pattern": "^https?://[^/]", |text| {
        let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"))?;
        (!rest.is_empty() && !rest.starts_with('/')).then_some(text.trim_end_matches('/'))
    };
    /// The name of an environment variable.
    Variable, "the name of an environment variable, not a key itself", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$", |text| {
        let fits = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        (fits && !text.is_empty() && !text.starts_with(|c: char| c.is_ascii_digit())).then_some(text)
    };
    /// A filter of the log.
    Filter, "a filter such as \"info\" or \"info,lsp_client=debug\"", "minLength": 1, |text| {
        text.parse::<tracing_subscriber::filter::Targets>().is_ok().then_some(text)
    };
    /// A glob for paths.
    Glob, "a glob such as \"docs/**\"", "minLength": 1, |text| globset::Glob::new(text).is_ok().then_some(text);
}

/// The text of a valid policy rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleText(pub String);
setting_type!(RuleText);

impl SettingType for RuleText {
    fn expected() -> String {
        "a rule such as \"allow write docs/**\"".into()
    }

    fn schema(_: &mut SchemaGenerator) -> Value {
        json!({ "type": "string", "pattern": "^\\s*(allow|ask|deny)\\s+(read|write|exec|http)(\\s|$)" })
    }

    fn read(value: &Value) -> Option<Self> {
        let text = value.as_str()?;
        Rule::parse(text, "").is_ok().then(|| Self(text.to_owned()))
    }

    fn refusal(value: &Value) -> String {
        let parsed = value.as_str().and_then(|text| Rule::parse(text, "").err());
        parsed.map_or_else(
            || format!("it must be {}, not {value}", Self::expected()),
            |error| error.to_string(),
        )
    }
}

/// The source of an API key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Secret {
    /// A text with `${NAME}`s.
    Variables(String),
    /// A command that prints the key.
    Command(KeyCommand),
}
setting_type!(Secret);

/// A command that prints an API key.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyCommand {
    /// The program and its arguments.
    #[schemars(length(min = 1))]
    pub command: Vec<String>,
    /// Time after which the command runs again; 5m by default.
    #[serde(default = "default_ttl")]
    pub ttl: Time<{ u64::MAX }>,
    /// Variables that the command receives although they look like secrets.
    #[serde(default)]
    pub env: Vec<String>,
}

fn default_ttl() -> Time<{ u64::MAX }> {
    Time(Duration::from_secs(300))
}

/// Schema of a text that names a variable.
fn variables_schema() -> Value {
    json!({ "type": "string", "pattern": r"\$\{[^}]+\}" })
}

fn names_variables(text: &str) -> bool {
    text.split_once("${").is_some_and(|(_, rest)| rest.find('}').is_some_and(|end| end > 0))
}

impl SettingType for Secret {
    fn expected() -> String {
        "a text such as \"${NAME}\", or { command = [\"PROGRAM\", …] }; \
         `pilcrow auth set` stores keys"
            .into()
    }

    fn schema(generator: &mut SchemaGenerator) -> Value {
        json!({ "anyOf": [variables_schema(), generator.subschema_for::<KeyCommand>()] })
    }

    fn read(value: &Value) -> Option<Self> {
        if let Some(text) = value.as_str() {
            return names_variables(text).then(|| Self::Variables(text.to_owned()));
        }
        let command = KeyCommand::deserialize(value).ok()?;
        let has_program = command.command.first().is_some_and(|program| !program.is_empty());
        has_program.then_some(Self::Command(command))
    }

    /// Omits the value, which may be a key.
    fn refusal(_: &Value) -> String {
        format!("it must be {}", Self::expected())
    }
}

/// Several sources of API keys, each a text with `${NAME}`s.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secrets(pub Vec<Secret>);
setting_type!(Secrets);

impl SettingType for Secrets {
    fn expected() -> String {
        "a list such as [\"${FIRST}\", \"${SECOND}\"]; \
         `pilcrow auth set` stores keys"
            .into()
    }

    fn schema(_: &mut SchemaGenerator) -> Value {
        json!({ "type": "array", "items": variables_schema(), "minItems": 1 })
    }

    fn read(value: &Value) -> Option<Self> {
        let items = value.as_array().filter(|items| !items.is_empty())?.iter();
        items.map(|item| Secret::read(item).filter(|_| item.is_string())).collect::<Option<_>>().map(Self)
    }

    fn refusal(_: &Value) -> String {
        format!("it must be {}", Self::expected())
    }
}
