//! The kernel's bytes to text.

use std::io::{self, ErrorKind};

use tls::{Fault, Opened};

use super::{FAULTY, Numbered, Tls};
use crate::limits::work;
use crate::sockets::Received;

/// What opening has come to.
#[derive(Default)]
struct Reading {
    /// Bytes of text in the caller's buffer.
    text: usize,
    /// Bytes of the wire that are dealt with.
    used: usize,
    records: u32,
    /// There is no room for more text.
    full: bool,
    /// The client has said all.
    closed: bool,
    /// Text that had no room.
    over: Vec<u8>,
}

impl<S: Numbered> Tls<S> {
    /// Reads once from the kernel, or more often where nothing of it is text, and opens what came.
    pub(super) fn receive_text(
        &mut self,
        socket: &S::Socket,
        buffer: &mut [u8],
    ) -> io::Result<Received> {
        let number = S::number(socket);
        if let Some(received) = self.take_text(number, buffer) {
            return Ok(received);
        }
        loop {
            let kept = self.take_sealed(number);
            let (received, ended) = match self.io.receive(socket, &mut self.wire[kept..]) {
                // What came before its end is heard first; the socket says the end again.
                Ok(Received { len: 0, .. }) => (Received { len: 0, emptied: true }, true),
                Ok(received) => (received, false),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    (Received { len: 0, emptied: true }, false)
                }
                Err(error) => {
                    self.keep_sealed(number, 0..kept);
                    return Err(error);
                }
            };
            let end = kept + received.len;
            let reading = match self.open(number, end, buffer) {
                Ok(reading) => reading,
                Err(fault) => return Err(self.fault(socket, fault)),
            };
            self.keep_sealed(number, reading.used..end);
            let is_over = reading.over.is_empty();
            if !is_over {
                self.begin(number).text = reading.over;
            }
            if reading.text > 0 {
                // The end comes with the next call.
                let is_all = is_over && !reading.full && !reading.closed && !ended;
                let emptied = received.emptied && is_all;
                return Ok(Received { len: reading.text, emptied });
            }
            if reading.closed || ended {
                return Ok(Received { len: 0, emptied: true });
            }
            if received.emptied {
                return Err(ErrorKind::WouldBlock.into());
            }
        }
    }

    /// Text that was opened before and had no room.
    fn take_text(&mut self, number: u32, buffer: &mut [u8]) -> Option<Received> {
        let under = self.under_way.get_mut(&number).filter(|under| !under.text.is_empty())?;
        let rest = &under.text[under.taken..];
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        under.taken += len;
        if under.taken == under.text.len() {
            (under.text, under.taken) = (Vec::new(), 0);
            self.tidy(number);
        }
        // The kernel was not asked: it may have more.
        Some(Received { len, emptied: false })
    }

    /// Puts what was not opened at the start of the wire. How much it is: less than all of that,
    /// since at least a record was opened, or what is kept is less than one.
    fn take_sealed(&mut self, number: u32) -> usize {
        let Some(under) = self.under_way.get_mut(&number) else { return 0 };
        let sealed = std::mem::take(&mut under.sealed);
        self.wire[..sealed.len()].copy_from_slice(&sealed);
        self.tidy(number);
        sealed.len()
    }

    fn keep_sealed(&mut self, number: u32, rest: std::ops::Range<usize>) {
        if !rest.is_empty() {
            let sealed = self.wire[rest].to_vec();
            self.begin(number).sealed = sealed;
        }
    }

    /// Opens the records in the first `end` bytes of the wire, as far as there is room for text.
    fn open(&mut self, number: u32, end: usize, buffer: &mut [u8]) -> Result<Reading, Fault> {
        let mut reading = Reading::default();
        let Some(keys) = self.places.at(number) else { return Ok(reading) };
        let mut opener = keys.opener();
        self.work += work::OPEN;
        while !reading.full {
            let bytes = &mut self.wire[reading.used..end];
            let (record, text) = match opener.next(bytes)? {
                Opened::NeedMore { .. } => break,
                Opened::Closed => {
                    reading.closed = true;
                    // What comes behind it counts for nothing.
                    reading.used = end;
                    break;
                }
                Opened::Idle { record } => (record, 0..0),
                Opened::Data { record, text } => (record, text),
            };
            self.work += work::RECORD;
            let text = &bytes[text];
            let room = &mut buffer[reading.text..];
            let fits = text.len().min(room.len());
            room[..fits].copy_from_slice(&text[..fits]);
            reading.text += fits;
            reading.used += record;
            reading.records += 1;
            reading.over = text[fits..].to_vec();
            reading.full = reading.text == buffer.len();
        }
        Ok(reading)
    }

    /// The client has broken the rules: it is told, and closed.
    fn fault(&mut self, socket: &S::Socket, fault: Fault) -> io::Error {
        self.counters.tls.faulted(fault);
        if let Some(alert) = fault.alert() {
            self.alert(socket, alert);
        }
        if let Some(keys) = self.places.at(S::number(socket)) {
            keys.note |= FAULTY;
        }
        io::Error::new(ErrorKind::InvalidData, fault)
    }
}
