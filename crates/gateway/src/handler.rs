//! Does what a node asks for, in the order in which it came.
//!
//! It waits where it must: for room in a worker's mailbox, and for a slice of a large audience. It
//! waits for sends whose count is not known yet when they are too many or too large, and for a node
//! that does not take its answers. A call's answer waits for the count while further requests are
//! handled, up to a window. Sends that nobody asks the count of are in the window too. So a process
//! that sends to a node that reads slowly is as slow as that, up to the time that mail waits for
//! one.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use dispatch::past::EventsQuery;
use dispatch::posting::Delivery;
use erlang::{Control, Message, Peer, Pid, ReplyTo, Term, frames};
use graph::OwnedId;
use tokio::task::yield_now;

use super::answer::{Answer, answer};
use super::connected_node::ConnectedNode;
use super::event_options::EventOptions;
use super::gateway::{Buffers, Gateway};
use super::inbox::Inbox;
use super::refusal::Refusal;
use super::request::{Asked, Change, Request};
use super::service::Service;
use super::{control, ids, mail, members, names, past, payload, presence, tasks};

/// Sends of one node whose count is not known yet. 200 bytes each.
const WINDOW_SENDS_MAX: usize = 8 * 1024;

/// The part of a node's queue that the events of these sends may have together.
const WINDOW_SHARE: usize = 4;

/// The handling part of a session.
pub(super) struct Handler<'g> {
    gateway: &'g Arc<Gateway>,
    node: &'g Arc<ConnectedNode>,
    peer: &'g Arc<Peer>,
    buffers: Buffers,
    window: VecDeque<Pending>,
    window_bytes: usize,
}

/// A send whose receipt is not complete.
struct Pending {
    /// Who is told the count, if anybody is.
    reply: Option<ReplyTo>,
    delivery: Delivery,
    bytes: usize,
}

impl<'g> Handler<'g> {
    pub(super) fn new(gateway: &'g Arc<Gateway>, node: &'g Arc<ConnectedNode>) -> Handler<'g> {
        let (window, window_bytes) = (VecDeque::new(), 0);
        let buffers = Buffers::default();
        Handler { gateway, node, peer: &node.peer, buffers, window, window_bytes }
    }

    /// Handles what comes into `inbox` until no more will.
    pub(super) async fn run(&mut self, inbox: &Inbox) {
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
                if frame.len() > self.gateway.message_bytes_max() {
                    self.large(batch.slice_ref(frame)).await;
                } else {
                    self.frame(frame).await;
                }
            }
            self.collect();
            inbox.done(&batch);
            // A node that does not take its answers and monitors has to wait for more of them.
            self.peer.room().await;
            if inbox.has_more() {
                // Reading goes on, and others have their turn.
                yield_now().await;
            }
        }
        // Where the node is gone, nobody is left to be answered.
        while !self.window.is_empty() && self.peer.is_open() {
            first(&mut self.window).await;
            self.collect();
        }
    }

    /// Answers the calls whose counts are known.
    fn collect(&mut self) {
        let ready = |pending: &mut Pending| pending.delivery.ready();
        while let Some(delivered) = self.window.front_mut().and_then(ready) {
            let Pending { reply, bytes, .. } = self.window.pop_front().expect("it has a front");
            self.window_bytes -= bytes;
            debug_assert!(!self.window.is_empty() || self.window_bytes == 0);
            let outcome = delivered.map(|delivered| Answer::Count(delivered.count.into()));
            let outcome = outcome.map_err(Refusal::from);
            answer(self.gateway, self.peer, reply.as_ref(), outcome);
        }
    }

    async fn frame(&mut self, frame: &[u8]) {
        match Message::read(frame) {
            Ok(Message { control: Control::Send(to), payload: Some(payload) }) => {
                let service = Service::of_pid(to, self.gateway.pid(Service::Router));
                self.message(service, payload).await;
            }
            Ok(Message { control: Control::SendToName(name), payload: Some(payload) }) => {
                self.message(Service::of_message(name, payload), payload).await;
            }
            Ok(Message { control, .. }) => control::act(self.gateway, self.peer, control),
            Err(_) => control::malformed(self.gateway, self.peer),
        }
    }

    /// A message that is too long to be anything but a change of subscriptions, and to be read here
    /// while others wait.
    async fn large(&mut self, frame: Bytes) {
        match tasks::read_large(self.gateway, frame.clone()).await {
            Some((reply, Ok((change, pairs)))) => {
                tasks::change(self.gateway, self.node, change, pairs, frame.len(), reply).await;
            }
            Some((reply, Err(refusal))) => {
                answer(self.gateway, self.peer, reply.as_ref(), Err(refusal));
            }
            None => control::malformed(self.gateway, self.peer),
        }
    }

    async fn message(&mut self, service: Option<Service>, payload: Term<'_>) {
        let Some(service) = service else {
            let what = "a message to a process that is not here";
            self.gateway.counts.count_unknown(self.peer.name(), what);
            return;
        };
        let Asked { from, request } = Asked::of(payload);
        let reply = from.and_then(|from| ReplyTo::of(from, self.gateway.pid(service)));
        match Request::read(service, request) {
            Ok(request) => self.request(request, reply).await,
            Err(refusal) => answer(self.gateway, self.peer, reply.as_ref(), Err(refusal)),
        }
    }

    async fn request(&mut self, request: Request<'_>, reply: Option<ReplyTo>) {
        let outcome = match request {
            Request::SendTo(id, payload) => {
                let sent = self.post(id, payload, None, true).await;
                return self.sent(sent, payload, reply).await;
            }
            Request::Send(id, payload, options) => {
                let sent = self.post(id, payload, options, false).await;
                return self.sent(sent, payload, reply).await;
            }
            Request::Login(id, pid, links) => match ids::read_id(&mut self.buffers.about, id) {
                Ok(id) if is_of(pid, self.peer) => {
                    let words = [pid.id, pid.serial, pid.creation];
                    self.gateway.login(self.peer, id, words, links).map(|()| Answer::Ok)
                }
                Ok(id) => {
                    let who = (id.into(), pid, links);
                    return tasks::login(self.gateway, self.node, who, reply);
                }
                Err(refusal) => Err(refusal),
            },
            Request::Logout(pid) => {
                if is_of(pid, self.peer) {
                    self.gateway.logout(self.peer, pid.id, pid.serial);
                } else if let Some(peer) = self.gateway.node.peer(&pid.node.text()) {
                    self.gateway.logout(&peer, pid.id, pid.serial);
                }
                Ok(Answer::Ok)
            }
            Request::LogoutId(id) => match ids::read_id(&mut self.buffers.about, id) {
                Ok(id) => return tasks::logout_id(self.gateway, self.node, id.into(), reply),
                Err(refusal) => Err(refusal),
            },
            Request::Connections(id) => match ids::read_id(&mut self.buffers.about, id) {
                Ok(id) => return tasks::connections(self.gateway, self.node, id.into(), reply),
                Err(refusal) => Err(refusal),
            },
            Request::Members(id) => match ids::read_id(&mut self.buffers.about, id) {
                Ok(id) => return members::answer(self.gateway, self.node, id.into(), reply),
                Err(refusal) => Err(refusal),
            },
            Request::Events(id, options) => match self.past(id, options) {
                Ok((id, query)) => return past::answer(self.gateway, self.node, id, query, reply),
                Err(refusal) => Err(refusal),
            },
            Request::Presence(pid, hears) => self.presence(pid, hears).map(|()| Answer::Ok),
            Request::Change(change, pairs) => return self.change(change, pairs, reply).await,
            Request::GetSubscribers(id) => match ids::read_id(&mut self.buffers.about, id) {
                Ok(id) => return tasks::subscribers(self.gateway, self.node, id.into(), reply),
                Err(refusal) => Err(refusal),
            },
            Request::IsAuth => Ok(Answer::Yes),
            Request::Name(what, name, said) => {
                return names::answered(self.gateway, self.peer, what, name, said);
            }
        };
        answer(self.gateway, self.peer, reply.as_ref(), outcome);
    }

    /// Which page of what was sent a process asks for.
    fn past(
        &mut self,
        id: Term<'_>,
        options: Option<Term<'_>>,
    ) -> Result<(OwnedId, EventsQuery), Refusal> {
        let id = ids::read_id(&mut self.buffers.about, id)?.into();
        Ok((id, past::read_options(options)?))
    }

    /// A process hears who comes and goes, or does not any more.
    fn presence(&self, pid: Pid<'_>, hears: bool) -> Result<(), Refusal> {
        let node = if is_of(pid, self.peer) {
            Arc::clone(self.node)
        } else {
            let peer = self.gateway.node.peer(&pid.node.text()).ok_or(Refusal::NoConnection)?;
            let registry = self.gateway.registry();
            Arc::clone(registry.nodes.get(&peer.number()).ok_or(Refusal::NoConnection)?)
        };
        let words = [pid.id, pid.serial, pid.creation];
        match hears {
            true => presence::begin(self.gateway, &node, words),
            false => {
                presence::end(self.gateway, &node, words);
                Ok(())
            }
        }
    }

    async fn change(&self, change: Change, pairs: Term<'_>, reply: Option<ReplyTo>) {
        match tasks::read_pairs(pairs) {
            Ok(read) => {
                let bytes = pairs.bytes().len();
                tasks::change(self.gateway, self.node, change, read, bytes, reply).await;
            }
            Err(refusal) => answer(self.gateway, self.peer, reply.as_ref(), Err(refusal)),
        }
    }

    async fn sent(
        &mut self,
        sent: Result<Delivery, Refusal>,
        payload: Term<'_>,
        reply: Option<ReplyTo>,
    ) {
        match sent {
            Ok(delivery) => self.wait_for(delivery, payload.bytes().len(), reply).await,
            Err(refusal) => answer(self.gateway, self.peer, reply.as_ref(), Err(refusal)),
        }
    }

    async fn post(
        &mut self,
        id: Term<'_>,
        payload: Term<'_>,
        options: Option<Term<'_>>,
        alone: bool,
    ) -> Result<Delivery, Refusal> {
        if payload.bytes().len() > self.gateway.payload_bytes_max() {
            return Err(Refusal::TooLarge);
        }
        let options = EventOptions::read(options)?;
        ids::read_id(&mut self.buffers.about, id)?;
        payload::read_payload(&mut self.buffers.data, payload)?;
        let send = self.gateway.send(&self.buffers, payload, options, alone);
        mail::posting(self.gateway, send).await
    }

    /// Answers once the workers have counted, and goes on meanwhile while there is room.
    async fn wait_for(&mut self, delivery: Delivery, bytes: usize, reply: Option<ReplyTo>) {
        let bytes_max = self.gateway.queue_bytes_max / WINDOW_SHARE;
        while !self.window.is_empty()
            && (self.window.len() >= WINDOW_SENDS_MAX || self.window_bytes + bytes > bytes_max)
        {
            first(&mut self.window).await;
            self.collect();
        }
        self.window_bytes += bytes;
        self.window.push_back(Pending { reply, delivery, bytes });
        debug_assert!(self.window.len() <= WINDOW_SENDS_MAX);
        self.collect();
    }
}

/// Waits until the first of the sends is counted; for ever when there is none.
async fn first(window: &mut VecDeque<Pending>) {
    match window.front_mut() {
        Some(pending) => pending.delivery.known().await,
        None => std::future::pending().await,
    }
}

/// Whether the process is one of `peer`.
fn is_of(pid: Pid<'_>, peer: &Peer) -> bool {
    *pid.node.text() == *peer.name()
}
