//! This is what Encke knows while it runs, as pure data: ids and their names, events, and who is
//! online where. It also knows who follows whom as far as a sender must ask, and what was sent of
//! late.
//!
//! This crate does no IO, reads no clock and starts no thread. Its tables are shared by all workers
//! and senders. They are striped, and a stripe's lock is held for a few look-ups or one change.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

mod archive;
mod audience;
mod bound;
mod bucket_table;
mod changes;
mod conn_ref;
mod conn_set;
mod connection_id;
mod directory;
mod disconnect;
mod epoch;
mod epochs;
mod event;
mod event_id;
mod event_store;
mod followers;
mod frames;
mod grant;
mod history;
mod id;
mod id_hash;
mod id_patterns;
mod key;
mod keys;
mod members;
mod names;
mod page;
mod pair_hash;
mod sketch;
mod tables;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod texts;
mod token_uses;

pub use archive::{Archive, ArchiveError, KeptBounds, KeptListener, kept_under};
pub use audience::{Audience, Group, Need};
pub use bound::Bound;
pub use bucket_table::BucketTable;
pub use changes::{Change, Changes};
pub use conn_ref::ConnRef;
pub use connection_id::{ConnectionId, ConnectionIds, LeftOut};
pub use directory::Directory;
pub use disconnect::DisconnectReason;
pub use epoch::{Epoch, EventIds, Place};
pub use event::{Draft, Event, EventError, EventParts, LineForm, Payload};
pub use event::{KEY_EVENT_NAME_BYTES_MAX, LINE_BYTES, NAME_BYTES_MAX, SUBJECTS_MAX};
pub use event_id::{EventId, Tag};
pub use event_store::{EventStore, KeepRoom, NoRoomToKeep, WhenDurable};
pub use followers::{Followers, FollowersError, Nobody, SLICE_MAX, Subscription};
pub use grant::{Claims, Grant, INFO_BYTES_MAX, TalkGrant, TokenRefusal};
pub use history::{Above, Begun, History, HistoryLimits, HistoryStats, Since, Slice, Snapshot};
pub use history::{BadRule, HistoryRule, HistoryRules};
pub use history::{EvictedRange, EvictedRule, Lack, PagePart, Remembered};
pub use id::{ID_BYTES_MAX, Id, IdError, IdText, NarrowId};
pub use id_hash::IdHash;
pub use id_patterns::{BadPatterns, IdPatterns, PATH_BYTES_MAX, PATTERNS_MAX, is_path};
pub use key::{KEY_BYTES_MAX, KEY_MARK, KEY_NAME_BYTES_MAX, Key, Space};
pub use members::{
    Info, ListLimits, ListedMember, Manner, MemberChange, MemberList, MemberUpdate, Members, Roster,
};
pub use members::{RoomPlace, ToldRooms, ToldSince, leave_out, listed_bytes};
pub use names::{IdsFull, Names};
pub use page::{KeptUpdatesOf, KeptUpdatesPage, Page, PageOf};
pub use pair_hash::{BUCKETS, PairHash, pair_hash};
pub use sketch::{AddressKey, AddressKeys, CountSketch, RateSketch};
pub use token_uses::TokenUses;
