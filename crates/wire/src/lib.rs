//! Messages between two programs: framing, JSON-RPC, requests, and local sockets.
//!
//! Works over any `AsyncRead` and `AsyncWrite`. Knows no method name (except the configured one for
//! cancellation), no process, and no file except the name of a socket.
//!
//! Invariants: one bad message never ends a readable stream; bodies stay raw until requested; every
//! request ends with its response, its deadline, its cancellation, or the reason why the stream
//! closed.
#![warn(missing_docs)]

mod envelope;
mod framing;
pub mod local;
mod outbox;
mod peer;
mod pending;

pub use envelope::{Envelope, Id, Malformed, RpcError, codes, parse, raw};
pub use framing::{Frame, Framing, Limits, MessageCodec, Skipped};
pub use peer::{
    Direction, Handler, InFlight, IncomingRequest, Observer, Peer, PeerOptions, RequestError, Room,
};
pub use pending::{CloseReason, Closed, Pending};
