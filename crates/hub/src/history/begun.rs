//! Sends that have begun and are not posted yet, and who asks for what they may bring.

use smallvec::SmallVec;

use crate::id::Id;

/// The mark of a send that has begun. It must be recorded or abandoned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Begun {
    pub(super) ticket: u64,
    pub(super) subjects: SmallVec<[Id; 1]>,
}

/// A send that has begun, and whether somebody waits for it.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) begun: Begun,
    pub(super) wait: Wait,
}

/// What a send that has begun does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wait {
    /// It goes on: who looks up what was missed waits for it.
    No,
    /// It waits for room, perhaps for long: nobody waits for it.
    ForRoom,
    /// It waits for room, and somebody has looked up what was missed meanwhile, whom its audience
    /// may lack.
    Overtaken,
}

impl Begun {
    /// The subjects of the event.
    pub fn subjects(&self) -> &[Id] {
        &self.subjects
    }
}

/// The subjects that somebody asks for, to be looked for in many sends.
pub(super) enum Asked<'s> {
    Few(&'s [Id]),
    /// In order.
    Many(Vec<Id>),
}

impl Asked<'_> {
    /// So few are looked at one after the other.
    const FEW: usize = 16;

    /// Where nothing is looked for there is no need of an order.
    pub(super) fn new(subjects: &[Id], is_needed: bool) -> Asked<'_> {
        if subjects.len() <= Asked::FEW || !is_needed {
            return Asked::Few(subjects);
        }
        let mut many = subjects.to_vec();
        many.sort_unstable();
        Asked::Many(many)
    }

    pub(super) fn has(&self, id: Id) -> bool {
        match self {
            Asked::Few(few) => few.contains(&id),
            Asked::Many(many) => many.binary_search(&id).is_ok(),
        }
    }
}
