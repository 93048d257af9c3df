//! TLS to the database by rustls: a connector for tokio-postgres with libpq's levels of trust.
//!
//! Own, because the ready-made one brings a second reader of certificates, and does not have
//! `require` and `verify-ca`. There is no channel binding (`channel_binding=require` is refused by
//! the library); `verify-full` does not need it.

use std::future::Future;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

use crate::config::{PostgresConfig, TlsMode};
use crate::error::PostgresError;

/// Makes the TLS of one connection after the other.
#[derive(Clone)]
pub(crate) struct Connector(Arc<ClientConfig>);

impl Connector {
    /// Reads the root file, so that a new one counts from the next connection on.
    pub(crate) fn new(config: &PostgresConfig) -> Result<Connector, PostgresError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| PostgresError::Unusable(format!("TLS: {error}")))?;
        let trust = match (config.tls, &config.root_file) {
            (TlsMode::VerifyFull, _) => Trust::Name,
            (TlsMode::VerifyCa, _) | (TlsMode::Require, Some(_)) => Trust::Authority,
            (TlsMode::Require | TlsMode::Prefer | TlsMode::Disable, _) => Trust::Anybody,
        };
        let roots = if trust == Trust::Anybody { None } else { Some(roots(config)?) };
        let verifier = roots.map(|roots| {
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build()
        });
        let authority = verifier
            .transpose()
            .map_err(|error| PostgresError::Unusable(format!("the root certificates: {error}")))?;
        let verifier = Arc::new(Verifier { trust, authority, provider });
        let tls = builder.dangerous().with_custom_certificate_verifier(verifier);
        Ok(Connector(Arc::new(tls.with_no_client_auth())))
    }
}

fn roots(config: &PostgresConfig) -> Result<RootCertStore, PostgresError> {
    let mut roots = RootCertStore::empty();
    let Some(path) = &config.root_file else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(PostgresError::Unusable(
                "the system trusts no certificates: name a root file (sslrootcert)".into(),
            ));
        }
        return Ok(roots);
    };
    let fails = |why: String| {
        PostgresError::Unusable(format!("the root file {} cannot be used: {why}", path.display()))
    };
    let certificates = CertificateDer::pem_file_iter(path).map_err(|e| fails(e.to_string()))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| fails(error.to_string()))?;
        roots.add(certificate).map_err(|error| fails(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(fails("it has no certificate (PEM)".into()));
    }
    Ok(roots)
}

/// What a server must show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trust {
    /// TLS, with whatever certificate.
    Anybody,
    /// A certificate of an authority.
    Authority,
    /// A certificate of an authority, for its name.
    Name,
}

#[derive(Debug)]
struct Verifier {
    trust: Trust,
    authority: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(authority) = &self.authority else { return Ok(ServerCertVerified::assertion()) };
        let verified = authority.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verified {
            // The chain was verified before the name was looked at.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.trust == Trust::Authority => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl<S> MakeTlsConnect<S> for Connector
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Stream<S>;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> io::Result<Handshake> {
        // A socket in a folder has none, nor has an address alone; it is asked for all the same.
        let name = match domain {
            "" => None,
            name => Some(
                ServerName::try_from(name.to_owned())
                    .map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?,
            ),
        };
        Ok(Handshake { connector: TlsConnector::from(self.0.clone()), name })
    }
}

/// One handshake to come.
pub(crate) struct Handshake {
    connector: TlsConnector,
    name: Option<ServerName<'static>>,
}

impl<S> TlsConnect<S> for Handshake
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Stream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        let Some(name) = self.name else {
            let none = "the server has no name that a certificate could be for: give it by host=";
            return Box::pin(async move { Err(io::Error::new(ErrorKind::InvalidInput, none)) });
        };
        let handshake = self.connector.connect(name, stream);
        Box::pin(async { Ok(Stream(Box::new(handshake.await?))) })
    }
}

/// An encrypted connection.
pub(crate) struct Stream<S>(Box<tokio_rustls::client::TlsStream<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Stream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
