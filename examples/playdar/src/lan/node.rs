//! What one daemon does on the LAN: the loop around its two sockets.
//!
//! | heard | by the group | by us alone |
//! | --- | --- | --- |
//! | `rq` | asked here, unless it was before; each result goes back | ignored |
//! | `result` | ignored | taken, if we asked |
//! | `ping` | noted, answered with `pong` | ignored |
//! | `pong` | ignored | noted |
//! | `pang` | noted | noted |

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::LanConfig;
use super::answering::Answering;
use super::message::{self, LanMessage, READ_BYTES_MAX};
use super::roster::{Roster, SILENCE_MAX};
use super::sockets::{self, Sockets};
use crate::foreign::{self, Asked, QUERIES_MAX, Rate, Rates, Recent, Told};
use crate::pipeline::Pipeline;

/// Datagrams of one address: a daemon that answers a few queries with all that it has.
const DATAGRAMS: Rate = Rate { burst: 200.0, per_second: 50.0 };

/// Queries and pings of one address, which cost a search or an answer.
const QUESTIONS: Rate = Rate { burst: 50.0, per_second: 10.0 };

/// Queries of others that are answered at one time.
const ANSWERING_MAX: usize = 64;

/// How long results of such a query are sent: until the slowest resolver of a pipeline has had its
/// time, and then some.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// A third of the silence after which one counts as gone.
const PING_INTERVAL: Duration = Duration::from_secs(SILENCE_MAX.as_secs() / 3);

/// One daemon on the LAN.
pub(super) struct LanNode {
    config: LanConfig,
    pipeline: Pipeline,
    group: UdpSocket,
    own: Arc<UdpSocket>,
    own_address: SocketAddr,
    roster: Arc<Mutex<Roster>>,
    /// Queries that we have sent or heard.
    seen: Recent<()>,
    /// Those of them that are ours to hear answers of.
    asked: Recent<Asked>,
    datagrams: Rates<IpAddr>,
    questions: Rates<IpAddr>,
    answering: Answering,
}

/// Ends a query of another whose place was given to the next, so that whoever asks without end
/// fills no pipeline.
struct Place {
    pipeline: Pipeline,
    qid: String,
    is_lost: bool,
}

impl Place {
    /// It is over, and what it found can still be played.
    fn keep_songs(mut self) {
        self.is_lost = false;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_lost {
            self.pipeline.cancel(&self.qid);
        }
    }
}

/// By which socket something came.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Group,
    Own,
}

impl LanNode {
    pub(super) fn new(
        config: LanConfig,
        pipeline: Pipeline,
        sockets: Sockets,
        roster: Arc<Mutex<Roster>>,
    ) -> LanNode {
        let Sockets { group, own, own_address } = sockets;
        LanNode {
            config,
            pipeline,
            group,
            own: Arc::new(own),
            own_address,
            roster,
            seen: Recent::new(QUERIES_MAX),
            asked: Recent::new(QUERIES_MAX),
            datagrams: Rates::new(DATAGRAMS),
            questions: Rates::new(QUESTIONS),
            answering: Answering::new(ANSWERING_MAX),
        }
    }

    /// Until `stop`.
    pub(super) async fn run(mut self, mut asked: mpsc::Receiver<Asked>, stop: CancellationToken) {
        let (mut of_group, mut of_own) = (vec![0; READ_BYTES_MAX], vec![0; READ_BYTES_MAX]);
        let mut pings = interval(PING_INTERVAL);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let (heard, by) = tokio::select! {
                () = stop.cancelled() => break,
                Some(query) = asked.recv() => {
                    self.ask(query);
                    continue;
                }
                _ = pings.tick() => {
                    self.follow_address();
                    self.say(message::presence("ping", &self.config.name, self.config.http_port));
                    continue;
                }
                heard = self.group.recv_from(&mut of_group) => (heard, By::Group),
                heard = self.own.recv_from(&mut of_own) => (heard, By::Own),
            };
            let buffer = if by == By::Group { &of_group } else { &of_own };
            match heard {
                Ok((length, from)) => self.hear(&buffer[..length], from, by),
                // Of a datagram of ours that nobody took; each is told once.
                Err(error) => tracing::debug!("the LAN says: {error}"),
            }
        }
        self.say(message::pang(&self.config.name));
    }

    /// A machine that is carried to another network has another address there.
    fn follow_address(&mut self) {
        match sockets::moved(self.config.group, self.config.interface, self.own_address) {
            Ok(None) => {}
            Ok(Some(Sockets { group, own, own_address })) => {
                tracing::info!("our address on the LAN is now {}", own_address.ip());
                (self.group, self.own) = (group, Arc::new(own));
                self.own_address = own_address;
            }
            Err(error) => tracing::debug!("the LAN is away: {error}"),
        }
    }

    /// Asks the group, unless the query came from there.
    fn ask(&mut self, asked: Asked) {
        let query = asked.query().clone();
        if self.seen.note(&query.qid, ()) {
            self.asked.note(&query.qid, asked);
            self.say(message::query(&query));
        }
    }

    /// To the group. A network that is away is no reason to end; what is too long is not sent.
    fn say(&self, datagram: Option<Vec<u8>>) {
        send(&self.own, datagram, SocketAddr::V4(self.config.group));
    }

    fn hear(&mut self, datagram: &[u8], from: SocketAddr, by: By) {
        let now = Instant::now();
        if from == self.own_address || !self.datagrams.allow(from.ip(), now) {
            return;
        }
        let message = match serde_json::from_slice(datagram) {
            Ok(message) => message,
            Err(error) => return tracing::debug!(%from, "a datagram is not understood: {error}"),
        };
        match (message, by) {
            (LanMessage::Query(query), By::Group) => self.hear_query(query, from, now),
            (LanMessage::Result { qid, result }, By::Own) => self.hear_result(&qid, result, from),
            (LanMessage::Ping { from_name }, By::Group) => {
                self.roster.lock().heard(from, &from_name, now);
                if self.questions.allow(from.ip(), now) {
                    let (name, port) = (&self.config.name, self.config.http_port);
                    send(&self.own, message::presence("pong", name, port), from);
                }
            }
            (LanMessage::Pong { from_name }, By::Own) => {
                self.roster.lock().heard(from, &from_name, now)
            }
            (LanMessage::Pang { .. }, _) => self.roster.lock().left(from),
            (LanMessage::Query(_) | LanMessage::Ping { .. }, By::Own)
            | (LanMessage::Result { .. } | LanMessage::Pong { .. }, By::Group) => {
                tracing::debug!(%from, "a message came by the wrong way");
            }
        }
    }

    fn hear_query(&mut self, asked: Map<String, Value>, from: SocketAddr, now: Instant) {
        let query = match foreign::query(asked) {
            Ok(query) => query,
            Err(error) => return tracing::debug!(%from, "a query is refused: {error}"),
        };
        if !self.seen.note(&query.qid, ()) || !self.questions.allow(from.ip(), now) {
            return;
        }
        let ours = foreign::as_ours(&query);
        // The pipeline asks us too.
        self.seen.note(&ours.qid, ());
        let qid = ours.qid.clone();
        let Some(mut told) = Told::of(&self.pipeline, ours) else { return };
        let place = Place { pipeline: self.pipeline.clone(), qid, is_lost: true };
        let (own, name) = (self.own.clone(), self.config.name.clone());
        let port = self.config.http_port;
        let answering = async move {
            while let Some(found) = told.next().await {
                for found in found {
                    send(&own, message::result(&query.qid, &found, &name, port), from);
                }
            }
        };
        // Past its time it is over, and that is all.
        let task = tokio::spawn(async move {
            let _ = timeout(ANSWER_TIME, answering).await;
            place.keep_songs();
        });
        self.answering.begin(from.ip(), task.abort_handle());
    }

    fn hear_result(&mut self, qid: &str, mut result: Map<String, Value>, from: SocketAddr) {
        let Some(asked) = self.asked.of(qid) else {
            return tracing::debug!(%from, "a result of no query of ours");
        };
        let Some(port) = message::port_of(&mut result) else {
            return tracing::debug!(%from, "a result without a port that could be one");
        };
        let base = format!("http://{}", SocketAddr::new(from.ip(), port));
        if let Err(error) = asked.take(result, &base) {
            tracing::debug!(%from, "a result is refused: {error}");
        }
    }
}

/// Sends without waiting: where the kernel has no room the datagram is lost, as any other may be.
fn send(socket: &UdpSocket, datagram: Option<Vec<u8>>, to: SocketAddr) {
    let Some(datagram) = datagram else { return tracing::debug!("too long for a datagram") };
    let sent: io::Result<usize> = socket.try_send_to(&datagram, to);
    if let Err(error) = sent {
        tracing::debug!(%to, "a datagram was not sent: {error}");
    }
}

#[cfg(test)]
mod tests;
