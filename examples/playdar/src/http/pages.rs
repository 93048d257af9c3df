//! The pages and what is little: queries, quick play, the roster, files.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::{ALLOW, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Form, body::Body};
use serde_json::json;

use super::html::{Cell, form, page, table};
use super::reply::refuse;
use super::{Parameters, Shared, guard};
use crate::lan::Lan;
use crate::model::Query;

/// How long quick play waits for what is exact.
const QUICKPLAY_WAIT: Duration = Duration::from_secs(2);

/// `GET /queries`.
pub(super) async fn queries(State(app): Shared) -> Response {
    let rows = app.parts.pipeline.queries().into_iter().map(|(query, progress)| {
        vec![
            Cell::Link(format!("/queries/{}", query.qid), query.qid.clone()),
            Cell::Text(query.artist.clone()),
            Cell::Text(query.track.clone()),
            Cell::Text(progress.results.to_string()),
            Cell::Text(if progress.is_solved { "yes" } else { "no" }.to_owned()),
        ]
    });
    page("Queries", &table(&["Query", "Artist", "Track", "Results", "Solved"], rows))
}

/// `GET /queries/QID`.
pub(super) async fn query(State(app): Shared, Path(qid): Path<String>) -> Response {
    let Some(results) = app.parts.pipeline.results(&qid) else { return no_query() };
    let rows = results.found.iter().map(|found| {
        vec![
            Cell::Link(format!("/sid/{}", found.sid), found.track.clone()),
            Cell::Text(found.artist.clone()),
            Cell::Text(found.album.clone()),
            Cell::Text(format!("{:.2}", found.score.unwrap_or(0.0))),
            Cell::Text(found.source.clone()),
        ]
    });
    let found = table(&["Track", "Artist", "Album", "Score", "Source"], rows);
    let fields = [("qid", &*qid), ("cancel_query", "1")];
    let cancel = form(&format!("/queries/{qid}"), &fields, "Cancel this query");
    let title = format!("{} by {}", results.query.track, results.query.artist);
    page(&title, &format!("{found}{cancel}"))
}

/// `POST /queries/QID` with `cancel_query`.
pub(super) async fn cancel(
    State(app): Shared,
    Path(qid): Path<String>,
    headers: HeaderMap,
    Form(parameters): Form<Parameters>,
) -> Response {
    if guard::is_foreign(&headers) {
        return refuse(StatusCode::FORBIDDEN, "only the daemon's own page can cancel a query");
    }
    if !parameters.contains_key("cancel_query") {
        return refuse(StatusCode::BAD_REQUEST, "cancel_query is missing");
    }
    match app.parts.pipeline.cancel(&qid) {
        true => (StatusCode::SEE_OTHER, [(LOCATION, "/queries")]).into_response(),
        false => no_query(),
    }
}

fn no_query() -> Response {
    refuse(StatusCode::NOT_FOUND, "no such query: it has ended")
}

/// `GET /quickplay/ARTIST/ALBUM/TRACK`: to the best result of two seconds.
pub(super) async fn quickplay(
    State(app): Shared,
    headers: HeaderMap,
    Path((artist, album, track)): Path<(String, String, String)>,
) -> Response {
    if guard::is_foreign(&headers) {
        return refuse(StatusCode::FORBIDDEN, "pages ask with a token: /api/?method=resolve");
    }
    let query = Query { artist, track, album: Some(album), is_local: true, ..Query::default() };
    let pipeline = &app.parts.pipeline;
    let qid = match pipeline.resolve(query) {
        Ok(qid) => qid,
        Err(refused) => return refuse(StatusCode::BAD_REQUEST, &refused.to_string()),
    };
    if let Some(mut watch) = pipeline.watch(&qid) {
        watch.solved_within(QUICKPLAY_WAIT).await;
    }
    let best = pipeline.results(&qid).and_then(|results| results.found.first().cloned());
    match best {
        Some(best) => {
            let to = format!("/sid/{}", best.sid);
            (StatusCode::FOUND, [(LOCATION, to)]).into_response()
        }
        None => refuse(StatusCode::NOT_FOUND, "nobody has it"),
    }
}

/// `GET /lan/roster`.
pub(super) async fn roster(State(app): Shared) -> Response {
    let peers = app.parts.lan.lock().as_ref().map(Lan::roster).unwrap_or_default();
    Json(json!(peers)).into_response()
}

/// The page's files, and whatever is not there.
pub(super) async fn file(State(app): Shared, method: Method, uri: Uri) -> Response {
    let Some((kind, bytes)) = crate::page::file(uri.path()) else {
        return refuse(StatusCode::NOT_FOUND, "nothing is here: try / or /api/?method=stat");
    };
    if method != Method::GET && method != Method::HEAD {
        return wrong_method().await;
    }
    let policy = crate::page::policy(&app.parts.streams);
    let headers = [(CONTENT_TYPE, kind.to_owned()), (CONTENT_SECURITY_POLICY, policy)];
    (headers, Body::from(bytes)).into_response()
}

/// What is there answers to other methods.
pub(super) async fn wrong_method() -> Response {
    let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, "ask with GET here, or POST a form");
    let methods = HeaderValue::from_static("GET, HEAD");
    response.headers_mut().entry(ALLOW).or_insert(methods);
    response
}
