//! TLS of a thread's listeners, cut down to keys as the server's is: 104 bytes each, and beside
//! them only what is half there, a handshake in the listener's [phase](super::listener::Phase), a
//! part of a record here.

use std::collections::HashMap;
use std::sync::Arc;

use tls::limits::SEALED_BYTES_MAX;
use tls::rustls::ClientConfig;
use tls::rustls::pki_types::ServerName;
use tls::{Failure, Fault, Handshake, Keys, Opened, Step};

/// Once so much waits to be sent on one connection, its server is answered no more.
const UNSENT_BYTES_MAX: usize = 64 * 1024;

/// The connections of one thread, by the places of their listeners.
pub(super) struct Secured {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    keys: Vec<Keys>,
    /// What has come and is less than a record.
    partial: HashMap<u32, Vec<u8>>,
    /// What was sealed and not taken by the kernel: it goes first, for its number is used up.
    unsent: HashMap<u32, Vec<u8>>,
    scratch: Vec<u8>,
}

/// What opening has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Read {
    /// Bytes of text, at the front of the buffer.
    pub(super) text: usize,
    /// The server has said all.
    pub(super) closed: bool,
}

impl Secured {
    /// For so many listeners.
    pub(super) fn new(
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
        listeners: u32,
    ) -> Secured {
        Secured {
            config,
            name,
            keys: (0..listeners).map(|_| Keys::default()).collect(),
            partial: HashMap::new(),
            unsent: HashMap::new(),
            scratch: vec![0; SEALED_BYTES_MAX],
        }
    }

    /// Begins a handshake; its first bytes are put behind what stands in `out`.
    pub(super) fn begin(&mut self, slot: u32, out: &mut Vec<u8>) -> Result<Handshake, Failure> {
        self.forget(slot);
        let handshake = Handshake::client(&self.config, self.name.clone());
        let mut handshake = handshake.map_err(|_| Failure::Keys)?;
        handshake.step(&[], out, &mut self.keys[slot as usize])?;
        Ok(handshake)
    }

    /// Goes on with it. Whether it is done; what came behind it is kept.
    pub(super) fn handshake(
        &mut self,
        slot: u32,
        handshake: &mut Handshake,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool, Failure> {
        match handshake.step(bytes, out, &mut self.keys[slot as usize])? {
            Step::NeedMore => Ok(false),
            Step::Done { rest, .. } => {
                if !rest.is_empty() {
                    self.partial.insert(slot, rest);
                }
                Ok(true)
            }
        }
    }

    /// Puts what was not opened at the front of `buffer`, which has room for far more than a
    /// record. How much it is.
    pub(super) fn resume(&self, slot: u32, buffer: &mut [u8]) -> usize {
        let Some(partial) = self.partial.get(&slot) else { return 0 };
        buffer[..partial.len()].copy_from_slice(partial);
        partial.len()
    }

    /// Opens the records of `bytes`, what was not opened before among them. Their text is at the
    /// front then.
    pub(super) fn open(&mut self, slot: u32, bytes: &mut [u8]) -> Result<Read, Fault> {
        let mut opener = self.keys[slot as usize].opener();
        let (mut used, mut read) = (0, Read { text: 0, closed: false });
        loop {
            match opener.next(&mut bytes[used..])? {
                Opened::NeedMore { .. } => break,
                Opened::Closed => {
                    read.closed = true;
                    return Ok(read);
                }
                Opened::Idle { record } => used += record,
                Opened::Data { record, text } => {
                    let len = text.len();
                    bytes.copy_within(used + text.start..used + text.end, read.text);
                    read.text += len;
                    used += record;
                }
            }
        }
        match &bytes[used..] {
            [] => self.partial.remove(&slot),
            rest => self.partial.insert(slot, rest.to_vec()),
        };
        Ok(read)
    }

    /// Seals `text`, as records behind what stands in `out`. Nothing where so much waits to be sent
    /// that the server does not read.
    pub(super) fn seal(&mut self, slot: u32, text: &[u8], out: &mut Vec<u8>) {
        if self.unsent.get(&slot).is_some_and(|unsent| unsent.len() > UNSENT_BYTES_MAX) {
            return;
        }
        let mut sealer = self.keys[slot as usize].sealer();
        let mut done = 0;
        while done < text.len() {
            // Closed, or spent after 2^24 records: what comes of it shows when the stream is read.
            let Ok(sealed) = sealer.seal(&[text], done, &mut self.scratch) else { return };
            out.extend_from_slice(&self.scratch[..sealed.bytes]);
            done += sealed.text;
        }
    }

    /// Whether something waits to be sent.
    pub(super) fn has_unsent(&self, slot: u32) -> bool {
        self.unsent.contains_key(&slot)
    }

    /// What waits to be sent, which goes before all else.
    pub(super) fn take_unsent(&mut self, slot: u32) -> Vec<u8> {
        self.unsent.remove(&slot).unwrap_or_default()
    }

    /// Keeps what was not sent.
    pub(super) fn keep_unsent(&mut self, slot: u32, rest: &[u8]) {
        if !rest.is_empty() {
            self.unsent.insert(slot, rest.to_vec());
        }
    }

    /// The connection of `slot` is gone.
    pub(super) fn forget(&mut self, slot: u32) {
        self.keys[slot as usize].clear();
        self.partial.remove(&slot);
        self.unsent.remove(&slot);
    }
}
