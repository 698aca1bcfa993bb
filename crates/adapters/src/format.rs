//! The TOML of definition files: version, errors with their line, common types.

use globset::{Glob, GlobSet, GlobSetBuilder};
use serde::de::{DeserializeOwned, IntoDeserializer};
use serde::{Deserialize, Deserializer};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Newest format of definition files that this program reads.
const FORMAT: i64 = 2;

/// An error that makes a definition file unusable.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{origin}{}: {reason}", line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct DefinitionError {
    /// Path of the file, or `built in: NAME`.
    pub origin: String,
    /// Line of the file, from 1, if it is known.
    pub line: Option<usize>,
    pub reason: String,
}

/// Keys renamed since format 1: table, key in format 1, key in format 2.
pub(crate) type OldKeys = &'static [(&'static str, &'static str, &'static str)];

/// Parses the TOML of a definition.
///
/// Accepts the keys of format 1, and refuses files of a newer format.
pub(crate) fn parse<T: DeserializeOwned>(
    text: &str,
    origin: &str,
    old_keys: OldKeys,
) -> Result<T, DefinitionError> {
    let fail = |line, reason| DefinitionError { origin: origin.to_owned(), line, reason };
    let at = |error: toml::de::Error| {
        let line = error.span().map(|span| text[..span.start].matches('\n').count() + 1);
        fail(line, error.message().to_owned())
    };
    let mut table = DeTable::parse(text).map_err(at)?;
    let format = table.get_mut().remove("format");
    let format = format.map(|format| i64::deserialize(format.into_deserializer())).transpose().map_err(at)?;
    if let Some(found) = format.filter(|found| !(1..=FORMAT).contains(found)) {
        let reason = format!("has format {found}; this version reads up to {FORMAT}; use a newer Pilcrow");
        return Err(fail(None, reason));
    }
    if format != Some(FORMAT) {
        for (path, old, new) in old_keys {
            rename(table.get_mut(), path, old, new);
        }
    }
    T::deserialize(toml::Deserializer::from(table)).map_err(at)
}

fn rename(table: &mut DeTable<'_>, path: &str, old: &str, new: &'static str) {
    let mut table = table;
    for step in path.split('.').filter(|step| !step.is_empty()) {
        let Some(DeValue::Table(inner)) = table.get_mut(step).map(Spanned::get_mut) else { return };
        table = inner;
    }
    if let Some((key, value)) = table.remove_entry(old) {
        table.insert(Spanned::new(key.span(), new.into()), value);
    }
}

/// Refuses a definition that names no program to start.
pub(crate) fn check_candidates(candidates: &[String], origin: &str) -> Result<(), DefinitionError> {
    if !candidates.is_empty() {
        return Ok(());
    }
    let reason = "command.candidates is empty; name a program".to_owned();
    Err(DefinitionError { origin: origin.to_owned(), line: None, reason })
}

/// The version that last passed the tests; only the test run writes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verified {
    pub version: String,
    /// Day of the test, as `YYYY-MM-DD`.
    pub date: String,
    /// The command that ran the tests.
    pub how: String,
}

/// Parses `verified = false`, or the version that passed.
pub(crate) fn verified<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Verified>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "`verified` must be false or a table of version, date and how")]
    enum Form {
        Never(bool),
        Passed(Verified),
    }
    match Form::deserialize(deserializer)? {
        Form::Never(false) => Ok(None),
        Form::Passed(verified) => Ok(Some(verified)),
        Form::Never(true) => {
            Err(serde::de::Error::custom("`verified` must be false or a table of version, date and how"))
        }
    }
}

/// A list of globs with its compiled form.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub struct Globs {
    patterns: Vec<String>,
    set: GlobSet,
}

impl TryFrom<Vec<String>> for Globs {
    type Error = globset::Error;

    fn try_from(patterns: Vec<String>) -> Result<Self, Self::Error> {
        let mut builder = GlobSetBuilder::new();
        for pattern in &patterns {
            builder.add(Glob::new(pattern)?);
        }
        Ok(Self { set: builder.build()?, patterns })
    }
}

impl Globs {
    /// Returns the globs as written.
    pub fn list(&self) -> impl Iterator<Item = &str> {
        self.patterns.iter().map(String::as_str)
    }

    /// Whether one of them matches.
    pub fn is_match(&self, path: impl AsRef<std::path::Path>) -> bool {
        self.set.is_match(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        name: String,
        inner: Inner,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        new: u8,
    }

    #[test]
    fn keys_of_the_previous_format_are_read() {
        const OLD: OldKeys = &[("", "title", "name"), ("inner", "old", "new")];
        let parse = |text: &str| parse::<File>(text, "f", OLD).map_err(|error| error.to_string());
        let expected = Ok(File { name: "x".to_owned(), inner: Inner { new: 1 } });
        for format in ["", "format = 1\n"] {
            assert_eq!(parse(&format!("{format}title = \"x\"\n[inner]\nold = 1\n")), expected);
        }
        assert_eq!(parse("format = 2\nname = \"x\"\ninner.new = 1\n"), expected);
        let refused = parse("format = 2\nname = \"x\"\n\ninner.old = 1\n");
        assert_eq!(refused.unwrap_err(), "f:4: unknown field `old`, expected `new`");
        let refused = parse("format = 3\nanything = 1\n").unwrap_err();
        assert_eq!(refused, "f: has format 3; this version reads up to 2; use a newer Pilcrow");
    }
}
