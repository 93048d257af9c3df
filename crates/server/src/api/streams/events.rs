//! Appends to durable streams as events: who follows the id of a stream hears it, on whatever
//! connection, beside all else that it follows.
//!
//! A stream whose path fits one of the server's patterns, and is an id, is told. Each append is an
//! event about that id, sent when it is on disk. It is called `append`, or `close` where the stream
//! is closed with it.
//!
//! ```json
//! {"next":"19a…2c","from":"19a…08","text":"Hello "}
//! ```
//!
//! `from` and `next` are offsets of the stream, so whoever has heard of it can read it from there.
//! Beside them is what `live=sse` tells of the append, by its type: `text`, the `messages` of JSON,
//! or `base64`. Of what is longer than [`DATA_BYTES_MAX`] there is only how many `bytes` it has.
//!
//! In a cluster the event goes through the log to all nodes. It has a key there, by which it is
//! posted once, also where this node sends it again since it does not know whether the log has it.
//!
//! Where the id is kept on disk the append is answered when its event is, too. So one that was
//! acknowledged is heard after `kill -9`, whichever way. Elsewhere it is answered when the event is
//! posted, and the end of the process is a gap for whoever listens, as for all other events.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::Once;
use dispatch::barrier::WritePermit;
use dispatch::idempotency::IdempotencyKeys;
use dispatch::outcome::{LogTrouble, Unposted};
use dispatch::posting::{Delivery, Sender};
use dispatch::send_options::SendOptions;
use engine::Outgoing;
use hub::{Draft, EventParts, IdPatterns, IdText, PageOf, Payload};
use streams::sse::Encoding;
use streams::{AppendNotice, Outcome, Teller, array};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{JoinError, spawn_blocking};

use super::places::TELLING_MAX;

/// Bytes of an event's data; fewer where connections may not have so many that wait.
const DATA_BYTES_MAX: usize = 64 << 10;

/// What the rest of such an event has, its id written with escapes included.
const REST_BYTES: usize = 1_024;

/// The shortest data that there is: two offsets, and how many bytes there are.
const OFFSETS_BYTES: usize = 128;

/// Among so many newest events of an id, and bytes of them, is the one that was sent last before
/// the process ended.
const LOOKED_AT: (usize, usize) = (256, 1 << 20);

/// In whose name events are known that are posted once.
const SENDER: &str = "streams";

/// The names of such events.
const APPEND: &str = "append";
const CLOSE: &str = "close";

/// Which appends are events, and the way to those who hear them.
pub(super) struct StreamEvents {
    patterns: Arc<IdPatterns>,
    sender: Sender,
    /// What the nodes of a cluster know events by that are posted once.
    keys: Arc<IdempotencyKeys>,
    data_bytes_max: usize,
    /// Whether all that was remembered before this process began is forgotten but what is on disk:
    /// it has not taken over from another one.
    pub(super) is_fresh: AtomicBool,
    /// For appends that are told at one time.
    pub(super) places: Semaphore,
    /// How many were sent. Relaxed: it is only reported.
    sent: AtomicU64,
}

/// An event that is to be sent, and who waits to hear whether it was.
struct AskedEvent {
    outgoing: Outgoing,
    once: Option<Once>,
    told: oneshot::Sender<Outcome>,
}

/// What a thread that waits for the disk asks to have sent.
pub(super) struct EventTeller {
    events: Arc<StreamEvents>,
    asks: mpsc::Sender<AskedEvent>,
}

impl StreamEvents {
    /// Appends to what is in `patterns`, sent by `sender` to connections for which so many bytes
    /// may wait.
    pub(super) fn new(
        patterns: Arc<IdPatterns>,
        (sender, keys): (&Sender, &Arc<IdempotencyKeys>),
        backlog_bytes_max: usize,
    ) -> Arc<StreamEvents> {
        let room = backlog_bytes_max.saturating_sub(REST_BYTES).max(OFFSETS_BYTES);
        Arc::new(StreamEvents {
            patterns,
            sender: sender.clone(),
            keys: Arc::clone(keys),
            data_bytes_max: room.min(DATA_BYTES_MAX),
            is_fresh: AtomicBool::new(false),
            places: Semaphore::new(TELLING_MAX),
            sent: AtomicU64::new(0),
        })
    }

    /// Whether appends to the stream at `path` are events: then that is their id, too.
    pub(super) fn tells(&self, path: &str) -> bool {
        self.patterns.allows(path) && IdText::parse(path).is_ok()
    }

    /// How many were sent.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Does `work` on a thread that may wait, and sends meanwhile what it tells.
    ///
    /// # Errors
    /// It came to grief.
    pub(super) async fn serve<T: Send + 'static>(
        self: &Arc<StreamEvents>,
        permit: &WritePermit<'_>,
        work: impl FnOnce(&EventTeller) -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let (asks, mut asked) = mpsc::channel(1);
        let teller = EventTeller { events: Arc::clone(self), asks };
        let mut worked = spawn_blocking(move || work(&teller));
        loop {
            tokio::select! {
                biased;
                Some(asked) = asked.recv() => self.send(permit, asked).await,
                worked = &mut worked => return worked,
            }
        }
    }

    /// Sends what was asked for, and says what became of it.
    async fn send(&self, permit: &WritePermit<'_>, asked: AskedEvent) {
        // Its time would pass in vain, and others wait for the place.
        if self.sender.cluster.as_ref().is_some_and(|cluster| cluster.obstacle().is_some()) {
            let _ = asked.told.send(Outcome::Not);
            return;
        }
        let waits = asked.outgoing.durable;
        // Where it is sent again, it is known by that alone.
        let options = SendOptions { once: asked.once, needs_once: true, ..SendOptions::default() };
        let outcome = match self.sender.send(permit, asked.outgoing, options).await {
            Ok(Delivery::Here { event, receipt }) if waits => {
                let number = event.number();
                match (Delivery::Here { event, receipt }).answer().await {
                    Err(Unposted::NotDurable) => Outcome::Unsure(number),
                    Ok(_) | Err(_) => Outcome::Told,
                }
            }
            Ok(Delivery::Here { .. }) => Outcome::Told,
            Ok(delivery @ Delivery::Everywhere(_)) => match delivery.answer().await {
                // The cluster's log has it, and so have the others.
                Ok(_) | Err(Unposted::Log(LogTrouble::NotDurable)) => Outcome::Told,
                Err(_) => Outcome::Not,
            },
            // Whoever tries it again says how many there are.
            Err(_) => Outcome::Not,
        };
        self.sent.fetch_add((outcome != Outcome::Not).into(), Ordering::Relaxed);
        // The thread that asked waits for it.
        let _ = asked.told.send(outcome);
    }

    /// By what all nodes of a cluster know the event of an append, which this one may send twice:
    /// where it does not know whether the log has it.
    fn once(&self, told: &AppendNotice<'_>) -> Option<Once> {
        let cluster = self.sender.cluster.as_ref()?;
        // Other nodes may have other streams of this path.
        let text = format!("{} {} {}", told.next, cluster.node(), told.path);
        Some(self.keys.once_of(SENDER, &text, told.path))
    }

    /// Whether events about `path` are kept on disk.
    fn keeps(&self, path: &str) -> bool {
        self.sender.router.archive().is_some_and(|archive| archive.keeps(path))
    }

    /// The event of an append; `None` where there can be none.
    fn event(&self, told: &AppendNotice<'_>) -> Option<Outgoing> {
        let draft = draft(told, self.data_bytes_max)?;
        let durable = self.keeps(told.path);
        Some(Outgoing { durable, ..Outgoing::from(draft) })
    }
}

impl Teller for EventTeller {
    fn outlives(&self, path: &str) -> bool {
        self.events.sender.cluster.is_some() || self.events.keeps(path)
    }

    fn tell(&self, told: &AppendNotice<'_>) -> Outcome {
        let Some(outgoing) = self.events.event(told) else {
            tracing::error!("an append to the stream {:?} cannot be an event", told.path);
            return Outcome::Told;
        };
        let once = self.events.once(told);
        if once.is_some_and(|once| self.events.keys.has_brought(once)) {
            return Outcome::Told;
        }
        let (told, outcome) = oneshot::channel();
        // Whoever sends is gone where the process ends.
        let is_asked = self.asks.blocking_send(AskedEvent { outgoing, once, told }).is_ok();
        let outcome = is_asked.then(|| outcome.blocking_recv().ok()).flatten();
        outcome.unwrap_or(Outcome::Not)
    }

    fn is_safe(&self, number: u64) -> bool {
        let (safe, is_safe) = std::sync::mpsc::sync_channel(1);
        let router = &self.events.sender.router;
        let tell = move |is_durable| {
            // It is waited for below.
            let _ = safe.send(is_durable);
        };
        router.when_durable(number, Box::new(tell));
        is_safe.recv().unwrap_or(false)
    }

    fn was_told(&self, told: &AppendNotice<'_>) -> io::Result<bool> {
        let path = told.path;
        let archive = self.events.sender.router.archive().filter(|archive| archive.keeps(path));
        let Some(archive) = archive.filter(|_| self.events.tells(path)) else {
            // Who listened to what is forgotten is told of a gap. A cluster forgets nothing with a
            // node of it: what it has read of late is known by its key.
            let is_forgotten = self.events.is_fresh.load(Ordering::Relaxed)
                && self.events.sender.cluster.is_none();
            return Ok(!self.events.tells(path) || is_forgotten);
        };
        let (events_max, bytes_max) = LOOKED_AT;
        let of = PageOf { after: 0, before: u64::MAX, newest_first: true, events_max, bytes_max };
        let page = archive.page(path, of).map_err(io::Error::other)?;
        let drafts = drafts(told);
        Ok(page.events.iter().any(|event| is_one_of(&drafts, event.json())))
    }
}

/// The event of an append, with so many bytes of data; `None` where there can be none.
fn draft(told: &AppendNotice<'_>, bytes_max: usize) -> Option<Draft> {
    let data = data(told, bytes_max);
    let draft = Draft::of(EventParts {
        about: told.path,
        also: &[],
        name: Some(if told.closes { CLOSE } else { APPEND }),
        from: None,
        payload: Payload::Json(&data),
    });
    draft.ok()
}

/// The events that an append may have been, by what connections may have waiting: with its bytes,
/// and without them.
fn drafts(told: &AppendNotice<'_>) -> Vec<Draft> {
    [DATA_BYTES_MAX, OFFSETS_BYTES].into_iter().filter_map(|max| draft(told, max)).collect()
}

/// Whether `line` is that of one of these events, but for its id. What somebody else sends about
/// the id, be it with the offsets of an append, is another line, or tells all that the event would.
fn is_one_of(drafts: &[Draft], line: &str) -> bool {
    drafts.iter().any(|draft| behind_id(draft.json()) == behind_id(line))
}

fn behind_id(line: &str) -> Option<&str> {
    line.split_once(',').map(|(_, rest)| rest)
}

/// What an event tells of an append, in some `bytes_max` bytes.
fn data(told: &AppendNotice<'_>, bytes_max: usize) -> String {
    let mut json = format!("{{\"next\":\"{}\",\"from\":\"{}\"", told.next, told.from);
    if !told.data.is_empty() {
        let room = bytes_max.saturating_sub(json.len() + 1);
        let content = content(told, room).filter(|content| content.len() <= room);
        let short = || format!(",\"bytes\":{}", told.data.len());
        json.push_str(&content.unwrap_or_else(short));
    }
    json.push('}');
    json
}

/// The member with the bytes; `None` where they have no room for sure.
fn content(told: &AppendNotice<'_>, room: usize) -> Option<String> {
    if told.data.len() > room {
        return None;
    }
    let text = std::str::from_utf8(told.data).ok();
    match (Encoding::of(told.content_type), text) {
        (Encoding::Json, Some(_)) => {
            let messages = String::from_utf8(array(told.data)).ok()?;
            Some(format!(",\"messages\":{messages}"))
        }
        (Encoding::Text, Some(text)) => {
            Some(format!(",\"text\":{}", serde_json::Value::from(text)))
        }
        // Text that ends in the middle of a letter, too.
        _ => Some(format!(",\"base64\":\"{}\"", STANDARD.encode(told.data))),
    }
}

#[cfg(test)]
mod tests;
