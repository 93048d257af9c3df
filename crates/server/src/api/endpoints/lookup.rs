//! Look-ups: who follows an id, whom it follows, whether it is online, and who is logged in there.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::header;
use axum::response::IntoResponse;
use dispatch::cluster::NoList;
use dispatch::members::list_text;
use graph::{Page, ReadError};
use httpd::json::Json;
use httpd::path::PathId;
use httpd::problem::ApiProblem;
use hub::{Id, IdText, MemberList};
use proto::Problem;
use serde::{Deserialize, Serialize};

use crate::api::state::Api;

/// Ids of a page, when the client does not say how many, and at most.
const LIMIT_DEFAULT: usize = 1000;
const LIMIT_MAX: usize = 10_000;

/// Which page of a list.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct PageQuery {
    limit: Option<String>,
    after: Option<String>,
}

impl PageQuery {
    fn limit(&self) -> Result<usize, ApiProblem> {
        let Some(text) = &self.limit else { return Ok(LIMIT_DEFAULT) };
        let limit = text.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
        let wrong = || ApiProblem::bad_request(format!("limit is a number from 1 to {LIMIT_MAX}."));
        limit.ok_or_else(wrong)
    }

    /// Where the page starts.
    fn after(&self) -> Result<Option<Id>, ApiProblem> {
        let Some(text) = &self.after else { return Ok(None) };
        let wrong = || {
            ApiProblem::bad_request(
                "after is the `next` of the page before, 16 hexadecimal digits: give it as it \
                 came, or leave it out to start again.",
            )
        };
        place_of(text).map(Some).ok_or_else(wrong)
    }
}

/// A page of ids, as text.
#[derive(Debug, Serialize)]
pub(crate) struct PageBody {
    ids: Vec<String>,
    /// What to give as `after` to go on; null on the last page. It is the place itself, and not the
    /// id that stands there: a name is forgotten when nothing refers to it any more.
    next: Option<String>,
}

type PageResult = Result<Json<PageBody>, ApiProblem>;
type QueryResult = Result<Query<PageQuery>, QueryRejection>;

/// Who follows an id.
pub(crate) async fn subscribers(
    State(api): State<Arc<Api>>,
    PathId(id): PathId,
    query: QueryResult,
) -> PageResult {
    page(&api, id.as_text(), &query?.0, |id, after, limit| {
        api.graph.page_followers(id, after, limit)
    })
}

/// Whom an id follows.
pub(crate) async fn subscriptions(
    State(api): State<Arc<Api>>,
    PathId(id): PathId,
    query: QueryResult,
) -> PageResult {
    page(&api, id.as_text(), &query?.0, |id, after, limit| {
        api.graph.page_following(id, after, limit)
    })
}

fn page(
    api: &Api,
    id: IdText<'_>,
    query: &PageQuery,
    read: impl Fn(Id, Option<Id>, usize) -> Result<Page, ReadError>,
) -> PageResult {
    let (limit, after) = (query.limit()?, query.after()?);
    let names = api.router.names();
    let Some(id) = names.lookup(id) else {
        return Ok(Json(PageBody { ids: Vec::new(), next: None }));
    };
    let page = read(id, after, limit)?;
    // A name can go between the look-up and here; then it is nobody's subscriber any more.
    let ids = page.ids.into_iter().filter_map(|id| names.text(id)).collect();
    Ok(Json(PageBody { ids, next: page.next.map(place) }))
}

/// A place in a list, as text.
fn place(id: Id) -> String {
    format!("{:016x}", id.to_bits())
}

/// The place that [`place`] wrote.
fn place_of(text: &str) -> Option<Id> {
    let digits = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let bits = digits.then(|| u64::from_str_radix(text, 16).ok())??;
    Some(Id::from_bits(bits))
}

/// How many connections an id has.
#[derive(Debug, Serialize)]
pub(crate) struct Connections {
    connections: u64,
    /// There may be more: a node of the cluster has not answered.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    at_least: bool,
}

pub(crate) async fn connections(
    State(api): State<Arc<Api>>,
    PathId(id): PathId,
) -> Json<Connections> {
    let (connections, at_least) = api.sender.connections(id.as_text()).await;
    Json(Connections { connections, at_least })
}

/// Who is logged in under an id, by the subjects of their tokens.
pub(crate) async fn members(
    State(api): State<Arc<Api>>,
    PathId(id): PathId,
) -> Result<impl IntoResponse, ApiProblem> {
    let id = id.as_text();
    let list = match (api.watches(), api.tokens()) {
        (Some(watches), _) => {
            let list = api.sender.room_list(watches, id).await;
            list.map_err(|error: NoList| ApiProblem::unavailable(error.to_string()))?
        }
        (None, Some(_)) => return Err(Problem::members_off().into()),
        (None, None) => {
            let nobody = MemberList { count: 0, members: Some(Vec::new()) };
            list_text(&id.to_string(), &nobody).into()
        }
    };
    Ok(([(header::CONTENT_TYPE, "application/json")], format!("{list}\n")))
}
