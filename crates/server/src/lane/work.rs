//! The lane: what a worker does for the senders whose connections were leased to it.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use engine::{LANE_SOCKET, Lane, LaneBell, LaneSocket, LaneTurn};
use httpd::host::{ApiHosts, is_ours};
use sys::{clock, process, socket};

use super::answers::Output;
use super::date::Date;
use super::head::{AskKind, LaneAsk, Look, look};
use super::message::{GivenBack, Lease, REST_BYTES_MAX, Return};
use super::rest::LaneRest;
use super::slots::{Asked, Awaited, Conn, Slots};
use crate::api::{Api, AtOnce, KnownPublishers, RequestAtOnce};

/// After how long a silence a connection goes back. A request that is not all here by then, too.
pub(super) const SILENT_MS: u64 = 2_000;

/// How often it is looked for such ones.
const SWEEP_MS: u64 = 500;

/// How long a send waits here for room in a mailbox. The control plane waits longer.
const HELD_MS: u64 = 20;

/// Requests of a connection that are posted in one go.
const BATCH: usize = 64;

/// Bytes that are read of a connection in one go, with what is kept of it: its longest request.
const INPUT_BYTES: usize = 40 * 1024;

/// A send that takes longer is looked at: did it wait for a disk?
const SLOW: Duration = Duration::from_micros(500);

/// Work of one turn, after which streams have theirs.
const TURN: Duration = Duration::from_millis(1);

// Beside them goes what is unsent of a batch of answers. One to an update may have an id of 1 KiB,
// and is shorter than its request, which has left the buffer.
const _: () = assert!(INPUT_BYTES + BATCH * 256 <= REST_BYTES_MAX);

/// What all lanes share.
pub(super) struct Shared {
    pub(super) api: Arc<Api>,
    pub(super) hosts: ApiHosts,
    /// All connections are to go back, and none is to stay. Relaxed: a lane is rung after it is
    /// set.
    pub(super) recalled: AtomicBool,
}

/// One worker's lane.
pub(super) struct SendLane {
    socket: Arc<LaneSocket>,
    pub(super) shared: Arc<Shared>,
    conns: Slots,
    /// Those that are to be read again, and those that wait for receipts.
    again: Vec<u32>,
    waiting: Vec<u32>,
    /// What could not be told yet.
    returns: Vec<Return>,
    /// The one buffer that is read into, and the one that is written from.
    input: Box<[u8]>,
    output: Output,
    date: Date,
    publishers: KnownPublishers,
    sweep_ms: u64,
    /// When the work of this turn is over; told by the first that asks.
    over: Option<Instant>,
    /// How often this thread has waited for a disk, from its first connection on.
    faults: Option<u64>,
    /// Until when it sends nothing for that.
    rest: Arc<LaneRest>,
}

impl SendLane {
    pub(super) fn new(socket: Arc<LaneSocket>, shared: Arc<Shared>) -> SendLane {
        SendLane {
            socket,
            shared,
            conns: Slots::default(),
            again: Vec::new(),
            waiting: Vec::new(),
            returns: Vec::new(),
            input: vec![0; INPUT_BYTES].into(),
            output: Output::default(),
            date: Date::default(),
            publishers: KnownPublishers::default(),
            sweep_ms: 0,
            over: None,
            faults: None,
            rest: Arc::default(),
        }
    }

    /// When no connection is to be leased to it.
    pub(super) fn rest(&self) -> Arc<LaneRest> {
        Arc::clone(&self.rest)
    }

    /// Takes over what is leased.
    fn adopt(&mut self, turn: &LaneTurn<'_>) {
        // What the thread has waited for at its start is no matter of a send.
        self.faults.get_or_insert_with(process::thread_major_faults);
        while let Ok(Lease { id, peer, socket }) = Lease::receive(&self.socket) {
            let Some(socket) = socket else {
                self.tell(Return { id, given_back: None });
                continue;
            };
            if self.rest.lasts(turn.now_ms) {
                self.tell(Return { id, given_back: Some(GivenBack::untouched(socket)) });
                continue;
            }
            let index = self.conns.insert(Conn::leased(id, peer, socket, turn.now_ms));
            let registered = self.conns.get(index).map(|conn| turn.register(&conn.socket, index));
            match registered {
                Some(Ok(())) => self.read(turn, index),
                _ => self.give_back(turn, index, Vec::new()),
            }
        }
    }

    /// Reads a connection that has no answers to come, and posts what it asks for.
    fn read(&mut self, turn: &LaneTurn<'_>, index: u32) {
        let is_answered = self.is_answered(turn, index);
        let Some(conn) = self.conns.get(index) else { return };
        conn.unread = true;
        if conn.leaves || !is_answered {
            return;
        }
        let over = *self.over.get_or_insert_with(|| Instant::now() + TURN);
        if Instant::now() >= over {
            return again(&mut self.again, conn, index);
        }
        let kept = conn.input.len();
        self.input[..kept].copy_from_slice(&conn.input);
        // Where the buffer is full there is nothing to be asked for: no bytes would be its end.
        let received = match &mut self.input[kept..] {
            [] => Err(ErrorKind::WouldBlock.into()),
            room => socket::receive(&conn.socket, room),
        };
        let len = match received {
            // What it has begun is answered elsewhere, where its end is met again.
            Ok(0) if kept > 0 => return self.give_back(turn, index, Vec::new()),
            Ok(0) => return self.close(index),
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(_) => return self.close(index),
        };
        // What fits is all that there was; more is reported when it comes.
        conn.unread = kept + len == INPUT_BYTES;
        self.serve(turn, index, kept + len);
    }

    /// Posts the requests in the first `len` bytes of the buffer.
    fn serve(&mut self, turn: &LaneTurn<'_>, index: u32, len: usize) {
        let Some(conn) = self.conns.get(index) else { return };
        let mut at = 0;
        while at < len && conn.asked.len() < BATCH {
            let rest = &self.input[at..len];
            let ask = match look(rest) {
                Look::Whole(ask) if is_ours(&self.shared.hosts, ask.host) => ask,
                Look::Partial if rest.len() < INPUT_BYTES => break,
                _ => {
                    conn.leaves = true;
                    break;
                }
            };
            let LaneAsk { kind, host, authorization, is_forwarded, body, len } = ask;
            let accepted = Instant::now();
            if at > 0 && self.over.is_some_and(|over| accepted >= over) {
                conn.unread = true;
                break;
            }
            let peer = conn.peer;
            let request = RequestAtOnce { host, authorization, is_forwarded, peer, body };
            let (api, known) = (&self.shared.api, &mut self.publishers);
            let posted = post(api, known, (kind, &request), turn.bell());
            match posted {
                AtOnce::Posted { event, receipt, answer } => {
                    conn.since_ms = turn.now_ms;
                    if accepted.elapsed() > SLOW && waited_for_disk(&mut self.faults) {
                        self.rest.begin(turn.now_ms);
                    }
                    let awaited = Awaited::Event { event, receipt, answer };
                    conn.asked.push(Asked { awaited, accepted });
                    conn.held_since_ms = None;
                    at += len;
                }
                AtOnce::Append(append) => {
                    conn.since_ms = turn.now_ms;
                    let awaited = Awaited::Append { append, bytes: len };
                    conn.asked.push(Asked { awaited, accepted });
                    break;
                }
                AtOnce::Busy => {
                    let since_ms = *conn.held_since_ms.get_or_insert(turn.now_ms);
                    conn.leaves = turn.now_ms - since_ms > HELD_MS;
                    conn.unread = true;
                    break;
                }
                AtOnce::Elsewhere => {
                    conn.leaves = true;
                    break;
                }
            }
        }
        conn.unread |= at < len && conn.asked.len() == BATCH;
        // An idle connection owns no buffer.
        conn.input = self.input[at..len].to_vec();
        if !conn.asked.is_empty() {
            if !std::mem::replace(&mut conn.is_waiting, true) {
                self.waiting.push(index);
            }
        } else if conn.leaves {
            self.give_back(turn, index, Vec::new());
        } else if conn.unread {
            again(&mut self.again, conn, index);
        }
    }

    /// Answers all whose sends are counted.
    fn answer(&mut self, turn: &LaneTurn<'_>) {
        let mut at = 0;
        while let Some(&index) = self.waiting.get(at) {
            if !self.is_answered(turn, index) {
                at += 1;
                continue;
            }
            self.waiting.swap_remove(at);
            if let Some(conn) = self.conns.get(index) {
                conn.is_waiting = false;
            }
        }
    }

    /// Whether a connection has no answer to come, after it was given those that are complete.
    fn is_answered(&mut self, turn: &LaneTurn<'_>, index: u32) -> bool {
        let Some(conn) = self.conns.get(index) else { return true };
        let is_ready = conn.asked.iter().all(Asked::is_ready);
        if is_ready && !conn.asked.is_empty() {
            self.write(turn, index);
        }
        is_ready
    }

    /// Writes the answers of a connection, in the order of its requests.
    fn write(&mut self, turn: &LaneTurn<'_>, index: u32) {
        let Some(conn) = self.conns.get(index) else { return };
        self.output.write(&self.shared.api, conn, self.date.now());
        conn.since_ms = turn.now_ms;
        let answers = &self.output.answers;
        let sent = if answers.is_empty() { Ok(0) } else { socket::send(&conn.socket, answers) };
        match sent {
            Ok(sent) if sent == answers.len() => {}
            Err(error) if error.kind() != ErrorKind::WouldBlock => return self.close(index),
            // It does not read what it is answered: somebody else waits for that.
            sent => return self.give_back(turn, index, answers[sent.unwrap_or(0)..].to_vec()),
        }
        self.go_on(turn, index);
    }

    /// What is to be done with a connection that is answered.
    fn go_on(&mut self, turn: &LaneTurn<'_>, index: u32) {
        let Some(conn) = self.conns.get(index) else { return };
        if conn.leaves {
            self.give_back(turn, index, Vec::new());
        } else if conn.unread {
            again(&mut self.again, conn, index);
        }
    }

    /// Has a connection go back, now or when it is answered.
    fn leave(&mut self, turn: &LaneTurn<'_>, index: u32) {
        let Some(conn) = self.conns.get(index) else { return };
        conn.leaves = true;
        if conn.asked.is_empty() {
            self.give_back(turn, index, Vec::new());
        }
    }

    fn give_back(&mut self, turn: &LaneTurn<'_>, index: u32, unsent: Vec<u8>) {
        let Some(conn) = self.conns.remove(index) else { return };
        let Conn { id, socket, has_served, input: unread, .. } = conn;
        // Its other descriptor would keep it here. Fails if it was never registered.
        let _ = turn.unregister(&socket);
        let given_back = GivenBack { socket, has_served, unsent, unread };
        self.tell(Return { id, given_back: Some(given_back) });
    }

    fn close(&mut self, index: u32) {
        if let Some(Conn { id, .. }) = self.conns.remove(index) {
            self.tell(Return { id, given_back: None });
        }
    }

    /// As soon as there is room for it.
    fn tell(&mut self, told: Return) {
        if !self.returns.is_empty() || told.send(&self.socket).is_err() {
            self.returns.push(told);
        }
    }

    /// Gives back who has been silent for long.
    fn sweep(&mut self, turn: &LaneTurn<'_>) {
        let is_silent = |conn: &Conn| {
            conn.asked.is_empty() && turn.now_ms.saturating_sub(conn.since_ms) >= SILENT_MS
        };
        for index in self.conns.of(is_silent) {
            self.leave(turn, index);
        }
        self.sweep_ms = turn.now_ms + SWEEP_MS;
    }
}

/// Posts what a request asks for, or hands it on. Publishers of updates are `known`.
fn post(
    api: &Api,
    known: &mut KnownPublishers,
    (kind, request): (AskKind<'_>, &RequestAtOnce<'_>),
    bell: LaneBell,
) -> AtOnce {
    match kind {
        AskKind::Send => api.send_at_once(request, bell),
        AskKind::Update => api.publish_at_once(request, known, bell),
        AskKind::Append(head) => api.append_at_once(request, &head, bell),
    }
}

/// Whether this thread has waited for a disk since it was asked last, when `faults` was written.
fn waited_for_disk(faults: &mut Option<u64>) -> bool {
    let now = process::thread_major_faults();
    faults.replace(now).is_some_and(|before| before < now)
}

/// Has `conn` be read in the next turn.
fn again(again: &mut Vec<u32>, conn: &mut Conn, index: u32) {
    if !std::mem::replace(&mut conn.is_again, true) {
        again.push(index);
    }
}

impl Lane for SendLane {
    fn ready(&mut self, turn: &LaneTurn<'_>, index: u32, hung_up: bool) {
        if index == LANE_SOCKET {
            return self.adopt(turn);
        }
        self.read(turn, index);
        // Its end is reported with what stands before it, and once.
        if let Some(conn) = self.conns.get(index).filter(|_| hung_up) {
            conn.unread = true;
            if conn.asked.is_empty() {
                again(&mut self.again, conn, index);
            }
        }
    }

    fn turned(&mut self, turn: &LaneTurn<'_>) -> bool {
        self.over = None;
        if turn.is_answered() {
            self.answer(turn);
        }
        if self.shared.recalled.load(Ordering::Relaxed) || self.rest.lasts(turn.now_ms) {
            for index in self.conns.of(|conn| !conn.leaves) {
                self.leave(turn, index);
            }
        }
        if turn.now_ms >= self.sweep_ms {
            self.sweep(turn);
        }
        for index in std::mem::take(&mut self.again) {
            if let Some(conn) = self.conns.get(index) {
                conn.is_again = false;
                self.read(turn, index);
            }
        }
        for told in std::mem::take(&mut self.returns) {
            self.tell(told);
        }
        !self.again.is_empty()
    }

    fn due_ms(&self) -> Option<u64> {
        if !self.returns.is_empty() {
            return Some(clock::monotonic_ms() + 1);
        }
        (!self.conns.is_empty()).then_some(self.sweep_ms)
    }

    fn is_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }
}
