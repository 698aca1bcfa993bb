//! Standard input and output as byte streams, each with a thread of its own: half the round trip of
//! the runtime's. Knows nothing of what is in them.

use std::io::{Read as _, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use tokio_util::sync::PollSender;

/// Pieces that wait between a thread and the runtime.
const PIECES: usize = 16;
/// Bytes read at once.
const PIECE: usize = 64 * 1024;

pub struct Input {
    pieces: mpsc::Receiver<Vec<u8>>,
    rest: Vec<u8>,
    at: usize,
}

pub struct Output {
    pieces: PollSender<Vec<u8>>,
}

/// Ends when all that was put into [`Output`] is written, after it was dropped.
pub struct Written(std::sync::mpsc::Receiver<()>);

/// Starts both threads. The one that reads ends with its input, or with the process.
///
/// # Errors
/// When the system gives no thread.
pub fn open() -> std::io::Result<(Input, Output, Written)> {
    let (sender, pieces) = mpsc::channel(PIECES);
    std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut buffer = vec![0; PIECE];
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
    let input = Input { pieces, rest: Vec::new(), at: 0 };
    let (sender, mut pieces) = mpsc::channel::<Vec<u8>>(PIECES);
    let (done, written) = std::sync::mpsc::channel::<()>();
    std::thread::Builder::new().name("stdout".to_owned()).spawn(move || {
        // Dropped at the end, which is what `Written` waits for.
        let _done = done;
        let mut stdout = std::io::stdout().lock();
        while let Some(piece) = pieces.blocking_recv() {
            if stdout.write_all(&piece).and_then(|()| stdout.flush()).is_err() {
                break;
            }
        }
    })?;
    Ok((input, Output { pieces: PollSender::new(sender) }, Written(written)))
}

impl Written {
    /// Waits until everything is written, at most `deadline`. Blocks.
    pub fn wait(self, deadline: Duration) {
        // Nothing is ever sent: the end of the thread, or the deadline.
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
            match ready!(self.pieces.poll_recv(cx)) {
                None => return Poll::Ready(Ok(())),
                Some(piece) => (self.rest, self.at) = (piece, 0),
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
        let gone = |_| std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        ready!(self.pieces.poll_reserve(cx)).map_err(gone)?;
        self.pieces.send_item(bytes.to_vec()).map_err(gone)?;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        // The thread hands on each piece at once.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.pieces.close();
        Poll::Ready(Ok(()))
    }
}
