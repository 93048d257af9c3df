//! What a node is made with, and what it says of itself.

/// What a node is from its start to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Its name: among the members there is one of each.
    pub name: String,
    /// Where other nodes reach it.
    pub address: String,
    /// Tells this process from others of the same name, and grows from start to start: nanoseconds
    /// since 1970 will do.
    pub nonce: u64,
    /// It must be known up to when it has read all there was: [`Status::proved_ms`].
    pub proves: bool,
}

/// Where a number stands, for who resumes behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Before what this node's history holds exactly: a gap.
    Before,
    /// All up to it was posted here: the history after it is exact.
    Known,
    /// Further than this node is: wait some seconds at most for
    /// [`Node::applied_number`](crate::Node::applied_number).
    Future,
}

/// What is shown of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Status {
    /// Its incarnation; `None` while it is no member.
    pub incarnation: Option<u64>,
    /// The last sequence that was read, and the last one that was wholly posted.
    pub read: u64,
    /// See `read`.
    pub applied: u64,
    /// Members of the view; 0 while it is not known.
    pub members: usize,
    /// What waits to be published.
    pub queued: usize,
    /// What is published and not yet read back.
    pub outstanding: usize,
    /// Sends in the log whose counts are not yet all there.
    pub counting: usize,
    /// The version of the graph.
    pub version: u64,
    /// A new epoch was proposed and has not come.
    pub broken: bool,
    /// Nothing comes out before the replica has what somebody may rely on.
    pub waits_for_store: bool,
    /// All that was in the log at this moment is done here. Known of who proves it, and never of
    /// who was a member no more at that moment.
    pub proved_ms: Option<u64>,
    /// When this node read last that others are members no more, or began to know who is.
    pub left_ms: u64,
    /// When it read last that all had lost their places at once, by another log or a view that was
    /// founded anew: they may be on their way back.
    pub returning_ms: Option<u64>,
}
