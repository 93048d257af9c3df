//! `keys.json` when it is made, changed, damaged, and joined with that of another node.

use std::os::unix::fs::PermissionsExt;

use super::*;

const READ: NewKey = NewKey { scopes: Vec::new(), about: Vec::new(), expires: None };

fn wish() -> NewKey {
    NewKey { scopes: vec![Scope::Read], ..READ }
}

#[test]
fn what_was_made_is_read_and_nothing_of_the_secret_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let file = KeyFile::in_dir(&dir.path().join("data"));
    assert!(file.read().unwrap().is_none());
    let (first, text) = file.make(&wish(), 100).unwrap();
    let (second, _) = file.make(&wish(), 101).unwrap();
    assert_eq!(file.read().unwrap().unwrap(), [first.clone(), second.clone()]);
    let revoked = file.revoke(&first.id, 102).unwrap();
    assert_eq!(file.revoke(&text, 200).unwrap().revoked, Some(102), "the first time counts");
    assert_eq!(file.read().unwrap().unwrap(), [revoked, second]);
    assert!(matches!(file.revoke("nobody", 1), Err(KeyFileError::Unknown)));
    let secret = text.splitn(3, '_').nth(2).unwrap();
    for entry in fs::read_dir(dir.path().join("data")).unwrap() {
        let path = entry.unwrap().path();
        assert!(!fs::read_to_string(&path).unwrap().contains(secret), "{path:?}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let audit = fs::read_to_string(dir.path().join("data").join(AUDIT_NAME)).unwrap();
    let changes: Vec<_> = audit.lines().map(|line| line.contains("\"revoked\"")).collect();
    assert_eq!(changes, [false, false, true], "{audit}");
}

#[test]
fn damage_of_any_byte_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let file = KeyFile::in_dir(dir.path());
    file.make(&wish(), 100).unwrap();
    let good = fs::read(file.path()).unwrap();
    let before = file.read().unwrap();
    for at in 0..good.len() {
        for wrong in [good[at] ^ 1, good[at] ^ 0x80] {
            let mut bytes = good.clone();
            bytes[at] = wrong;
            fs::write(file.path(), &bytes).unwrap();
            let read = file.read();
            // White space is as good as another.
            assert!(read.is_err() || read.unwrap() == before, "byte {at} is {wrong}");
        }
        fs::write(file.path(), &good[..at]).unwrap();
        assert!(file.read().is_err() || at == good.len() - 1, "cut at {at}");
    }
    file.file.replace(&[0; 0]).unwrap();
    assert!(file.read().is_err(), "no keys are no keys file");
    assert!(file.make(&wish(), 100).is_err(), "what is damaged is left for its owner to see");
}

#[test]
fn keys_that_could_do_nothing_are_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let file = KeyFile::in_dir(dir.path());
    let about = vec!["a*".parse().unwrap()];
    for wrong in [
        READ,
        NewKey { about: about.clone(), ..wish() },
        NewKey { about: [about.as_slice(); 17].concat(), scopes: vec![Scope::Send], ..READ },
        NewKey { expires: Some(100), ..wish() },
    ] {
        assert!(matches!(file.make(&wrong, 100), Err(KeyFileError::Wish(_))), "{wrong:?}");
    }
    assert!(file.read().unwrap().is_none());
}

#[test]
fn keys_of_two_nodes_are_joined_and_what_one_has_revoked_is_revoked() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [one, other] = dirs.each_ref().map(|dir| KeyFile::in_dir(&dir.path().join("data")));
    assert_eq!(one.join(&[], 1).unwrap(), (Vec::new(), 0));
    assert!(one.read().unwrap().is_none(), "nobody needs a key because nobody has one");
    let (a, _) = one.make(&wish(), 100).unwrap();
    assert_eq!(other.join(std::slice::from_ref(&a), 101).unwrap(), (vec![a.clone()], 1));
    let (b, _) = other.make(&wish(), 102).unwrap();
    let revoked = one.revoke(&a.id, 103).unwrap();
    let all = other.join(std::slice::from_ref(&revoked), 104).unwrap();
    assert_eq!(all, (vec![revoked.clone(), b.clone()], 1));
    // What another one does not know yet changes nothing here.
    assert_eq!(one.join(&[a, b.clone()], 105).unwrap(), (vec![revoked, b], 1));
    let stamp = fs::metadata(one.path()).unwrap().ino();
    assert_eq!(one.join(&all.0, 106).unwrap().1, 0);
    assert_eq!(fs::metadata(one.path()).unwrap().ino(), stamp, "nothing is written");
    let audit = fs::read_to_string(dirs[1].path().join("data").join(AUDIT_NAME)).unwrap();
    assert!(audit.contains("came from another node") && audit.contains("revoked at another"));
}

#[test]
fn key_that_was_revoked_at_both_nodes_comes_to_one_time() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [one, other] = dirs.each_ref().map(|dir| KeyFile::in_dir(dir.path()));
    let (key, _) = one.make(&wish(), 100).unwrap();
    other.join(std::slice::from_ref(&key), 101).unwrap();
    let (early, late) = (one.revoke(&key.id, 102).unwrap(), other.revoke(&key.id, 103).unwrap());
    assert_eq!(one.join(&[late], 104).unwrap(), (vec![early.clone()], 0));
    assert_eq!(other.join(std::slice::from_ref(&early), 104).unwrap(), (vec![early], 1));
}

#[test]
fn keys_of_others_that_have_no_room_change_nothing_and_fill_no_audit() {
    let dir = tempfile::tempdir().unwrap();
    let file = KeyFile::in_dir(dir.path());
    let (own, _) = file.make(&wish(), 100).unwrap();
    let made = |id| KeyRecord::make(id, [0; 32], vec![Scope::Read], vec![], 1, None).0;
    let others: Vec<KeyRecord> = (0..KEYS_MAX).map(|n| made(format!("{n:012x}"))).collect();
    let before = fs::read(dir.path().join(AUDIT_NAME)).unwrap();
    assert!(matches!(file.join(&others, 101), Err(KeyFileError::Wish(_))));
    assert_eq!(fs::read(dir.path().join(AUDIT_NAME)).unwrap(), before);
    assert_eq!(file.read().unwrap().unwrap(), [own]);
}

/// Keys of nobody, as many as a file holds.
fn full(file: &KeyFile) -> Vec<KeyRecord> {
    let all: Vec<KeyRecord> = (0..KEYS_MAX).map(made).collect();
    file.file.replace(&all).unwrap();
    all
}

fn made(n: usize) -> KeyRecord {
    KeyRecord::make(format!("{n:012x}"), [0; 32], vec![Scope::Read], vec![], 1, None).0
}

#[test]
fn key_that_is_revoked_elsewhere_is_so_here_though_new_ones_have_no_room() {
    let dir = tempfile::tempdir().unwrap();
    let file = KeyFile::in_dir(dir.path());
    let mut revoked = full(&file).swap_remove(5);
    revoked.revoked = Some(100);
    let others = [revoked.clone(), made(KEYS_MAX)];
    assert!(matches!(file.join(&others, 101), Err(KeyFileError::Wish(_))));
    assert_eq!(file.read().unwrap().unwrap()[5], revoked);
    // When all have heard of it, it gives up its place.
    let (keys, changes) = file.join(&others, 100 + TOLD).unwrap();
    assert_eq!((keys.len(), changes), (KEYS_MAX, 1));
    assert!(keys.contains(&others[1]) && !keys.contains(&revoked));
}

#[test]
fn key_that_was_just_revoked_makes_no_room_for_a_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let file = KeyFile::in_dir(dir.path());
    let revoked = file.revoke(&full(&file)[5].id, 100).unwrap();
    assert!(matches!(file.make(&wish(), 99 + TOLD), Err(KeyFileError::Wish(_))));
    assert_eq!(file.read().unwrap().unwrap()[5], revoked);
    file.make(&wish(), 100 + TOLD).unwrap();
    let keys = file.read().unwrap().unwrap();
    assert!(keys.len() == KEYS_MAX && !keys.contains(&revoked));
}

#[test]
fn useless_keys_make_room_and_usable_ones_do_not() {
    let key = |expires, revoked| {
        let mut key = KeyRecord::make("a".into(), [0; 32], vec![], vec![], 0, expires).0;
        key.revoked = revoked;
        key
    };
    let now = TOLD + 10;
    let mut keys = vec![key(None, None); KEYS_MAX];
    assert!(make_room(&mut keys, KEYS_MAX - 1, now).is_err());
    make_room(&mut keys, KEYS_MAX, now).unwrap();
    assert_eq!(keys.len(), KEYS_MAX, "all have room");
    (keys[6], keys[7]) = (key(None, Some(11)), key(None, Some(10)));
    keys[8] = key(Some(now), None);
    // What is over is so at each node.
    make_room(&mut keys, KEYS_MAX - 1, now).unwrap();
    assert!(keys.iter().all(|key| key.expires.is_none()));
    make_room(&mut keys, KEYS_MAX - 2, now).unwrap();
    let revoked: Vec<u64> = keys.iter().filter_map(|key| key.revoked).collect();
    assert_eq!(revoked, [11], "of the other one not all may have heard");
    assert!(make_room(&mut keys, KEYS_MAX - 3, now).is_err());
    make_room(&mut keys, KEYS_MAX - 3, now + 1).unwrap();
    assert_eq!(keys.len(), KEYS_MAX - 3);
    assert!(keys.iter().all(|key| key.is_usable(now)));
}
