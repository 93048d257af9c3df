//! What a connection keeps of TLS once its handshake is done.

mod written;

use std::fmt;

use rustls::{ConnectionTrafficSecrets, ExtractedSecrets};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::Failure;
use crate::capture::Capture;
use crate::cipher::{AES_BYTES, CHACHA_BYTES, Cipher, NONCE_BYTES, Suite};
use crate::derive::{self, SECRET_BYTES};

pub use written::KEYS_BYTES;

/// Bytes of the part of a nonce that TLS 1.2 keeps to itself with AES-GCM (RFC 5288, section 3).
const SALT_BYTES: usize = 4;

/// A connection's keys, or their place. They are wiped when dropped or cleared, and never printed.
///
/// | suite | `read` | `write` | `ready` |
/// | --- | --- | --- | --- |
/// | 1.3, AES-GCM | secret | secret | key, IV to write with |
/// | 1.3, ChaCha20 | secret | secret | IV to write with: its key is derived anew |
/// | 1.2, AES-GCM | key, salt | | key, IV to write with |
/// | 1.2, ChaCha20 | key | key | both IVs |
#[repr(C)]
#[derive(Default)]
pub struct Keys {
    read: [u8; SECRET_BYTES],
    write: [u8; SECRET_BYTES],
    ready: [u8; AES_BYTES + NONCE_BYTES],
    pub(crate) write_seq: u32,
    pub(crate) read_seq: u32,
    suite: u8,
    flags: u8,
    /// Records without data that have come since the last one with some.
    pub(crate) idle_records: u8,
    /// A byte for the one who keeps the keys; it means nothing here.
    pub note: u8,
}

const _: () = assert!(size_of::<Keys>() == 104 && align_of::<Keys>() == 4);

/// The version of TLS.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Version {
    /// TLS 1.2, RFC 5246.
    Tls12,
    /// TLS 1.3, RFC 8446.
    Tls13,
}

/// What is noted of a connection, a bit each.
#[derive(Clone, Copy)]
pub(crate) struct Flags(u8);

impl Flags {
    /// We are the client.
    pub(crate) const CLIENT: Flags = Flags(1);
    /// The peer has asked for a key update, which goes before our next data.
    pub(crate) const OWES_UPDATE: Flags = Flags(2);
    /// We have sent our last alert.
    pub(crate) const WRITE_CLOSED: Flags = Flags(4);
    /// The peer has said that it has said all.
    pub(crate) const READ_CLOSED: Flags = Flags(8);
}

impl Keys {
    /// Whether there are any: a place without keys is all zero.
    pub fn are_set(&self) -> bool {
        self.suite != 0
    }

    /// Wipes them: the place is as it was before.
    pub fn clear(&mut self) {
        self.zeroize();
    }

    /// The version, once there are keys.
    pub fn version(&self) -> Version {
        if self.suite & 2 == 0 { Version::Tls13 } else { Version::Tls12 }
    }

    /// What seals, once there are keys.
    pub fn suite(&self) -> Suite {
        if self.suite & 1 == 1 { Suite::Aes128Gcm } else { Suite::ChaCha20Poly1305 }
    }

    /// Whether the peer has asked for a key update. It goes out with our next data.
    pub fn owe_update(&self) -> bool {
        self.is(Flags::OWES_UPDATE)
    }

    /// Whether we have said that we have said all.
    pub fn are_write_closed(&self) -> bool {
        self.is(Flags::WRITE_CLOSED)
    }

    pub(crate) fn is(&self, flag: Flags) -> bool {
        self.flags & flag.0 != 0
    }

    pub(crate) fn mark(&mut self, flag: Flags, is_so: bool) {
        self.flags = if is_so { self.flags | flag.0 } else { self.flags & !flag.0 };
    }

    /// What seals the next record.
    pub(crate) fn write_cipher(&self) -> Cipher {
        debug_assert!(self.are_set(), "zeros are everybody's key");
        let aes = |keys: &Keys| Cipher::new(Suite::Aes128Gcm, &keys.ready[..16], &keys.ready[16..]);
        match (self.version(), self.suite()) {
            (_, Suite::Aes128Gcm) => aes(self),
            (Version::Tls13, suite) => {
                Cipher::with_iv(suite, &self.write, &self.ready[..NONCE_BYTES])
            }
            (Version::Tls12, suite) => Cipher::new(suite, &self.write, &self.ready[..NONCE_BYTES]),
        }
    }

    /// What opens the next record.
    pub(crate) fn read_cipher(&self) -> Cipher {
        debug_assert!(self.are_set(), "zeros are everybody's key");
        match (self.version(), self.suite()) {
            (Version::Tls13, suite) => Cipher::of_secret(suite, &self.read),
            (Version::Tls12, Suite::Aes128Gcm) => {
                let salt = &self.read[AES_BYTES..AES_BYTES + SALT_BYTES];
                Cipher::new(Suite::Aes128Gcm, &self.read[..AES_BYTES], salt)
            }
            (Version::Tls12, suite) => {
                let iv = &self.ready[NONCE_BYTES..2 * NONCE_BYTES];
                Cipher::new(suite, &self.read, iv)
            }
        }
    }

    /// The next key to write with: the peer is told before (RFC 8446, section 7.2).
    pub(crate) fn update_write(&mut self) {
        debug_assert!(self.are_set() && self.version() == Version::Tls13);
        derive::update(&mut self.write);
        self.make_ready();
        self.write_seq = 0;
    }

    /// The next key to read with.
    pub(crate) fn update_read(&mut self) {
        debug_assert!(self.are_set() && self.version() == Version::Tls13);
        derive::update(&mut self.read);
        self.read_seq = 0;
    }

    /// What TLS 1.3 writes with, from its secret.
    fn make_ready(&mut self) {
        match self.suite() {
            Suite::Aes128Gcm => {
                derive::key(&self.write, &mut self.ready[..AES_BYTES]);
                derive::iv(&self.write, &mut self.ready[AES_BYTES..]);
            }
            Suite::ChaCha20Poly1305 => derive::iv(&self.write, &mut self.ready[..NONCE_BYTES]),
        }
    }

    /// Takes over what a handshake has come to. `secrets` come from rustls' own keys, and must be
    /// those that the captured secrets lead to.
    pub(crate) fn take_over(
        &mut self,
        version: Version,
        secrets: &ExtractedSecrets,
        capture: &Capture,
        is_client: bool,
    ) -> Result<(), Failure> {
        self.clear();
        let taken = self.try_take_over(version, secrets, capture, is_client);
        if taken.is_none() {
            self.clear();
        }
        debug_assert_eq!(self.are_set(), taken.is_some());
        debug_assert!(taken.is_none() || self.version() == version);
        taken.ok_or(Failure::Keys)
    }

    fn try_take_over(
        &mut self,
        version: Version,
        secrets: &ExtractedSecrets,
        capture: &Capture,
        is_client: bool,
    ) -> Option<()> {
        let ((write_seq, write), (read_seq, read)) = (&secrets.tx, &secrets.rx);
        let (suite, write_key, write_iv) = parts(write)?;
        let (read_suite, read_key, read_iv) = parts(read)?;
        if suite != read_suite {
            return None;
        }
        self.suite = 4 | u8::from(suite == Suite::Aes128Gcm);
        self.suite |= if version == Version::Tls12 { 2 } else { 0 };
        self.write_seq = u32::try_from(*write_seq).ok()?;
        self.read_seq = u32::try_from(*read_seq).ok()?;
        self.mark(Flags::CLIENT, is_client);
        match (version, suite) {
            (Version::Tls13, _) => {
                let captured = capture.copy(is_client, &mut self.write)
                    && capture.copy(!is_client, &mut self.read);
                self.make_ready();
                let agree = captured
                    && leads_to(&self.write, write_key, write_iv)
                    && leads_to(&self.read, read_key, read_iv);
                return agree.then_some(());
            }
            (Version::Tls12, Suite::Aes128Gcm) => {
                self.ready[..AES_BYTES].copy_from_slice(write_key);
                self.ready[AES_BYTES..].copy_from_slice(write_iv);
                self.read[..AES_BYTES].copy_from_slice(read_key);
                self.read[AES_BYTES..AES_BYTES + SALT_BYTES]
                    .copy_from_slice(&read_iv[..SALT_BYTES]);
            }
            (Version::Tls12, Suite::ChaCha20Poly1305) => {
                self.write.copy_from_slice(write_key);
                self.read.copy_from_slice(read_key);
                self.ready[..NONCE_BYTES].copy_from_slice(write_iv);
                self.ready[NONCE_BYTES..2 * NONCE_BYTES].copy_from_slice(read_iv);
            }
        }
        Some(())
    }
}

/// Whether a traffic secret leads to this key and IV.
fn leads_to(secret: &[u8; SECRET_BYTES], key: &[u8], iv: &[u8]) -> bool {
    let mut own = Zeroizing::new([0; CHACHA_BYTES + NONCE_BYTES]);
    let (own_key, own_iv) = own.split_at_mut(CHACHA_BYTES);
    let Some(own_key) = own_key.get_mut(..key.len()) else { return false };
    derive::key(secret, own_key);
    derive::iv(secret, own_iv);
    own_key == key && own_iv[..NONCE_BYTES] == *iv
}

/// Suite, key and IV of one direction, if it is a suite of ours.
fn parts(secrets: &ConnectionTrafficSecrets) -> Option<(Suite, &[u8], &[u8])> {
    match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv } => {
            (key.as_ref().len() == AES_BYTES).then_some(())?;
            Some((Suite::Aes128Gcm, key.as_ref(), iv.as_ref()))
        }
        ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => {
            Some((Suite::ChaCha20Poly1305, key.as_ref(), iv.as_ref()))
        }
        _ => None,
    }
}

impl Zeroize for Keys {
    fn zeroize(&mut self) {
        self.read.zeroize();
        self.write.zeroize();
        self.ready.zeroize();
        self.write_seq.zeroize();
        self.read_seq.zeroize();
        self.suite.zeroize();
        self.flags.zeroize();
        self.idle_records.zeroize();
        self.note.zeroize();
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.zeroize();
    }
}

impl ZeroizeOnDrop for Keys {}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.are_set() {
            true => write!(f, "Keys({:?}, {:?})", self.version(), self.suite()),
            false => f.write_str("Keys(none)"),
        }
    }
}

/// For tests, which cannot wait for millions of records.
#[cfg(test)]
impl Keys {
    /// A server's and a client's keys of one connection, made up.
    pub(crate) fn pair(version: Version, suite: Suite, random: &mut fastrand::Rng) -> [Keys; 2] {
        let mut pair = [Keys::default(), Keys::default()];
        let mut secret = || {
            let mut secret = [0; SECRET_BYTES];
            random.fill(&mut secret);
            secret
        };
        let (there, back, ivs) = (secret(), secret(), secret());
        for (at, keys) in pair.iter_mut().enumerate() {
            keys.suite = 4 | u8::from(suite == Suite::Aes128Gcm);
            keys.suite |= if version == Version::Tls12 { 2 } else { 0 };
            keys.mark(Flags::CLIENT, at == 1);
            let (write, read) = if at == 0 { (there, back) } else { (back, there) };
            let (write_iv, read_iv) = if at == 0 { (0, 12) } else { (12, 0) };
            keys.write = write;
            keys.read = read;
            match (version, suite) {
                (Version::Tls13, _) => keys.make_ready(),
                (Version::Tls12, Suite::Aes128Gcm) => {
                    keys.ready[..16].copy_from_slice(&write[..16]);
                    keys.ready[16..].copy_from_slice(&ivs[write_iv..write_iv + 12]);
                    keys.read[16..20].copy_from_slice(&ivs[read_iv..read_iv + 4]);
                }
                (Version::Tls12, Suite::ChaCha20Poly1305) => {
                    keys.ready[..12].copy_from_slice(&ivs[write_iv..write_iv + 12]);
                    keys.ready[12..24].copy_from_slice(&ivs[read_iv..read_iv + 12]);
                }
            }
        }
        pair
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_cleared_or_printed_show_nothing() {
        let mut random = fastrand::Rng::with_seed(1);
        for version in [Version::Tls12, Version::Tls13] {
            let [mut keys, _] = Keys::pair(version, Suite::Aes128Gcm, &mut random);
            assert_eq!(format!("{keys:?}"), format!("Keys({version:?}, Aes128Gcm)"));
            (keys.write_seq, keys.read_seq, keys.note) = (1, 2, 3);
            keys.clear();
            assert!(!keys.are_set());
            assert_eq!(keys.read.iter().chain(&keys.write).chain(&keys.ready).max(), Some(&0));
            assert_eq!((keys.write_seq, keys.read_seq, keys.note), (0, 0, 0));
            assert_eq!(format!("{keys:?}"), "Keys(none)");
        }
    }
}
