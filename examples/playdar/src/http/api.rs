//! `/api/?method=…`: what clients ask, in both spellings of the two old daemons.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query as Parsed, State};
use axum::http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, ORIGIN, VARY};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};

use super::reply::{callback, refuse, reply};
use super::{App, Parameters, Shared, comet, guard};
use crate::model::{Query, check_id};
use crate::pipeline::{Refused, Results};

/// What clients compare: playdar.js wants at least this.
const VERSION: &str = "0.1.1";

/// How often `get_results` is asked, in milliseconds, and how many times: both as the old daemon
/// says, and under the old daemon's other name as Tomahawk says.
const POLL_INTERVAL_MS: u64 = 1000;
const POLL_LIMIT: u64 = 6;
const REFRESH_INTERVAL_MS: u64 = 1000;

/// How long `get_results_long` waits: by default, and at most.
const LONG_DEFAULT_MS: u64 = 4000;
const LONG_MAX_MS: u64 = 60_000;

/// Answers a call.
pub(super) async fn answer(
    State(app): Shared,
    headers: HeaderMap,
    Parsed(parameters): Parsed<Parameters>,
) -> Response {
    let callback = match callback(&parameters) {
        Ok(callback) => callback,
        Err(refusal) => return *refusal,
    };
    let needs_token = callback.is_some() || guard::is_foreign(&headers);
    let is_let_in = guard::is_let_in(&app, &parameters, needs_token);
    let call = Call { app: &app, parameters: &parameters, callback };
    let mut response = match parameters.get("method").map(String::as_str) {
        Some("stat") => call.stat(is_let_in),
        Some(_) if !is_let_in => {
            let what = "pages need a token, given as auth=TOKEN: /auth_1/ grants one";
            refuse(StatusCode::FORBIDDEN, what)
        }
        Some("resolve") => call.resolve(),
        Some("get_results") => call.results(true),
        Some("get_results_long") => call.results_long().await,
        Some("cancel") => call.cancel(),
        Some("comet") => comet::answer(&app, &parameters, callback),
        Some(_) => refuse(
            StatusCode::NOT_FOUND,
            "no such method: stat, resolve, get_results, get_results_long, cancel and comet are",
        ),
        None => refuse(StatusCode::BAD_REQUEST, "method is missing: try /api/?method=stat"),
    };
    // A page with a token may read the answer without JSONP.
    if is_let_in && let Some(origin) = headers.get(ORIGIN) {
        response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        response.headers_mut().insert(VARY, HeaderValue::from_static("Origin"));
    }
    response
}

struct Call<'c> {
    app: &'c Arc<App>,
    parameters: &'c Parameters,
    callback: Option<&'c str>,
}

impl Call<'_> {
    fn reply(&self, value: &Value) -> Response {
        reply(self.callback, value)
    }

    fn text(&self, name: &str) -> &str {
        self.parameters.get(name).map(String::as_str).unwrap_or_default()
    }

    fn stat(&self, is_let_in: bool) -> Response {
        let mut stat = json!({"name": "playdar", "version": VERSION, "authenticated": is_let_in});
        if is_let_in {
            let parts = &self.app.parts;
            let resolvers: Vec<Value> = parts
                .pipeline
                .profiles()
                .iter()
                .map(|profile| {
                    json!({
                        "name": profile.name,
                        "weight": profile.weight,
                        "targettime": profile.target_time.as_millis() as u64,
                        "localonly": profile.is_local_only,
                    })
                })
                .collect();
            stat["hostname"] = parts.name.clone().into();
            stat["capabilities"] = json!([]);
            stat["streams"] = parts.streams.clone().into();
            stat["resolvers"] = resolvers.into();
            stat["songs"] = parts.library.songs().into();
            if !parts.examples.is_null() {
                stat["examples"] = parts.examples.clone();
            }
        }
        self.reply(&stat)
    }

    fn resolve(&self) -> Response {
        let mimetypes = self.text("mimetypes").split(',').map(str::trim);
        let query = Query {
            qid: self.text("qid").to_owned(),
            artist: self.text("artist").to_owned(),
            track: self.text("track").to_owned(),
            album: self.parameters.get("album").cloned(),
            mimetypes: mimetypes.filter(|one| !one.is_empty()).map(str::to_owned).collect(),
            is_local: true,
        };
        let session = self.text("comet");
        if !session.is_empty()
            && let Err(invalid) = check_id("comet", session)
        {
            return refuse(StatusCode::BAD_REQUEST, &invalid.to_string());
        }
        match self.app.parts.pipeline.resolve(query) {
            Ok(qid) => {
                if !session.is_empty()
                    && let Some(watch) = self.app.parts.pipeline.watch(&qid)
                {
                    self.app.sessions.feed(session, watch);
                }
                self.reply(&json!({"qid": qid}))
            }
            Err(refused @ Refused::Invalid(_)) => {
                refuse(StatusCode::BAD_REQUEST, &refused.to_string())
            }
            Err(refused @ Refused::Full) => {
                refuse(StatusCode::SERVICE_UNAVAILABLE, &refused.to_string())
            }
        }
    }

    fn results(&self, polls: bool) -> Response {
        match self.app.parts.pipeline.results(self.text("qid")) {
            Some(results) => self.reply(&as_json(&results, polls)),
            None => unknown_query(),
        }
    }

    /// Waits for what solves the query, and answers what there is when the time is over.
    async fn results_long(&self) -> Response {
        let wait = match self.parameters.get("timeout").map(|text| text.parse::<u64>()) {
            None => LONG_DEFAULT_MS,
            Some(Ok(wait)) => wait.min(LONG_MAX_MS),
            Some(Err(_)) => {
                let what = "timeout is no number of milliseconds: 4000 is usual, 60000 the most";
                return refuse(StatusCode::BAD_REQUEST, what);
            }
        };
        let Some(mut watch) = self.app.parts.pipeline.watch(self.text("qid")) else {
            return unknown_query();
        };
        watch.solved_within(Duration::from_millis(wait)).await;
        self.results(false)
    }

    fn cancel(&self) -> Response {
        match self.app.parts.pipeline.cancel(self.text("qid")) {
            true => self.reply(&json!({"status": "OK"})),
            false => unknown_query(),
        }
    }
}

fn unknown_query() -> Response {
    refuse(StatusCode::NOT_FOUND, "no such query: it ended, or qid is not what resolve answered")
}

fn as_json(results: &Results, polls: bool) -> Value {
    let Results { query, found, is_solved } = results;
    let mut asked = json!({
        "qid": query.qid,
        "artist": query.artist,
        "album": query.album.as_deref().unwrap_or_default(),
        "track": query.track,
        "mode": "normal",
        "solved": is_solved,
    });
    if !query.mimetypes.is_empty() {
        asked["mimetypes"] = query.mimetypes.clone().into();
    }
    let found: Vec<_> = found.iter().map(|found| &**found).collect();
    let mut value =
        json!({"qid": query.qid, "query": asked, "solved": is_solved, "results": found});
    if polls {
        value["poll_interval"] = POLL_INTERVAL_MS.into();
        value["poll_limit"] = POLL_LIMIT.into();
        value["refresh_interval"] = REFRESH_INTERVAL_MS.into();
    }
    value
}
