//! The senders of a demo with nodes: one long request to each node, whose lines are events and
//! which answers each, and a pace that gives each node its turn.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http_body_util::BodyExt;
use rig::oracle::{Answer, event_id};
use serde::Deserialize;
use sys::clock;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::record::Record;
use crate::client::{ApiClient, ServerUrl};

/// Lines that wait for their way to a node.
const LINES_MAX: usize = 1_000;

/// The longest answer to a line.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// How long the last answers may take: longer than a node waits for the log.
const ANSWERS_TIMEOUT: Duration = Duration::from_secs(15);

/// Events that were sent on one request and are not answered, oldest first.
#[derive(Clone, Default)]
struct Waiting(Arc<Mutex<VecDeque<u64>>>);

impl Waiting {
    fn push(&self, number: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(number);
    }

    fn pop(&self) -> Option<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// A request to one node.
struct Feed {
    lines: mpsc::Sender<Bytes>,
    waiting: Waiting,
    reader: JoinHandle<()>,
}

/// An answer to one line: a count, or a problem.
#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    delivered: u64,
    #[serde(default)]
    at_least: bool,
}

/// Sends `rate` events a second for so long, or until it is stopped, and waits for the answers.
pub(super) async fn send(
    nodes: Vec<ServerUrl>,
    record: Arc<Record>,
    rate: f64,
    seconds: Option<Duration>,
    stop: CancellationToken,
) -> Result<()> {
    let mut feeds = Vec::new();
    for node in &nodes {
        feeds.push(Feed::open(node, &record).await?);
    }
    let (start, start_ns) = (Instant::now(), clock::monotonic_ns());
    for turn in 0_u64.. {
        let after = Duration::from_secs_f64(turn as f64 / rate);
        if seconds.is_some_and(|seconds| after >= seconds) {
            break;
        }
        tokio::select! {
            () = sleep_until(start + after) => {}
            () = stop.cancelled() => break,
        }
        // Those whose node has ended are left out.
        feeds.retain(|feed| feed.is_open(&record));
        if feeds.is_empty() {
            bail!("no node accepts events any more; their messages are above");
        }
        let feed = &feeds[(turn % feeds.len() as u64) as usize];
        let (number, subject) = record.open().send(start_ns + after.as_nanos() as u64);
        feed.waiting.push(number);
        let line = format!("{{\"about\":{subject},\"data\":{{\"n\":{number}}}}}\n");
        if feed.lines.send(line.into()).await.is_err() {
            give_up(&feed.waiting, &record);
        }
    }
    for Feed { lines, waiting, mut reader } in feeds {
        drop(lines);
        if timeout(ANSWERS_TIMEOUT, &mut reader).await.is_err() {
            reader.abort();
        }
        give_up(&waiting, &record);
    }
    Ok(())
}

impl Feed {
    async fn open(node: &ServerUrl, record: &Arc<Record>) -> Result<Feed> {
        let client = ApiClient::connect(node).await?;
        let (lines, receiver) = mpsc::channel(LINES_MAX);
        let waiting = Waiting::default();
        let reader = tokio::spawn(read(client, receiver, waiting.clone(), record.clone()));
        Ok(Feed { lines, waiting, reader })
    }

    /// Whether it takes lines. If not, its reader may have gone before the last of them.
    fn is_open(&self, record: &Record) -> bool {
        let open = !self.lines.is_closed();
        if !open {
            give_up(&self.waiting, record);
        }
        open
    }
}

/// No answer comes to what waits.
fn give_up(waiting: &Waiting, record: &Record) {
    while let Some(number) = waiting.pop() {
        record.open().answer(number, Answer::Missing, clock::monotonic_ns());
    }
}

/// Sends what comes from `lines` and reads the answers, until there are no more.
async fn read(
    mut client: ApiClient,
    lines: mpsc::Receiver<Bytes>,
    waiting: Waiting,
    record: Arc<Record>,
) {
    let next = async |mut lines: mpsc::Receiver<Bytes>| {
        lines.recv().await.map(|line| (Ok::<_, io::Error>(line), lines))
    };
    let body = Body::from_stream(stream::unfold(lines, next));
    if let Ok(mut answers) = client.open_lines("/send", body).await {
        let mut rest = Vec::new();
        // What broke it off, the answers that are missing tell.
        while let Some(Ok(frame)) = answers.frame().await {
            rest.extend_from_slice(frame.data_ref().map_or(&[][..], |bytes| bytes));
            let end = rest.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
            let now_ns = clock::monotonic_ns();
            for line in rest[..end].split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
                let Some(number) = waiting.pop() else { break };
                record.open().answer(number, answer(line), now_ns);
            }
            rest.drain(..end);
            if rest.len() > ANSWER_BYTES_MAX {
                break;
            }
        }
    }
    give_up(&waiting, &record);
}

fn answer(line: &[u8]) -> Answer {
    match serde_json::from_slice(line) {
        Ok(Line { id: Some(id), delivered, at_least }) => match event_id(&id) {
            Some(id) => Answer::Acknowledged { id, delivered, at_least },
            None => Answer::Refused,
        },
        _ => Answer::Refused,
    }
}
