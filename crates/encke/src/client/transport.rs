//! What a client's requests go through: a TCP connection, or TLS on one.

use std::io::{self, ErrorKind};
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use rustls::pki_types::ServerName;
use rustls::{CertificateError, Error as TlsError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A connection of either kind.
pub(super) trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// Speaks TLS on `stream` with the server that is called `host`, and makes sure that it is it.
/// `url` is for messages, `ca` a file of those who may vouch for it, else those whom the system
/// trusts.
pub(super) async fn tls(
    stream: TcpStream,
    host: &str,
    url: &str,
    ca: Option<&Path>,
) -> Result<Box<dyn Transport>> {
    // One connection for each request at a time: HTTP/1.1 is all it takes.
    let connector = TlsConnector::from(server::client_config(ca, &["http/1.1"])?);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(host.to_owned());
    let name = name.with_context(|| {
        format!("{host} is no name that a certificate could have; call the server by its own")
    })?;
    match connector.connect(name, stream).await {
        Ok(stream) => Ok(Box::new(stream)),
        Err(error) => Err(anyhow!("no TLS with {url}: {}", explain(&error))),
    }
}

/// What went wrong, and what to do.
fn explain(error: &io::Error) -> String {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>());
    match tls {
        Some(TlsError::InvalidCertificate(error)) => certificate(error),
        Some(TlsError::InvalidMessage(_)) => {
            "it speaks another protocol there; perhaps http:// instead of https://".to_owned()
        }
        Some(error) => error.to_string(),
        None if error.kind() == ErrorKind::UnexpectedEof => {
            "it ended the connection; its log may say why, and perhaps it is http://".to_owned()
        }
        None => error.to_string(),
    }
}

fn certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "nobody whom this system trusts has signed its certificate; if it is signed by an \
             authority of your own, name that with --ca FILE or ENCKE_CA"
                .to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another name; call the server by a name that it is for".into()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired; renew it, and see that the clocks are right".to_owned()
        }
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "its certificate is an authority's own; make one for the server that the authority \
             signs, and name the authority with --ca"
                .to_owned()
        }
        error => format!("its certificate is not good: {error}"),
    }
}
