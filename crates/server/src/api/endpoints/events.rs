//! The past of an id: what was sent about it and is remembered or kept, a page at a time
//! ([`dispatch::past`]).

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{Uri, header};
use axum::response::{IntoResponse, Response};
use dispatch::past::{EventsQuery, NoPage, PAGE_BYTES_MAX, Reader, events_page};
use httpd::path::PathId;
use httpd::problem::{ApiProblem, sentence};
use hub::IdText;

use crate::api::state::Api;

/// What was sent about an id.
pub(crate) async fn events(
    State(api): State<Arc<Api>>,
    PathId(id): PathId,
    query: Result<Query<EventsQuery>, QueryRejection>,
) -> Result<Response, ApiProblem> {
    let page =
        api.events_page(id.as_text(), &query?.0, PAGE_BYTES_MAX, Reader::Application).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], page + "\n").into_response())
}

/// The parameters in the query of a request.
pub(crate) fn query_of(query: &str) -> Result<EventsQuery, ApiProblem> {
    let unread = "The query cannot be read. Percent-encode what no address may hold.";
    let uri = format!("/?{query}").parse::<Uri>();
    let uri = uri.map_err(|_| ApiProblem::bad_request(unread))?;
    Ok(Query::try_from_uri(&uri)?.0)
}

impl Api {
    /// A page of what was sent about `id`, of so many bytes of events at most, but for one: a JSON
    /// object.
    pub(crate) async fn events_page(
        &self,
        id: IdText<'_>,
        query: &EventsQuery,
        bytes_max: usize,
        reader: Reader,
    ) -> Result<String, ApiProblem> {
        events_page(&self.router, id, query, bytes_max, reader).await.map_err(problem)
    }
}

fn problem(no_page: NoPage) -> ApiProblem {
    match no_page {
        NoPage::Unread(why) => ApiProblem::unavailable(format!(
            "{} Try again; the server's log says more.",
            sentence(&why)
        )),
        asked => ApiProblem::bad_request(asked.to_string()),
    }
}
