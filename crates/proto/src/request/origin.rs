//! Where a page comes from, compared with whom its request speaks to (RFC 6454; RFC 9110, section
//! 7.2).
//!
//! Both are compared as text: nothing is looked up. A scheme may be http or https everywhere, since
//! whoever ends TLS before the server leaves no trace.

use super::host::{host_name, is_address, split_port};

/// Whether a page of `origin` was served by the server that the client calls `host`: its *own*
/// origin. A port that is left out is that of the origin's scheme.
pub fn is_own_origin(origin: &str, host: &str) -> bool {
    let (_, port) = split_port(host);
    is_at(origin, host, |default_port| number(port, default_port))
}

/// Whether a page of `origin` was served at `port` of the machine that the client calls `host`,
/// whatever port it speaks to itself: two servers of one program let each other's pages in so.
pub fn is_origin_at_port(origin: &str, host: &str, port: u16) -> bool {
    is_at(origin, host, |_| Some(port))
}

/// Whether a page of `origin` is of the machine `host`, and of `port` there, which may depend on
/// the port that the origin's scheme has by itself.
fn is_at(origin: &str, host: &str, port: impl FnOnce(u16) -> Option<u16>) -> bool {
    let (name, _) = split_port(host);
    authority(origin).is_some_and(|(default_port, authority)| {
        let (page_name, page_port) = split_port(authority);
        let page_port = number(page_port, default_port);
        let is_there = page_port.is_some() && page_port == port(default_port);
        is_there && !name.is_empty() && page_name.eq_ignore_ascii_case(name)
    })
}

fn number(port: Option<&str>, default_port: u16) -> Option<u16> {
    port.map_or(Some(default_port), |digits| digits.parse().ok())
}

/// `text` as browsers write an origin (RFC 6454, section 6.2): scheme, host and port in small
/// letters, without the port that the scheme has by itself. `None` for what is none: a path, a
/// user, a wildcard, `null`.
pub fn origin(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let (scheme, authority) = text.split_once("://")?;
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_lowercase());
    if !is_scheme || !scheme.bytes().all(known) {
        return None;
    }
    let (name, port) = split_port(authority);
    if !is_address(name) && host_name(name).is_none() {
        return None;
    }
    let Some(port) = port else { return Some(text) };
    let number: u16 = port.parse().ok().filter(|number| *number > 0)?;
    Some(match (scheme, number) {
        ("http", 80) | ("https", 443) => format!("{scheme}://{name}"),
        _ => format!("{scheme}://{name}:{number}"),
    })
}

/// The port of the scheme, which an origin leaves out, and the host, perhaps with another port.
fn authority(origin: &str) -> Option<(u16, &str)> {
    let http = origin.strip_prefix("http://").map(|authority| (80, authority));
    http.or_else(|| origin.strip_prefix("https://").map(|authority| (443, authority)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origin_is_written_as_browsers_write_it() {
        for (text, written) in [
            ("https://example.org", Some("https://example.org")),
            ("HTTPS://Example.ORG:443", Some("https://example.org")),
            ("http://example.org:80", Some("http://example.org")),
            ("http://example.org:443", Some("http://example.org:443")),
            ("http://127.0.0.1:3000", Some("http://127.0.0.1:3000")),
            ("http://[::1]:3000", Some("http://[::1]:3000")),
            ("capacitor://localhost", Some("capacitor://localhost")),
            ("chrome-extension://abcdefgh", Some("chrome-extension://abcdefgh")),
            ("https://example.org/", None),
            ("https://example.org/path", None),
            ("https://example.org?x", None),
            ("https://example.org#x", None),
            ("https://user@example.org", None),
            ("https://*.example.org", None),
            ("https://example.org:", None),
            ("https://example.org:0", None),
            ("https://example.org:65536", None),
            ("https://exa mple.org", None),
            ("https://", None),
            ("://example.org", None),
            ("example.org", None),
            ("null", None),
            ("*", None),
            ("", None),
        ] {
            assert_eq!(origin(text).as_deref(), written, "{text}");
        }
    }

    #[test]
    fn port_of_the_scheme_may_be_left_out_or_not() {
        for (origin, host) in [
            ("https://push.test", "push.test"),
            ("http://push.test", "PUSH.test"),
            ("https://push.test", "push.test:443"),
            ("http://push.test", "push.test:80"),
            ("https://push.test:443", "push.test"),
            ("https://push.test:8443", "push.test:8443"),
            ("http://[::1]", "[::1]:80"),
        ] {
            assert!(is_own_origin(origin, host), "{origin} {host}");
        }
        for (origin, host) in [
            ("http://push.test", "push.test:443"),
            ("https://push.test", "push.test:80"),
            ("https://push.test:8443", "push.test"),
            ("https://push.test:x", "push.test:x"),
            ("https://evil.test", "push.test"),
            ("https://", ""),
            ("null", "null"),
        ] {
            assert!(!is_own_origin(origin, host), "{origin} {host}");
        }
    }

    #[test]
    fn page_at_the_other_port_of_the_same_host_is_known() {
        for (origin, host) in [
            ("http://push.test:8000", "push.test:8001"),
            ("https://PUSH.test:8000", "push.TEST"),
            ("http://[::1]:8000", "[::1]:8001"),
            ("http://[::1]:8000", "[::1]"),
        ] {
            assert!(is_origin_at_port(origin, host, 8000), "{origin} {host}");
            assert!(!is_origin_at_port(origin, host, 8001), "{origin} {host}");
        }
        assert!(is_origin_at_port("http://push.test", "push.test:8001", 80));
        assert!(is_origin_at_port("https://push.test", "push.test:8001", 443));
    }

    #[test]
    fn page_of_another_host_or_of_none_is_not() {
        for origin in [
            "http://evil.test:8000",
            "http://push.test.evil.test:8000",
            "http://push.test",
            "http://push.test:08000x",
            "ftp://push.test:8000",
            "push.test:8000",
            "http://:8000",
            "null",
            "",
        ] {
            assert!(!is_origin_at_port(origin, "push.test:8001", 8000), "{origin}");
        }
        assert!(!is_origin_at_port("http://:8000", ":8001", 8000));
        assert!(!is_origin_at_port("http://", "", 80));
    }
}
