//! Who sends, and who changes the graph: one request after the other, at any node.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rig::oracle::Expected;
use serde_json::{Value, json};

use super::LISTENERS;
use super::plan::NODES;
use super::record::{Outcome, Pair, Record, Subject};
use super::scene::{Scene, lock};
use crate::harness::Api;

/// Lines of a request that has more than one.
const LINES: usize = 5;

/// A sender, with a connection to each node.
pub(super) struct Sender<'r> {
    number: usize,
    apis: Vec<Api>,
    record: &'r Record,
    stop: &'r AtomicBool,
    random: fastrand::Rng,
}

impl<'r> Sender<'r> {
    pub(super) fn new(
        number: usize,
        seed: u64,
        scene: &Scene,
        record: &'r Record,
        stop: &'r AtomicBool,
    ) -> Sender<'r> {
        let apis = scene.nodes.iter().map(|node| Api::new(node.api)).collect();
        let random = fastrand::Rng::with_seed(seed ^ (number as u64 + 1) << 32);
        Sender { number, apis, record, stop, random }
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    fn node(&mut self) -> usize {
        self.random.usize(..NODES)
    }

    fn pause(&mut self) {
        std::thread::sleep(Duration::from_millis(self.random.u64(10..120)));
    }

    /// Sends one event; whether it was acknowledged.
    pub(super) fn send(&self, node: usize, subject: Subject, expected: Expected) -> bool {
        let number = self.record.send(self.number, node, subject, expected);
        let body = json!({"about": subject.name(), "data": number});
        let outcome = match self.apis[node].try_post("/send", &body) {
            Ok(answer) => {
                let json = serde_json::from_str(&answer.body).unwrap_or_default();
                Outcome::of(answer.status().into(), &json)
            }
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => Outcome::NotSent,
            Err(error) => Outcome::Unknown(error.to_string()),
        };
        let acked = matches!(outcome, Outcome::Acked { .. });
        self.record.answer(number, outcome);
        acked
    }

    /// Sends some events as lines of one request, which are answered in their order.
    fn send_lines(&mut self, node: usize) {
        let numbers: Vec<usize> = (0..LINES)
            .map(|_| {
                let subject = self.subject();
                self.record.send(self.number, node, subject, Expected::Must)
            })
            .collect();
        let line = |&number: &usize| {
            let subject = lock(&self.record.open).events[number].subject;
            json!({"about": subject.name(), "data": number}).to_string() + "\n"
        };
        let body: String = numbers.iter().map(line).collect();
        let kind = Some("application/x-ndjson");
        let answer = self.apis[node].request("POST", "/send", kind, body.as_bytes());
        let refused =
            answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
        let lines: Vec<Value> = answer
            .map(|answer| answer.body.lines().filter_map(|line| line.parse().ok()).collect())
            .unwrap_or_default();
        for (n, &number) in numbers.iter().enumerate() {
            let outcome = match lines.get(n) {
                Some(line) => Outcome::of(line["status"].as_u64().unwrap_or(200), line),
                None if refused => Outcome::NotSent,
                None => Outcome::Unknown("no answer".to_owned()),
            };
            self.record.answer(number, outcome);
        }
    }

    fn subject(&mut self) -> Subject {
        match self.random.u8(..8) {
            0 => Subject::All,
            1..4 => Subject::Listener(self.random.usize(..LISTENERS)),
            _ => Subject::Half(self.random.usize(..2)),
        }
    }

    /// Sends until it is told to stop.
    pub(super) fn go_on(mut self) {
        while !self.is_over() {
            let node = self.node();
            if self.number == 0 {
                self.send_lines(node);
            } else {
                let subject = self.subject();
                self.send(node, subject, Expected::Must);
            }
            self.pause();
        }
    }

    /// Adds pairs and ends some of them, and sends about each as soon as that was answered.
    pub(super) fn change(mut self) {
        while !self.is_over() {
            let listener = self.random.usize(..LISTENERS);
            let pair = {
                let mut open = lock(&self.record.open);
                open.pairs.push(Pair { listener, is_there: None, ended: false });
                open.pairs.len() - 1
            };
            let subject = Subject::Pair(pair);
            if self.ask("add", listener, pair) {
                lock(&self.record.open).pairs[pair].is_there = Some(true);
                for _ in 0..2 {
                    let node = self.node();
                    self.send(node, subject, Expected::Must);
                }
                if self.random.bool() {
                    lock(&self.record.open).pairs[pair].ended = true;
                    lock(&self.record.open).pairs[pair].is_there = None;
                    if self.ask("remove", listener, pair) {
                        lock(&self.record.open).pairs[pair].is_there = Some(false);
                        let node = self.node();
                        self.send(node, subject, Expected::MustNot);
                    }
                }
            } else {
                let node = self.node();
                self.send(node, subject, Expected::May);
            }
            self.pause();
        }
    }

    /// Whether the change was acknowledged.
    fn ask(&mut self, what: &str, listener: usize, pair: usize) -> bool {
        let node = self.node();
        let (subscriber, subscribee) =
            (Subject::Listener(listener).name(), Subject::Pair(pair).name());
        let body = json!([{ "subscriber": subscriber, "subscribee": subscribee }]);
        let path = format!("/subscriptions/{what}");
        match self.apis[node].try_post(&path, &body) {
            Ok(answer) if answer.status() == 200 => true,
            Ok(answer) if answer.status() == 503 => false,
            Ok(answer) => {
                self.record.fault(format!("{path} was answered {answer:?}"));
                false
            }
            Err(_) => false,
        }
    }
}
