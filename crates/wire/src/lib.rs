//! Messages between two programs: framing, the JSON-RPC envelope, a peer with pending requests, and the
//! local sockets over which programs of ours speak with each other.
//!
//! Works over any `AsyncRead` and `AsyncWrite`. Knows no method name (that of cancellation is given
//! to it), no process, and no file but the name of a socket. What must stay true: one bad message
//! never ends a stream that can be read on, bodies stay raw until somebody asks for them, and every
//! request ends: with its answer, its deadline, its cancellation, or the reason why the stream closed.

mod envelope;
mod framing;
pub mod local;
mod outbox;
mod peer;
mod pending;

pub use envelope::{Envelope, Id, Malformed, RpcError, codes, parse, raw};
pub use framing::{Frame, Framing, Limits, MessageCodec, Skipped};
pub use peer::{
    CloseReason, Closed, Direction, Handler, InFlight, IncomingRequest, Observer, Peer, PeerOptions,
    RequestError, Room,
};
