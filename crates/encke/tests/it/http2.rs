//! The API over HTTP/2 by prior knowledge, as gateways and service meshes speak it.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::harness::{DEADLINE, Server, check_problem};

type Body = BoxBody<Bytes, Infallible>;
type Client = SendRequest<Body>;

/// Runs a client of its own thread, within the deadline of all tests.
fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { timeout(DEADLINE, test).await.expect("in time") })
}

async fn connect(address: SocketAddr) -> Client {
    let socket = TcpStream::connect(address).await.unwrap();
    let (client, connection) = handshake(TokioExecutor::new(), TokioIo::new(socket)).await.unwrap();
    // It ends when the client is dropped.
    tokio::spawn(connection);
    client
}

fn request(address: SocketAddr, method: &str, path: &str, kind: &str, body: Body) -> Request<Body> {
    let uri = format!("http://{address}{path}");
    Request::builder().method(method).uri(uri).header("content-type", kind).body(body).unwrap()
}

fn whole(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).boxed()
}

async fn read(response: Response<Incoming>) -> (u16, Value) {
    assert_eq!(response.version(), Version::HTTP_2);
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

#[test]
fn calls_share_one_connection_at_one_time() {
    let server = Server::start(&["--max-backlog=1MiB"]);
    let address = server.api.address();
    let mut listener = server.listener("1");
    run(async {
        let client = connect(address).await;
        let calls = (0..100).map(|n| {
            let event = json!({ "about": 1, "data": n }).to_string();
            let request = request(address, "POST", "/send", "application/json", whole(event));
            let mut client = client.clone();
            tokio::spawn(async move { read(client.send_request(request).await.unwrap()).await })
        });
        for call in calls.collect::<Vec<_>>() {
            let (status, answer) = call.await.unwrap();
            assert_eq!((status, &answer["delivered"]), (200, &json!(1)));
        }
        let mut client = client;
        for (method, path, status) in
            [("GET", "/nowhere", 404), ("GET", "/send", 405), ("GET", "/connections/a%20b", 400)]
        {
            let request = request(address, method, path, "application/json", whole(""));
            let (found, problem) = read(client.send_request(request).await.unwrap()).await;
            assert_eq!(found, status);
            check_problem(&problem, status);
        }
    });
    let mut heard: Vec<_> = (0..100).map(|_| listener.data().as_u64().unwrap()).collect();
    heard.sort_unstable();
    assert_eq!(heard, (0..100).collect::<Vec<_>>());
}

#[test]
fn calls_with_one_idempotency_key_at_one_time_are_posted_once() {
    let server = Server::start(&[]);
    let address = server.api.address();
    let mut listener = server.listener("1");
    run(async {
        let client = connect(address).await;
        let calls = (0..100).map(|_| {
            let event = whole(r#"{"about":1,"data":"once"}"#);
            let mut request = request(address, "POST", "/send", "application/json", event);
            request.headers_mut().insert("idempotency-key", "\"k\"".parse().unwrap());
            let mut client = client.clone();
            tokio::spawn(async move { read(client.send_request(request).await.unwrap()).await })
        });
        let mut answers = Vec::new();
        for call in calls.collect::<Vec<_>>() {
            answers.push(call.await.unwrap());
        }
        answers.dedup();
        assert_eq!(answers.len(), 1, "{answers:?}");
        assert_eq!((answers[0].0, &answers[0].1["delivered"]), (200, &json!(1)));
    });
    assert_eq!(server.api.send("1", "after"), 1);
    assert_eq!((listener.data(), listener.data()), (json!("once"), json!("after")));
}

#[test]
fn stream_of_events_is_answered_while_it_is_sent() {
    let server = Server::start(&[]);
    let address = server.api.address();
    let mut listener = server.listener("1");
    run(async {
        let mut client = connect(address).await;
        let (lines, mut queue) = mpsc::channel::<Frame<Bytes>>(1);
        let body = futures_util::stream::poll_fn(move |context| {
            queue.poll_recv(context).map(|frame| frame.map(Ok::<_, Infallible>))
        });
        let body = StreamBody::new(body).boxed();
        let request = request(address, "POST", "/send", "application/x-ndjson", body);
        let mut answers = client.send_request(request).await.unwrap().into_body();
        for n in 0..50 {
            let line = format!("{{\"about\":1,\"data\":{n}}}\n");
            lines.send(Frame::data(line.into())).await.unwrap();
            let answer = answers.frame().await.unwrap().unwrap().into_data().unwrap();
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            assert_eq!(answer["delivered"], 1);
        }
        drop(lines);
        assert!(answers.collect().await.unwrap().to_bytes().is_empty());
    });
    for n in 0..50 {
        assert_eq!(listener.data(), n);
    }
}

#[test]
fn connection_of_http_2_does_not_hold_up_the_end() {
    let server = Server::start(&["--grace=20"]);
    let address = server.api.address();
    run(async {
        let mut client = connect(address).await;
        let request = request(address, "GET", "/readyz", "application/json", whole(""));
        let (status, _) = read(client.send_request(request).await.unwrap()).await;
        assert_eq!(status, 200);
        let stop = tokio::task::spawn_blocking(|| server.stop("TERM"));
        assert_eq!(stop.await.unwrap().code(), Some(0));
    });
}
