//! How clients find out what a hub is and takes: its metadata, and the field `Link`.

use serde::Serialize;

use crate::{DETAIL_TYPE, Dialect, HubUrl, MatchType};

/// The metadata of a protected resource (RFC 9728, section 2).
#[derive(Serialize)]
struct Metadata<'m> {
    resource: &'m str,
    #[serde(skip_serializing_if = "<[&str]>::is_empty")]
    authorization_servers: &'m [&'m str],
    authorization_details_types_supported: [&'m str; 1],
    bearer_methods_supported: [&'m str; 1],
    mercure_cookie: &'m str,
    mercure_matcher_types_supported: [&'m str; 2],
    mercure_subscriptions: bool,
}

/// The path of the metadata of a hub on this host (RFC 9728, section 3).
pub fn metadata_path(hub: &HubUrl) -> String {
    format!("/.well-known/oauth-protected-resource{}", hub.path())
}

/// The address of the metadata, for [`crate::Refusal::challenge`].
pub fn metadata_address(hub: &HubUrl) -> String {
    format!("{}{}", hub.origin(), metadata_path(hub))
}

/// The metadata, as JSON. `issuers` are those whose tokens the hub takes; where none is known the
/// member is left out.
pub fn metadata(hub: &HubUrl, issuers: &[&str]) -> String {
    let metadata = Metadata {
        resource: hub.as_str(),
        authorization_servers: issuers,
        authorization_details_types_supported: [DETAIL_TYPE],
        bearer_methods_supported: ["header"],
        mercure_cookie: Dialect::V1.cookie(),
        mercure_matcher_types_supported: MatchType::ALL.map(MatchType::name),
        mercure_subscriptions: true,
    };
    serde_json::to_string(&metadata).expect("texts and flags have a form in JSON")
}

/// The value of `Link` that leads to a hub; with a place also from where on a client should hear,
/// and with what.
pub fn link(hub: &str, place: Option<LinkPlace<'_>>) -> String {
    let mut link = format!("<{hub}>; rel=\"mercure\"");
    if let Some(LinkPlace { last_event_id, kind, content_type }) = place {
        for (name, value) in
            [("last-event-id", Some(last_event_id)), ("type", kind), ("content-type", content_type)]
        {
            if let Some(value) = value {
                link.push_str(&format!("; {name}=\"{}\"", quoted(value)));
            }
        }
    }
    link
}

/// The attributes of a [`link`] to a stream.
#[derive(Clone, Copy, Debug)]
pub struct LinkPlace<'l> {
    /// The id after which the client should hear.
    pub last_event_id: &'l str,
    /// The event name of the updates.
    pub kind: Option<&'l str>,
    /// What their data is.
    pub content_type: Option<&'l str>,
}

/// The inside of a quoted string (RFC 9110, section 5.6.4).
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
