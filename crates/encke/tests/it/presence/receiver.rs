//! A receiver of webhooks that does as it is told, whatever that is.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver as Channel, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use aws_lc_rs::hmac;
use serde_json::Value;

use crate::harness::DEADLINE;

/// The secret that it shares with the server.
pub(crate) const SECRET: &str = "a-secret-of-32-bytes-or-thereabouts";

/// Batches that no test has looked at: no test has so many sent.
const BATCHES_MAX: usize = 4096;

/// What it does with batches from now on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mood {
    Takes,
    /// The same, with a body that never ends.
    TakesAndHangs,
    /// Answers 500.
    Fails,
    /// Sends elsewhere.
    Redirects,
    /// Says nothing.
    IsSilent,
    /// Ends the connection before it has answered.
    HangsUp,
}

/// A batch that came, whatever it was answered.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) mood: Mood,
    pub(crate) number: String,
    pub(crate) events: Vec<Value>,
}

/// What looks at the head and the body of a batch.
pub(crate) type Check = fn(&str, &[u8]);

/// The receiver. Its threads end with the test's process.
pub(crate) struct Receiver {
    pub(crate) url: String,
    mood: Arc<Mutex<Mood>>,
    batches: Channel<Batch>,
}

impl Receiver {
    pub(crate) fn start(mood: Mood) -> Receiver {
        Receiver::checking(mood, check_signature)
    }

    /// One that has each batch checked.
    pub(crate) fn checking(mood: Mood, check: Check) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook?tenant=7", listener.local_addr().unwrap());
        let (sender, batches) = sync_channel(BATCHES_MAX);
        let mood = Arc::new(Mutex::new(mood));
        let moods = Arc::clone(&mood);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (moods, sender) = (Arc::clone(&moods), sender.clone());
                thread::spawn(move || serve(stream, &moods, (&sender, check)));
            }
        });
        Receiver { url, mood, batches }
    }

    pub(crate) fn set(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    /// The next batch that comes.
    #[track_caller]
    pub(crate) fn next(&self) -> Batch {
        self.batches.recv_timeout(DEADLINE).expect("a batch comes in time")
    }

    /// The next one that is taken.
    #[track_caller]
    pub(crate) fn taken(&self) -> Batch {
        loop {
            let batch = self.next();
            if batch.mood == Mood::Takes {
                return batch;
            }
        }
    }
}

/// Serves one connection, which may bring several batches.
fn serve(stream: TcpStream, mood: &Mutex<Mood>, (sender, check): (&SyncSender<Batch>, Check)) {
    let mut reader = BufReader::new(stream);
    while let Some((head, body)) = read(&mut reader) {
        let mood = *mood.lock().unwrap();
        check(&head, &body);
        let field = |name: &str| field(&head, name).unwrap_or_default().to_owned();
        assert!(head.starts_with("POST /hook?tenant=7 HTTP/1.1\r\n"), "{head}");
        assert_eq!(field("content-type"), "application/json");
        let document: Value = serde_json::from_slice(&body).unwrap();
        let events = document["events"].as_array().unwrap().clone();
        assert!((1..=500).contains(&events.len()), "{}", events.len());
        let batch = Batch { mood, number: field("encke-batch"), events };
        // Fails when the test has ended.
        let _ = sender.send(batch);
        let answer: &[u8] = match mood {
            Mood::Takes => b"HTTP/1.1 204 No Content\r\n\r\n",
            Mood::TakesAndHangs => {
                let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n";
                if reader.get_mut().write_all(head).is_ok() {
                    // Until the other side ends it.
                    let _ = reader.read(&mut [0]);
                }
                return;
            }
            Mood::Fails => b"HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno",
            Mood::Redirects => {
                b"HTTP/1.1 307 Go\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"
            }
            // Until the other side ends it.
            Mood::IsSilent => {
                let _ = reader.read(&mut [0]);
                return;
            }
            Mood::HangsUp => return,
        };
        if reader.get_mut().write_all(answer).is_err() {
            return;
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let mut body = vec![0; field(&head, "content-length")?.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

pub(crate) fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// As a receiver would: the time is now, and the rest is the HMAC of it and the body.
fn check_signature(head: &str, body: &[u8]) {
    let signature = field(head, "encke-signature").unwrap();
    let (time, hex) = signature.strip_prefix("t=").unwrap().split_once(",v1=").unwrap();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    assert!(time.parse::<u64>().unwrap().abs_diff(now) < 60, "{signature}");
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    let signed = [time.as_bytes(), b".", body].concat();
    let expected = hmac::sign(&key, &signed);
    let expected: String = expected.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, expected);
}
