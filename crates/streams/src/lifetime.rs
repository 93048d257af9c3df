//! How long a stream lives.

use std::time::Duration;

/// How long one live read lasts at most. It dates the file of its stream when it begins, and holds
/// the stream without another word on disk. So the last use of a stream may be so much later than
/// its file says.
pub const LIVE_READ_MAX: Duration = Duration::from_secs(60);

/// The life of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lifetime {
    /// Until it is deleted.
    Unbounded,
    /// For so many seconds after the last read or write.
    Ttl(u64),
    /// Until this time, in milliseconds since 1970.
    ExpiresAt(u64),
}

/// What is wrong with a life.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("Stream-TTL is a number of seconds: digits without sign, point or leading zero")]
pub struct LifetimeFault;

impl Lifetime {
    /// A life of `Stream-TTL` seconds.
    ///
    /// # Errors
    /// It is no number of the protocol's form.
    pub fn parse_ttl(text: &str) -> Result<Lifetime, LifetimeFault> {
        let is_plain = !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && (text == "0" || !text.starts_with('0'));
        let seconds = is_plain.then(|| text.parse().ok()).flatten();
        seconds.map(Lifetime::Ttl).ok_or(LifetimeFault)
    }

    /// When a stream may have been used last whose file was dated at `touched_ms`: whoever held it
    /// may be gone with their process.
    pub(crate) fn used_ms(self, touched_ms: u64) -> u64 {
        match self {
            Lifetime::Ttl(_) => touched_ms.saturating_add(LIVE_READ_MAX.as_millis() as u64),
            Lifetime::Unbounded | Lifetime::ExpiresAt(_) => touched_ms,
        }
    }

    /// When a stream ends that was last used at `touched_ms`, if it ever does.
    pub(crate) fn end_ms(self, touched_ms: u64) -> Option<u64> {
        match self {
            Lifetime::Unbounded => None,
            Lifetime::Ttl(seconds) => {
                Some(touched_ms.saturating_add(seconds.saturating_mul(1_000)))
            }
            Lifetime::ExpiresAt(ms) => Some(ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ttl_has_one_form() {
        assert_eq!(Lifetime::parse_ttl("3600"), Ok(Lifetime::Ttl(3600)));
        assert_eq!(Lifetime::parse_ttl("0"), Ok(Lifetime::Ttl(0)));
        for wrong in ["", "+1", "-1", "01", "00", "1.0", "1e3", " 1", "99999999999999999999"] {
            assert_eq!(Lifetime::parse_ttl(wrong), Err(LifetimeFault), "{wrong}");
        }
    }
}
