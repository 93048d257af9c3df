//! What is said of presence at the start: how long an id may be gone, and which webhooks hear of
//! it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use auth::keys::hex;
use aws_lc_rs::hmac;
use hyper::Uri;

/// Webhooks of one server: each has a backlog of its own.
pub(super) const WEBHOOKS_MAX: usize = 8;

/// The shortest secret, in bytes: what is easily guessed signs nothing.
const SECRET_BYTES_MIN: usize = 16;

/// The longest one.
const SECRET_BYTES_MAX: usize = 4096;

/// What is told of ids that come and go.
#[derive(Clone, Debug)]
pub struct PresenceConfig {
    /// How long the last connection of an id must be gone until that is told.
    pub grace: Duration,
    /// Who is told by HTTP.
    pub webhooks: Vec<Webhook>,
}

/// A receiver of what is told, by HTTP.
#[derive(Clone, Debug)]
pub struct Webhook {
    /// Where it is.
    pub url: WebhookUrl,
    /// What it knows us by.
    pub secret: WebhookSecret,
}

impl PresenceConfig {
    /// The settings with these `urls`, which all have `secret`.
    pub fn new(
        grace: Duration,
        urls: Vec<WebhookUrl>,
        secret: Option<WebhookSecret>,
    ) -> Result<PresenceConfig, String> {
        if urls.len() > WEBHOOKS_MAX {
            return Err(format!("there may be {WEBHOOKS_MAX} webhooks (--webhook) at most"));
        }
        if !urls.is_empty() && secret.is_none() {
            return Err(
                "--webhook needs --webhook-secret-file: the file with the secret by which \
                        the receiver knows that it is us"
                    .to_owned(),
            );
        }
        let hook = |url| Some(Webhook { url, secret: secret.clone()? });
        Ok(PresenceConfig { grace, webhooks: urls.into_iter().filter_map(hook).collect() })
    }
}

/// The URL of a webhook. Its path and its query may be secrets: they are shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookUrl(Uri);

impl WebhookUrl {
    pub(super) fn uri(&self) -> &Uri {
        &self.0
    }

    /// Host and port, as the log has it.
    pub(super) fn host(&self) -> &str {
        self.0.authority().map_or("", |authority| authority.as_str())
    }
}

impl fmt::Debug for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.host())
    }
}

impl FromStr for WebhookUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<WebhookUrl, String> {
        let wanted = || "write http://HOST:PORT/PATH or https://HOST/PATH".to_owned();
        let url: Uri = text.parse().map_err(|_| wanted())?;
        let (Some("http" | "https"), Some(authority)) = (url.scheme_str(), url.authority()) else {
            return Err(wanted());
        };
        if authority.as_str().contains('@') {
            return Err("a webhook's URL has no password: each batch is signed \
                        (--webhook-secret-file)"
                .to_owned());
        }
        Ok(WebhookUrl(url))
    }
}

/// The secret that batches are signed with.
#[derive(Clone)]
pub struct WebhookSecret(hmac::Key);

impl WebhookSecret {
    /// The HMAC-SHA256 of all `parts` together, in hexadecimal digits.
    pub(super) fn sign(&self, parts: &[&[u8]]) -> String {
        let mut context = hmac::Context::with_key(&self.0);
        parts.iter().for_each(|part| context.update(part));
        hex(context.sign().as_ref())
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

impl FromStr for WebhookSecret {
    type Err = String;

    /// The content of a file: the blanks around the secret are none of it.
    fn from_str(text: &str) -> Result<WebhookSecret, String> {
        let secret = text.trim();
        if !(SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&secret.len()) {
            return Err(format!(
                "a secret has from {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes: make one with \
                 `openssl rand -hex 32`"
            ));
        }
        Ok(WebhookSecret(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes())))
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
        assert!(told.contains("--webhook-secret-file") && !told.contains("s3cret"), "{told}");
    }

    #[test]
    fn signature_is_that_of_the_standard() {
        // RFC 4231, test case 6 has a longer key; this one is from `openssl dgst -sha256 -hmac`.
        let secret: WebhookSecret = "  0123456789abcdef\n".parse().unwrap();
        let whole = secret.sign(&[b"1700000000.{\"events\":[]}"]);
        assert_eq!(whole, SIGNED);
        assert_eq!(secret.sign(&[b"1700000000", b".", b"{\"events\":[]}"]), whole);
        assert_eq!(format!("{secret:?}"), "(secret)");
        for text in ["", "too short", &"x".repeat(4097)] {
            assert!(text.parse::<WebhookSecret>().unwrap_err().contains("openssl"), "{text}");
        }
    }

    const SIGNED: &str = "1f1c43683e76ee83b09613ab56fa5bdd3ce55f3ee41db00a92e22eea0376899e";

    #[test]
    fn webhook_without_a_secret_and_too_many_are_refused() {
        let url = || "http://a.example/".parse::<WebhookUrl>().unwrap();
        let secret = || "0123456789abcdef".parse().ok();
        let of = |urls, secret| PresenceConfig::new(Duration::ZERO, urls, secret);
        assert!(of(vec![url()], None).unwrap_err().contains("--webhook-secret-file"));
        assert!(of(vec![url(); WEBHOOKS_MAX + 1], secret()).is_err());
        assert_eq!(of(vec![url(); 2], secret()).unwrap().webhooks.len(), 2);
        assert!(of(Vec::new(), None).unwrap().webhooks.is_empty());
    }
}
