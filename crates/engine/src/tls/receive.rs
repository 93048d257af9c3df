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
    /// What is wrong with the record behind it.
    fault: Option<Fault>,
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
        if let Some(fault) = self.take_fault(number) {
            return Err(self.fault(socket, fault));
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
            let reading = self.open(number, end, buffer);
            let faulty = reading.fault.is_some();
            match reading.fault {
                Some(fault) if reading.text == 0 => return Err(self.fault(socket, fault)),
                // What stands before the fault is heard first; the fault comes with the next call.
                Some(fault) => self.keep_fault(number, reading.used, fault),
                None => self.keep_sealed(number, reading.used..end),
            }
            let is_over = reading.over.is_empty();
            if !is_over {
                self.begin(number).text = reading.over;
            }
            if reading.text > 0 {
                // The end comes with the next call.
                let is_all = is_over && !reading.full && !reading.closed && !faulty && !ended;
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

    /// Keeps a fault of the record at `at` until the text before it has been heard. The record's
    /// first byte stays with it: another process, which is not told of the fault, has something to
    /// read then, and keys that open nothing any more.
    fn keep_fault(&mut self, number: u32, at: usize, fault: Fault) {
        self.keep_sealed(number, at..at + 1);
        self.begin(number).fault = Some(fault);
    }

    fn take_fault(&mut self, number: u32) -> Option<Fault> {
        let under = self.under_way.get_mut(&number)?;
        let fault = under.fault.take()?;
        under.sealed = Vec::new();
        self.tidy(number);
        Some(fault)
    }

    /// Opens the records in the first `end` bytes of the wire, as far as there is room for text.
    fn open(&mut self, number: u32, end: usize, buffer: &mut [u8]) -> Reading {
        let mut reading = Reading::default();
        let Some(keys) = self.places.at(number) else { return reading };
        let mut opener = keys.opener();
        self.work += work::OPEN;
        while !reading.full {
            let bytes = &mut self.wire[reading.used..end];
            let (record, text) = match opener.next(bytes) {
                Err(fault) => {
                    reading.fault = Some(fault);
                    break;
                }
                Ok(Opened::NeedMore { .. }) => break,
                Ok(Opened::Closed) => {
                    reading.closed = true;
                    // What comes behind it counts for nothing.
                    reading.used = end;
                    break;
                }
                Ok(Opened::Idle { record }) => {
                    // Most often it is a key update: another secret, and another key from it.
                    self.work += work::OPEN;
                    (record, 0..0)
                }
                Ok(Opened::Data { record, text }) => (record, text),
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
        reading
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
