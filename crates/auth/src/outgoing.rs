//! Connections that the server opens by itself, by HTTP or HTTPS. Whom the system trusts is
//! trusted. Its certificates are read from disk once, with the first connector for https.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hyper::Uri;
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::GaiResolver;
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};

/// For all addresses of a name together: of several, one that swallows everything leaves time for
/// the others.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Opens connections to `url`, with HTTP/1.1. Fails where https is wanted and the system trusts no
/// certificates.
pub fn connector(url: &Uri) -> io::Result<HttpsConnector<HttpConnector>> {
    let builder = HttpsConnectorBuilder::new();
    let http = tcp(GaiResolver::new());
    if url.scheme_str() != Some("http") {
        return Ok(builder
            .with_tls_config(trusting()?)
            .https_only()
            .enable_http1()
            .wrap_connector(http));
    }
    // http needs no roots.
    let config = versions().with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    Ok(builder.with_tls_config(config).https_or_http().enable_http1().wrap_connector(http))
}

/// Connects to the addresses that `resolver` knows, one after the other.
fn tcp<R>(resolver: R) -> HttpConnector<R> {
    let mut http = HttpConnector::new_with_resolver(resolver);
    http.enforce_http(false);
    http.set_connect_timeout(Some(CONNECT_TIMEOUT));
    http
}

/// Reads the certificates that the system trusts, unless they were read before. Blocks meanwhile:
/// whoever makes connectors where nothing may block calls this before. Fails where there are none.
pub fn read_roots() -> io::Result<()> {
    trusting().map(drop)
}

/// What trusts whom the system trusts.
fn trusting() -> io::Result<ClientConfig> {
    static TRUSTING: OnceLock<ClientConfig> = OnceLock::new();
    if let Some(known) = TRUSTING.get() {
        return Ok(known.clone());
    }
    let read = versions().with_native_roots()?.with_no_client_auth();
    Ok(TRUSTING.get_or_init(|| read).clone())
}

/// Speaks TLS of the usual versions.
fn versions() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has the suites of its own versions")
}

/// The causes of an error in one line: the first says nothing.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words += &format!(": {error}");
        cause = error.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use std::array;
    use std::future::{Ready, ready};
    use std::net::SocketAddr;
    use std::task::{Context, Poll};

    use hyper_util::client::legacy::connect::dns::Name;
    use tokio::net::{TcpListener, TcpSocket, TcpStream};
    use tokio::time::timeout;
    use tower_service::Service;

    use super::*;

    /// Has two addresses for any name.
    #[derive(Clone)]
    struct TwoAddresses([SocketAddr; 2]);

    impl Service<Name> for TwoAddresses {
        type Response = array::IntoIter<SocketAddr, 2>;
        type Error = io::Error;
        type Future = Ready<io::Result<Self::Response>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Name) -> Self::Future {
            ready(Ok(self.0.into_iter()))
        }
    }

    /// As of a host that is gone: the kernel answers nobody while the queue of a listener is full.
    #[tokio::test]
    async fn address_that_swallows_everything_leaves_time_for_the_next_one() {
        let full = TcpSocket::new_v4().unwrap();
        full.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let full = full.listen(0).unwrap();
        let silent = full.local_addr().unwrap();
        let _queued = TcpStream::connect(silent).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let good = listener.local_addr().unwrap();
        let connecting = tcp(TwoAddresses([silent, good])).call(Uri::from_static("http://a.test/"));
        let connected = timeout(testing::DEADLINE, connecting).await.expect("it is not waited for");
        assert_eq!(connected.unwrap().inner().peer_addr().unwrap(), good);
    }
}
