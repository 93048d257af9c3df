//! What is told of the last upgrade, by the server that has taken over.

/// Its figures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Figures {
    /// From its beginning until this server served.
    pub(crate) milliseconds: u64,
    /// For how long clients waited.
    pub(crate) pause_milliseconds: u64,
    /// Connections that were taken over.
    pub(crate) connections: u64,
}
