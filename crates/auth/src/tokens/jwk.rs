//! JSON Web Keys and sets of them (RFC 7517, RFC 7518 section 6, RFC 8037).
//!
//! The library has types for these too. They keep a secret in plain text that is not wiped, and a
//! set with one unknown curve in it is no set at all to them. RFC 7517, section 5, wants such keys
//! ignored.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use thiserror::Error;
use zeroize::Zeroizing;

use super::jws::{algorithm, object};
use super::key::Key;
use super::limits::{KEYS_MAX, SECRET_BYTES_MIN};

/// Why a JWK is not used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum JwkError {
    /// No JSON, or members that are missing, doubled or of another type.
    #[error("it is not written as RFC 7517 says")]
    Form,
    /// Another type of key, curve or algorithm.
    #[error("tokens are verified with keys of type oct, RSA, EC (P-256) and OKP (Ed25519) only")]
    Type,
    /// `use` or `key_ops` says that it is not for signatures.
    #[error("its `use` or `key_ops` says that it is not for verifying")]
    Purpose,
    /// It can sign.
    #[error("it is a private key, and the server needs the public one: take out `d` and the rest")]
    Private,
    /// A secret that is published is none.
    #[error("it is a secret, and what comes from a URL is none")]
    Published,
    /// A point that is not on the curve, or an RSA key below 2048 or over 8192 bits.
    #[error("it is no key that could verify anything (RSA: 2048 to 8192 bits)")]
    Unusable,
    /// A secret that can be guessed.
    #[error("its secret has {0} bytes and needs 32: `openssl rand 32` makes some")]
    Short(usize),
    /// More keys than are looked at.
    #[error("it has more than 100 keys")]
    Many,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
    n: Option<String>,
    e: Option<String>,
    k: Option<Zeroizing<String>>,
    d: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Set<'s> {
    #[serde(borrow)]
    keys: Vec<&'s RawValue>,
}

/// Where a key comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// A file of this machine, which may hold secrets.
    File,
    /// A place that anybody may read.
    Url,
}

/// The keys of a set that can be used, and why others are not, by their place in it.
pub(super) struct KeysOfSet {
    pub(super) keys: Vec<Key>,
    pub(super) others: Vec<(usize, JwkError)>,
}

/// Whether `text` is a set of keys, not one.
pub(super) fn is_set(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Outline {
        keys: Option<IgnoredAny>,
    }
    serde_json::from_str::<Outline>(text).is_ok_and(|outline| outline.keys.is_some())
}

/// Reads a set.
pub(super) fn set(text: &str, origin: Origin) -> Result<KeysOfSet, JwkError> {
    let set: Set<'_> = object(text.as_bytes()).map_err(|_| JwkError::Form)?;
    if set.keys.len() > KEYS_MAX {
        return Err(JwkError::Many);
    }
    let mut read = KeysOfSet { keys: Vec::new(), others: Vec::new() };
    for (place, text) in set.keys.iter().enumerate() {
        match key(text.get(), origin) {
            Ok(key) => read.keys.push(key),
            Err(error) => read.others.push((place, error)),
        }
    }
    Ok(read)
}

/// Reads one key.
pub(super) fn key(text: &str, origin: Origin) -> Result<Key, JwkError> {
    let jwk: Jwk = object(text.as_bytes()).map_err(|_| JwkError::Form)?;
    // A symmetric key may also sign: that is what a secret is.
    let verifies = |op: &String| op == "verify" || op == "sign" && jwk.kty == "oct";
    let for_signatures = jwk.purpose.as_deref().is_none_or(|purpose| purpose == "sig")
        && jwk.key_ops.as_ref().is_none_or(|ops| ops.iter().any(verifies));
    if !for_signatures {
        return Err(JwkError::Purpose);
    }
    if jwk.d.is_some() {
        return Err(JwkError::Private);
    }
    let key = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
        ("oct", _) if origin == Origin::Url => return Err(JwkError::Published),
        ("oct", _) => secret(jwk.k.as_ref().ok_or(JwkError::Form)?)?,
        ("RSA", _) => rsa(&bytes(&jwk.n)?, &bytes(&jwk.e)?)?,
        ("EC", Some("P-256")) => p256(&bytes(&jwk.x)?, &bytes(&jwk.y)?)?,
        ("OKP", Some("Ed25519")) => {
            let x = bytes(&jwk.x)?;
            Key::ed25519(&x).filter(|_| x.len() == 32).ok_or(JwkError::Unusable)?
        }
        _ => return Err(JwkError::Type),
    };
    let key = match jwk.alg.as_deref() {
        None => key,
        Some(name) => key.narrowed_to(algorithm(name).ok_or(JwkError::Type)?),
    };
    match key.algorithms().is_empty() {
        // Its own `alg` is of another type of key, or wants a longer secret.
        true => Err(JwkError::Type),
        false => Ok(key.named(jwk.kid)),
    }
}

fn secret(k: &str) -> Result<Key, JwkError> {
    let secret = Zeroizing::new(URL_SAFE_NO_PAD.decode(k).map_err(|_| JwkError::Form)?);
    match secret.len() < SECRET_BYTES_MIN {
        true => Err(JwkError::Short(secret.len())),
        false => Ok(Key::secret(&secret)),
    }
}

fn bytes(member: &Option<String>) -> Result<Vec<u8>, JwkError> {
    let text = member.as_ref().ok_or(JwkError::Form)?;
    URL_SAFE_NO_PAD.decode(text).map_err(|_| JwkError::Form)
}

fn p256(x: &[u8], y: &[u8]) -> Result<Key, JwkError> {
    let point = [&[4], x, y].concat();
    // RFC 7518, section 6.2.1.2: both have their full length.
    Key::p256(&point).filter(|_| x.len() == 32 && y.len() == 32).ok_or(JwkError::Unusable)
}

/// An RSA key by its DER, as if it came out of a PEM file.
fn rsa(n: &[u8], e: &[u8]) -> Result<Key, JwkError> {
    use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
    use aws_lc_rs::rsa::PublicKeyComponents;
    let components = PublicKeyComponents { n, e };
    let der: Result<PublicKeyX509Der<'_>, _> = components.as_der();
    der.ok().and_then(|der| Key::of_spki(der.as_ref())).ok_or(JwkError::Unusable)
}
