//! Which clients may hear who is subscribed, by the paths that their selectors match.

use std::sync::Arc;

use hub::{Key, Space};
use mercure::{Grants, PATH, Selector, SelectorKind};

use crate::held_selector::url_pattern;

/// What the path of every subscription begins with, below the hub's own.
const BELOW: &str = "/subscriptions";

/// Whether one who listens to these selectors with these grants may hear who is subscribed: some
/// selector may match the path of a subscription, and so may some grant.
pub(crate) fn may_hear<'s>(
    selectors: impl IntoIterator<Item = &'s Arc<Selector>>,
    grants: &Grants,
) -> bool {
    let exact = |topic: &str| below(topic).is_some();
    let pattern = |pattern: &Selector| {
        let key = pattern.key();
        let literal = match url_pattern(&key) {
            Some((hub, text)) => match literal_path(hub, text) {
                Some(literal) => literal,
                None => return false,
            },
            None => pattern.literal(),
        };
        below(literal).is_some() || format!("{PATH}{BELOW}").starts_with(literal)
    };
    let asks = |selector: &Selector| match selector.kind() {
        SelectorKind::All => true,
        SelectorKind::Exact => exact(selector.text()),
        SelectorKind::Pattern => pattern(selector),
    };
    selectors.into_iter().any(|selector| asks(selector))
        && (grants.is_all()
            || grants.exact().any(exact)
            || grants.patterns().any(|each| pattern(each)))
}

/// What the path of a URL pattern begins with, that is seen from `hub`; `None` of one that matches
/// no path of the hub's own host. What may be of any host begins with nothing.
fn literal_path<'t>(hub: &str, text: &'t str) -> Option<&'t str> {
    let literal = text.split([':', '*', '{', '(', '\\']).next().unwrap_or_default();
    if text.starts_with('/') {
        return Some(literal);
    }
    let origin = hub.strip_suffix(PATH).unwrap_or(hub);
    if let Some(path) = text.strip_prefix(origin).filter(|path| path.starts_with('/')) {
        return path.split([':', '*', '{', '(', '\\']).next();
    }
    // A scheme and a host without a pattern in them are others, unless they only look otherwise.
    let is_other = text.split_once("://").is_some_and(|(scheme, rest)| {
        let host = rest.split('/').next().unwrap_or_default();
        let is_plain = |part: &str| !part.contains([':', '*', '{', '(', '\\', '?']);
        let is_own = format!("{scheme}://{host}").eq_ignore_ascii_case(origin);
        is_plain(scheme) && is_plain(host) && !is_own
    });
    (!is_other).then_some("")
}

pub(super) fn below(text: &str) -> Option<&str> {
    text.strip_prefix(PATH)?.strip_prefix(BELOW)
}

/// Whether a key asks for paths of subscriptions and for nothing else. Who asks for more, such as
/// `*`, comes back to updates, and is not told of a gap for what it may not have asked for.
pub fn asks_for_paths(key: Key<'_>) -> bool {
    let is_pattern = match key.space {
        Space::PrivateTopic => false,
        Space::PrivatePattern => true,
        Space::Granted => key.app.ends_with('*'),
        _ => return false,
    };
    let path = match url_pattern(key.name).filter(|_| is_pattern) {
        Some((hub, text)) => literal_path(hub, text),
        None if is_pattern => key.name.strip_prefix("template ").or(Some(key.name)),
        None => Some(key.name),
    };
    path.is_some_and(|path| below(path).is_some())
}
