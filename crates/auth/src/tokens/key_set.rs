//! The keys that tokens are verified with at one moment, and which of them is for a token.

use std::collections::HashSet;
use std::sync::Arc;

use hub::TokenRefusal;
use jsonwebtoken::Algorithm;
use smallvec::SmallVec;

use super::key::{Fingerprint, Key};
use super::limits::KEYS_TRIED_MAX;

/// All keys, as they are until they are others.
#[derive(Debug, Default)]
pub(super) struct KeySet {
    keys: Vec<Arc<Key>>,
    prints: HashSet<Fingerprint>,
}

/// The keys that a token may be signed with.
pub(super) type Candidates<'k> = SmallVec<[&'k Key; KEYS_TRIED_MAX]>;

impl KeySet {
    pub(super) fn new(keys: impl Iterator<Item = Arc<Key>>) -> KeySet {
        let keys: Vec<Arc<Key>> = keys.collect();
        let prints = keys.iter().filter_map(|key| key.print).collect();
        KeySet { keys, prints }
    }

    /// Whether the key is still one of ours.
    pub(super) fn holds(&self, print: &Fingerprint) -> bool {
        self.prints.contains(print)
    }

    /// Whether a key is called so.
    pub(super) fn knows(&self, id: &str) -> bool {
        self.keys.iter().any(|key| key.id.as_deref() == Some(id))
    }

    /// The keys for `algorithm` that are called `id`. Where no key is called so, one without a name
    /// will do: a key file has none, while libraries may write one into every token.
    ///
    /// # Errors
    /// No key is called so and each has a name, or none of them is for this algorithm.
    pub(super) fn candidates(
        &self,
        algorithm: Algorithm,
        id: Option<&str>,
    ) -> Result<Candidates<'_>, TokenRefusal> {
        let known = id.filter(|id| self.knows(id));
        let meant = |key: &&Key| match (known, id) {
            (Some(id), _) => key.id.as_deref() == Some(id),
            (None, Some(_)) => key.id.is_none(),
            (None, None) => true,
        };
        let mut meant = self.keys.iter().map(|key| &**key).filter(meant).peekable();
        if meant.peek().is_none() {
            return Err(TokenRefusal::UnknownKey);
        }
        let candidates: Candidates<'_> =
            meant.filter(|key| key.is_for(algorithm)).take(KEYS_TRIED_MAX).collect();
        if candidates.is_empty() { Err(TokenRefusal::Algorithm) } else { Ok(candidates) }
    }
}
