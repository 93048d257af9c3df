//! The epoch: one value, taken once, told to all.

use bus::{Bytes, Proposal};
use testing::NatsServer;
use tokio::time::timeout;

use crate::harness::{LONG, connect, programs};

#[tokio::test]
async fn of_two_proposals_over_the_same_revision_one_is_taken() {
    for program in programs() {
        let server = [NatsServer::start(&program)];
        let (one, other) = (connect(&server, 1).await, connect(&server, 1).await);
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
            timeout(LONG, told).await.unwrap().unwrap();
            expected = revision;
        }
        assert_eq!(one.propose(0, "late".into()).await.unwrap(), Proposal::Lost);
    }
}
