//! Records to plain text, in place.
//!
//! Cost: the key is built once for all records that are opened in one go, in TLS 1.3 from its
//! secret; then a record costs its opening.

use std::ops::Range;

use crate::cipher::{Cipher, TAG_BYTES};
use crate::keys::Flags;
use crate::limits::{HEADER_BYTES, IDLE_RECORDS_MAX, PLAIN_BYTES_MAX};
use crate::message::{self, MessageContent};
use crate::record::{Header, VERSION, aad_of_tls12, kind};
use crate::{Fault, Keys, Suite, Version};

/// Bytes of a nonce that a record of TLS 1.2 brings along.
const EXPLICIT_BYTES: usize = 8;

/// What the next record is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Opened {
    /// It is not whole: it has so many bytes, as far as is known.
    NeedMore {
        /// At least one more than there are.
        record: usize,
    },
    /// Data.
    Data {
        /// Bytes of the record.
        record: usize,
        /// Where its text is, among them.
        text: Range<usize>,
    },
    /// Something between the two ends of TLS alone, which is dealt with.
    Idle {
        /// Bytes of the record.
        record: usize,
    },
    /// The peer has said all. What comes behind it counts for nothing.
    Closed,
}

/// Opens records of one connection, one after the other.
pub struct Opener<'k> {
    keys: &'k mut Keys,
    cipher: Option<Cipher>,
}

impl Keys {
    /// What opens this connection's records.
    pub fn opener(&mut self) -> Opener<'_> {
        Opener { keys: self, cipher: None }
    }
}

impl Opener<'_> {
    /// Opens the record that `bytes` begin with, in place.
    ///
    /// A fault ends the connection: the peer is told by [`Fault::alert`], and nothing is opened any
    /// more.
    pub fn next(&mut self, bytes: &mut [u8]) -> Result<Opened, Fault> {
        if self.keys.is(Flags::READ_CLOSED) {
            return Ok(Opened::Closed);
        }
        let opened = self.open(bytes);
        if !matches!(
            opened,
            Ok(Opened::NeedMore { .. } | Opened::Data { .. } | Opened::Idle { .. })
        ) {
            self.keys.mark(Flags::READ_CLOSED, true);
        }
        opened
    }

    fn open(&mut self, bytes: &mut [u8]) -> Result<Opened, Fault> {
        let Some(header) = Header::read(bytes) else {
            return Ok(Opened::NeedMore { record: HEADER_BYTES.max(bytes.len() + 1) });
        };
        // What is wrong with the header is said before the rest has come.
        let record = header.record()?;
        self.check(header)?;
        let Some(sealed) = bytes.get_mut(..record) else {
            return Ok(Opened::NeedMore { record });
        };
        if self.keys.read_seq == u32::MAX {
            return Err(Fault::Spent);
        }
        let (kind, text) = match self.keys.version() {
            Version::Tls13 => self.open_tls13(sealed)?,
            Version::Tls12 => self.open_tls12(header, sealed)?,
        };
        self.keys.read_seq += 1;
        if text.len() > PLAIN_BYTES_MAX {
            return Err(Fault::RecordOverflow);
        }
        debug_assert!(HEADER_BYTES <= text.start && text.end <= record);
        if kind == kind::DATA && !text.is_empty() {
            self.keys.idle_records = 0;
            return Ok(Opened::Data { record, text });
        }
        self.keys.idle_records += 1;
        if self.keys.idle_records > IDLE_RECORDS_MAX {
            return Err(Fault::Idle);
        }
        if kind == kind::DATA {
            return Ok(Opened::Idle { record });
        }
        let is_client = self.keys.is(Flags::CLIENT);
        match message::read(self.keys.version(), is_client, kind, &sealed[text])? {
            MessageContent::Nothing => {}
            MessageContent::Closed => return Ok(Opened::Closed),
            MessageContent::Update { asked } => {
                self.keys.update_read();
                self.cipher = None;
                // However often it asks before we write, one update answers (RFC 8446, section
                // 4.6.3).
                if asked {
                    self.keys.mark(Flags::OWES_UPDATE, true);
                }
            }
        }
        Ok(Opened::Idle { record })
    }

    /// Records in the clear have no place here, whatever they say.
    fn check(&self, header: Header) -> Result<(), Fault> {
        match (self.keys.version(), header.kind) {
            (_, kind::DATA) | (Version::Tls12, kind::ALERT | kind::HANDSHAKE) => {}
            (_, kind) => return Err(Fault::UnexpectedType(kind)),
        }
        // TLS 1.3 reads the version of no record (RFC 8446, section 5.1).
        let is_tls12 = self.keys.version() == Version::Tls12;
        if is_tls12 && header.version != VERSION { Err(Fault::Version) } else { Ok(()) }
    }

    /// The content type, and where the text is.
    fn open_tls13(&mut self, record: &mut [u8]) -> Result<(u8, Range<usize>), Fault> {
        let (header, sealed) = record.split_at_mut(HEADER_BYTES);
        let cipher = self.cipher.get_or_insert_with(|| self.keys.read_cipher());
        let nonce = cipher.nonce(self.keys.read_seq);
        let len = cipher.open(nonce, header, sealed).ok_or(Fault::BadRecordMac)?;
        if len > PLAIN_BYTES_MAX + 1 {
            return Err(Fault::RecordOverflow);
        }
        // Behind the type stands padding: zeros (RFC 8446, section 5.4).
        let end = sealed[..len].iter().rposition(|&byte| byte != 0).ok_or(Fault::NoType)?;
        Ok((sealed[end], HEADER_BYTES..HEADER_BYTES + end))
    }

    fn open_tls12(
        &mut self,
        header: Header,
        record: &mut [u8],
    ) -> Result<(u8, Range<usize>), Fault> {
        let seq = self.keys.read_seq;
        let is_gcm = self.keys.suite() == Suite::Aes128Gcm;
        let start = HEADER_BYTES + if is_gcm { EXPLICIT_BYTES } else { 0 };
        let plain = record.len().checked_sub(start + TAG_BYTES).ok_or(Fault::BadRecordMac)?;
        let cipher = self.cipher.get_or_insert_with(|| self.keys.read_cipher());
        let nonce = match record[HEADER_BYTES..].first_chunk() {
            Some(explicit) if is_gcm => cipher.explicit_nonce(*explicit),
            _ => cipher.nonce(seq),
        };
        let aad = aad_of_tls12(seq, header.kind, plain);
        let len = cipher.open(nonce, &aad, &mut record[start..]).ok_or(Fault::BadRecordMac)?;
        debug_assert_eq!(len, plain);
        Ok((header.kind, start..start + plain))
    }
}

#[cfg(test)]
mod tests;
