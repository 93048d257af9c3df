//! Whose pages may connect, and what the server is called.
//!
//! A browser tells the origin of the page that asks and the host that it asks. Who is no browser
//! may say anything: this keeps pages off, not programs.

use std::net::SocketAddr;

use proto::request::{Hosts, is_origin_at_port, is_own_origin};

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
