//! Signing tokens: for `encke token new`, for tests and for load tools. A server never signs.

use std::path::Path;

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rustls_pki_types::pem::{PemObject, SectionKind};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use zeroize::Zeroizing;

use super::key_file::{self, Form, KeyFileFault, check_secret};

/// Why tokens cannot be signed with a file.
#[derive(Debug, Error)]
pub enum SigningKeyError {
    /// The file cannot be read, or is no key file.
    #[error("{0}")]
    File(#[from] KeyFileFault),
    /// It holds no private key of a type that tokens are signed with here.
    #[error(
        "tokens are signed with a secret, or a private key of P-256 or Ed25519 in PKCS#8 (\"BEGIN \
         PRIVATE KEY\"): `openssl pkcs8 -topk8 -nocrypt -in KEY -out FILE` writes one"
    )]
    Type,
    /// A secret as a JWK that cannot be read.
    #[error("a secret as a JWK has kty \"oct\" and a `k` of at least 32 bytes in base64url")]
    Jwk,
}

/// A key that tokens are signed with.
pub struct SigningKey {
    algorithm: Algorithm,
    key: EncodingKey,
    id: Option<String>,
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKey").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

/// What a new token says.
#[derive(Clone, Debug, Default, Serialize)]
pub struct NewToken {
    /// The id that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub: Option<String>,
    /// By whom it is issued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iss: Option<String>,
    /// For whom it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aud: Option<String>,
    /// When it was made, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iat: Option<u64>,
    /// When it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exp: Option<u64>,
    /// What it is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jti: Option<String>,
    /// What else it grants.
    #[serde(skip_serializing_if = "NewGrant::is_empty")]
    pub encke: NewGrant,
}

/// The claim `encke` of a new token.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct NewGrant {
    /// Ids, or with `*` at the end all that begin so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
    /// About which ids its bearer may send.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub send: Vec<String>,
    /// Of which ids it may ask who is logged in there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
    /// Of which ids it may read what was sent about them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<String>,
    /// Which durable streams it may read: paths, or with `*` at the end all that begin so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// To which durable streams it may append.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<String>,
    /// What others are told of it where it is a member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub info: Option<serde_json::Value>,
    /// Under how many ids one connection may be logged in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_ids: Option<u32>,
    /// How many connections it is good for at one time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<u32>,
}

impl NewGrant {
    fn is_empty(&self) -> bool {
        *self == NewGrant::default()
    }
}

impl SigningKey {
    /// The key in `path`: a secret as it is or as a JWK (HS256), or a private key of P-256 (ES256)
    /// or Ed25519 (EdDSA) as PKCS#8 in PEM.
    ///
    /// # Errors
    /// There is no such key in it.
    pub fn read(path: &Path) -> Result<SigningKey, SigningKeyError> {
        let (bytes, _) = key_file::bytes(path)?;
        match key_file::form(&bytes) {
            Form::Secret(secret) => {
                let key = EncodingKey::from_secret(check_secret(secret)?);
                Ok(SigningKey { algorithm: Algorithm::HS256, key, id: None })
            }
            Form::Json(text) => SigningKey::of_jwk(text),
            Form::Pem => SigningKey::of_pem(&bytes),
            Form::Der => Err(KeyFileFault::Der.into()),
            Form::Dressed => Err(KeyFileFault::Dressed.into()),
        }
    }

    fn of_jwk(text: &str) -> Result<SigningKey, SigningKeyError> {
        #[derive(Deserialize)]
        struct Secret {
            kty: String,
            kid: Option<String>,
            k: Zeroizing<String>,
        }
        let jwk: Secret = serde_json::from_str(text).map_err(|_| SigningKeyError::Jwk)?;
        let key = EncodingKey::from_urlsafe_base64_secret(&padded(&jwk.k));
        let key = key.ok().filter(|key| check_secret(key.as_bytes()).is_ok() && jwk.kty == "oct");
        let key = key.ok_or(SigningKeyError::Jwk)?;
        Ok(SigningKey { algorithm: Algorithm::HS256, key, id: jwk.kid })
    }

    fn of_pem(pem: &[u8]) -> Result<SigningKey, SigningKeyError> {
        for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(pem) {
            let (kind, der) = section.map_err(|_| KeyFileFault::Pem)?;
            let der = Zeroizing::new(der);
            if kind != SectionKind::PrivateKey {
                continue;
            }
            for (algorithm, key) in [
                (Algorithm::ES256, EncodingKey::from_ec_der(&der)),
                (Algorithm::EdDSA, EncodingKey::from_ed_der(&der)),
            ] {
                // Only a key of the right type signs.
                if jsonwebtoken::crypto::sign(b"", &key, algorithm).is_ok() {
                    return Ok(SigningKey { algorithm, key, id: None });
                }
            }
        }
        Err(SigningKeyError::Type)
    }

    /// The key under a name, which its tokens carry.
    #[must_use]
    pub fn named(mut self, id: Option<String>) -> SigningKey {
        self.id = id.or(self.id);
        self
    }

    /// A token that says what `token` says.
    pub fn sign(&self, token: &NewToken) -> String {
        let mut header = Header::new(self.algorithm);
        header.kid.clone_from(&self.id);
        encode(&header, token, &self.key).expect("the key has signed before, and claims are JSON")
    }
}

/// The library wants what RFC 7518 leaves out.
fn padded(text: &str) -> Zeroizing<String> {
    let mut padded = Zeroizing::new(String::with_capacity(text.len() + 3));
    padded.push_str(text);
    while !padded.len().is_multiple_of(4) {
        padded.push('=');
    }
    padded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::TokenRules;
    use crate::tokens::testing::*;

    fn read(bytes: impl AsRef<[u8]>) -> Result<SigningKey, SigningKeyError> {
        let dir = tempfile::tempdir().unwrap();
        SigningKey::read(&file(dir.path(), "key", bytes))
    }

    #[test]
    fn what_is_signed_here_is_taken_here() {
        let (p256, ed25519) = (Pair::p256(), Pair::ed25519());
        let private = |pair: &Pair| {
            let der = match pair {
                Pair::P256(pair) => pair.to_pkcs8v1(),
                Pair::Ed25519(pair) => pair.to_pkcs8v1(),
                _ => panic!("it signs otherwise"),
            };
            pem("PRIVATE KEY", der.unwrap().as_ref())
        };
        let secret = String::from_utf8(SECRET.to_vec()).unwrap();
        let jwk = Pair::Secret(SECRET).jwk().to_string();
        for (signs, verifies) in [
            (secret.clone(), secret.clone()),
            (jwk, secret),
            (private(&p256), p256.pem()),
            (private(&ed25519), ed25519.pem()),
        ] {
            let key = read(signs).unwrap().named(Some("a".into()));
            let encke = NewGrant { ids: vec!["room:*".into()], ..NewGrant::default() };
            let token = NewToken {
                sub: Some("bob".into()),
                iat: Some(NOW),
                exp: Some(NOW + 60),
                encke,
                ..NewToken::default()
            };
            let token = key.sign(&token);
            let verifier = verifier(TokenRules::default(), &[verifies.as_bytes()]);
            let grant = verifier.verify_at(&token, NOW).unwrap();
            assert!(grant.allows("bob") && grant.allows("room:7") && !grant.allows("alice"));
        }
    }

    #[test]
    fn file_without_a_key_that_signs_is_refused() {
        for wrong in [Pair::p256().pem(), pem("EC PRIVATE KEY", &[0; 40])] {
            assert!(matches!(read(wrong), Err(SigningKeyError::Type)));
        }
        assert!(matches!(read(&SECRET[..31]), Err(SigningKeyError::File(_))));
        let short = Pair::Secret(&SECRET[..31]).jwk().to_string();
        assert!(matches!(read(short), Err(SigningKeyError::Jwk)));
    }
}
