//! The names that a server answers to (RFC 9110, section 7.2).
//!
//! A page's own name may be made to lead to this machine after the page was loaded (DNS rebinding).
//! For its browser it is then of the same origin as the server, so the browser asks nobody for
//! leave. Such a page cannot choose what its requests call the server: that is its own name. So a
//! server that knows its names tells it apart. An address is no name that anybody could make lead
//! elsewhere, and browsers look `localhost` up nowhere (RFC 6761, section 6.3): both are good on
//! every server.

use core::net::{IpAddr, Ipv6Addr};

/// The names of a server, beside its addresses and `localhost`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hosts {
    any: bool,
    /// As [`host_name`] has them.
    names: Vec<String>,
}

impl Hosts {
    /// The names in `names`, each as [`host_name`] returns it. `*` stands for every name.
    pub fn new(names: Vec<String>) -> Hosts {
        Hosts { any: names.iter().any(|name| name == "*"), names }
    }

    /// Every name that a client may use.
    pub fn any() -> Hosts {
        Hosts { any: true, names: Vec::new() }
    }

    /// Adds `names`, those of them that [`host_name`] takes.
    pub fn add(&mut self, names: &[String]) {
        self.names.extend(names.iter().filter_map(|name| host_name(name)));
    }

    /// Whether the server is called `host`, which may have a port.
    pub fn include(&self, host: &str) -> bool {
        if self.any {
            return true;
        }
        let (name, port) = split_port(host);
        let name = name.strip_suffix('.').unwrap_or(name);
        let is_known = is_address(name)
            || name.eq_ignore_ascii_case("localhost")
            || self.names.iter().any(|known| known.eq_ignore_ascii_case(name));
        is_known && port.is_none_or(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
    }
}

/// `text` as the name of a host: in small letters and without the dot that ends a full name. `None`
/// for what is no name: an address, a name with a port, or one that is not in the form that
/// browsers send (letters, digits, `-`, `_` and dots; others as `xn--…`).
pub fn host_name(text: &str) -> Option<String> {
    let name = text.strip_suffix('.').unwrap_or(text);
    let is_label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=63).contains(&label.len()) && label.bytes().all(plain)
    };
    let good = name.len() <= 253 && name.split('.').all(is_label) && !is_address(name);
    good.then(|| name.to_ascii_lowercase())
}

/// The name in `host`, which may have a port; `None` when it is an address.
pub fn name_of(host: &str) -> Option<String> {
    host_name(split_port(host).0)
}

pub(super) fn is_address(name: &str) -> bool {
    match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
        None => matches!(name.parse(), Ok(IpAddr::V4(_))),
    }
}

/// Splits `host:port`, whose host may be an IPv6 address in brackets.
pub fn split_port(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_localhost_and_listed_names_are_the_server_s() {
        let hosts = Hosts::new(vec!["push.test".into()]);
        for host in [
            "127.0.0.1:8001",
            "10.0.0.5",
            "[::1]:8001",
            "[fe80::1]",
            "localhost",
            "LocalHost:8001",
            "localhost.:8001",
            "push.test",
            "PUSH.test:1",
            "push.test.",
        ] {
            assert!(hosts.include(host), "{host}");
        }
    }

    #[test]
    fn other_names_are_not_whatever_they_begin_or_end_with() {
        let hosts = Hosts::new(vec!["push.test".into()]);
        for host in [
            "evil.test",
            "evil.test:8001",
            "localhost.evil.test",
            "evil.localhost.test",
            "127.0.0.1.evil.test",
            "127.0.0.1:1.evil.test",
            "[::1].evil.test",
            "::1",
            "[evil.test]",
            "push.test.evil.test",
            "evilpush.test",
            "evil@push.test",
            "localhost..",
            "",
            ":8001",
        ] {
            assert!(!hosts.include(host), "{host}");
            assert!(Hosts::any().include(host) && Hosts::new(vec!["*".into()]).include(host));
        }
    }

    #[test]
    fn name_has_small_letters_and_no_port() {
        for (text, name) in [
            ("Push.Example.org", Some("push.example.org")),
            ("encke", Some("encke")),
            ("my_service.", Some("my_service")),
            ("xn--bcher-kva.test", Some("xn--bcher-kva.test")),
            ("bücher.test", None),
            ("push.test:8001", None),
            ("http://push.test", None),
            ("127.0.0.1", None),
            ("[::1]", None),
            ("*", None),
            ("*.test", None),
            ("a..b", None),
            ("", None),
            (".", None),
        ] {
            assert_eq!(host_name(text).as_deref(), name, "{text}");
        }
        assert_eq!(name_of("Push.test:8000").as_deref(), Some("push.test"));
        assert_eq!(name_of("127.0.0.1:8000"), None);
    }
}
