//! Three servers: one that leaves or dies is a pause, and nothing is twice.

use std::time::Duration;

use nats::{Log, NatsClient};
use testing::{DEADLINE, NatsServer};
use tokio::time::{Instant, timeout};

use crate::harness::{
    ask_api, bytes, connect, hear_all, log, programs, publish_all, puts_elections_off, record, soon,
};

/// The server that leads the log.
async fn leader(servers: &[NatsServer]) -> usize {
    let info = ask_api(&servers[0], "STREAM.INFO.ENCKE_t_1", "").await;
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    let name = info["cluster"]["leader"].as_str().unwrap();
    name.strip_prefix('n').unwrap().parse().unwrap()
}

/// Waits until a server that came back knows what the servers have agreed on, besides the log: who
/// has which stream and consumer. That group has a leader of its own, without whom nobody gets a
/// consumer, and STREAM.INFO says nothing of it. A consumer that is on this server does: the server
/// has read in that group that it is to have it. They are placed at random.
async fn knows_agreements(servers: &[NatsServer], back: usize) {
    for number in 0.. {
        let name = format!("look{number}");
        let body = serde_json::json!({
            "stream_name": "ENCKE_t_1",
            "config": { "name": name, "ack_policy": "none", "num_replicas": 1 },
        });
        let what = format!("CONSUMER.CREATE.ENCKE_t_1.{name}");
        let answer = ask_api(&servers[back], &what, &body.to_string()).await;
        let made: serde_json::Value = serde_json::from_str(&answer).unwrap();
        let leader = made["cluster"]["leader"].as_str();
        if leader.unwrap_or_else(|| panic!("{answer}")) == format!("n{back}") {
            return;
        }
    }
}

/// Publishes records and hears them elsewhere: the longest wait of either.
async fn publish_and_hear(log: &Log, other: &NatsClient, from: u64, to: u64) -> [Duration; 2] {
    let other = other.find_log(log.epoch()).await;
    let mut follower = other.as_ref().unwrap_or(log).follow(from - 1);
    let [mut longest, mut silence] = [Duration::ZERO; 2];
    let publishing = async {
        for number in from..=to {
            let start = Instant::now();
            let id = format!("a.{number}");
            log.publish_until(&id, "e", bytes(number), soon()).await.unwrap();
            longest = longest.max(start.elapsed());
        }
    };
    let hearing = async {
        for number in from - 1..=to {
            let start = Instant::now();
            hear_all(&mut follower, number, number).await;
            silence = silence.max(start.elapsed());
        }
    };
    tokio::join!(publishing, hearing);
    [longest, silence]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leader_that_leaves_or_dies_is_a_pause() {
    for program in programs() {
        let mut servers = NatsServer::cluster(&program, 3);
        let (nats, other) = (connect(&servers, 3).await, connect(&servers, 3).await);
        let log = log(&nats, 1).await;
        let mut follower = log.follow(1);
        publish_all(&log, 1, 100).await;
        hear_all(&mut follower, 1, 100).await;

        let leaving = leader(&servers).await;
        servers[leaving].lame_duck();
        let longest = publish_and_hear(&log, &other, 101, 2000).await;
        eprintln!(
            "{}: lame duck: longest publish, longest silence: {longest:?}",
            program.display()
        );
        hear_all(&mut follower, 101, 2000).await;
        servers[leaving].wait_for("Server Exiting");
        servers[leaving].kill();
        servers[leaving].restart();
        // It must have caught up before another one may go.
        let caught_up = async {
            let mut pace = tokio::time::interval(Duration::from_millis(100));
            loop {
                pace.tick().await;
                let info = ask_api(&servers[0], "STREAM.INFO.ENCKE_t_1", "").await;
                if info.matches("\"current\":true").count() == 2 {
                    break;
                }
            }
        };
        timeout(DEADLINE, caught_up).await.expect("a replica has not caught up");
        if puts_elections_off(&program) {
            let known = knows_agreements(&servers, leaving);
            timeout(DEADLINE, known).await.expect("nothing was placed there");
        }

        let dying = leader(&servers).await;
        servers[dying].kill();
        let longest = publish_and_hear(&log, &other, 2001, 3000).await;
        eprintln!(
            "{}: leader killed: longest publish, longest silence: {longest:?}",
            program.display()
        );
        hear_all(&mut follower, 2001, 3000).await;
        assert_eq!(log.extent().await.unwrap().last, 3000, "nothing is twice");
        assert_eq!(record(&mut log.follow(3000)).await.bytes, bytes(3000));
    }
}
