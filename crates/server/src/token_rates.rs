//! How often the holders of tokens send and read by request, over all their connections.
//!
//! Connections that carry requests may be others each time, so the rate of each is not enough.
//!
//! Cost: a name and eight bytes for each token that was used of late.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use engine::{ClientSendLimits, Publisher};
use hub::Grant;
use proto::Problem;
use sys::clock;

/// Tokens of which is known how often they were used by request of late. Those not used for two
/// seconds are forgotten past it; who comes when there are none of these is refused.
const TOKENS_MAX: usize = 16 * 1024;

/// Milliseconds in the unit of [`Publisher::take`].
const TICK_MS: u64 = 100;

/// What was used of late, by the names of tokens.
#[derive(Default)]
pub(crate) struct TokenRates {
    by_name: Mutex<HashMap<Box<str>, Publisher>>,
}

impl TokenRates {
    /// Counts a request for the holder of the token that grants `grant`.
    ///
    /// # Errors
    /// It may not come yet; or too many tokens are in use, for which the answer is `busy`.
    pub(crate) fn take(
        &self,
        grant: &Grant,
        limits: &ClientSendLimits,
        busy: impl FnOnce(u32) -> Problem,
    ) -> Result<(), Problem> {
        let Some(name) = name_of(grant) else { return Ok(()) };
        let name = &*name;
        // It wraps after thirteen years.
        let now = (clock::monotonic_ms() / TICK_MS) as u32;
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        if by_name.len() >= TOKENS_MAX && !by_name.contains_key(name) {
            by_name.retain(|_, publisher| !publisher.is_refilled(now));
            if by_name.len() >= TOKENS_MAX {
                return Err(busy(1));
            }
        }
        let before = by_name.get(name).copied().unwrap_or_default();
        let taken = before.take(limits, now).map_err(|again| {
            let seconds = again.retry_ms.div_ceil(1000).max(1) as u32;
            Problem::too_many("This token sends or reads too often. Try again later.", seconds)
        })?;
        by_name.insert(name.into(), taken.answered());
        Ok(())
    }
}

/// For whom requests are counted: the subject of the token, or the token.
fn name_of(grant: &Grant) -> Option<Cow<'_, str>> {
    // No subject has a slash.
    let token = || grant.token.as_deref().map(|token| format!("/{token}").into());
    grant.subject.as_deref().map(Cow::Borrowed).or_else(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_without_a_subject_shares_nothing_with_a_subject_of_its_name() {
        let of = |subject: Option<&str>, token: Option<&str>| Grant {
            subject: subject.map(Into::into),
            token: token.map(Into::into),
            ..Grant::default()
        };
        let (subject, token) = (of(Some("bob"), Some("1")), of(None, Some("bob")));
        assert_eq!(name_of(&subject).as_deref(), Some("bob"));
        assert_eq!(name_of(&token).as_deref(), Some("/bob"));
        assert_eq!(name_of(&of(None, None)), None);
    }
}
