//! Who is told what is appended, and what that is.

use std::io;

use crate::offset::Offset;

/// Who is told what is appended. It may wait, as long as the writer of the stream is to wait.
pub trait Teller {
    /// Whether what is told about `path` outlives the process. If it does, so do the notes of it.
    fn outlives(&self, path: &str) -> bool;

    /// Tells it, if that is possible now.
    fn tell(&self, told: &AppendNotice<'_>) -> Outcome;

    /// Whether what was told under this number, and was [unsure](Outcome::Unsure), is safe now.
    fn is_safe(&self, number: u64) -> bool;

    /// Whether it was told by a process before this one, or need not be.
    ///
    /// # Errors
    /// That is not known now.
    fn was_told(&self, told: &AppendNotice<'_>) -> io::Result<bool>;
}

/// What became of telling something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It was told, for as long as what is told of this path lasts.
    Told,
    /// It was told under this number, and may be forgotten when the process ends. It is not told
    /// again by this one.
    Unsure(u64),
    /// It was not told. It is told later.
    Not,
}

/// What was appended to a stream by one request.
#[derive(Clone, Copy, Debug)]
pub struct AppendNotice<'b> {
    /// Of the stream.
    pub path: &'b str,
    /// Of the stream.
    pub content_type: &'b str,
    /// Where it begins.
    pub from: Offset,
    /// Where it ends.
    pub next: Offset,
    /// The bytes; of JSON the messages with commas between them.
    pub data: &'b [u8],
    /// Whether the stream is closed behind it.
    pub closes: bool,
}
