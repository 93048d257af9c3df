//! Clients that publish while another version takes over: each send is answered, and what is
//! answered as sent is heard once.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::served::Upgraded;
use crate::harness::{Socket, wait_for};

/// Sends one event after the other until it is told to stop, each until it is taken.
fn send_on(listen: SocketAddr, number: u64, stop: &AtomicBool) -> Vec<(String, u64)> {
    let mut socket = Socket::open(listen, &format!("/stream/sender:{number}"));
    let (mut sent, mut next) = (Vec::new(), 0);
    while !stop.load(Ordering::Relaxed) {
        let key = format!("{number}-{next}");
        let event = json!({"about": "room", "data": [number, next], "key": key});
        let answer = socket.ask(json!({"send": event, "ref": next}));
        assert_eq!(answer["ref"], next, "{answer}");
        match answer["ok"]["id"].as_str() {
            Some(id) => {
                sent.push((id.to_owned(), next));
                next += 1;
            }
            // Nothing was sent, and it is to be sent again.
            None => assert_eq!(answer["error"]["status"], 503, "{answer}"),
        }
    }
    sent
}

#[test]
fn what_clients_publish_in_the_middle_of_an_upgrade_is_heard_once_and_in_order() {
    let server =
        Upgraded::serve(&["--client-send", "--client-send-rate=0", "--history-events=100000"]);
    let mut listener = server.listener("room");
    let stop = AtomicBool::new(false);
    let sent: Vec<Vec<(String, u64)>> = std::thread::scope(|scope| {
        let (listen, stop) = (server.listen(), &stop);
        let send = |number| scope.spawn(move || send_on(listen, number, stop));
        let senders: Vec<_> = (0..4).map(send).collect();
        for _ in 0..2 {
            let before = server.api.stats()["events"].as_u64().unwrap();
            server.upgrade(&[]);
            let events = || server.api.stats()["events"].as_u64();
            wait_for("they go on", || events() > Some(before));
        }
        stop.store(true, Ordering::Relaxed);
        senders.into_iter().map(|sender| sender.join().unwrap()).collect()
    });
    let all: BTreeSet<&String> = sent.iter().flatten().map(|(id, _)| id).collect();
    assert_eq!(all.len(), sent.iter().map(Vec::len).sum::<usize>(), "each has an id of its own");
    let mut heard: Vec<Vec<u64>> = vec![Vec::new(); 4];
    for _ in 0..all.len() {
        let event: Value = listener.event();
        assert!(all.contains(&event["id"].as_str().unwrap().to_owned()), "{event}");
        let sender = event["data"][0].as_u64().unwrap();
        heard[sender as usize].push(event["data"][1].as_u64().unwrap());
    }
    for (sender, heard) in heard.iter().enumerate() {
        let expected: Vec<u64> = sent[sender].iter().map(|(_, number)| *number).collect();
        assert_eq!(heard, &expected, "sender {sender}");
    }
}
