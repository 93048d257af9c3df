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
    let setup = open_authenticator(access, &[], dir.path(), &live, false).await.unwrap().unwrap();
    // An address of its own: nothing listens at its port until the workers run, and seconds pass.
    let mut config = EngineConfig::new("127.33.7.19:0".parse().unwrap());
    config.tokens = Some(setup.config("encke_token".into()));
    let epoch = Epoch::begin(Tag::of(0), 0, clock::unix_ms());
    let mut engine = Engine::prepare(config, epoch, Arc::new(Names::new([3; 16]))).unwrap();
    let (queue, stop) = (engine.token_queue(), CancellationToken::new());
    let service = setup.start(queue.clone(), &stop).unwrap();
    let wish = Revocation::Token { jti: "t1".into(), expires: None };
    let other = engine::Revocation::Token("t2".into());
    let taken = (0..MAILS).take_while(|_| queue.revoke(&other)).count();
    assert!(taken > 0 && taken < MAILS, "{taken} fit");
    let begin = Instant::now();
    let told = service.revoke(&wish);
    assert!(begin.elapsed().as_secs() >= 5, "{:?}", begin.elapsed());
    assert!(matches!(told, Ok(false)), "{told:?}");
    // On disk it is all the same.
    let on_disk = Revocations::open(dir.path()).unwrap();
    let revoked = Grant { token: Some("t1".into()), ..Grant::default() };
    assert!(on_disk.covers(&revoked));
    engine.open().unwrap();
    assert!(matches!(service.revoke(&wish), Ok(true)));
    stop.cancel();
    engine.drain(1_000);
}
