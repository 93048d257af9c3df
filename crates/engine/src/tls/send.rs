//! Text to the kernel, sealed.

use std::io::{self, ErrorKind, IoSlice};

use super::{Numbered, Tls};
use crate::sockets::Sockets;

impl<S: Numbered> Tls<S> {
    /// Seals and sends `parts`, as far as there is room.
    pub(super) fn send_text(
        &mut self,
        socket: &S::Socket,
        parts: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        let number = S::number(socket);
        if !self.send_rest(socket)? {
            return Err(ErrorKind::WouldBlock.into());
        }
        // The byte that was held back is the first of what is sent now.
        let mut taken = match self.under_way.get_mut(&number) {
            Some(under) => usize::from(std::mem::take(&mut under.owes_byte)),
            None => 0,
        };
        self.tidy(number);
        let whole: usize = parts.iter().map(|part| part.len()).sum();
        let Some(keys) = self.places.at(number) else { return Ok(0) };
        if !keys.are_set() {
            // Within a handshake nothing is sealed, least of all by keys that are zeros.
            debug_assert!(false, "text is sent within a handshake");
            return Err(ErrorKind::InvalidData.into());
        }
        let mut sealer = keys.sealer();
        while taken < whole {
            let sealed = sealer
                .seal(parts, taken, &mut self.wire)
                .map_err(|unsealed| io::Error::new(ErrorKind::InvalidData, unsealed))?;
            taken += sealed.text;
            let bytes = &self.wire[..sealed.bytes];
            let sent = send_some(&mut self.io, socket, bytes)?;
            if sent < bytes.len() {
                let rest = bytes[sent..].to_vec();
                let under = self.begin(number);
                (under.unsent, under.sent, under.owes_byte) = (rest, 0, true);
                return Ok(taken - 1);
            }
        }
        Ok(taken)
    }

    /// Sends what was sealed before and not taken. Whether it is all gone.
    pub(super) fn send_rest(&mut self, socket: &S::Socket) -> io::Result<bool> {
        let number = S::number(socket);
        let Some(under) = self.under_way.get_mut(&number) else { return Ok(true) };
        let rest = &under.unsent[under.sent..];
        if !rest.is_empty() {
            let sent = send_some(&mut self.io, socket, rest)?;
            if sent < rest.len() {
                under.sent += sent;
                return Ok(false);
            }
            (under.unsent, under.sent) = (Vec::new(), 0);
            self.tidy(number);
        }
        Ok(true)
    }
}

/// One call; no room is 0 bytes.
fn send_some<S: Sockets>(io: &mut S, socket: &S::Socket, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match io.send(socket, &[IoSlice::new(bytes)]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            sent => return sent,
        }
    }
}
