//! The id that a path ends with.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use graph::OwnedId;
use hub::IdText;
use percent_encoding::percent_decode_str;

use super::problem::ApiProblem;

/// The id that a path ends with, decoded and checked.
pub struct PathId(pub OwnedId);

impl<S: Sync> FromRequestParts<S> for PathId {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<PathId, ApiProblem> {
        let path = parts.uri.path();
        let last = path.rsplit_once('/').map_or(path, |(_, last)| last);
        let text = percent_decode_str(last).decode_utf8().map_err(|_| not_utf8())?;
        Ok(PathId(IdText::parse(&text)?.into()))
    }
}

fn not_utf8() -> ApiProblem {
    ApiProblem::bad_request(
        "The id in the path is not UTF-8. Percent-encode the bytes of its UTF-8.",
    )
}
