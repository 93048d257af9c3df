//! What is between the node loop and the cluster's handle.

use tokio::sync::{mpsc, watch};

use super::{Command, NodeStatus, RoomsOut};

/// The node loop's ends of it.
pub(super) struct LoopEnds {
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) tell: watch::Sender<NodeStatus>,
    pub(super) rooms: RoomsOut,
}
