//! Mail for processes: what the router posts for those who are logged in is sent to their nodes.
//!
//! The guest's mailbox is emptied without ever waiting for a node: mail for one that has no room
//! waits in its own queue ([`ConnectedNode`]), and all others hear at once. What a process has sent
//! to others is handed out in the same turn ([`posting`]). No bell is rung for it, which took two
//! of the eight system calls of a call. The answer leaves in one write with what it is about.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use dispatch::wake_fd::WakeFd;
use engine::{Delivery, GuestMail};
use erlang::term::write;
use futures_util::poll;
use hub::{ConnRef, DisconnectReason};
use tokio::task::yield_now;

use super::connected_node::{ConnectedNode, Waiting, Words};
use super::gateway::Gateway;
use super::payload;
use super::processes::{ProcessRef, Processes};

/// Processes that are served in one go, under one lock.
const SLICE: usize = 512;

/// Takes the mail for as long as the runtime lives.
pub(super) async fn run(gateway: Arc<Gateway>) -> std::io::Result<()> {
    let wake = WakeFd::new(Arc::clone(&gateway))?;
    loop {
        let turn = gateway.mail_turn.lock().await;
        hand_out(&gateway).await;
        drop(turn);
        if gateway.guest.may_sleep() {
            wake.rung().await?;
            gateway.guest.awake();
        } else {
            yield_now().await;
        }
    }
}

/// Hands out all mail. Whoever does has the turn, so that mails keep their order.
async fn hand_out(gateway: &Gateway) {
    while let Some(mail) = gateway.guest.take() {
        match mail {
            GuestMail::Deliver(delivery) => deliver(gateway, delivery).await,
            GuestMail::Close(reason, delivery) => log_out(gateway, reason, delivery).await,
            GuestMail::Gap(_) => tell_gap(gateway).await,
        }
    }
}

/// Posts, and hands out at once what that leaves for processes. Where it has to wait, [`run`] is
/// rung for the rest.
pub(super) async fn posting<T>(gateway: &Gateway, post: impl Future<Output = T>) -> T {
    let mut post = pin!(post);
    gateway.guest.awake();
    let posted = poll!(post.as_mut());
    // Whoever else has the turn looks again before he sleeps.
    if let Ok(_turn) = gateway.mail_turn.try_lock() {
        loop {
            hand_out(gateway).await;
            if gateway.guest.may_sleep() {
                break;
            }
        }
    }
    match posted {
        Poll::Ready(posted) => posted,
        Poll::Pending => post.await,
    }
}

async fn deliver(gateway: &Gateway, mut delivery: Delivery) {
    let Some(event) = delivery.event().cloned() else { return };
    let message = payload::message_of(&event);
    let targets = delivery.targets().to_vec();
    for slice in targets.chunks(SLICE) {
        let mut waiting = ByNode::default();
        for &target in slice {
            match gateway.reach(process_ref_of(target)) {
                Some((node, _)) if node.must_wait() => waiting.push(&node, target),
                Some((node, to)) => hand_over(gateway, &mut delivery, &node, to, message),
                None => gateway.counts.dropped.add(1),
            }
        }
        for (node, targets) in waiting.0 {
            wait(gateway, &node, Waiting::Event(delivery.part(targets)), message.len());
        }
        if targets.len() > SLICE {
            yield_now().await;
        }
    }
}

/// The application has logged the id out: its processes are told that they hear no more.
async fn log_out(gateway: &Gateway, reason: DisconnectReason, mut delivery: Delivery) {
    let mut message = Vec::new();
    write::tuple(&mut message, 2);
    write::atom(&mut message, "router_closed");
    write::atom(&mut message, reason.as_str());
    let message: Arc<[u8]> = message.into();
    let targets = delivery.targets().to_vec();
    for slice in targets.chunks(SLICE) {
        let mut waiting = ByNode::default();
        for process_ref in slice.iter().copied().map(process_ref_of) {
            let Some((node, to)) = gateway.reach(process_ref) else {
                gateway.counts.dropped.add(1);
                continue;
            };
            gateway.logged_out(process_ref, &node.peer, to);
            if node.must_wait() {
                waiting.push(&node, to);
            } else {
                hand_over(gateway, &mut delivery, &node, to, &message);
            }
        }
        for (node, processes) in waiting.0 {
            let mail = Waiting::LoggedOut(delivery.part([]), Arc::clone(&message), processes);
            wait(gateway, &node, mail, message.len());
        }
        if targets.len() > SLICE {
            yield_now().await;
        }
    }
}

/// All processes are told that events may be missing, chunk by chunk, before the next mail is
/// looked at.
async fn tell_gap(gateway: &Gateway) {
    let mut message = Vec::new();
    write::tuple(&mut message, 1);
    write::atom(&mut message, "router_gap");
    let message: Arc<[u8]> = message.into();
    let mut from = 0;
    loop {
        let chunk: Vec<ProcessRef> = {
            let registry = gateway.registry();
            if from >= registry.processes.slots() {
                return;
            }
            registry.processes.chunk(from).collect()
        };
        let mut waiting = ByNode::default();
        for (node, to) in chunk.into_iter().filter_map(|process| gateway.reach(process)) {
            if node.must_wait() {
                waiting.push(&node, to);
            } else {
                tell(gateway, &node, to, &message);
            }
        }
        for (node, processes) in waiting.0 {
            let mail = Waiting::Gap(Arc::clone(&message), processes);
            wait(gateway, &node, mail, message.len());
        }
        from += Processes::CHUNK;
        yield_now().await;
    }
}

/// Hands over what waits for `node`, in its order, until it is closed and nothing waits any more.
pub(super) async fn deliver_waiting(gateway: &Gateway, node: &ConnectedNode) {
    while let Some((mail, since, bytes)) = node.next().await {
        match mail {
            Waiting::Event(mut delivery) => {
                let event = delivery.event().cloned();
                let message = event.as_deref().map_or(&[][..], payload::message_of);
                for target in delivery.targets().to_vec() {
                    node.room(since).await;
                    match gateway.reach(process_ref_of(target)) {
                        Some((_, to)) => hand_over(gateway, &mut delivery, node, to, message),
                        None => gateway.counts.dropped.add(1),
                    }
                }
            }
            Waiting::LoggedOut(mut delivery, message, processes) => {
                for to in processes {
                    node.room(since).await;
                    hand_over(gateway, &mut delivery, node, to, &message);
                }
            }
            Waiting::Gap(message, processes) => {
                for to in processes {
                    node.room(since).await;
                    tell(gateway, node, to, &message);
                }
            }
        }
        node.done(bytes);
        // A node that has ended takes no time: others have their turn.
        yield_now().await;
    }
}

fn hand_over(
    gateway: &Gateway,
    delivery: &mut Delivery,
    node: &ConnectedNode,
    to: Words,
    message: &[u8],
) {
    if node.peer.send_to(to, message) {
        delivery.count_one();
        gateway.counts.deliveries.add(1);
    } else {
        gateway.counts.dropped.add(1);
    }
}

/// Hands over what is no event.
fn tell(gateway: &Gateway, node: &ConnectedNode, to: Words, message: &[u8]) {
    if !node.peer.send_to(to, message) {
        gateway.counts.dropped.add(1);
    }
}

fn wait(gateway: &Gateway, node: &ConnectedNode, mail: Waiting, message_bytes: usize) {
    if let Err(mail) = node.wait(mail, message_bytes) {
        gateway.counts.dropped.add(mail.targets() as u64);
    }
}

/// Targets of a mail, by the node for which they must wait: these are few.
struct ByNode<T>(Vec<(Arc<ConnectedNode>, Vec<T>)>);

impl<T> Default for ByNode<T> {
    fn default() -> ByNode<T> {
        ByNode(Vec::new())
    }
}

impl<T> ByNode<T> {
    fn push(&mut self, node: &Arc<ConnectedNode>, target: T) {
        match self.0.iter_mut().find(|(known, _)| Arc::ptr_eq(known, node)) {
            Some((_, targets)) => targets.push(target),
            None => self.0.push((Arc::clone(node), vec![target])),
        }
    }
}

fn process_ref_of(target: ConnRef) -> ProcessRef {
    ProcessRef { slot: target.slot() as u32, generation: target.generation() }
}
