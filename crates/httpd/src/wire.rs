//! The socket of a connection, or TLS on it, as hyper sees it.
//!
//! Two things happen here that hyper does not do. A refusal of its own gets a body on the way out:
//! see [`empty_error`]. And a connection whose client may be writing still is not closed over what
//! it writes. The kernel would reset it. The reset may reach the client before our last answer has
//! been read, or take the part of it that is not sent yet (RFC 9112, section 9.6). So our side is
//! closed first, and what still comes is read and thrown away until the client closes its side too,
//! for a while and up to a bound.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::empty_error;
use super::exchange::Exchanges;

/// How long a client may take to notice that its connection is over. It is less than the part of
/// the grace time that the API has by default.
pub(super) const LINGER: Duration = Duration::from_secs(2);

/// How much it may write meanwhile: what a fast one can in some tenths of a second.
const LINGER_BYTES_MAX: usize = 256 << 20;

/// A connection's socket.
pub(super) struct Wire<S> {
    stream: S,
    exchanges: Arc<Exchanges>,
    /// What somebody before us has read.
    unread: Bytes,
    /// What is left to write of an answer that took the place of another.
    exchanged: Bytes,
    /// Whether there was one.
    has_refused: bool,
    lingering: Option<Lingering>,
}

/// The time after our side is closed.
struct Lingering {
    over: Pin<Box<Sleep>>,
    bytes_left: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    /// The `stream` behind what was read of it before.
    pub(super) fn new(stream: S, exchanges: Arc<Exchanges>, unread: Bytes) -> Wire<S> {
        let exchanged = Bytes::new();
        Wire { stream, exchanges, unread, exchanged, has_refused: false, lingering: None }
    }

    /// The stream again, and of what was read of it before what nobody has taken.
    pub(super) fn into_parts(self) -> (S, Bytes) {
        debug_assert!(self.exchanged.is_empty() && self.lingering.is_none(), "it ends");
        (self.stream, self.unread)
    }

    /// Writes what is left of the exchanged answer, and then reports `len` bytes as written.
    fn poll_exchanged(&mut self, context: &mut Context<'_>, len: usize) -> Poll<io::Result<usize>> {
        while !self.exchanged.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &self.exchanged))?;
            self.exchanged.advance(written);
        }
        Poll::Ready(Ok(len))
    }

    /// Reads and throws away until the client has closed its side, or it has had its time.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let lingering = self.lingering.get_or_insert_with(|| Lingering {
            over: Box::pin(sleep(LINGER)),
            bytes_left: LINGER_BYTES_MAX,
        });
        let mut unwanted = [0; 16 * 1024];
        while lingering.over.as_mut().poll(context).is_pending() {
            let mut buffer = ReadBuf::new(&mut unwanted);
            match ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {}
                Ok(()) | Err(_) => break,
            }
            match lingering.bytes_left.checked_sub(buffer.filled().len()) {
                Some(left) => lingering.bytes_left = left,
                None => break,
            }
        }
        Poll::Ready(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.unread.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let len = buffer.remaining().min(self.unread.len());
        buffer.put_slice(&self.unread.split_to(len));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.exchanges.set_flushed(false);
        if self.exchanged.is_empty() {
            match empty_error::with_body(bytes) {
                Some(answer) => (self.exchanged, self.has_refused) = (answer, true),
                None => return Pin::new(&mut self.stream).poll_write(context, bytes),
            }
        }
        self.poll_exchanged(context, bytes.len())
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.exchanges.set_flushed(true);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // It is of no use for anything else now.
        self.exchanges.set_flushed(false);
        if self.lingering.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
        }
        if self.has_refused || self.exchanges.left_unread() {
            ready!(self.poll_linger(context));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.exchanges.set_flushed(false);
        // A refusal has no body, so it is one part, or the first of empty ones.
        if let Some(first) = parts.iter().find(|part| !part.is_empty())
            && (!self.exchanged.is_empty() || first.starts_with(b"HTTP/1.1 4"))
        {
            return self.poll_write(context, first);
        }
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
