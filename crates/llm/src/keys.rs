//! The port to where keys come from, for keys that are looked up when they are used: several in turn, or ones that last
//! for minutes. Where they are kept is not known here.

use std::fmt::Debug;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::secret::ApiKey;

/// Gives the key of each request.
pub trait Keys: Debug + Send + Sync {
    /// The key for the next attempt, `None` where none is needed. `Err` says why there is none; nothing is sent then. Looked
    /// at before each attempt and dropped when the request is cancelled.
    fn key(&self) -> BoxFuture<'_, Result<Option<ApiKey>, String>>;

    /// The provider refused a request with this key. Returns whether [`Keys::key`] gives another one now, with which the
    /// request is made again at once. Must not block.
    fn refused(&self, key: &ApiKey, refusal: Refusal) -> bool;
}

/// Why a key was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong with it.
    pub why: RefusedFor,
    /// How long the provider wants not to be asked with it.
    pub after: Option<Duration>,
}

/// What is wrong with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusedFor {
    /// Too many requests for now.
    Rate,
    /// Its quota or credit is used up.
    Quota,
    /// It is not known, or not allowed to do this.
    Unknown,
}
