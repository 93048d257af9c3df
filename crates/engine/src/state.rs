//! A connection as one process writes it down and another reads it.
//!
//! CBOR (RFC 8949) with a number for each field. The rules that keep versions apart by one able to
//! read each other: a number is never given away again, a new field is an `Option` or has a
//! default, what is not known is skipped. What has no meaning beside the socket it belongs to (a
//! queue that it is in, the room that the kernel has) is not written.
//!
//! Times are milliseconds from the moment of writing: processes count from different starts.

mod grants;
mod subscriber;

use std::fmt;

use hub::Id;
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use proto::resume::PlaceStyle;
use zeroize::Zeroize;

pub(crate) use self::grants::GrantState;
pub(crate) use self::subscriber::{HeadState, SubscriberState};
use crate::past::{Past, Wanted};

/// All that is kept of one connection: what each has, and what most have not.
#[derive(Clone, PartialEq, Debug, Default, Encode, Decode)]
#[cbor(map)]
pub(crate) struct ConnState {
    /// The number of its descriptor at the one who writes.
    #[n(0)]
    pub(crate) descriptor: u32,
    /// Where it is in its life.
    #[n(1)]
    pub(crate) phase: Phase,
    /// What is noted of it.
    #[n(2)]
    pub(crate) marks: u8,
    /// Its transport, by [`proto::Transport::index`].
    #[n(3)]
    pub(crate) transport: Option<u8>,
    /// An id that it is logged in under, where that is an integer.
    #[n(4)]
    pub(crate) id: Option<u64>,
    /// When its client last took something; of a poll, when it is answered at the latest.
    #[n(5)]
    pub(crate) active_ms: i64,
    #[n(6)]
    pub(crate) more: Option<Box<More>>,
    /// The id that its client knows it by: of a stream.
    #[n(7)]
    pub(crate) connection_id: Option<u64>,
}

/// Where a connection is, as [`State`](crate::conn::state::State) knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
#[cbor(index_only)]
pub(crate) enum Phase {
    #[n(0)]
    #[default]
    Head,
    #[n(1)]
    Handshake,
    #[n(2)]
    Stream,
    #[n(3)]
    Held,
    #[n(4)]
    Poll,
    #[n(5)]
    HeldPoll,
    #[n(6)]
    Between,
    #[n(7)]
    Ending,
    #[n(8)]
    Lingering,
}

/// What most connections have not.
#[derive(Clone, PartialEq, Debug, Default, Encode, Decode)]
#[cbor(map)]
pub(crate) struct More {
    /// Why it ends, as [`hub::DisconnectReason::as_str`] has it.
    #[n(0)]
    pub(crate) reason: Option<String>,
    /// The other ids that it is logged in under, as texts.
    #[n(1)]
    #[cbor(default)]
    pub(crate) ids: Vec<String>,
    #[n(2)]
    pub(crate) messages: Option<u32>,
    /// When the time of its token is over.
    #[n(3)]
    pub(crate) expires_ms: Option<i64>,
    /// By what its token is found when it is revoked: the token, its subject, when it was made.
    #[n(4)]
    pub(crate) session: Option<(u32, u32, u32)>,
    /// What its token grants, where that is kept.
    #[n(5)]
    pub(crate) grant: Option<GrantState>,
    /// Bytes of its client that are not dealt with.
    #[n(6)]
    pub(crate) unread: Option<ByteVec>,
    /// A WebSocket's message that is not whole.
    #[n(7)]
    pub(crate) partial: Option<PartialState>,
    /// Bytes that its client has not taken, from the first that is not sent on.
    #[n(8)]
    pub(crate) unsent: Option<ByteVec>,
    /// Up to this number its client has been handed all.
    #[n(9)]
    pub(crate) after: Option<u64>,
    /// What it has missed since then has been asked for, and not answered.
    #[n(10)]
    #[cbor(default)]
    pub(crate) asks: bool,
    /// The page's origin that is named in the answer to a poll.
    #[n(11)]
    pub(crate) origin: Option<String>,
    /// A token in a message is being verified, and nobody will answer.
    #[n(12)]
    #[cbor(default)]
    pub(crate) token_asked: bool,
    /// For which address it counts.
    #[n(13)]
    pub(crate) source: Option<u64>,
    /// Whether its peer is believed: 1 for fields, 2 for a header too.
    #[n(14)]
    pub(crate) trust: Option<u8>,
    /// TLS, where it speaks that.
    #[n(15)]
    pub(crate) secured: Option<Secured>,
    /// What it wants of the time before it, and where it stands then in place of `after`.
    #[n(18)]
    pub(crate) past: Option<PastState>,
    /// The subject of its token, which is a member of what it is logged in under.
    #[n(20)]
    pub(crate) subject: Option<String>,
    /// What others are told of that one: JSON.
    #[n(21)]
    pub(crate) info: Option<String>,
    /// The rooms of which it is told who is there.
    #[n(22)]
    #[cbor(default)]
    pub(crate) watches: Vec<String>,
    /// What it is at its app, where it speaks the Pusher protocol.
    #[n(23)]
    pub(crate) pusher: Option<PusherState>,
    /// What it is at the hub, where it speaks the Mercure protocol.
    #[n(24)]
    pub(crate) subscriber: Option<SubscriberState>,
}

/// A connection that speaks the Pusher protocol. Its channels are among its ids.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
#[cbor(map)]
pub(crate) struct PusherState {
    /// The key of its app.
    #[n(0)]
    pub(crate) app: String,
    /// The user that it is signed in as: its id, what is told of it, and its watchlist.
    #[n(1)]
    pub(crate) user: Option<(String, Option<String>, Vec<String>)>,
    /// The presence channels that it is in, or waits to be: two keys, and what is told of it.
    #[n(2)]
    #[cbor(default)]
    pub(crate) seats: Vec<(String, String, Option<String>)>,
    /// The keys of channels of which it waits for what it missed, and the last number it heard.
    #[n(3)]
    #[cbor(default)]
    pub(crate) missed: Vec<(String, u64)>,
    /// The keys of channels of which it is still to be told where it is, or (`true`) that it has
    /// missed something: an older version forgets them.
    #[n(4)]
    #[cbor(default)]
    pub(crate) pending: Vec<(String, bool)>,
}

/// What a stream wants of the time before it; see [`Past`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
#[cbor(map)]
pub(crate) struct PastState {
    #[n(0)]
    pub(crate) after: u64,
    #[n(1)]
    pub(crate) begun: u64,
    /// So many of each id; 0 where all are wanted.
    #[n(2)]
    pub(crate) last: Option<u32>,
    /// The texts of ids, and above which number their last events stand.
    #[n(3)]
    pub(crate) floors: Option<Vec<(String, u64)>>,
    /// How it is told where it stands: 1 in lines, 2 in blocks, 3 in a message.
    #[n(4)]
    pub(crate) told: Option<u8>,
}

impl PastState {
    /// The state of `past` of one who is told all up to the number `after`.
    pub(crate) fn of(past: &Past, after: u64, text: impl Fn(Id) -> Option<String>) -> PastState {
        let floor = |&(id, floor): &(Id, u64)| Some((text(id)?, floor));
        let (last, floors) = match &past.wanted {
            Wanted::Since => (None, None),
            Wanted::Earliest => (Some(0), None),
            Wanted::Last(most) => (Some(*most), None),
            Wanted::Above(floors) => (None, Some(floors.iter().filter_map(floor).collect())),
        };
        let told = match past.told {
            PlaceStyle::InHead => None,
            PlaceStyle::InLine => Some(1),
            PlaceStyle::InBlock => Some(2),
            PlaceStyle::InMessage => Some(3),
        };
        PastState { after, begun: past.begun, last, floors, told }
    }

    /// What it was of, where ids are found by their texts.
    pub(crate) fn into_past(self, id: impl Fn(&str) -> Option<Id>) -> Past {
        let wanted = match (self.last, self.floors) {
            (None, None) => Wanted::Since,
            (Some(0), _) => Wanted::Earliest,
            (Some(most), _) => Wanted::Last(most),
            (None, Some(floors)) => {
                let floors = floors.iter().filter_map(|(text, floor)| Some((id(text)?, *floor)));
                Wanted::Above(floors.collect())
            }
        };
        let told = match self.told {
            Some(1) => PlaceStyle::InLine,
            Some(2) => PlaceStyle::InBlock,
            Some(3) => PlaceStyle::InMessage,
            _ => PlaceStyle::InHead,
        };
        Past { begun: self.begun, wanted, told }
    }
}

/// What has come of a WebSocket's message.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
#[cbor(map)]
pub(crate) struct PartialState {
    /// As [`proto::websocket::Reader`] writes itself down.
    #[n(0)]
    pub(crate) reader: ByteVec,
    #[n(1)]
    pub(crate) bytes: ByteVec,
    #[n(2)]
    pub(crate) since_ms: i64,
}

/// What there is of TLS on a connection. Its keys are wiped when it is dropped, and never printed.
#[derive(Clone, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(map)]
pub(crate) struct Secured {
    /// As [`tls::Keys`] writes them down; none as long as its client's hello is not whole.
    #[n(0)]
    pub(crate) keys: Option<ByteVec>,
    /// Its peer has broken the rules.
    #[n(1)]
    #[cbor(default)]
    pub(crate) faulty: bool,
    /// Bytes of its client that are not opened.
    #[n(2)]
    pub(crate) sealed: Option<ByteVec>,
    /// Text that is opened and not taken.
    #[n(3)]
    pub(crate) text: Option<ByteVec>,
    /// Bytes for its client that the kernel has not taken.
    #[n(4)]
    pub(crate) unsent: Option<ByteVec>,
    /// They end with a byte of text that was not reported as sent.
    #[n(5)]
    #[cbor(default)]
    pub(crate) owes_byte: bool,
}

impl fmt::Debug for Secured {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Secured").finish_non_exhaustive()
    }
}

impl Drop for Secured {
    fn drop(&mut self) {
        self.keys.iter_mut().for_each(|keys| keys.zeroize());
    }
}

impl ConnState {
    /// Appends it to `out`.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        // Into memory nothing fails.
        let _ = minicbor::encode(self, out);
    }

    /// The states that `bytes` are made of, one after the other; `None` where they are no such
    /// thing.
    pub(crate) fn read_all(bytes: &[u8]) -> impl Iterator<Item = Option<ConnState>> + '_ {
        let mut decoder = minicbor::Decoder::new(bytes);
        let mut is_good = true;
        std::iter::from_fn(move || {
            if !is_good || decoder.position() >= bytes.len() {
                return None;
            }
            let state = decoder.decode().ok();
            is_good = state.is_some();
            Some(state)
        })
    }
}

#[cfg(test)]
mod tests;
