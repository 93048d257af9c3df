//! Daemons that find each other by multicast, and an old one that speaks its datagrams by hand.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};

use playdar::lan::{self, Lan, LanConfig};
use playdar::pipeline::Pipeline;
use serde_json::{Value, json};
use testing::free_port;
use tokio::time::timeout;

use crate::one_song::{self, DEADLINE, OneSong};

const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// A group of this test alone.
fn group() -> SocketAddrV4 {
    SocketAddrV4::new(*lan::GROUP.ip(), free_port())
}

fn start(group: SocketAddrV4, name: &str, pipeline: &Pipeline) -> Lan {
    let name = name.to_owned();
    let config = LanConfig { group, interface: Some(HERE), name, http_port: 4321 };
    lan::start(config, pipeline).unwrap()
}

/// A daemon of old: its socket hears the group, and the other one is what it sends from.
struct OldDaemon {
    group: UdpSocket,
    own: UdpSocket,
    to: SocketAddrV4,
}

impl OldDaemon {
    fn new(to: SocketAddrV4) -> OldDaemon {
        let group =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
        group.set_reuse_address(true).unwrap();
        group.bind(&SocketAddr::V4(to).into()).unwrap();
        group.join_multicast_v4(to.ip(), &HERE).unwrap();
        let own = socket2::Socket::from(UdpSocket::bind((HERE, 0)).unwrap());
        own.set_multicast_if_v4(&HERE).unwrap();
        let (group, own) = (UdpSocket::from(group), UdpSocket::from(own));
        group.set_read_timeout(Some(DEADLINE)).unwrap();
        own.set_read_timeout(Some(DEADLINE)).unwrap();
        OldDaemon { group, own, to }
    }

    fn say(&self, message: &Value) {
        self.own.send_to(message.to_string().as_bytes(), self.to).unwrap();
    }

    /// The next message of this kind, and who sent it.
    fn hear(socket: &UdpSocket, kind: &str) -> (Value, SocketAddr) {
        let mut buffer = vec![0; 65_536];
        loop {
            let (length, from) = socket.recv_from(&mut buffer).expect("it is said in time");
            let message: Value = serde_json::from_slice(&buffer[..length]).unwrap();
            if message["_msgtype"] == kind {
                assert!(length <= 1400, "{length} bytes");
                return (message, from);
            }
        }
    }
}

fn rq(qid: &str, track: &str) -> Value {
    json!({"_msgtype": "rq", "qid": qid, "artist": one_song::ARTIST, "track": track, "album": ""})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn song_of_another_daemon_is_found_and_read_from_it() {
    let group = group();
    let (alice, _) = one_song::pipeline(None);
    let (bob, library) = one_song::pipeline(Some("file:///secret/song.mp3"));
    let (at_alice, at_bob) = (start(group, "alice", &alice), start(group, "bob", &bob));
    alice.resolve(one_song::query("Q1")).unwrap();
    let results = one_song::first(&alice, "Q1").await;
    assert_eq!(results.len(), 1);
    let found = &results[0];
    assert_eq!((found.source.as_str(), found.score), ("bob", Some(1.0)));
    let url = found.url.as_deref().unwrap();
    assert_eq!(url, "http://127.0.0.1:4321/sid/THE-SONG");
    let asked = library.asked();
    assert!(asked.iter().all(|query| !query.is_local && query.qid != "Q1"), "{asked:?}");
    at_bob.stop().await;
    at_alice.stop().await;
}

/// Both ask everybody whom their pipelines have, the LAN too; what came from there must not go
/// back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn query_that_goes_around_ends() {
    let group = group();
    let pipelines = [one_song::pipeline(None).0, one_song::pipeline(None).0];
    // They are asked when the LAN has been.
    let after = [OneSong::new(90, None), OneSong::new(90, None)];
    for (pipeline, after) in pipelines.iter().zip(&after) {
        pipeline.add(after.clone());
    }
    let _both = (start(group, "alice", &pipelines[0]), start(group, "bob", &pipelines[1]));
    let old = OldDaemon::new(group);
    pipelines[0].resolve(one_song::query_for("Q1", "first")).unwrap();
    old.say(&rq("Q2", "second"));
    for after in &after {
        after.asked_for("first").await;
        after.asked_for("second").await;
    }
    // What a pipeline would have sent again goes out before what it sends now.
    pipelines[0].resolve(one_song::query_for("END-1", "end")).unwrap();
    pipelines[1].resolve(one_song::query_for("END-2", "end")).unwrap();
    let mut said = Vec::new();
    while !["END-1", "END-2"].iter().all(|end| said.contains(&(*end).to_owned())) {
        let (message, _) = OldDaemon::hear(&old.group, "rq");
        said.push(message["qid"].as_str().unwrap().to_owned());
    }
    said.sort();
    assert_eq!(said, ["END-1", "END-2", "Q1", "Q2"]);
    let asked = after[1].asked().iter().filter(|query| query.track == "first").count();
    assert_eq!(asked, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_daemon_is_answered_at_its_source_port_without_the_address_of_the_file() {
    let group = group();
    let (bob, library) = one_song::pipeline(Some("file:///secret/song.mp3"));
    let _bob = start(group, "bob", &bob);
    let old = OldDaemon::new(group);
    old.say(&rq("Q1", one_song::TRACK));
    let (answer, _) = OldDaemon::hear(&old.own, "result");
    assert_eq!(answer["qid"], "Q1");
    let result = &answer["result"];
    assert_eq!((&result["port"], &result["source"]), (&json!(4321), &json!("bob")));
    assert!(!answer.to_string().contains("secret"), "{answer}");
    // The same again is no new query.
    old.say(&rq("Q1", "other"));
    old.say(&rq("Q2", "third"));
    library.asked_for("third").await;
    assert_eq!(library.asked().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answer_of_an_old_daemon_is_played_from_its_port_and_nowhere_else() {
    let group = group();
    let (alice, _) = one_song::pipeline(None);
    let _alice = start(group, "alice", &alice);
    let old = OldDaemon::new(group);
    alice.resolve(one_song::query("Q1")).unwrap();
    let (asked, from) = OldDaemon::hear(&old.group, "rq");
    let (artist, track) = (&asked["artist"], &asked["track"]);
    assert_eq!((artist, track), (&json!(one_song::ARTIST), &json!(one_song::TRACK)));
    let result = |qid: &str, more: Value| {
        let mut result = json!({"artist": artist, "track": track, "source": "old"});
        result.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"_msgtype": "result", "qid": qid, "result": result}).to_string()
    };
    for message in [
        result("Q-OTHER", json!({"sid": "NOT-ASKED"})),
        result("Q1", json!({"sid": "../../api"})),
        result("Q1", json!({"sid": "NO-PORT", "port": 70_000})),
        result("Q1", json!({"sid": "ONE", "port": 7000, "url": "file:///etc/passwd"})),
        result("Q1", json!({"sid": "ONE", "port": 7000})),
        result("Q1", json!({"sid": "TWO"})),
    ] {
        old.own.send_to(message.as_bytes(), from).unwrap();
    }
    let mut watch = alice.watch("Q1").unwrap();
    let mut urls = Vec::new();
    while urls.len() < 2 {
        let found = timeout(DEADLINE, watch.next()).await.unwrap().unwrap();
        urls.extend(found.iter().map(|found| found.url.clone().unwrap()));
    }
    let wanted = ["http://127.0.0.1:7000/sid/ONE", "http://127.0.0.1:60210/sid/TWO"];
    assert_eq!(urls, wanted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roster_tells_who_is_there_until_they_leave() {
    let group = group();
    let (old, second) = (OldDaemon::new(group), OldDaemon::new(group));
    let (alice, library) = one_song::pipeline(None);
    let at_alice = start(group, "alice", &alice);
    let (ping, from) = OldDaemon::hear(&old.group, "ping");
    assert_eq!((&ping["from_name"], &ping["http_port"]), (&json!("alice"), &json!(4321)));
    let pong = json!({"_msgtype": "pong", "from_name": "old", "http_port": 60210});
    old.own.send_to(pong.to_string().as_bytes(), from).unwrap();
    // What is sent to a socket is heard in its order: when this has come, so has the pong.
    alice.resolve(one_song::query("Q1")).unwrap();
    OldDaemon::hear(&old.group, "rq");
    let song = json!({"sid": "S", "artist": one_song::ARTIST, "track": one_song::TRACK});
    let result = json!({"_msgtype": "result", "qid": "Q1", "result": song});
    old.own.send_to(result.to_string().as_bytes(), from).unwrap();
    one_song::first(&alice, "Q1").await;
    second.say(&json!({"_msgtype": "ping", "from_name": "second"}));
    let (pong, _) = OldDaemon::hear(&second.own, "pong");
    assert_eq!(pong["from_name"], "alice");
    let names = || at_alice.roster().into_iter().map(|peer| peer.name).collect::<Vec<_>>();
    assert_eq!(names(), ["old", "second"]);
    second.say(&json!({"_msgtype": "pang", "from_name": "second"}));
    old.say(&json!({"_msgtype": "pang", "from_name": "nobody"}));
    old.say(&rq("END", "end"));
    library.asked_for("end").await;
    assert_eq!(at_alice.roster(), []);
    at_alice.stop().await;
    let pangs = [(); 3].map(|()| OldDaemon::hear(&old.group, "pang").0["from_name"].clone());
    assert_eq!(pangs, ["second", "nobody", "alice"]);
}
