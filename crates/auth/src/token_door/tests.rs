//! What whoever revokes is told, against workers that do not run. Tokens have tests of their own.

use std::time::Instant;

use engine::{Engine, EngineConfig};
use hub::{Epoch, Names, Tag};

use super::*;

/// More than the mailbox of any worker holds.
const MAILS: usize = 1 << 16;

/// Workers that do not run take no mail, and those that run again do.
#[tokio::test]
async fn worker_that_takes_no_mail_is_told_after_five_seconds() {
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    std::fs::write(&secret, [b'x'; 32]).unwrap();
    let rules = TokenRules { keys: vec![secret], ..TokenRules::default() };
    let access = StreamAccess::Tokens(rules);
    let live = LiveAccess::random().unwrap();
    let doors = open_doors(access, &[], dir.path(), &live, false).await.unwrap().unwrap();
    let mut config = EngineConfig::new("127.0.0.1:0".parse().unwrap());
    config.tokens = Some(doors.config("encke_token".into()));
    let epoch = Epoch::begin(Tag::of(0), 0, clock::unix_ms());
    let mut engine = Engine::prepare(config, epoch, Arc::new(Names::new([3; 16]))).unwrap();
    let (desk, stop) = (engine.token_desk(), CancellationToken::new());
    let office = doors.staff(desk.clone(), &stop).unwrap();
    let wish = Revocation::Token { jti: "t1".into(), expires: None };
    let other = engine::Revocation::Token("t2".into());
    let taken = (0..MAILS).take_while(|_| desk.revoke(&other)).count();
    assert!(taken > 0 && taken < MAILS, "{taken} fit");
    let begin = Instant::now();
    let told = office.revoke(&wish);
    assert!(begin.elapsed().as_secs() >= 5, "{:?}", begin.elapsed());
    assert!(matches!(told, Ok(false)), "{told:?}");
    // On disk it is all the same.
    let on_disk = Revocations::open(dir.path()).unwrap();
    let revoked = Grant { token: Some("t1".into()), ..Grant::default() };
    assert!(on_disk.covers(&revoked));
    engine.open().unwrap();
    assert!(matches!(office.revoke(&wish), Ok(true)));
    stop.cancel();
    engine.drain(1_000);
}

#[test]
fn what_is_judged_beyond_a_lease_or_across_two_is_not_said() {
    assert_eq!(Lease::new(false).within(|| 1), Some(1));
    let lease = Lease::new(true);
    assert_eq!(lease.within(|| 1), None);
    let give = |ms: u64| lease.until_ms.store(clock::monotonic_ms() + ms, Ordering::Release);
    give(60_000);
    assert_eq!(lease.within(|| 1), Some(1));
    give(20);
    let renewed_too_late = || {
        while clock::monotonic_ms() <= lease.until_ms.load(Ordering::Acquire) {}
        give(60_000);
    };
    assert_eq!(lease.within(renewed_too_late), None);
    assert_eq!(lease.within(|| 1), Some(1));
}
