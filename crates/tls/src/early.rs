//! Early data that a client sends and that is refused (RFC 8446, section 4.2.10): which of its
//! records are that.
//!
//! A server that takes none passes over the records that its client's handshake key does not open,
//! up to a bound, until one is opened. rustls does so and keeps the bound of 16 KiB. But it leaves
//! such a record where it leaves a part of a message, and says of neither which it is. So we look
//! ourselves, with the same key.
//!
//! Cost: nothing where rustls has left nothing; else a key once, and an opening for each record.

use rustls::{CipherSuite, CommonState};

use crate::Suite;
use crate::capture::Capture;
use crate::cipher::Cipher;
use crate::limits::HEADER_BYTES;

/// What has come of a client behind its hello.
#[derive(Default)]
pub(crate) struct EarlyData {
    /// Opens what the client seals within the handshake.
    cipher: Option<Cipher>,
    /// Records that were opened.
    opened: u32,
    /// Records that were not.
    passed_over: u32,
}

impl EarlyData {
    /// A record was opened.
    pub(crate) fn opened(&mut self) {
        self.opened += 1;
    }

    /// Records that were passed over.
    pub(crate) fn passed_over(&self) -> u32 {
        self.passed_over
    }

    /// Whether `record`, which rustls has left, is early data: the handshake's key does not open
    /// it. What is in it is not the same after that.
    pub(crate) fn is_early(&mut self, record: &mut [u8], suite: Suite, capture: &Capture) -> bool {
        if self.cipher.is_none() {
            self.cipher = capture.handshake_cipher(suite);
        }
        let Some(cipher) = &self.cipher else { return false };
        let (header, sealed) = record.split_at_mut(HEADER_BYTES);
        let is_early = cipher.open(cipher.nonce(self.opened), header, sealed).is_none();
        match is_early {
            true => self.passed_over += 1,
            false => self.opened(),
        }
        is_early
    }
}

/// The suite that was agreed on, if it is one of TLS 1.3 and ours.
pub(crate) fn suite_of(common: &CommonState) -> Option<Suite> {
    match common.negotiated_cipher_suite()?.suite() {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => Some(Suite::Aes128Gcm),
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => Some(Suite::ChaCha20Poly1305),
        _ => None,
    }
}
