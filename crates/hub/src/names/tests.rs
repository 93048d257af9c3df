//! Names that come, stay and go, and what they are counted for.

use super::*;

fn name(text: &str) -> IdText<'_> {
    IdText::parse(text).unwrap()
}

#[test]
fn name_online_twice_keeps_one_id_until_the_second_release() {
    let names = Names::new([7; 16]);
    let id = names.acquire(name("alice"));
    assert_eq!(names.acquire(name("alice")), id);
    names.release(id);
    assert_eq!(names.lookup(name("alice")), Some(id));
    assert_eq!(names.text(id).as_deref(), Some("alice"));
    names.release(id);
    assert_eq!(names.lookup(name("alice")), None);
    assert_eq!(names.len(), 0);
    assert_ne!(names.acquire(name("alice")), id, "an id is not given out again");
}

#[test]
fn pinned_name_outlives_its_connections() {
    let names = Names::new([7; 16]);
    let id = names.acquire(name("bob"));
    assert_eq!(names.pin(name("bob")), id);
    names.release(id);
    assert_eq!(names.lookup(name("bob")), Some(id));
    names.unpin(id);
    assert!(names.is_empty());
}

#[test]
fn restored_names_keep_their_ids_and_new_ones_get_others() {
    let stored = Names::new([3; 16]);
    let pairs: Vec<(Id, String)> =
        (0..1000).map(|n| format!("user-{n}")).map(|s| (stored.pin(name(&s)), s)).collect();
    let names = Names::new(stored.key());
    for (id, text) in &pairs {
        names.restore(*id, text);
    }
    for (id, text) in &pairs {
        assert_eq!(names.lookup(name(text)), Some(*id));
        assert_eq!(names.text(*id).as_ref(), Some(text));
    }
    let fresh = names.acquire(name("newcomer"));
    assert!(pairs.iter().all(|(id, _)| *id != fresh));
}

/// The one name in 2^31 whose hash bits are all ones, when the counter comes to its end.
#[test]
fn no_name_gets_the_id_that_means_none() {
    let names = Names::new([1; 16]);
    names.counter.store(u32::MAX, Ordering::Relaxed);
    assert_eq!(Id::name(u32::MAX, u32::MAX, true), Id::NONE);
    let fresh = names.fresh_id(&NamesStripe::default(), u32::MAX >> 1, true);
    assert_eq!(fresh, Id::name(u32::MAX, 0, true));
}

#[test]
fn integers_never_enter_the_table() {
    let names = Names::new([1; 16]);
    let id = names.acquire(name("123"));
    assert_eq!(id.as_integer(), Some(123));
    names.release(id);
    assert_eq!(names.lookup(name("456")), Id::integer(456));
    assert!(names.is_empty());
}

fn table_bytes(names: &Names) -> usize {
    names.allocations().into_iter().sum()
}

/// 1,500 connections with 2,040 long names each, as an attacker would: refused at the maximum, and
/// all comes back when they leave.
#[test]
fn names_of_all_connections_are_bounded_and_freed() {
    let names = Names::new([5; 16]);
    names.set_bytes_max(20 << 20);
    let neighbour = names.login(name("neighbour"), true).unwrap();
    let bytes = names.bytes();
    let (mut online, mut refused) = (Vec::new(), 0);
    for connection in 0..1500 {
        for n in 0..2040 {
            let text = format!("{connection}-{n}-{}", "x".repeat(180));
            match names.login(name(&text), n == 0) {
                Ok(id) => online.push(id),
                Err(full) => {
                    assert_eq!(full.bytes_max, 20 << 20);
                    refused += 1;
                    // The rest of a client that is refused would only take time.
                    break;
                }
            }
        }
    }
    assert!(refused > 1400 && online.len() > 50_000, "{refused} of {}", online.len());
    let firsts = 1500 * (bytes_of(&"x".repeat(200)) + LOGIN_BYTES);
    assert!(names.bytes() <= (20 << 20) + firsts, "{}", names.bytes());
    assert!(table_bytes(&names) < names.bytes(), "what is counted is what there is");
    online.into_iter().for_each(|id| names.logout(id));
    assert_eq!(names.bytes(), bytes);
    assert!(table_bytes(&names) < 600, "one small table: {}", table_bytes(&names));
    names.logout(names.login(name("again"), false).unwrap());
    names.logout(neighbour);
    assert_eq!((names.bytes(), table_bytes(&names)), (0, 0));
}

#[test]
fn integers_count_for_their_logins_and_the_first_of_a_connection_is_never_refused() {
    let names = Names::new([5; 16]);
    names.set_bytes_max(10 * LOGIN_BYTES);
    let ids: Vec<Id> = (0..10).map(|_| names.login(name("7"), false).unwrap()).collect();
    assert_eq!(names.login(name("7"), false), Err(IdsFull { bytes_max: 10 * LOGIN_BYTES }));
    let first = names.login(name("8"), true).unwrap();
    assert_eq!(names.bytes(), 11 * LOGIN_BYTES);
    ids.into_iter().chain([first]).for_each(|id| names.logout(id));
    assert_eq!(names.bytes(), 0);
}

#[test]
fn name_that_the_store_keeps_is_no_clients() {
    let names = Names::new([5; 16]);
    let id = names.login(name("bob"), true).unwrap();
    let online = bytes_of("bob") + LOGIN_BYTES;
    assert_eq!(names.bytes(), online);
    names.pin(name("bob"));
    assert_eq!(names.bytes(), LOGIN_BYTES);
    names.unpin(id);
    assert_eq!(names.bytes(), online);
    names.pin(name("bob"));
    names.logout(id);
    assert_eq!(names.bytes(), 0);
    names.unpin(id);
    assert_eq!((names.bytes(), names.len()), (0, 0));
}

#[test]
fn name_that_another_process_stored_is_adopted_unless_it_or_its_id_is_taken() {
    let (ours, theirs) = (Names::new([6; 16]), Names::new([6; 16]));
    let bob = theirs.pin(name("bob"));
    assert!(ours.adopt(bob, "bob") && ours.adopt(bob, "bob"));
    assert_eq!((ours.pinned(), ours.bytes()), (vec![bob], 0));
    // Online here under an id of ours, stored there under another one.
    let alice = ours.login(name("alice"), true).unwrap();
    let (bytes, stored) = (ours.bytes(), Id::name(alice.name_hash(), 77, false));
    assert!(!ours.adopt(stored, "alice"));
    assert_eq!((ours.lookup(name("alice")), ours.bytes()), (Some(alice), bytes));
    assert!(!ours.adopt(alice, "another with the same hash"));
    assert!(ours.adopt(alice, "alice") && ours.bytes() < bytes);
    assert_eq!(ours.pinned().len(), 2);
    let fresh = ours.acquire(name("carol"));
    assert!(fresh.to_bits() as u32 > 77, "ids of others are not given out again");
}

#[test]
fn keys_are_found_by_what_they_begin_with() {
    let names = Names::new([6; 16]);
    for text in ["#c1:presence-a", "#c1:presence-b", "#c1:news", "#c2:presence-a", "presence-a"] {
        names.acquire(IdText::of_key(text).unwrap());
    }
    let found = (0..Names::PARTS).flat_map(|part| names.keys_in(part, "#c1:presence-"));
    let mut found: Vec<String> = found.map(|(_, text)| text).collect();
    found.sort_unstable();
    assert_eq!(found, ["#c1:presence-a", "#c1:presence-b"]);
}

/// Names of all lengths come and go, also those of which a long one must be told where it ends.
#[test]
fn each_name_is_found_by_its_text_and_its_id_whatever_others_come_and_go() {
    let mut random = fastrand::Rng::with_seed(testing::seed());
    let names = Names::new([9; 16]);
    let mut known: Vec<(Id, String)> = Vec::new();
    for step in 0..20_000 {
        if known.len() < 3_000 && random.u32(..10) < if step < 12_000 { 7 } else { 3 } {
            let filler = ["x", "ä", "日"][random.usize(..3)];
            let text = format!("{step}-{}", filler.repeat(random.usize(..80)));
            known.push((names.acquire(name(&text)), text));
        } else if !known.is_empty() {
            let (id, text) = known.swap_remove(random.usize(..known.len()));
            names.release(id);
            assert_eq!((names.lookup(name(&text)), names.text(id)), (None, None));
        }
        if step % 2_000 == 0 {
            for (id, text) in &known {
                assert_eq!(names.lookup(name(text)), Some(*id));
                assert_eq!(names.text(*id).as_ref(), Some(text));
            }
            assert_eq!(names.len(), known.len());
            let counted: usize = known.iter().map(|(_, text)| bytes_of(text)).sum();
            assert_eq!(names.bytes(), counted);
        }
    }
    known.into_iter().for_each(|(id, _)| names.release(id));
    assert_eq!((names.len(), names.bytes(), table_bytes(&names)), (0, 0, 0));
}

#[test]
fn name_leaves_little_room_free_beside_its_text() {
    const NAMES: usize = 200_000;
    let names = Names::new([9; 16]);
    let mut online = Vec::new();
    for n in 0..NAMES {
        online.push(names.acquire(name(&format!("user:{n:05}"))));
    }
    let each = table_bytes(&names) as f64 / NAMES as f64;
    assert!(each < 33.0, "{each} bytes for a name of 10 or 11");
    // Half of them go: half of it is given back, but for what the rest may need.
    for id in online.drain(..NAMES / 2) {
        names.release(id);
    }
    let each = table_bytes(&names) as f64 / (NAMES / 2) as f64;
    assert!(each < 50.0, "{each} bytes for a name, half of them gone");
}
