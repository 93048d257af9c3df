//! What connections watch and where they have seats, against maps, with questions that end in any
//! order.

use std::collections::{BTreeMap, BTreeSet};

use hub::{IdText, Names};

use super::*;
use crate::shard::tables::seats::Seat;
use crate::sim::random::Random;

const SLOTS: u32 = 40;
/// Of these the second half is channels.
const ROOMS: usize = 6;

fn id(number: u64) -> Id {
    Id::integer(number).unwrap()
}

fn channel(names: &Names, number: usize) -> Id {
    names.acquire(IdText::of_key(&format!("#c1:presence-{number}")).unwrap())
}

/// What is so by simpler means.
#[derive(Default)]
struct Model {
    /// By slot and room: whether its list was asked for.
    watched: BTreeMap<(u32, Id), bool>,
    waits: BTreeSet<(u32, Id)>,
    seats: BTreeMap<(u32, Id), Seat>,
    hasty: BTreeSet<u32>,
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
            let seats: BTreeMap<_, _> =
                watching.seats.of(slot).map(|seat| ((slot, seat.room), seat)).collect();
            let sits = self.seats.iter().filter(|((sitter, _), _)| *sitter == slot);
            assert!(sits.eq(&seats), "slot {slot}");
            assert_eq!(watching.seats.is_hasty(slot), self.hasty.contains(&slot));
            let waits = self.waits.iter().filter(|(waiter, _)| *waiter == slot).count();
            let asked = of.iter().filter(|room| watching.asked(slot, **room).is_some()).count();
            assert_eq!(asked, waits);
            let unanswered = self.tickets.iter().filter(|(asker, _)| *asker == slot).count();
            let is_much = unanswered.saturating_sub(waits) >= WATCHES_STALE_MAX;
            assert_eq!(watching.asks_too_often(slot), is_much);
        }
    }
}

/// One step of a connection that watches, and asks.
fn watch_step(
    watching: &mut Watching,
    model: &mut Model,
    (slot, room): (u32, Id),
    by: &mut Random,
) {
    let pair = (slot, room);
    match by.below(8) {
        0 | 1 if !watching.has(slot, room) => {
            let is_listed = by.one_in(2);
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
            model.tickets.swap_remove(by.below(model.tickets.len()));
        }
        7 if by.one_in(16) => {
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
}

/// One step of a connection that takes a seat in a channel, and leaves it.
fn seat_step(seats: &mut Seats, model: &mut Model, (slot, room): (u32, Id), by: &mut Random) {
    let pair = (slot, room);
    match by.below(8) {
        0..4 if seats.find(slot, room).is_none() => {
            let seat = Seat { room, sub: id(by.below(1_000) as u64), is_unseen: by.one_in(2) };
            seats.put(slot, seat);
            model.seats.insert(pair, seat);
        }
        4 => {
            seats.let_in(slot, room);
            model.seats.entry(pair).and_modify(|seat| seat.is_unseen = false);
        }
        5 | 6 => {
            let taken = model.seats.remove(&pair);
            assert_eq!(seats.take(slot, room), taken);
            model.hasty.extend(taken.filter(|seat| seat.is_unseen).map(|_| slot));
        }
        7 if by.one_in(16) => {
            let taken = seats.take_all(slot).into_iter().map(|seat| ((slot, seat.room), seat));
            let left = model.seats.extract_if(.., |(of, _), _| *of == slot);
            assert_eq!(taken.collect::<BTreeMap<_, _>>(), left.collect());
            model.hasty.remove(&slot);
        }
        _ => {}
    }
}

#[test]
fn what_is_watched_is_what_a_map_says_and_nothing_is_left_of_it() {
    let mut random = Random::of_test();
    let names = Names::new([7; 16]);
    let channels: Vec<Id> = (0..ROOMS / 2).map(|number| channel(&names, number)).collect();
    let (mut watching, mut model) = (Watching::default(), Model::default());
    for step in 0..40_000 {
        let (slot, number) = (random.below(SLOTS as usize) as u32, random.below(ROOMS));
        let room = number.checked_sub(ROOMS / 2).map(|at| channels[at]);
        match room {
            Some(room) if random.one_in(2) => {
                seat_step(&mut watching.seats, &mut model, (slot, room), &mut random);
            }
            _ => {
                let pair = (slot, room.unwrap_or_else(|| id(1 + number as u64)));
                watch_step(&mut watching, &mut model, pair, &mut random);
            }
        }
        if step % 50 == 0 {
            model.check(&watching);
        }
    }
    model.check(&watching);
    drop(model);
    (0..SLOTS).for_each(|slot| drop((watching.take_all(slot), watching.seats.take_all(slot))));
    assert!(watching.is_empty());
    assert_eq!(watching.allocations().sum::<usize>(), 0);
}

/// As a connection takes a seat, and as it ends: the seat is there before it watches, and goes
/// before that.
#[test]
fn seat_and_that_its_channel_is_watched_come_and_go_apart() {
    let names = Names::new([7; 16]);
    let (room, mut watching) = (channel(&names, 1), Watching::default());
    let seat = Seat { room, sub: id(7), is_unseen: true };
    watching.seats.put(3, seat);
    assert!(!watching.has(3, room) && watching.of(3).next().is_none());
    assert_eq!((watching.listed(3), watching.take(3, room)), (0, false));
    watching.put(3, room, true);
    assert_eq!((watching.listed(3), watching.seats.find(3, room)), (1, Some(seat)));
    assert_eq!(watching.seats.take_all(3)[..], [seat]);
    assert!(watching.has(3, room) && watching.seats.find(3, room).is_none());
    assert_eq!(watching.take_all(3)[..], [room]);
    assert!(watching.is_empty());
    // And the other way round, as one that cannot be told the list.
    watching.put(3, room, false);
    watching.seats.put(3, seat);
    assert!(watching.take(3, room) && watching.listed(3) == 0);
    assert_eq!(watching.seats.take(3, room), Some(seat));
    assert!(watching.is_empty());
}

/// What glibc takes for an allocation: a length before it, in steps of 16 bytes, 32 at least.
fn rounded(bytes: usize) -> usize {
    (bytes + 8).next_multiple_of(16).max(32)
}

#[test]
fn member_that_watches_its_channel_takes_one_entry_at_any_number_of_them() {
    let names = Names::new([7; 16]);
    let (key, numbered) = (channel(&names, 1), id(1));
    for count in [6_200, 6_900, 8_000, 14_400, 32_000, 100_000] {
        let (mut members, mut watchers) = (Watching::default(), Watching::default());
        for slot in 0..count {
            members.seats.put(slot, Seat { room: key, sub: id(slot.into()), is_unseen: false });
            members.put(slot, key, true);
            watchers.put(slot, numbered, true);
        }
        let each = |watching: &Watching| {
            watching.allocations().map(rounded).sum::<usize>() as f64 / f64::from(count)
        };
        let (member, watcher) = (each(&members), each(&watchers));
        assert!(member < 24.0, "{member} bytes for each of {count} members");
        assert!(watcher < 16.0, "{watcher} bytes for each of {count} who watch an id");
    }
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
