//! Tokens (RFC 7519) as an application makes them.

use std::path::Path;

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

/// A file with a secret that is known to everybody.
pub(crate) const TOKEN_SECRET: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/fixtures/token-secret.txt");

/// The second of Unix time in which a token ends that lasts so long.
pub(crate) fn in_seconds(seconds: i64) -> i64 {
    (sys::clock::unix_ms() / 1000) as i64 + seconds
}

/// A token with these claims, by HS256 and [`TOKEN_SECRET`].
pub(crate) fn signed(claims: &Value) -> String {
    signed_by(include_str!("../fixtures/token-secret.txt").trim_end(), claims)
}

/// A token with these claims, by HS256 and this secret.
pub(crate) fn signed_by(secret: &str, claims: &Value) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    join(&json!({ "alg": "HS256" }), claims, |text| hmac::sign(&key, text).as_ref().to_vec())
}

/// A token for `sub` that lasts an hour.
pub(crate) fn token_for(sub: &str) -> String {
    signed(&json!({ "sub": sub, "exp": in_seconds(3600) }))
}

/// A key pair of P-256.
pub(crate) struct Signer {
    pair: EcdsaKeyPair,
    /// What the key is called (`kid`).
    name: String,
}

impl Signer {
    pub(crate) fn new(name: &str) -> Signer {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        Signer { pair, name: name.to_owned() }
    }

    /// The same one from the bytes of [`Signer::to_bytes`].
    #[allow(dead_code, reason = "for the attackers of the benchmark")]
    pub(crate) fn of(name: &str, bytes: &[u8]) -> Signer {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, bytes).unwrap();
        Signer { pair, name: name.to_owned() }
    }

    /// The private key (PKCS #8).
    #[allow(dead_code, reason = "for the attackers of the benchmark")]
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.pair.to_pkcs8v1().unwrap().as_ref().to_vec()
    }

    /// A token with these claims, by ES256.
    pub(crate) fn signed(&self, claims: &Value) -> String {
        self.signed_as("JWT", claims)
    }

    /// A token of this type.
    pub(crate) fn signed_as(&self, typ: &str, claims: &Value) -> String {
        let header = json!({ "alg": "ES256", "typ": typ, "kid": self.name });
        join(&header, claims, |text| {
            self.pair.sign(&SystemRandom::new(), text).unwrap().as_ref().to_vec()
        })
    }

    /// Writes the public key, in PEM.
    pub(crate) fn write_pem(&self, path: &Path) {
        let der: PublicKeyX509Der<'_> = self.pair.public_key().as_der().unwrap();
        let text = STANDARD.encode(der.as_ref());
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n");
        std::fs::write(path, pem).unwrap();
    }

    /// The public key as a JWK.
    pub(crate) fn jwk(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let (x, y) = (text(&point[1..33]), text(&point[33..]));
        json!({ "kty": "EC", "crv": "P-256", "kid": self.name, "x": x, "y": y })
    }
}

fn join(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let text = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", text(header), text(claims));
    let signature = URL_SAFE_NO_PAD.encode(sign(signed.as_bytes()));
    format!("{signed}.{signature}")
}
