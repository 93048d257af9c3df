//! Requests that wait for something: a disk, a long list, or a node that must be connected to
//! first. Each is a task of its own, so the session goes on; of each node there are only so many,
//! and of all together.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use erlang::term::write;
use erlang::{Control, Message, Pid, ReplyTo, Term, is_node_name};
use graph::{OwnedId, Pair};
use hub::{Followers, Id};
use tokio::task::{spawn_blocking, yield_now};

use super::answer::{Answer, answer};
use super::connected_node::ConnectedNode;
use super::gateway::Gateway;
use super::ids;
use super::refusal::Refusal;
use super::request::{Asked, Change, Request};
use super::service::Service;

/// Bytes of an answer with subscribers: it is one message, which the other node takes whole.
const SUBSCRIBERS_BYTES_MAX: usize = 8 << 20;

/// Subscriptions that are stored at once: what one transaction may have, here and in the cluster's
/// store of record.
const PART_PAIRS_MAX: usize = 65_536;

/// The shortest `{subscription, Subscriber, Subscribee}`, in bytes.
const PAIR_BYTES_MIN: usize = 20;

/// Logs in a process of another node than the one that asks, linked with us or not.
pub(super) fn login(
    gateway: &Arc<Gateway>,
    node: &Arc<ConnectedNode>,
    (id, pid, links): (OwnedId, Pid<'_>, bool),
    reply: Option<ReplyTo>,
) {
    let other = pid.node.text().into_owned();
    let words = [pid.id, pid.serial, pid.creation];
    if other == gateway.node.name() {
        return answer(gateway, &node.peer, reply.as_ref(), Err(Refusal::NoProcess));
    }
    if !is_node_name(&other) {
        return answer(gateway, &node.peer, reply.as_ref(), Err(Refusal::NoConnection));
    }
    let shared = Arc::clone(gateway);
    start(gateway, node, reply, async move {
        let connected = shared.node.connect(&other).await.map_err(|error| {
            tracing::debug!("cannot connect to the Erlang node {other}: {error}");
            Refusal::NoConnection
        })?;
        // Its session must have begun: a log-in without one would outlive the connection.
        shared.wait_connected(&connected).await;
        shared.login(&connected, id.as_text(), words, links).map(|()| Answer::Ok)
    });
}

/// Adds or removes subscriptions: up to [`PART_PAIRS_MAX`] of them all or none, and more of them
/// part by part, so that others' changes have their turn and memory does not grow with the request.
/// What they take is bounded by the bytes that they came in: past that the session waits until
/// others are stored.
pub(super) async fn change(
    gateway: &Arc<Gateway>,
    node: &Arc<ConnectedNode>,
    change: Change,
    mut pairs: Vec<Pair>,
    bytes: usize,
    reply: Option<ReplyTo>,
) {
    if pairs.is_empty() {
        return answer(gateway, &node.peer, reply.as_ref(), Ok(change.answer(0)));
    }
    let permits = u32::try_from(bytes.min(gateway.queue_bytes_max)).unwrap_or(u32::MAX);
    let room = Arc::clone(&node.change_bytes).acquire_many_owned(permits).await;
    // Those that do not count by their bytes alone are changed one after the other.
    let many = (bytes > gateway.queue_bytes_max).then(|| Arc::clone(&gateway.large_changes));
    let turn = match many {
        Some(many) => many.acquire_owned().await.ok(),
        None => None,
    };
    let shared = Arc::clone(gateway);
    start(gateway, node, reply, async move {
        let mut count = 0;
        while !pairs.is_empty() {
            let part = pairs.split_off(pairs.len().saturating_sub(PART_PAIRS_MAX));
            debug_assert!((1..=PART_PAIRS_MAX).contains(&part.len()), "this would never end");
            let permit = shared.enter().await?;
            let changed = shared.sender.change(&permit, change.adds, part).await;
            count += changed.map_err(|error| {
                tracing::warn!(%error, "subscriptions of an Erlang node were not stored");
                Refusal::Store
            })?;
        }
        drop((room, turn));
        Ok(change.answer(count))
    });
}

/// Answers how many connections an id has: in a cluster other nodes are asked.
pub(super) fn connections(
    gateway: &Arc<Gateway>,
    node: &Arc<ConnectedNode>,
    id: OwnedId,
    reply: Option<ReplyTo>,
) {
    let shared = Arc::clone(gateway);
    start(gateway, node, reply, async move {
        let (connections, _) = shared.sender.connections(id.as_text()).await;
        Ok(Answer::Count(connections))
    });
}

/// Ends all connections of an id, and answers how many there were.
pub(super) fn logout_id(
    gateway: &Arc<Gateway>,
    node: &Arc<ConnectedNode>,
    id: OwnedId,
    reply: Option<ReplyTo>,
) {
    let shared = Arc::clone(gateway);
    start(gateway, node, reply, async move {
        let permit = shared.enter().await?;
        let closed = shared.sender.logout(permit, id.as_text()).await?;
        Ok(Answer::Count(closed.count.into()))
    });
}

/// A change of subscriptions and who asks for it, or why it is none.
type Large = (Option<ReplyTo>, Result<(Change, Vec<Pair>), Refusal>);

/// Reads a message that is longer than an event can be, on a thread for what takes long. `None` if
/// it is none.
pub(super) async fn read_large(gateway: &Arc<Gateway>, frame: Bytes) -> Option<Large> {
    let gateway = Arc::clone(gateway);
    let reading = spawn_blocking(move || {
        let Message { control, payload } = Message::read(&frame).ok()?;
        let Asked { from, request } = Asked::of(payload?);
        let ours = gateway.pid(Service::Subsmanager);
        let reply = from.and_then(|from| ReplyTo::of(from, ours));
        let service = match control {
            Control::Send(to) => Service::of_pid(to, ours),
            Control::SendToName(name) => Service::of_name(name),
            _ => None,
        };
        let request = Request::read(service?, request);
        let change = request.and_then(|request| match request {
            Request::Change(change, pairs) => Ok((change, read_pairs(pairs)?)),
            _ => Err(Refusal::TooLarge),
        });
        Some((reply, change))
    });
    reading.await.ok()?
}

/// Reads `[{subscription, Subscriber, Subscribee}]`.
pub(super) fn read_pairs(pairs: Term<'_>) -> Result<Vec<Pair>, Refusal> {
    let bytes = pairs.bytes().len();
    let pairs = pairs.list().ok_or(Refusal::BadRequest)?;
    let mut read = Vec::with_capacity(pairs.len().min(bytes / PAIR_BYTES_MIN));
    let mut text = String::new();
    let mut owned = |term: Term<'_>| ids::read_id(&mut text, term).map(OwnedId::from);
    let mut pair = |pair: Term<'_>| {
        let [tag, subscriber, subscribee] = pair.tuple().ok_or(Refusal::BadRequest)?;
        if !tag.atom().is_some_and(|tag| tag.is("subscription")) {
            return Err(Refusal::BadRequest);
        }
        Ok(Pair { subscriber: owned(subscriber)?, subscribee: owned(subscribee)? })
    };
    for one in pairs {
        read.push(pair(one)?);
    }
    Ok(read)
}

/// Answers who follows an id: a list of ids.
pub(super) fn subscribers(
    gateway: &Arc<Gateway>,
    node: &Arc<ConnectedNode>,
    id: OwnedId,
    reply: Option<ReplyTo>,
) {
    // A cast that asks has nobody to be told.
    let Some(reply) = reply else { return };
    let (shared, asking) = (Arc::clone(gateway), Arc::clone(&node.peer));
    let told = reply.clone();
    start(gateway, node, Some(reply), async move {
        let (len, list) = read_subscribers(&shared, &id).await?;
        asking.send(|out| {
            told.answer(out, |out| {
                if len > 0 {
                    write::list(out, len);
                    out.extend_from_slice(&list);
                }
                write::nil(out);
            });
        });
        Ok(Answer::Told)
    });
}

/// How many follow `id`, and their terms one after the other.
async fn read_subscribers(gateway: &Gateway, id: &OwnedId) -> Result<(usize, Vec<u8>), Refusal> {
    let (mut len, mut list) = (0, Vec::new());
    let names = gateway.sender.router.names();
    let Some(subject) = names.lookup(id.as_text()) else { return Ok((len, list)) };
    let mut after: Option<Id> = None;
    loop {
        let mut slice = Vec::new();
        after = gateway.sender.graph.slice(subject, after, &mut |id| slice.push(id)).map_err(
            |error| {
                tracing::warn!(%error, "subscribers could not be read for an Erlang node");
                Refusal::Store
            },
        )?;
        // A name can go between the look-up and here; then it is nobody's subscriber any more.
        for text in slice.into_iter().filter_map(|id| names.text(id)) {
            ids::write_id(&mut list, &text);
            len += 1;
        }
        if list.len() > SUBSCRIBERS_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        if after.is_none() {
            return Ok((len, list));
        }
        yield_now().await;
    }
}

/// Begins `work` and answers when it is done, or at once when too much is under way.
pub(super) fn start(
    gateway: &Arc<Gateway>,
    node: &Arc<ConnectedNode>,
    reply: Option<ReplyTo>,
    work: impl Future<Output = Result<Answer, Refusal>> + Send + 'static,
) {
    let permits = (
        Arc::clone(&node.tasks).try_acquire_owned(),
        Arc::clone(&gateway.tasks).try_acquire_owned(),
    );
    let (Ok(of_node), Ok(of_all)) = permits else {
        return answer(gateway, &node.peer, reply.as_ref(), Err(Refusal::Overloaded));
    };
    let (gateway, peer) = (Arc::clone(gateway), Arc::clone(&node.peer));
    tokio::spawn(async move {
        let outcome = work.await;
        answer(&gateway, &peer, reply.as_ref(), outcome);
        drop((of_node, of_all));
    });
}
