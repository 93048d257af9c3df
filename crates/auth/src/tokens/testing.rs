//! What tests of this room share: key pairs, and tokens of any header and claims.

use std::fs::{self, Permissions};
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
    RSA_PSS_SHA256, RsaKeyPair,
};
use aws_lc_rs::{hmac, signature};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hub::TokenRefusal;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::revoked::Revocations;
use super::rules::TokenRules;
use super::verifier::{Checked, Verifier};

/// A time of the tests.
pub(super) const NOW: u64 = 1_800_000_000;

/// A secret that is long enough for each of the three.
pub(super) const SECRET: &[u8] =
    b"0123456789-abcdefghijklmnopqrstuvwxyz_ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// What signs in a test.
pub(super) enum Pair {
    Secret(&'static [u8]),
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(RsaKeyPair),
}

impl Pair {
    pub(super) fn p256() -> Pair {
        Pair::P256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap())
    }

    pub(super) fn ed25519() -> Pair {
        Pair::Ed25519(Ed25519KeyPair::generate().unwrap())
    }

    pub(super) fn rsa() -> Pair {
        Pair::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).unwrap())
    }

    /// The public key in DER.
    pub(super) fn spki(&self) -> Vec<u8> {
        let der: PublicKeyX509Der<'_> = match self {
            Pair::Secret(_) => panic!("a secret has no public key"),
            Pair::P256(pair) => pair.public_key().as_der().unwrap(),
            Pair::Ed25519(pair) => pair.public_key().as_der().unwrap(),
            Pair::Rsa(pair) => pair.public_key().as_der().unwrap(),
        };
        der.as_ref().to_vec()
    }

    pub(super) fn pem(&self) -> String {
        pem("PUBLIC KEY", &self.spki())
    }

    pub(super) fn jwk(&self) -> Value {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match self {
            Pair::Secret(secret) => json!({ "kty": "oct", "k": text(secret) }),
            Pair::P256(pair) => {
                let point = pair.public_key().as_ref();
                let (x, y) = (text(&point[1..33]), text(&point[33..]));
                json!({ "kty": "EC", "crv": "P-256", "x": x, "y": y })
            }
            Pair::Ed25519(pair) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "x": text(pair.public_key().as_ref()) })
            }
            Pair::Rsa(pair) => {
                let key = pair.public_key();
                let n = text(key.modulus().big_endian_without_leading_zero());
                let e = text(key.exponent().big_endian_without_leading_zero());
                json!({ "kty": "RSA", "n": n, "e": e })
            }
        }
    }

    /// What it signs by `algorithm`; a key of another type uses its bytes as a secret, as somebody
    /// would who wants to be let in.
    fn sign(&self, algorithm: &str, text: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        let mac = |algorithm, key: &[u8]| {
            hmac::sign(&hmac::Key::new(algorithm, key), text).as_ref().to_vec()
        };
        let rsa = |pair: &RsaKeyPair, padding: &'static dyn signature::RsaEncoding| {
            let mut signature = vec![0; pair.public_modulus_len()];
            pair.sign(padding, &random, text, &mut signature).unwrap();
            signature
        };
        match (algorithm, self) {
            ("HS256", Pair::Secret(secret)) => mac(hmac::HMAC_SHA256, secret),
            ("HS384", Pair::Secret(secret)) => mac(hmac::HMAC_SHA384, secret),
            ("HS512", Pair::Secret(secret)) => mac(hmac::HMAC_SHA512, secret),
            ("HS256", pair) => mac(hmac::HMAC_SHA256, pair.pem().as_bytes()),
            (_, Pair::Secret(secret)) => mac(hmac::HMAC_SHA256, secret),
            ("PS256", Pair::Rsa(pair)) => rsa(pair, &RSA_PSS_SHA256),
            (_, Pair::Rsa(pair)) => rsa(pair, &RSA_PKCS1_SHA256),
            (_, Pair::P256(pair)) => pair.sign(&random, text).unwrap().as_ref().to_vec(),
            (_, Pair::Ed25519(pair)) => pair.sign(text).as_ref().to_vec(),
        }
    }

    /// A token that says `claims`, with any header.
    pub(super) fn token(&self, header: &Value, claims: &Value) -> String {
        let algorithm = header["alg"].as_str().unwrap_or_default();
        let text = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", text(header), text(claims));
        let signature = URL_SAFE_NO_PAD.encode(self.sign(algorithm, signed.as_bytes()));
        format!("{signed}.{signature}")
    }
}

/// A pair of each type. An RSA key takes tenths of a second to make.
pub(super) static RSA: LazyLock<Pair> = LazyLock::new(Pair::rsa);

pub(super) fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = text.as_bytes().chunks(64).map(|l| str::from_utf8(l).unwrap()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

/// A file that only its owner may read.
pub(super) fn file(dir: &Path, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    path
}

/// A verifier by `rules` with these key files.
pub(super) fn verifier(mut rules: TokenRules, keys: &[&[u8]]) -> TestVerifier {
    let dir = tempfile::tempdir().unwrap();
    for (number, key) in keys.iter().enumerate() {
        rules.keys.push(file(dir.path(), &number.to_string(), key));
    }
    let revocations = Arc::new(Revocations::open(dir.path()).unwrap());
    let verifier = Verifier::open(rules, Some(Arc::clone(&revocations))).unwrap();
    TestVerifier { verifier, revocations, _dir: dir }
}

/// A verifier with a directory for what it is told to remember.
pub(super) struct TestVerifier {
    verifier: Verifier,
    pub(super) revocations: Arc<Revocations>,
    _dir: TempDir,
}

impl Deref for TestVerifier {
    type Target = Verifier;

    fn deref(&self) -> &Verifier {
        &self.verifier
    }
}

/// Claims that are good at [`NOW`].
pub(super) fn claims() -> Value {
    json!({ "sub": "bob", "iat": NOW - 10, "exp": NOW + 3600 })
}

/// The public key of `pair` under a name.
pub(super) fn named(pair: &Pair, kid: &str) -> Value {
    let mut jwk = pair.jwk();
    jwk["kid"] = kid.into();
    jwk
}

/// A good token that names its key.
pub(super) fn token(pair: &Pair, kid: &str) -> String {
    pair.token(&json!({ "alg": "ES256", "kid": kid }), &claims())
}

/// Why `token` is refused, whether that is known at once or by its signature.
pub(super) fn verified(verifier: &Verifier, token: &str) -> Option<TokenRefusal> {
    match verifier.check_at(token, NOW) {
        Checked::Granted(_) => None,
        Checked::Refused(refusal) => Some(refusal),
        Checked::Ask => verifier.verify_at(token, NOW).err(),
    }
}
