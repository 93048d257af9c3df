//! Making, publishing and following.

use std::time::Duration;

use nats::{Bytes, Followed, LogError, NatsClient, PublishError, RECORD_BYTES_MAX};
use testing::{NatsServer, tried_again};

use crate::harness::{
    ask_api, bytes, change_stream, connect, crashes_at_two_makers, hear_all, log, next, programs,
    publish_all, record, soon,
};

#[tokio::test]
async fn what_is_published_is_heard_once_and_in_order() {
    for program in programs() {
        let server = [NatsServer::start(&program)];
        let nats = connect(&server, 1).await;
        let log = log(&nats, 7).await;
        let mut follower = log.follow(1);
        for number in 1..=300 {
            let id = format!("a.{number}");
            let published = log.publish_until(&id, "e", bytes(number), soon()).await.unwrap();
            assert_eq!(published.sequence, number);
            // Who has no answer in time asks again, and is told that it was there.
            assert!(!published.duplicate || nats.counts().repeats > 0);
        }
        let again = log.publish_until("a.5", "e", bytes(5), soon()).await.unwrap();
        assert_eq!((again.sequence, again.duplicate), (5, true));
        let last = log.publish_until("a.301", "g", bytes(301), soon()).await.unwrap();
        assert_eq!(last.sequence, 301);
        for number in 1..=301 {
            let record = record(&mut follower).await;
            assert_eq!((record.sequence, record.bytes), (number, bytes(number)));
            assert_eq!(record.kind, if number == 301 { "g" } else { "e" });
        }
        let mut from_200 = log.follow(200);
        assert_eq!(record(&mut from_200).await.sequence, 200);
        let extent = log.extent().await.unwrap();
        assert_eq!((extent.first, extent.last), (1, 301));
        let counts = nats.counts();
        assert_eq!((counts.published, counts.unknown), (302, 0));
        assert!(counts.duplicates == 1 || counts.repeats > 0, "{counts:?}");
    }
}

#[tokio::test]
async fn log_is_made_by_whoever_comes_first() {
    for program in programs() {
        let server = [NatsServer::start(&program)];
        let nodes = [(); 4].map(|()| connect(&server, 1));
        let nodes = futures_util::future::join_all(nodes).await;
        assert!(matches!(nodes[0].find_log(1).await, Err(LogError::Absent(_))));
        if crashes_at_two_makers(&program) {
            nodes[0].make_log(1).await.unwrap();
        }
        let made = nodes.iter().map(|node| node.make_log(1));
        for made in futures_util::future::join_all(made).await {
            assert_eq!(made.unwrap().epoch(), 1);
        }
        assert_eq!(nodes[0].find_log(1).await.unwrap().extent().await.unwrap().last, 0);
    }
}

#[tokio::test]
async fn log_with_other_settings_is_refused_and_they_are_named() {
    for program in programs() {
        let server = [NatsServer::start(&program)];
        let nats = connect(&server, 1).await;
        nats.make_log(1).await.unwrap();
        change_stream(&server[0], "ENCKE_t_1", "max_age", 5_000_000_000_000).await;
        let error = nats.make_log(1).await.unwrap_err().to_string();
        let sentence = "max_age is 5000000000000 and must be 600000000000";
        assert!(error.contains(sentence) && error.contains("ENCKE_t_1"), "{error}");
    }
}

#[tokio::test]
async fn follower_of_a_trimmed_log_is_told_and_goes_on() {
    for program in programs() {
        let server = [NatsServer::start(&program)];
        let nats = connect(&server, 1).await;
        let log = nats.make_log(1).await.unwrap();
        let mut slow = log.follow(1);
        publish_all(&log, 1, 1000).await;
        hear_all(&mut slow, 1, 1).await;
        change_stream(&server[0], "ENCKE_t_1", "max_msgs", 100).await;

        // Who comes now hears at once that its part is gone.
        let mut late = log.follow(1);
        assert_eq!(next(&mut late).await, Followed::Trimmed { wanted: 1, first: 901 });
        hear_all(&mut late, 901, 1000).await;

        // Who reads hears what was under way, and then the same.
        let wanted = loop {
            match next(&mut slow).await {
                Followed::Record(record) => assert_eq!(record.bytes, bytes(record.sequence)),
                Followed::Trimmed { wanted, first: 901 } => break wanted,
                other => panic!("{other:?}"),
            }
        };
        assert!((2..500).contains(&wanted), "{wanted}");
        hear_all(&mut slow, 901, 1000).await;

        // A log that has nothing any more has not lost what is to come.
        let mut after = log.follow(1001);
        publish_all(&log, 1001, 1001).await;
        hear_all(&mut after, 1001, 1001).await;
    }
}

#[tokio::test]
async fn slow_owner_makes_the_follower_slow_and_loses_nothing() {
    let Some(program) = testing::nats_current() else { return };
    let server = [NatsServer::start(&program)];
    let nats = connect(&server, 1).await;
    let log = nats.make_log(1).await.unwrap();
    let mut follower = log.follow(1);
    // Many small ones, more than the library holds, then some that are large.
    let mut publishers = tokio::task::JoinSet::new();
    for publisher in 0..64 {
        let log = log.clone();
        publishers.spawn(async move {
            for number in 0..160 {
                let id = format!("{publisher}.{number}");
                log.publish_until(&id, "e", bytes(number), soon()).await.unwrap();
            }
        });
    }
    publishers.join_all().await;
    let large = Bytes::from(vec![7; RECORD_BYTES_MAX]);
    for number in 0..200 {
        log.publish_until(&format!("a.{number}"), "e", large.clone(), soon()).await.unwrap();
    }
    // Longer than the watchdog.
    let pause = tokio::time::timeout(Duration::from_secs(2), std::future::pending::<()>());
    assert!(pause.await.is_err());
    for number in 1..=64 * 160 + 200 {
        assert_eq!(record(&mut follower).await.sequence, number);
    }
    assert_eq!(nats.counts().slow_consumer, 0);
    let too_large = Bytes::from(vec![7; RECORD_BYTES_MAX + 1]);
    let error = log.publish("a.200", "e", too_large).await.unwrap_err();
    assert!(matches!(error, PublishError::Refused { .. }), "{error}");
}

#[tokio::test]
async fn deleted_log_is_told_to_followers_and_publishers() {
    for program in programs() {
        let server = [NatsServer::start(&program)];
        let nats = connect(&server, 1).await;
        let log = nats.make_log(1).await.unwrap();
        let mut follower = log.follow(1);
        publish_all(&log, 1, 1).await;
        hear_all(&mut follower, 1, 1).await;
        assert_eq!(nats.delete_logs_before(2).await.unwrap(), [0; 0], "it has a record");
        ask_api(&server[0], "STREAM.DELETE.ENCKE_t_1", "").await;
        assert_eq!(next(&mut follower).await, Followed::Gone);
        assert_eq!(follower.next().await, None);
        let error = log.publish_until("a.2", "e", bytes(2), soon()).await;
        assert_eq!(error, Err(PublishError::NoLog));
        for epoch in [3, 4, 5] {
            nats.make_log(epoch).await.unwrap();
        }
        assert_eq!(nats.delete_logs_before(5).await.unwrap(), [3, 4]);
        assert!(nats.find_log(5).await.is_ok());
    }
}

#[tokio::test]
async fn idle_follower_outlives_its_requests_without_a_new_consumer() {
    let servers: Vec<NatsServer> = programs().iter().map(|path| NatsServer::start(path)).collect();
    let mut followed = Vec::new();
    for server in &servers {
        let nats = connect(std::slice::from_ref(server), 1).await;
        let log = nats.make_log(1).await.unwrap();
        let mut follower = log.follow(1);
        publish_all(&log, 1, 50).await;
        hear_all(&mut follower, 1, 50).await;
        followed.push((nats, log, follower));
    }
    // New consumers and new connections are also made where a server is not heard for a second or
    // three, as on a machine that stands still: then it is tried again, and that is told.
    let made = |nats: &NatsClient| (nats.counts().followers_restarted, nats.state().connects);
    let mut last = 50;
    for _ in 0..3 {
        let before: Vec<_> = followed.iter().map(|(nats, ..)| made(nats)).collect();
        // A request for records stands for 30 s.
        let idle = tokio::time::timeout(Duration::from_secs(33), std::future::pending::<()>());
        assert!(idle.await.is_err());
        for (_, log, follower) in &mut followed {
            publish_all(log, last + 1, last + 450).await;
            hear_all(follower, last + 1, last + 450).await;
        }
        last += 450;
        if followed.iter().map(|(nats, ..)| made(nats)).eq(before) {
            return;
        }
        tried_again("an idle follower has a new consumer or a new connection");
    }
    panic!("an idle follower has a new consumer or a new connection each time");
}

#[tokio::test]
async fn sealed_log_takes_nothing_more_and_can_be_read() {
    for program in programs() {
        let server = [NatsServer::start(&program)];
        let nats = connect(&server, 1).await;
        nats.seal(6).await.unwrap();
        let log = log(&nats, 7).await;
        log.publish_until("a.1", "e", bytes(1), soon()).await.unwrap();
        nats.seal(7).await.unwrap();
        nats.seal(7).await.unwrap();
        let refused = log.publish_until("a.2", "e", bytes(2), soon()).await;
        assert_eq!(refused, Err(PublishError::NoLog));
        assert_eq!(log.extent().await.unwrap().last, 1);
        assert_eq!(record(&mut log.follow(1)).await.bytes, bytes(1));
        assert!(matches!(nats.make_log(7).await, Err(LogError::Sealed(_))));
        assert_eq!(nats.delete_logs_before(8).await.unwrap(), [0; 0], "it has a record");
    }
}
