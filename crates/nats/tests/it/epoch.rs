//! The epoch: one value, taken once, told to all.

use nats::{Bytes, Proposal};
use testing::NatsServer;
use tokio::time::timeout;

use crate::harness::{DEADLINE, ask_api, connect, crashes_at_two_makers, programs};

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
        let info: serde_json::Value = serde_json::from_str(&info).unwrap();
        assert_eq!(info["state"]["messages"], 2, "{info}");
        let long = Bytes::from(vec![b'x'; nats::VALUE_BYTES_MAX + 1]);
        assert!(!one.swap("c", 0, long).await.unwrap_err().may_count);
        let longest = Bytes::from(vec![b'x'; nats::VALUE_BYTES_MAX]);
        assert!(matches!(one.swap("c", 0, longest).await.unwrap(), Proposal::Taken(_)));
    }
}
