//! A token's form: JWS compact serialization (RFC 7515, section 7.1) with a header that is all
//! understood.
//!
//! The library of tokens does not refuse `crit` and `b64`, and reads the header as a value of many
//! members. This reads the six that decide. Nothing that the header offers as a key (`jwk`, `jku`,
//! `x5c`, `x5u`) is ever used: keys are the server's own (RFC 8725, section 3.10).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hub::TokenRefusal;
use jsonwebtoken::Algorithm;
use jsonwebtoken::crypto::verify;
use serde::Deserialize;
use serde::de::{Error as _, IgnoredAny};

use super::key::Key;
use super::limits::TOKEN_BYTES_MAX;

/// What `typ` may say, in small letters: a token of RFC 7519, or an access token of RFC 9068. What
/// an issuer signs for other ends (security events, proofs of possession) is none of ours (RFC
/// 8725, section 3.11).
const TYPES: [&str; 4] = ["jwt", "at+jwt", "application/jwt", "application/at+jwt"];

/// A token that is well formed; nobody has looked at its signature yet.
pub(super) struct Jws<'t> {
    pub(super) algorithm: Algorithm,
    /// Which key it says it is signed with.
    pub(super) key_id: Option<String>,
    /// Of which type it says it is.
    pub(super) kind: Option<String>,
    /// What is signed: header and claims, in base64url.
    signed: &'t str,
    claims: &'t str,
    signature: &'t str,
}

/// Members that this server does not know are no harm: what must be known is in `crit`.
#[derive(Deserialize)]
struct Header<'h> {
    #[serde(borrow)]
    alg: std::borrow::Cow<'h, str>,
    kid: Option<String>,
    typ: Option<String>,
    cty: Option<IgnoredAny>,
    enc: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "there")]
    crit: bool,
    #[serde(default, deserialize_with = "there")]
    b64: bool,
}

/// Whether a member is there, whatever it says.
fn there<'de, D: serde::Deserializer<'de>>(member: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(member).map(|_| true)
}

impl<'t> Jws<'t> {
    /// Takes `token` apart.
    pub(super) fn parse(token: &'t str) -> Result<Jws<'t>, TokenRefusal> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenRefusal::TooLong);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenRefusal::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(TokenRefusal::Malformed)?;
        match claims.bytes().filter(|&byte| byte == b'.').count() {
            0 => {}
            // Five parts in all (RFC 7516).
            2 => return Err(TokenRefusal::Encrypted),
            _ => return Err(TokenRefusal::Malformed),
        }
        let header = decode(header)?;
        let header: Header<'_> = object(&header).map_err(|_| TokenRefusal::Header)?;
        if header.enc.is_some() {
            return Err(TokenRefusal::Encrypted);
        }
        if header.cty.is_some() {
            return Err(TokenRefusal::Nested);
        }
        let known = |typ: &String| TYPES.contains(&typ.to_ascii_lowercase().as_str());
        if !header.typ.as_ref().is_none_or(known) {
            return Err(TokenRefusal::Header);
        }
        // RFC 7515, section 4.1.11: no extension is understood here; RFC 7797 is one.
        if header.crit || header.b64 {
            return Err(TokenRefusal::Header);
        }
        let algorithm = algorithm(&header.alg).ok_or(TokenRefusal::Algorithm)?;
        let (key_id, kind) = (header.kid, header.typ);
        Ok(Jws { algorithm, key_id, kind, signed, claims, signature })
    }

    /// Whether `key` has signed it. The cost of a token that nobody has signed is that of this.
    pub(super) fn is_signed_with(&self, key: &Key) -> bool {
        let signed = self.signed.as_bytes();
        // An error is a signature in no base64url, or a key of another family.
        verify(self.signature, signed, key.decoding(), self.algorithm).unwrap_or(false)
    }

    /// The claims as JSON. They may be believed once the signature is right.
    pub(super) fn claims(&self) -> Result<Vec<u8>, TokenRefusal> {
        decode(self.claims)
    }
}

/// Reads an object in UTF-8. The library of JSON takes a list for one, member by member, and nobody
/// who signs tokens means that; nor does it look at the bytes of members that it passes over.
pub(super) fn object<'j, T: Deserialize<'j>>(json: &'j [u8]) -> Result<T, serde_json::Error> {
    match str::from_utf8(json) {
        Ok(text) if text.trim_ascii_start().starts_with('{') => serde_json::from_str(text),
        _ => Err(serde_json::Error::custom("no object")),
    }
}

fn decode(part: &str) -> Result<Vec<u8>, TokenRefusal> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenRefusal::Malformed)
}

/// The algorithms that a key of ours may be for. `none` is not among them.
pub(super) fn algorithm(name: &str) -> Option<Algorithm> {
    Some(match name {
        "HS256" => Algorithm::HS256,
        "HS384" => Algorithm::HS384,
        "HS512" => Algorithm::HS512,
        "RS256" => Algorithm::RS256,
        "PS256" => Algorithm::PS256,
        "ES256" => Algorithm::ES256,
        // RFC 9864 gives EdDSA with this curve a name of its own.
        "EdDSA" | "Ed25519" => Algorithm::EdDSA,
        _ => return None,
    })
}

/// Whether it is of a secret, not of a pair of keys.
pub(super) fn is_mac(algorithm: Algorithm) -> bool {
    matches!(algorithm, Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512)
}
