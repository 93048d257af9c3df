//! A stream of the Mercure protocol, as one process writes it down and another reads it.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use topics::list_number;

use super::ConnState;

/// A client of the hub. The ids of the stored graph that it is logged in under are among the ids of
/// its connection.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
#[cbor(map)]
pub(crate) struct SubscriberState {
    /// The keys of what it listens to. A list of grants has its number in them, and comes by
    /// itself.
    #[n(0)]
    #[cbor(default)]
    pub(crate) keys: Vec<String>,
    /// It has shown a token.
    #[n(1)]
    #[cbor(default)]
    pub(crate) has_token: bool,
    /// It may hear who is subscribed.
    #[n(2)]
    #[cbor(default)]
    pub(crate) hears_subscriptions: bool,
    /// What its token tells of it, as JSON.
    #[n(3)]
    pub(crate) payload: Option<String>,
    /// What it is called outside: the upper and the lower half of its number.
    #[n(4)]
    pub(crate) name: Option<(u64, u64)>,
    /// The head of its answer, which waits for what it has missed.
    #[n(5)]
    pub(crate) head: Option<HeadState>,
}

/// A head that is not whole.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(map)]
pub(crate) struct HeadState {
    /// What stands before the field that says where the stream begins.
    #[n(0)]
    pub(crate) before: ByteVec,
    /// The field is that of Mercure 1.0.
    #[n(1)]
    #[cbor(default)]
    pub(crate) is_v1: bool,
    /// The place that its client has asked for.
    #[n(2)]
    #[cbor(default)]
    pub(crate) asked: String,
}

impl ConnState {
    /// Whether it is a stream of the hub, which earlier versions do not take over.
    pub(crate) fn is_of_hub(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.subscriber.is_some())
    }

    /// The lists of grants that it has, by their numbers, each with a key that has it.
    pub(crate) fn lists(&self) -> impl Iterator<Item = (u64, &str)> {
        let subscriber = self.more.iter().flat_map(|more| &more.subscriber);
        let keys = subscriber.flat_map(|subscriber| &subscriber.keys);
        keys.filter_map(|key| Some((list_number(key)?, key.as_str())))
    }
}
