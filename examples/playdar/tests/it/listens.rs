//! A scrobbler tells what is listened to, and the streams tell it on.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::guard;
use crate::live::{Live, Reply};

/// What is submitted, with the token.
async fn submit(live: &Live, token: &str, submission: &Value) -> Reply {
    let headers = [("Authorization", token)];
    live.ask("POST", "/1/submit-listens", &headers, &submission.to_string()).await
}

/// A submission of one song.
fn song(kind: &str, track: &str, listened_at: Option<u64>) -> Value {
    let names = json!({"artist_name": "Comet Encke", "track_name": track, "release_name": "2P",
        "additional_info": {"media_player": "test"}});
    let mut song = json!({"track_metadata": names});
    if let Some(at) = listened_at {
        song["listened_at"] = at.into();
    }
    json!({"listen_type": kind, "payload": [song]})
}

#[tokio::test]
async fn song_that_is_submitted_is_heard_on_the_streams() {
    let live = Live::start().await;
    let token = format!("Token {}", guard::grant(&live).await);
    let valid = live.ask("GET", "/1/validate-token", &[("Authorization", &token)], "").await;
    assert_eq!(valid.json()["valid"], true);
    assert_eq!(valid.json()["user_name"], "here");
    let base = live.daemon.streams();
    let streams: SocketAddr = base.strip_prefix("http://").unwrap().parse().unwrap();
    let mut stream = Live::open(streams, "/stream/listening", "\r\n\r\n").await;
    let told = submit(&live, &token, &song("playing_now", "Taurids", None)).await;
    assert_eq!((told.status, told.json()), (200, json!({"status": "ok"})));
    stream.until("\"_msgtype\":\"listening\"").await;
    assert!(stream.heard.contains("\"track\":\"Taurids\""), "{}", stream.heard);
    assert_eq!(submit(&live, &token, &song("single", "Taurids", Some(7))).await.status, 200);
    stream.until("\"listened_at\":7").await;
    assert!(stream.heard.contains("\"about\":\"listening\""), "{}", stream.heard);
}

#[tokio::test]
async fn submission_without_a_token_or_of_another_kind_is_refused_and_not_told() {
    let live = Live::start().await;
    let token = guard::grant(&live).await;
    let good = song("playing_now", "no token", None);
    for wrong in ["", "Token guess", &token, &format!("Bearer {token}")] {
        let refused = submit(&live, wrong, &good).await;
        assert_eq!((refused.status, &refused.json()["code"]), (401, &json!(401)), "{wrong}");
        let valid = live.ask("GET", "/1/validate-token", &[("Authorization", wrong)], "").await;
        assert_eq!(valid.json()["valid"], false, "{wrong}");
    }
    let base = live.daemon.streams();
    let streams: SocketAddr = base.strip_prefix("http://").unwrap().parse().unwrap();
    let mut stream = Live::open(streams, "/stream/listening", "\r\n\r\n").await;
    let token = format!("Token {token}");
    let long = "x".repeat(600);
    let mut two = song("playing_now", "two", None);
    let one = two["payload"][0].clone();
    two["payload"].as_array_mut().unwrap().push(one);
    for wrong in [
        song("import", "old", Some(7)),
        song("single", "without its time", None),
        song("playing_now", " ", None),
        song("playing_now", &long, None),
        two,
        json!({"listen_type": "playing_now", "payload": []}),
        json!([]),
    ] {
        let refused = submit(&live, &token, &wrong).await;
        assert_eq!((refused.status, &refused.json()["code"]), (400, &json!(400)), "{wrong}");
    }
    assert_eq!(submit(&live, &token, &song("playing_now", "last", None)).await.status, 200);
    stream.until("\"track\":\"last\"").await;
    assert_eq!(stream.heard.matches("\"_msgtype\"").count(), 1, "{}", stream.heard);
}
