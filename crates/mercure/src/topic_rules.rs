//! Which topics a publisher may not use, because they are the hub's own or no topics at all.

use percent_encoding::percent_decode_str;

use crate::limits::TOPIC_BYTES_MAX;
use crate::topic::has_forbidden;
use crate::{Dialect, HubUrl, PATH, Refusal};

/// Whether an update may have this topic.
///
/// # Errors
/// It is too long, the hub's own, has a control character, or, in 1.0, is `*` or has a character
/// that has no shape.
pub(crate) fn check_topic(dialect: Dialect, topic: &str, hub: &HubUrl) -> Result<(), Refusal> {
    if topic.len() > TOPIC_BYTES_MAX {
        return Err(Refusal::TopicTooLong);
    }
    match dialect {
        Dialect::Old if topic.contains(PATH) => Err(Refusal::ReservedTopic),
        // Clients of 1.0 hear it, and read it as they read their own.
        Dialect::Old if is_below_hub(topic, hub) => Err(Refusal::ReservedTopic),
        // The drafts allow them; nobody has them, and logs and terminals stumble over them.
        Dialect::Old if topic.chars().any(char::is_control) => Err(Refusal::TopicCharacter),
        Dialect::Old => Ok(()),
        Dialect::V1 if topic == "*" => Err(Refusal::TopicIsAll),
        Dialect::V1 if has_forbidden(topic) => Err(Refusal::TopicCharacter),
        Dialect::V1 if is_hubs_own(topic, hub) => Err(Refusal::ReservedTopic),
        Dialect::V1 => Ok(()),
    }
}

/// Whether a topic of 1.0 names the hub's path or one below it, on whatever host. What is no URL
/// does not.
fn is_hubs_own(topic: &str, hub: &HubUrl) -> bool {
    behind_hub(topic, hub).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether it names a path below the hub's, where the hub's own updates are. In the old dialect
/// `#general` is a plain name, and so is `mercure`: seen from the hub, both are its path.
fn is_below_hub(topic: &str, hub: &HubUrl) -> bool {
    behind_hub(topic, hub).is_some_and(|rest| rest.starts_with('/'))
}

/// What follows the hub's path in a topic whose path begins so.
fn behind_hub(topic: &str, hub: &HubUrl) -> Option<String> {
    let path = normal_path(hub.resolve(topic)?.path());
    let own = normal_path(hub.path());
    path.strip_prefix(own.trim_end_matches('/')).map(str::to_owned)
}

/// A path with its escaped unreserved characters decoded and its dot segments removed (RFC 3986,
/// sections 2.3 and 5.2.4). The URL parser has removed those that were not escaped.
fn normal_path(path: &str) -> String {
    let decoded = decode_unreserved(path);
    let mut segments: Vec<&str> = Vec::new();
    for segment in decoded.split('/').skip(1) {
        match segment {
            "." => {}
            ".." => drop(segments.pop()),
            _ => segments.push(segment),
        }
    }
    format!("/{}", segments.join("/"))
}

/// Decodes `%41` to `A` and leaves `%2F` as it is.
fn decode_unreserved(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let triplet = rest.get(..3).unwrap_or_default();
        let decoded = percent_decode_str(triplet).decode_utf8_lossy();
        let is_unreserved = decoded.len() == 1
            && decoded.bytes().all(|byte| {
                byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
            });
        if is_unreserved {
            out.push_str(&decoded);
            rest = &rest[3..];
        } else {
            out.push('%');
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    out
}
