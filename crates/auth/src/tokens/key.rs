//! One key, and the algorithms that it is for: its type says which (RFC 8725, section 3.1), never
//! the token.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256,
    VerificationAlgorithm,
};
use jsonwebtoken::{Algorithm, DecodingKey};

use super::known_secrets;
use super::limits::SECRET_BYTES_MIN;

/// How a public key of P-256 begins in DER (RFC 5480): its type, and that a point of 65 bytes
/// follows.
const P256_START: [u8; 26] = *b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\
    \x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00";

/// How a public key of Ed25519 begins in DER (RFC 8410), before its 32 bytes.
const ED25519_START: [u8; 12] = *b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";

/// The type of an RSA key (RFC 3279), after the length of the whole.
const RSA_TYPE: [u8; 15] = *b"\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00";

/// What a key is, as far as tokens are concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum KeyKind {
    /// A secret of so many bytes.
    Secret(usize),
    Rsa,
    P256,
    Ed25519,
}

impl KeyKind {
    /// What it may verify. A secret is at least as long as the hash (RFC 7518, section 3.2).
    fn algorithms(self) -> &'static [Algorithm] {
        match self {
            KeyKind::Secret(..SECRET_BYTES_MIN) => &[],
            KeyKind::Secret(SECRET_BYTES_MIN..48) => &[Algorithm::HS256],
            KeyKind::Secret(48..64) => &[Algorithm::HS256, Algorithm::HS384],
            KeyKind::Secret(64..) => &[Algorithm::HS256, Algorithm::HS384, Algorithm::HS512],
            KeyKind::Rsa => &[Algorithm::RS256, Algorithm::PS256],
            KeyKind::P256 => &[Algorithm::ES256],
            KeyKind::Ed25519 => &[Algorithm::EdDSA],
        }
    }
}

/// A key that tokens are verified with. Its bytes are wiped when it is dropped.
pub(super) struct Key {
    kind: KeyKind,
    /// Its `kid`, if it has one.
    pub(super) id: Option<Box<str>>,
    decoding: DecodingKey,
    algorithms: Box<[Algorithm]>,
    /// It is a secret that everybody knows.
    is_known: bool,
    /// Which key of all it is. None of a secret: what a secret verifies is not remembered.
    pub(super) print: Option<Fingerprint>,
}

/// The first half of the SHA-256 of a public key, with what it may be used for.
pub(super) type Fingerprint = [u8; 16];

/// Neither the key nor its id: the latter may be anything.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl Key {
    /// A secret, of which nothing more is known than its bytes.
    pub(super) fn secret(secret: &[u8]) -> Key {
        let key = Key::new(KeyKind::Secret(secret.len()), DecodingKey::from_secret(secret), None);
        Key { is_known: known_secrets::is_known(secret), ..key }
    }

    /// A public key as certificates and PEM files hold it: a SubjectPublicKeyInfo (RFC 5280).
    /// `None` where it is of another type, or is no key.
    pub(super) fn of_spki(der: &[u8]) -> Option<Key> {
        let kind = spki_kind(der)?;
        let point = |start: usize| &der[start..];
        match kind {
            KeyKind::P256 => Key::p256(point(P256_START.len())),
            KeyKind::Ed25519 => Key::ed25519(point(ED25519_START.len())),
            _ => Key::rsa(der),
        }
    }

    /// A key of RSA, as above or in its own form (RFC 8017, appendix A.1.1).
    pub(super) fn rsa(der: &[u8]) -> Option<Key> {
        let print = fingerprint(&RSA_PKCS1_2048_8192_SHA256, der)?;
        Some(Key::new(KeyKind::Rsa, DecodingKey::from_rsa_der(der), Some(print)))
    }

    /// A point of P-256: 4, x and y.
    pub(super) fn p256(point: &[u8]) -> Option<Key> {
        let print = fingerprint(&ECDSA_P256_SHA256_FIXED, point)?;
        Some(Key::new(KeyKind::P256, DecodingKey::from_ec_der(point), Some(print)))
    }

    pub(super) fn ed25519(public: &[u8]) -> Option<Key> {
        let print = fingerprint(&ED25519, public)?;
        Some(Key::new(KeyKind::Ed25519, DecodingKey::from_ed_der(public), Some(print)))
    }

    fn new(kind: KeyKind, decoding: DecodingKey, print: Option<Fingerprint>) -> Key {
        let algorithms = kind.algorithms().into();
        Key { kind, id: None, decoding, algorithms, is_known: false, print }
    }

    /// The key for one algorithm only, if it is for that at all.
    pub(super) fn narrowed_to(mut self, algorithm: Algorithm) -> Key {
        self.algorithms = self.algorithms.iter().copied().filter(|&a| a == algorithm).collect();
        if let Some(print) = &mut self.print {
            let text = [&print[..], format!("{:?}", self.algorithms).as_bytes()].concat();
            *print = half(&text);
        }
        self
    }

    pub(super) fn named(mut self, id: Option<String>) -> Key {
        self.id = id.map(String::into_boxed_str);
        self
    }

    pub(super) fn kind(&self) -> KeyKind {
        self.kind
    }

    /// Whether it is a secret that everybody [knows](super::known_secrets).
    pub(super) fn is_known(&self) -> bool {
        self.is_known
    }

    pub(super) fn algorithms(&self) -> &[Algorithm] {
        &self.algorithms
    }

    pub(super) fn is_for(&self, algorithm: Algorithm) -> bool {
        self.algorithms.contains(&algorithm)
    }

    pub(super) fn decoding(&self) -> &DecodingKey {
        &self.decoding
    }
}

/// Tries a key once: on its curve, and of a length that is let in.
fn fingerprint(of: &'static dyn VerificationAlgorithm, public: &[u8]) -> Option<Fingerprint> {
    let key = ParsedPublicKey::new(of, public).ok()?;
    Some(half(key.as_ref()))
}

fn half(text: &[u8]) -> Fingerprint {
    let mut half = Fingerprint::default();
    half.copy_from_slice(&digest(&SHA256, text).as_ref()[..16]);
    half
}

/// Which type of key `der` is, if it is a public key of one that tokens may be signed with.
fn spki_kind(der: &[u8]) -> Option<KeyKind> {
    match der {
        der if der.len() == 91 && der.starts_with(&P256_START) => Some(KeyKind::P256),
        der if der.len() == 44 && der.starts_with(&ED25519_START) => Some(KeyKind::Ed25519),
        [0x30, 0x82, _, _, rest @ ..] | [0x30, 0x81, _, rest @ ..]
            if rest.starts_with(&RSA_TYPE) =>
        {
            Some(KeyKind::Rsa)
        }
        _ => None,
    }
}
