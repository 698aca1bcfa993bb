//! API keys in the system's keyring.
//!
//! It is Secret Service on Linux, the keychain on macOS, the credential manager on Windows. Without a
//! keyring, or with a locked one, each call is an error.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use keyring::{Entry, Error};
use llm::ApiKey;

/// Service name of the entries.
const SERVICE: &str = "pilcrow";

/// The reason why the keyring is not usable.
#[derive(Debug, thiserror::Error)]
#[error("system keyring unavailable: {0}")]
pub struct KeyringError(String);

impl From<Error> for KeyringError {
    fn from(error: Error) -> Self {
        let mut text = error.to_string();
        // The causes hold the platform's message.
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
    // Without a session bus the library would try to start one.
    #[cfg(all(unix, not(target_os = "macos")))]
    if std::env::var_os("DBUS_SESSION_BUS_ADDRESS").is_none_or(|address| address.is_empty())
        && !std::env::var_os("XDG_RUNTIME_DIR")
            .is_some_and(|dir| std::path::Path::new(&dir).join("bus").exists())
    {
        return Err(KeyringError("there is no session bus (DBUS_SESSION_BUS_ADDRESS)".to_owned()));
    }
    // `Entry::new` does not report the cause.
    if let Err(error) = Entry::store_status() {
        return Err(KeyringError(error.to_string()));
    }
    Ok(Entry::new(SERVICE, provider)?)
}

/// Time limit of the keyring; a locked one asks the user, who may be absent.
const DEADLINE: Duration = Duration::from_secs(20);

/// Runs `work` in a separate thread.
///
/// The library has its own runtime, which cannot run inside tokio or be stopped.
fn in_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, KeyringError> + Send + 'static,
) -> Result<T, KeyringError> {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(work()).ok());
    receiver.recv_timeout(DEADLINE).unwrap_or_else(|error| {
        Err(KeyringError(match error {
            RecvTimeoutError::Timeout => "it did not answer in time; is it locked?".to_owned(),
            RecvTimeoutError::Disconnected => "its thread failed".to_owned(),
        }))
    })
}

/// Reads the key of this provider, if there is one. Blocks.
///
/// # Errors
/// When there is no keyring, or it is locked.
pub fn get(provider: &str) -> Result<Option<ApiKey>, KeyringError> {
    let provider = provider.to_owned();
    in_thread(move || match entry(&provider)?.get_password() {
        Ok(key) => {
            policy::learn_secret(&key);
            Ok(ApiKey::new(&key))
        }
        Err(Error::NoEntry) => Ok(None),
        Err(error) => Err(error.into()),
    })
}

/// Stores or replaces the key of this provider. Blocks.
///
/// # Errors
/// When there is no keyring, or it is locked.
pub fn set(provider: &str, key: &str) -> Result<(), KeyringError> {
    let (provider, key) = (provider.to_owned(), key.to_owned());
    in_thread(move || Ok(entry(&provider)?.set_password(&key)?))
}

/// Removes the key of this provider; returns false if there was none. Blocks.
///
/// # Errors
/// When there is no keyring, or it is locked.
pub fn remove(provider: &str) -> Result<bool, KeyringError> {
    let provider = provider.to_owned();
    in_thread(move || match entry(&provider)?.delete_credential() {
        Ok(()) => Ok(true),
        Err(Error::NoEntry) => Ok(false),
        Err(error) => Err(error.into()),
    })
}
