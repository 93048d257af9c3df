//! What goes out on a connection: as it is, or sealed.

use std::io;

use sys::socket;

use super::Listeners;
use crate::flood::listener::{Outcome, Phase};

impl Listeners {
    /// The connection of `slot` is made, or it has room again.
    pub(super) fn writable(&mut self, slot: u32) {
        if matches!(self.listeners[slot as usize].phase, Phase::Connecting) {
            self.connected(slot);
        } else if self.secured.as_ref().is_some_and(|secured| secured.has_unsent(slot)) {
            self.sealed.clear();
            self.send_sealed(slot);
        }
    }

    /// Sends the first request of a connection.
    pub(super) fn send_first(&mut self, slot: u32) {
        let Some(socket) = &self.listeners[slot as usize].socket else { return };
        // A few hundred bytes fit into the empty buffer of a new socket, or nothing does.
        match socket::send(socket, &self.request) {
            Ok(len) if len == self.request.len() => {}
            Ok(_) => self.over(slot, Outcome::failed(&io::ErrorKind::WriteZero.into())),
            Err(error) => self.over(slot, Outcome::failed(&error)),
        }
    }

    /// Sends something short on an open stream. Where there is no room for it the server does not
    /// read, and would not miss it; a connection that is broken shows when it is read.
    pub(super) fn send_request(&mut self, slot: u32) {
        if let Some(secured) = &mut self.secured {
            self.sealed.clear();
            secured.seal(slot, &self.request, &mut self.sealed);
            self.send_sealed(slot);
        } else if let Some(socket) = &self.listeners[slot as usize].socket {
            let _ = socket::send(socket, &self.request);
        }
    }

    /// Sends what was sealed, behind what waits from before; the rest waits for room.
    pub(super) fn send_sealed(&mut self, slot: u32) {
        let listener = &self.listeners[slot as usize];
        let (Some(secured), Some(socket)) = (&mut self.secured, &listener.socket) else { return };
        let mut waiting = secured.take_unsent(slot);
        let bytes = if waiting.is_empty() {
            &self.sealed
        } else {
            waiting.extend_from_slice(&self.sealed);
            &waiting
        };
        let sent = match socket::send(socket, bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            sent => sent,
        };
        match sent {
            Ok(sent) => secured.keep_unsent(slot, &bytes[sent..]),
            // On an open stream it shows when that is read.
            Err(_) if listener.is_open() => {}
            Err(error) => self.over(slot, Outcome::failed(&error)),
        }
    }
}
