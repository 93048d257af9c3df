//! Ids found again by 32 bits of their hash and by who is logged in under them.
//!
//! A worker keeps these bits of the further ids of a connection, and not the ids. They name the
//! stripe and the place in its table. What stands there has the connection's reference, or is of
//! somebody else. So both together are exact. Two ids of one connection that share the bits are
//! both its own.

use super::{Directory, Slot, Stripe};
use crate::conn_ref::ConnRef;
use crate::id::Id;
use crate::id_hash::IdHash;
use crate::keys::Keys;

impl Directory {
    /// What the directory finds `id` by.
    pub fn hash(&self, id: Id) -> IdHash {
        IdHash::of(self.keys.hash(id.to_bits()))
    }

    /// Whether `conn` is logged in under `id`.
    pub fn has(&self, id: Id, conn: ConnRef) -> bool {
        let hash = self.hash(id);
        let stripe = self.stripe(hash);
        stripe.slots.find(hash, id).is_some_and(|slot| stripe.has(slot, conn, &self.keys))
    }

    /// Shows `visit` each id of this hash that `conn` is logged in under, in no order, under the
    /// stripe's lock: `visit` only notes it.
    pub fn ids_of(&self, conn: ConnRef, hash: IdHash, visit: impl FnMut(Id)) {
        self.ids_in(&self.stripe(hash), conn, hash, visit);
    }

    /// Takes `conn` out of one id of this hash, which is returned. `None` where it has none.
    pub fn logout_of_hash(&self, conn: ConnRef, hash: IdHash) -> Option<Id> {
        let mut stripe = self.stripe(hash);
        let mut found = None;
        self.ids_in(&stripe, conn, hash, |id| found = Some(id));
        self.logout_in(&mut stripe, hash, found?, conn);
        found
    }

    fn ids_in(&self, stripe: &Stripe, conn: ConnRef, hash: IdHash, mut visit: impl FnMut(Id)) {
        let is_it = |slot: &Slot| self.hash(slot.id) == hash && stripe.has(slot, conn, &self.keys);
        stripe.slots.maybe(hash, |slot| {
            if is_it(slot) {
                visit(slot.id);
            }
        });
    }
}

impl Stripe {
    fn has(&self, slot: &Slot, conn: ConnRef, keys: &Keys) -> bool {
        match slot.conns.conn() {
            Some(only) => only == conn,
            None => self.sets.of(slot.id, keys).is_some_and(|set| set.contains(conn)),
        }
    }
}
