//! The address of the hub, against which relative topics and patterns of 1.0 are resolved.

use std::sync::Arc;

use url::Url;

use crate::PATH;
use crate::limits::HUB_URL_BYTES_MAX;

/// An address under which clients reach the hub, its path included. A copy shares it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct HubUrl(Arc<Url>);

impl HubUrl {
    /// Reads an address. `None` if it is no absolute one of `http` or `https`, has a user or a
    /// quote, or is longer than [`HUB_URL_BYTES_MAX`]; a query and a fragment are left out.
    pub fn parse(text: &str) -> Option<HubUrl> {
        let mut url = Url::parse(text).ok()?;
        if !matches!(url.scheme(), "http" | "https") {
            return None;
        }
        url.set_query(None);
        url.set_fragment(None);
        // A host may have a quote (WHATWG URL, section 3.1), which would end the text between
        // quotes that an address is in `WWW-Authenticate`.
        let names_nobody = url.username().is_empty() && url.password().is_none();
        let is_plain = names_nobody && !url.as_str().contains('"');
        let is_short = url.as_str().len() <= HUB_URL_BYTES_MAX;
        (is_plain && is_short).then(|| HubUrl(Arc::new(url)))
    }

    /// The address of a hub at [`PATH`] that a client has called by `host`, which may have a port.
    /// `None` if that is none: tokens name the hub by it, so it is never guessed.
    pub fn called(host: &str) -> Option<HubUrl> {
        let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:[]".contains(&byte);
        if !host.bytes().all(is_of_host) {
            return None;
        }
        // An empty host makes the first segment of the path the host.
        HubUrl::parse(&format!("http://{host}{PATH}")).filter(|hub| hub.path() == PATH)
    }

    /// The address in its normal form.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The path of the hub.
    pub fn path(&self) -> &str {
        self.0.path()
    }

    /// Scheme, host and port, as a browser sends them in `Origin`.
    pub fn origin(&self) -> String {
        self.0.origin().ascii_serialization()
    }

    /// What `text` names, seen from the hub. `None` if that is no URL.
    pub(crate) fn resolve(&self, text: &str) -> Option<Url> {
        self.0.join(text).ok()
    }

    pub(crate) fn url(&self) -> &Url {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_absolute_and_of_http() {
        let hub = HubUrl::parse("HTTPS://Hub.example:443/.well-known/mercure?x#y").unwrap();
        assert_eq!(hub.as_str(), "https://hub.example/.well-known/mercure");
        assert_eq!(hub.path(), "/.well-known/mercure");
        assert_eq!(hub.origin(), "https://hub.example");
        for text in ["", "/.well-known/mercure", "ftp://hub.example/", "data:a", "http://"] {
            assert_eq!(HubUrl::parse(text), None, "{text}");
        }
        for text in ["http://a%22b/", "http://a\"b/", "http://user@a/", "http://:word@a/"] {
            assert_eq!(HubUrl::parse(text), None, "{text}");
        }
        let long = |len: usize| format!("http://{}/", "x".repeat(len - "http:///".len()));
        assert!(HubUrl::parse(&long(HUB_URL_BYTES_MAX)).is_some());
        assert_eq!(HubUrl::parse(&long(HUB_URL_BYTES_MAX + 1)), None);
    }

    #[test]
    fn hub_is_called_by_a_host_and_nothing_else() {
        for (host, address) in [
            ("Hub.example", "http://hub.example/.well-known/mercure"),
            ("hub_1:8000", "http://hub_1:8000/.well-known/mercure"),
            ("[::1]:80", "http://[::1]/.well-known/mercure"),
        ] {
            assert_eq!(HubUrl::called(host).unwrap().as_str(), address);
        }
        for host in [
            "",
            ":",
            ":80",
            "a%22,error=%22b",
            "a%41",
            "a\"b",
            "a,b",
            "a b",
            "a\tb",
            "user@a",
            "a/b",
            "a\\b",
            "a?b",
            "a#b",
            "a:b",
            "a:99999",
            "[::1",
            "é",
        ] {
            assert_eq!(HubUrl::called(host), None, "{host}");
        }
        assert_eq!(HubUrl::called(&"x".repeat(HUB_URL_BYTES_MAX)), None);
    }
}
