//! Sessions with a scripted debug adapter in a process of its own: one that behaves, and ones that do not.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests write scripts for their adapters")]

mod bench;
mod children;
mod hub;
mod hub_limits;
mod hub_random;
mod misbehaving;
mod more;
mod sessions;
mod theirs;
mod transports;
