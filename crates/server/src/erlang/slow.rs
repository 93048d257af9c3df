//! Requests that wait for something: a disk, a long list, or a node that must be connected to
//! first. Each is a task of its own, so the conversation goes on; of all together there are only so
//! many.

use std::future::Future;
use std::sync::Arc;

use erlang::term::write;
use erlang::{Peer, Pid, ReplyTo, Term};
use graph::{OwnedId, Pair};
use hub::{Followers, Id};
use tokio::task::yield_now;

use super::ids;
use super::office::Office;
use super::refusal::Refusal;
use super::talk::{Answer, answer};

/// Bytes of an answer with subscribers: it is one message, which the other node takes whole.
const SUBSCRIBERS_BYTES_MAX: usize = 8 << 20;

/// What to do with subscriptions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    Add,
    Remove,
}

/// Logs in a process of another node than the one that asks.
pub(super) fn login(
    office: &Arc<Office>,
    peer: &Arc<Peer>,
    id: OwnedId,
    pid: Pid<'_>,
    reply: Option<ReplyTo>,
) {
    let node = pid.node.text().into_owned();
    let words = [pid.id, pid.serial, pid.creation];
    let shared = Arc::clone(office);
    start(office, peer, reply, async move {
        if node == shared.node.name() {
            return Err(Refusal::NoProcess);
        }
        let connected = shared.node.connect(&node).await.map_err(|error| {
            tracing::warn!("cannot connect to the Erlang node {node}: {error}");
            Refusal::NoConnection
        })?;
        // Its conversation must have begun: a log-in without one would outlive the connection.
        shared.has_arrived(&connected).await;
        shared.login(&connected, id.as_text(), words).map(|()| Answer::Ok)
    });
}

/// Adds or removes subscriptions, all of them or none.
pub(super) fn change(
    office: &Arc<Office>,
    peer: &Arc<Peer>,
    change: Change,
    pairs: Term<'_>,
    reply: Option<ReplyTo>,
) {
    let pairs = match read_pairs(pairs) {
        Ok(pairs) if pairs.is_empty() => {
            return answer(office, peer, reply.as_ref(), Ok(Answer::Count(0)));
        }
        Ok(pairs) => pairs,
        Err(refusal) => return answer(office, peer, reply.as_ref(), Err(refusal)),
    };
    let graph = office.graph.clone();
    start(office, peer, reply, async move {
        let changed = match change {
            Change::Add => graph.add(pairs).await,
            Change::Remove => graph.remove(pairs).await,
        };
        changed.map(Answer::Count).map_err(|error| {
            tracing::warn!(%error, "subscriptions of an Erlang node were not stored");
            Refusal::Store
        })
    });
}

fn read_pairs(pairs: Term<'_>) -> Result<Vec<Pair>, Refusal> {
    let pairs = pairs.list().ok_or(Refusal::BadRequest)?;
    let mut text = String::new();
    let mut owned = |term: Term<'_>| ids::read_id(&mut text, term).map(OwnedId::from);
    let mut pair = |pair: Term<'_>| {
        let [tag, subscriber, subscribee] = pair.tuple().ok_or(Refusal::BadRequest)?;
        if !tag.atom().is_some_and(|tag| tag.is("subscription")) {
            return Err(Refusal::BadRequest);
        }
        Ok(Pair { subscriber: owned(subscriber)?, subscribee: owned(subscribee)? })
    };
    pairs.map(&mut pair).collect()
}

/// Answers who follows an id: a list of ids.
pub(super) fn subscribers(
    office: &Arc<Office>,
    peer: &Arc<Peer>,
    id: OwnedId,
    reply: Option<ReplyTo>,
) {
    // A cast that asks has nobody to be told.
    let Some(reply) = reply else { return };
    let (shared, asking) = (Arc::clone(office), Arc::clone(peer));
    let told = reply.clone();
    start(office, peer, Some(reply), async move {
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
async fn read_subscribers(office: &Office, id: &OwnedId) -> Result<(usize, Vec<u8>), Refusal> {
    let (mut len, mut list) = (0, Vec::new());
    let names = office.router.names();
    let Some(subject) = names.lookup(id.as_text()) else { return Ok((len, list)) };
    let mut after: Option<Id> = None;
    loop {
        let mut slice = Vec::new();
        after = office.graph.slice(subject, after, &mut |id| slice.push(id)).map_err(|error| {
            tracing::warn!(%error, "subscribers could not be read for an Erlang node");
            Refusal::Store
        })?;
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
fn start(
    office: &Arc<Office>,
    peer: &Arc<Peer>,
    reply: Option<ReplyTo>,
    work: impl Future<Output = Result<Answer, Refusal>> + Send + 'static,
) {
    let Ok(permit) = Arc::clone(&office.tasks).try_acquire_owned() else {
        return answer(office, peer, reply.as_ref(), Err(Refusal::Overloaded));
    };
    let (office, peer) = (Arc::clone(office), Arc::clone(peer));
    tokio::spawn(async move {
        let outcome = work.await;
        answer(&office, &peer, reply.as_ref(), outcome);
        drop(permit);
    });
}
