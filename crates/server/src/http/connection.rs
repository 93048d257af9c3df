//! One connection to the API: HTTP/1.1, or HTTP/2 by prior knowledge, with time-outs and bounds
//! against clients that are slow or mean harm.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use bytes::{Buf, Bytes};
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::refusal;
use crate::stop::Stop;

/// How long a request's head may take, and how long a connection may idle between requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a client may leave what it was sent unread or unacknowledged.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// HTTP/1.1: the read buffer, which also bounds the head.
const BUFFER_BYTES_MAX: usize = 256 * 1024;

/// HTTP/2: requests at one time, and bytes that may be under way in one request and in all.
const H2_STREAMS_MAX: u32 = 128;
const H2_STREAM_WINDOW: u32 = 256 * 1024;
const H2_WINDOW: u32 = 1024 * 1024;
const H2_HEAD_BYTES_MAX: u32 = 16 * 1024;
const H2_PING: Duration = Duration::from_secs(20);

/// Serves `stream` until its client or `stop` ends it.
pub(crate) async fn serve(stream: TcpStream, routes: Router, mut stop: Stop) {
    // Both fail only on a connection that is gone, which the first read will tell.
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(&stream).set_tcp_user_timeout(Some(STALL_TIMEOUT));
    let opened = tokio::select! {
        opened = timeout(HEAD_TIMEOUT, Opened::new(stream)) => opened,
        // It has asked for nothing yet.
        () = stop.said() => return,
    };
    match opened {
        Ok(Ok(opened)) if opened.is_h2() => serve_h2(opened, routes, stop).await,
        Ok(Ok(opened)) => serve_h1(opened, routes, stop).await,
        // It said nothing, so there is nothing to answer.
        Ok(Err(_)) | Err(_) => {}
    }
}

async fn serve_h1(stream: Opened, routes: Router, stop: Stop) {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(BUFFER_BYTES_MAX)
        .half_close(true);
    let service = TowerToHyperService::new(routes);
    until_stop(builder.serve_connection(TokioIo::new(stream), service), stop).await;
}

async fn serve_h2(stream: Opened, routes: Router, stop: Stop) {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(H2_STREAMS_MAX)
        .initial_stream_window_size(H2_STREAM_WINDOW)
        .initial_connection_window_size(H2_WINDOW)
        .max_header_list_size(H2_HEAD_BYTES_MAX)
        .keep_alive_interval(H2_PING)
        .keep_alive_timeout(H2_PING);
    let service = TowerToHyperService::new(routes);
    until_stop(builder.serve_connection(TokioIo::new(stream), service), stop).await;
}

/// Serves until the client is done, or until `stop` and the requests in progress are.
async fn until_stop<C>(connection: C, mut stop: Stop)
where
    C: GracefulConnection<Error = hyper::Error>,
{
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = stop.said() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    log(ended);
}

/// That a client breaks off or speaks no HTTP is its own affair: worth a line only when debugging.
fn log(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to the API ended early");
    }
}

/// A connection whose first bytes are read, because they tell the version of HTTP.
struct Opened {
    first: Bytes,
    stream: TcpStream,
    /// What is left to write of an answer that took the place of another.
    exchanged: Bytes,
}

/// The start of HTTP/2's preface (RFC 9113, section 3.4), which no method starts with.
const H2_PREFACE: &[u8] = b"PRI ";

impl Opened {
    async fn new(mut stream: TcpStream) -> io::Result<Opened> {
        let mut first = Vec::with_capacity(H2_PREFACE.len());
        while first.len() < H2_PREFACE.len() && H2_PREFACE.starts_with(&first) {
            let mut room = (&mut stream).take((H2_PREFACE.len() - first.len()) as u64);
            if room.read_buf(&mut first).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(Opened { first: first.into(), stream, exchanged: Bytes::new() })
    }

    fn is_h2(&self) -> bool {
        self.first == H2_PREFACE
    }

    /// Writes what is left of the exchanged answer, and then reports `len` bytes as written.
    fn poll_exchanged(&mut self, context: &mut Context<'_>, len: usize) -> Poll<io::Result<usize>> {
        while !self.exchanged.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &self.exchanged))?;
            self.exchanged.advance(written);
        }
        Poll::Ready(Ok(len))
    }
}

impl AsyncRead for Opened {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let len = self.first.len().min(buffer.remaining());
        buffer.put_slice(&self.first[..len]);
        self.first.advance(len);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Opened {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.exchanged.is_empty() {
            match refusal::with_body(bytes) {
                Some(answer) => self.exchanged = answer,
                None => return Pin::new(&mut self.stream).poll_write(context, bytes),
            }
        }
        self.poll_exchanged(context, bytes.len())
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
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
