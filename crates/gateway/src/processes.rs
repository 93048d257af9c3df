//! The processes that are logged in: in which slot each is, and under which ids.
//!
//! To the directory such a process is a connection with a slot and a generation. Its record has 32
//! bytes, in chunks that are never copied. The index from process to slot has 4 and what a hash
//! table leaves free. The monitor that tells of its end has a reference that is made of slot and
//! generation, so no second index is needed. What a process takes with its place in the directory
//! is measured by `clients/erlang/bench/load.escript`.
//!
//! Nothing here sends or looks anything up elsewhere.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use hub::{ConnRef, Id};

/// Records of a chunk.
const CHUNK: usize = Processes::CHUNK as usize;

/// Ids of one process: as many as a connection may have.
const IDS_MAX: usize = engine::limits::IDS_PER_CONNECTION_MAX;

/// What stands where there is no slot.
const NO_SLOT: u32 = u32::MAX;

/// A process of a connected node: the connection's number and what tells it from others there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Process {
    pub(super) peer: u32,
    pub(super) id: u32,
    pub(super) serial: u32,
}

/// Where a process is in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ProcessRef {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

/// One slot. Free slots form a list.
#[expect(clippy::box_collection, reason = "one word in each record, where a Vec has three")]
struct Record {
    process: Process,
    /// The generation, and [`LINKED`] where the process is linked with ours.
    state: u32,
    /// [`Id::NONE`] while the slot is free; then the next free slot stands in `process.id`.
    first: Id,
    /// Rare: processes with several ids.
    more: Option<Box<Vec<Id>>>,
}

const _: () = assert!(size_of::<Record>() == 32);

/// A bit that no generation has.
const LINKED: u32 = 1 << 31;

const _: () = assert!(ConnRef::GENERATIONS <= LINKED);

impl Record {
    fn generation(&self) -> u32 {
        self.state & !LINKED
    }
}

/// All processes that are logged in.
pub(super) struct Processes {
    chunks: Vec<Box<[Record]>>,
    free: u32,
    index: HashTable<u32>,
    keys: RandomState,
}

impl Default for Processes {
    fn default() -> Processes {
        Processes {
            chunks: Vec::new(),
            free: NO_SLOT,
            index: HashTable::new(),
            keys: RandomState::new(),
        }
    }
}

impl Processes {
    /// Slots of a chunk.
    pub(super) const CHUNK: u32 = 1024;

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// How many slots there are, used or free.
    pub(super) fn slots(&self) -> u32 {
        (self.chunks.len() * CHUNK) as u32
    }

    /// Where `process` is.
    pub(super) fn find(&self, process: Process) -> Option<ProcessRef> {
        let slot =
            *self.index.find(self.hash(process), |&slot| self.at(slot).process == process)?;
        Some(ProcessRef { slot, generation: self.at(slot).generation() })
    }

    /// A place for `process`, which has none. It has no id until [`Processes::add`]. `None` when
    /// all slots are taken.
    pub(super) fn insert(&mut self, process: Process) -> Option<ProcessRef> {
        if self.free == NO_SLOT {
            self.grow()?;
        }
        debug_assert!(process.peer != FREE.peer && self.find(process).is_none());
        let slot = self.free;
        debug_assert!(!self.is_used(slot), "somebody else's record was taken for free");
        let record = self.at_mut(slot);
        let next = std::mem::replace(&mut record.process, process).id;
        let generation = record.generation();
        self.free = next;
        let hash = self.hash(process);
        let Processes { chunks, index, keys, .. } = self;
        index.insert_unique(hash, slot, |&slot| keys.hash_one(at(chunks, slot).process));
        debug_assert!(index.len() <= chunks.len() * CHUNK);
        Some(ProcessRef { slot, generation })
    }

    /// Notes that the process at `process_ref` is logged in under `id` too. `false` when it has as
    /// many ids as it may have.
    pub(super) fn add(&mut self, process_ref: ProcessRef, id: Id) -> bool {
        let record = self.at_mut(process_ref.slot);
        debug_assert!(id != Id::NONE && record.first != id, "it is logged in under it already");
        if record.first == Id::NONE {
            debug_assert!(record.more.is_none(), "the ids of the process before it");
            record.first = id;
            return true;
        }
        let more = record.more.get_or_insert_default();
        if more.len() + 1 >= IDS_MAX {
            return false;
        }
        more.push(id);
        true
    }

    /// The ids of the process at `process_ref`.
    pub(super) fn ids(&self, process_ref: ProcessRef) -> impl Iterator<Item = Id> {
        let Record { first, more, .. } = self.at(process_ref.slot);
        let first = Some(*first).filter(|id| *id != Id::NONE);
        first.into_iter().chain(more.iter().flat_map(|more| more.iter().copied()))
    }

    /// The process at `process_ref`, if it is still there.
    pub(super) fn get(&self, process_ref: ProcessRef) -> Option<Process> {
        let record = self
            .chunks
            .get(process_ref.slot as usize / CHUNK)?
            .get(process_ref.slot as usize % CHUNK)?;
        let here = record.generation() == process_ref.generation && self.is_used(process_ref.slot);
        here.then_some(record.process)
    }

    /// Notes that the process at `process_ref` is linked with ours. `false` when it was.
    pub(super) fn link(&mut self, process_ref: ProcessRef) -> bool {
        let record = self.at_mut(process_ref.slot);
        let is_new = record.state & LINKED == 0;
        record.state |= LINKED;
        is_new
    }

    /// Whether it is.
    pub(super) fn is_linked(&self, process_ref: ProcessRef) -> bool {
        self.at(process_ref.slot).state & LINKED != 0
    }

    /// Frees the place, whose ids are logged out already: references to it meet nobody from now on.
    pub(super) fn remove(&mut self, process_ref: ProcessRef) {
        let Some(process) = self.get(process_ref) else { return };
        let hash = self.hash(process);
        let found = self.index.find_entry(hash, |&slot| slot == process_ref.slot);
        debug_assert!(found.is_ok(), "a record that is in use is found by its process");
        if let Ok(found) = found {
            found.remove();
        }
        let free = self.free;
        let record = self.at_mut(process_ref.slot);
        record.state = (record.generation() + 1) % ConnRef::GENERATIONS;
        debug_assert!(record.generation() < ConnRef::GENERATIONS);
        (record.first, record.more) = (Id::NONE, None);
        record.process = Process { id: free, ..FREE };
        self.free = process_ref.slot;
    }

    /// The processes of the connection `peer` in the slots from `from` on, of one chunk at most.
    pub(super) fn of_peer(
        &self,
        peer: u32,
        from: u32,
    ) -> impl Iterator<Item = (ProcessRef, Process)> {
        let end = (from / CHUNK as u32 + 1) * CHUNK as u32;
        let slots = from..end.min(self.slots());
        slots.filter_map(move |slot| {
            let record = self.at(slot);
            let process = record.process;
            let process_ref = ProcessRef { slot, generation: record.generation() };
            (process.peer == peer && self.is_used(slot)).then_some((process_ref, process))
        })
    }

    /// The processes of all connections in the slots from `from` on, of one chunk at most.
    pub(super) fn chunk(&self, from: u32) -> impl Iterator<Item = ProcessRef> {
        let end = (from / CHUNK as u32 + 1) * CHUNK as u32;
        let used = (from..end.min(self.slots())).filter(|&slot| self.is_used(slot));
        used.map(|slot| ProcessRef { slot, generation: self.at(slot).generation() })
    }

    fn is_used(&self, slot: u32) -> bool {
        self.at(slot).process.peer != FREE.peer
    }

    /// One chunk more.
    fn grow(&mut self) -> Option<()> {
        let start = self.slots();
        if start as usize + CHUNK > ConnRef::SLOTS_MAX {
            return None;
        }
        let end = start + CHUNK as u32;
        let record = |slot: u32| {
            let next = if slot + 1 == end { self.free } else { slot + 1 };
            let process = Process { id: next, ..FREE };
            Record { process, state: 0, first: Id::NONE, more: None }
        };
        self.chunks.push((start..end).map(record).collect());
        self.free = start;
        Some(())
    }

    fn hash(&self, process: Process) -> u64 {
        self.keys.hash_one(process)
    }

    fn at(&self, slot: u32) -> &Record {
        at(&self.chunks, slot)
    }

    fn at_mut(&mut self, slot: u32) -> &mut Record {
        &mut self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
    }
}

/// The process of a free slot. No connection has this number: 2^32 of them would have to come.
const FREE: Process = Process { peer: u32::MAX, id: NO_SLOT, serial: 0 };

fn at(chunks: &[Box<[Record]>], slot: u32) -> &Record {
    &chunks[slot as usize / CHUNK][slot as usize % CHUNK]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(peer: u32, id: u32) -> Process {
        Process { peer, id, serial: 7 }
    }

    fn id(number: u64) -> Id {
        Id::integer(number).unwrap()
    }

    #[test]
    fn place_of_one_that_is_gone_meets_nobody() {
        let mut processes = Processes::default();
        let process_ref = processes.insert(process(1, 5)).unwrap();
        assert!(processes.add(process_ref, id(1)));
        assert_eq!(processes.find(process(1, 5)), Some(process_ref));
        assert_eq!(processes.get(process_ref), Some(process(1, 5)));
        processes.remove(process_ref);
        processes.remove(process_ref);
        assert_eq!(
            (processes.find(process(1, 5)), processes.get(process_ref), processes.len()),
            (None, None, 0)
        );
        let next = processes.insert(process(2, 6)).unwrap();
        assert_eq!((next.slot, processes.get(process_ref)), (process_ref.slot, None));
        assert_eq!(processes.ids(next).count(), 0);
        let beyond = ProcessRef { slot: 1 << 24, generation: 0 };
        assert_eq!(processes.get(beyond), None, "a reference may say anything");
    }

    #[test]
    fn link_goes_with_its_process() {
        let mut processes = Processes::default();
        let process_ref = processes.insert(process(1, 5)).unwrap();
        assert!(!processes.is_linked(process_ref));
        assert!(processes.link(process_ref) && !processes.link(process_ref));
        assert!(processes.is_linked(process_ref));
        assert_eq!(processes.find(process(1, 5)), Some(process_ref), "its generation is the same");
        processes.remove(process_ref);
        let next = processes.insert(process(1, 6)).unwrap();
        assert_eq!((next.slot, next.generation), (process_ref.slot, process_ref.generation + 1));
        assert!(!processes.is_linked(next));
    }

    #[test]
    fn process_has_its_ids_and_not_too_many() {
        let mut processes = Processes::default();
        let process_ref = processes.insert(process(1, 5)).unwrap();
        for n in 0..IDS_MAX as u64 {
            assert!(processes.add(process_ref, id(n)), "{n}");
        }
        assert!(!processes.add(process_ref, id(9_999)));
        assert!(processes.ids(process_ref).eq((0..IDS_MAX as u64).map(id)));
    }

    #[test]
    fn processes_of_a_connection_are_found_chunk_by_chunk() {
        let mut processes = Processes::default();
        for n in 0..3 * CHUNK as u32 {
            processes.insert(process(n % 2, n)).unwrap();
        }
        let mut found = 0;
        for from in (0..processes.slots()).step_by(CHUNK) {
            assert!(processes.of_peer(1, from).all(|(_, process)| process.id % 2 == 1));
            found += processes.of_peer(1, from).count();
        }
        assert_eq!(found, 3 * CHUNK / 2);
        let chunks = (0..processes.slots()).step_by(CHUNK);
        let all: Vec<u32> = chunks.flat_map(|from| processes.chunk(from)).map(|r| r.slot).collect();
        assert_eq!(all, Vec::from_iter(0..3 * CHUNK as u32));
    }
}
