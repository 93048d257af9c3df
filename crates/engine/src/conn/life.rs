//! The life of a connection: where it is, and what is to be done when something happens to it.
//!
//! The table, with a line for each state. What is not in it cannot happen, or means nothing:
//!
//! | state | bytes | end | event | its time | written | missed known | gap | disconnect |
//! | --- | --- | --- | --- | --- | --- | --- | --- | --- |
//! | `Handshake` | shake hands | close | drop | cut | | | | close |
//! | `Head` | request | close | drop | refuse, 408 | | | | close |
//! | `Verifying` | put by | close | drop | refuse, 503 | | | | close |
//! | `Stream` | message, discard | close | take | keep alive, refuse, cut | | | tell | end stream |
//! | `Held` | message, discard | close | hold | the same | ask | catch up | tell | end stream |
//! | `Poll` | request, put by | close | take | answer | | | tell | answer, last |
//! | `HeldPoll` | request, put by | close | hold | wait on | | catch up | tell | answer, last |
//! | `Between` | request | close | drop | close, or cut | read on | | | close, or end |
//! | `Leaving` | leave unread | | drop | | | | | |
//! | `Ending` | discard | | drop | cut | linger | | | |
//! | `Lingering` | discard | close | drop | close | | | | |
//!
//! `Verifying` and the two streams know one more input, that a token is verified: the one goes back
//! to its request, the others go on with another token or as they did. When the time of a stream's
//! token is over, the stream is ended before anything else that its time asks for.
//!
//! A connection that breaks is closed in each of them. One that breaks the rules of TLS is told so,
//! hears nothing more, and lingers. Which state may follow which says [`Life::may_move_to`]; every
//! change goes by it.
//!
//! [`Life::on`] decides and nothing else does: the shard carries out. A new protocol is a line
//! here.

use std::io::ErrorKind;

use hub::DisconnectReason;

/// Where a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Life {
    /// It begins with TLS, of which the handshake is not done.
    Handshake,
    /// Its request head is not complete.
    Head,
    /// Its request head is complete, and its token is being verified.
    Verifying,
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

/// What happens to a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Input {
    /// Bytes of its client have come.
    Bytes,
    /// Its client has ended its side.
    End,
    /// It is broken.
    Broken(ErrorKind),
    /// There is an event for it.
    Event,
    /// The time has come that [`Life`] waits for.
    Time,
    /// All that waited for it is written.
    Written,
    /// It is known what it has missed.
    Missed,
    /// Events may be missing that nobody will bring.
    Gap,
    /// Its token is verified.
    TokenVerified,
    /// It is to end, gracefully.
    Disconnect(DisconnectReason),
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    /// Nothing.
    Nothing,
    /// Go on with the handshake.
    Shake,
    /// Read the bytes as requests; what comes too early is put by.
    Request,
    /// Read the bytes as messages.
    Message,
    /// Read the bytes and forget them, within a bound.
    Discard,
    /// Leave the bytes where they are.
    LeaveUnread,
    /// Close: gracefully, or with a reset that forgets what is unsent.
    Close {
        /// Why.
        reason: DisconnectReason,
        /// With a reset.
        abort: bool,
    },
    /// Put the event into the outbox.
    Take,
    /// Put the event by.
    Hold,
    /// The event has come too late.
    Drop,
    /// Answer that the head did not come in time.
    RefuseLate,
    /// Answer that there was no time for its token.
    RefuseToken,
    /// Answer that the message did not come in time, and end.
    RefuseMessage,
    /// Send what says that the stream is alive.
    KeepAlive,
    /// Answer the poll.
    Answer,
    /// Answer the poll and end the connection.
    AnswerLast(DisconnectReason),
    /// Wait again.
    WaitOn,
    /// Ask for more of what was missed.
    Ask,
    /// Read what was put by.
    ReadOn,
    /// End our side, and wait for the client's.
    Linger(DisconnectReason),
    /// End our side and wait for the client's, and forget what waits to be sent.
    Fail(DisconnectReason),
    /// Hand over what was missed: to a stream.
    CatchUp,
    /// Hand over what was missed: to a poll.
    CatchUpPoll,
    /// Say on the stream that something is missing, in place of what it has asked for.
    TellGap,
    /// Tell a gap in the answer to a poll.
    TellGapPoll,
    /// Read its request again, with what its token is found to be.
    Readmit,
    /// Go on with another token.
    Renew,
    /// Send what waits and the end of the stream.
    EndStream(DisconnectReason),
    /// Send what waits, then end.
    Finish(DisconnectReason),
}

/// What else a decision looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Facts {
    /// Its client may send messages.
    pub(crate) sends_messages: bool,
    /// The kernel has no room for what waits; where it is its time, it has had none for too long.
    pub(crate) blocked: bool,
    /// Its message has taken too long.
    pub(crate) late: bool,
    /// The time of its token is over.
    pub(crate) expired: bool,
}

impl Life {
    /// What is to be done when `input` happens.
    pub(crate) fn on(self, input: Input, facts: Facts) -> Act {
        use DisconnectReason::{
            ClientClosed, ClientReset, ClientVanished, Idle, SlowReader, TlsFailed, TlsTimeout,
            TokenExpired,
        };
        use Life::{
            Between, Ending, Handshake, Head, Held, HeldPoll, Leaving, Lingering, Poll, Stream,
            Verifying,
        };
        let Facts { sends_messages, blocked, late, expired } = facts;
        let close = |reason| Act::Close { reason, abort: false };
        let cut = |reason| Act::Close { reason, abort: true };
        match (self, input) {
            (Leaving(_), Input::Bytes | Input::End | Input::Broken(_)) => Act::LeaveUnread,
            (Leaving(_), Input::Event) => Act::Drop,
            (Leaving(_), _) => Act::Nothing,

            (Ending(reason), Input::Broken(ErrorKind::InvalidData)) => Act::Fail(reason),
            (Ending(reason) | Lingering(reason), Input::Broken(_)) => cut(reason),
            (_, Input::Broken(ErrorKind::TimedOut)) => cut(ClientVanished),
            // A close over what it goes on to say would be a reset, and the alert lost with it.
            (_, Input::Broken(ErrorKind::InvalidData)) => Act::Fail(TlsFailed),
            (_, Input::Broken(_)) => cut(ClientReset),

            (Handshake, Input::Bytes) => Act::Shake,
            (Head | Verifying | Poll | HeldPoll | Between, Input::Bytes) => Act::Request,
            (Stream | Held, Input::Bytes) if sends_messages => Act::Message,
            (Stream | Held | Ending(_) | Lingering(_), Input::Bytes) => Act::Discard,

            (
                Handshake | Head | Verifying | Stream | Held | Poll | HeldPoll | Between,
                Input::End,
            ) => close(ClientClosed),
            // Its last answer may still be on its way: it has only ended its own side.
            (Ending(_), Input::End) => Act::Nothing,
            (Lingering(reason), Input::End) => close(reason),

            (Stream | Poll, Input::Event) => Act::Take,
            (Held | HeldPoll, Input::Event) => Act::Hold,
            (Handshake | Head | Verifying | Between | Ending(_) | Lingering(_), Input::Event) => {
                Act::Drop
            }

            (Handshake, Input::Time) => cut(TlsTimeout),
            (Head, Input::Time) => Act::RefuseLate,
            (Verifying, Input::Time) => Act::RefuseToken,
            (Stream | Held, Input::Time) if expired => Act::EndStream(TokenExpired),
            (Stream | Held, Input::Time) if blocked => cut(SlowReader),
            (Stream | Held, Input::Time) if late => Act::RefuseMessage,
            (Stream | Held, Input::Time) => Act::KeepAlive,
            (Poll, Input::Time) => Act::Answer,
            (HeldPoll, Input::Time) => Act::WaitOn,
            (Between, Input::Time) if blocked => cut(SlowReader),
            (Between, Input::Time) => close(Idle),
            (Ending(reason), Input::Time) => cut(reason),
            (Lingering(reason), Input::Time) => close(reason),

            (Held, Input::Written) => Act::Ask,
            (Between, Input::Written) => Act::ReadOn,
            (Ending(reason), Input::Written) => Act::Linger(reason),
            (
                Handshake | Head | Verifying | Stream | Poll | HeldPoll | Lingering(_),
                Input::Written,
            ) => Act::Nothing,

            (Held, Input::Missed) => Act::CatchUp,
            (HeldPoll, Input::Missed) => Act::CatchUpPoll,
            (_, Input::Missed) => Act::Nothing,

            (Stream | Held, Input::Gap) => Act::TellGap,
            (Poll | HeldPoll, Input::Gap) => Act::TellGapPoll,
            // Who hears nothing has missed nothing, and comes back with a place of before.
            (_, Input::Gap) => Act::Nothing,

            (Verifying, Input::TokenVerified) => Act::Readmit,
            (Stream | Held, Input::TokenVerified) => Act::Renew,
            (_, Input::TokenVerified) => Act::Nothing,

            (Handshake | Head | Verifying, Input::Disconnect(reason)) => close(reason),
            (Stream | Held, Input::Disconnect(reason)) => Act::EndStream(reason),
            (Poll | HeldPoll, Input::Disconnect(reason)) => Act::AnswerLast(reason),
            (Between, Input::Disconnect(reason)) if blocked => Act::Finish(reason),
            (Between, Input::Disconnect(reason)) => close(reason),
            (Ending(_) | Lingering(_), Input::Disconnect(_)) => Act::Nothing,
        }
    }

    /// Whether `next` may follow.
    pub(crate) fn may_move_to(self, next: Life) -> bool {
        use Life::{
            Between, Ending, Handshake, Head, Held, HeldPoll, Leaving, Lingering, Poll, Stream,
            Verifying,
        };
        match self {
            Leaving(_) => matches!(next, Between | Ending(_)),
            Lingering(_) => false,
            _ if matches!(next, Lingering(_)) => true,
            Handshake => next == Head,
            Head => {
                matches!(next, Handshake | Verifying | Stream | Held | Poll | HeldPoll | Ending(_))
            }
            Verifying => matches!(next, Head | Ending(_)),
            Stream => matches!(next, Held | Leaving(_) | Ending(_)),
            Held => matches!(next, Stream | Leaving(_) | Ending(_)),
            Poll | HeldPoll => matches!(next, Poll | Between | Leaving(_)),
            Between => {
                matches!(next, Head | Verifying | Poll | HeldPoll | Ending(_) | Stream | Held)
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

#[cfg(test)]
mod tests {
    use super::*;

    const REASON: DisconnectReason = DisconnectReason::LoggedOut;

    const ALL: [Life; 11] = [
        Life::Handshake,
        Life::Head,
        Life::Verifying,
        Life::Stream,
        Life::Held,
        Life::Poll,
        Life::HeldPoll,
        Life::Between,
        Life::Leaving(Leave::Cut(REASON)),
        Life::Ending(REASON),
        Life::Lingering(REASON),
    ];

    fn facts() -> impl Iterator<Item = Facts> {
        (0..16).map(|bits| Facts {
            sends_messages: bits & 1 > 0,
            blocked: bits & 2 > 0,
            late: bits & 4 > 0,
            expired: bits & 8 > 0,
        })
    }

    /// Whether a connection may be ended and go, from each state, by its time alone or by its turn.
    #[test]
    fn every_state_has_an_end() {
        for life in ALL {
            let goes = facts().any(|facts| {
                matches!(
                    life.on(Input::Time, facts),
                    Act::Close { .. }
                        | Act::RefuseLate
                        | Act::RefuseToken
                        | Act::Answer
                        | Act::WaitOn
                )
            });
            assert!(goes || matches!(life, Life::Leaving(_)), "{life:?} stays for ever");
        }
    }

    #[test]
    fn broken_connection_is_closed_unless_it_is_to_leave() {
        for (life, facts) in ALL.into_iter().flat_map(|life| facts().map(move |f| (life, f))) {
            let act = life.on(Input::Broken(ErrorKind::ConnectionReset), facts);
            let closes = matches!(act, Act::Close { abort: true, .. });
            assert_eq!(closes, !matches!(life, Life::Leaving(_)), "{life:?}");
        }
    }

    #[test]
    fn who_breaks_the_rules_of_tls_is_told_so_unless_it_knows_or_is_to_leave() {
        for (life, facts) in ALL.into_iter().flat_map(|life| facts().map(move |f| (life, f))) {
            let act = life.on(Input::Broken(ErrorKind::InvalidData), facts);
            let lingers = !matches!(life, Life::Leaving(_) | Life::Lingering(_));
            assert_eq!(matches!(act, Act::Fail(_)), lingers, "{life:?}");
            assert_eq!(life.may_move_to(Life::Lingering(REASON)), lingers, "{life:?}");
        }
    }

    #[test]
    fn event_is_taken_by_exactly_those_who_hear() {
        for (life, facts) in ALL.into_iter().flat_map(|life| facts().map(move |f| (life, f))) {
            let act = life.on(Input::Event, facts);
            assert_eq!(matches!(act, Act::Take | Act::Hold), life.hears(), "{life:?}");
            assert_eq!(act == Act::Hold, life.is_held(), "{life:?}");
        }
    }

    #[test]
    fn gap_is_told_to_exactly_those_who_hear() {
        for (life, facts) in ALL.into_iter().flat_map(|life| facts().map(move |f| (life, f))) {
            let act = life.on(Input::Gap, facts);
            assert_eq!(matches!(act, Act::TellGap | Act::TellGapPoll), life.hears(), "{life:?}");
        }
    }

    #[test]
    fn who_is_logged_in_is_logged_out_before_its_end() {
        for (from, to) in ALL.into_iter().flat_map(|from| ALL.map(|to| (from, to))) {
            if matches!(from, Life::Ending(_) | Life::Lingering(_)) {
                assert!(!from.may_move_to(to) || !to.is_logged_in(), "{from:?} to {to:?}");
            }
        }
    }
}
