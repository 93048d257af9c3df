//! Why a request about a stream is refused.

use std::io;

/// Why a request is refused. Nothing was changed, unless it is [`Refusal::Unsure`].
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// There is no such stream.
    #[error("there is no stream at this path")]
    Unknown,
    /// The stream was deleted, and forks read it.
    #[error("this stream was deleted; it is only kept for its forks")]
    Gone,
    /// A stream that was deleted is at the path, or would be the source.
    #[error("a stream that was deleted is still at this path, since forks of it need its content")]
    Needed,
    /// The fork's place is in no append of its source.
    #[error("Stream-Fork-Sub-Offset is beyond the end of the append at Stream-Fork-Offset")]
    SubOffset,
    /// What the fork has of an append and its own content are more than an append may be.
    #[error("the part of an append that the fork has and its body have together over {0} bytes")]
    Prefix(usize),
    /// There are as many forks of the stream as the file system allows.
    #[error("this stream has as many forks as the file system allows: fork one of these")]
    Forks,
    /// The fork would have too many ancestors.
    #[error("a fork has at most {0} streams above it: fork one of these")]
    Ancestors(usize),
    /// The stream exists in another form.
    #[error("the stream exists with another type, lifetime or state")]
    Exists,
    /// The stream is closed; its tail.
    #[error("the stream is closed")]
    Closed(crate::Offset),
    /// The body has another type than the stream.
    #[error("the body has another Content-Type than the stream, which is {0}")]
    OtherType(Box<str>),
    /// `Stream-Seq` does not grow.
    #[error("Stream-Seq must be greater than the last one, byte by byte")]
    Sequence,
    /// The producer's epoch is lower than this one, which is known.
    #[error("another writer has taken over with epoch {0}")]
    StaleEpoch(u64),
    /// A new epoch begins with another sequence than 0.
    #[error("a new epoch begins with Producer-Seq 0")]
    EpochStart,
    /// Requests of the producer are missing.
    #[error("requests of this producer are missing: expected Producer-Seq {expected}")]
    Gap {
        /// The sequence that would be next.
        expected: u64,
        /// The sequence that came.
        received: u64,
    },
    /// The stream has as many producers as it may.
    #[error("this stream has had {0} producers, the most that it may")]
    Producers(usize),
    /// The offset belongs to a stream that was at this path before.
    #[error("this offset belongs to a stream that was deleted: begin with offset=-1")]
    OldOffset,
    /// The offset is none of this stream's.
    #[error("this is no offset of this stream")]
    BadOffset,
    /// What was appended last is not told yet, or what is told of all streams has no more room.
    #[error(
        "this stream takes nothing more until its last append is sent as an event, which is not \
         possible now"
    )]
    Pending,
    /// A long append is to be read, and whoever asks does not wait until others have read theirs.
    #[error("a long append is to be read, and a few of those are read at one time: try again")]
    Long,
    /// All streams together have as many bytes as they may.
    #[error("all streams together have {0} bytes, the most that they may: delete some")]
    Full(u64),
    /// Bytes of the stream's file are not what was written.
    #[error("the file of this stream is damaged at byte {0}")]
    Damaged(u64),
    /// The disk fails.
    #[error("the disk fails: {0}")]
    Disk(#[from] io::Error),
    /// The disk has failed at the last step: what was asked for may be on disk or not.
    #[error(
        "the disk failed at this, so it may be done or not ({0}): look at the stream first, or \
         repeat an append with the Producer-Seq that it had"
    )]
    Unsure(io::Error),
}

impl Refusal {
    /// What is said to who wants to use the path of a stream for another one.
    pub fn of_path(self) -> Refusal {
        match self {
            Refusal::Gone => Refusal::Needed,
            other => other,
        }
    }

    /// What is said to who asked for something else, which was not begun.
    pub(crate) fn of_other(self) -> Refusal {
        match self {
            Refusal::Unsure(error) => Refusal::Disk(error),
            other => other,
        }
    }
}
