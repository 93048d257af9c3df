//! Metadata and links.

use mercure::{LinkPlace, link, metadata, metadata_address, metadata_path};
use serde_json::{Value, json};

use crate::hub;

#[test]
fn metadata_says_what_the_hub_takes() {
    let read =
        |issuers: &[&str]| -> Value { serde_json::from_str(&metadata(&hub(), issuers)).unwrap() };
    let expected = json!({
        "resource": "https://hub.example/.well-known/mercure",
        "authorization_servers": ["https://app.example"],
        "authorization_details_types_supported": ["https://mercure.rocks/authorization-detail"],
        "bearer_methods_supported": ["header"],
        "mercure_cookie": "__Secure-mercure_access_token",
        "mercure_matcher_types_supported": ["exact", "urlpattern"],
        "mercure_subscriptions": true,
    });
    assert_eq!(read(&["https://app.example"]), expected);
    assert!(read(&[]).get("authorization_servers").is_none());
    let path = "/.well-known/oauth-protected-resource/.well-known/mercure";
    assert_eq!(metadata_path(&hub()), path);
    assert_eq!(metadata_address(&hub()), format!("https://hub.example{path}"));
}

#[test]
fn link_leads_to_the_hub() {
    let hub = "https://hub.example/.well-known/mercure";
    assert_eq!(link(hub, None), format!("<{hub}>; rel=\"mercure\""));
    let place = LinkPlace {
        last_event_id: "a\"b\\",
        kind: Some("mercure"),
        content_type: Some("application/json"),
    };
    assert_eq!(
        link("/hub", Some(place)),
        "</hub>; rel=\"mercure\"; last-event-id=\"a\\\"b\\\\\"; type=\"mercure\"; \
         content-type=\"application/json\""
    );
}
