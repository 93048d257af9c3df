//! Datagrams that nobody would send, by seed and from many addresses, so that no rate spares them.

use std::net::{Ipv4Addr, SocketAddrV4};

use serde_json::json;

use super::*;
use crate::model::Query;
use crate::resolver::Queue;

const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;

fn node() -> LanNode {
    let group = SocketAddrV4::new(*super::super::GROUP.ip(), testing::free_port());
    let sockets = sockets::open(group, Some(HERE)).unwrap();
    let name = "us".to_owned();
    let config = LanConfig { group, interface: Some(HERE), name, http_port: 1 };
    LanNode::new(config, Pipeline::new(), sockets, Arc::default())
}

fn mutate(datagram: &mut Vec<u8>, random: &mut fastrand::Rng) {
    for _ in 0..random.usize(0..4) {
        let at = random.usize(..datagram.len());
        match random.u8(0..3) {
            0 => datagram[at] = random.u8(..),
            1 => datagram.truncate(at.max(1)),
            _ => datagram.insert(at, b"\"{}[]:,\\09.-\xff"[random.usize(..13)]),
        }
    }
}

#[tokio::test]
async fn fuzzed_datagrams_neither_panic_nor_grow_the_daemon() {
    let mut random = fastrand::Rng::with_seed(testing::seed());
    let mut node = node();
    let (sender, mut asked) = mpsc::channel(1);
    node.pipeline.add(Arc::new(Queue { profile: super::super::profile(), sender }));
    let [qid, artist, track] = ["ours", "A", "T"].map(str::to_owned);
    node.pipeline.resolve(Query { qid, artist, track, ..Query::default() }).unwrap();
    node.ask(asked.recv().await.unwrap());
    for n in 0..30_000 {
        let song = json!({"sid": n.to_string(), "artist": "A", "track": "T", "port": n % 70_000});
        let mut datagram = match random.u8(0..6) {
            0 => "[".repeat(random.usize(1..9000)),
            1 => json!({"_msgtype": "ping", "from_name": n.to_string()}).to_string(),
            2 => json!({"_msgtype": "pang", "from_name": "x"}).to_string(),
            3 => json!({"_msgtype": "result", "qid": "ours", "result": song}).to_string(),
            _ => json!({"_msgtype": "rq", "qid": n.to_string(), "artist": "A", "track": "T"})
                .to_string(),
        }
        .into_bytes();
        mutate(&mut datagram, &mut random);
        let from = SocketAddr::from(([127, 7, random.u8(..4), random.u8(..)], 9));
        let by = if random.bool() { By::Group } else { By::Own };
        node.hear(&datagram, from, by);
        if n % 100 == 0 {
            tokio::task::yield_now().await;
        }
    }
    assert!(node.seen.len() <= QUERIES_MAX, "{}", node.seen.len());
    assert!(node.seen.len() > ANSWERING_MAX, "queries came through: {}", node.seen.len());
    let peers = node.roster.lock().peers(Instant::now()).len();
    assert!((1..=256).contains(&peers), "{peers}");
    // Those that have lost their places go.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let queries = node.pipeline.queries().len();
    assert!((2..=ANSWERING_MAX + 1).contains(&queries), "{queries}");
    let results = node.pipeline.results("ours").unwrap().found.len();
    assert!((1..=foreign::RESULTS_MAX).contains(&results), "{results}");
}

#[tokio::test]
async fn one_address_that_floods_is_heard_at_its_rate() {
    let mut node = node();
    let from = SocketAddr::from(([127, 7, 0, 1], 9));
    for n in 0..1000 {
        let query = json!({"_msgtype": "rq", "qid": n.to_string(), "artist": "A", "track": "T"});
        node.hear(query.to_string().as_bytes(), from, By::Group);
    }
    let queries = node.pipeline.queries().len() as f64;
    assert!((QUESTIONS.burst..QUESTIONS.burst * 1.2).contains(&queries), "{queries}");
    let other = SocketAddr::from(([127, 7, 0, 2], 9));
    node.hear(br#"{"_msgtype":"ping","from_name":"other"}"#, other, By::Group);
    assert_eq!(node.roster.lock().peers(Instant::now()).len(), 1);
}
