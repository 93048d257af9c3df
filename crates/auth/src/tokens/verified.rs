//! The tokens whose signature was found right, so that the next use of one costs a hash.
//!
//! A signature takes 20 to 100 µs to verify, a look here less than one. Under the SHA-256 of a
//! token lies what it grants, and with which key it was signed. A key that is gone takes its tokens
//! along. Full is full: then the one that came first and was not used since gives way.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_lc_rs::digest::{SHA256, digest};
use hub::Grant;

use super::key::Fingerprint;
use super::limits::{STRIPES, TOKEN_BYTES_MAX, VERIFIED_BYTES_MAX, VERIFIED_MAX};

/// The SHA-256 of a token.
pub(super) type TokenHash = [u8; 32];

/// Of the whole token: another signature is another token.
pub(super) fn hash(token: &str) -> TokenHash {
    let mut hash = TokenHash::default();
    hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    hash
}

/// A token that is known to be signed.
#[derive(Clone, Debug)]
pub(super) struct Verified {
    pub(super) grant: Arc<Grant>,
    pub(super) from: u64,
    pub(super) key: Fingerprint,
}

/// All of them, in stripes.
pub(super) struct VerifiedTokens {
    stripes: [Mutex<Stripe>; STRIPES],
}

/// So much one stripe holds.
const STRIPE_MAX: usize = VERIFIED_MAX / STRIPES;
const STRIPE_BYTES_MAX: usize = VERIFIED_BYTES_MAX / STRIPES;

const _: () = {
    assert!(STRIPES <= 1 << u8::BITS, "a stripe is named by one byte of a hash");
    // The longest token that is verified has room: else its stripe would be emptied for nothing.
    assert!(STRIPE_MAX > 0 && STRIPE_BYTES_MAX > 8 * TOKEN_BYTES_MAX);
};

#[derive(Default)]
struct Stripe {
    tokens: HashMap<TokenHash, Entry>,
    /// In the order in which they came, or were found used.
    order: VecDeque<TokenHash>,
    bytes: usize,
}

struct Entry {
    verified: Verified,
    bytes: usize,
    used: bool,
}

impl VerifiedTokens {
    pub(super) fn new() -> VerifiedTokens {
        VerifiedTokens { stripes: std::array::from_fn(|_| Mutex::default()) }
    }

    /// What is known of a token.
    pub(super) fn find(&self, hash: &TokenHash) -> Option<Verified> {
        let mut stripe = self.stripe(hash);
        let entry = stripe.tokens.get_mut(hash)?;
        entry.used = true;
        Some(entry.verified.clone())
    }

    /// Remembers a token; `now` tells which others are over.
    pub(super) fn put(&self, hash: TokenHash, verified: Verified, now: u64) {
        let bytes = bytes(&verified.grant);
        let mut stripe = self.stripe(&hash);
        stripe.forget(&hash);
        stripe.make_room(bytes, now);
        stripe.bytes += bytes;
        stripe.order.push_back(hash);
        let before = stripe.tokens.insert(hash, Entry { verified, bytes, used: false });
        debug_assert!(before.is_none(), "it would stand in the order twice");
        stripe.check();
    }

    /// Forgets a token, whose key is gone.
    pub(super) fn forget(&self, hash: &TokenHash) {
        self.stripe(hash).forget(hash);
    }

    /// How many there are, and their bytes.
    pub(super) fn sizes(&self) -> (usize, usize) {
        let lock = |stripe: &Mutex<Stripe>| {
            let stripe = stripe.lock().unwrap_or_else(PoisonError::into_inner);
            (stripe.tokens.len(), stripe.bytes)
        };
        self.stripes.iter().map(lock).fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
    }

    fn stripe(&self, hash: &TokenHash) -> MutexGuard<'_, Stripe> {
        let stripe = &self.stripes[usize::from(hash[0]) % STRIPES];
        stripe.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stripe {
    /// The place in the order goes when its turn comes.
    fn forget(&mut self, hash: &TokenHash) {
        if let Some(entry) = self.tokens.remove(hash) {
            self.bytes -= entry.bytes;
            self.order.retain(|other| other != hash);
        }
        self.check();
    }

    fn check(&self) {
        debug_assert_eq!(self.order.len(), self.tokens.len(), "each token waits for its turn once");
        debug_assert_eq!(self.tokens.is_empty(), self.bytes == 0);
        debug_assert!(self.tokens.len() <= STRIPE_MAX && self.bytes <= STRIPE_BYTES_MAX);
    }

    /// Each turn of the loop takes a token out, or the mark of one that was used; so it ends after
    /// at most twice as many turns as there are tokens.
    fn make_room(&mut self, bytes: usize, now: u64) {
        while self.tokens.len() >= STRIPE_MAX || self.bytes + bytes > STRIPE_BYTES_MAX {
            let Some(hash) = self.order.pop_front() else { return };
            let Some(entry) = self.tokens.get_mut(&hash) else { continue };
            let over = entry.verified.grant.expires.is_some_and(|expires| expires <= now);
            if entry.used && !over {
                entry.used = false;
                self.order.push_back(hash);
            } else {
                self.bytes -= entry.bytes;
                self.tokens.remove(&hash);
            }
        }
    }
}

/// What a token takes here: its grant with what that points to, an allocator's 16 bytes for each,
/// the hash twice, and the table's slack.
fn bytes(grant: &Grant) -> usize {
    grant.bytes(16) + 2 * size_of::<usize>() + 2 * size_of::<Entry>() + 3 * size_of::<TokenHash>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verified(expires: u64, token_bytes: usize) -> Verified {
        let token = Some("x".repeat(token_bytes).into());
        let grant = Grant { token, expires: Some(expires), ..Grant::default() };
        Verified { grant: Arc::new(grant), from: 0, key: [1; 16] }
    }

    /// Tokens of one stripe.
    fn hashes(count: usize) -> impl Iterator<Item = TokenHash> {
        (0..count as u64).map(|n| {
            let mut hash = [0; 32];
            hash[8..16].copy_from_slice(&n.to_le_bytes());
            hash
        })
    }

    #[test]
    fn full_memory_lets_go_of_what_came_first_and_was_not_used() {
        let tokens = VerifiedTokens::new();
        let used = hashes(1).next().unwrap();
        for hash in hashes(3 * STRIPE_MAX) {
            tokens.put(hash, verified(100, 8), 0);
            assert!(tokens.find(&used).is_some(), "it is used all the time");
            assert!(tokens.sizes().0 <= STRIPE_MAX);
        }
        let kept: Vec<bool> =
            hashes(3 * STRIPE_MAX).map(|hash| tokens.find(&hash).is_some()).collect();
        assert!(!kept[1] && !kept[STRIPE_MAX] && kept[3 * STRIPE_MAX - 1]);
        assert_eq!(kept.iter().filter(|kept| **kept).count(), STRIPE_MAX);
    }

    #[test]
    fn bytes_are_bounded_and_come_back() {
        let tokens = VerifiedTokens::new();
        for hash in hashes(STRIPE_MAX) {
            tokens.put(hash, verified(100, 4000), 0);
            assert!(tokens.sizes().1 <= STRIPE_BYTES_MAX);
        }
        assert!(tokens.sizes().0 > 100);
        // The same again takes its own place.
        let (count, bytes) = tokens.sizes();
        let last = hashes(STRIPE_MAX).last().unwrap();
        tokens.put(last, verified(100, 4000), 0);
        assert_eq!(tokens.sizes(), (count, bytes));
        hashes(STRIPE_MAX).for_each(|hash| tokens.forget(&hash));
        assert_eq!(tokens.sizes(), (0, 0));
        assert!(tokens.stripes.iter().all(|stripe| stripe.lock().unwrap().order.is_empty()));
    }

    #[test]
    fn what_is_over_gives_way_though_it_was_used() {
        let tokens = VerifiedTokens::new();
        for hash in hashes(STRIPE_MAX) {
            tokens.put(hash, verified(100, 8), 0);
            tokens.find(&hash);
        }
        let more = hashes(STRIPE_MAX + 1).last().unwrap();
        tokens.put(more, verified(300, 8), 200);
        assert!(tokens.find(&hashes(1).next().unwrap()).is_none());
        assert!(tokens.find(&more).is_some());
    }
}
