//! A record's outside: its header, and what of it is authenticated beside its text.

use crate::Fault;
use crate::limits::{BODY_BYTES_MAX, HEADER_BYTES};

/// The content types (RFC 8446, section 5.1).
pub(crate) mod kind {
    pub(crate) const CHANGE_CIPHER_SPEC: u8 = 20;
    pub(crate) const ALERT: u8 = 21;
    pub(crate) const HANDSHAKE: u8 = 22;
    pub(crate) const DATA: u8 = 23;
}

/// What stands in the header since TLS 1.2.
pub(crate) const VERSION: [u8; 2] = [3, 3];

/// A record's first bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) kind: u8,
    pub(crate) version: [u8; 2],
    /// Bytes behind the header.
    pub(crate) body: usize,
}

impl Header {
    /// The header that `bytes` begin with, once it is whole.
    pub(crate) fn read(bytes: &[u8]) -> Option<Header> {
        let &[kind, major, minor, high, low] = bytes.first_chunk()?;
        let body = usize::from(u16::from_be_bytes([high, low]));
        Some(Header { kind, version: [major, minor], body })
    }

    /// Bytes of the record, unless they are too many.
    pub(crate) fn record(self) -> Result<usize, Fault> {
        match self.body <= BODY_BYTES_MAX {
            true => Ok(HEADER_BYTES + self.body),
            false => Err(Fault::RecordOverflow),
        }
    }
}

/// The header of a record of ours.
pub(crate) fn header(kind: u8, body: usize) -> [u8; HEADER_BYTES] {
    debug_assert!(body <= BODY_BYTES_MAX, "no peer would read it");
    let [high, low] = (body as u16).to_be_bytes();
    [kind, VERSION[0], VERSION[1], high, low]
}

/// What TLS 1.2 authenticates beside the text (RFC 5246, section 6.2.3.3).
pub(crate) fn aad_of_tls12(seq: u32, kind: u8, plain: usize) -> [u8; 13] {
    let mut aad = [0; 13];
    aad[4..8].copy_from_slice(&seq.to_be_bytes());
    aad[8..].copy_from_slice(&header(kind, plain));
    aad
}
