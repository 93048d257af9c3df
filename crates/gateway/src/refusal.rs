//! Why something that an Erlang process asked for was not done: one closed list for answers, the
//! log and the metrics.

use dispatch::outcome::{LogTrouble, Unposted};
use erlang::NoJson;

/// Why not. A call is answered `{error, Reason}` with the text of it as an atom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    /// No request of that service.
    BadRequest,
    /// A term that is no id.
    BadId,
    /// One whose text is longer than an id may be.
    IdTooLong,
    /// A payload that browsers could not read.
    NoJson(NoJson),
    /// The text of `{json, Text}` is not JSON.
    NotJson,
    /// An event that would not fit into a connection's backlog.
    TooLarge,
    /// More waits than may: for this node, or at a worker.
    Overloaded,
    /// The process is gone, or one of Encke's own.
    NoProcess,
    /// The process's node cannot be reached.
    NoConnection,
    /// A process has as many ids as it may have.
    TooManyIds,
    /// The graph could not be read or written.
    Store,
    /// The cluster's log cannot be reached: nothing is sent.
    LogAway,
    /// It does not answer: it may still be sent.
    LogSilent,
    /// The server keeps no members.
    MembersOff,
}

impl Refusal {
    /// How many kinds there are in metrics.
    pub(super) const COUNT: usize = 14;

    /// The kinds, at their [index](Refusal::index).
    pub(super) const KINDS: [&str; Refusal::COUNT] = [
        "bad_request",
        "bad_id",
        "bad_payload",
        "not_json",
        "too_large",
        "overloaded",
        "noproc",
        "noconnection",
        "too_many_ids",
        "store",
        "log_away",
        "log_silent",
        "id_too_long",
        "members_off",
    ];

    /// Its place among the kinds.
    pub(super) fn index(self) -> usize {
        match self {
            Refusal::BadRequest => 0,
            Refusal::BadId => 1,
            Refusal::NoJson(_) => 2,
            Refusal::NotJson => 3,
            Refusal::TooLarge => 4,
            Refusal::Overloaded => 5,
            Refusal::NoProcess => 6,
            Refusal::NoConnection => 7,
            Refusal::TooManyIds => 8,
            Refusal::Store => 9,
            Refusal::LogAway => 10,
            Refusal::LogSilent => 11,
            Refusal::IdTooLong => 12,
            Refusal::MembersOff => 13,
        }
    }

    /// What a caller is told.
    pub(super) fn to_atom(self) -> String {
        match self {
            Refusal::NoJson(why) => why.to_string(),
            other => Refusal::KINDS[other.index()].to_owned(),
        }
    }
}

impl From<Unposted> for Refusal {
    fn from(unposted: Unposted) -> Refusal {
        match unposted {
            Unposted::MailboxFull => Refusal::Overloaded,
            Unposted::Followers(_) | Unposted::NotKept => Refusal::Store,
            Unposted::NotDurable => Refusal::LogSilent,
            Unposted::Log(LogTrouble::Full) => Refusal::Overloaded,
            Unposted::Log(LogTrouble::TooLarge) => Refusal::TooLarge,
            Unposted::Log(LogTrouble::Away | LogTrouble::Older | LogTrouble::NotSaid) => {
                Refusal::LogAway
            }
            Unposted::Log(LogTrouble::Silent | LogTrouble::NotDurable) => Refusal::LogSilent,
        }
    }
}

impl From<NoJson> for Refusal {
    fn from(why: NoJson) -> Refusal {
        Refusal::NoJson(why)
    }
}
