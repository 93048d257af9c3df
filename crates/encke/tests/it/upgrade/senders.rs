//! Those who send while a server is replaced, and what each send was answered.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Api, Wire};

/// How a sender sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// A request each, on a connection that is kept.
    Requests,
    /// The same with keys; now and then one is asked again, on a connection of its own.
    Keys,
    /// A stream of lines that goes on as long as it can.
    Lines,
    /// Lines with keys, of which now and then one is said again.
    KeyLines,
}

pub(crate) const WAYS: [Way; 4] = [Way::Requests, Way::Keys, Way::Lines, Way::KeyLines];

/// A send.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) about: String,
    pub(crate) text: String,
    /// The event's number and its deliveries; or why nobody knows what became of it.
    pub(crate) answer: Result<(String, u64), String>,
    /// How long the answer took.
    pub(crate) took: Duration,
}

/// What all of them watch and count.
#[derive(Default)]
pub(crate) struct Traffic {
    pub(crate) stop: AtomicBool,
    pub(crate) answered: AtomicU64,
}

/// One of them.
pub(crate) struct Sender {
    pub(crate) api: SocketAddr,
    pub(crate) way: Way,
    pub(crate) name: String,
    /// About whom.
    pub(crate) subjects: Vec<String>,
    pub(crate) pause: Duration,
}

/// A stream of lines under way.
struct Lines {
    wire: Wire,
    answers: Vec<u8>,
    has_head: bool,
}

/// A key that was used, and what it was answered.
struct Known {
    event: Value,
    body: Value,
}

impl Sender {
    /// Sends one after the other until it is to stop; what became of each.
    pub(crate) fn work(self, traffic: &Traffic) -> Vec<Sent> {
        let api = Api::new(self.api);
        let (mut lines, mut known, mut sent) = (None, Vec::<Known>::new(), Vec::<Sent>::new());
        while !traffic.stop.load(Ordering::Relaxed) {
            let number = sent.len();
            let about = &self.subjects[number % self.subjects.len()];
            let text = format!("{}:{number}", self.name);
            let mut event = json!({ "about": about, "data": text });
            if matches!(self.way, Way::Keys | Way::KeyLines) {
                event["key"] = json!(text);
            }
            let start = Instant::now();
            let answer = self.send(&api, &mut lines, &event);
            let took = start.elapsed();
            if event["key"].is_string()
                && let Ok(body) = &answer
            {
                known.push(Known { event: event.clone(), body: body.clone() });
            }
            if answer.is_ok() {
                traffic.answered.fetch_add(1, Ordering::Relaxed);
            }
            let answer = answer.map(|body| read(&body));
            sent.push(Sent { about: about.clone(), text, answer, took });
            if number % 16 == 15 && !known.is_empty() {
                let known = &known[number * 7 % known.len()];
                let again = self.send(&api.another(), &mut lines, &known.event);
                if let Ok(again) = again {
                    assert_eq!(again, known.body, "asked again with its key");
                }
            }
            std::thread::park_timeout(self.pause);
        }
        sent
    }

    /// The body of a good answer.
    fn send(&self, api: &Api, lines: &mut Option<Lines>, event: &Value) -> Result<Value, String> {
        if matches!(self.way, Way::Requests | Way::Keys) {
            let answer = api.try_post("/send", event).map_err(|error| error.to_string())?;
            let good = answer.status() == 200;
            return if good { Ok(answer.json()) } else { Err(format!("{answer:?}")) };
        }
        let mut open = match lines.take() {
            Some(open) => open,
            None => Lines::open(self.api).map_err(|error| error.to_string())?,
        };
        let answer = open.send(event).map_err(|error| error.to_string())?;
        // Whatever it says, the stream goes on.
        *lines = Some(open);
        if answer["id"].is_string() { Ok(answer) } else { Err(answer.to_string()) }
    }
}

/// The number and the deliveries of an answer.
fn read(body: &Value) -> (String, u64) {
    let id = body["id"].as_str().unwrap_or_else(|| panic!("no number in {body}")).to_owned();
    assert_eq!(body["at_least"], Value::Null, "the count is exact: {body}");
    (id, body["delivered"].as_u64().unwrap())
}

impl Lines {
    fn open(api: SocketAddr) -> io::Result<Lines> {
        let mut wire = Wire::try_connect(api)?;
        wire.try_send(
            "POST /send HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n\
             Transfer-Encoding: chunked\r\n\r\n",
        )?;
        Ok(Lines { wire, answers: Vec::new(), has_head: false })
    }

    fn send(&mut self, event: &Value) -> io::Result<Value> {
        let line = format!("{event}\n");
        self.wire.try_send(format!("{:x}\r\n{line}\r\n", line.len()))?;
        if !self.has_head {
            let head = self.wire.try_head()?;
            if head.status != 200 {
                return Err(io::Error::other(head.text));
            }
            self.has_head = true;
        }
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.answers) {
                let line: Vec<u8> = self.answers.drain(..=end).collect();
                return Ok(serde_json::from_slice(&line)?);
            }
            let chunk = self.wire.chunk()?;
            if chunk.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.answers.extend(chunk);
        }
    }
}

/// What a listener of `ids` is to have heard of `sent`, by number: those that were answered, and
/// those of which nobody knows.
pub(crate) struct Expected<'s> {
    pub(crate) sure: Vec<&'s str>,
    pub(crate) unknown: Vec<&'s str>,
}

impl<'s> Expected<'s> {
    pub(crate) fn of(sent: &'s [Sent], ids: &[String]) -> Expected<'s> {
        let own = sent.iter().filter(|sent| ids.contains(&sent.about));
        let (mut sure, mut unknown) = (Vec::new(), Vec::new());
        for sent in own {
            match &sent.answer {
                Ok((id, _)) => sure.push((id, &*sent.text)),
                Err(_) => unknown.push(&*sent.text),
            }
        }
        sure.sort_unstable();
        Expected { sure: sure.into_iter().map(|(_, text)| text).collect(), unknown }
    }

    /// What is wrong with `heard`: all that is sure once and in order, what is unknown at most
    /// once. Where `is_whole` is not so, what is sure may be missing at the end.
    pub(crate) fn fault(&self, heard: &[&str], is_whole: bool) -> Option<String> {
        let mut unknown = self.unknown.clone();
        let mut sure = self.sure.iter();
        for text in heard {
            if let Some(at) = unknown.iter().position(|one| one == text) {
                unknown.swap_remove(at);
                continue;
            }
            match sure.next() {
                Some(next) if next == text => {}
                next => return Some(format!("hears {text} where {next:?} is next")),
            }
        }
        let missing = sure.len();
        (is_whole && missing > 0)
            .then(|| format!("{missing} events are lost, {:?} on", sure.next()))
    }
}
