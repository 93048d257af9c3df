//! The HTTPS that an order goes through: a connection for each of its dozen requests.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper::{Request, Response, header};
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::certs::client_config;

/// How long a request and its answer may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

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
    let stream = TcpStream::connect((host.as_str(), port)).await;
    let stream = stream.with_context(|| format!("cannot connect to {authority}"))?;
    let name = ServerName::try_from(host).context("the directory's name is no name")?;
    let stream = TlsConnector::from(config).connect(name, stream).await;
    let stream = stream.with_context(|| format!("no TLS with {authority}"))?;
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
