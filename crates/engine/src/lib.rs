//! The data plane: one thread per core, each with its own epoll, listener, connections and timers,
//! and the router that hands events to them.
//!
//! A worker never waits for anything but its epoll: no disk, no DNS, no channel. There is no async
//! runtime here. What a worker must be told, it is told by [mail](mailbox). What it tells the
//! world, it tells by [counters] and [receipts](receipt).
//!
//! ```text
//! router --mail--> mailbox --> worker: wait, tick, read, accept, take mail, write once each
//!                               shard: the sans-io heart, the same in the simulator
//! ```
//!
//! Cost of an idle connection: one 64-byte slot and its place in the directory. Cost of a delivery:
//! one `send` of bytes that exist already.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

mod account;
mod addresses;
mod ahead;
mod answers;
mod backlog;
mod budget;
mod cached;
mod catch_up;
mod channel_notes;
mod channels;
mod client_sends;
mod clock;
mod column;
pub mod config;
mod conn;
mod count;
pub mod counters;
mod fan_outs;
mod form;
mod guest;
mod handing_out;
mod handover;
mod handover_state;
mod history_reads;
mod id_lists;
mod kernel;
mod lane;
pub mod limits;
mod listener;
mod mailbox;
mod mercure_config;
mod notices;
mod origins;
mod outbox;
mod outgoing;
mod past;
mod pauses;
mod pusher_apps;
mod questions;
mod receipt;
mod refused_origins;
mod reports;
mod resume;
mod router;
mod said;
mod service;
mod settings;
mod shard;
mod shared_ids;
mod short_sleep;
mod shortage;
#[cfg(test)]
mod sim;
mod slab;
mod sockets;
mod start;
mod state;
mod texts;
mod timer;
mod tls;
mod tls_figures;
mod token_queue;
mod tokens;
mod turns;
mod watch;
mod well_known;
mod wire;
mod worker;
pub mod workers;

pub use account::Account;
pub use ahead::FutureCursors;
pub use answers::Answers;
pub use channel_notes::{ChannelChange, ChannelNote, ChannelNotes};
pub use channels::{channel_key, channel_name, user_key};
pub use client_sends::{
    CLIENT_SENDS_PER_SECOND_MAX, ClientSend, ClientSendLimits, ClientSendOutcome, ClientSends,
    Publisher, SentBy, SentToChannel, TooMany,
};
pub use config::{AddressLimits, EngineConfig, EventStore, TlsConfig};
pub use counters::{Snapshot, Total, WorkerSnapshot};
pub use guest::{Delivery, Guest, GuestMail};
pub use handing_out::{Counted, HandOutReceiver, HandOuts, HandedOut, LetIn};
pub use handover::{Copying, Handover, HandoverFacts, Predecessor, Takeover};
pub use history_reads::{HistoryRead, HistoryReads};
pub use lane::{LANE_SOCKET, Lane, LaneControl, LaneSocket, LaneTurn};
pub use mercure_config::{METADATA_PATH, MercureConfig, refused_by_hub};
pub use notices::{Notice, Notices};
pub use origins::Origins;
pub use outgoing::Outgoing;
pub use pusher_apps::{AppUsage, PusherApps, ServedApp};
pub use questions::{Asker, Question, Questions};
pub use receipt::{LaneBell, Receipt};
pub use refused_origins::RefusedOrigins;
pub use resume::{ArchiveAnswer, ArchiveQuestion, Resume, ResumeStep, Resumes, Resuming};
pub use router::{GapStep, Remembered, Router, Sending, Step};
pub use said::{Answered, DirectMessage, Followed, ToldText};
pub use settings::Settings;
pub use shared_ids::shared_payload;
pub use start::{Engine, StartError};
pub use sync::replies::Replies;
pub use tls_figures::TlsSnapshot;
pub use token_queue::TokenQueue;
pub use tokens::{Granted, Outcome, Revocation, TokenCheck, TokenConfig, TokenQuestion};
pub use turns::TurnSnapshot;
pub use watch::{FollowedAsk, Late, LateTask, TellStep, Telling, Watch, Watches};
pub use well_known::WellKnown;

/// An event with the frames of our transports, each in the slot that is its
/// [index](proto::Transport::index); behind them stand the two below.
pub type Event = hub::Event<proto::Frame>;

/// Where an event keeps the frame of WebSockets that agreed to compression.
pub(crate) const COMPRESSED_SLOT: usize = proto::Format::COUNT;

/// Where an event keeps its payload as an Erlang term. One that came from an Erlang node has it
/// from the start.
pub const TERM_SLOT: usize = COMPRESSED_SLOT + 1;

// Two forms in one slot would hand one format's bytes to the clients of another.
const _: () = {
    let mut at = 0;
    while at < proto::Format::COUNT {
        let slot = proto::Format::ALL[at].index();
        assert!(slot == at && slot != COMPRESSED_SLOT && slot != TERM_SLOT);
        at += 1;
    }
    assert!(COMPRESSED_SLOT != TERM_SLOT);
};

/// The memory of such events.
pub type History = hub::History<proto::Frame>;

/// Such events on disk.
pub type EventArchive = dyn hub::Archive<proto::Frame>;

/// Whoever writes them there.
pub type FrameStore = dyn hub::EventStore<proto::Frame>;
