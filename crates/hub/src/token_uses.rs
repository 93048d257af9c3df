//! How many connections each token is used by, of those tokens that bound it.
//!
//! Tokens are told apart by a hash of their holder's making, which nobody outside can aim at. An
//! entry lives as long as a connection does that uses it, so there are no more of them than
//! connections. Cost: a stripe's lock and a look-up at log-in and log-out of such a token.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashTable;

use crate::tables;

const STRIPES: usize = 64;

/// Connections by token's hash.
type UsesStripe = Mutex<HashTable<(u64, u32)>>;

/// Connections by token.
#[derive(Debug)]
pub struct TokenUses {
    stripes: Box<[UsesStripe]>,
}

impl Default for TokenUses {
    fn default() -> TokenUses {
        TokenUses { stripes: (0..STRIPES).map(|_| Mutex::default()).collect() }
    }
}

impl TokenUses {
    /// Another connection uses the token with this hash, if it is good for `connections_max` of
    /// them. Whether it is.
    pub fn take(&self, token: u64, connections_max: u32) -> bool {
        let mut stripe = self.stripe(token);
        let entry = stripe.entry(token, |(other, _)| *other == token, |(token, _)| *token);
        let mut entry = entry.or_insert((token, 0));
        let (_, uses) = entry.get_mut();
        let fits = *uses < connections_max;
        if fits {
            *uses += 1;
        } else if *uses == 0 {
            entry.remove();
        }
        fits
    }

    /// A connection that [took](TokenUses::take) it uses it no more.
    pub fn give_back(&self, token: u64) {
        let mut stripe = self.stripe(token);
        let found = stripe.find_entry(token, |(other, _)| *other == token);
        debug_assert!(found.is_ok(), "a use is given back that nobody took");
        let Ok(mut entry) = found else { return };
        let (_, uses) = entry.get_mut();
        debug_assert!(*uses > 0, "an entry lives as long as it is used");
        *uses -= 1;
        if *uses == 0 {
            entry.remove();
            tables::shrink(&mut stripe, |(token, _)| *token);
        }
    }

    /// How many tokens are in use.
    pub fn len(&self) -> usize {
        self.stripes.iter().map(|stripe| lock(stripe).len()).sum()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn stripe(&self, token: u64) -> MutexGuard<'_, HashTable<(u64, u32)>> {
        // The table takes the lowest and the highest bits.
        lock(&self.stripes[(token >> 32) as usize % STRIPES])
    }
}

fn lock<T>(stripe: &Mutex<T>) -> MutexGuard<'_, T> {
    stripe.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_good_for_so_many_connections_at_a_time() {
        let uses = TokenUses::default();
        assert!(!uses.take(7, 0) && uses.is_empty());
        assert!(uses.take(7, 2) && uses.take(7, 2) && !uses.take(7, 2));
        assert!(uses.take(8, 1), "another token is another's");
        uses.give_back(7);
        assert!(uses.take(7, 2) && !uses.take(7, 2));
        for token in [7, 7, 8] {
            uses.give_back(token);
        }
        assert!(uses.is_empty());
    }
}
