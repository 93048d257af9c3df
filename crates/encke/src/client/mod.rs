//! The other end of the API: a small HTTP client for the commands.
//!
//! One connection, one request at a time, no redirects: it talks to the private port of a server,
//! most often on the same machine. By `https://` it makes sure that it is that server.

mod stream;
mod token;
mod transport;

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Result, anyhow, bail};
use axum::body::Body;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Method, Request, Response, header};
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use proto::ApiKey;
use proto::request::split_port;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::TcpStream;

pub(crate) use stream::{Follower, FollowerEvent, Wanted};
pub(crate) use token::{GivenToken, TokenSource};
use transport::Transport;

/// The largest answer that is read whole: a page of 10,000 ids of the longest kind.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// All but the unreserved characters of RFC 3986, section 2.3.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// An id as it stands in a path or a query.
pub(crate) fn escape(id: &str) -> impl fmt::Display + '_ {
    utf8_percent_encode(id, ESCAPED)
}

/// Where a server is: `http://host:port`, of which `http://` may be left out, or `https://host`
/// with or without a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ServerUrl {
    /// Host and port.
    authority: String,
    is_tls: bool,
    /// Who vouches for the server; those whom the system trusts unless given.
    ca: Option<PathBuf>,
    /// What its API is shown with each request.
    key: Option<ApiKey>,
}

impl FromStr for ServerUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<ServerUrl, String> {
        let rest = text.strip_prefix("https://");
        let is_tls = rest.is_some();
        let rest = rest.or_else(|| text.strip_prefix("http://")).unwrap_or(text);
        let mut authority = rest.trim_end_matches('/').to_owned();
        if is_tls && !authority.is_empty() && split_port(&authority).1.is_none() {
            authority.push_str(":443");
        }
        let (host, port) = split_port(&authority);
        let port = port.and_then(|port| port.parse::<u16>().ok());
        // It stands in the head of each request (RFC 9110, section 7.2).
        let is_plain = authority.bytes().all(|byte| byte.is_ascii_graphic());
        if host.is_empty()
            || authority.contains(['/', '?', '#', '@'])
            || !is_plain
            || port.is_none()
        {
            return Err("write it as http://host:port, such as http://127.0.0.1:8001, or as \
                        https://host (other than ASCII as xn--…)"
                .into());
        }
        Ok(ServerUrl { authority, is_tls, ca: None, key: None })
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority)
    }
}

impl ServerUrl {
    /// The server, whose API is shown `key`.
    pub(crate) fn with_key(self, key: Option<ApiKey>) -> Result<ServerUrl> {
        let key = key.filter(|key| !key.is_empty());
        if key.as_ref().is_some_and(|key| key.authorization().is_none()) {
            bail!("ENCKE_KEY or --key has characters that no key has: give the key as printed");
        }
        Ok(ServerUrl { key, ..self })
    }

    /// The server, for which the authorities in this file vouch and no others.
    pub(crate) fn with_ca(self, ca: Option<PathBuf>) -> ServerUrl {
        ServerUrl { ca, ..self }
    }

    async fn connect(&self) -> Result<SendRequest<Body>> {
        let stream = TcpStream::connect(&self.authority).await;
        let stream = stream.map_err(|error| self.unreachable(&error))?;
        let _ = stream.set_nodelay(true);
        let stream: Box<dyn Transport> = if self.is_tls {
            let host = split_port(&self.authority).0;
            transport::tls(stream, host, &self.to_string(), self.ca.as_deref()).await?
        } else {
            Box::new(stream)
        };
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.with_context(|| no_answer(self))?;
        // It ends with the sender; what went wrong is told to whoever waits for an answer.
        tokio::spawn(connection.with_upgrades());
        Ok(sender)
    }

    fn unreachable(&self, error: &io::Error) -> anyhow::Error {
        match error.kind() {
            ErrorKind::ConnectionRefused => anyhow!(
                "no server at {self}: start one with `encke serve`, or say where it is (see --help)"
            ),
            _ => anyhow!("cannot connect to {self}: {error}; check the address"),
        }
    }

    fn request(&self, method: Method, path: &str) -> hyper::http::request::Builder {
        let request = Request::builder().method(method).uri(path);
        let request = request.header(header::HOST, &self.authority);
        match self.key.as_ref().and_then(ApiKey::authorization) {
            Some(authorization) => request.header(header::AUTHORIZATION, authorization),
            None => request,
        }
    }
}

/// A connection to the API.
pub(crate) struct ApiClient {
    url: ServerUrl,
    sender: SendRequest<Body>,
}

impl ApiClient {
    /// Connects to the API at `url`.
    pub(crate) async fn connect(url: &ServerUrl) -> Result<ApiClient> {
        Ok(ApiClient { url: url.clone(), sender: url.connect().await? })
    }

    /// Asks for `path`.
    pub(crate) async fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T> {
        let request = self.url.request(Method::GET, path).body(Body::empty())?;
        self.exchange(request).await
    }

    /// Posts one JSON value to `path`.
    pub(crate) async fn post<T: DeserializeOwned>(
        &mut self,
        path: &str,
        value: &impl Serialize,
    ) -> Result<T> {
        let request = self
            .url
            .request(Method::POST, path)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(serde_json::to_string(value)?))?;
        self.exchange(request).await
    }

    /// Posts a stream of JSON lines to `path`.
    pub(crate) async fn post_lines<T: DeserializeOwned>(
        &mut self,
        path: &str,
        lines: Body,
    ) -> Result<T> {
        let request = self
            .url
            .request(Method::POST, path)
            .header(header::CONTENT_TYPE, "application/x-ndjson")
            .body(lines)?;
        self.exchange(request).await
    }

    /// Posts a stream of JSON lines to `path`, whose answers are read while it goes on. They last
    /// as long as this connection.
    pub(crate) async fn open_lines(&mut self, path: &str, lines: Body) -> Result<Incoming> {
        let request = self
            .url
            .request(Method::POST, path)
            .header(header::CONTENT_TYPE, "application/x-ndjson")
            .body(lines)?;
        Ok(self.send(request).await?.into_body())
    }

    /// Asks for `path`, whose answer may be of any length. It lasts as long as this connection.
    pub(crate) async fn open(&mut self, path: &str) -> Result<Incoming> {
        let request = self.url.request(Method::GET, path).body(Body::empty())?;
        let response = self.send(request).await?;
        if response.status().is_success() {
            return Ok(response.into_body());
        }
        let refused = read_answer(response, &self.url).await.err();
        Err(refused.unwrap_or_else(|| anyhow!(no_answer(&self.url))))
    }

    async fn exchange<T: DeserializeOwned>(&mut self, request: Request<Body>) -> Result<T> {
        let response = self.send(request).await?;
        let answer = read_answer(response, &self.url).await?;
        serde_json::from_slice(&answer).map_err(|error| {
            anyhow!(
                "the answer of {} is not what was asked for ({error}); is it the API port?",
                self.url
            )
        })
    }

    /// Sends `request`, on another connection where the server has closed this one before: after an
    /// upgrade each has its last answer (`Connection: close`), and one that rests is closed.
    async fn send(&mut self, request: Request<Body>) -> Result<Response<Incoming>> {
        let broke_off = || no_answer(&self.url);
        if self.sender.ready().await.is_err() {
            self.sender = self.url.connect().await?;
        }
        match self.sender.try_send_request(request).await {
            Ok(response) => Ok(response),
            Err(mut error) => match error.take_message() {
                // It never left, so it is not asked for twice.
                Some(request) => {
                    self.sender = self.url.connect().await?;
                    self.sender.send_request(request).await.with_context(broke_off)
                }
                None => Err(error.into_error()).with_context(broke_off),
            },
        }
    }
}

/// What is told of a request without an answer, before the reason.
fn no_answer(url: &ServerUrl) -> String {
    format!("no answer from {url}; see that it is Encke, and look at its log")
}

/// The body of a good answer; an error answer's detail as error.
async fn read_answer(response: Response<Incoming>, url: &ServerUrl) -> Result<Vec<u8>> {
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| {
        anyhow!("the answer of {url} broke off ({error}); try again, and look at its log")
    })?;
    let body = body.to_bytes();
    if status.is_success() {
        return Ok(body.into());
    }
    let problem: Option<Value> = serde_json::from_slice(&body).ok();
    match problem.as_ref().and_then(|problem| problem["detail"].as_str()) {
        Some(detail) => bail!("{detail}"),
        None => bail!("{url} answered {status} without a reason; see that it is Encke"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_url_is_a_host_and_a_port() {
        for text in ["http://127.0.0.1:8001", "127.0.0.1:8001", "http://127.0.0.1:8001/"] {
            let url: ServerUrl = text.parse().unwrap();
            assert_eq!(url.to_string(), "http://127.0.0.1:8001");
        }
        assert!("[::1]:8001".parse::<ServerUrl>().is_ok());
        for (text, whole) in [
            ("https://a.test", "https://a.test:443"),
            ("https://a.test:8443/", "https://a.test:8443"),
            ("https://[::1]", "https://[::1]:443"),
        ] {
            assert_eq!(text.parse::<ServerUrl>().unwrap().to_string(), whole);
        }
        for text in [
            "",
            "https://",
            "https://a:x",
            "https://a/x",
            "ftp://a:1",
            ":1",
            "localhost",
            "http://a:1/x",
            "u@a:1",
            "a:99999",
            "bücher.example:80",
            "a\u{7f}:80",
        ] {
            assert!(text.parse::<ServerUrl>().is_err(), "{text}");
        }
    }

    #[test]
    fn ids_are_escaped_for_a_path() {
        assert_eq!(escape("photo:789").to_string(), "photo%3A789");
        assert_eq!(escape("a-b_c.d~é&").to_string(), "a-b_c.d~%C3%A9%26");
    }
}
