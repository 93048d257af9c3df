//! The life of a connection: where it is, and what is to be done when something happens to it.
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
//! hears nothing more, and lingers. Which state may follow which says [`Life::may_move_to`]; every
//! change goes by it.
//!
//! `Life` decides and nothing else does: the shard carries out. What comes with something to be
//! carried (bytes, an event, what was missed, a gap, a token) is answered in a type of its own, so
//! that whoever has that in hand sees all that may be done with it; all else is an [`Input`], and
//! answered by an [`Act`].

use std::io::ErrorKind;

use hub::DisconnectReason;

use super::act::{Act, BytesAct, EventAct, GapAct, MissedAct, SaidAct, TokenAct};

/// Where a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Life {
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
    /// The time has come that [`Life`] waits for.
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

impl Life {
    /// What is to be done with bytes of its client, who may send messages or not.
    pub(crate) fn on_bytes(self, sends_messages: bool) -> BytesAct {
        match self {
            Life::Leaving(_) => BytesAct::LeaveUnread,
            Life::Handshake => BytesAct::Shake,
            Life::Head | Life::Body | Life::Verifying | Life::Sending => BytesAct::Request,
            Life::Poll | Life::HeldPoll | Life::Between => BytesAct::Request,
            Life::Stream | Life::Held if sends_messages => BytesAct::Message,
            Life::Stream | Life::Held | Life::Ending(_) | Life::Lingering(_) => BytesAct::Discard,
        }
    }

    /// What is to be done with an event for it.
    pub(crate) fn on_event(self) -> EventAct {
        match self {
            Life::Stream | Life::Poll => EventAct::Take,
            Life::Held | Life::HeldPoll => EventAct::Hold,
            Life::Handshake | Life::Head | Life::Body | Life::Verifying => EventAct::Drop,
            Life::Sending | Life::Between => EventAct::Drop,
            Life::Leaving(_) | Life::Ending(_) | Life::Lingering(_) => EventAct::Drop,
        }
    }

    /// What is to be done with what it has missed; `None` where it has asked for nothing, or ends.
    pub(crate) fn on_missed(self) -> Option<MissedAct> {
        match self {
            Life::Held => Some(MissedAct::CatchUp),
            Life::HeldPoll => Some(MissedAct::CatchUpPoll),
            _ => None,
        }
    }

    /// What is to be done when events may be missing that nobody will bring; `None` where nothing
    /// is heard: nothing is missed then, and who comes back has a place of before.
    pub(crate) fn on_gap(self) -> Option<GapAct> {
        match self {
            Life::Stream | Life::Held => Some(GapAct::Tell),
            Life::Poll | Life::HeldPoll => Some(GapAct::TellPoll),
            _ => None,
        }
    }

    /// What is to be done with its token, which is verified; `None` where it ends.
    pub(crate) fn on_token(self) -> Option<TokenAct> {
        match self {
            Life::Verifying => Some(TokenAct::Readmit),
            Life::Stream | Life::Held => Some(TokenAct::Renew),
            _ => None,
        }
    }

    /// What is to be done with what is said to it alone; `None` where it is not heard.
    pub(crate) fn on_said(self) -> Option<SaidAct> {
        match self {
            Life::Stream | Life::Held => Some(SaidAct::Tell),
            Life::Sending => Some(SaidAct::Answer),
            _ => None,
        }
    }

    /// What is to be done when `input` happens. It is `blocked` when the kernel has no room for
    /// what waits.
    pub(crate) fn on(self, input: Input, blocked: bool) -> Act {
        match input {
            Input::Time(due) => self.on_time(due),
            Input::End => self.on_end(),
            Input::Broken(kind) => self.on_broken(kind),
            Input::Written => self.on_written(),
            Input::Disconnect(reason) => self.on_disconnect(reason, blocked),
        }
    }

    fn on_time(self, due: Due) -> Act {
        use DisconnectReason::{Idle, SlowReader, TlsTimeout, TokenExpired};
        let Due { blocked, late, expired } = due;
        match self {
            Life::Leaving(_) => Act::Nothing,
            Life::Handshake => cut(TlsTimeout),
            Life::Head => Act::RefuseLate,
            Life::Body => Act::RefuseBody,
            Life::Verifying => Act::RefuseToken,
            Life::Sending => Act::RefuseSend,
            Life::Stream | Life::Held if expired => Act::EndStream(TokenExpired),
            Life::Stream | Life::Held if blocked => cut(SlowReader),
            Life::Stream | Life::Held if late => Act::RefuseMessage,
            Life::Stream | Life::Held => Act::KeepAlive,
            Life::Poll => Act::Answer,
            Life::HeldPoll => Act::WaitOn,
            Life::Between if blocked => cut(SlowReader),
            Life::Between => close(Idle),
            Life::Ending(reason) => cut(reason),
            Life::Lingering(reason) => close(reason),
        }
    }

    fn on_end(self) -> Act {
        match self {
            // Of an ending one the last answer may still be on its way: it has only ended its own
            // side.
            Life::Leaving(_) | Life::Ending(_) => Act::Nothing,
            Life::Lingering(reason) => close(reason),
            Life::Handshake | Life::Head | Life::Body | Life::Verifying | Life::Sending => {
                close(DisconnectReason::ClientClosed)
            }
            Life::Between => close(DisconnectReason::ClientClosed),
            Life::Stream | Life::Held | Life::Poll | Life::HeldPoll => {
                close(DisconnectReason::ClientClosed)
            }
        }
    }

    fn on_broken(self, kind: ErrorKind) -> Act {
        match (self, kind) {
            (Life::Leaving(_), _) => Act::Nothing,
            (Life::Ending(reason), ErrorKind::InvalidData) => Act::Fail(reason),
            (Life::Ending(reason) | Life::Lingering(reason), _) => cut(reason),
            (_, ErrorKind::TimedOut) => cut(DisconnectReason::ClientVanished),
            // A close over what it goes on to say would be a reset, and the alert lost with it.
            (_, ErrorKind::InvalidData) => Act::Fail(DisconnectReason::TlsFailed),
            _ => cut(DisconnectReason::ClientReset),
        }
    }

    fn on_written(self) -> Act {
        match self {
            Life::Held => Act::Ask,
            Life::Between => Act::ReadOn,
            Life::Ending(reason) => Act::Linger(reason),
            Life::Handshake | Life::Head | Life::Body | Life::Verifying => Act::Nothing,
            Life::Sending | Life::Stream => Act::Nothing,
            Life::Poll | Life::HeldPoll | Life::Leaving(_) | Life::Lingering(_) => Act::Nothing,
        }
    }

    fn on_disconnect(self, reason: DisconnectReason, blocked: bool) -> Act {
        match self {
            Life::Handshake | Life::Head | Life::Body | Life::Verifying => close(reason),
            Life::Sending => Act::EndBehindAnswer,
            Life::Stream | Life::Held => Act::EndStream(reason),
            Life::Poll | Life::HeldPoll => Act::AnswerLast(reason),
            Life::Between if blocked => Act::Finish(reason),
            Life::Between => close(reason),
            Life::Leaving(_) | Life::Ending(_) | Life::Lingering(_) => Act::Nothing,
        }
    }

    /// Whether `next` may follow.
    pub(crate) fn may_move_to(self, next: Life) -> bool {
        use Life::{
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
            Body => matches!(next, Verifying | Sending | Ending(_)),
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
        matches!(self, Life::Stream | Life::Held | Life::Poll | Life::HeldPoll | Life::Leaving(_))
    }

    /// Whether it hears events, at once or once it is known what it has missed.
    pub(crate) fn hears(self) -> bool {
        self.is_logged_in() && !matches!(self, Life::Leaving(_))
    }

    /// Whether events are put by.
    pub(crate) fn is_held(self) -> bool {
        matches!(self, Life::Held | Life::HeldPoll)
    }
}

/// Closes gracefully.
fn close(reason: DisconnectReason) -> Act {
    Act::Close { reason, abort: false }
}

/// Closes with a reset, which forgets what is unsent.
fn cut(reason: DisconnectReason) -> Act {
    Act::Close { reason, abort: true }
}

#[cfg(test)]
mod tests;
