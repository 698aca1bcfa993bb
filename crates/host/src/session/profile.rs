//! The agent profile of a session, recorded in the session's file.

use agent::store::{EntryBody, LoadedSession};
use agent::{Session, SessionError};
use anyhow::bail;
use paths::{AbsPath, Homes};
use serde_json::json;

/// Kind of the entry that names a session's profile.
const ENTRY: &str = "agent";

/// The agent profile that a session uses.
pub(crate) struct AgentProfile {
    /// Name of the profile; `None` for the default one.
    pub name: Option<String>,
    /// Name that the session's file records.
    recorded: Option<String>,
}

impl AgentProfile {
    /// Chooses the requested profile, else the recorded one, else `default`.
    ///
    /// The recorded profile precedes the default, so that no session gains rights without a request.
    pub fn choose(requested: Option<&str>, default: Option<&str>, resumed: Option<&LoadedSession>) -> Self {
        let recorded = resumed.and_then(recorded);
        let name = requested.or(recorded.as_deref()).or(default).map(str::to_owned);
        Self { name, recorded }
    }

    /// Renders a note if a session keeps its profile without a request for it.
    pub fn note(&self, requested: Option<&str>) -> Option<String> {
        let recorded = self.recorded.as_ref().filter(|_| requested.is_none())?;
        Some(format!("the session continues with the agent profile `{recorded}`"))
    }

    /// Writes the name into the session's file, unless it is there.
    pub async fn record(&self, session: &Session) -> Result<(), SessionError> {
        match self.name.as_ref().filter(|name| self.recorded.as_ref() != Some(name)) {
            Some(name) => session.append_custom(ENTRY, json!({ "name": name })).await,
            None => Ok(()),
        }
    }
}

/// Returns the profile that the session's file names last.
fn recorded(session: &LoadedSession) -> Option<String> {
    let custom = session.entries.iter().rev().filter(|entry| entry.kind == "custom");
    custom.filter_map(|entry| session.body(entry).ok()).find_map(|body| match body {
        EntryBody::Custom { kind, data } if kind == ENTRY => data["name"].as_str().map(str::to_owned),
        _ => None,
    })
}

/// Returns the directory of the agent profile with this name.
///
/// # Errors
/// When there is none; the error lists those that exist.
pub fn profile_directory(homes: &Homes, name: &str) -> anyhow::Result<AbsPath> {
    let profiles = homes.config.join("agents");
    let plain = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0']);
    let directory = profiles.join(name);
    if plain && directory.as_path().is_dir() {
        return Ok(directory);
    }
    let names = profile_names(homes);
    let known = if names.is_empty() {
        "there is none yet".to_owned()
    } else {
        format!("there are {}", names.join(", "))
    };
    bail!("there is no agent {name:?} in {profiles}; {known}")
}

/// Lists the names of the agent profiles, in order.
pub(crate) fn profile_names(homes: &Homes) -> Vec<String> {
    let entries = std::fs::read_dir(homes.config.join("agents")).into_iter().flatten().filter_map(Result::ok);
    let directories = entries.filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> =
        directories.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}
