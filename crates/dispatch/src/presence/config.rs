//! What is said of presence at the start: how long an id may be gone, and which webhooks hear of
//! it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use auth::keys::hex;
use aws_lc_rs::hmac;

use crate::webhook::WebhookUrl;

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
