//! What these tests share: servers of both versions, waits with a deadline.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nats::{Bytes, Followed, Follower, Log, LogError, NatsClient, NatsConfig, Record};
pub(crate) use testing::DEADLINE;
use testing::NatsServer;
use tokio::time::{Instant, timeout};

/// Both programs that we are to work with.
pub(crate) fn programs() -> Vec<PathBuf> {
    [testing::nats_current(), testing::nats_of_system()].into_iter().flatten().collect()
}

/// A server before 2.10 that is asked about a stream which it is just making ends with a nil
/// pointer (its `addStreamWithAssignment` lets others see the stream before that has a store): once
/// in ten times on a busy machine. Where this is one, somebody must be first.
pub(crate) fn crashes_at_two_makers(program: &Path) -> bool {
    is_old(program)
}

/// A server of Debian's version refuses its vote to one that has fewer entries than it has itself,
/// and begins its own wait for a leader anew (2.9.10, server/raft.go, `processVoteRequest`; 2.9.25
/// asks for votes at once instead). So one that has just come back, and asks first, puts off the
/// only one that can win by 4 to 9 s, and does so again as often as it is first again, which is as
/// likely as not: three refusals took 19 s, four more than 25 s, and there is no most. Where this
/// is one, who comes back must know all before another dies.
pub(crate) fn puts_elections_off(program: &Path) -> bool {
    is_old(program)
}

fn is_old(program: &Path) -> bool {
    testing::nats_of_system().is_some_and(|old| old == program)
}

pub(crate) async fn connect(servers: &[NatsServer], replicas: usize) -> NatsClient {
    let mut config = NatsConfig::new("t", servers.iter().map(NatsServer::url));
    config.replicas = replicas;
    config.connect_timeout = DEADLINE;
    NatsClient::connect(config).await.unwrap()
}

/// The log of an epoch, as soon as the servers have found each other.
pub(crate) async fn log(nats: &NatsClient, epoch: u64) -> Log {
    let end = Instant::now() + DEADLINE;
    let mut pace = tokio::time::interval(Duration::from_millis(100));
    loop {
        pace.tick().await;
        match nats.make_log(epoch).await {
            Ok(log) => return log,
            // Servers that have not found each other have no JetStream yet.
            Err(
                LogError::Unavailable(_) | LogError::NoJetStream | LogError::TooFewServers { .. },
            ) if Instant::now() < end => {}
            Err(error) => panic!("{error}"),
        }
    }
}

pub(crate) fn soon() -> Instant {
    Instant::now() + DEADLINE
}

pub(crate) async fn next(follower: &mut Follower) -> Followed {
    timeout(DEADLINE, follower.next()).await.expect("nothing was heard").expect("it ended")
}

pub(crate) async fn record(follower: &mut Follower) -> Record {
    match next(follower).await {
        Followed::Record(record) => record,
        other => panic!("{other:?}"),
    }
}

/// The bytes of record `number`.
pub(crate) fn bytes(number: u64) -> Bytes {
    number.to_be_bytes().to_vec().into()
}

/// Asks JetStream something that the crate does not ask, until it answers: a question to servers
/// that are just electing has none.
pub(crate) async fn ask_api(server: &NatsServer, what: &str, body: &str) -> String {
    let client = async_nats::connect(server.url()).await.unwrap();
    let end = Instant::now() + DEADLINE;
    loop {
        let body = body.to_owned().into();
        let answer = timeout(DEADLINE / 10, client.request(format!("$JS.API.{what}"), body)).await;
        match answer {
            Ok(Ok(answer)) => return String::from_utf8(answer.payload.to_vec()).unwrap(),
            other => assert!(Instant::now() < end, "{other:?}"),
        }
    }
}

/// Sets one thing of a stream otherwise.
pub(crate) async fn change_stream(server: &NatsServer, stream: &str, name: &str, value: u64) {
    let info = ask_api(server, &format!("STREAM.INFO.{stream}"), "").await;
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    let mut config = info["config"].clone();
    config[name] = value.into();
    let answer = ask_api(server, &format!("STREAM.UPDATE.{stream}"), &config.to_string()).await;
    assert!(!answer.contains("\"error\""), "{answer}");
}

/// Publishes records `from..=to` one after the other, each until it is known.
pub(crate) async fn publish_all(log: &Log, from: u64, to: u64) {
    for number in from..=to {
        let id = format!("a.{number}");
        log.publish_until(&id, "e", bytes(number), soon()).await.unwrap();
    }
}

/// Hears records `from..=to`, each once and in order, of a log that has nothing else.
pub(crate) async fn hear_all(follower: &mut Follower, from: u64, to: u64) {
    for number in from..=to {
        let record = record(follower).await;
        assert_eq!((record.sequence, record.bytes), (number, bytes(number)));
    }
}
