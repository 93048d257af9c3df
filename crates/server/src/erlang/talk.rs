//! The conversation with one node: what it asks for is done in the order in which it came.
//!
//! Two halves run side by side, in turn. One reads, whatever the other waits for, so that the other
//! node's buffers do not fill because of it ("distribution buffer busy", which stops its
//! processes); what it has read waits in an [`Inbox`] with a bound. The other half handles it. It
//! waits where it must: for a full mailbox, for a slice of a large audience, for answers when too
//! many are due, and for a node that does not take them. Past the inbox' bound reading pauses, for
//! a second at most, and then what can be refused is: a call is answered `{error, overloaded}`,
//! anything else is dropped and counted. What tells of processes that are gone is kept in any case:
//! there is one for each that is logged in, at most.
//!
//! A call's answer waits for the workers' count while further requests are handled: a node has as
//! many sends under way as it likes, up to a window.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use engine::Receipt;
use erlang::term::write;
use erlang::{Control, End, Message, Peer, Pid, ReplyTo, Session, Term, frames};
use tokio::task::yield_now;
use tokio::time::timeout;

use super::inbox::Inbox;
use super::office::{Buffers, Office, place_of};
use super::refusal::Refusal;
use super::request::{Asked, Request, Service};
use super::{ids, names, payload, slow};

/// Calls of one node whose count is not known yet. 200 bytes each.
const WINDOW_MAX: usize = 8 * 1024;

/// How long reading pauses where the inbox is full, before what comes is refused.
const PATIENCE: Duration = Duration::from_secs(1);

/// Talks to the node of `session` until the connection ends or the server stops.
pub(super) async fn run(office: Arc<Office>, mut session: Session) {
    let peer = Arc::clone(session.peer());
    let inbox = Inbox::new(office.queue_bytes_max);
    office.arrived(&peer);
    tracing::info!("the Erlang node {} is connected", peer.name());
    if peer.is_published() {
        names::ask(&office, &peer);
    }
    let mut talk = Talk::new(&office, &peer);
    let listening = async {
        let end = listen(&office, &mut session, &inbox).await;
        inbox.close();
        end
    };
    let ((), end) = tokio::join!(talk.work(&inbox), listening);
    if end == End::Stopped {
        peer.flushed().await;
    }
    drop(session);
    let left = office.gone(&peer).await;
    office.counts.ended(end);
    let (name, why) = (peer.name(), end.as_str());
    tracing::info!("the Erlang node {name} is gone ({why}); {left} processes are logged out");
}

/// Reads into `inbox` until the end.
async fn listen(office: &Office, session: &mut Session, inbox: &Inbox) -> End {
    let mut stop = office.stop.clone();
    let mut has_room = true;
    loop {
        let batch = tokio::select! {
            batch = session.read() => match batch {
                Ok(batch) => batch,
                Err(end) => return end,
            },
            () = stop.said() => return End::Stopped,
        };
        // Once it was in vain there is no waiting any more, until there is room again.
        has_room = inbox.has_room(&batch)
            || has_room && timeout(PATIENCE, inbox.room(&batch)).await.is_ok();
        if has_room {
            inbox.push(batch);
        } else {
            let kept = refuse(office, session.peer(), &batch);
            if !kept.is_empty() {
                inbox.push(kept);
            }
        }
        // The other half has its turn for each batch. So the inbox fills only while that half waits
        // for something; a node that is merely faster than we are is slowed down by TCP.
        yield_now().await;
    }
}

/// Refuses what `batch` asks for, and returns what must not be lost.
fn refuse(office: &Office, peer: &Peer, batch: &[u8]) -> Bytes {
    let mut kept = Vec::new();
    for frame in frames(batch) {
        match Message::read(frame) {
            Ok(Message { control: Control::Send(_) | Control::SendToName(_), payload }) => {
                let from = payload.and_then(|payload| Asked::of(payload).from);
                let reply = from.and_then(|from| ReplyTo::of(from, office.pid(Service::Router)));
                answer(office, peer, reply.as_ref(), Err(Refusal::Overloaded));
            }
            _ => {
                kept.extend((frame.len() as u32).to_be_bytes());
                kept.extend_from_slice(frame);
            }
        }
    }
    kept.into()
}

/// Tells `reply`, if anybody wants to hear it, and counts what was refused.
pub(super) fn answer(
    office: &Office,
    peer: &Peer,
    reply: Option<&ReplyTo>,
    outcome: Result<Answer, Refusal>,
) {
    if let Err(refusal) = outcome {
        office.counts.refuse(peer.name(), refusal);
    }
    let Some(reply) = reply.filter(|_| outcome != Ok(Answer::Told)) else { return };
    peer.send(|out| {
        reply.answer(out, |out| match outcome {
            Ok(Answer::Ok | Answer::Told) => write::atom(out, "ok"),
            Ok(Answer::Yes) => write::atom(out, "yes"),
            Ok(Answer::Count(count)) => {
                write::tuple(out, 2);
                write::atom(out, "ok");
                write::natural(out, count);
            }
            Err(refusal) => {
                write::tuple(out, 2);
                write::atom(out, "error");
                write::atom(out, &refusal.to_atom());
            }
        });
    });
}

/// What a call is answered when it is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// `ok`.
    Ok,
    /// `yes`.
    Yes,
    /// `{ok, Count}`.
    Count(u64),
    /// Something else, which it was told already.
    Told,
}

/// The handling half.
struct Talk<'o> {
    office: &'o Arc<Office>,
    peer: &'o Arc<Peer>,
    buffers: Buffers,
    /// Calls that are answered when their receipts are complete, in the order of their events.
    window: VecDeque<(ReplyTo, Receipt)>,
}

impl<'o> Talk<'o> {
    fn new(office: &'o Arc<Office>, peer: &'o Arc<Peer>) -> Talk<'o> {
        Talk { office, peer, buffers: Buffers::default(), window: VecDeque::new() }
    }

    async fn work(&mut self, inbox: &Inbox) {
        loop {
            let batch = tokio::select! {
                biased;
                () = first(&mut self.window) => {
                    self.collect();
                    continue;
                }
                batch = inbox.next() => batch,
            };
            let Some(batch) = batch else { break };
            for frame in frames(&batch) {
                self.frame(frame).await;
            }
            self.collect();
            inbox.done(batch.len());
            // A node that does not take its answers and monitors has to wait for more of them.
            self.peer.room().await;
            // Reading goes on, and others have their turn.
            yield_now().await;
        }
        while !self.window.is_empty() {
            first(&mut self.window).await;
            self.collect();
        }
    }

    /// Answers the calls whose counts are known.
    fn collect(&mut self) {
        while let Some(count) = self.window.front().and_then(|(_, receipt)| receipt.ready()) {
            let (reply, _) = self.window.pop_front().expect("it has a front");
            let outcome = Ok(Answer::Count(count.into()));
            answer(self.office, self.peer, Some(&reply), outcome);
        }
    }

    async fn frame(&mut self, frame: &[u8]) {
        let Ok(Message { control, payload }) = Message::read(frame) else {
            self.office.counts.wonder(self.peer.name(), "what is no message of its protocol");
            return;
        };
        match (control, payload) {
            (Control::Send(to), Some(payload)) => {
                let service = Service::of_pid(to, self.office.pid(Service::Router));
                self.message(service, payload).await;
            }
            (Control::SendToName(name), Some(payload)) => {
                self.message(Service::of_name(name), payload).await;
            }
            (Control::Monitor { from, to, reference }, _) => self.monitor(from, to, reference),
            (Control::Down(reference), _) => {
                if let Some(words) = reference.words() {
                    self.office.down(place_of(words));
                }
            }
            (Control::Unlink { id, from, to }, _) => {
                self.peer.send(|out| erlang::control::unlinked(out, id, from, to));
            }
            _ => {}
        }
    }

    /// Ours end with the connection, which the other node notices by itself. Whom we do not have
    /// is gone already.
    fn monitor(&self, from: Pid<'_>, to: Term<'_>, reference: Term<'_>) {
        let service = match (to.atom(), to.pid()) {
            (Some(name), _) => Service::of_name(name),
            (_, Some(pid)) => Service::of_pid(pid, self.office.pid(Service::Router)),
            _ => None,
        };
        if service.is_none() {
            let no_process = erlang::control::no_process;
            self.peer.send(|out| no_process(out, to, from, reference));
        }
    }

    async fn message(&mut self, service: Option<Service>, payload: Term<'_>) {
        let Some(service) = service else {
            self.office.counts.wonder(self.peer.name(), "a message to a process that is not here");
            return;
        };
        let Asked { from, request } = Asked::of(payload);
        let reply = from.and_then(|from| ReplyTo::of(from, self.office.pid(service)));
        match Request::read(service, request) {
            Ok(request) => self.request(request, reply).await,
            Err(refusal) => answer(self.office, self.peer, reply.as_ref(), Err(refusal)),
        }
    }

    async fn request(&mut self, request: Request<'_>, reply: Option<ReplyTo>) {
        let outcome = match request {
            Request::SendTo(id, payload) => match self.send(id, payload, true).await {
                Ok(receipt) => return self.wait_for(receipt, reply).await,
                Err(refusal) => Err(refusal),
            },
            Request::Send(id, payload) => match self.send(id, payload, false).await {
                Ok(receipt) => return self.wait_for(receipt, reply).await,
                Err(refusal) => Err(refusal),
            },
            Request::Login(id, pid) => match ids::read_id(&mut self.buffers.about, id) {
                Ok(id) if is_of(pid, self.peer) => {
                    let words = [pid.id, pid.serial, pid.creation];
                    self.office.login(self.peer, id, words).map(|()| Answer::Ok)
                }
                Ok(id) => return slow::login(self.office, self.peer, id.into(), pid, reply),
                Err(refusal) => Err(refusal),
            },
            Request::Logout(pid) => {
                if is_of(pid, self.peer) {
                    self.office.logout(self.peer, pid.id, pid.serial);
                } else if let Some(peer) = self.office.node.peer(&pid.node.text()) {
                    self.office.logout(&peer, pid.id, pid.serial);
                }
                Ok(Answer::Ok)
            }
            Request::AddSubscriptions(pairs) => {
                return slow::change(self.office, self.peer, slow::Change::Add, pairs, reply);
            }
            Request::RemoveSubscriptions(pairs) => {
                return slow::change(self.office, self.peer, slow::Change::Remove, pairs, reply);
            }
            Request::GetSubscribers(id) => match ids::read_id(&mut self.buffers.about, id) {
                Ok(id) => return slow::subscribers(self.office, self.peer, id.into(), reply),
                Err(refusal) => Err(refusal),
            },
            Request::IsAuth => Ok(Answer::Yes),
            Request::Name(what, name, said) => {
                return names::hear(self.office, self.peer, what, name, said);
            }
        };
        answer(self.office, self.peer, reply.as_ref(), outcome);
    }

    async fn send(
        &mut self,
        id: Term<'_>,
        payload: Term<'_>,
        alone: bool,
    ) -> Result<Receipt, Refusal> {
        ids::read_id(&mut self.buffers.about, id)?;
        payload::read_payload(&mut self.buffers.data, payload)?;
        self.office.send(&self.buffers, payload, alone).await
    }

    /// Answers once the workers have counted. A cast wants no answer, so its receipt is dropped.
    async fn wait_for(&mut self, receipt: Receipt, reply: Option<ReplyTo>) {
        let Some(reply) = reply else { return };
        while self.window.len() >= WINDOW_MAX {
            first(&mut self.window).await;
            self.collect();
        }
        self.window.push_back((reply, receipt));
        self.collect();
    }
}

/// Waits until the first of the calls can be answered; for ever when there is none.
async fn first(window: &mut VecDeque<(ReplyTo, Receipt)>) {
    match window.front_mut() {
        Some((_, receipt)) => drop(receipt.await),
        None => std::future::pending().await,
    }
}

/// Whether the process is one of `peer`.
fn is_of(pid: Pid<'_>, peer: &Peer) -> bool {
    *pid.node.text() == *peer.name()
}
