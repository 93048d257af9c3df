//! TLS on a connection whose keys are known: text to records and back, over a socket of the
//! runtime.
//!
//! What is sealed has used up its number, so it is sent before anything else, or the connection
//! ends. One record at a time is sealed ahead: text is taken as slowly as its client reads, so that
//! whoever wrote it counts what waits.

use std::io::{self, ErrorKind, IoSlice};
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tls::limits::{ALERT_BYTES_MAX, RECORD_BYTES_MAX, SEALED_BYTES_MAX};
use tls::{Alert, Keys, Opened};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection that speaks TLS.
pub(super) struct Sealed<S> {
    stream: S,
    /// Where they were read back: what moves leaves a copy behind.
    keys: Box<Keys>,
    /// What was received and not opened. At its front is an opened record as long as there is text
    /// of it.
    received: Vec<u8>,
    /// The text in that record that nobody has taken.
    text: Range<usize>,
    /// The length of that record.
    opened: usize,
    /// What is sealed, and how much of it was sent.
    out: Vec<u8>,
    sent: usize,
}

impl<S: AsyncWrite + Unpin> Sealed<S> {
    /// TLS with `keys` on `stream`, of which `received` was not opened yet.
    pub(super) fn new(stream: S, keys: Box<Keys>, received: Vec<u8>) -> Sealed<S> {
        Sealed { stream, keys, received, text: 0..0, opened: 0, out: Vec::new(), sent: 0 }
    }

    /// Opens what has come. Whether there is text, or the end of it.
    fn open(&mut self) -> io::Result<Found> {
        loop {
            self.received.drain(..std::mem::take(&mut self.opened));
            match self.keys.opener().next(&mut self.received) {
                Ok(Opened::Data { record, text }) => {
                    (self.opened, self.text) = (record, text);
                    return Ok(Found::Text);
                }
                Ok(Opened::Idle { record }) => self.opened = record,
                Ok(Opened::NeedMore { .. }) => return Ok(Found::Nothing),
                Ok(Opened::Closed) => return Ok(Found::End),
                Err(fault) => return Err(io::Error::new(ErrorKind::InvalidData, fault)),
            }
        }
    }

    /// Sends what is sealed.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.out.len() {
            let rest = &self.out[self.sent..];
            match ready!(Pin::new(&mut self.stream).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                sent => self.sent += sent,
            }
        }
        (self.out, self.sent) = (Vec::new(), 0);
        Poll::Ready(Ok(()))
    }
}

/// What was found in what has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    Text,
    /// No whole record.
    Nothing,
    /// The client has said all.
    End,
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Sealed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.text.is_empty() {
            match this.open()? {
                Found::Text => {}
                Found::End => return Poll::Ready(Ok(())),
                Found::Nothing => {
                    let mut bytes = [0; RECORD_BYTES_MAX];
                    let mut came = ReadBuf::new(&mut bytes);
                    ready!(Pin::new(&mut this.stream).poll_read(context, &mut came))?;
                    if came.filled().is_empty() {
                        return Poll::Ready(Ok(()));
                    }
                    this.received.extend_from_slice(came.filled());
                }
            }
        }
        let len = this.text.len().min(buffer.remaining());
        buffer.put_slice(&this.received[this.text.start..][..len]);
        this.text.start += len;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Sealed<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_send(context))?;
        let this = &mut *self;
        let text: usize = parts.iter().map(|part| part.len()).sum();
        this.out = vec![0; SEALED_BYTES_MAX.min(text.saturating_add(SEALED_BYTES_MAX / 16))];
        let sealed = this.keys.sealer().seal(parts, 0, &mut this.out);
        let sealed = sealed.map_err(|why| io::Error::new(ErrorKind::InvalidData, why))?;
        this.out.truncate(sealed.bytes);
        // What of it has no room now goes first the next time.
        let _ = this.poll_send(context)?;
        Poll::Ready(Ok(sealed.text))
    }

    /// Or hyper would copy all of an answer at once, which is then counted nowhere.
    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(context))?;
        let this = &mut *self;
        let mut alert = [0; ALERT_BYTES_MAX];
        let len = this.keys.sealer().alert(Alert::CLOSE_NOTIFY, &mut alert);
        if len > 0 {
            this.out = alert[..len].to_vec();
            ready!(this.poll_send(context))?;
        }
        Pin::new(&mut this.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
