//! What a stream wants to hear of the time before it, where it does not go on from a place: all
//! that is remembered, or the last events about each of its ids.
//!
//! It is a resume like any other ([`crate::resume`]): the stream is held, and hears in windows what
//! was sent before, merged with what comes meanwhile. Only from where on differs by subject. What
//! was sent since the stream has begun it hears in any case, about its ids and all whom they
//! follow. Of the time before that it hears all of the same if it wants all; if it wants the last
//! events of each id, these, and nothing of whom the ids follow.
//!
//! That some were forgotten before it has begun is no gap: nobody has said what there was.
//!
//! Cost: a box while the stream is held, with 16 bytes for each id if it takes several windows.

use hub::{Above, Id};
use proto::resume::PlaceStyle;

/// What a stream wants of the time before it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Past {
    /// The last number given out before its log-in: where it has begun.
    pub(crate) begun: u64,
    pub(crate) wanted: Wanted,
    /// How it is told where it stands, once it has heard that. A head cannot say it: who comes back
    /// with the place where it began would not hear the time before.
    pub(crate) told: PlaceStyle,
}

/// Which events of before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    /// None that are not told yet but those since where it stands.
    Since,
    /// All that are remembered.
    Earliest,
    /// So many of each id, the last ones.
    Last(u32),
    /// Of each id those above its number, which was found for the first window.
    Above(Floors),
}

/// The number of each id above which its last events stand.
pub(crate) type Floors = Box<[(Id, u64)]>;

impl Past {
    /// What is wanted once all up to the number `end` is told, where `floors` were found for it.
    pub(crate) fn behind(self, end: u64, floors: Option<Floors>) -> Past {
        let wanted = match (self.wanted, floors) {
            (Wanted::Last(_) | Wanted::Above(_), _) if end >= self.begun => Wanted::Since,
            (Wanted::Last(_), Some(floors)) => Wanted::Above(floors),
            (Wanted::Earliest | Wanted::Since, _) => Wanted::Since,
            (wanted, _) => wanted,
        };
        Past { wanted, ..self }
    }

    /// Whether each id has a place of its own, and whom it follows another.
    pub(crate) fn is_of_each(&self) -> bool {
        matches!(self.wanted, Wanted::Last(_) | Wanted::Above(_))
    }

    /// Which events about `id` are wanted, one of the stream's own whose last ones stand above
    /// `floor`, when all up to the number `after` is told.
    pub(crate) fn of_own(&self, id: Id, floor: Option<u64>, after: u64) -> Above {
        match (&self.wanted, floor) {
            (Wanted::Above(floors), _) => {
                let found = floors.iter().find(|(own, _)| *own == id);
                // One that it was logged in under later has nothing of before.
                Above::from(found.map_or(self.begun, |&(_, floor)| floor).max(after))
            }
            (Wanted::Last(_), Some(floor)) => {
                let number = floor.max(after);
                Above { number, claimed: number.max(self.begun) }
            }
            _ => self.of_all(after),
        }
    }

    /// Which of all others are, and of all where the ids are not told apart.
    pub(crate) fn of_all(&self, after: u64) -> Above {
        match self.wanted {
            Wanted::Since => Above::from(after),
            Wanted::Earliest => Above { number: after, claimed: after.max(self.begun) },
            Wanted::Last(_) | Wanted::Above(_) => Above::from(after.max(self.begun)),
        }
    }

    /// The bytes that it keeps.
    pub(crate) fn bytes(&self) -> usize {
        let floors = match &self.wanted {
            Wanted::Above(floors) => size_of_val::<[(Id, u64)]>(floors),
            Wanted::Since | Wanted::Earliest | Wanted::Last(_) => 0,
        };
        size_of::<Past>() + floors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> Id {
        Id::integer(number).unwrap()
    }

    #[test]
    fn last_of_each_id_begin_at_its_own_number_and_all_else_where_the_stream_has_begun() {
        let past = |wanted| Past { begun: 100, wanted, told: PlaceStyle::InHead };
        let last = past(Wanted::Last(5));
        let own = Above { number: 40, claimed: 100 };
        assert_eq!((last.of_own(id(1), Some(40), 0), last.of_all(0)), (own, Above::from(100)));
        let floors = || Some(Floors::from([(id(1), 40), (id(2), 70)]));
        let then = last.behind(50, floors());
        assert_eq!(then.of_own(id(1), None, 50), Above::from(50));
        assert_eq!(then.of_own(id(2), None, 50), Above::from(70));
        assert_eq!(then.of_own(id(3), None, 50), Above::from(100), "it came later");
        assert_eq!(then.of_all(50), Above::from(100));
        assert_eq!(then.behind(100, None).wanted, Wanted::Since);
        assert_eq!(past(Wanted::Last(5)).behind(100, floors()).wanted, Wanted::Since);
        let earliest = past(Wanted::Earliest);
        assert_eq!(earliest.of_all(0), Above { number: 0, claimed: 100 });
        assert_eq!(earliest.behind(50, None).of_all(50), Above::from(50));
    }
}
