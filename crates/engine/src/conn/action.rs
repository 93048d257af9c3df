//! What is to be done with a connection, as its [`State`](super::state::State) decides.

use hub::DisconnectReason;

/// What is to be done with bytes of its client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BytesAction {
    /// Leave them where they are.
    LeaveUnread,
    /// Go on with the handshake.
    Handshake,
    /// Read them as requests; what comes too early is put by.
    Request,
    /// Read them as messages.
    Message,
    /// Read and forget them, within a bound.
    Discard,
}

/// What is to be done with an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EventAction {
    /// Put it into the outbox.
    Take,
    /// Put it by.
    Hold,
    /// It has come too late.
    Drop,
}

/// What is to be done with what was missed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MissedAction {
    /// Hand it over to a stream.
    CatchUp,
    /// Hand it over to a poll.
    CatchUpPoll,
}

/// What is to be done when something is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GapAction {
    /// Say so on the stream, in place of what it has asked for.
    Tell,
    /// Tell it in the answer to a poll.
    TellPoll,
}

/// What is to be done with what a token was found to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TokenAction {
    /// Read the request again.
    Readmit,
    /// Go on with another token, or as before.
    Renew,
}

/// What is to be done with what is said to it alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DirectMessageAction {
    /// Tell it on the stream.
    Tell,
    /// Answer its request with it.
    Answer,
}

/// What is to be done, with nothing but the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// Nothing.
    Nothing,
    /// Close: gracefully, or with a reset that forgets what is unsent.
    Close {
        /// Why.
        reason: DisconnectReason,
        /// With a reset.
        abort: bool,
    },
    /// Answer that the head did not come in time.
    RefuseLate,
    /// Answer that the body did not come in time.
    RefuseBody,
    /// Answer that there was no time for its token.
    RefuseToken,
    /// Answer that nobody has said in time what became of its event.
    RefuseSend,
    /// Answer that the message did not come in time, and end.
    RefuseMessage,
    /// Send what says that the stream is alive.
    KeepAlive,
    /// Answer the poll.
    Answer,
    /// End the connection behind the answer that it waits for.
    EndBehindAnswer,
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
    /// Send what waits and the end of the stream.
    EndStream(DisconnectReason),
    /// Send what waits, then end.
    Finish(DisconnectReason),
}
