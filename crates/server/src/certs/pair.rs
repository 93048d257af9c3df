//! A certificate and its key, read from two files in PEM (RFC 7468).

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use httpd::body::BYTE_ORDER_MARK;
use rustls::crypto::aws_lc_rs::sign;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error as TlsError, InconsistentKeys};
use thiserror::Error;
use x509_cert::certificate::{CertificateInner, Raw};
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::time::Time;
use zeroize::Zeroizing;

use super::PairFiles;

/// The largest file: a chain of a dozen certificates with large keys has some 30 KB.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Others than the owner and the group may read (inode(7)).
const READABLE_BY_OTHERS: u32 = 0o004;

/// A certificate whose number may be longer than RFC 5280 has it: clients take those too.
type Certificate = CertificateInner<Raw>;

/// Why a certificate cannot be used.
#[derive(Debug, Error)]
pub(crate) enum PairError {
    #[error(
        "cannot read {}: {error}; check the path, and that the server's user may read it",
        path.display()
    )]
    Read { path: PathBuf, error: io::Error },
    #[error(
        "{} has more than {FILE_BYTES_MAX} bytes: give the file of one certificate, or of one key",
        path.display()
    )]
    TooLarge { path: PathBuf },
    #[error(
        "{} has no certificate in PEM (-----BEGIN CERTIFICATE-----); one in DER becomes that by \
         `openssl x509 -inform der -in FILE -out FILE.pem`",
        path.display()
    )]
    NoCertificate { path: PathBuf },
    #[error(
        "{} has no private key in PEM (-----BEGIN PRIVATE KEY-----); give --tls-key the file with \
         the key",
        path.display()
    )]
    NoKey { path: PathBuf },
    #[error(
        "the key in {} is encrypted, and nobody is there to ask for its passphrase: decrypt it \
         with `openssl pkey -in FILE -out FILE.pem`, readable by the server's user alone",
        path.display()
    )]
    Encrypted { path: PathBuf },
    #[error("{} is no PEM file: {error}; copy it again from where it was made", path.display())]
    Pem { path: PathBuf, error: pem::Error },
    #[error(
        "the certificate in {} cannot be read: {error}; copy it again from where it was made",
        path.display()
    )]
    Certificate { path: PathBuf, error: String },
    #[error(
        "the key in {} cannot be used: {error}; RSA from 2048 bits on, ECDSA (P-256, P-384, P-521) \
         and Ed25519 can",
        path.display()
    )]
    Key { path: PathBuf, error: TlsError },
    #[error(
        "the key in {} is not that of the first certificate in {}: give each --tls-cert its own \
         --tls-key, in the same order, and in the file the server's certificate before those that \
         signed it",
        key.display(),
        certificate.display()
    )]
    Mismatch { certificate: PathBuf, key: PathBuf },
}

/// A certificate that can be used.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) certified: Arc<CertifiedKey>,
    /// The names of hosts that it is for, in small letters; `*.` before one stands for one label.
    pub(super) names: Vec<String>,
    /// Where it was read.
    path: PathBuf,
    /// When it begins and ends to be valid.
    begins: Time,
    ends: Time,
    /// The file of its key, if others can read that.
    exposed_key: Option<PathBuf>,
}

impl PartialEq for Pair {
    /// Two of one certificate have one key.
    fn eq(&self, other: &Pair) -> bool {
        self.certified.cert == other.certified.cert
    }
}

impl Pair {
    /// Reads both files.
    pub(super) fn read(files: &PairFiles) -> Result<Pair, PairError> {
        let PairFiles { certificate, key } = files;
        let chain = certificates(certificate, &contents(certificate)?.0)?;
        let (text, exposed) = contents(key)?;
        let secret = private_key(key, &text)?;
        // By reference, so that the key is wiped here.
        let signing = sign::any_supported_type(&secret);
        let signing = signing.map_err(|error| PairError::Key { path: key.clone(), error })?;
        let certified = CertifiedKey::new(chain, signing);
        match certified.keys_match() {
            // Where nobody can say, clients do.
            Ok(()) | Err(TlsError::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            Err(TlsError::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
                let (certificate, key) = (certificate.clone(), key.clone());
                return Err(PairError::Mismatch { certificate, key });
            }
            Err(TlsError::InvalidCertificate(error)) => {
                let (path, error) = (certificate.clone(), format!("{error:?}"));
                return Err(PairError::Certificate { path, error });
            }
            Err(error) => return Err(PairError::Key { path: key.clone(), error }),
        }
        let exposed_key = exposed.then(|| key.clone());
        Pair::of(certified, certificate.clone(), exposed_key)
    }

    fn of(
        certified: CertifiedKey,
        path: PathBuf,
        exposed_key: Option<PathBuf>,
    ) -> Result<Pair, PairError> {
        let first = certified.cert.first().map_or(&[][..], |first| first);
        let parsed = Certificate::from_der(first).map_err(|error| {
            let error = error.to_string();
            PairError::Certificate { path: path.clone(), error }
        })?;
        let names = names(&parsed).unwrap_or_else(|error| {
            let path = path.display();
            tracing::warn!("the host names of the certificate in {path} cannot be read: {error}");
            Vec::new()
        });
        let validity = parsed.tbs_certificate.validity;
        let (begins, ends) = (validity.not_before, validity.not_after);
        Ok(Pair { certified: Arc::new(certified), names, path, begins, ends, exposed_key })
    }

    /// When it begins, in seconds since 1970.
    pub(super) fn begins(&self) -> i64 {
        unix_seconds(self.begins)
    }

    /// When it ends, in seconds since 1970.
    pub(super) fn ends(&self) -> i64 {
        unix_seconds(self.ends)
    }

    /// What it is called in figures: its first name, or where it was read.
    pub(super) fn label(&self) -> String {
        self.names.first().cloned().unwrap_or_else(|| self.path.display().to_string())
    }

    /// Logs that it is in use from `now_ms` on, and what is wrong with it.
    pub(super) fn tell(&self, now_ms: u64) {
        let (path, ends) = (self.path.display(), self.ends);
        tracing::info!(names = self.names.join(","), %ends, "certificate {path} is in use");
        let now = i64::try_from(now_ms / 1000).unwrap_or(i64::MAX);
        if now > self.ends() {
            tracing::warn!(
                "certificate {path} has expired on {ends}: clients refuse it; renew it, and it is \
                 read again by itself"
            );
        }
        if now < self.begins() {
            tracing::warn!(
                "certificate {path} is not valid before {}: clients refuse it until then; check \
                 this machine's clock",
                self.begins
            );
        }
        if self.names.is_empty() {
            tracing::warn!(
                "certificate {path} is for no host name (it has no DNS name among its subject \
                 alternative names): clients that connect by a name refuse it"
            );
        }
        if let Some(key) = &self.exposed_key {
            let key = key.display();
            tracing::warn!("everybody on this machine can read the key {key}: chmod o= {key}");
        }
    }
}

/// The bytes of a file, and whether everybody may read it. They may be a key, and are wiped.
pub(super) fn contents(path: &Path) -> Result<(Zeroizing<Vec<u8>>, bool), PairError> {
    let read = || -> io::Result<(Zeroizing<Vec<u8>>, bool)> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let exposed = metadata.permissions().mode() & READABLE_BY_OTHERS != 0;
        // A buffer that grows leaves copies behind.
        let room = metadata.len().min(FILE_BYTES_MAX) as usize + 1;
        let mut bytes = Zeroizing::new(Vec::with_capacity(room));
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        Ok((bytes, exposed))
    };
    let path = || path.to_owned();
    let (bytes, exposed) = read().map_err(|error| PairError::Read { path: path(), error })?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(PairError::TooLarge { path: path() });
    }
    Ok((bytes, exposed))
}

/// Without the mark that some editors put before a text.
fn unmarked(text: &[u8]) -> &[u8] {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

pub(super) fn certificates(
    path: &Path,
    text: &[u8],
) -> Result<Vec<CertificateDer<'static>>, PairError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(unmarked(text)).collect();
    let chain = read.map_err(|error| PairError::Pem { path: path.to_owned(), error })?;
    if chain.is_empty() {
        return Err(PairError::NoCertificate { path: path.to_owned() });
    }
    Ok(chain)
}

type Secret = Zeroizing<PrivateKeyDer<'static>>;

fn private_key(path: &Path, text: &[u8]) -> Result<Secret, PairError> {
    let path = path.to_owned();
    PrivateKeyDer::from_pem_slice(unmarked(text)).map(Zeroizing::new).map_err(|error| match error {
        // In PKCS #8 and in the older form (RFC 1421).
        pem::Error::NoItemsFound if memchr::memmem::find(text, b"ENCRYPTED").is_some() => {
            PairError::Encrypted { path }
        }
        pem::Error::NoItemsFound => PairError::NoKey { path },
        error => PairError::Pem { path, error },
    })
}

/// The names of hosts among the subject's alternative ones (RFC 5280, section 4.2.1.6). What the
/// subject itself is called counts for no client any more (RFC 9525, section 6.3).
fn names(certificate: &Certificate) -> x509_cert::der::Result<Vec<String>> {
    let alternative = certificate.tbs_certificate.get::<SubjectAltName>()?;
    let names = alternative.map_or(Vec::new(), |(_, names)| names.0);
    let host = |name: &GeneralName| match name {
        GeneralName::DnsName(name) => Some(name.as_str().to_ascii_lowercase()),
        _ => None,
    };
    Ok(names.iter().filter_map(host).collect())
}

fn unix_seconds(time: Time) -> i64 {
    i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX)
}
