//! One server that dies, stops or cannot be reached: publishers wait and come through once, and
//! followers go on where they were.

use std::time::Duration;

use nats::{Log, NatsClient, NatsConfig, PublishError};
use testing::{NatsServer, TcpRelay};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::harness::{
    DEADLINE, bytes, connect, hear_all, log, programs, publish_all, record, soon,
};

/// Publishes one record after the other until told to stop, and gives their number.
fn publisher(log: &Log) -> (tokio::sync::oneshot::Sender<()>, JoinHandle<u64>) {
    let log = log.clone();
    let (stop, mut stopped) = tokio::sync::oneshot::channel();
    let task = tokio::spawn(async move {
        let mut number = 0;
        while stopped.try_recv() == Err(tokio::sync::oneshot::error::TryRecvError::Empty) {
            number += 1;
            publish_all(&log, number, number).await;
        }
        number
    });
    (stop, task)
}

/// What a test of a fault waits: for time itself, since that is what the fault lasts.
async fn lasting(time: Duration) {
    assert!(timeout(time, std::future::pending::<()>()).await.is_err());
}

/// A publisher and a follower, over `fault` and some records after it.
async fn live_through(log: &Log, fault: impl Future<Output = ()>) {
    let mut follower = log.follow(1);
    let (stop, publisher) = publisher(log);
    for number in 1..=100 {
        assert_eq!(record(&mut follower).await.bytes, bytes(number));
    }
    fault.await;
    // The queue of the follower is shorter than this, so these were published after the fault.
    hear_all(&mut follower, 101, 1000).await;
    stop.send(()).unwrap();
    let reading = async {
        let mut heard = 1000;
        loop {
            let record = record(&mut follower).await;
            heard += 1;
            assert_eq!((record.sequence, record.bytes), (heard, bytes(heard)));
        }
    };
    let published = tokio::select! {
        published = publisher => published.unwrap(),
        () = reading => unreachable!(),
    };
    let last = log.extent().await.unwrap().last;
    assert_eq!(last, published, "each is in the log once");
}

#[tokio::test]
async fn server_that_is_killed_and_started_again_costs_time_alone() {
    for program in programs() {
        let mut server = [NatsServer::start(&program)];
        let nats = connect(&server, 1).await;
        let log = log(&nats, 1).await;
        let before = nats.state();
        live_through(&log, async {
            server[0].kill();
            lasting(Duration::from_millis(700)).await;
            server[0].restart();
        })
        .await;
        let state = nats.state();
        assert!(state.connected && state.connects > before.connects, "{state:?}");
        assert!(state.since > before.since);
    }
}

#[tokio::test]
async fn server_that_stands_still_for_three_seconds_costs_time_alone() {
    for program in programs() {
        let server = [NatsServer::start(&program)];
        let nats = connect(&server, 1).await;
        let log = log(&nats, 1).await;
        live_through(&log, async {
            server[0].pause();
            lasting(Duration::from_secs(3)).await;
            server[0].resume();
        })
        .await;
        assert!(nats.counts().repeats > 0, "publishes had no answer for a while");
    }
}

async fn through_relay(server: &NatsServer) -> (TcpRelay, NatsClient) {
    let relay = TcpRelay::start(server.address());
    let nats = NatsClient::connect(NatsConfig::new("t", [format!("nats://{}", relay.address())]));
    let nats = nats.await.unwrap();
    (relay, nats)
}

#[tokio::test]
async fn connection_that_is_cut_again_and_again_costs_time_alone() {
    for program in programs() {
        let server = NatsServer::start(&program);
        let (relay, nats) = through_relay(&server).await;
        let log = log(&nats, 1).await;
        live_through(&log, async {
            for _ in 0..10 {
                lasting(Duration::from_millis(50)).await;
                relay.cut();
            }
        })
        .await;
    }
}

#[tokio::test]
async fn record_whose_acknowledgement_is_swallowed_is_in_the_log_once() {
    for program in programs() {
        let server = NatsServer::start(&program);
        let (relay, nats) = through_relay(&server).await;
        let log = log(&nats, 1).await;
        publish_all(&log, 1, 1).await;
        relay.swallow_answers();
        let unknown = log.publish("a.2", "e", bytes(2)).await;
        assert!(matches!(unknown, Err(PublishError::Unknown(_))), "{unknown:?}");
        relay.cut();
        relay.pass();
        let known = log.publish_until("a.2", "e", bytes(2), soon()).await.unwrap();
        assert_eq!((known.sequence, known.duplicate), (2, true));
        assert_eq!(log.extent().await.unwrap().last, 2);

        // Now nothing at all comes through, until the dead connection is noticed.
        let mut follower = log.follow(1);
        hear_all(&mut follower, 1, 2).await;
        relay.swallow();
        let publishing = log.publish_until("a.3", "e", bytes(3), soon());
        let noticing = async {
            let mut state = nats.watch_state();
            // By pings: TCP itself takes a quarter of an hour, the library's own pings 3 minutes.
            timeout(DEADLINE, state.wait_for(|state| !state.connected)).await.unwrap().unwrap();
            relay.pass();
        };
        let (published, ()) = tokio::join!(publishing, noticing);
        assert_eq!(published.unwrap().sequence, 3);
        hear_all(&mut follower, 3, 3).await;
    }
}

#[tokio::test]
async fn nothing_is_sent_late_that_was_given_up_without_a_connection() {
    for program in programs() {
        let mut server = [NatsServer::start(&program)];
        let nats = connect(&server, 1).await;
        let log = log(&nats, 1).await;
        publish_all(&log, 1, 1).await;
        server[0].kill();
        let mut state = nats.watch_state();
        timeout(DEADLINE, state.wait_for(|state| !state.connected)).await.unwrap().unwrap();
        // It does not wait for a connection: there is none until this is answered.
        let refused = timeout(DEADLINE, log.publish("a.2", "e", bytes(2))).await.unwrap();
        assert!(matches!(refused, Err(PublishError::Unavailable(_))), "{refused:?}");
        assert!(nats.publish_core("beat", bytes(1)).await.is_err());
        server[0].restart();
        let next = log.publish_until("a.3", "e", bytes(3), soon()).await.unwrap();
        assert_eq!(next.sequence, 2, "the one that was given up is not in the log");
        assert_eq!(nats.counts().refused, 1);
    }
}

#[tokio::test]
async fn full_disk_refuses_and_keeps_what_was_acknowledged() {
    let Some(program) = testing::nats_current() else { return };
    let mount = tempfile::tempdir().unwrap();
    let Some(on_disk) = testing::on_small_disk(mount.path(), 4 << 20) else {
        return testing::skip("this user may not mount a disk of its own");
    };
    let settings = format!(
        "jetstream {{ store_dir: \"{}\", max_file_store: 20GB }}\n",
        mount.path().display()
    );
    let server = NatsServer::within(on_disk, &program, &settings);
    let nats = NatsClient::connect(NatsConfig::new("t", [server.url()])).await.unwrap();
    let log = nats.make_log(1).await.unwrap();
    let mut follower = log.follow(1);
    let record_of = |number: u64| nats::Bytes::from(number.to_be_bytes().repeat(1000));
    let mut taken = 0;
    let refused = loop {
        let deadline = Instant::now() + Duration::from_secs(2);
        let number = taken + 1;
        match log.publish_until(&format!("a.{number}"), "e", record_of(number), deadline).await {
            Ok(published) => {
                taken += 1;
                assert_eq!((published.sequence, published.duplicate), (taken, false));
            }
            Err(error) => break error,
        }
        assert!(taken < 10_000, "the disk has no room for so many");
    };
    assert!(!matches!(refused, PublishError::NoLog), "{refused}");
    for number in 1..=taken {
        assert_eq!(record(&mut follower).await.bytes, record_of(number));
    }
}
