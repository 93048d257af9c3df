//! The address of the hub, against which relative topics and patterns of 1.0 are resolved.

use std::sync::Arc;

use url::Url;

use crate::limits::HUB_URL_BYTES_MAX;

/// An address under which clients reach the hub, its path included. A copy shares it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct HubUrl(Arc<Url>);

impl HubUrl {
    /// Reads an address. `None` if it is no absolute one of `http` or `https`, or longer than
    /// [`HUB_URL_BYTES_MAX`]; a query and a fragment are left out.
    pub fn parse(text: &str) -> Option<HubUrl> {
        let mut url = Url::parse(text).ok()?;
        if !matches!(url.scheme(), "http" | "https") {
            return None;
        }
        url.set_query(None);
        url.set_fragment(None);
        (url.as_str().len() <= HUB_URL_BYTES_MAX).then(|| HubUrl(Arc::new(url)))
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
        let long = |len: usize| format!("http://{}/", "x".repeat(len - "http:///".len()));
        assert!(HubUrl::parse(&long(HUB_URL_BYTES_MAX)).is_some());
        assert_eq!(HubUrl::parse(&long(HUB_URL_BYTES_MAX + 1)), None);
    }
}
