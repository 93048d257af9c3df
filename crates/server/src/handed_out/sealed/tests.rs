//! An answer over TLS to a client that reads it slowly, or not at all.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use httpd::connection;
use httpd::exchange::Peer;
use httpd::permits::ConnectionPermits;
use tls::{KEYS_BYTES, Keys};
use tokio::io::{AsyncReadExt, DuplexStream, duplex};
use tokio_util::sync::CancellationToken;

use super::Sealed;

/// Bytes of the answer: many records.
const BYTES: usize = 1 << 20;

/// What the network between the two holds.
const ROOM: usize = 1 << 10;

/// Keys of TLS 1.2 with ChaCha20 that are the same to read and to write with, so that two who have
/// them are two ends of a connection.
fn keys() -> Box<Keys> {
    let mut written = [7; KEYS_BYTES];
    written[..12].copy_from_slice(&[1, 4 | 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let mut keys = Box::<Keys>::default();
    assert!(keys.read_back(&written));
    keys
}

/// The body of the answer, which is held as long as `held` is there more than once.
struct Held {
    bytes: Vec<u8>,
    _held: Arc<()>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn body() -> Vec<u8> {
    (0..BYTES).map(|nth| (nth / 7) as u8).collect()
}

/// Answers a request at the one end of a connection; its other end, and what is there more than
/// once as long as the answer is held.
fn served() -> (DuplexStream, Arc<()>) {
    let (near, far) = duplex(ROOM);
    let held = Arc::new(());
    let answer = Held { bytes: body(), _held: Arc::clone(&held) };
    let answer = Arc::new(Mutex::new(Some(Bytes::from_owner(answer))));
    let routes =
        Router::new().fallback(async move || Body::from(answer.lock().unwrap().take().unwrap()));
    tokio::spawn(async move {
        let permits = ConnectionPermits::new();
        let (permit, limit) = (permits.take().await.into_ordinary(), permits.idle_limit());
        let request = Bytes::from("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let (stream, peer) = (Sealed::new(near, keys(), Vec::new()), Peer::UNKNOWN);
        let stop = CancellationToken::new();
        connection::serve(stream, request, peer, routes, &permit, limit, stop).await;
    });
    (far, held)
}

#[tokio::test]
async fn answer_counts_as_long_as_its_client_has_not_read_it() {
    let (mut far, held) = served();
    far.read_exact(&mut [0; ROOM]).await.unwrap();
    far.read_exact(&mut [0; ROOM]).await.unwrap();
    assert_eq!(Arc::strong_count(&held), 2, "it is held, or copied");
}

#[tokio::test]
async fn answer_comes_whole_record_by_record() {
    let (far, held) = served();
    let (mut client, mut answer) = (Sealed::new(far, keys(), Vec::new()), Vec::new());
    client.read_to_end(&mut answer).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
    assert!(answer.ends_with(&body()), "{} bytes", answer.len());
    assert_eq!(Arc::strong_count(&held), 1);
}
