//! What calls are answered.

use erlang::term::write;
use erlang::{Peer, ReplyTo};

use super::gateway::Gateway;
use super::refusal::Refusal;

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

/// Tells `reply`, if anybody wants to hear it, and counts what was refused.
pub(super) fn answer(
    gateway: &Gateway,
    peer: &Peer,
    reply: Option<&ReplyTo>,
    outcome: Result<Answer, Refusal>,
) {
    if let Err(refusal) = outcome {
        gateway.counts.refuse(peer.name(), refusal);
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
