//! The ids under which a request logs in.

use hub::{Grant, IdText};
use proto::{Problem, Request};
use smallvec::SmallVec;

use crate::limits;

/// The ids of a request, as far as they are good ones, not too many, and granted. Without any it is
/// whom its token is about.
pub(super) fn ids_of<'r>(
    request: &'r Request<'_>,
    grant: Option<&'r Grant>,
) -> Result<SmallVec<[IdText<'r>; 4]>, Problem> {
    if request.ids.len() > limits::IDS_PER_HEAD_MAX {
        return Err(Problem::bad_request(format!(
            "A request names at most {} ids. Log the others in on a WebSocket, or open a second \
             stream.",
            limits::IDS_PER_HEAD_MAX
        )));
    }
    let subject = grant.and_then(|grant| grant.subject.as_deref());
    let subject = subject.filter(|_| request.ids.is_empty());
    let named = request.ids.iter().map(|id| &**id).chain(subject);
    let ids: Result<SmallVec<_>, _> = named.map(IdText::parse).collect();
    let ids = ids.map_err(|error| Problem::bad_id(format!("{error}.")))?;
    if ids.is_empty() {
        return Err(match grant {
            None => Problem::no_such_path(),
            Some(_) => Problem::bad_id(
                "The request names no id, and the token has no subject (sub) that could stand for \
                 one. Ask for /stream/{id}, or add ?id=.",
            ),
        });
    }
    let denied = grant.and_then(|grant| request.ids.iter().find(|id| !grant.allows(id)));
    denied.map_or(Ok(ids), |id| Err(Problem::not_granted(id)))
}
