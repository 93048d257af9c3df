//! Requests and their answers through the socket between two programs.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use axum::Json;
use axum::body::Body;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::routing::get;
use bytes::Bytes;
use dispatch::successor::{Successor, place};
use futures_util::stream;
use http_body_util::{BodyExt, Empty};
use httpd::exchange::Peer;
use httpd::permits::ConnectionPermits;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tempfile::TempDir;
use testing::DEADLINE;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::*;
use crate::listener::{self, ApiPort, Service};

mod streams;

/// The program that was.
struct Old {
    address: SocketAddr,
    barrier: Arc<Barrier>,
    task: JoinHandle<()>,
    _running: DropGuard,
}

impl Old {
    async fn start() -> Old {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, barrier) = (listener.local_addr().unwrap(), Barrier::new());
        let stop = CancellationToken::new();
        let routes = Router::new().fallback(async || "old");
        let ports = vec![ApiPort { listener: listener.into(), tls: None }];
        let routes = guarded(routes, &barrier);
        let permits = ConnectionPermits::new();
        let service = Service { routes, permits, lanes: None, stop: stop.clone() };
        let task = tokio::spawn(listener::run(ports, service, Arc::clone(&barrier)));
        Old { address, barrier, task, _running: stop.drop_guard() }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// A connection that has been served.
    async fn known(&self) -> TcpStream {
        let (mut stream, mut answer) = (self.connect().await, Vec::new());
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        while !answer.ends_with(b"\r\n\r\nold") {
            let read = timeout(DEADLINE, stream.read_buf(&mut answer)).await;
            assert_ne!(read.expect("it is answered").unwrap(), 0);
        }
        stream
    }

    /// Writes `request` and reads until the connection ends.
    async fn ask(&self, request: &str) -> String {
        ask(self.connect().await, request).await
    }
}

async fn ask(mut stream: TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    read(&mut stream).await
}

async fn read(stream: &mut TcpStream) -> String {
    let mut answer = String::new();
    timeout(DEADLINE, stream.read_to_string(&mut answer)).await.expect("it ends").unwrap();
    answer
}

/// The program that goes on, with the data in `data`.
fn new(data: &Path) -> DropGuard {
    let routes = Router::new()
        .route(
            "/endless",
            get(async || {
                let pieces = stream::unfold((), async |()| {
                    sleep(Duration::from_millis(1)).await;
                    Some((Ok::<_, std::convert::Infallible>("piece\n"), ()))
                });
                Body::from_stream(pieces)
            }),
        )
        .fallback(echo);
    let (stop, barrier) = (CancellationToken::new(), Barrier::new());
    let socket = PassingSocket::bind(data).unwrap();
    tokio::spawn(socket.serve(routes, ConnectionPermits::new(), barrier, stop.clone()));
    stop.drop_guard()
}

async fn echo(
    method: Method,
    uri: Uri,
    fields: HeaderMap,
    request: Request,
) -> (StatusCode, Json<Value>) {
    let peer = *request.extensions().get::<Peer>().unwrap();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let names: Vec<&str> = fields.keys().map(|name| name.as_str()).collect();
    let echo = json!({
        "method": method.as_str(),
        "uri": uri.to_string(),
        "names": names,
        "host": fields.get(header::HOST).map(|host| host.to_str().unwrap()),
        "peer": peer.address.to_string(),
        "tls": peer.is_tls,
        "bytes": body.len(),
        "sum": body.iter().map(|&byte| u64::from(byte)).sum::<u64>(),
    });
    (StatusCode::ACCEPTED, Json(echo))
}

fn data() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// The status and the body of an answer that says that it is the last one.
fn last(answer: &str) -> (&str, Value) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    assert!(head.to_ascii_lowercase().contains("connection: close"), "{head}");
    (&head[9..12], serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer:?}")))
}

#[tokio::test]
async fn request_that_waits_at_the_barrier_goes_to_the_successor_whole() {
    let (old, data) = (Old::start().await, data());
    let _new = new(data.path());
    old.barrier.close();
    let body = "7".repeat(700_000);
    let asking = old.connect().await;
    let (mut reader, mut writer) = asking.into_split();
    let writing = tokio::spawn(async move {
        let head = "POST /send?a=%20b HTTP/1.1\r\nHost: push.test\r\nX-Own: 1\r\n\
                    Connection: x-own, keep-alive\r\nIdempotency-Key: k\r\n\
                    Encke-Passed-On: for=10.0.0.1;proto=https\r\n\
                    Transfer-Encoding: chunked\r\n\r\n";
        writer.write_all(head.as_bytes()).await.unwrap();
        for piece in body.as_bytes().chunks(10_000) {
            let size = format!("{:x}\r\n", piece.len());
            writer.write_all(&[size.as_bytes(), piece, b"\r\n"].concat()).await.unwrap();
        }
        writer.write_all(b"0\r\n\r\n").await.unwrap();
        writer
    });
    let mut answer = String::new();
    let read = timeout(Duration::from_millis(50), reader.read_to_string(&mut answer)).await;
    assert!(read.is_err(), "it waits: {answer}");
    old.barrier.move_on(Successor::in_any_process(data.path()));
    timeout(DEADLINE, reader.read_to_string(&mut answer)).await.unwrap().unwrap();
    drop(writing.await.unwrap());
    let (status, echo) = last(&answer);
    assert_eq!(status, "202");
    assert_eq!((&echo["method"], &echo["uri"]), (&json!("POST"), &json!("/send?a=%20b")));
    assert_eq!((&echo["bytes"], &echo["sum"]), (&json!(700_000), &json!(700_000 * 55)));
    assert_eq!((&echo["peer"], &echo["tls"]), (&json!("127.0.0.1"), &json!(false)));
    assert_eq!(echo["host"], "push.test");
    let names = echo["names"].to_string();
    assert!(names.contains("idempotency-key") && !names.contains("x-own"), "{names}");
    assert!(!names.contains("encke-passed-on"), "{names}");
}

#[tokio::test]
async fn upgrade_that_fails_leaves_those_who_waited_where_they_are() {
    let old = Old::start().await;
    old.barrier.close();
    let mut stream = old.connect().await;
    stream.write_all(b"GET /stats HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let probe = old.ask("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    assert!(probe.ends_with("\r\n\r\nold"), "probes are answered meanwhile: {probe}");
    let mut byte = [0];
    assert!(timeout(Duration::from_millis(50), stream.read(&mut byte)).await.is_err());
    old.barrier.open();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let both = read(&mut stream).await;
    assert_eq!(both.matches("\r\n\r\nold").count(), 2, "the connection stays: {both}");
}

#[tokio::test]
async fn probes_go_to_the_successor_once_there_is_one() {
    let (old, data) = (Old::start().await, data());
    let stream = old.known().await;
    let _new = new(data.path());
    old.barrier.move_on(Successor::in_any_process(data.path()));
    let answer = ask(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(last(&answer).1["uri"], "/metrics");
}

#[tokio::test]
async fn successor_that_cannot_be_reached_was_told_nothing_and_one_that_goes_away_perhaps() {
    let (old, data) = (Old::start().await, data());
    let path = place::path(data.path());
    let taken = UnixListener::bind(&path).unwrap();
    let clients = [old.known().await, old.known().await, old.known().await];
    let [first, second, third] = clients;
    old.barrier.move_on(Successor::in_any_process(data.path()));
    let accepting = tokio::spawn(async move {
        for _ in 0..2 {
            let (mut stream, _) = taken.accept().await.unwrap();
            stream.read_exact(&mut [0; 8]).await.unwrap();
        }
    });
    let post = "POST /send HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n1";
    let answer = ask(first, post).await;
    let (status, problem) = last(&answer);
    assert_eq!(status, "503");
    assert!(problem["detail"].as_str().unwrap().contains("not known"), "{problem}");
    assert!(!answer.contains("retry-after"), "{answer}");
    let answer = ask(second, "GET /stats HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(last(&answer).1["detail"].as_str().unwrap().contains("Ask again"), "{answer}");
    accepting.await.unwrap();
    let answer = ask(third, post).await;
    let (status, problem) = last(&answer);
    assert_eq!(status, "503");
    assert!(problem["detail"].as_str().unwrap().contains("Nothing was done"), "{problem}");
    assert!(answer.contains("retry-after: 1"), "{answer}");
}

#[tokio::test]
async fn answer_is_passed_on_as_it_comes_and_ends_with_its_client() {
    let (old, data) = (Old::start().await, data());
    let _new = new(data.path());
    let mut stream = old.known().await;
    old.barrier.move_on(Successor::in_any_process(data.path()));
    stream.write_all(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut pieces = [0; 2_000];
    timeout(DEADLINE, stream.read_exact(&mut pieces)).await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&pieces).contains("piece\n\r\n"));
    let tasks = [&old.task];
    assert!(!until_last(&tasks, Duration::from_millis(50)).await, "there is one");
    drop(stream);
    assert!(until_last(&tasks, DEADLINE).await);
}

#[tokio::test]
async fn old_program_accepts_nobody_any_more_and_ends_with_its_last_connection() {
    let (old, data) = (Old::start().await, data());
    let idle = old.known().await;
    let _new = new(data.path());
    old.barrier.move_on(Successor::in_any_process(data.path()));
    timeout(DEADLINE, async {
        while TcpStream::connect(old.address).await.is_ok() {
            sleep(LOOK).await;
        }
    })
    .await
    .expect("its port is closed");
    assert!(!until_last(&[&old.task], Duration::from_millis(50)).await);
    ask(idle, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(until_last(&[&old.task], DEADLINE).await);
}

#[tokio::test]
async fn connection_of_http2_is_passed_on_and_told_to_go() {
    let (old, data) = (Old::start().await, data());
    let opened = http2::handshake(TokioExecutor::new(), TokioIo::new(old.connect().await)).await;
    let (mut asking, connection) = opened.unwrap();
    let connection = tokio::spawn(connection);
    let request =
        || Request::builder().uri("http://push.test/stats?x").body(Empty::<Bytes>::new()).unwrap();
    let first = asking.send_request(request()).await.unwrap().collect().await.unwrap();
    assert_eq!(first.to_bytes(), "old");
    let _new = new(data.path());
    old.barrier.close();
    let waiting = [asking.clone().send_request(request()), asking.send_request(request())];
    old.barrier.move_on(Successor::in_any_process(data.path()));
    for answer in waiting {
        let answer = timeout(DEADLINE, answer).await.unwrap().unwrap();
        assert_eq!(answer.status(), StatusCode::ACCEPTED);
        assert!(!answer.headers().contains_key(header::CONNECTION));
        let body = answer.collect().await.unwrap().to_bytes();
        let echo: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(echo["host"], "push.test");
        assert_eq!(echo["uri"], "http://push.test/stats?x");
    }
    timeout(DEADLINE, connection).await.expect("it is told to go").unwrap().unwrap();
}

#[tokio::test]
async fn socket_is_for_its_user_alone_and_may_have_a_long_path() {
    let data = data();
    let deep = data.path().join("d".repeat(200));
    std::fs::create_dir(&deep).unwrap();
    let socket = PassingSocket::bind(&deep).unwrap();
    let path = place::path(&deep);
    assert!(!path.exists(), "it has not taken the place yet");
    drop(socket);
    assert_eq!(std::fs::read_dir(&deep).unwrap().count(), 0);
    let _new = new(&deep);
    let old = Old::start().await;
    let stream = old.known().await;
    old.barrier.move_on(Successor::in_any_process(&deep));
    let answer = ask(stream, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(last(&answer).0, "202");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
