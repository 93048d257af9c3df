//! Claims, and what those who wait for one hear.

use super::*;

const ID: &[u8; 16] = b"2F3y6mQsYKmaB3xZ";

fn claim(keys: &Arc<IdempotencyKeys>, key: &str, data: &str) -> Result<Claimed, Refusal> {
    keys.claim(KeyHolder::Application(""), &IdempotencyKey::new(key).unwrap(), "rj", data)
}

fn first(keys: &Arc<IdempotencyKeys>, key: &str) -> Claim {
    match claim(keys, key, "1").unwrap() {
        Claimed::First(claim) => claim,
        other => panic!("{other:?}"),
    }
}

#[test]
fn repeat_hears_of_each_step_of_the_first() {
    let keys = IdempotencyKeys::new().unwrap();
    let first = first(&keys, "a");
    let Claimed::UnderWay(progress) = claim(&keys, "a", "1").unwrap() else { panic!() };
    assert!(matches!(*progress.borrow(), Progress::Claimed));
    let uncounted = first.posted(*ID);
    assert!(matches!(*progress.borrow(), Progress::Posted(id) if id == *ID));
    assert!(matches!(claim(&keys, "a", "1"), Ok(Claimed::UnderWay(_))));
    let answer = uncounted.counted(3, false);
    assert_eq!(answer, Delivered { count: 3, id: *ID, at_least: false });
    let Progress::Answered(heard) = *progress.borrow() else { panic!() };
    assert_eq!(heard, answer);
    let Claimed::Answered(again) = claim(&keys, "a", "1").unwrap() else { panic!() };
    assert_eq!(again, answer);
}

#[test]
fn claim_that_is_given_up_is_free_and_whoever_waits_is_told() {
    let keys = IdempotencyKeys::new().unwrap();
    let given_up = first(&keys, "a");
    let Claimed::UnderWay(progress) = claim(&keys, "a", "1").unwrap() else { panic!() };
    drop(given_up);
    assert!(progress.has_changed().is_err());
    assert_eq!(keys.count(), 0);
    first(&keys, "a");
}

/// What two nodes send with one key at one time, the log brings to both in one order.
#[test]
fn other_body_that_the_log_had_first_is_told_and_what_it_had_is_remembered() {
    const OTHER: EventId = *b"2F3y6mQsYKmaB3xA";
    let ours = Delivered { id: *ID, count: 3, at_least: false };
    let ends: [fn(Claim, Delivered); 2] =
        [Claim::answered, |claim, _| claim.failed(LogTrouble::Silent)];
    for end in ends {
        let keys = IdempotencyKeys::new().unwrap();
        let claim_here = first(&keys, "a");
        let Claimed::UnderWay(progress) = claim(&keys, "a", "1").unwrap() else { panic!() };
        let there = Once { body: !claim_here.once().body, ..claim_here.once() };
        assert!(keys.brought(there, OTHER) && !keys.brought(claim_here.once(), *ID));
        end(claim_here, ours);
        assert!(matches!(*progress.borrow(), Progress::OtherBody), "{progress:?}");
        assert!(matches!(claim(&keys, "a", "1"), Err(Refusal::OtherBody)));
        // What says the same hears of the first.
        let claim_here = first(&keys, "b");
        let Claimed::UnderWay(progress) = claim(&keys, "b", "1").unwrap() else { panic!() };
        assert!(keys.brought(claim_here.once(), OTHER));
        end(claim_here, ours);
        let Progress::Answered(heard) = *progress.borrow() else { panic!("{progress:?}") };
        assert_eq!(heard, Delivered { id: OTHER, count: 0, at_least: true });
    }
}

/// The log has it, and the disk of the node that took it failed.
#[test]
fn event_that_is_not_on_disk_for_sure_is_not_answered_as_if_it_was() {
    let keys = IdempotencyKeys::new().unwrap();
    let claim_here = first(&keys, "a");
    assert!(keys.brought(claim_here.once(), *ID));
    claim_here.failed(LogTrouble::NotDurable);
    let Ok(Claimed::UnderWay(progress)) = claim(&keys, "a", "1") else { panic!() };
    assert!(matches!(*progress.borrow(), Progress::NotDurable(id) if id == *ID), "{progress:?}");
    // One that the log has not brought is not free to be sent again either.
    let claim_here = first(&keys, "b");
    claim_here.failed(LogTrouble::NotDurable);
    let Ok(Claimed::UnderWay(progress)) = claim(&keys, "b", "1") else { panic!() };
    assert!(matches!(*progress.borrow(), Progress::Unknown), "{progress:?}");
}

#[test]
fn first_event_that_the_log_has_brought_is_known_with_and_without_a_claim() {
    const OTHER: EventId = *b"2F3y6mQsYKmaB3xA";
    let keys = IdempotencyKeys::new().unwrap();
    let claim_here = first(&keys, "a");
    let own = keys.once_of("streams", "a", "run:1");
    for once in [claim_here.once(), own] {
        assert_eq!(keys.first_of(once), None);
        assert!(keys.brought(once, OTHER) && !keys.brought(once, *ID));
        assert_eq!(keys.first_of(once), Some((OTHER, true)));
        assert_eq!(keys.first_of(Once { body: !once.body, ..once }), Some((OTHER, false)));
    }
}

#[test]
fn refusals_for_want_of_a_place_are_counted() {
    let keys = IdempotencyKeys::with_bounds(Hasher::random().unwrap(), 1, REMEMBERED);
    let _first = first(&keys, "a");
    assert!(matches!(claim(&keys, "a", "2"), Err(Refusal::OtherBody)));
    assert_eq!(keys.refused(), 0);
    assert!(matches!(claim(&keys, "b", "1"), Err(Refusal::Full { .. })));
    assert_eq!(keys.refused(), 1);
}

#[test]
fn what_nodes_send_by_themselves_takes_no_place_of_senders() {
    let keys = IdempotencyKeys::with_bounds(Hasher::random().unwrap(), 2, REMEMBERED);
    let once = |text| keys.once_of("streams", text, "run:1");
    for text in ["a", "b"] {
        assert!(keys.brought(once(text), *b"0000000000000001"), "{text}");
        assert!(keys.has_brought(once(text)), "{text}");
        assert!(!keys.brought(once(text), *b"0000000000000002"), "{text}");
    }
    assert!(!keys.has_brought(once("c")));
    let _claims = [first(&keys, "a"), first(&keys, "b")];
    assert!(matches!(claim(&keys, "c", "x"), Err(Refusal::Full { .. })));
}

/// The log that has brought an event is given up before that is posted here.
#[test]
fn event_that_is_not_posted_after_all_is_not_known_and_its_repeat_is_the_first() {
    const OTHER: EventId = *b"2F3y6mQsYKmaB3xA";
    let keys = IdempotencyKeys::new().unwrap();
    let once = keys.once_of("streams", "a", "run:1");
    assert!(keys.brought(once, *ID));
    keys.forget_brought(once, OTHER);
    assert!(!keys.brought(once, OTHER), "another one is not posted");
    keys.forget_brought(once, *ID);
    assert!(!keys.has_brought(once));
    assert!(keys.brought(once, OTHER) && !keys.brought(once, *ID));
    // One that this node has sent, and whose answer it waits for.
    let claim_here = first(&keys, "b");
    let once = claim_here.once();
    assert!(keys.brought(once, *ID));
    keys.forget_brought(once, OTHER);
    assert!(!keys.brought(once, OTHER), "another one is not posted");
    keys.forget_brought(once, *ID);
    claim_here.failed(LogTrouble::Silent);
    assert!(keys.brought(once, OTHER), "nobody knows what became of it");
}
