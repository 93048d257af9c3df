//! What connections watch, against maps, with questions that end in any order.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::sim::random::Random;

const SLOTS: u32 = 40;
const ROOMS: usize = 6;

fn id(number: u64) -> Id {
    Id::integer(number).unwrap()
}

/// What is so by simpler means.
#[derive(Default)]
struct Model {
    /// By slot and room: whether its list was asked for.
    watched: BTreeMap<(u32, Id), bool>,
    waits: BTreeSet<(u32, Id)>,
    /// Questions that nobody has looked at yet, by slot.
    tickets: Vec<(u32, Arc<()>)>,
}

impl Model {
    fn check(&self, watching: &Watching) {
        for slot in 0..SLOTS {
            let of: BTreeSet<Id> = watching.of(slot).collect();
            let rooms = || self.watched.iter().filter(move |((watcher, _), _)| *watcher == slot);
            assert!(of.iter().eq(rooms().map(|((_, room), _)| room)));
            assert_eq!(watching.listed(slot), rooms().filter(|(_, is_listed)| **is_listed).count());
            let waits = self.waits.iter().filter(|(waiter, _)| *waiter == slot).count();
            let asked = of.iter().filter(|room| watching.asked(slot, **room).is_some()).count();
            assert_eq!(asked, waits);
            let unanswered = self.tickets.iter().filter(|(asker, _)| *asker == slot).count();
            let is_much = unanswered.saturating_sub(waits) >= WATCHES_STALE_MAX;
            assert_eq!(watching.asks_too_often(slot), is_much);
        }
    }
}

#[test]
fn what_is_watched_is_what_a_map_says_and_nothing_is_left_of_it() {
    let mut random = Random::of_test();
    let (mut watching, mut model) = (Watching::default(), Model::default());
    for step in 0..20_000 {
        let (slot, room) =
            (random.below(SLOTS as usize) as u32, id(1 + random.below(ROOMS) as u64));
        let pair = (slot, room);
        match random.below(8) {
            0 | 1 if !watching.has(slot, room) => {
                let is_listed = random.one_in(2);
                watching.put(slot, room, is_listed);
                model.watched.insert(pair, is_listed);
            }
            2 | 3 if watching.has(slot, room) && watching.asked(slot, room).is_none() => {
                let (client, ticket) = watching.ask(slot, room);
                assert!(client.upgrade().is_some());
                model.tickets.push((slot, ticket));
                model.waits.insert(pair);
            }
            4 => {
                watching.answered(slot, room);
                model.waits.remove(&pair);
            }
            5 => {
                assert_eq!(watching.take(slot, room), model.watched.remove(&pair).is_some());
                model.waits.remove(&pair);
            }
            6 if !model.tickets.is_empty() => {
                model.tickets.swap_remove(random.below(model.tickets.len()));
            }
            7 if random.one_in(16) => {
                let rooms: BTreeSet<Id> = watching.take_all(slot).into_iter().collect();
                let watched = model.watched.extract_if(.., |(of, _), _| *of == slot);
                assert_eq!(rooms, watched.map(|((_, room), _)| room).collect());
                model.waits.retain(|(of, _)| *of != slot);
                // They count for none that gets the slot.
                model.tickets.retain(|(of, _)| *of != slot);
            }
            7 => {
                let waits: BTreeSet<Id> = watching.take_waits(slot).into_iter().collect();
                assert!(waits.iter().all(|&room| model.waits.remove(&(slot, room))));
                assert!(!model.waits.iter().any(|(of, _)| *of == slot));
            }
            _ => {}
        }
        if step % 50 == 0 {
            model.check(&watching);
        }
    }
    model.check(&watching);
    drop(model);
    (0..SLOTS).for_each(|slot| drop(watching.take_all(slot)));
    assert!(watching.is_empty());
}

#[test]
fn questions_that_end_unasked_for_leave_nothing_for_good() {
    let mut watching = Watching::default();
    let room = id(1);
    for slot in 0..10_000 {
        watching.put(slot, room, true);
        let (_, ticket) = watching.ask(slot, room);
        // It stops waiting before its question is looked at, and nobody tells of the end of that.
        assert!(watching.take(slot, room));
        drop(ticket);
        assert!(watching.asking.len() <= 2 * ASKING_FEW);
    }
}

#[test]
fn who_has_its_list_has_nothing_more_than_its_entry() {
    let mut watching = Watching::default();
    let room = id(1);
    for slot in 0..5_000 {
        watching.put(slot, room, true);
        // What it waits by, and its question, are over with the answer.
        drop(watching.ask(slot, room));
        watching.answered(slot, room);
    }
    assert_eq!(watching.asking.len(), 0);
    assert_eq!((0..5_000).filter(|&slot| watching.has(slot, room)).count(), 5_000);
}
