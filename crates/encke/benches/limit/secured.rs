//! `--tls`: a certificate for one run, which the parent makes, the child shows and the crowd
//! trusts.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use ::engine::TlsConfig;
use load::{Trust, Version};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign;
use rustls::{RootCertStore, pki_types::CertificateDer};

use crate::Outcome;

const CERTIFICATE: &str = "certificate.der";
const KEY: &str = "key.der";

/// Makes a certificate of P-256 for `localhost`, in `dir`.
pub(crate) fn make(dir: &Path) -> Outcome<()> {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()])?;
    fs::write(dir.join(CERTIFICATE), cert.der())?;
    fs::write(dir.join(KEY), signing_key.serialize_der())?;
    Ok(())
}

/// The crowd's trust in it.
pub(crate) fn trust(dir: &Path, newest: Version) -> Outcome<Trust> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(fs::read(dir.join(CERTIFICATE))?))?;
    Ok(Trust::new(roots, newest)?)
}

/// The child's port of TLS.
pub(crate) fn port(dir: &Path) -> Outcome<TlsConfig> {
    let certificate = CertificateDer::from(fs::read(dir.join(CERTIFICATE))?);
    let key = PrivateKeyDer::try_from(fs::read(dir.join(KEY))?)?;
    let key = aws_lc_rs::sign::any_supported_type(&key)?;
    let only = Arc::new(Only(Arc::new(sign::CertifiedKey::new(vec![certificate], key))));
    let config = tls::server_config(only, tls::Choice::default());
    Ok(TlsConfig { listen: "127.0.0.1:0".parse()?, config })
}

#[derive(Debug)]
struct Only(Arc<sign::CertifiedKey>);

impl ResolvesServerCert for Only {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<sign::CertifiedKey>> {
        Some(self.0.clone())
    }
}
