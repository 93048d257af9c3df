//! One direction's key, ready for use: what sealing and opening keep while they work.

use aws_lc_rs::aead::{
    AES_128_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey,
};
use zeroize::Zeroizing;

use crate::derive::{self, SECRET_BYTES};

/// Bytes of an AES-128 key.
pub(crate) const AES_BYTES: usize = 16;

/// Bytes of a ChaCha20 key.
pub(crate) const CHACHA_BYTES: usize = 32;

/// What seals records.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Suite {
    /// AES-GCM with keys of 128 bits.
    Aes128Gcm,
    /// ChaCha20-Poly1305.
    ChaCha20Poly1305,
}

/// Bytes of a nonce.
pub(crate) const NONCE_BYTES: usize = NONCE_LEN;

/// Bytes of a tag.
pub(crate) const TAG_BYTES: usize = 16;

/// A key, and the IV that goes with it. A salt is the start of one.
pub(crate) struct Cipher {
    key: LessSafeKey,
    iv: Zeroizing<[u8; NONCE_BYTES]>,
}

impl Cipher {
    pub(crate) fn new(suite: Suite, key: &[u8], iv: &[u8]) -> Cipher {
        let algorithm = match suite {
            Suite::Aes128Gcm => &AES_128_GCM,
            Suite::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        };
        let key = UnboundKey::new(algorithm, key).expect("a key of its algorithm's length");
        // Whole, or the salt of GCM in TLS 1.2, whose records say the rest (RFC 5288, section 3).
        debug_assert!([NONCE_BYTES, 4].contains(&iv.len()));
        let mut start = Zeroizing::new([0; NONCE_BYTES]);
        start[..iv.len()].copy_from_slice(iv);
        Cipher { key: LessSafeKey::new(key), iv: start }
    }

    /// What a traffic secret of TLS 1.3 leads to.
    pub(crate) fn of_secret(suite: Suite, secret: &[u8; SECRET_BYTES]) -> Cipher {
        let mut iv = Zeroizing::new([0; NONCE_BYTES]);
        derive::iv(secret, &mut *iv);
        Cipher::with_iv(suite, secret, &*iv)
    }

    /// What a traffic secret of TLS 1.3 leads to, with the IV of it that is kept.
    pub(crate) fn with_iv(suite: Suite, secret: &[u8; SECRET_BYTES], iv: &[u8]) -> Cipher {
        let mut key = Zeroizing::new([0; CHACHA_BYTES]);
        let key_bytes = if suite == Suite::Aes128Gcm { AES_BYTES } else { CHACHA_BYTES };
        derive::key(secret, &mut key[..key_bytes]);
        Cipher::new(suite, &key[..key_bytes], iv)
    }

    /// The nonce of a record: its number laid over the IV (RFC 8446, section 5.3; RFC 7905, section
    /// 2). With AES-GCM in TLS 1.2 the last 8 bytes of it are sent along, and may be chosen as long
    /// as none is chosen twice (RFC 5288, section 3).
    pub(crate) fn nonce(&self, seq: u32) -> [u8; NONCE_BYTES] {
        let mut nonce = *self.iv;
        let seq = u64::from(seq).to_be_bytes();
        nonce[NONCE_BYTES - 8..].iter_mut().zip(seq).for_each(|(byte, over)| *byte ^= over);
        nonce
    }

    /// The nonce of a record that brings the last 8 bytes of it along.
    pub(crate) fn explicit_nonce(&self, explicit: [u8; 8]) -> [u8; NONCE_BYTES] {
        let mut nonce = *self.iv;
        nonce[NONCE_BYTES - 8..].copy_from_slice(&explicit);
        nonce
    }

    /// Seals `text` where it stands, and `last` behind it; what is `last` and the tag of it all go
    /// to `end`.
    pub(crate) fn seal(
        &self,
        nonce: [u8; NONCE_BYTES],
        aad: &[u8],
        text: &mut [u8],
        last: &[u8],
        end: &mut [u8],
    ) {
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.key
            .seal_in_place_scatter(nonce, Aad::from(aad), text, last, end)
            .expect("a record is shorter than what an algorithm may seal");
    }

    /// Seals from `text` to `out`, which has its length.
    pub(crate) fn seal_to(
        &self,
        nonce: [u8; NONCE_BYTES],
        aad: &[u8],
        text: &[u8],
        out: &mut [u8],
        last: &[u8],
        end: &mut [u8],
    ) {
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.key
            .seal_out_of_place_scatter(nonce, Aad::from(aad), text, out, last, end)
            .expect("a record is shorter than what an algorithm may seal");
    }

    /// Opens `sealed`, its tag at its end, where it stands; `None` when it is not what was sealed.
    pub(crate) fn open(
        &self,
        nonce: [u8; NONCE_BYTES],
        aad: &[u8],
        sealed: &mut [u8],
    ) -> Option<usize> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        let plain = self.key.open_in_place(nonce, Aad::from(aad), sealed).ok()?;
        Some(plain.len())
    }
}
