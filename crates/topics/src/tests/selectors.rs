//! Selectors of both dialects as texts, and the grants of tokens that list them.

use std::sync::Arc;

use mercure::{Claims, DETAIL_TYPE, Dialect, Grants, HubUrl, MatchType, Selector};
use serde_json::json;

/// Texts that begin with `url ` are URL patterns of 1.0, those with `= ` its plain topics, and all
/// others of the old dialect.
pub(super) const SELECTORS: [&str; 23] = [
    "url https://a.test/:kind(b.*s)/:id",
    "*",
    "url *",
    "url https://a.test/books/:id",
    "url https://a.test/users/:user/books/*",
    "url :scheme://*/users/bob/*",
    "url :word",
    "url https://a.test/*",
    "= https://a.test/books/1",
    "= https://a.test/books/{id}",
    "https://a.test/books/{id}",
    "https://a.test/users/{user}/books/1",
    "https://a.test/users/bob/{+rest}",
    "https://a.test/{+rest}",
    "https://a.test/{kind}/1",
    "https://a.test/{kind}/rj/books/{book}",
    "url https://a.test/:kind/2",
    "url https://a.test/:kind/bob/books/:book",
    "{word}",
    "https://a.test/books/1",
    "https://a.test/users/bob/books/1",
    "note",
    "* note",
];

fn hub() -> HubUrl {
    HubUrl::parse("https://hub.test/.well-known/mercure").unwrap()
}

/// The type and the text of a selector of 1.0, if it is one.
fn v1(text: &str) -> Option<(MatchType, &str)> {
    let url = text.strip_prefix("url ").map(|text| (MatchType::UrlPattern, text));
    url.or_else(|| text.strip_prefix("= ").map(|text| (MatchType::Exact, text)))
}

pub(super) fn selector(text: &str) -> Selector {
    match v1(text) {
        Some((kind, text)) => Selector::v1(kind, text, &hub()).unwrap(),
        None => Selector::old(text).unwrap(),
    }
}

/// A token is of one dialect: of both kinds of selectors it has those of the first one's.
pub(super) fn of_one_token<'t>(selectors: &[&'t str]) -> Vec<&'t str> {
    let is_v1 = selectors.first().is_some_and(|first| v1(first).is_some());
    selectors.iter().copied().filter(|text| v1(text).is_some() == is_v1).collect()
}

pub(super) fn grants_of(selectors: &[&str]) -> Arc<Grants> {
    let topics: Vec<_> = selectors.iter().filter_map(|text| v1(text)).collect();
    let (dialect, claims) = match topics.is_empty() {
        true => (Dialect::Old, json!({ "mercure": { "subscribe": selectors } })),
        false => {
            let kind = |kind: MatchType| kind.name();
            let topics = topics.iter().map(|of| json!({ "match": of.1, "match_type": kind(of.0) }));
            let topics: Vec<_> = topics.collect();
            let actions = ["subscribe"];
            let detail = json!({ "type": DETAIL_TYPE, "actions": actions, "topics": topics });
            (Dialect::V1, json!({ "authorization_details": [detail] }))
        }
    };
    Arc::new(Claims::parse(dialect, &claims, &hub()).unwrap().into_grants().1)
}
