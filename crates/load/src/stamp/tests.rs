//! Stamps wherever they stand in an event.

use std::collections::HashSet;

use super::*;

const STAMP: Stamp = Stamp {
    run: RunName { boot: 0x0123_4567, start_ms: 0x89ab_cdef, random: 0xfedc_ba98 },
    sender: 999,
    subject: u64::MAX >> 1,
    number: 1,
    intended_ns: 1_234_567_890_123_456_789,
};

#[test]
fn stamp_is_found_wherever_it_stands() {
    let mut event = b"{\"id\":\"1\",\"about\":\"7\",\"data\":\"".to_vec();
    STAMP.push(&mut event);
    event.extend_from_slice(b"xxxx\"}");
    assert_eq!(StampFinder::default().find(&event), Some(STAMP));
}

#[test]
fn stamp_has_its_length_and_nothing_to_escape() {
    let mut stamp = Vec::new();
    STAMP.push(&mut stamp);
    assert_eq!(stamp.len(), STAMP_LEN);
    assert!(stamp.iter().all(|byte| byte.is_ascii_alphanumeric() || b":;".contains(byte)));
}

#[test]
fn what_is_no_stamp_is_none() {
    let mut stamp = Vec::new();
    STAMP.push(&mut stamp);
    let finder = StampFinder::default();
    for len in 0..stamp.len() {
        assert_eq!(finder.find(&stamp[..len]), None, "{len} bytes");
    }
    for at in 0..stamp.len() {
        let mut broken = stamp.clone();
        broken[at] = b'x';
        assert_eq!(finder.find(&broken), None, "byte {at}");
    }
}

#[test]
fn runs_that_start_together_have_names_of_their_own() {
    let names: HashSet<RunName> = (0..100).map(|_| RunName::new(1)).collect();
    assert_eq!(names.len(), 100);
}

#[test]
fn boot_is_the_same_each_time() {
    assert_eq!(boot(), boot());
    assert_ne!(boot(), 0);
}
