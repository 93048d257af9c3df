//! Requests that are refused: the answer, and the end of the connection.

use hub::DisconnectReason;
use proto::{Problem, response};

use super::admission::Reply;
use super::core::{At, Core, Lives};
use crate::conn::state::State;
use crate::sockets::Sockets;

impl<S: Sockets> Core<S> {
    pub(super) fn refuse(
        &mut self,
        at: &mut At<'_, S::Socket>,
        problem: &Problem,
        reply: &Reply<'_>,
    ) -> Lives {
        self.refuse_for(at, problem, reply, DisconnectReason::BadRequest)
    }

    pub(super) fn refuse_for(
        &mut self,
        at: &mut At<'_, S::Socket>,
        problem: &Problem,
        reply: &Reply<'_>,
        reason: DisconnectReason,
    ) -> Lives {
        self.note_refusal(at, problem);
        self.refuse_unnoted(at, problem, reply, reason)
    }

    pub(super) fn refuse_unnoted(
        &mut self,
        at: &mut At<'_, S::Socket>,
        problem: &Problem,
        reply: &Reply<'_>,
        reason: DisconnectReason,
    ) -> Lives {
        self.answer.clear();
        response::problem(problem, reply.head_only, reply.cors, &mut self.answer);
        self.answered(at, reason)
    }

    pub(super) fn refuse_late(&mut self, at: &mut At<'_, S::Socket>) -> Lives {
        self.answer.clear();
        response::problem(&Problem::head_timeout(), false, None, &mut self.answer);
        self.answered(at, DisconnectReason::HeadTimeout)
    }

    /// Refuses as [`Core::refuse`] when the request is not at hand.
    pub(super) fn refuse_plainly(
        &mut self,
        at: &mut At<'_, S::Socket>,
        problem: &Problem,
    ) -> Lives {
        self.refuse(at, problem, &Reply { head_only: false, cors: None })
    }

    pub(super) fn answered(
        &mut self,
        at: &mut At<'_, S::Socket>,
        reason: DisconnectReason,
    ) -> Lives {
        // What was sent too early is not read any more.
        at.conn.forget_body();
        at.take_unread();
        at.conn.move_to(State::Ending(reason));
        self.send_answer(at)?;
        self.finish(at, reason)
    }
}
