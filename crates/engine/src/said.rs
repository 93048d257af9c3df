//! What the control plane says to one connection, which is no event.

use std::sync::Arc;

use hub::ConnRef;

/// What is said to one connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Said {
    /// A message on its stream: one JSON text without a line end, which is no event and has no id.
    /// Formats without a word for one, the classic page and polls, leave it out.
    Message(Arc<str>),
}

/// That, and to whom.
#[derive(Debug)]
pub(crate) struct Say {
    pub(crate) target: ConnRef,
    pub(crate) said: Said,
}
