//! The page at `/`: one answer, after which the connection ends.
//!
//! The bytes are ready-made and copied into the buffer for answers once; what the kernel does not
//! take at once is the connection's backlog, and no bound of it applies to a single answer. A
//! page costs its bytes in that buffer from its first answer on, a worker.

use std::sync::Arc;

use hub::DisconnectReason;
use proto::{PageRequest, Request};

use super::Shard;
use crate::sockets::Sockets;

impl<S: Sockets> Shard<S> {
    /// Answers with the page, which there is.
    pub(super) fn show_page(&mut self, slot: u32, request: &Request<'_>) {
        let Some(page) = self.rules.config.page.as_ref().map(Arc::clone) else { return };
        let Request { method, host, gzip, known, .. } = *request;
        page.answer(PageRequest { method, host, gzip, known }, &mut self.answer);
        self.answered(slot, DisconnectReason::Answered);
    }
}
