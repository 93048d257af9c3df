//! `POST /logout/{id}`.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use httpd::path::PathId;
use httpd::problem::ApiProblem;

use crate::api::state::Api;

/// Ends all connections of an id.
pub(crate) async fn logout(
    State(api): State<Arc<Api>>,
    PathId(id): PathId,
    request: Request,
) -> Result<Response, ApiProblem> {
    let permit = match api.sender.barrier.enter().await {
        Ok(permit) => permit,
        Err(refused) => {
            let (head, body) = request.into_parts();
            return refused.answer(head, body).await;
        }
    };
    let logout = api.sender.logout(permit, id.as_text()).await?;
    let mut answer = serde_json::json!({ "closed": logout.count });
    if logout.at_least {
        answer["at_least"] = true.into();
    }
    Ok(httpd::json::Json(answer).into_response())
}
