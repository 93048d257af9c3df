//! A crowd of all transports under traffic while its server is replaced five times: nobody is
//! closed, nothing is lost, doubled or out of order, on any connection.
//!
//! `ENCKE_UPGRADE_STREAMS=10000 ENCKE_UPGRADE_ROUNDS=50` is the run of the issue.

use std::time::{Duration, Instant};

use super::listeners::Listeners;
use super::senders::{Expected, Sender, Sent, Traffic, WAYS};
use super::served::Upgraded;
use super::subscriber::{Kind, STREAMS};
use crate::harness::wait_for;

/// Groups that the streams are in, each heard by a part of them.
const GROUPS: usize = 20;

/// The same of the polls, which are not online all the time.
const POLL_GROUPS: usize = 4;

fn variable(name: &str, usual: usize) -> usize {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

/// Who listens: every tenth is a poll, the others of each transport in turn.
fn plan(streams: usize) -> Vec<(Kind, Vec<String>)> {
    let one = |n: usize| match n % 10 {
        9 => (Kind::Poll, vec![format!("own:{n}"), format!("poll:{}", n / 10 % POLL_GROUPS)]),
        _ => (STREAMS[n % 9 % 8], vec![format!("own:{n}"), format!("group:{}", n % GROUPS)]),
    };
    (0..streams)
        .map(one)
        .map(|(kind, ids)| (kind, [ids, vec!["all".to_owned()]].concat()))
        .collect()
}

/// Four ways to send, each about some groups and some listeners alone.
fn senders(server: &Upgraded, streams: usize) -> Vec<Sender> {
    let subjects = |sender: usize| {
        let groups = (0..GROUPS).map(|n| format!("group:{}", (n * 7 + sender) % GROUPS));
        let polls = (0..POLL_GROUPS).map(|n| format!("poll:{n}"));
        let own = (0..30).map(|n| format!("own:{}", (n * 37 + sender) % streams));
        groups.chain(polls).chain(own).collect()
    };
    let sender = |(n, &way)| Sender {
        api: server.api.address(),
        way,
        name: format!("{way:?}"),
        subjects: subjects(n),
        pause: Duration::from_millis(3),
    };
    WAYS.iter().enumerate().map(sender).collect()
}

/// Each send was answered in time, its numbers grow, and its count is true.
fn check_sender(sent: &[Sent], plan: &[(Kind, Vec<String>)]) -> Duration {
    let (mut last, mut longest) = ("", Duration::ZERO);
    for one in sent {
        let (id, delivered) = match &one.answer {
            Ok((id, delivered)) => (id, *delivered),
            Err(why) => panic!("{} about {}: {why}", one.text, one.about),
        };
        assert!(**id > *last, "{} has a number that grows", one.text);
        last = id;
        let hears = |poll: bool| {
            let of = plan
                .iter()
                .filter(|(kind, ids)| (*kind == Kind::Poll) == poll && ids.contains(&one.about));
            of.count() as u64
        };
        let (streams, polls) = (hears(false), hears(true));
        let is_true = (streams..=streams + polls).contains(&delivered);
        assert!(is_true, "{} about {}: {delivered}, of {streams}", one.text, one.about);
        longest = longest.max(one.took);
    }
    longest
}

#[test]
fn nobody_notices_five_upgrades_under_traffic() {
    sys::limits::raise_descriptors().unwrap();
    let streams = variable("ENCKE_UPGRADE_STREAMS", 500);
    let rounds = variable("ENCKE_UPGRADE_ROUNDS", 5);
    let options =
        ["--websocket-deflate", "--history-events=100000", "--max-backlog=1MiB", "--workers=3"];
    let server = Upgraded::serve(&options);
    let plan = plan(streams);
    let listeners = Listeners::open(server.listen(), plan.clone());
    server.wait_online("all", streams as u64);
    let traffic = Traffic::default();
    let answered = || traffic.answered.load(std::sync::atomic::Ordering::Relaxed);
    let sent: Vec<Vec<Sent>> = std::thread::scope(|scope| {
        let senders = senders(&server, streams);
        let senders: Vec<_> =
            senders.into_iter().map(|sender| scope.spawn(|| sender.work(&traffic))).collect();
        for round in 0..rounds {
            let before = answered();
            wait_for("sends are answered", || answered() > before + 100);
            let start = Instant::now();
            server.upgrade(&[]);
            println!("upgrade {round} took {:.0?}", start.elapsed());
        }
        let before = answered();
        wait_for("sends are answered", || answered() > before + 100);
        traffic.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        senders.into_iter().map(|sender| sender.join().unwrap()).collect()
    });
    let longest = sent.iter().map(|sent| check_sender(sent, &plan)).max().unwrap();
    let mut sent: Vec<Sent> = sent.into_iter().flatten().collect();
    let last = server.api.post("/send", &serde_json::json!({"about":"all","data":"last"})).ok();
    let id = last["id"].as_str().unwrap().to_owned();
    let answer = Ok((id, 0));
    sent.push(Sent { about: "all".into(), text: "last".into(), answer, took: Duration::ZERO });
    let all_have_it = listeners.wait(|listeners| {
        let has_it =
            |heard: Option<&super::subscriber::Heard>| heard.is_some_and(|one| one.data == "last");
        listeners.iter().all(|one| one.ended.is_some() || has_it(one.subscriber.heard.back()))
    });
    let listeners = listeners.finish();
    let mut faults = Vec::new();
    let mut heard_in_all = 0;
    for (n, listener) in listeners.iter().enumerate() {
        let heard: Vec<&str> =
            listener.subscriber.heard.iter().map(|heard| heard.data.as_str().unwrap()).collect();
        heard_in_all += heard.len();
        let fault = Expected::of(&sent, &listener.ids).fault(&heard, true);
        let ended = listener.ended.map(|ended| format!("closed: {ended:?}"));
        let gap = (listener.subscriber.gaps > 0).then(|| "is told a gap".to_owned());
        for fault in [fault, ended, gap].into_iter().flatten() {
            faults.push(format!("{n} ({:?}): {fault}", listener.subscriber.kind));
        }
    }
    println!(
        "{streams} streams, {rounds} upgrades, {} events, {heard_in_all} heard, the longest \
         answer {longest:.0?}",
        sent.len()
    );
    assert_eq!(faults, Vec::<String>::new());
    assert!(all_have_it);
    let stats = server.api.stats();
    assert_eq!(stats["connections_opened"], streams, "{stats}");
    assert_eq!(stats["events"], sent.len(), "{stats}");
}
