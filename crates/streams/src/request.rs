//! What a writer asks for.

use crate::lifetime::Lifetime;

/// A request to create a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Create<'b> {
    /// The type of its content.
    pub content_type: &'b str,
    /// How long it lives.
    pub lifetime: Lifetime,
    /// Whether it is closed at once.
    pub closed: bool,
    /// Its first content; of JSON as [`messages`](crate::messages) makes it.
    pub data: &'b [u8],
}

/// A request to append to a stream, to close it, or both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Append<'b> {
    /// Whether the stream is closed behind it.
    pub closes: bool,
    /// The writer that may repeat itself.
    pub producer: Option<Producer<'b>>,
    /// `Stream-Seq`.
    pub sequence: Option<&'b str>,
    /// The bytes; of JSON as [`messages`](crate::messages) makes them. Without any it closes.
    pub data: &'b [u8],
    /// The type of the bytes, which must be the stream's. It is not stored.
    pub content_type: Option<&'b str>,
}

/// Who writes, and the how manieth request it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Producer<'b> {
    /// Its name.
    pub id: &'b str,
    /// Its life: a later one takes over.
    pub epoch: u64,
    /// The number of the request in it.
    pub sequence: u64,
}
