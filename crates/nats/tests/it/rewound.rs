//! A log that is not the one it was: its files were lost, or an older copy was put back.

use std::path::Path;
use std::process::Command;

use nats::{Followed, NatsClient, NatsConfig};
use testing::{NatsServer, TcpRelay};

use crate::harness::{bytes, connect, hear_all, log, next, programs, publish_all, record, soon};

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

#[tokio::test]
async fn log_that_ends_before_what_was_heard_is_told() {
    for program in programs() {
        let mut server = [NatsServer::start(&program)];
        let nats = connect(&server, 1).await;
        let log = log(&nats, 1).await;
        publish_all(&log, 1, 10).await;
        let (store, older) = (server[0].store(), server[0].folder().join("older"));
        server[0].kill();
        copy(&store, &older);
        server[0].restart();
        let mut follower = log.follow(10);
        hear_all(&mut follower, 10, 10).await;
        publish_all(&log, 11, 20).await;
        hear_all(&mut follower, 11, 20).await;
        server[0].kill();
        copy(&older, &store);
        server[0].restart();
        assert_eq!(next(&mut follower).await, Followed::Behind { last: 10 });
        assert_eq!(follower.next().await, None);
        // Whoever starts with what it had applied hears the same.
        assert_eq!(next(&mut log.follow(20)).await, Followed::Behind { last: 10 });
    }
}

#[tokio::test]
async fn record_that_is_another_one_than_before_is_told() {
    for program in programs() {
        let mut server = [NatsServer::start(&program)];
        let relay = TcpRelay::start(server[0].address());
        let far = NatsConfig::new("t", [format!("nats://{}", relay.address())]);
        let (near, far) = (connect(&server, 1).await, NatsClient::connect(far).await.unwrap());
        let log = log(&near, 1).await;
        publish_all(&log, 1, 10).await;
        let (store, older) = (server[0].store(), server[0].folder().join("older"));
        server[0].kill();
        copy(&store, &older);
        server[0].restart();
        publish_all(&log, 11, 20).await;
        let mut follower = far.find_log(1).await.unwrap().follow(1);
        hear_all(&mut follower, 1, 20).await;
        relay.refuse();
        server[0].kill();
        copy(&older, &store);
        server[0].restart();
        for number in 11..=30 {
            let id = format!("b.{number}");
            log.publish_until(&id, "e", bytes(number + 1000), soon()).await.unwrap();
        }
        relay.pass();
        assert_eq!(next(&mut follower).await, Followed::Changed { sequence: 20 });
        // Whoever starts with what it had applied is given the other one to compare.
        assert_eq!(record(&mut log.follow(20)).await.bytes, bytes(1020));
    }
}
