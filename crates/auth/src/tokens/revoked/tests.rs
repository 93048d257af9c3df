//! Revocations: what they cover, for how long, and what happens to their file.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

const NOW: u64 = 1_800_000_000;
const DAY: u64 = 86_400;

fn grant(sub: &str, jti: &str, issued: Option<u64>) -> Grant {
    let name = |text: &str| (!text.is_empty()).then(|| text.into());
    Grant { subject: name(sub), token: name(jti), issued, ..Grant::default() }
}

fn token(jti: &str, expires: Option<u64>) -> Revocation {
    Revocation::Token { jti: jti.into(), expires }
}

fn subject(sub: &str, before: u64) -> Revocation {
    Revocation::Subject { sub: sub.into(), before }
}

/// Revocations of a server that goes on for a long time, at any moment of which a test may ask.
fn open_for_days(dir: &Path) -> Revocations {
    Revocations::open_at(dir, NOW + 100 * DAY).unwrap()
}

#[test]
fn token_is_revoked_by_its_name_or_by_its_subject_and_time() {
    let dir = tempfile::tempdir().unwrap();
    let revocations = Revocations::open(dir.path()).unwrap();
    revocations.revoke(&[token("x", None), subject("bob", NOW)], NOW).unwrap();
    // Once more, with less: what was said before holds.
    revocations.revoke(&[subject("bob", NOW - 50)], NOW).unwrap();
    for revocations in [&revocations, &Revocations::open(dir.path()).unwrap()] {
        for (grant, covered) in [
            (grant("alice", "x", Some(NOW + 5)), true),
            (grant("", "x", None), true),
            (grant("alice", "y", Some(NOW - 5)), false),
            (grant("bob", "y", Some(NOW - 1)), true),
            (grant("bob", "y", Some(NOW)), false),
            // One that does not say when it was made.
            (grant("bob", "", None), true),
            (grant("x", "bob", None), false),
            (grant("", "", None), false),
        ] {
            assert_eq!(revocations.covers(&grant), covered, "{grant:?}");
            assert_eq!(revocations.covers_at_once(&grant), Some(covered));
        }
        assert_eq!(revocations.count(), 2);
    }
    let mode = fs::metadata(dir.path().join(NAME)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn revocation_is_kept_until_its_token_would_be_over() {
    let dir = tempfile::tempdir().unwrap();
    let revocations = open_for_days(dir.path());
    let wishes = [token("short", Some(NOW + 60)), token("x", None), subject("bob", NOW + DAY)];
    revocations.revoke(&wishes, NOW).unwrap();
    let left = |now: u64| {
        // Any change lets go of what is over.
        revocations.revoke(&[token("short", Some(NOW + 60))], now).unwrap();
        revocations.count()
    };
    let leeway = LEEWAY_MAX.as_secs();
    assert_eq!(left(NOW + 60 + leeway - 1), 3);
    assert_eq!(left(NOW + 30 * DAY - 1), 3);
    assert_eq!(left(NOW + 30 * DAY), 2, "x is over, and short was said once more");
    assert_eq!(left(NOW + 31 * DAY), 1, "bob's time began a day later");
}

/// Somebody sets the wall clock a day ahead for a moment, and other tokens are revoked meanwhile.
#[test]
fn clock_that_jumps_forward_forgets_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let revocations = Revocations::open_at(dir.path(), NOW).unwrap();
    revocations.revoke(&[token("early", Some(NOW + 3600))], NOW).unwrap();
    revocations.revoke(&[token("late", None)], NOW + DAY).unwrap();
    revocations.save(NOW + DAY).unwrap();
    for revocations in [&revocations, &Revocations::open(dir.path()).unwrap()] {
        for jti in ["early", "late"] {
            assert!(revocations.covers(&grant("", jti, None)), "{jti}");
        }
    }
    assert_eq!(revocations.forgets_at(NOW - DAY), NOW - DAY, "a clock that goes back is followed");
}

#[test]
fn more_than_is_remembered_is_refused_whole_and_room_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let revocations = open_for_days(dir.path());
    let wishes: Vec<_> =
        (0..REVOCATIONS_MAX).map(|n| token(&format!("token-{n}"), Some(NOW + 60))).collect();
    revocations.revoke(&wishes, NOW).unwrap();
    let one_more = revocations.revoke(&[subject("bob", NOW)], NOW);
    assert!(matches!(one_more, Err(RevokedError::Full)));
    assert!(!revocations.covers(&grant("bob", "", None)));
    assert_eq!(Revocations::open(dir.path()).unwrap().count(), REVOCATIONS_MAX);
    revocations.revoke(&[subject("bob", NOW)], NOW + 3600).unwrap();
    assert_eq!(revocations.count(), 1);
}

#[test]
fn damage_opens_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let revocations = Revocations::open(dir.path()).unwrap();
    revocations.revoke(&[token("x", None), subject("bob", NOW)], NOW).unwrap();
    let path = dir.path().join(NAME);
    let good = fs::read(&path).unwrap();
    for at in 0..good.len() - 1 {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert!(Revocations::open(dir.path()).is_err(), "byte {at}");
        fs::write(&path, &good[..at]).unwrap();
        assert!(Revocations::open(dir.path()).is_err(), "cut at {at}");
    }
    fs::write(&path, &good).unwrap();
    assert_eq!(Revocations::open(dir.path()).unwrap().count(), 2);
    for lines in [
        r#"[{"until":1}]"#,
        r#"[{"sub":"bob","until":1}]"#,
        r#"[{"jti":"x","before":1,"until":1}]"#,
        r#"[{"jti":"x","sub":"bob","before":1,"until":1}]"#,
        r#"[{"jti":"x","until":1,"more":1}]"#,
        r#"{}"#,
    ] {
        let lines: Box<serde_json::value::RawValue> = serde_json::from_str(lines).unwrap();
        revocations.file.replace(&lines).unwrap();
        let opened = Revocations::open(dir.path());
        assert!(matches!(opened, Err(RevokedError::Damaged { .. })), "{lines}");
    }
}

#[test]
fn what_cannot_be_written_is_revoked_until_the_end_and_told() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    let revocations = Revocations::open(&data).unwrap();
    fs::remove_dir(&data).unwrap();
    let told = revocations.revoke(&[token("x", None)], NOW);
    assert!(matches!(told, Err(RevokedError::Io { .. })));
    assert!(revocations.covers(&grant("", "x", None)));
    fs::create_dir(&data).unwrap();
    revocations.revoke(&[token("y", None)], NOW).unwrap();
    assert_eq!(Revocations::open(&data).unwrap().count(), 2, "the next one writes it too");
}

#[test]
fn wishes_without_sense_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let revocations = Revocations::open(dir.path()).unwrap();
    for wrong in [
        token("", None),
        token(&"x".repeat(256), None),
        token("x", Some(u64::MAX)),
        subject("", 0),
        subject("a b", 0),
        subject("bob", NOW * 1000),
    ] {
        let told = revocations.revoke(&[token("good", None), wrong.clone()], NOW);
        assert!(matches!(told, Err(RevokedError::Wish)), "{wrong:?}");
    }
    assert_eq!(revocations.count(), 0);
}

/// What nodes tell each other, in whichever order and how often.
#[test]
fn what_is_learnt_is_the_most_that_was_said_and_is_saved() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (open_for_days(dir.path()), tempfile::tempdir().unwrap());
    let other = Revocations::open(other.path()).unwrap();
    let line = |wish: &Revocation| one.line(wish, NOW).unwrap();
    let lines = vec![
        line(&token("x", Some(NOW + 60))),
        line(&token("x", None)),
        line(&subject("bob", NOW)),
        line(&subject("bob", NOW - 50)),
    ];
    assert_eq!(one.count(), 0, "it counts when all are told");
    assert_eq!(one.learn(lines.clone()).len(), 3, "the last one says nothing new");
    assert_eq!(other.learn(lines.iter().rev().cloned().collect()).len(), 3);
    let sorted = |revocations: &Revocations| {
        let mut lines = revocations.lines();
        lines.sort_by_key(|line| line.key().0);
        lines
    };
    assert_eq!(sorted(&one), sorted(&other));
    assert_eq!(one.learn(other.lines()), [], "nothing new");
    assert!(one.covers(&grant("bob", "", Some(NOW - 1))) && one.covers(&grant("", "x", None)));
    one.save(NOW).unwrap();
    assert_eq!(sorted(&Revocations::open(dir.path()).unwrap()), sorted(&one));
    one.save(NOW + 31 * DAY).unwrap();
    assert_eq!((one.count(), Revocations::open(dir.path()).unwrap().count()), (0, 0));
    let unsound = Line { sub: Some("bob".into()), ..line(&token("x", None)) };
    assert_eq!(one.learn(vec![unsound]), []);
    assert!(matches!(one.line(&subject("a b", NOW), NOW), Err(RevokedError::Wish)));
    let many = (0..REVOCATIONS_MAX).map(|n| line(&token(&n.to_string(), Some(NOW + 60))));
    one.learn(many.collect());
    assert!(matches!(one.line(&token("y", None), NOW), Err(RevokedError::Full)));
    assert!(one.line(&token("1", None), NOW).is_ok(), "it has its place");
    assert!(one.line(&token("y", None), NOW + 2 * DAY).is_ok(), "the others are over");
}
