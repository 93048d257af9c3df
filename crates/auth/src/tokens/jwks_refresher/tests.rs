//! Against a real server of HTTP on this machine.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use http_body_util::Full;
use hub::TokenRefusal;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use testing::DEADLINE;
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::*;
use crate::tokens::TokenRules;
use crate::tokens::testing::*;

/// What a server of keys answers, and how often it was asked.
struct Issuer {
    address: SocketAddr,
    /// Status and body; no answer at all where there is none.
    answer: Arc<Mutex<Option<(u16, String)>>>,
    asked: Arc<AtomicU64>,
}

impl Issuer {
    async fn start(set: &Value) -> Issuer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answer = Arc::new(Mutex::new(Some((200, set.to_string()))));
        let asked = Arc::new(AtomicU64::new(0));
        let (answers, count) = (Arc::clone(&answer), Arc::clone(&asked));
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (answers, count) = (Arc::clone(&answers), Arc::clone(&count));
                let service = service_fn(move |_: Request<Incoming>| {
                    count.fetch_add(1, Ordering::Relaxed);
                    let answer = answers.lock().unwrap().clone();
                    async move {
                        let Some((status, body)) = answer else {
                            return std::future::pending().await;
                        };
                        let answer = Response::builder().status(status);
                        let answer = answer.header("Cache-Control", "max-age=600");
                        let answer = answer.header("Location", "/elsewhere");
                        Ok::<_, Infallible>(answer.body(Full::new(Bytes::from(body))).unwrap())
                    }
                });
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(socket), service);
                tokio::spawn(connection);
            }
        });
        Issuer { address, answer, asked }
    }

    fn answers(&self, status: u16, body: impl ToString) {
        *self.answer.lock().unwrap() = Some((status, body.to_string()));
    }

    fn is_silent(&self) {
        *self.answer.lock().unwrap() = None;
    }

    fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    fn source(&self) -> String {
        format!("http://{}/jwks.json", self.address)
    }
}

fn verifier_of(source: &str) -> Arc<Verifier> {
    let jwks = Some(source.parse().unwrap());
    Arc::new(Verifier::open(TokenRules { jwks, ..TokenRules::default() }, None).unwrap())
}

/// Waits until `done`, with a deadline.
async fn until(done: impl Fn() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    let mut looks = tokio::time::interval(Duration::from_millis(1));
    while !done() {
        assert!(Instant::now() < deadline);
        looks.tick().await;
    }
}

/// The time from one look to the next in these tests.
const PAUSE: Duration = Duration::from_millis(100);

fn figures(verifier: &Verifier) -> [u64; 3] {
    let figures = verifier.figures();
    [figures.jwks_keys, figures.jwks_looks, figures.jwks_failures]
}

#[test]
fn source_is_a_file_or_a_url() {
    let source = |text: &str| text.parse::<JwksSource>();
    assert_eq!(source("keys.json"), Ok(JwksSource::File("keys.json".into())));
    assert_eq!(source("https://i.example/k?secret=1").unwrap().to_string(), "https://i.example/k");
    for wrong in ["ftp://i.example/k", "https://", "http://user:word@i.example/", "https:// /"] {
        assert!(source(wrong).is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn keys_rotate_without_a_restart() {
    let (old, new) = (Pair::p256(), Pair::p256());
    let issuer = Issuer::start(&json!({ "keys": [named(&old, "old")] })).await;
    let verifier = verifier_of(&issuer.source());
    let mut refresher = JwksRefresher::new(Arc::clone(&verifier)).unwrap().unwrap();
    let (old_token, new_token) = (token(&old, "old"), token(&new, "new"));
    assert_eq!(verified(&verifier, &old_token), Some(TokenRefusal::UnknownKey));
    assert_eq!(refresher.look().await, Duration::from_secs(600));
    assert_eq!(verified(&verifier, &old_token), None);
    assert_eq!(verified(&verifier, &new_token), Some(TokenRefusal::UnknownKey));
    issuer.answers(200, json!({ "keys": [named(&old, "old"), named(&new, "new")] }));
    refresher.look().await;
    assert_eq!([verified(&verifier, &old_token), verified(&verifier, &new_token)], [None, None]);
    issuer.answers(200, json!({ "keys": [named(&new, "new"), Pair::Secret(SECRET).jwk()] }));
    refresher.look().await;
    let refused = Some(TokenRefusal::UnknownKey);
    assert_eq!([verified(&verifier, &old_token), verified(&verifier, &new_token)], [refused, None]);
    // A secret that everybody can read is no key.
    let forged = Pair::Secret(SECRET).token(&json!({ "alg": "HS256" }), &claims());
    assert_eq!(verified(&verifier, &forged), Some(TokenRefusal::Algorithm));
    assert_eq!(figures(&verifier), [1, 3, 0]);
}

#[tokio::test]
async fn whatever_goes_wrong_the_known_keys_stay() {
    let pair = Pair::p256();
    let set = json!({ "keys": [named(&pair, "a")] });
    let issuer = Issuer::start(&set).await;
    let verifier = verifier_of(&issuer.source());
    let mut refresher = JwksRefresher::new(Arc::clone(&verifier)).unwrap().unwrap();
    refresher.look().await;
    let token = token(&pair, "a");
    let long = format!("{{\"keys\":[]{}}}", " ".repeat(256 << 10));
    let answers = [(500, set.to_string()), (302, "".into()), (200, "<html>".into()), (200, long)];
    for (number, (status, body)) in answers.into_iter().enumerate() {
        issuer.answers(status, body);
        refresher.look().await;
        assert_eq!(verified(&verifier, &token), None, "{number}");
        assert_eq!(figures(&verifier)[2], number as u64 + 1);
    }
    issuer.is_silent();
    tokio::time::pause();
    let before = Instant::now();
    refresher.look().await;
    assert_eq!(before.elapsed().as_secs(), 10);
    tokio::time::resume();
    assert_eq!(verified(&verifier, &token), None);
    issuer.answers(200, json!({ "keys": [] }));
    refresher.look().await;
    assert_eq!(
        verified(&verifier, &token),
        Some(TokenRefusal::UnknownKey),
        "an answer is an answer"
    );
    assert_eq!(figures(&verifier), [0, 7, 5]);
}

#[tokio::test]
async fn dead_url_at_the_start_is_asked_again_and_again() {
    // Nobody listens there.
    let verifier = verifier_of(&format!("http://127.0.0.1:{}/jwks.json", testing::free_port()));
    let mut refresher = JwksRefresher::new(Arc::clone(&verifier)).unwrap().unwrap();
    refresher.pause = PAUSE;
    let (before, again) = (Instant::now(), refresher.look().await);
    let pair = Pair::p256();
    assert_eq!(verified(&verifier, &token(&pair, "a")), Some(TokenRefusal::UnknownKey));
    let stop = CancellationToken::new();
    let task = tokio::spawn(refresher.run(again, stop.clone()));
    until(|| figures(&verifier)[2] >= 4).await;
    assert!(before.elapsed() >= 3 * PAUSE, "{:?}", before.elapsed());
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn unknown_key_calls_for_the_set_once_in_a_while() {
    let (old, new) = (Pair::p256(), Pair::p256());
    let issuer = Issuer::start(&json!({ "keys": [named(&old, "old")] })).await;
    let verifier = verifier_of(&issuer.source());
    let mut refresher = JwksRefresher::new(Arc::clone(&verifier)).unwrap().unwrap();
    refresher.pause = PAUSE;
    let (before, again) = (Instant::now(), refresher.look().await);
    issuer.answers(200, json!({ "keys": [named(&old, "old"), named(&new, "new")] }));
    let stop = CancellationToken::new();
    let task = tokio::spawn(refresher.run(again, stop.clone()));
    let token_of_new = token(&new, "new");
    until(|| verified(&verifier, &token_of_new).is_none()).await;
    // As often as there were pauses, and not for each token that was refused.
    let asked = issuer.asked() as u32;
    assert!(
        asked >= 2 && before.elapsed() >= (asked - 1) * PAUSE,
        "{asked} in {:?}",
        before.elapsed()
    );
    // A crowd with names that nobody knows.
    let unknown = token(&new, "unknown");
    until(|| {
        assert_eq!(verified(&verifier, &unknown), Some(TokenRefusal::UnknownKey));
        issuer.asked() >= 6
    })
    .await;
    let asked = issuer.asked() as u32;
    assert!(before.elapsed() >= (asked - 1) * PAUSE, "{asked} in {:?}", before.elapsed());
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn order_is_followed_at_once() {
    let (old, new) = (Pair::p256(), Pair::p256());
    let issuer = Issuer::start(&json!({ "keys": [named(&old, "old")] })).await;
    let verifier = verifier_of(&issuer.source());
    let mut refresher = JwksRefresher::new(Arc::clone(&verifier)).unwrap().unwrap();
    // Longer than this test waits.
    refresher.pause = Duration::from_secs(600);
    let again = refresher.look().await;
    issuer.answers(200, json!({ "keys": [named(&new, "new")] }));
    let stop = CancellationToken::new();
    let task = tokio::spawn(refresher.run(again, stop.clone()));
    let token_of_new = token(&new, "new");
    assert_eq!(verified(&verifier, &token_of_new), Some(TokenRefusal::UnknownKey));
    crate::tokens::reload(&verifier).await;
    until(|| verified(&verifier, &token_of_new).is_none()).await;
    assert_eq!(issuer.asked(), 2);
    stop.cancel();
    task.await.unwrap();
}

#[test]
fn file_that_is_wrong_ends_the_start() {
    let dir = tempfile::tempdir().unwrap();
    for (bytes, words) in [("{", "RFC 7517"), ("", "empty"), ("\u{0}", "RFC 7517")] {
        let path = file(dir.path(), "jwks.json", bytes);
        let rules = TokenRules { jwks: Some(JwksSource::File(path)), ..TokenRules::default() };
        let error = Verifier::open(rules, None).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("jwks.json"), "{error}");
    }
    let error = Verifier::open(TokenRules::default(), None).unwrap_err().to_string();
    assert!(error.contains("--token-key"), "{error}");
}
