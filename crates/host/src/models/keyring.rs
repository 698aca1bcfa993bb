//! KeySource in the system's keyring: Secret Service on Linux, the keychain on macOS, the credential manager on Windows. On a machine
//! without one, or with one that is locked, each call says so.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use keyring::{Entry, Error};
use llm::ApiKey;

/// What our entries are called there.
const SERVICE: &str = "pilcrow";

/// Why the keyring has no answer.
#[derive(Debug, thiserror::Error)]
#[error("the system's keyring cannot be used: {0}")]
pub struct KeyringError(String);

impl From<Error> for KeyringError {
    fn from(error: Error) -> Self {
        let mut text = error.to_string();
        // What the platform says stands behind it.
        let mut source = std::error::Error::source(&error);
        while let Some(error) = source {
            let more = error.to_string();
            if !text.contains(&more) {
                text = format!("{text}: {more}");
            }
            source = error.source();
        }
        KeyringError(text)
    }
}

fn entry(provider: &str) -> Result<Entry, KeyringError> {
    // Without a session bus the library would look for one to start.
    #[cfg(all(unix, not(target_os = "macos")))]
    if std::env::var_os("DBUS_SESSION_BUS_ADDRESS").is_none_or(|address| address.is_empty())
        && !std::env::var_os("XDG_RUNTIME_DIR")
            .is_some_and(|dir| std::path::Path::new(&dir).join("bus").exists())
    {
        return Err(KeyringError("there is no session bus (DBUS_SESSION_BUS_ADDRESS)".to_owned()));
    }
    // Its own error of this says nothing of the cause.
    if let Err(error) = Entry::store_status() {
        return Err(KeyringError(error.to_string()));
    }
    Ok(Entry::new(SERVICE, provider)?)
}

/// How long the keyring may take; a locked one asks somebody, who may not be there.
const DEADLINE: Duration = Duration::from_secs(20);

/// Works in a thread of its own: what speaks with the keyring has a runtime that must not stand inside of ours, and cannot be ended.
fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, KeyringError> + Send + 'static,
) -> Result<T, KeyringError> {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || tell.send(work()).ok());
    told.recv_timeout(DEADLINE).unwrap_or_else(|error| {
        Err(KeyringError(match error {
            RecvTimeoutError::Timeout => "it did not answer in time; is it locked?".to_owned(),
            RecvTimeoutError::Disconnected => "it broke off".to_owned(),
        }))
    })
}

/// The key of this provider, if there is one. Blocks.
///
/// # Errors
/// When there is no keyring, or it is locked.
pub fn get(provider: &str) -> Result<Option<ApiKey>, KeyringError> {
    let provider = provider.to_owned();
    apart(move || match entry(&provider)?.get_password() {
        Ok(key) => {
            policy::learn_secret(&key);
            Ok(ApiKey::new(&key))
        }
        Err(Error::NoEntry) => Ok(None),
        Err(error) => Err(error.into()),
    })
}

/// Keeps the key of this provider, in the place of another. Blocks.
///
/// # Errors
/// When there is no keyring, or it is locked.
pub fn set(provider: &str, key: &str) -> Result<(), KeyringError> {
    let (provider, key) = (provider.to_owned(), key.to_owned());
    apart(move || Ok(entry(&provider)?.set_password(&key)?))
}

/// Forgets the key of this provider; false when there was none. Blocks.
///
/// # Errors
/// When there is no keyring, or it is locked.
pub fn remove(provider: &str) -> Result<bool, KeyringError> {
    let provider = provider.to_owned();
    apart(move || match entry(&provider)?.delete_credential() {
        Ok(()) => Ok(true),
        Err(Error::NoEntry) => Ok(false),
        Err(error) => Err(error.into()),
    })
}
