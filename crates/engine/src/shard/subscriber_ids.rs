//! What a client of the hub asks for: topics, and ids of the stored graph (`encke:bob`).
//!
//! Under an id it is logged in as any stream is. It hears what is sent about it and about all whom
//! it follows, and counts as online. Whoever may not is refused, so that nobody waits for events
//! that never come. Cost: a look at the beginning of each selector.

use std::sync::Arc;

use hub::{Grant, IdText};
use mercure::{Grants, Selector};
use proto::Problem;
use topics::{granted_id, id_of_selector};

/// What a subscriber asks for, and may.
#[derive(Debug, Default)]
pub(super) struct Selection<'s> {
    /// Under which ids it is to be logged in.
    pub(super) ids: Vec<IdText<'s>>,
    /// Its topics and patterns.
    pub(super) selectors: Vec<Arc<Selector>>,
}

/// Why a client may not be logged in under an id.
#[derive(Debug)]
pub(super) enum Denied {
    /// It has no token.
    NoToken,
    /// Its token does not grant the id, or that is none.
    Refused(Problem),
}

/// Tells ids from topics. Whoever has a token has `granted`.
pub(super) fn sort<'s>(
    selectors: &'s [Arc<Selector>],
    granted: Option<(&Grant, &Grants)>,
) -> Result<Selection<'s>, Denied> {
    let mut asked = Selection::default();
    for selector in selectors {
        let Some(text) = id_of_selector(selector) else {
            asked.selectors.push(Arc::clone(selector));
            continue;
        };
        let Some((grant, grants)) = granted else { return Err(Denied::NoToken) };
        let id = granted_id(text, grant.subject.as_deref(), grants)
            .map_err(|error| Denied::Refused(Problem::bad_id(format!("{error}."))))?;
        asked.ids.push(id.ok_or_else(|| Denied::Refused(Problem::not_granted(text)))?);
    }
    Ok(asked)
}
