//! Tests at the boundary of `llm`: recorded streams, requests and scripts.
//!
//! They use no network; other tests cover the transport with the scripted server.

#![expect(clippy::disallowed_methods, reason = "tests read their own cases and may rewrite them")]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod conversation;
mod differences;
mod golden;
mod late_tools;
mod published;
mod request;
mod script;
