//! Daemons that are friends on a real Encke, and one that means no good.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use engine::EngineConfig;
use playdar::friends::{self, Friends, FriendsConfig};
use playdar::model::new_id;
use playdar::pipeline::Pipeline;
use proto::request::Hosts;
use serde_json::{Value, json};
use server::{PresenceConfig, ServeConfig, Server, StreamAccess};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::guard;
use crate::live::Live;
use crate::one_song::{self, DEADLINE, OneSong};

const HELD: Option<&str> = Some("file:///secret/song.mp3");
const BOB: &str = "http://127.0.0.1:4321";

/// A shared Encke, in this process, on ports of its own.
struct Encke {
    server: Server,
    _data: TempDir,
}

impl Encke {
    async fn start() -> Encke {
        let data = tempfile::tempdir().unwrap();
        let config = ServeConfig {
            engine: EngineConfig::new(SocketAddr::from(([127, 0, 0, 1], 0))),
            tls_listen: None,
            api: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
            tls_api: None,
            certificates: Vec::new(),
            acme: None,
            api_hosts: Hosts::any(),
            access: StreamAccess::Unsaid,
            token_cookie: String::new(),
            public_url: None,
            data: data.path().to_owned(),
            cluster: None,
            erlang: None,
            traces: None,
            presence: PresenceConfig { grace: Duration::ZERO, webhooks: Vec::new() },
            streams: None,
            keep: None,
            pusher_apps: None,
            hub: None,
            demo: None,
            program: None,
        };
        Encke { server: Server::start(config).await.unwrap(), _data: data }
    }

    async fn stop(self) {
        self.server.stop(Duration::from_secs(5)).await.unwrap();
    }

    /// A call of the API; its answer's body.
    async fn call(&self, head: &str, body: &str) -> Value {
        let mut connection = TcpStream::connect(self.server.api().unwrap()).await.unwrap();
        let request = format!(
            "{head} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: \
             application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
        serde_json::from_str(body).unwrap()
    }

    async fn subscribe(&self, subscriber: &str, subscribee: &str) {
        let pair = json!([{"subscriber": subscriber, "subscribee": subscribee}]);
        let added = self.call("POST /subscriptions/add", &pair.to_string()).await;
        assert_eq!(added["added"], 1);
    }

    async fn send(&self, about: &str, data: Value) {
        self.call("POST /send", &json!({"about": about, "data": data}).to_string()).await;
    }

    /// How a daemon is `name` here.
    fn config(&self, name: &str, base: Option<&str>) -> FriendsConfig {
        let url = |address: SocketAddr| format!("http://{address}").parse().unwrap();
        FriendsConfig {
            streams: url(self.server.listen()),
            api: url(self.server.api().unwrap()),
            name: name.to_owned(),
            key: None,
            token_file: None,
            base: base.map(|base| base.parse().unwrap()),
            answer_timeout: DEADLINE,
        }
    }

    /// A daemon that is online as `name`.
    async fn befriend(&self, name: &str, base: Option<&str>, pipeline: &Pipeline) -> Friends {
        let friends = friends::start(self.config(name, base), pipeline).unwrap();
        let online = async {
            while self.call(&format!("GET /connections/{name}"), "").await["connections"] != 1 {
                tokio::task::yield_now().await;
            }
        };
        timeout(DEADLINE, online).await.expect("it comes online in time");
        friends
    }

    /// What a client hears as `name`.
    async fn listen(&self, name: &str) -> BufReader<TcpStream> {
        let mut connection = TcpStream::connect(self.server.listen()).await.unwrap();
        // The body of HTTP/1.0 has no chunks.
        let request =
            format!("GET /stream/{name} HTTP/1.0\r\nAccept: application/x-ndjson\r\n\r\n");
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut stream = BufReader::new(connection);
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            assert_ne!(stream.read_line(&mut line).await.unwrap(), 0);
        }
        stream
    }
}

async fn next(stream: &mut BufReader<TcpStream>) -> Value {
    let mut line = String::new();
    let read = async {
        while line.trim().is_empty() {
            assert_ne!(stream.read_line(&mut line).await.unwrap(), 0);
        }
    };
    timeout(DEADLINE, read).await.expect("an event comes in time");
    serde_json::from_str(&line).unwrap()
}

fn rq(reply: &str, track: &str) -> Value {
    json!({"_msgtype": "rq", "qid": new_id(), "artist": one_song::ARTIST, "track": track,
        "reply": reply})
}

fn answer(qid: &str, base: &str, results: Value) -> Value {
    json!({"_msgtype": "results", "qid": qid, "base": base, "results": results})
}

fn inbox(name: &str) -> String {
    format!("playdar:{name}:{}", new_id())
}

fn tracks(library: &OneSong) -> Vec<String> {
    library.asked().iter().map(|query| query.track.clone()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn friend_answers_and_nobody_else_hears() {
    let encke = Encke::start().await;
    encke.subscribe("bob", "alice").await;
    encke.subscribe("carol", "dave").await;
    let (alice, at_alice) = one_song::pipeline(None);
    let (bob, at_bob) = one_song::pipeline(HELD);
    let (carol, at_carol) = one_song::pipeline(HELD);
    let a = encke.befriend("alice", None, &alice).await;
    let b = encke.befriend("bob", Some(BOB), &bob).await;
    let c = encke.befriend("carol", Some("http://127.0.0.1:999"), &carol).await;
    alice.resolve(one_song::query("Q1")).unwrap();
    let results = one_song::first(&alice, "Q1").await;
    let told: Vec<_> = results.iter().map(|found| (&*found.source, found.url.as_deref())).collect();
    assert_eq!(told, [("bob", Some("http://127.0.0.1:4321/sid/THE-SONG"))]);
    // A stream is in order: what carol hears now comes after what she might have heard before.
    encke.send("dave", rq(&inbox("dave"), "of dave")).await;
    at_carol.asked_for("of dave").await;
    assert_eq!(tracks(&at_carol), ["of dave"]);
    assert_eq!(tracks(&at_bob), [one_song::TRACK]);
    let asked = &at_bob.asked()[0];
    assert!(!asked.is_local && asked.qid != "Q1", "{asked:?}");
    assert_eq!(at_alice.asked().len(), 1, "her own query does not come back to her");
    for friends in [a, b, c] {
        friends.stop().await;
    }
    encke.stop().await;
}

/// Bob is cut off when alice asks, and hears it when he is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn query_during_a_cut_is_heard_after_it() {
    let encke = Encke::start().await;
    encke.subscribe("bob", "alice").await;
    let (bob, at_bob) = one_song::pipeline(HELD);
    let friends = encke.befriend("bob", Some(BOB), &bob).await;
    let reply = inbox("alice");
    let mut alice = encke.listen(&reply).await;
    encke.send("alice", rq(&reply, "before")).await;
    at_bob.asked_for("before").await;
    assert_eq!(encke.call("POST /logout/bob", "").await["closed"], 1);
    encke.send("alice", rq(&reply, one_song::TRACK)).await;
    let answer = next(&mut alice).await;
    assert_eq!((&answer["data"]["base"], &answer["about"]), (&json!(BOB), &json!(reply)));
    assert!(!answer.to_string().contains("secret"), "{answer}");
    assert_eq!(tracks(&at_bob), ["before", one_song::TRACK]);
    friends.stop().await;
    encke.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn query_that_would_make_friends_write_to_others_is_not_asked() {
    let encke = Encke::start().await;
    encke.subscribe("bob", "mallory").await;
    let (bob, at_bob) = one_song::pipeline(HELD);
    let friends = encke.befriend("bob", Some(BOB), &bob).await;
    let good = inbox("mallory");
    let mut without_reply = rq("", "no reply");
    without_reply.as_object_mut().unwrap().remove("reply");
    for wrong in [
        rq("rj", "to rj"),
        rq(&inbox("alice"), "to alice"),
        without_reply,
        rq(&good, &"x".repeat(600)),
        json!("hello"),
        json!({"_msgtype": "results", "qid": "Q", "base": BOB, "results": []}),
    ] {
        encke.send("mallory", wrong).await;
    }
    let twice = rq(&good, "once");
    encke.send("mallory", twice.clone()).await;
    encke.send("mallory", twice).await;
    encke.send("mallory", rq(&good, "last")).await;
    at_bob.asked_for("last").await;
    assert_eq!(tracks(&at_bob), ["once", "last"]);
    for n in 0..100 {
        encke.send("mallory", rq(&good, &format!("flood {n}"))).await;
    }
    encke.subscribe("bob", "dave").await;
    encke.send("dave", rq(&inbox("dave"), "of dave")).await;
    at_bob.asked_for("of dave").await;
    let asked = tracks(&at_bob).len();
    assert!(asked < 90, "one friend's flood is bounded: {asked}");
    friends.stop().await;
    encke.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answer_of_an_enemy_is_dropped() {
    let encke = Encke::start().await;
    encke.subscribe("mallory", "alice").await;
    let mut mallory = encke.listen("mallory").await;
    let (alice, _) = one_song::pipeline(None);
    let friends = encke.befriend("alice", None, &alice).await;
    alice.resolve(one_song::query("Q1")).unwrap();
    let asked = next(&mut mallory).await;
    assert_eq!((&asked["about"], &asked["data"]["qid"]), (&json!("alice"), &json!("Q1")));
    let reply = asked["data"]["reply"].as_str().unwrap();
    let song = |sid: &str| {
        json!({"sid": sid, "artist": one_song::ARTIST, "track": one_song::TRACK,
            "url": "file:///etc/passwd", "score": 1.0})
    };
    let many: Vec<Value> = (0..50).map(|n| song(&n.to_string())).collect();
    for wrong in [
        answer("Q-OTHER", BOB, json!([song("A")])),
        answer("Q1", "file:///etc", json!([song("B")])),
        answer("Q1", "http://127.0.0.1:1/x", json!([song("C")])),
        answer("Q1", BOB, json!([song("../../api"), {"artist": "x"}])),
        answer("Q1", BOB, json!([7])),
        json!({"_msgtype": "results", "qid": "Q1"}),
        answer("Q1", BOB, json!(many)),
        answer("Q1", BOB, json!([song("0"), song("LAST")])),
    ] {
        encke.send(reply, wrong).await;
    }
    // Whoever is no follower cannot make her hear answers either where tokens guard her id.
    encke.send("alice", answer("Q1", BOB, json!([song("ABOUT-ALICE")]))).await;
    let mut watch = alice.watch("Q1").unwrap();
    let mut urls = Vec::new();
    while urls.last() != Some(&format!("{BOB}/sid/LAST")) {
        let found = timeout(DEADLINE, watch.next()).await.unwrap().unwrap();
        urls.extend(found.iter().map(|found: &Arc<_>| found.url.clone().unwrap()));
    }
    let mut wanted: Vec<String> = (0..10).map(|n| format!("{BOB}/sid/{n}")).collect();
    wanted.push(format!("{BOB}/sid/LAST"));
    assert_eq!(urls, wanted);
    friends.stop().await;
    encke.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn song_that_one_listens_to_is_told_to_who_follows() {
    let encke = Encke::start().await;
    encke.subscribe("bob", "alice").await;
    let mut bob = encke.listen("bob").await;
    let live = Live::among(Some(encke.config("alice", None))).await;
    let token = format!("Token {}", guard::grant(&live).await);
    let song = json!({"listen_type": "playing_now", "payload": [
        {"track_metadata": {"artist_name": "Comet Encke", "track_name": "Taurids"}}]});
    let headers = [("Authorization", &*token)];
    let told = live.ask("POST", "/1/submit-listens", &headers, &song.to_string()).await;
    assert_eq!(told.json(), json!({"status": "ok"}));
    let heard = next(&mut bob).await;
    let expected = json!({"_msgtype": "listening", "artist": "Comet Encke", "track": "Taurids"});
    assert_eq!((&heard["about"], &heard["data"]), (&json!("alice"), &expected));
    live.daemon.stop().await.unwrap();
    encke.stop().await;
}
