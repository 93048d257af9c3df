//! Key files: a secret as it is, a public key or a certificate in PEM, a JWK or a set of them.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::{PemObject, SectionKind};
use thiserror::Error;
use zeroize::Zeroizing;

use super::jwk::{self, JwkError, Origin};
use super::key::{Key, KeyKind};
use super::limits::{KEY_FILE_BYTES_MAX, KEYS_MAX, SECRET_BYTES_MIN};

/// Why a file gives no keys. None of the texts tells what is in it.
#[derive(Debug, Error)]
pub enum KeyFileFault {
    /// It cannot be read.
    #[error("{0}; check its path, owner and mode")]
    Io(io::Error),
    /// It is no key file.
    #[error("it has over 256 KiB: a key file holds keys and nothing else")]
    Long,
    /// There is nothing in it.
    #[error("it is empty: `openssl rand -base64 48 > FILE` makes a secret")]
    Empty,
    /// It can be guessed.
    #[error(
        "its secret has {0} bytes, and fewer than 32 can be guessed: `openssl rand -base64 48 > \
         FILE` makes one"
    )]
    Short(usize),
    /// PEM that holds something else.
    #[error(
        "there is no public key in it: `openssl pkey -in PRIVATE -pubout` writes one (\"BEGIN \
         PUBLIC KEY\"); a certificate will do too"
    )]
    NoPublicKey,
    /// A public key, which must not be taken for a secret.
    #[error(
        "it is a key or a certificate, but not in a form that is read here. Give it as PEM: put \
         base64 that an identity provider shows between the lines \"-----BEGIN PUBLIC KEY-----\" \
         and \"-----END PUBLIC KEY-----\" (of a certificate \"CERTIFICATE\"); `ssh-keygen -e -m \
         PKCS8 -f FILE` writes one of ssh"
    )]
    Dressed,
    /// A secret that is printed in documents.
    #[error(
        "everybody knows its secret, or can guess it, and others could reach the streams: \
         `openssl rand -base64 48 > FILE` makes another one"
    )]
    Known,
    /// A key that could sign.
    #[error(
        "it is a private key, and the server needs only the public one: `openssl pkey -in PRIVATE \
         -pubout`"
    )]
    Private,
    /// PEM that cannot be read.
    #[error("its PEM cannot be read: compare it with the original")]
    Pem,
    /// A key of another type.
    #[error("tokens are verified with RSA keys of 2048 to 8192 bits, P-256 and Ed25519 only")]
    Type,
    /// A key that is no text.
    #[error("it is a key or a certificate in DER: write it as PEM (`openssl … -outform PEM`)")]
    Der,
    /// Its JWK, or each of its set, cannot be used.
    #[error("{0}")]
    Jwk(JwkError),
    /// A set without keys.
    #[error("there is no key in the set")]
    NoKeys,
}

impl From<io::Error> for KeyFileFault {
    fn from(error: io::Error) -> KeyFileFault {
        KeyFileFault::Io(error)
    }
}

/// What a key file says of itself, and is no reason to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum KeyFileWarning {
    /// Others on the machine can read a secret.
    Readable,
    /// A secret is printed in documents.
    Known,
    /// Keys of a set are not used: how many, and why the first is not.
    Ignored(usize, JwkError),
}

/// The keys of a file.
pub(super) struct KeysOfFile {
    pub(super) keys: Vec<Key>,
    pub(super) warnings: Vec<KeyFileWarning>,
}

/// Reads the keys in `path`.
pub(super) fn read(path: &Path) -> Result<KeysOfFile, KeyFileFault> {
    let (bytes, mode) = bytes(path)?;
    let (keys, others) = parse(&bytes)?;
    let is_secret = keys.iter().any(|key| matches!(key.kind(), KeyKind::Secret(_)));
    let mut warnings = Vec::new();
    if keys.iter().any(Key::is_known) {
        warnings.push(KeyFileWarning::Known);
    }
    if is_secret && mode & 0o077 != 0 {
        warnings.push(KeyFileWarning::Readable);
    }
    if let Some((_, error)) = others.first() {
        warnings.push(KeyFileWarning::Ignored(others.len(), *error));
    }
    Ok(KeysOfFile { keys, warnings })
}

/// All of a file, wiped when it is dropped, and its mode.
pub(super) fn bytes(path: &Path) -> Result<(Zeroizing<Vec<u8>>, u32), KeyFileFault> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    // Reserved at once: what grows leaves copies behind that nobody wipes.
    let mut bytes = Zeroizing::new(Vec::with_capacity(KEY_FILE_BYTES_MAX + 1));
    let read = file.take(KEY_FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    match read {
        0 => Err(KeyFileFault::Empty),
        read if read > KEY_FILE_BYTES_MAX => Err(KeyFileFault::Long),
        _ => Ok((bytes, metadata.mode())),
    }
}

type Others = Vec<(usize, JwkError)>;

fn parse(bytes: &[u8]) -> Result<(Vec<Key>, Others), KeyFileFault> {
    match form(bytes) {
        Form::Json(text) if jwk::is_set(text) => {
            let set = jwk::set(text, Origin::File).map_err(KeyFileFault::Jwk)?;
            match (set.keys.is_empty(), set.others.first()) {
                (true, Some((_, error))) => Err(KeyFileFault::Jwk(*error)),
                (true, None) => Err(KeyFileFault::NoKeys),
                (false, _) => Ok((set.keys, set.others)),
            }
        }
        Form::Json(text) => {
            let key = jwk::key(text, Origin::File).map_err(KeyFileFault::Jwk)?;
            Ok((vec![key], Vec::new()))
        }
        Form::Pem => Ok((of_pem(bytes)?, Vec::new())),
        Form::Der => Err(KeyFileFault::Der),
        Form::Dressed => Err(KeyFileFault::Dressed),
        Form::Secret(secret) => Ok((vec![Key::secret(check_secret(secret)?)], Vec::new())),
    }
}

/// Refuses a secret that can be guessed.
pub(super) fn check_secret(secret: &[u8]) -> Result<&[u8], KeyFileFault> {
    match secret.len() {
        0 => Err(KeyFileFault::Empty),
        1..SECRET_BYTES_MIN => Err(KeyFileFault::Short(secret.len())),
        _ => Ok(secret),
    }
}

/// What kind of file it is. A public key is never taken for a secret, whatever its form: it is
/// known to everybody, and whoever knows a secret can sign with it.
pub(super) enum Form<'b> {
    Json(&'b str),
    Pem,
    Der,
    /// A key or a certificate in other clothes.
    Dressed,
    Secret(&'b [u8]),
}

pub(super) fn form(bytes: &[u8]) -> Form<'_> {
    if dress::is_der(bytes) {
        return Form::Der;
    }
    if dress::is_pem(bytes) {
        return Form::Pem;
    }
    if let Ok(text) = std::str::from_utf8(bytes)
        && text.trim_start_matches('\u{feff}').trim_start().starts_with('{')
    {
        return Form::Json(text.trim_start_matches('\u{feff}'));
    }
    if dress::is_dressed_up(bytes) {
        return Form::Dressed;
    }
    // An editor ends a file with a line end; nobody means it.
    let secret = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    Form::Secret(secret.strip_suffix(b"\r").unwrap_or(secret))
}

/// How the public key of RSA begins in a form of its own (RFC 8017, appendix A.1.1), and how any
/// public key does. The parser of PEM knows the second label alone.
const RSA_LABEL: &str = "RSA PUBLIC KEY-----";
const LABEL: &str = "PUBLIC KEY-----";

/// The public keys and certificates of a PEM file.
fn of_pem(bytes: &[u8]) -> Result<Vec<Key>, KeyFileFault> {
    let mut keys = Vec::new();
    let text = Zeroizing::new(String::from_utf8_lossy(bytes).replace(RSA_LABEL, LABEL));
    let text = text.trim_start_matches('\u{feff}');
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(text.as_bytes()) {
        let (kind, der) = section.map_err(|_| KeyFileFault::Pem)?;
        let der = Zeroizing::new(der);
        match kind {
            SectionKind::PublicKey => {
                let key = Key::of_spki(&der).or_else(|| Key::rsa(&der));
                keys.push(key.ok_or(KeyFileFault::Type)?);
            }
            SectionKind::Certificate => keys.push(of_certificate(&der)?),
            SectionKind::RsaPrivateKey | SectionKind::PrivateKey | SectionKind::EcPrivateKey => {
                return Err(KeyFileFault::Private);
            }
            _ => {}
        }
        if keys.len() > KEYS_MAX {
            return Err(KeyFileFault::Jwk(JwkError::Many));
        }
    }
    match keys.is_empty() {
        true => Err(KeyFileFault::NoPublicKey),
        false => Ok(keys),
    }
}

/// The key of a certificate. Its dates, names and issuer say nothing here: whoever put the file
/// there trusts it.
fn of_certificate(der: &[u8]) -> Result<Key, KeyFileFault> {
    let certificate = CertificateDer::from(der);
    let certificate =
        webpki::EndEntityCert::try_from(&certificate).map_err(|_| KeyFileFault::Pem)?;
    let spki = certificate.subject_public_key_info();
    Key::of_spki(&spki).ok_or(KeyFileFault::Type)
}

/// What is wrong with which file.
#[derive(Debug, Error)]
#[error("{}: {fault}", path.display())]
pub struct TokenKeyFileError {
    /// Which one.
    pub path: PathBuf,
    /// What is wrong.
    pub fault: KeyFileFault,
}

mod dress;

/// Tells what may be meant or not.
pub(super) fn warn(path: &Path, warning: KeyFileWarning) {
    let path = path.display();
    match warning {
        KeyFileWarning::Readable => tracing::warn!(
            "others on this machine can read the secret in {path}, and sign tokens with it: chmod \
             600 {path}"
        ),
        KeyFileWarning::Known => tracing::warn!(
            "everybody knows the secret in {path}, or can guess it: it will do as long as nobody \
             but this machine reaches the streams"
        ),
        KeyFileWarning::Ignored(count, error) => {
            tracing::warn!("{count} of the keys in {path} are not used; of the first: {error}");
        }
    }
}

#[cfg(test)]
mod tests;
