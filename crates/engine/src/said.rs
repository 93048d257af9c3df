//! What the control plane says to one connection, or to those who watch a room, which is no event.

use std::sync::Arc;

use hub::{ConnRef, Group, Id, RoomPlace};
use proto::Problem;

use crate::questions::Asker;

/// The connections that a mail is for, all of one worker, sorted by slot.
pub(crate) type Targets = Group;

/// What is said to one connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DirectMessage {
    /// A message on its stream: one JSON text without a line end, which is no event and has no id.
    /// Polls have no word for one.
    Message(Arc<str>),
    /// What has become of something that it has sent: a message of a WebSocket, or the answer to
    /// the request that waits for it. Each send has one.
    Sent(Box<Answered>),
    /// What the request is answered with that reads a page: a JSON object without a line end, or
    /// why there is none. Each has one.
    Page(Box<Result<Box<str>, Problem>>),
    /// Whom the user follows that a connection of the Pusher protocol is signed in as.
    Followed(Box<Followed>),
}

/// Whom a user follows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Followed {
    /// As many as a watchlist holds.
    pub ids: Vec<String>,
    /// There are more.
    pub is_cut: bool,
}

/// What has become of something that a client has sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answered {
    /// A JSON object without a line end, or why it was not sent.
    pub outcome: Result<Box<str>, Problem>,
    /// The JSON text that the answer repeats, where a message has one.
    pub reference: Option<Box<str>>,
}

/// That, and to whom.
#[derive(Debug)]
pub(crate) struct Say {
    pub(crate) target: ConnRef,
    pub(crate) said: DirectMessage,
}

/// What those who watch a room are told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToldText {
    /// A whole list or a change. A poll may be told several, with a comma between two; or nothing,
    /// if it knows all.
    pub text: Arc<str>,
    /// Where one stands who has heard it, if that is known: polls go on from there.
    pub place: Option<RoomPlace>,
}

impl From<Arc<str>> for ToldText {
    fn from(text: Arc<str>) -> ToldText {
        ToldText { text, place: None }
    }
}

/// A text for connections that watch a room, all of one worker.
#[derive(Debug)]
pub(crate) struct RoomText {
    pub(crate) room: Id,
    pub(crate) told: ToldText,
    /// Instead of a list: the channel has no place for who has asked.
    pub(crate) is_full: bool,
    /// Whose question it answers, with a whole list. What is told to all answers nobody's.
    pub(crate) answers: Option<Asker>,
    /// Sorted by slot.
    pub(crate) targets: Targets,
}
