//! Where a webhook is.

use std::fmt;
use std::str::FromStr;

use hyper::Uri;
use thiserror::Error;

/// The URL of a webhook. Its path and its query may be secrets: they are shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookUrl(Uri);

impl WebhookUrl {
    /// As it is asked for.
    pub(crate) fn uri(&self) -> &Uri {
        &self.0
    }

    /// Whether it is reached by TLS, and so needs certificates that are trusted.
    pub fn is_https(&self) -> bool {
        self.0.scheme_str() == Some("https")
    }

    /// Host and port, as the log has it.
    pub fn host(&self) -> &str {
        self.0.authority().map_or("", |authority| authority.as_str())
    }
}

/// Why a text is no address of a webhook. It says nothing of the text, which may have a secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum WebhookUrlFault {
    /// It is no URL of HTTP.
    #[error("write http://HOST:PORT/PATH or https://HOST/PATH")]
    NoUrl,
    /// It names a user, or a password.
    #[error("a webhook's URL has no password: each batch is signed")]
    HasPassword,
}

impl fmt::Debug for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.host())
    }
}

impl FromStr for WebhookUrl {
    type Err = WebhookUrlFault;

    fn from_str(text: &str) -> Result<WebhookUrl, WebhookUrlFault> {
        let url: Uri = text.parse().map_err(|_| WebhookUrlFault::NoUrl)?;
        let (Some("http" | "https"), Some(authority)) = (url.scheme_str(), url.authority()) else {
            return Err(WebhookUrlFault::NoUrl);
        };
        if authority.as_str().contains('@') {
            return Err(WebhookUrlFault::HasPassword);
        }
        Ok(WebhookUrl(url))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_is_one_of_http_without_a_password_and_shows_no_path() {
        let url: WebhookUrl = "https://a.example:8443/hook/s3cret?k=s3cret".parse().unwrap();
        assert_eq!((url.host(), format!("{url:?}")), ("a.example:8443", "a.example:8443".into()));
        for text in ["", "a.example", "ftp://a.example/", "/hook", "http://", "none"] {
            assert!(text.parse::<WebhookUrl>().is_err(), "{text}");
        }
        let told = "http://me:s3cret@a.example/".parse::<WebhookUrl>().unwrap_err();
        assert_eq!(told, WebhookUrlFault::HasPassword);
    }
}
