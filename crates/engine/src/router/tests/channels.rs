//! Events about keys whose numbers a cluster gives.

use super::*;
use hub::EventParts;
use hub::Payload;

fn of_channel(data: &str) -> Outgoing {
    let (about, payload) = ("#k1:cache-a", Payload::Text(data));
    let parts = EventParts { about, also: &[], name: Some("n"), from: None, payload };
    Outgoing::on_channel(Draft::of_key(parts).unwrap())
}

#[test]
fn last_event_of_a_channel_is_known_from_before_the_start_and_forgotten_at_a_gap() {
    let apps = Arc::new(PusherApps::new(pusher::Apps::default()));
    let router = of_cluster().with_pusher(Some(apps));
    let id = |above| router.event_ids().id(router.event_ids().last() + above);
    let last = || {
        let cached = router.cached_event(IdText::of_key("#k1:cache-a").unwrap());
        cached.map(|(event, _)| event.data().to_owned())
    };
    for (data, age_ms) in [("1", 2_000), ("2", 1_000)] {
        assert!(matches!(router.remember(of_channel(data), id(1), age_ms), Remembered::Yes));
    }
    assert_eq!(last().as_deref(), Some("\"2\""));
    let mut sending = router.send_numbered(of_channel("3"), id(1));
    assert!(matches!(sending.step(&hub::Nobody), Ok(Step::Posted(_))));
    assert_eq!(last().as_deref(), Some("\"3\""));
    assert_eq!(router.gap_to_all(), GapStep::Told);
    assert_eq!(last(), None, "there may have been a later one");
}
