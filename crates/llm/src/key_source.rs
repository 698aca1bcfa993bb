//! The port for keys that are resolved when used: rotating keys, or keys that last for minutes.
//!
//! This crate does not know where keys are stored.

use std::fmt::Debug;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::secret::ApiKey;

/// Provides the key of each request.
pub trait KeySource: Debug + Send + Sync {
    /// The key for the next attempt; `None` if none is needed.
    ///
    /// `Err` says why there is none, and nothing is sent. Called before each attempt; dropped if the request
    /// is cancelled.
    fn key(&self) -> BoxFuture<'_, Result<Option<ApiKey>, KeyError>>;

    /// The provider rejected this key.
    ///
    /// Returns whether [`KeySource::key`] now provides another one, with which the request is retried at
    /// once. Must not block.
    fn rejected(&self, key: &ApiKey, refusal: KeyRejection) -> bool;
}

/// Why a key was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyRejection {
    pub why: RejectionReason,
    /// How long the provider asks not to use it.
    pub after: Option<Duration>,
}

/// The defect of a rejected key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RejectionReason {
    /// Too many requests for now.
    Rate,
    /// Its quota or credit is exhausted.
    Quota,
    /// It is invalid, or lacks permission.
    Unknown,
}

/// Why a source has no key, for users.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KeyError(pub String);
