//! Sessions with a scripted debug adapter in its own process, well-behaved or misbehaving.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests write scripts for their adapters")]

mod bench;
mod children;
mod external_session;
mod extra_requests;
mod hub;
mod hub_limits;
mod hub_random;
mod misbehaving;
mod sessions;
mod transports;
