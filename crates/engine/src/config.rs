//! What the data plane must be told at start.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use hub::HistoryLimits;
use proto::request::{Hosts, is_origin_at_port, is_own_origin};
use proto::{Networks, Page};
use tls::rustls::ServerConfig;

use crate::refused_origins::RefusedOrigins;
use crate::tokens::TokenConfig;

/// The settings of an engine.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Where clients connect. Port 0 lets the kernel choose.
    pub listen: Option<SocketAddr>,
    /// Where clients connect by TLS.
    pub tls: Option<TlsConfig>,
    /// Worker threads, from 1 to [`hub::ConnRef::WORKERS_MAX`].
    pub workers: usize,
    /// Connections of all workers together, past which new ones are answered 503. A worker whose
    /// own descriptors are all taken answers so before.
    pub connections_max: usize,
    /// What one client's address may have and do.
    pub per_address: AddressLimits,
    /// Connections of one id, past which a log-in under it is refused; 0 is any number.
    pub connections_per_id_max: usize,
    /// Peers that are believed for whom they ask.
    pub trusted: Networks,
    /// Silence after which a stream sends a keep-alive, in milliseconds; 0 is never.
    pub keepalive_ms: u64,
    /// Time for a client to send its request head, in milliseconds.
    pub head_timeout_ms: u64,
    /// Unsent bytes of one connection past which it is closed.
    pub backlog_bytes_max: usize,
    /// Bytes that are kept for all connections together: of what clients have sent and is not dealt
    /// with, and of what they do not take.
    pub buffered_bytes_max: usize,
    /// Whether the server is a node of a cluster: numbers of events are given by its log, and who
    /// comes with a place that this node has not come to yet is held until it has.
    pub cluster: bool,
    /// What is remembered for clients that come back.
    pub history: HistoryLimits,
    /// Bytes that the ids of all connections together may be [counted](hub::Names::bytes) for, past
    /// which a connection gets no further ids beside its first.
    pub ids_bytes_max: usize,
    /// The longest message of a WebSocket client, in bytes, compressed or not.
    pub message_bytes_max: usize,
    /// Whether messages of WebSockets are compressed where the client offers it.
    pub websocket_deflate: bool,
    /// The tokens that streams need; `None` lets anybody listen as anybody.
    pub tokens: Option<TokenConfig>,
    /// Which browser pages may connect.
    pub origins: Origins,
    /// Those whose pages were refused, to be told.
    pub refused_origins: Arc<RefusedOrigins>,
    /// Whether there is a [guest](crate::Guest) beside the workers.
    pub guest: bool,
    /// What stands at `/`; nothing unless there is something to see.
    pub page: Option<Arc<Page>>,
}

/// What one client's address may have and do; 0 is no bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressLimits {
    /// Connections at one time.
    pub connections: u32,
    /// Connections that begin within a second.
    pub connects_per_second: u32,
    /// Bytes of requests and messages within a second, on average.
    pub request_bytes_per_second: u32,
}

impl Default for AddressLimits {
    /// What an office behind one address does not meet.
    fn default() -> AddressLimits {
        AddressLimits {
            connections: 1000,
            connects_per_second: 200,
            request_bytes_per_second: 1024 * 1024,
        }
    }
}

impl AddressLimits {
    /// Whether nothing is bounded.
    pub fn are_off(&self) -> bool {
        let AddressLimits { connections, connects_per_second, request_bytes_per_second } = *self;
        (connections, connects_per_second, request_bytes_per_second) == (0, 0, 0)
    }
}

impl EngineConfig {
    /// The contract's defaults on `listen`.
    pub fn new(listen: SocketAddr) -> EngineConfig {
        EngineConfig {
            listen: Some(listen),
            tls: None,
            workers: 1,
            connections_max: usize::MAX,
            per_address: AddressLimits::default(),
            connections_per_id_max: 100_000,
            trusted: Networks::default(),
            keepalive_ms: 20_000,
            head_timeout_ms: 10_000,
            backlog_bytes_max: 64 * 1024,
            buffered_bytes_max: 256 << 20,
            cluster: false,
            history: HistoryLimits::default(),
            ids_bytes_max: 128 << 20,
            message_bytes_max: 4 * 1024,
            websocket_deflate: false,
            tokens: None,
            origins: Origins::default(),
            refused_origins: Arc::default(),
            guest: false,
            page: None,
        }
    }

    /// Where workers listen, and whether TLS is spoken there.
    pub(crate) fn listens(&self) -> Vec<(SocketAddr, bool)> {
        let plain = self.listen.map(|listen| (listen, false));
        plain.into_iter().chain(self.tls.as_ref().map(|tls| (tls.listen, true))).collect()
    }
}

/// A port at which TLS is spoken.
#[derive(Clone)]
pub struct TlsConfig {
    /// Where clients connect. Port 0 lets the kernel choose.
    pub listen: SocketAddr,
    /// How they are met: made by [`tls::server_config`], or TLS cannot be cut down to its keys.
    pub config: Arc<ServerConfig>,
}

impl fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TlsConfig({})", self.listen)
    }
}

/// The origins whose pages may connect, beside the server's own, and the names that the server goes
/// by, which tell what its own origins are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origins {
    any: bool,
    list: Vec<String>,
    hosts: Hosts,
    apis: Vec<SocketAddr>,
}

impl Default for Origins {
    /// The server's own origins, under whatever name.
    fn default() -> Origins {
        Origins::new(Vec::new(), Hosts::any())
    }
}

impl Origins {
    /// The origins of the server under the names in `hosts`, and those in `list`; `*` in that lets
    /// every page in.
    pub fn new(list: Vec<String>, hosts: Hosts) -> Origins {
        Origins { any: list.iter().any(|origin| origin == "*"), list, hosts, apis: Vec::new() }
    }

    /// Lets in the pages of the API at `api` as well: the same host's under the API's port, and
    /// those that reach the API by its own address.
    pub fn allow_api(&mut self, api: SocketAddr) {
        self.apis.push(api);
    }

    /// Gives the server further names.
    pub fn add_hosts(&mut self, names: &[String]) {
        self.hosts.add(names);
    }

    /// Whether a request that calls the server `host` means it, and not a server whose name a page
    /// has made lead here. A page of a listed origin vouches for its requests, and browsers name no
    /// host in no request.
    pub fn is_called(&self, host: Option<&str>, origin: Option<&str>) -> bool {
        self.any
            || host.is_none_or(|host| self.hosts.include(host))
            || origin.is_some_and(|origin| self.is_listed(origin))
    }

    /// Whether a page of `origin` may connect to the server that its request calls `host`.
    pub fn allows(&self, origin: &str, host: Option<&str>) -> bool {
        self.any || self.allows_credentials(origin, host)
    }

    /// Whether a page of `origin` may use the cookies of that server: where every page is let in it
    /// must be listed, or the server's own.
    pub fn allows_credentials(&self, origin: &str, host: Option<&str>) -> bool {
        let host = host.filter(|host| self.hosts.include(host));
        self.is_listed(origin)
            || host.is_some_and(|host| is_own_origin(origin, host))
            || self.apis.iter().any(|api| is_api_origin(origin, *api, host.unwrap_or_default()))
    }

    fn is_listed(&self, origin: &str) -> bool {
        self.list.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin))
    }
}

/// Whether a page of `origin` was served by the API at `api`, beside which clients call the public
/// port `host`.
fn is_api_origin(origin: &str, api: SocketAddr, host: &str) -> bool {
    let port = api.port();
    is_origin_at_port(origin, host, port)
        || is_own_origin(origin, &api.to_string())
        || api.ip().is_loopback() && is_origin_at_port(origin, "localhost", port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_and_listed_origins_may_connect() {
        let origins = Origins::new(vec!["https://example.org".into()], Hosts::any());
        assert!(origins.allows("http://push.test:8000", Some("push.test:8000")));
        assert!(origins.allows("https://EXAMPLE.org", None));
        assert!(!origins.allows("https://evil.test", Some("push.test:8000")));
        assert!(!origins.allows("null", None));
        assert!(Origins::new(vec!["*".into()], Hosts::default()).allows("null", None));
    }

    #[test]
    fn page_under_a_name_that_is_not_the_server_s_is_told_apart() {
        let list = vec!["https://app.test".to_owned()];
        let mut origins = Origins::new(list, Hosts::new(vec!["push.test".into()]));
        origins.allow_api("127.0.0.1:8001".parse().unwrap());
        let (own, other) = (Some("push.test:8000"), Some("evil.test:8000"));
        assert!(origins.is_called(own, None) && origins.is_called(None, None));
        assert!(origins.is_called(Some("127.0.0.1:8000"), None));
        assert!(origins.is_called(other, Some("https://app.test")));
        assert!(!origins.is_called(other, None));
        assert!(!origins.is_called(other, Some("http://evil.test:8000")));
        assert!(origins.allows("http://push.test:8000", own));
        for origin in ["http://evil.test:8000", "http://evil.test:8001"] {
            assert!(!origins.allows(origin, other), "{origin}");
        }
        assert!(Origins::new(vec!["*".into()], Hosts::default()).is_called(other, None));
    }

    #[test]
    fn pages_of_the_api_may_connect_and_those_of_other_ports_not() {
        let mut origins = Origins::default();
        origins.allow_api("127.0.0.1:8001".parse().unwrap());
        for (origin, host, allowed) in [
            ("http://push.test:8001", "push.test:8000", true),
            ("http://push.test:8001", "push.test", true),
            ("http://127.0.0.1:8001", "10.0.0.5:8000", true),
            ("http://localhost:8001", "10.0.0.5:8000", true),
            ("http://[::1]:8001", "[::1]:8000", true),
            ("http://push.test:8002", "push.test:8000", false),
            ("http://push.test", "push.test:8000", false),
            ("http://evil.test:8001", "push.test:8000", false),
            ("http://localhost.evil.test:8001", "push.test:8000", false),
        ] {
            assert_eq!(origins.allows(origin, Some(host)), allowed, "{origin} at {host}");
        }
    }
}
