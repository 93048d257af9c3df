//! Ids of the stored graph as topics: whoever asks for `encke:bob`, and may, is logged in as `bob`.
//!
//! No update has such a topic. So what comes by it are the events about the id and about all whom
//! it follows, and a name that a publisher gives is never an id.

use hub::{IdError, IdText};
use mercure::{Grants, Selector, SelectorKind};

/// What such a topic begins with.
const SCHEME: &str = "encke:";

/// The text behind the scheme, of a topic that stands for an id, good or not.
pub fn id_of_topic(topic: &str) -> Option<&str> {
    topic.strip_prefix(SCHEME)
}

/// The text of the id that a selector asks for; `None` of one that asks for topics.
pub fn id_of_selector(selector: &Selector) -> Option<&str> {
    let is_exact = selector.kind() == SelectorKind::Exact;
    id_of_topic(selector.text()).filter(|_| is_exact)
}

/// The id that a client asks for by `text`, if it may log in under that: its token is about it, or
/// lists its topic, by its name. `*` and patterns grant none: they are written for topics.
///
/// # Errors
/// The text is no id.
pub fn granted_id<'t>(
    text: &'t str,
    subject: Option<&str>,
    grants: &Grants,
) -> Result<Option<IdText<'t>>, IdError> {
    let id = IdText::parse(text)?;
    let is_listed = || grants.names(&format!("{SCHEME}{text}"));
    Ok((subject == Some(text) || is_listed()).then_some(id))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn grants(selectors: &[&str]) -> Grants {
        Grants::new(selectors.iter().map(|text| Arc::new(Selector::old(text).unwrap())))
    }

    #[test]
    fn id_is_granted_by_its_name_or_to_its_subject_alone() {
        let may = |subject, of: &[&str]| granted_id("bob", subject, &grants(of)).unwrap().is_some();
        assert!(may(None, &["encke:bob"]) && may(Some("bob"), &[]));
        assert!(may(None, &["*", "a", "encke:bob"]), "what is listed beside `*` is listed");
        for of in [&["*"][..], &["encke:{id}"], &["{+all}"], &["bob"], &["encke:rj"], &[]] {
            assert!(!may(None, of) && !may(Some("rj"), of), "{of:?}");
        }
        for text in ["", "a/b", "a b", "#t:a"] {
            assert!(granted_id(text, Some(text), &grants(&["*"])).is_err(), "{text}");
        }
    }

    #[test]
    fn topic_stands_for_an_id_if_it_is_plain() {
        let of = |text: &str| Selector::old(text).unwrap();
        assert_eq!(id_of_selector(&of("encke:photo:789")), Some("photo:789"));
        for other in ["encke:{id}", "*", "bob", "Encke:bob", "https://encke:1/"] {
            assert_eq!(id_of_selector(&of(other)), None, "{other}");
        }
    }
}
