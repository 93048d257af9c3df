//! What a send has beside its event.

use std::sync::Arc;

use cluster::Once;

use crate::traces::Marks;

/// What a send has beside its event.
#[derive(Debug, Default)]
pub struct SendOptions {
    /// By what all nodes of a cluster know it, if it is posted once.
    pub once: Option<Once>,
    /// Whether it is refused where a node may not know what that is, and not sent without it.
    pub needs_once: bool,
    /// Who is told how far it has come: only where it has a trace.
    pub marks: Option<Arc<Marks>>,
}
