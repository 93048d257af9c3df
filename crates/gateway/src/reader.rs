//! Reads what a node sends, whatever else is waited for.
//!
//! Past the inbox' bound reading pauses, for some seconds at most, and then what comes is refused
//! without waiting. A call is answered `{error, overloaded}`, any other message is dropped and
//! counted. What nodes tell each other beside messages (processes that are gone, monitors, links)
//! needs no waiting, so it is done at once, and nothing is kept.

use std::time::Duration;

use bytes::Bytes;
use erlang::control::{HEAD_BYTES_MAX, caller};
use erlang::{Control, End, Incoming, Message, PassedOver, Peer, ReplyTo, Session, Term, frames};
use tokio::task::yield_now;
use tokio::time::timeout;

use super::answer::answer;
use super::control;
use super::gateway::Gateway;
use super::inbox::Inbox;
use super::refusal::Refusal;
use super::request::Asked;
use super::service::Service;

/// How long reading pauses where the inbox is full, before what comes is refused: a little longer
/// than mail waits for a node that takes nothing, so that the one costs the other no message.
const PAUSE_MAX: Duration = Duration::from_secs(3);

/// Reads into `inbox` until the end.
pub(super) async fn run(gateway: &Gateway, session: &mut Session, inbox: &Inbox) -> End {
    let mut has_room = true;
    loop {
        let incoming = tokio::select! {
            incoming = session.read() => match incoming {
                Ok(incoming) => incoming,
                Err(end) => return end,
            },
            () = gateway.stop.cancelled() => return End::Stopped,
        };
        let batch: Bytes = match incoming {
            Incoming::Frames(batch) => batch,
            Incoming::PassedOver(head, why) => {
                let refusal = match why {
                    PassedOver::TooLong => Refusal::TooLarge,
                    PassedOver::NoPlace => Refusal::Overloaded,
                };
                tell(gateway, session.peer(), caller(&head), refusal);
                continue;
            }
        };
        if !inbox.has_room(&batch) {
            // Once it was in vain there is no waiting any more, until there is room again.
            has_room = has_room
                && tokio::select! {
                    paused = timeout(PAUSE_MAX, inbox.room(&batch)) => paused.is_ok(),
                    end = session.peer().ended() => return end,
                    () = gateway.stop.cancelled() => return End::Stopped,
                };
        } else {
            has_room = true;
        }
        if has_room {
            inbox.push(batch);
        } else {
            refuse(gateway, session.peer(), &batch);
        }
        // The handler has its turn for each batch. So the inbox fills only while that waits for
        // something; a node that is merely faster than we are is slowed down by TCP.
        yield_now().await;
    }
}

/// Refuses what `batch` asks for, and does what must not be lost.
fn refuse(gateway: &Gateway, peer: &Peer, batch: &[u8]) {
    for frame in frames(batch) {
        if frame.len() > gateway.message_bytes_max() {
            // Looking into all of it would take as long as doing it.
            let head = frame.get(..HEAD_BYTES_MAX).unwrap_or(frame);
            tell(gateway, peer, caller(head), Refusal::Overloaded);
            continue;
        }
        match Message::read(frame) {
            Ok(Message { control: Control::Send(_) | Control::SendToName(_), payload }) => {
                let from = payload.and_then(|payload| Asked::of(payload).from);
                tell(gateway, peer, from, Refusal::Overloaded);
            }
            Ok(Message { control, .. }) => control::act(gateway, peer, control),
            Err(_) => control::malformed(gateway, peer),
        }
    }
}

/// Tells the caller `from`, if it is a call, that nothing is done.
fn tell(gateway: &Gateway, peer: &Peer, from: Option<Term<'_>>, refusal: Refusal) {
    let reply = from.and_then(|from| ReplyTo::of(from, gateway.pid(Service::Router)));
    answer(gateway, peer, reply.as_ref(), Err(refusal));
}
