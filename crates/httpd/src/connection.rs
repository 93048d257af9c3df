//! One connection to the API: HTTP/1.1, or HTTP/2 by prior knowledge, with time-outs and bounds
//! against clients that are slow or mean harm.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use bytes::Bytes;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::exchange::{Exchanges, Idle, Peer, answer};
use super::permits::{IdleLimit, Permit};
use super::wire::{LINGER, Wire};

/// How long a request's head may take, and how long a connection may idle between requests.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a client may leave what it was sent unread or unacknowledged.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a connection that is to end may do so without a request in progress: time for what it
/// lingers, and not for half a head.
const END_TIMEOUT: Duration = LINGER.saturating_add(Duration::from_millis(500));

/// HTTP/1.1: the read buffer, which also bounds the head.
const BUFFER_BYTES_MAX: usize = 256 * 1024;

/// HTTP/2: requests at one time, and bytes that may be under way in one request and in all.
const H2_STREAMS_MAX: u32 = 128;
const H2_STREAM_WINDOW: u32 = 256 * 1024;
const H2_WINDOW: u32 = 1024 * 1024;
const H2_HEAD_BYTES_MAX: u32 = 16 * 1024;
const H2_PING: Duration = Duration::from_secs(20);

const _: () = {
    // One exchange alone may not use up the connection's window.
    assert!(H2_STREAM_WINDOW < H2_WINDOW);
    // Whoever is told that a connection ends has read it before the connection is cut.
    assert!(END_TIMEOUT.as_millis() > LINGER.as_millis());
    // A peer that answers no ping is found out before its silence is.
    assert!(IDLE_TIMEOUT.as_secs() < STALL_TIMEOUT.as_secs());
};

/// Sets what holds for every connection, before anything is read of it.
pub fn prepare(stream: &TcpStream) {
    // Both fail only on a connection that is gone, which the first read will tell.
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(stream).set_tcp_user_timeout(Some(STALL_TIMEOUT));
}

/// Serves `stream`, a connection that is [prepared](prepare) or TLS on one, and of which `unread`
/// was read before, until its client, its silence, an answer that is the last one or `stop` ends
/// it.
pub async fn serve<S>(
    stream: S,
    unread: Bytes,
    peer: Peer,
    routes: Router,
    permit: &Permit,
    mut idle_limit: IdleLimit,
    stop: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let exchanges = Exchanges::new();
    let mut idle = exchanges.idle();
    let is_reserved = permit.is_reserved();
    let told = Arc::clone(&exchanges);
    let wire = TokioIo::new(Wire::new(stream, Arc::clone(&exchanges), unread));
    let service = service_fn(move |request| {
        let answer = answer(Arc::clone(&exchanges), routes.clone(), is_reserved, peer, request);
        async { Ok::<_, std::convert::Infallible>(answer.await) }
    });
    let builder = builder(!peer.ends_with_its_side);
    let mut connection = pin!(builder.serve_connection(wire, service));
    tokio::select! {
        // First, so that a request whose begin is here is in progress when all is to end.
        biased;
        ended = connection.as_mut() => return log(ended),
        () = stop.cancelled() => {}
        () = told.last() => {}
        () = silent(&mut idle, &mut idle_limit) => {}
    }
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        ended = connection.as_mut() => log(ended),
        () = without_request(&mut idle) => {}
    }
}

/// Serves a connection of the program before us, which says of each request whose it is.
pub async fn serve_passed(
    stream: UnixStream,
    routes: Router,
    permit: Permit,
    limit: IdleLimit,
    stop: CancellationToken,
) {
    let permit = permit.into_ordinary();
    serve(stream, Bytes::new(), Peer::UNKNOWN, routes, &permit, limit, stop).await;
}

fn builder(half_close: bool) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // Ours counts for both versions, and is shorter while permits are scarce.
        .header_read_timeout(None)
        .max_buf_size(BUFFER_BYTES_MAX)
        .half_close(half_close);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(H2_STREAMS_MAX)
        .initial_stream_window_size(H2_STREAM_WINDOW)
        .initial_connection_window_size(H2_WINDOW)
        .max_header_list_size(H2_HEAD_BYTES_MAX)
        .keep_alive_interval(H2_PING)
        .keep_alive_timeout(H2_PING);
    builder
}

/// Waits until no request has been in progress for too long.
async fn silent(idle: &mut Idle, idle_limit: &mut IdleLimit) {
    loop {
        let since = idle.begins().await;
        tokio::select! {
            () = idle.ends() => {}
            _ = idle_limit.expired_between(since, IDLE_TIMEOUT) => return,
        }
    }
}

/// Waits until a connection that is to end has had no request in progress for a while.
async fn without_request(idle: &mut Idle) {
    let told = Instant::now();
    loop {
        let since = idle.begins().await.max(told);
        tokio::select! {
            () = idle.ends() => {}
            () = tokio::time::sleep_until(since + END_TIMEOUT) => return,
        }
    }
}

/// A client that breaks off or speaks no HTTP is its own affair: worth a line only when debugging.
fn log<E: std::fmt::Display>(ended: Result<(), E>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to the API ended early");
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use futures_util::stream;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::super::permits::ConnectionPermits;
    use super::*;

    /// How long one is served who asks for an answer without an end, reads its head and leaves.
    async fn served(ends_with_its_side: bool) -> Duration {
        let (near, mut far) = duplex(1_024);
        let routes = Router::new().fallback(async || {
            Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>())
        });
        let begun = Instant::now();
        let serving = tokio::spawn(async move {
            let permits = ConnectionPermits::new();
            let (permit, limit) = (permits.take().await.into_ordinary(), permits.idle_limit());
            let peer = Peer { ends_with_its_side, ..Peer::UNKNOWN };
            let stop = CancellationToken::new();
            serve(near, Bytes::new(), peer, routes, &permit, limit, stop).await;
        });
        far.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        far.read_exact(&mut [0; 12]).await.unwrap();
        far.shutdown().await.unwrap();
        // The clock goes on by itself where nothing else happens.
        let _ = tokio::time::timeout(STALL_TIMEOUT, serving).await;
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_closes_its_side_is_served_on_unless_that_is_its_end() {
        assert_eq!(served(true).await, Duration::ZERO);
        assert!(served(false).await >= STALL_TIMEOUT);
    }
}
