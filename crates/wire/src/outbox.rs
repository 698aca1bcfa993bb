//! The queue of outgoing messages, written in order by one task.
//!
//! Ordinary messages wait for one of a fixed number of places. Control messages (cancellations and responses)
//! never wait; the number of requests in flight bounds them.

use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::bytes::BytesMut;
use tokio_util::codec::Encoder;

use crate::framing::MessageCodec;

/// Number of bytes to gather before a write, if more than one message waits.
const GATHER: usize = 64 * 1024;

/// The sending end of the queue. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Outbox {
    // The channel is unbounded, but `places` and the number of requests in flight bound it.
    sender: mpsc::UnboundedSender<Item>,
    places: Arc<Semaphore>,
}

enum Item {
    Message(Vec<u8>, Option<QueuePlace>),
    Flush(oneshot::Sender<()>),
}

/// A place in the queue; freed when all messages of it are written.
pub(crate) type QueuePlace = Arc<OwnedSemaphorePermit>;

/// Error when the writing task has ended.
pub(crate) struct OutboxClosed;

impl Outbox {
    pub fn new(places: usize) -> (Self, Writer) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let outbox = Self { sender, places: Arc::new(Semaphore::new(places)) };
        (outbox, Writer { receiver })
    }

    /// Waits for a place. Dropping the future takes none.
    pub async fn place(&self) -> Result<QueuePlace, OutboxClosed> {
        Arc::clone(&self.places).acquire_owned().await.map(Arc::new).map_err(|_| OutboxClosed)
    }

    /// Takes a place if one is free.
    pub(crate) fn try_place(&self) -> Result<Option<QueuePlace>, OutboxClosed> {
        match Arc::clone(&self.places).try_acquire_owned() {
            Ok(place) => Ok(Some(Arc::new(place))),
            Err(tokio::sync::TryAcquireError::NoPermits) => Ok(None),
            Err(tokio::sync::TryAcquireError::Closed) => Err(OutboxClosed),
        }
    }

    /// Queues an ordinary message; several may share one place.
    pub fn put(&self, message: Vec<u8>, place: &QueuePlace) -> Result<(), OutboxClosed> {
        self.sender.send(Item::Message(message, Some(Arc::clone(place)))).map_err(|_| OutboxClosed)
    }

    /// Queues a control message, without waiting.
    pub(crate) fn put_control(&self, message: Vec<u8>) -> Result<(), OutboxClosed> {
        self.sender.send(Item::Message(message, None)).map_err(|_| OutboxClosed)
    }

    /// Waits until everything queued before is written.
    pub async fn flush(&self) -> Result<(), OutboxClosed> {
        let (sender, receiver) = oneshot::channel();
        self.sender.send(Item::Flush(sender)).map_err(|_| OutboxClosed)?;
        receiver.await.map_err(|_| OutboxClosed)
    }

    /// Fails all waits for a place, now or later, with [`OutboxClosed`].
    pub fn close(&self) {
        self.places.close();
    }
}

/// The reading end of an [`Outbox`].
pub(crate) struct Writer {
    receiver: mpsc::UnboundedReceiver<Item>,
}

impl Writer {
    /// Writes until the outbox is dropped or the stream fails.
    ///
    /// Not cancel-safe: dropping it may leave half a message written, so only a closed stream drops
    /// it.
    pub async fn run(
        mut self,
        mut stream: impl AsyncWrite + Unpin,
        mut codec: MessageCodec,
        written: impl Fn(&[u8]),
    ) -> std::io::Result<()> {
        let mut buffer = BytesMut::new();
        while let Some(mut item) = self.receiver.recv().await {
            let mut flushed = Vec::new();
            loop {
                match item {
                    Item::Message(message, place) => {
                        written(&message);
                        codec.encode(&message, &mut buffer)?;
                        drop(place);
                    }
                    Item::Flush(sender) => flushed.push(sender),
                }
                if buffer.len() >= GATHER {
                    break;
                }
                match self.receiver.try_recv() {
                    Ok(next) => item = next,
                    Err(_) => break,
                }
            }
            stream.write_all(&buffer).await?;
            stream.flush().await?;
            buffer.clear();
            if buffer.capacity() > 16 * GATHER {
                buffer = BytesMut::new();
            }
            for sender in flushed {
                if sender.send(()).is_err() {
                    tracing::trace!("the caller of a flush stopped waiting");
                }
            }
        }
        stream.shutdown().await
    }
}
