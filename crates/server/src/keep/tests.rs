//! What is claimed on disk over starts and upgrades.

use archive::KeepRule;
use hub::Tag;

use super::*;

const NOW_MS: u64 = 1_760_000_000_000;

async fn opened(data: &Path, patterns: &[&str]) -> Keeping {
    let rule = |pattern: &&str| KeepRule::new(pattern, 1 << 40).unwrap();
    let rules = KeepRules::new(patterns.iter().map(rule).collect()).unwrap();
    let config = KeepConfig { rules, bytes_max: 64 << 20, always_durable: false };
    let keeping = Keeping::new(data, &config, false);
    keeping.open().await.unwrap();
    keeping
}

/// Begins anew, as after an end of the process.
fn restarted(data: &Path, nth: u64, tag: Option<Tag>) -> Begun {
    let log = LogState { tag, ..LogState::default() };
    epoch::begin(data, nth << 50, NOW_MS + nth, Some(log))
}

fn since(data: &Path) -> Vec<u64> {
    KeptFile::read(&data.join(DIR)).unwrap().since()
}

/// A server that keeps `a*` and `b`, and has let go of its log for a successor.
async fn predecessor(data: &Path) -> Begun {
    let keeping = opened(data, &["a*", "b"]).await;
    let begun = restarted(data, 1, None);
    keeping.begin(&begun).unwrap();
    keeping.let_go().await.unwrap();
    begun
}

#[tokio::test]
async fn successor_that_fails_leaves_the_claims_as_they_were() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path();
    let begun = predecessor(data).await;
    let successor = opened(data, &["a*", "p*"]).await;
    let taken = epoch::take_over(data, begun.epoch, begun.start + 100, true);
    assert!(successor.begin_beside(&taken).unwrap().is_some());
    successor.let_go().await.unwrap();
    drop(taken);
    // The one before went on, keeps no `p*`, and is restarted with that.
    let keeping = opened(data, &["a*", "b", "p*"]).await;
    let again = restarted(data, 2, Some(begun.epoch.tag));
    assert!(again.goes_on);
    keeping.begin(&again).unwrap();
    assert_eq!(since(data), [begun.start, begun.start, again.start]);
}

#[tokio::test]
async fn successor_claims_since_its_own_begin_once_all_is_its_own() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path();
    let begun = predecessor(data).await;
    let successor = opened(data, &["a*", "p*"]).await;
    let taken = epoch::take_over(data, begun.epoch, begun.start + 100, true);
    let claims = successor.begin_beside(&taken).unwrap();
    assert_eq!(since(data), [begun.start, begun.start], "the one before may go on");
    claims.unwrap().put_in_place();
    assert_eq!(since(data), [begun.start, begun.start + 100]);
}

#[tokio::test]
async fn claims_that_cannot_be_put_in_place_are_none_rather_than_those_of_before() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path();
    let begun = predecessor(data).await;
    let successor = opened(data, &["a*"]).await;
    let taken = epoch::take_over(data, begun.epoch, begun.start + 100, true);
    let claims = successor.begin_beside(&taken).unwrap();
    fs::remove_file(data.join(DIR).join("kept.new")).unwrap();
    claims.unwrap().put_in_place();
    assert_eq!(KeptFile::read(&data.join(DIR)), None, "`b` is not kept any more");
}

#[tokio::test]
async fn start_with_the_rules_of_before_writes_no_claims() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path();
    let begun = predecessor(data).await;
    let keeping = opened(data, &["a*", "b"]).await;
    // As on a full disk, nothing can be written under this name.
    fs::create_dir(data.join(DIR).join("kept.new")).unwrap();
    let again = restarted(data, 2, Some(begun.epoch.tag));
    keeping.begin(&again).unwrap();
    keeping.let_go().await.unwrap();
    let keeping = opened(data, &["a*"]).await;
    assert!(keeping.begin(&again).is_err(), "what stands there would claim too much");
    assert_eq!(since(data), [begun.start, begun.start]);
}
