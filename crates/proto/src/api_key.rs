//! The key that a client of the API shows (RFC 6750), kept out of what is printed.

use std::fmt;

/// A key, as its user gives it. Whatever stands in it, making one succeeds: the message of a parse
/// that fails would show it.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// The value of an `Authorization` field with it; `None` when it has characters that no key
    /// has, or none at all.
    pub fn authorization(&self) -> Option<String> {
        let is_token = !self.0.is_empty() && self.0.bytes().all(|byte| byte.is_ascii_graphic());
        is_token.then(|| format!("Bearer {}", self.0))
    }

    /// Whether nothing was given.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<String> for ApiKey {
    fn from(text: String) -> ApiKey {
        ApiKey(text.trim().to_owned())
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_one_token_and_is_never_shown() {
        let of = |text: &str| ApiKey::from(text.to_owned());
        assert_eq!(of(" encke_a_b\n").authorization().as_deref(), Some("Bearer encke_a_b"));
        for wrong in ["", "a b", "a\r\nX: y", "ä"] {
            assert_eq!(of(wrong).authorization(), None, "{wrong:?}");
        }
        assert_eq!(format!("{:?}", of("encke_a_b")), "ApiKey(…)");
    }
}
