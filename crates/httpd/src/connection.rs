//! One connection to the API: HTTP/1.1, or HTTP/2 by prior knowledge, with time-outs and bounds
//! against clients that are slow or mean harm.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{Request, Response};
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::exchange::{Answer, Exchanges, Idle, Peer, answer};
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

/// Ours counts for both versions, and is shorter while permits are scarce.
const NO_HEAD_TIMEOUT: Option<Duration> = None;

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

/// What a connection is served by, beside its permit.
#[derive(Clone)]
pub struct Serving {
    /// Where it comes from.
    pub peer: Peer,
    /// Who answers.
    pub routes: Router,
    /// How long it may be idle.
    pub idle_limit: IdleLimit,
    /// What ends it.
    pub stop: CancellationToken,
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
    let wire = TokioIo::new(Wire::new(stream, Arc::clone(&exchanges), unread));
    let service = service(Arc::clone(&exchanges), routes, permit.is_reserved(), peer);
    let builder = builder(!peer.ends_with_its_side);
    let connection = pin!(builder.serve_connection(wire, service));
    let shut = auto::Connection::graceful_shutdown;
    to_its_end(connection, shut, &exchanges, &mut idle_limit, &stop).await;
}

/// Serves a connection with an ordinary permit, of which HTTP/1.1 is known, like that, until so
/// many requests are answered and none is in progress. Then it comes back, with what was read of
/// the next ones. `None` if it has ended.
pub async fn serve_some<S>(
    stream: S,
    unread: Bytes,
    serving: &Serving,
    answers: u32,
) -> Option<(S, Bytes)>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Serving { peer, routes, mut idle_limit, stop } = serving.clone();
    let exchanges = Exchanges::new();
    let wire = TokioIo::new(Wire::new(stream, Arc::clone(&exchanges), unread));
    let service = service(Arc::clone(&exchanges), routes, false, peer);
    let mut connection = h1_builder(!peer.ends_with_its_side).serve_connection(wire, service);
    let shut = http1::Connection::graceful_shutdown;
    tokio::select! {
        biased;
        () = to_its_end(Pin::new(&mut connection), shut, &exchanges, &mut idle_limit, &stop) => {
            return None;
        }
        () = exchanges.between(answers) => {}
    }
    let http1::Parts { io, read_buf, .. } = connection.into_parts();
    let (stream, rest) = io.into_inner().into_parts();
    let unread = match (read_buf.is_empty(), rest.is_empty()) {
        (_, true) => read_buf,
        (true, false) => rest,
        (false, false) => [read_buf, rest].concat().into(),
    };
    Some((stream, unread))
}

fn service(
    exchanges: Arc<Exchanges>,
    routes: Router,
    is_reserved: bool,
    peer: Peer,
) -> impl Service<
    Request<Incoming>,
    Response = Response<Answer>,
    Error = Infallible,
    Future = impl Future<Output = Result<Response<Answer>, Infallible>> + Send + 'static,
> {
    service_fn(move |request| {
        let answer = answer(Arc::clone(&exchanges), routes.clone(), is_reserved, peer, request);
        async { Ok(answer.await) }
    })
}

/// Has a connection go on until it ends; `shut` has it take no more requests.
async fn to_its_end<C, E>(
    mut connection: Pin<&mut C>,
    shut: impl FnOnce(Pin<&mut C>),
    exchanges: &Exchanges,
    idle_limit: &mut IdleLimit,
    stop: &CancellationToken,
) where
    C: Future<Output = Result<(), E>>,
    E: std::fmt::Display,
{
    let mut idle = exchanges.idle();
    tokio::select! {
        // First, so that a request whose begin is here is in progress when all is to end.
        biased;
        ended = connection.as_mut() => return log(ended),
        () = stop.cancelled() => {}
        () = exchanges.last() => {}
        () = silent(&mut idle, idle_limit) => {}
    }
    shut(connection.as_mut());
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

fn builder(half_close: bool) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(NO_HEAD_TIMEOUT)
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

/// HTTP/1.1 alone, as the other has it: that one is of another type, and gives no stream back.
fn h1_builder(half_close: bool) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(NO_HEAD_TIMEOUT)
        .max_buf_size(BUFFER_BYTES_MAX)
        .half_close(half_close);
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
    use axum::routing::any;
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

    /// Answers with what it was sent, or without a look at it.
    fn echo() -> Router {
        Router::new().route("/unread", any(async || "x")).fallback(async |body: Bytes| body)
    }

    const ASK: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx";

    /// What is left of `unread` behind so many answers, if the connection comes back, and what was
    /// answered.
    async fn some(unread: &str, answers: u32) -> (Option<String>, String) {
        let (near, mut far) = duplex(16_384);
        let permits = ConnectionPermits::new();
        let (peer, stop) = (Peer::UNKNOWN, CancellationToken::new());
        let idle_limit = permits.idle_limit();
        let serving = Serving { peer, routes: echo(), idle_limit, stop };
        let unread = Bytes::copy_from_slice(unread.as_bytes());
        let back = serve_some(near, unread, &serving, answers).await;
        let rest = back.map(|(_, rest)| String::from_utf8(rest.to_vec()).unwrap());
        let mut answered = String::new();
        far.read_to_string(&mut answered).await.unwrap();
        (rest, answered)
    }

    #[tokio::test(start_paused = true)]
    async fn connection_comes_back_behind_its_answers_with_what_was_read_of_the_next() {
        let all = [ASK, ASK, "POST / HTTP/1.1\r\nHo"].concat();
        for answers in 1..=2 {
            let (rest, answered) = some(&all, answers).await;
            let count = answered.matches("HTTP/1.1 200 OK\r\n").count();
            assert!(count >= answers as usize, "{answered}");
            assert_eq!(rest.as_deref(), Some(&all[count * ASK.len()..]));
            assert_eq!(answered.matches("\r\n\r\nx").count(), count, "{answered}");
            assert!(!answered.contains("connection:"), "{answered}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn connection_that_ends_does_not_come_back() {
        let close = ASK.replace("Host: a", "Host: a\r\nConnection: close");
        let bad = "nonsense\r\n\r\n";
        let good_and_bad = [ASK, bad].concat();
        for (unread, answers, begin) in [
            (&*close, 1, "HTTP/1.1 200"),
            (&good_and_bad, 2, "HTTP/1.1 200"),
            (bad, 1, "HTTP/1.1 400"),
            ("", 1, ""),
        ] {
            let (rest, answered) = some(unread, answers).await;
            assert_eq!(rest, None, "{unread}");
            assert!(answered.starts_with(begin), "{unread}: {answered}");
        }
        // It goes on behind one that nobody reads, and does not come back in the middle of that.
        let all = [&ASK.replace("POST /", "POST /unread"), ASK].concat();
        let (rest, answered) = some(&all, 1).await;
        assert_eq!(rest.as_deref(), Some(""));
        assert_eq!(answered.matches("HTTP/1.1 200 OK\r\n").count(), 2, "{answered}");
        // Not with what was refused already, which is being left behind.
        let (rest, answered) = some(&good_and_bad, 1).await;
        assert_ne!(rest.is_some(), answered.contains("HTTP/1.1 400"), "{answered}");
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_closes_its_side_is_served_on_unless_that_is_its_end() {
        assert_eq!(served(true).await, Duration::ZERO);
        assert!(served(false).await >= STALL_TIMEOUT);
    }
}
