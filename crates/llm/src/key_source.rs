//! Port for keys that are resolved on use.
//!
//! Such keys rotate, or are valid for minutes. This crate does not know where keys are stored.

use std::fmt::Debug;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::secret::ApiKey;

/// Source of the key of each request.
pub trait KeySource: Debug + Send + Sync {
    /// Returns the key for the next attempt; `None` if none is needed.
    ///
    /// The transport calls it before each attempt, and drops the future if the request is
    /// cancelled. On `Err`, which has the reason, the transport does not send the request.
    fn key(&self) -> BoxFuture<'_, Result<Option<ApiKey>, KeyError>>;

    /// Begins with the next key, if there are several.
    ///
    /// It is called for each request that belongs to no session.
    fn advance(&self) {}

    /// Records that the provider rejected this key.
    ///
    /// Returns whether [`KeySource::key`] now provides another one, with which the request is
    /// retried at once. Must not block.
    fn rejected(&self, key: &ApiKey, refusal: KeyRejection) -> bool;
}

/// Rejection of a key by the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyRejection {
    pub why: RejectionReason,
    /// Time for which the provider asks not to use the key.
    pub after: Option<Duration>,
}

/// The defect of a rejected key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RejectionReason {
    /// The key has too many requests for now.
    Rate,
    /// The key's quota or credit is exhausted.
    Quota,
    /// The key is invalid, or lacks permission.
    Unknown,
}

/// Reason why a source has no key, for users.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KeyError(pub String);
