//! What a send came to, or why it was not posted: told alike by this server and by the log of a
//! cluster.

use std::time::Duration;

use engine::Event;
use httpd::problem::ApiProblem;
use hub::FollowersError;
use proto::ProblemKind;
use thiserror::Error;

/// How long a mailbox may stay full before the sender is told.
pub const MAILBOX_TIMEOUT: Duration = Duration::from_secs(5);

/// Why an event was not posted.
#[derive(Debug, Error)]
pub enum Unposted {
    /// The workers have more to deliver than they can.
    #[error("a mailbox is full")]
    MailboxFull,
    /// One of its subjects is kept on disk, and that is full or fails.
    #[error("the disk of the log is full or fails")]
    NotKept,
    /// It was posted, and should be on disk, and is not known to be.
    #[error("the event was posted, but is not on disk for sure")]
    NotDurable,
    /// The graph could not be read.
    #[error(transparent)]
    Followers(#[from] FollowersError),
    /// The cluster's log did not take it.
    #[error(transparent)]
    Log(#[from] LogTrouble),
}

/// Why the log of a cluster did not take something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum LogTrouble {
    /// More waits for it than may.
    #[error("too much waits for the cluster's log")]
    Full,
    /// It cannot be reached, or this node is none of its cluster. Nothing is sent.
    #[error("the cluster's log cannot be reached")]
    Away,
    /// The event is too long for it.
    #[error("the event is too long for the cluster's log")]
    TooLarge,
    /// It has several subjects, a sender or a connection that it leaves out, or is of a channel or
    /// of topics, which a node of an earlier version does not read. Nothing is sent.
    #[error("a node of the cluster is of a version that does not know such an event")]
    Older,
    /// It has one of these, and a node has not said whether it reads such events. Nothing is sent.
    #[error("a node of the cluster has not said whether it knows such events")]
    NotSaid,
    /// It did not say whether it took it.
    #[error("the cluster's log did not answer")]
    Silent,
    /// It has the event, which should be on this node's disk, and is not known to be.
    #[error("the event was posted, but is not on disk for sure")]
    NotDurable,
}

/// What a send came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivered {
    /// The event's id as it is written.
    pub id: [u8; 16],
    /// Connections that it was handed to.
    pub count: u32,
    /// There may be more: a node of the cluster has not told its own.
    pub at_least: bool,
}

impl Delivered {
    /// Of an event that this server alone has delivered.
    pub fn of(event: &Event, count: u32) -> Delivered {
        Delivered { id: id(event), count, at_least: false }
    }
}

/// The id as it is written.
pub fn id(event: &Event) -> [u8; 16] {
    event.id().as_bytes().try_into().expect("ids of events have 16 letters and digits")
}

impl From<Unposted> for ApiProblem {
    fn from(unposted: Unposted) -> ApiProblem {
        match unposted {
            Unposted::MailboxFull => ApiProblem::mailbox_full(),
            Unposted::NotKept => ApiProblem::of(
                ProblemKind::DiskFails,
                "This event is about an id that is kept (--keep), and the disk of the log is full \
                 or fails: make room in the data directory, or look at the server's log. Nothing \
                 was sent.",
            )
            .retry_after(1),
            // Without Retry-After: it would be posted twice.
            Unposted::NotDurable | Unposted::Log(LogTrouble::NotDurable) => ApiProblem::of(
                ProblemKind::OutcomeUnknown,
                "The event was posted, but is not on disk for sure: the disk of the log failed. \
                 If you send it again, clients may hear it twice.",
            ),
            Unposted::Followers(error) => error.into(),
            Unposted::Log(LogTrouble::Full) => cluster_log(
                "More waits for the log of the cluster than may: send again a little later. \
                 Nothing was sent.",
            ),
            Unposted::Log(LogTrouble::TooLarge) => ApiProblem::too_large(format!(
                "In a cluster an event has at most {} bytes, its subject included. Send a smaller \
                 one.",
                cluster::limits::EVENT_BYTES_MAX
            )),
            Unposted::Log(LogTrouble::Away) => cluster_log(
                "The log of the cluster (NATS JetStream) cannot be reached: send again when it is \
                 back. Nothing was sent.",
            ),
            Unposted::Log(LogTrouble::Older) => cluster_log(
                "A node of the cluster is of an earlier version, which knows no event about \
                 several ids, of a client, with \"except\", on a channel of Pusher, or on a topic \
                 of Mercure: upgrade it, or send an event without these. Nothing was sent.",
            ),
            Unposted::Log(LogTrouble::NotSaid) => cluster_log(
                "A node of the cluster has not said yet whether it knows events about several ids, \
                 of clients, with \"except\", on channels of Pusher, or on topics of Mercure: send \
                 again a few seconds later. Nothing was sent.",
            ),
            // Without Retry-After, by which clients would send it again of themselves.
            Unposted::Log(LogTrouble::Silent) => ApiProblem::of(
                ProblemKind::OutcomeUnknown,
                "The log of the cluster (NATS JetStream) does not answer: this may still be sent, \
                 once, so look whether it was before you send it again.",
            ),
        }
    }
}

/// 503 for the log's sake: nothing was sent, so it may be sent again.
fn cluster_log(detail: &'static str) -> ApiProblem {
    ApiProblem::of(ProblemKind::ClusterLog, detail).retry_after(1)
}

#[cfg(test)]
mod tests {
    use axum::http::header;
    use axum::response::IntoResponse;

    use super::*;

    #[test]
    fn what_may_still_be_sent_is_not_to_be_sent_again_by_itself() {
        let field = |trouble| {
            let answer = ApiProblem::from(Unposted::Log(trouble)).into_response();
            answer.headers().contains_key(header::RETRY_AFTER)
        };
        assert!(field(LogTrouble::Away) && !field(LogTrouble::Silent));
        assert!(!field(LogTrouble::NotDurable));
    }
}
