//! The HTTPS that an order goes through: a connection for each of its dozen requests.
//!
//! A directory's name may have several addresses, and one of them may be silent: many machines have
//! an IPv6 address that leads nowhere. Connections to the next ones begin beside it (RFC 8305), and
//! the first that speaks TLS is taken.

use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper::{Request, Response, header};
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::certs::client_config;

/// How long a request and its answer may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// How long an address has before the next one is tried beside it. RFC 8305, section 5, has 250 ms
/// for the connection alone; here TLS is part of it, and nobody waits for a page.
const HEAD_START: Duration = Duration::from_secs(1);

/// The largest answer: chains of certificates have some kilobytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// A client of directories.
pub(super) struct Client(Arc<ClientConfig>);

impl Client {
    /// One that trusts the authorities in `ca`, else the system's.
    pub(super) fn new(ca: Option<&Path>) -> Result<Client> {
        Ok(Client(client_config(ca, &["http/1.1"])?))
    }
}

impl HttpClient for Client {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let config = Arc::clone(&self.0);
        Box::pin(async move {
            let exchanged = timeout(REQUEST_TIMEOUT, exchange(config, request)).await;
            let late = || format!("no answer within {REQUEST_TIMEOUT:?}");
            let exchanged = exchanged.with_context(late).and_then(|exchanged| exchanged);
            exchanged.map(BytesResponse::from).map_err(|error| Error::Other(error.into()))
        })
    }
}

/// TLS with the server of that name, at the first of `addresses` that speaks it.
async fn open(
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    addresses: Vec<SocketAddr>,
) -> Result<TlsStream<TcpStream>> {
    let connector = TlsConnector::from(config);
    let mut attempts = JoinSet::new();
    let mut last = anyhow!("the name has no address");
    let mut rest = addresses.into_iter().fuse();
    loop {
        let ended = match rest.next() {
            Some(address) => {
                attempts.spawn(attempt(connector.clone(), name.clone(), address));
                timeout(HEAD_START, attempts.join_next()).await
            }
            None => Ok(attempts.join_next().await),
        };
        match ended {
            // It goes on, and the next address beside it.
            Err(_) => {}
            Ok(Some(attempt)) => match attempt.context("the attempt ended").flatten() {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            },
            Ok(None) => return Err(last),
        }
    }
}

async fn attempt(
    connector: TlsConnector,
    name: ServerName<'static>,
    address: SocketAddr,
) -> Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await;
    let stream = stream.with_context(|| format!("no connection to {address}"))?;
    let stream = connector.connect(name, stream).await;
    stream.with_context(|| format!("no TLS with {address}"))
}

async fn exchange(
    config: Arc<ClientConfig>,
    mut request: Request<BodyWrapper<Bytes>>,
) -> Result<Response<Full<Bytes>>> {
    let uri = std::mem::take(request.uri_mut());
    let (Some("https"), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        bail!("{uri} is no address of a directory: it begins with https://");
    };
    let (host, port) = (authority.host(), authority.port_u16().unwrap_or(443));
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let addresses = lookup_host((host.as_str(), port)).await;
    let addresses = addresses.with_context(|| format!("cannot look up {host}"))?.collect();
    let name = ServerName::try_from(host).context("the directory's name is no name")?;
    let stream = open(config, name, addresses).await;
    let stream = stream.with_context(|| format!("cannot connect to {authority}"))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It ends with the sender; what went wrong is told to whoever waits for an answer.
    tokio::spawn(connection);
    *request.uri_mut() = uri.path_and_query().map_or("/", |path| path.as_str()).parse()?;
    request.headers_mut().insert(header::HOST, authority.as_str().parse()?);
    let answer = sender.send_request(request).await;
    let answer = answer.with_context(|| format!("{authority} did not answer"))?;
    let (parts, body) = answer.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| anyhow::anyhow!("the answer broke off: {error}"))?;
    Ok(Response::from_parts(parts, Full::new(body.to_bytes())))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use rcgen::generate_simple_self_signed;
    use rustls::pki_types::PrivateKeyDer;
    use rustls::{RootCertStore, ServerConfig};
    use tokio_rustls::TlsAcceptor;

    use super::*;

    const NAME: &str = "directory.test";

    /// What a server of that name shows, and a client that trusts it.
    fn both_sides() -> (TlsAcceptor, Arc<ClientConfig>) {
        let made = generate_simple_self_signed([NAME.to_owned()]).unwrap();
        let certificate = made.cert.der().clone();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        (Arc::new(server).into(), Arc::new(client))
    }

    fn name() -> ServerName<'static> {
        ServerName::try_from(NAME).unwrap()
    }

    /// An address whose kernel takes connections, and nobody speaks; and one where nobody is.
    fn silent_and_closed() -> (TcpListener, [SocketAddr; 2]) {
        let silent = TcpListener::bind("127.0.0.2:0").unwrap();
        let closed = TcpListener::bind("127.0.0.3:0").unwrap().local_addr().unwrap();
        let addresses = [silent.local_addr().unwrap(), closed];
        (silent, addresses)
    }

    /// The clock goes on by itself where all wait for it, so nobody waits a second.
    #[tokio::test(start_paused = true)]
    async fn address_that_is_silent_or_refuses_holds_up_none_behind_it() {
        let (acceptor, config) = both_sides();
        let (_silent, [silent, closed]) = silent_and_closed();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let good = listener.local_addr().unwrap();
        for addresses in [vec![silent, good], vec![closed, silent, silent, good], vec![good]] {
            let (stream, served) = tokio::join!(open(config.clone(), name(), addresses), async {
                acceptor.accept(listener.accept().await.unwrap().0).await
            });
            assert_eq!(stream.unwrap().get_ref().0.peer_addr().unwrap(), good);
            served.unwrap();
        }
    }

    #[tokio::test]
    async fn last_address_that_fails_says_why() {
        let (_, config) = both_sides();
        let (_silent, [_, closed]) = silent_and_closed();
        let why = |error: anyhow::Error| format!("{error:#}");
        let error = why(open(config.clone(), name(), vec![closed, closed]).await.unwrap_err());
        assert!(error.contains(&format!("no connection to {closed}")), "{error}");
        let error = why(open(config, name(), Vec::new()).await.unwrap_err());
        assert!(error.contains("no address"), "{error}");
    }
}
