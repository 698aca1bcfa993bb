//! The boundary of `llm`: recorded streams against the decoders, requests against the encoders, scripts
//! against the model that plays them. No network; the HTTP edge is tested where the scripted server is.

#![expect(clippy::disallowed_methods, reason = "tests read their own cases and may rewrite them")]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod conversation;
mod differences;
mod golden;
mod late_tools;
mod published;
mod request;
mod script;
