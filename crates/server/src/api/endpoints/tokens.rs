//! `POST /tokens/revoke`: tokens of streams that are good no more.

use std::borrow::Cow;
use std::sync::Arc;

use auth::token_service::TokenService;
use auth::tokens::{Revocation, RevokedError};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use dispatch::barrier::NoPermit;
use dispatch::cluster::RevokeTrouble;
use httpd::body::{BodyKind, read_whole};
use httpd::id::IdField;
use httpd::object::Object;
use httpd::problem::ApiProblem;
use serde::Deserialize;
use tokio::task::spawn_blocking;

use crate::api::state::Api;

/// The longest body: a name or an id with all its characters escaped.
const BODY_BYTES_MAX: usize = 4096;

/// Which tokens: of `jti` and `sub` one is given.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RevokeBody<'a> {
    #[serde(borrow)]
    jti: Option<Cow<'a, str>>,
    /// When the token of that name expires: it need not be remembered for longer.
    exp: Option<u64>,
    #[serde(borrow)]
    sub: Option<IdField<'a>>,
    /// Those made before this second of Unix time; all that there are unless given.
    before: Option<u64>,
}

/// Refuses tokens from now on, and ends their streams. Answered when that is on disk.
pub(crate) async fn revoke(
    State(api): State<Arc<Api>>,
    request: Request,
) -> Result<Response, ApiProblem> {
    if BodyKind::of(request.headers())? != BodyKind::Json {
        return Err(ApiProblem::media_type());
    }
    let (head, body) = request.into_parts();
    let bytes = read_whole(body, BODY_BYTES_MAX, &api.idle_limit).await?;
    let Object(body): Object<RevokeBody<'_>> =
        serde_json::from_slice(&bytes).map_err(|error| ApiProblem::bad_json(&error))?;
    // Those of a clock that is ahead too: which of them were made before the call cannot be told.
    let none_made_from = api.tokens.as_ref().map_or(0, TokenService::none_made_from);
    let revocation = body.revocation(none_made_from)?;
    let Some(tokens) = api.tokens.clone() else {
        return Err(ApiProblem::bad_request(
            "This server takes no tokens: it was started without --token-key and --token-jwks.",
        ));
    };
    let Some(cluster) = api.sender.cluster.clone() else {
        let barrier = Arc::clone(&api.sender.barrier);
        // Who asked may go away: what is begun is done with its permit all the same.
        let revoking = tokio::spawn(async move {
            let permit = barrier.enter().await?;
            let revoked = spawn_blocking(move || tokens.revoke(&revocation)).await;
            drop(permit);
            Ok(revoked)
        });
        return match revoking.await.map_err(|_| ApiProblem::stopping())? {
            Ok(revoked) => answer(revoked.map_err(|_| ApiProblem::stopping())?),
            Err(refused) => NoPermit::answer(refused, head, Body::from(bytes)).await,
        };
    };
    // Who asked may go away; what is kept is told to all nodes nevertheless.
    let revoking = tokio::spawn(async move { cluster.revoke(&tokens, &revocation).await });
    let revoked = revoking.await.map_err(|_| ApiProblem::stopping())?;
    answer_of_cluster(revoked)
}

/// What is said when it is done: whether all workers could be told.
fn answer(revoked: Result<bool, RevokedError>) -> Result<Response, ApiProblem> {
    if !revoked.map_err(|error| problem(&error))? {
        return Err(ApiProblem::unavailable(
            "The tokens are refused from now on, but not all of their streams could be ended: a \
             worker has more to do than it can. Send this again.",
        ));
    }
    Ok(httpd::json::Json(serde_json::json!({ "revoked": true })).into_response())
}

/// What a revocation is answered where there are many nodes.
fn answer_of_cluster(revoked: Result<(), RevokeTrouble>) -> Result<Response, ApiProblem> {
    match revoked {
        Ok(()) => answer(Ok(true)),
        Err(RevokeTrouble::Refused(error)) => answer(Err(error)),
        Err(RevokeTrouble::NotKept(not)) => {
            let what = if not.may_count {
                "It is not known whether the tokens are revoked; they may be, at nodes that start"
            } else {
                "Nothing was revoked"
            };
            Err(ApiProblem::unavailable(format!("{what}: {not}. Send this again.")))
        }
        Err(RevokeTrouble::NotTold(error)) => Err(ApiProblem::unavailable(format!(
            "The tokens are revoked at nodes that start, and may not be at the others: {error}. \
                 Send this again."
        ))),
    }
}

impl RevokeBody<'_> {
    /// What it asks for, where no token was made in `none_made_from` or later.
    fn revocation(self, none_made_from: u64) -> Result<Revocation, ApiProblem> {
        match self {
            RevokeBody { jti: Some(jti), exp, sub: None, before: None } => {
                Ok(Revocation::Token { jti: jti.into_owned(), expires: exp })
            }
            RevokeBody { jti: None, exp: None, sub: Some(sub), before } => {
                let before = before.unwrap_or(none_made_from);
                Ok(Revocation::Subject { sub: sub.0.into_owned(), before })
            }
            _ => Err(ApiProblem::bad_request(
                "Say which tokens: {\"jti\":\"…\"} with \"exp\" if it is known, or {\"sub\":\"…\"} \
                 with \"before\", in seconds since 1970, if not all of them.",
            )),
        }
    }
}

fn problem(error: &RevokedError) -> ApiProblem {
    match error {
        RevokedError::Wish => ApiProblem::bad_request(format!("Nothing was revoked: {error}.")),
        RevokedError::Full => ApiProblem::new(
            StatusCode::INSUFFICIENT_STORAGE,
            format!("Nothing was revoked: {error}."),
        ),
        error => {
            tracing::error!(
                "a revocation was not written and holds until the server ends: {error}"
            );
            ApiProblem::unavailable(
                "The tokens are refused from now on, but that is not on disk and ends with the \
                 server. See its log, and send this again.",
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_revokes_sends_it_again_where_a_worker_was_not_told() {
        let problem = answer(Ok(false)).unwrap_err();
        assert_eq!(problem.status().as_u16(), 503);
        assert!(problem.detail().contains("Send this again"), "{}", problem.detail());
        assert_eq!(answer(Ok(true)).unwrap().status().as_u16(), 200);
    }
}
