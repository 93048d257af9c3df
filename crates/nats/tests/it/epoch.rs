//! The epoch: one value, taken once, told to all.

use std::time::Duration;

use nats::{Bytes, NatsClient, Proposal};
use serde_json::Value;
use testing::NatsServer;
use tokio::time::{Instant, interval, timeout};

use crate::harness::{
    DEADLINE, ask_api, change_stream, connect, crashes_at_two_makers, log, programs, publish_all,
};

#[tokio::test]
async fn of_two_proposals_over_the_same_revision_one_is_taken() {
    for program in programs() {
        let server = [NatsServer::start(&program)];
        let (one, other) = (connect(&server, 1).await, connect(&server, 1).await);
        if crashes_at_two_makers(&program) {
            one.swap("first", 0, "".into()).await.unwrap();
        }
        assert_eq!(one.epoch().await.unwrap(), None);
        let mut watch = other.watch_epoch().await.unwrap();
        assert_eq!(*watch.borrow_and_update(), None);
        let mut expected = 0;
        for round in 0..10 {
            let value = |who: &str| Bytes::from(format!("{who} {round}"));
            let (a, b) = tokio::join!(
                one.propose(expected, value("one")),
                other.propose(expected, value("other"))
            );
            let (winner, revision) = match (a.unwrap(), b.unwrap()) {
                (Proposal::Taken(revision), Proposal::Lost) => ("one", revision),
                (Proposal::Lost, Proposal::Taken(revision)) => ("other", revision),
                both => panic!("{both:?}"),
            };
            let entry = one.epoch().await.unwrap().unwrap();
            assert_eq!((entry.revision, &entry.value), (revision, &value(winner)));
            // Again is not a second one.
            let again = one.propose(expected, value(winner)).await.unwrap();
            assert_eq!(again, Proposal::Taken(revision));
            let told = watch.wait_for(|told| told.as_ref() == Some(&entry));
            timeout(DEADLINE, told).await.unwrap().unwrap();
            expected = revision;
        }
        assert_eq!(one.propose(0, "late".into()).await.unwrap(), Proposal::Lost);
    }
}

#[tokio::test]
async fn of_a_swapped_value_the_last_one_is_kept_and_one_that_came_between_is_seen() {
    for program in programs() {
        let server = [NatsServer::start(&program)];
        let (one, other) = (connect(&server, 1).await, connect(&server, 1).await);
        assert_eq!(one.value("a").await.unwrap(), None);
        let mut revision = 0;
        for round in 0..20 {
            let value = Bytes::from(round.to_string());
            let swapped = one.swap("a", revision, value.clone()).await.unwrap();
            let Proposal::Taken(taken) = swapped else { panic!("{swapped:?}") };
            assert_eq!(other.swap("a", revision, "x".into()).await.unwrap(), Proposal::Lost);
            assert_eq!(other.value("a").await.unwrap().unwrap().value, value);
            revision = taken;
        }
        one.swap("b", 0, "b".into()).await.unwrap();
        let info = ask_api(&server[0], "STREAM.INFO.KV_ENCKE_t", "").await;
        let info: Value = serde_json::from_str(&info).unwrap();
        assert_eq!(info["state"]["messages"], 2, "{info}");
        let long = Bytes::from(vec![b'x'; nats::VALUE_BYTES_MAX + 1]);
        assert!(!one.swap("c", 0, long).await.unwrap_err().may_count);
        let longest = Bytes::from(vec![b'x'; nats::VALUE_BYTES_MAX]);
        assert!(matches!(one.swap("c", 0, longest).await.unwrap(), Proposal::Taken(_)));
    }
}

/// Epochs that follow each other within ten minutes, so that no record of theirs ages.
const EPOCHS: u64 = 6;

/// What the settings of `deploy/` say that NATS may take, as they stand there and in bytes.
fn limit_of(settings: &str) -> (String, i64) {
    let value = settings.lines().find_map(|line| line.trim().strip_prefix("max_file_store:"));
    let value = value.expect("a limit").trim();
    let gib: i64 = value.strip_suffix("GB").expect("it is in GB").parse().unwrap();
    (value.to_owned(), gib << 30)
}

/// What a cluster's logs are promised and have, by their names.
async fn logs(server: &NatsServer) -> Vec<(String, i64, u64)> {
    let names = ask_api(server, "STREAM.NAMES", "{\"subject\":\"encke.t.*.>\"}").await;
    let names: Value = serde_json::from_str(&names).unwrap();
    let mut logs = Vec::new();
    for name in names["streams"].as_array().into_iter().flatten() {
        let name = name.as_str().unwrap();
        let info = ask_api(server, &format!("STREAM.INFO.{name}"), "").await;
        let info: Value = serde_json::from_str(&info).unwrap();
        let promised = info["config"]["max_bytes"].as_i64().unwrap();
        logs.push((name.to_owned(), promised, info["state"]["bytes"].as_u64().unwrap()));
    }
    logs
}

/// Deletes what may be deleted, until `left` logs are there or for ever.
async fn delete_until(nats: &NatsClient, server: &NatsServer, left: usize) {
    let (end, mut pace) = (Instant::now() + DEADLINE, interval(Duration::from_millis(100)));
    while logs(server).await.len() > left {
        pace.tick().await;
        nats.delete_logs_before(EPOCHS).await.unwrap();
        assert!(Instant::now() < end, "logs that nobody needs stay: {:?}", logs(server).await);
    }
}

/// Each epoch has a log that may take 4 GiB, and the room that `deploy/` gives is for two of them.
#[tokio::test]
async fn epochs_that_follow_each_other_fit_into_the_room_of_deploy_and_go_once_they_are_empty() {
    let texts = [
        include_str!("../../../../deploy/compose/nats.conf"),
        include_str!("../../../../deploy/kubernetes/nats.conf"),
    ];
    let (value, most) = limit_of(texts[0]);
    assert_eq!(limit_of(texts[1]), (value.clone(), most));
    for program in programs() {
        let settings = format!("jetstream {{ store_dir: \"STORE\", max_file_store: {value} }}\n");
        let server = [NatsServer::with_settings(&program, &settings)];
        let nats = connect(&server, 1).await;
        for epoch in 1..=EPOCHS {
            publish_all(&log(&nats, epoch).await, 1, 20).await;
            let logs = logs(&server[0]).await;
            assert_eq!(logs.len() as u64, epoch, "what has records is kept: {logs:?}");
            let promised: i64 = logs.iter().map(|(_, promised, _)| promised).sum();
            assert!(promised <= most, "{promised} of {most}: {logs:?}");
            assert!(logs.iter().all(|(.., bytes)| *bytes < 64 << 10), "{logs:?}");
            nats.delete_logs_before(epoch).await.unwrap();
            if epoch < EPOCHS {
                nats.seal(epoch).await.unwrap();
            }
        }
        // Ten minutes pass: what was sealed ages, and the last one goes on.
        for epoch in 1..EPOCHS {
            let stream = format!("ENCKE_t_{epoch}");
            for name in ["duplicate_window", "max_age"] {
                change_stream(&server[0], &stream, name, 200_000_000).await;
            }
        }
        delete_until(&nats, &server[0], 1).await;
        let last = logs(&server[0]).await;
        assert_eq!(last[0].0, format!("ENCKE_t_{EPOCHS}"));
        publish_all(&log(&nats, EPOCHS).await, 21, 40).await;
    }
}
