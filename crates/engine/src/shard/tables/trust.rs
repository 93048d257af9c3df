//! What connections are trusted to say ([`crate::shard::forwarded`]).

/// What a connection is trusted to say about the address of its client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::shard) enum Trust {
    /// Nothing: it counts for its peer, or for whom a PROXY header has named.
    #[default]
    Nothing,
    /// For whom it asks, by the fields of its requests.
    Fields,
    /// For whom it asks, and a PROXY header may still come.
    Header,
}
