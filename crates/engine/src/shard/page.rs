//! The page at `/`, and texts under `/.well-known/`: one answer, after which the connection ends.
//!
//! The bytes are ready-made and copied into the buffer for answers once. What the kernel does not
//! take at once is the connection's backlog. No bound of it applies to a single answer, but the one
//! on what is kept for all. A page costs its bytes in that buffer from its first answer on, a
//! worker.

use std::sync::Arc;

use hub::DisconnectReason;
use proto::{Cors, Method, PageRequest, Request, response};

use super::core::{At, Core, Lives};
use crate::mercure_config::METADATA_PATH;
use crate::sockets::Sockets;

impl<S: Sockets> Core<S> {
    /// Answers with the page, which there is.
    pub(super) fn show_page(&mut self, at: &mut At<'_, S::Socket>, request: &Request<'_>) -> Lives {
        if let Some(page) = self.config.page.as_ref().map(Arc::clone) {
            let Request { method, host, gzip, known, .. } = *request;
            page.answer(PageRequest { method, host, gzip, known }, &mut self.answer);
        }
        self.answered(at, DisconnectReason::Answered)
    }

    /// Answers with the text at the request's path. Whether there is one.
    pub(super) fn show_text(&mut self, request: &Request<'_>) -> bool {
        let Some(text) = self.texts.get(request.path) else { return false };
        response::text(text, request.method == Method::Head, &mut self.answer);
        true
    }

    /// Answers with the metadata of the hub. Whether they are at the request's path.
    pub(super) fn show_metadata(&mut self, request: &Request<'_>, cors: Option<Cors<'_>>) -> bool {
        let Some(config) = &self.config.mercure else { return false };
        let json = match config.hub_of(request.host) {
            Ok(hub) => config.metadata_at(request.path, &hub).map(Ok),
            Err(problem) => (request.path == METADATA_PATH).then_some(Err(problem)),
        };
        let Some(json) = json else { return false };
        let head_only = request.method == Method::Head;
        response::outcome(json.as_deref(), head_only, None, cors, &mut self.answer);
        true
    }
}
