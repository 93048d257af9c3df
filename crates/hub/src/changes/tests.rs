//! What the directory notes, against a naive model and past its bound.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::conn_ref::ConnRef;
use crate::directory::Directory;
use crate::id::IdText;

fn heard() -> (Arc<Names>, Directory) {
    let names = Arc::new(Names::new([7; 16]));
    let directory = Directory::noting(Changes::new(Arc::clone(&names)));
    directory.changes().unwrap().hear(true);
    (names, directory)
}

fn taken(changes: &Changes) -> Vec<Change> {
    let mut taken = Vec::new();
    (0..Changes::LISTS).for_each(|list| changes.take(list, &mut taken));
    taken
}

/// What happened to each id, in its order.
fn by_id(changes: &[Change]) -> BTreeMap<Id, Vec<bool>> {
    let mut by_id: BTreeMap<Id, Vec<bool>> = BTreeMap::new();
    changes.iter().for_each(|change| by_id.entry(change.id).or_default().push(change.is_online));
    by_id
}

#[test]
fn first_connection_and_last_one_are_noted_as_a_naive_model_has_them() {
    let seed = testing::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let (names, directory) = heard();
    let changes = directory.changes().unwrap();
    let texts: Vec<String> =
        (0..20).map(|n| if n % 2 == 0 { n.to_string() } else { format!("name:{n}") }).collect();
    let mut there: BTreeMap<usize, BTreeSet<(ConnRef, Id)>> = BTreeMap::new();
    let mut expected: BTreeMap<Id, Vec<bool>> = BTreeMap::new();
    for _ in 0..200 {
        for _ in 0..100 {
            let (which, conn) =
                (random.usize(..texts.len()), ConnRef::new(0, random.usize(..3), 1));
            let here = there.entry(which).or_default();
            match here.iter().find(|(known, _)| *known == conn).copied() {
                Some(pair) => {
                    here.remove(&pair);
                    if here.is_empty() {
                        expected.entry(pair.1).or_default().push(false);
                    }
                    directory.logout(pair.1, conn);
                    names.logout(pair.1);
                }
                None => {
                    let text = IdText::parse(&texts[which]).unwrap();
                    let id = names.login(text, true).unwrap();
                    if here.is_empty() {
                        expected.entry(id).or_default().push(true);
                    }
                    here.insert((conn, id));
                    directory.login(id, conn);
                }
            }
        }
        let noted = taken(changes);
        assert_eq!(by_id(&noted), std::mem::take(&mut expected), "ENCKE_SEED={seed}");
        for change in noted {
            assert!(names.text(change.id).is_some(), "the name of one who has gone is kept");
            names.release(change.id);
        }
    }
    for (conn, id) in there.into_values().flatten() {
        directory.logout(id, conn);
        names.logout(id);
    }
    taken(changes).iter().for_each(|change| names.release(change.id));
    assert_eq!((names.len(), names.bytes(), changes.take_lost()), (0, 0, 0));
}

#[test]
fn changes_past_the_bound_are_counted_and_nothing_grows() {
    let (names, directory) = heard();
    let changes = directory.changes().unwrap();
    let ids = 2 * (LISTS * LIST_MAX) as u64;
    for n in 0..ids {
        directory.login(Id::integer(n).unwrap(), ConnRef::new(0, n as usize, 0));
    }
    let noted = taken(changes);
    assert!(noted.len() <= LISTS * LIST_MAX, "{}", noted.len());
    assert_eq!(noted.len() as u64 + changes.take_lost(), ids);
    assert_eq!((changes.take_lost(), taken(changes).len()), (0, 0));
    assert!(names.is_empty());
}

#[test]
fn key_that_comes_and_goes_is_counted_and_not_noted() {
    let (names, directory) = heard();
    let changes = directory.changes().unwrap();
    for _ in 0..LIST_MAX {
        let key = names.login(IdText::of_key("#c1:news").unwrap(), true).unwrap();
        directory.login(key, ConnRef::new(0, 1, 1));
        assert_eq!((directory.keys_online(), directory.ids_online()), (1, 0));
        directory.logout(key, ConnRef::new(0, 1, 1));
        names.logout(key);
    }
    assert_eq!((taken(changes), changes.take_lost()), (Vec::new(), 0));
    assert_eq!(directory.keys_online(), 0);
    assert!(names.is_empty(), "no note keeps it");
}

#[test]
fn nothing_is_noted_while_nobody_listens_and_names_are_let_go() {
    let (names, directory) = heard();
    let changes = directory.changes().unwrap();
    let bob = names.login(IdText::parse("bob").unwrap(), true).unwrap();
    directory.login(bob, ConnRef::new(0, 1, 1));
    changes.hear(false);
    directory.logout(bob, ConnRef::new(0, 1, 1));
    names.logout(bob);
    assert_eq!((taken(changes), changes.take_lost()), (Vec::new(), 0));
    assert!(names.is_empty(), "no note keeps it");
}

#[test]
fn login_that_is_refused_is_no_change_of_an_id_that_is_there() {
    let (_, directory) = heard();
    let changes = directory.changes().unwrap();
    let (id, conn) = (Id::integer(1).unwrap(), |slot| ConnRef::new(0, slot, 1));
    assert!(directory.login_within(id, conn(1), 1) && !directory.login_within(id, conn(2), 1));
    directory.logout(id, conn(2));
    assert_eq!(taken(changes), [Change { id, is_online: true }]);
}
