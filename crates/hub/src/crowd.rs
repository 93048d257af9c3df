//! Ids that have several connections.

use hashbrown::HashTable;

use crate::directory::ConnRef;
use crate::keys::Keys;

/// The crowds of one stripe, by index. Rare, so a stripe without any has just an empty pointer.
#[derive(Default)]
pub(crate) struct Crowds(Option<Box<Pool>>);

#[derive(Default)]
struct Pool {
    crowds: Vec<Crowd>,
    free: Vec<usize>,
}

impl Crowds {
    pub(crate) fn add(&mut self, crowd: Crowd) -> usize {
        let Pool { crowds, free } = &mut **self.0.get_or_insert_default();
        if let Some(index) = free.pop() {
            crowds[index] = crowd;
            return index;
        }
        crowds.push(crowd);
        crowds.len() - 1
    }

    pub(crate) fn at(&mut self, index: usize) -> &mut Crowd {
        &mut self.0.as_mut().expect("an index is given out by add").crowds[index]
    }

    pub(crate) fn look(&self, index: usize) -> &Crowd {
        &self.0.as_ref().expect("an index is given out by add").crowds[index]
    }

    pub(crate) fn give_back(&mut self, index: usize) {
        *self.at(index) = Crowd::default();
        let pool = self.0.as_mut().expect("an index is given out by add");
        pool.free.push(index);
        if pool.free.len() == pool.crowds.len() {
            self.0 = None;
        }
    }
}

/// The connections of an id that has several: in the order of their login but for removals, with
/// an index from connection to position, so that each comes and goes in O(1).
#[derive(Default)]
pub(crate) struct Crowd {
    members: Vec<ConnRef>,
    positions: HashTable<u32>,
}

impl Crowd {
    pub(crate) fn members(&self) -> &[ConnRef] {
        &self.members
    }

    pub(crate) fn insert(&mut self, conn: ConnRef, keys: &Keys) {
        let Crowd { members, positions } = self;
        let hash = |conn: ConnRef| keys.hash(conn.to_bits());
        let position = members.len() as u32;
        members.push(conn);
        positions.insert_unique(hash(conn), position, |&p| hash(members[p as usize]));
    }

    pub(crate) fn remove(&mut self, conn: ConnRef, keys: &Keys) {
        let Crowd { members, positions } = self;
        let hash = |conn: ConnRef| keys.hash(conn.to_bits());
        let Ok(found) = positions.find_entry(hash(conn), |&p| members[p as usize] == conn) else {
            return;
        };
        let (position, _) = found.remove();
        let last = members.len() as u32 - 1;
        members.swap_remove(position as usize);
        if position != last {
            let entry = positions.find_mut(hash(members[position as usize]), |&p| p == last);
            *entry.expect("every member has a position") = position;
        }
    }
}
