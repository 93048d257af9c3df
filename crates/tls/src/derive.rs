//! Keys from traffic secrets (RFC 8446, sections 7.1 to 7.3): HKDF-Expand-Label with SHA-256 and an
//! empty context. Each call is one HMAC.

use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk};
use zeroize::Zeroizing;

/// Bytes of a traffic secret.
pub(crate) const SECRET_BYTES: usize = 32;

struct Len(usize);

impl KeyType for Len {
    fn len(&self) -> usize {
        self.0
    }
}

/// The key of a record's sealing or opening.
pub(crate) fn key(secret: &[u8; SECRET_BYTES], key: &mut [u8]) {
    expand(secret, b"key", key);
}

/// What sequence numbers are laid over.
pub(crate) fn iv(secret: &[u8; SECRET_BYTES], iv: &mut [u8]) {
    expand(secret, b"iv", iv);
}

/// The secret that follows this one after a key update.
pub(crate) fn update(secret: &mut [u8; SECRET_BYTES]) {
    let mut next = Zeroizing::new([0; SECRET_BYTES]);
    expand(secret, b"traffic upd", &mut *next);
    secret.copy_from_slice(&*next);
}

fn expand(secret: &[u8; SECRET_BYTES], label: &[u8], out: &mut [u8]) {
    const PREFIX: &[u8] = b"tls13 ";
    debug_assert!(!out.is_empty() && out.len() <= SECRET_BYTES);
    let len = (out.len() as u16).to_be_bytes();
    let label_len = [(PREFIX.len() + label.len()) as u8];
    let info: [&[u8]; 5] = [&len, &label_len, PREFIX, label, &[0]];
    Prk::new_less_safe(HKDF_SHA256, secret)
        .expand(&info, Len(out.len()))
        .and_then(|okm| okm.fill(out))
        .expect("a key of 32 bytes or fewer is within what HKDF may expand to");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<const N: usize>(hex: &str) -> [u8; N] {
        let hex: String = hex.split_whitespace().collect();
        std::array::from_fn(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
    }

    /// RFC 8448, section 3: the server's application traffic keys.
    #[test]
    fn keys_are_those_of_the_rfc_s_trace() {
        let secret = bytes(
            "a1 1a f9 f0 55 31 f8 56 ad 47 11 6b 45 a9 50 32 82 04 b4 f4 4b fb 6b 3a 4b 4f 1f 3f \
             cb 63 16 43",
        );
        let mut found = [0; 16];
        key(&secret, &mut found);
        assert_eq!(found, bytes("9f 02 28 3b 6c 9c 07 ef c2 6b b9 f2 ac 92 e3 56"));
        let mut found = [0; 12];
        iv(&secret, &mut found);
        assert_eq!(found, bytes("cf 78 2b 88 dd 83 54 9a ad f1 e9 84"));
    }
}
