//! The state of a connection: where it is, and what is to be done when something happens to it.
//!
//! The table, with a line for each state. What is not in it cannot happen, or means nothing:
//!
//! | state | bytes | end | event | its time | written | missed known | gap | disconnect |
//! | --- | --- | --- | --- | --- | --- | --- | --- | --- |
//! | `Handshake` | shake hands | close | drop | cut | | | | close |
//! | `Head` | request | close | drop | refuse, 408 | | | | close |
//! | `Body` | request | close | drop | refuse, 408 | | | | close |
//! | `Verifying` | put by | close | drop | refuse, 503 | | | | close |
//! | `Sending` | put by | close | drop | refuse, 503 | | | | answer, close |
//! | `Stream` | message, discard | close | take | keep alive, refuse, cut | | | tell | end stream |
//! | `Held` | message, discard | close | hold | the same | ask | catch up | tell | end stream |
//! | `Poll` | request, put by | close | take | answer | | | tell | answer, last |
//! | `HeldPoll` | request, put by | close | hold | wait on | | catch up | tell | answer, last |
//! | `Between` | request | close | drop | close, or cut | read on | | | close, or end |
//! | `Leaving` | leave unread | | drop | | | | | |
//! | `Ending` | discard | | drop | cut | linger | | | |
//! | `Lingering` | discard | close | drop | close | | | | |
//!
//! The two streams are told what is said to them alone, and `Sending` is answered with it;
//! elsewhere it is dropped.
//!
//! `Verifying` and the two streams know one more input, that a token is verified: the one goes back
//! to its request, the others go on with another token or as they did. When the time of a stream's
//! token is over, the stream is ended before anything else that its time asks for.
//!
//! A connection that breaks is closed in each of them. One that breaks the rules of TLS is told so,
//! hears nothing more, and lingers. Which state may follow which says [`State::may_move_to`]; every
//! change goes by it.
//!
//! `State` decides and nothing else does: the shard carries out. What comes with something to be
//! carried (bytes, an event, what was missed, a gap, a token) is answered in a type of its own, so
//! that whoever has that in hand sees all that may be done with it; all else is an [`Input`], and
//! answered by an [`Action`].

use std::io::ErrorKind;

use hub::DisconnectReason;

use super::action::{
    Action, BytesAction, DirectMessageAction, EventAction, GapAction, MissedAction, TokenAction,
};

/// Where a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// It begins with TLS, of which the handshake is not done.
    Handshake,
    /// Its request head is not complete.
    Head,
    /// Its request head is complete, and the body that belongs to it is not.
    Body,
    /// Its request is complete, and its token is being verified.
    Verifying,
    /// Its request is complete, and the control plane is to say what became of its event, or to
    /// make the page that it reads.
    Sending,
    /// It is logged in and hears events.
    Stream,
    /// It is logged in, and what it has missed is not all known or not all written: events are put
    /// by.
    Held,
    /// It is logged in until it has heard some events, or long enough.
    Poll,
    /// Its poll waits, and it is not known what it has missed.
    HeldPoll,
    /// Its poll is answered, the answer perhaps not all sent, and no further request has begun.
    Between,
    /// It is to be ended when its turn comes. It hears no more.
    Leaving(Leave),
    /// It hears no more; its last bytes are being sent.
    Ending(DisconnectReason),
    /// Everything is sent and our side is ended; the client has not ended its own yet.
    Lingering(DisconnectReason),
}

/// How a connection is to be ended when its turn comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leave {
    /// Gracefully: it hears what it was handed, and the end of its stream.
    Graceful(DisconnectReason),
    /// At once, with a reset.
    Cut(DisconnectReason),
}

/// What happens to a connection, and brings nothing to be carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Input {
    /// Its client has ended its side.
    End,
    /// It is broken.
    Broken(ErrorKind),
    /// The time has come that [`State`] waits for.
    Time(Due),
    /// All that waited for it is written.
    Written,
    /// It is to end, gracefully.
    Disconnect(DisconnectReason),
}

/// For what of a connection it is time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Due {
    /// The kernel has had no room for what waits, for too long.
    pub(crate) blocked: bool,
    /// Its message has taken too long.
    pub(crate) late: bool,
    /// The time of its token is over.
    pub(crate) expired: bool,
}

impl State {
    /// What is to be done with bytes of its client, who may send messages or not.
    pub(crate) fn on_bytes(self, sends_messages: bool) -> BytesAction {
        match self {
            State::Leaving(_) => BytesAction::LeaveUnread,
            State::Handshake => BytesAction::Handshake,
            State::Head | State::Body | State::Verifying | State::Sending => BytesAction::Request,
            State::Poll | State::HeldPoll | State::Between => BytesAction::Request,
            State::Stream | State::Held if sends_messages => BytesAction::Message,
            State::Stream | State::Held | State::Ending(_) | State::Lingering(_) => {
                BytesAction::Discard
            }
        }
    }

    /// What is to be done with an event for it.
    pub(crate) fn on_event(self) -> EventAction {
        match self {
            State::Stream | State::Poll => EventAction::Take,
            State::Held | State::HeldPoll => EventAction::Hold,
            State::Handshake | State::Head | State::Body | State::Verifying => EventAction::Drop,
            State::Sending | State::Between => EventAction::Drop,
            State::Leaving(_) | State::Ending(_) | State::Lingering(_) => EventAction::Drop,
        }
    }

    /// What is to be done with what it has missed; `None` where it has asked for nothing, or ends.
    pub(crate) fn on_missed(self) -> Option<MissedAction> {
        match self {
            State::Held => Some(MissedAction::CatchUp),
            State::HeldPoll => Some(MissedAction::CatchUpPoll),
            _ => None,
        }
    }

    /// What is to be done when events may be missing that nobody will bring; `None` where nothing
    /// is heard: nothing is missed then, and who comes back has a place of before.
    pub(crate) fn on_gap(self) -> Option<GapAction> {
        match self {
            State::Stream | State::Held => Some(GapAction::Tell),
            State::Poll | State::HeldPoll => Some(GapAction::TellPoll),
            _ => None,
        }
    }

    /// What is to be done with its token, which is verified; `None` where it ends.
    pub(crate) fn on_token(self) -> Option<TokenAction> {
        match self {
            State::Verifying => Some(TokenAction::Readmit),
            State::Stream | State::Held => Some(TokenAction::Renew),
            _ => None,
        }
    }

    /// What is to be done with what is said to it alone; `None` where it is not heard.
    pub(crate) fn on_said(self) -> Option<DirectMessageAction> {
        match self {
            State::Stream | State::Held => Some(DirectMessageAction::Tell),
            State::Sending => Some(DirectMessageAction::Answer),
            _ => None,
        }
    }

    /// What is to be done when `input` happens. It is `blocked` when the kernel has no room for
    /// what waits.
    pub(crate) fn on(self, input: Input, blocked: bool) -> Action {
        match input {
            Input::Time(due) => self.on_time(due),
            Input::End => self.on_end(),
            Input::Broken(kind) => self.on_broken(kind),
            Input::Written => self.on_written(),
            Input::Disconnect(reason) => self.on_disconnect(reason, blocked),
        }
    }

    fn on_time(self, due: Due) -> Action {
        use DisconnectReason::{Idle, SlowReader, TlsTimeout, TokenExpired};
        let Due { blocked, late, expired } = due;
        match self {
            State::Leaving(_) => Action::Nothing,
            State::Handshake => cut(TlsTimeout),
            State::Head => Action::RefuseLate,
            State::Body => Action::RefuseBody,
            State::Verifying => Action::RefuseToken,
            State::Sending => Action::RefuseSend,
            State::Stream | State::Held if expired => Action::EndStream(TokenExpired),
            State::Stream | State::Held if blocked => cut(SlowReader),
            State::Stream | State::Held if late => Action::RefuseMessage,
            State::Stream | State::Held => Action::KeepAlive,
            State::Poll => Action::Answer,
            State::HeldPoll => Action::WaitOn,
            State::Between if blocked => cut(SlowReader),
            State::Between => close(Idle),
            State::Ending(reason) => cut(reason),
            State::Lingering(reason) => close(reason),
        }
    }

    fn on_end(self) -> Action {
        match self {
            // Of an ending one the last answer may still be on its way: it has only ended its own
            // side.
            State::Leaving(_) | State::Ending(_) => Action::Nothing,
            State::Lingering(reason) => close(reason),
            State::Handshake | State::Head | State::Body | State::Verifying | State::Sending => {
                close(DisconnectReason::ClientClosed)
            }
            State::Between => close(DisconnectReason::ClientClosed),
            State::Stream | State::Held | State::Poll | State::HeldPoll => {
                close(DisconnectReason::ClientClosed)
            }
        }
    }

    fn on_broken(self, kind: ErrorKind) -> Action {
        match (self, kind) {
            (State::Leaving(_), _) => Action::Nothing,
            (State::Ending(reason), ErrorKind::InvalidData) => Action::Fail(reason),
            (State::Ending(reason) | State::Lingering(reason), _) => cut(reason),
            (_, ErrorKind::TimedOut) => cut(DisconnectReason::ClientVanished),
            // A close over what it goes on to say would be a reset, and the alert lost with it.
            (_, ErrorKind::InvalidData) => Action::Fail(DisconnectReason::TlsFailed),
            _ => cut(DisconnectReason::ClientReset),
        }
    }

    fn on_written(self) -> Action {
        match self {
            State::Held => Action::Ask,
            State::Between => Action::ReadOn,
            State::Ending(reason) => Action::Linger(reason),
            State::Handshake | State::Head | State::Body | State::Verifying => Action::Nothing,
            State::Sending | State::Stream => Action::Nothing,
            State::Poll | State::HeldPoll | State::Leaving(_) | State::Lingering(_) => {
                Action::Nothing
            }
        }
    }

    fn on_disconnect(self, reason: DisconnectReason, blocked: bool) -> Action {
        match self {
            State::Handshake | State::Head | State::Body | State::Verifying => close(reason),
            State::Sending => Action::EndBehindAnswer,
            State::Stream | State::Held => Action::EndStream(reason),
            State::Poll | State::HeldPoll => Action::AnswerLast(reason),
            State::Between if blocked => Action::Finish(reason),
            State::Between => close(reason),
            State::Leaving(_) | State::Ending(_) | State::Lingering(_) => Action::Nothing,
        }
    }

    /// Whether `next` may follow.
    pub(crate) fn may_move_to(self, next: State) -> bool {
        use State::{
            Between, Body, Ending, Handshake, Head, Held, HeldPoll, Leaving, Lingering, Poll,
            Sending, Stream, Verifying,
        };
        match self {
            Leaving(_) => matches!(next, Between | Ending(_)),
            Lingering(_) => false,
            _ if matches!(next, Lingering(_)) => true,
            Handshake => next == Head,
            Head => {
                matches!(next, Handshake | Stream | Held | Poll | HeldPoll)
                    || matches!(next, Body | Verifying | Sending | Ending(_))
            }
            Body => matches!(next, Stream | Held | Verifying | Sending | Ending(_)),
            Sending => matches!(next, Between | Ending(_)),
            Verifying => matches!(next, Head | Ending(_)),
            Stream => matches!(next, Held | Leaving(_) | Ending(_)),
            Held => matches!(next, Stream | Leaving(_) | Ending(_)),
            Poll | HeldPoll => matches!(next, Poll | Between | Leaving(_)),
            Between => {
                matches!(next, Head | Poll | HeldPoll | Stream | Held)
                    || matches!(next, Body | Verifying | Sending | Ending(_))
            }
            Ending(_) => matches!(next, Ending(_)),
        }
    }

    /// Whether it is reachable under its ids.
    pub(crate) fn is_logged_in(self) -> bool {
        matches!(
            self,
            State::Stream | State::Held | State::Poll | State::HeldPoll | State::Leaving(_)
        )
    }

    /// Whether it hears events, at once or once it is known what it has missed.
    pub(crate) fn hears(self) -> bool {
        self.is_logged_in() && !matches!(self, State::Leaving(_))
    }

    /// Whether events are put by.
    pub(crate) fn is_held(self) -> bool {
        matches!(self, State::Held | State::HeldPoll)
    }
}

/// Closes gracefully.
fn close(reason: DisconnectReason) -> Action {
    Action::Close { reason, abort: false }
}

/// Closes with a reset, which forgets what is unsent.
fn cut(reason: DisconnectReason) -> Action {
    Action::Close { reason, abort: true }
}

#[cfg(test)]
mod tests;
