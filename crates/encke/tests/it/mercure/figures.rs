//! What `/stats` and `/metrics` say of the hub.

use serde_json::{Value, json};

use super::{BOOKS, Hub, bearer, subscriber};
use crate::harness::wait_for;

impl Hub {
    fn figures(&self) -> Value {
        self.server.api.stats()["mercure"].clone()
    }
}

/// The members of `figures` that `names` lists.
fn some(figures: &Value, names: &[&str]) -> Vec<u64> {
    names.iter().map(|name| figures[name].as_u64().unwrap()).collect()
}

#[test]
fn figures_tell_who_listens_and_what_is_published() {
    let hub = Hub::start(&["--mercure-open"]);
    let before = hub.server.api.stats();
    let plain = hub.listen("topic=https://a.test/books/1", &[]);
    let patterns = [hub.listen(BOOKS, &[]), hub.listen(BOOKS, &[])];
    // Two selectors of each kind of grants, of which the token names none.
    let granted = subscriber(&["https://a.test/users/bob"]);
    let private = hub.listen(&format!("{BOOKS}&topic=https://a.test/books/1"), &[&granted]);
    let names = [
        "subscribers",
        "patterns",
        "selectors",
        "open_selectors",
        "private_selectors",
        "grant_lists",
        "selector_listeners",
    ];
    assert_eq!(some(&hub.figures(), &names), [4, 1, 3, 1, 2, 1, 5]);
    hub.publish("topic=https://a.test/books/1&topic=https://a.test/books/2&id=urn:1");
    hub.publish("topic=https://a.test/books/1&private=on");
    let unsigned = hub.publish_by("Accept: */*", "topic=a&data=x");
    let denied = hub.publish_by(&bearer(&json!({ "mercure": { "publish": ["b"] } })), "topic=a");
    let invalid = hub.publish_by(&super::publisher(), "data=x");
    assert_eq!([unsigned, denied, invalid].map(|answer| answer.status()), [401, 403, 400]);
    let figures = hub.figures();
    let outcomes = json!({
        "posted": 2, "unauthorized": 1, "denied": 1, "invalid": 1, "unavailable": 0
    });
    assert_eq!(figures["publishes"], outcomes);
    assert_eq!(some(&figures, &["topics", "publisher_ids"]), [2, 1]);
    for (figure, bound) in [
        ("topic_bytes", "topic_bytes_max"),
        ("publisher_id_bytes", "publisher_id_bytes_max"),
        ("patterns", "patterns_max"),
        ("selectors", "selectors_max"),
        ("open_selectors", "open_selectors_max"),
    ] {
        let [now, most] = [figure, bound].map(|name| figures[name].as_u64().unwrap());
        assert!(0 < now && now < most, "{figure}: {figures}");
    }
    let after = hub.server.api.stats();
    for name in ["/events", "/send_duration/count"] {
        let [before, after] = [&before, &after].map(|stats| stats.pointer(name).unwrap().as_u64());
        assert_eq!(after, before.map(|count| count + 2), "{name}");
    }
    let metrics = hub.server.api.get("/metrics").body;
    for line in [
        "encke_mercure_topics 2",
        "encke_mercure_bound{of=\"patterns\"} 10000",
        "encke_mercure_publishes_total{outcome=\"posted\"} 2",
        "encke_mercure_subscription_changes_total{outcome=\"told\"} 0",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    drop((plain, patterns, private));
    let gone = || some(&hub.figures(), &names).iter().all(|count| *count == 0);
    wait_for("all have left", gone);
}

#[test]
fn server_that_is_no_hub_has_no_figures_of_one() {
    let server = crate::harness::Server::start(&[]);
    assert_eq!(server.api.stats()["mercure"], Value::Null);
    assert!(!server.api.get("/metrics").body.contains("encke_mercure"));
}
