//! Processes that hear who comes and who goes: `{online, Id}`, `{offline, Id}`, and
//! `{presence_lost}` where some of both are missing.
//!
//! Each has a task that listens for it at its node's pace. One that falls behind is told so and
//! goes on: nothing of it piles up here, and its node is not ended for it. It hears no more when it
//! ends, says so, or its node is gone.

use std::sync::Arc;

use dispatch::presence::{Batch, Kind, Notification, PresenceEvent, Subscriber};
use erlang::Peer;
use erlang::term::write;
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;

use super::connected_node::{ConnectedNode, Words};
use super::gateway::Gateway;
use super::ids::write_id;
use super::processes::Process;
use super::refusal::Refusal;
use super::service::Service;
use super::subscribers::{MONITOR, SubscribedProcess};

/// Processes of one node that may hear it.
const SUBSCRIBERS_OF_NODE_MAX: usize = 32;

/// The process `words` of `node` hears it from now on. A second time is no error.
pub(super) fn begin(
    gateway: &Arc<Gateway>,
    node: &Arc<ConnectedNode>,
    words: Words,
) -> Result<(), Refusal> {
    let peer = &node.peer;
    let process = process(peer, words).ok_or(Refusal::NoProcess)?;
    let mut table = gateway.subscribers.table();
    // A node that is gone from there takes away what it has here after that.
    if !gateway.registry().nodes.contains_key(&peer.number()) {
        return Err(Refusal::NoConnection);
    }
    if table.find(process).is_some() {
        return Ok(());
    }
    let of_node =
        table.by_number.values().filter(|subscriber| subscriber.process.peer == process.peer);
    if of_node.count() >= SUBSCRIBERS_OF_NODE_MAX {
        return Err(Refusal::Overloaded);
    }
    let subscriber = gateway.presence.listen(Kind::Erlang).ok_or(Refusal::Overloaded)?;
    let end = CancellationToken::new();
    let number = table.fresh();
    table.by_number.insert(number, SubscribedProcess { process, _end: end.clone().drop_guard() });
    drop(table);
    // Answered at once if the process is gone.
    peer.monitor(gateway.pid(Service::Router), words, [MONITOR, 0, number]);
    let telling = tell(Arc::clone(node), words, subscriber);
    tokio::spawn(async move { end.run_until_cancelled_owned(telling).await });
    Ok(())
}

/// It does not hear it any more; nor did it, perhaps.
pub(super) fn end(gateway: &Gateway, node: &ConnectedNode, words: Words) {
    let Some(process) = process(&node.peer, words) else { return };
    let mut table = gateway.subscribers.table();
    if let Some(number) = table.find(process) {
        table.by_number.remove(&number);
        drop(table);
        node.peer.demonitor(gateway.pid(Service::Router), words, [MONITOR, 0, number]);
    }
}

/// The process, unless it is one of an earlier life of its node.
fn process(peer: &Peer, [id, serial, creation]: Words) -> Option<Process> {
    (creation == peer.creation()).then(|| Process { peer: peer.number(), id, serial })
}

async fn tell(node: Arc<ConnectedNode>, to: Words, mut subscriber: Subscriber) {
    let mut message = Vec::new();
    loop {
        let batch = match subscriber.recv().await {
            Notification::Batch(batch) => batch,
            Notification::Behind => Batch::lost(),
            Notification::Over => return,
        };
        for event in &batch.events {
            node.peer.capacity_for_changes().await;
            message.clear();
            write_event(&mut message, event);
            if !node.peer.send_to(to, &message) {
                return;
            }
        }
        yield_now().await;
    }
}

fn write_event(out: &mut Vec<u8>, event: &PresenceEvent) {
    let (name, id) = match event {
        PresenceEvent::Online(id) => ("online", id),
        PresenceEvent::Offline(id) => ("offline", id),
        PresenceEvent::Lost => {
            write::tuple(out, 1);
            return write::atom(out, "presence_lost");
        }
    };
    write::tuple(out, 2);
    write::atom(out, name);
    write_id(out, id);
}
