//! `/1/submit-listens` and `/1/validate-token`: a scrobbler tells what the person at this machine
//! listens to, in the form of ListenBrainz, which many players and scrobblers speak.
//!
//! The token is one that `/auth_1/` grants. A page of another origin cannot send the header that it
//! stands in, since its browser would ask before, and nobody says yes.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;

use super::reply::{reply, script_safe};
use super::{App, Shared};
use crate::listens::Listen;

/// A submission, as far as we read it.
#[derive(Deserialize)]
struct Submission {
    listen_type: String,
    payload: Vec<Submitted>,
}

#[derive(Deserialize)]
struct Submitted {
    listened_at: Option<u64>,
    track_metadata: TrackMetadata,
}

#[derive(Deserialize)]
struct TrackMetadata {
    artist_name: String,
    track_name: String,
    release_name: Option<String>,
}

/// `POST /1/submit-listens`.
pub(super) async fn submit(State(app): Shared, headers: HeaderMap, body: Bytes) -> Response {
    if !has_token(&app, &headers) {
        let what = "give a token as `Authorization: Token TOKEN`: /auth_1/ grants one";
        return failed(StatusCode::UNAUTHORIZED, what);
    }
    let listen = match read(&body) {
        Ok(listen) => listen,
        Err(what) => return failed(StatusCode::BAD_REQUEST, &what),
    };
    match app.parts.listens.tell(&listen).await {
        Ok(()) => reply(None, &json!({"status": "ok"})),
        Err(error) => {
            tracing::warn!("a song is not told by streams: {error:#}");
            failed(StatusCode::SERVICE_UNAVAILABLE, "the streams do not take it: try again")
        }
    }
}

/// `GET /1/validate-token`: whether the token is good, and who we are.
pub(super) async fn validate(State(app): Shared, headers: HeaderMap) -> Response {
    let answer = match has_token(&app, &headers) {
        true => json!({"code": 200, "message": "Token valid.", "valid": true,
            "user_name": app.parts.name}),
        false => json!({"code": 200, "message": "Token invalid.", "valid": false}),
    };
    reply(None, &answer)
}

/// Whether the request shows a token that was granted: `Authorization: Token TOKEN`.
fn has_token(app: &App, headers: &HeaderMap) -> bool {
    let shown = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = shown.and_then(|shown| shown.split_once(' '));
    let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("token"));
    token.is_some_and(|(_, token)| app.parts.auth.is_good(token.trim()))
}

/// The song of a submission, or what is wrong with it.
fn read(body: &[u8]) -> Result<Listen, String> {
    let Submission { listen_type, payload } =
        serde_json::from_slice(body).map_err(|error| format!("this is no submission: {error}"))?;
    let is_over = match listen_type.as_str() {
        "playing_now" => false,
        "single" => true,
        _ => return Err("listen_type is playing_now or single: no past is kept here".to_owned()),
    };
    let Ok([Submitted { listened_at, track_metadata: names }]) = <[_; 1]>::try_from(payload) else {
        return Err("payload has one song".to_owned());
    };
    if is_over && listened_at.is_none() {
        return Err("listened_at is missing: give seconds since 1970".to_owned());
    }
    let TrackMetadata { artist_name, track_name, release_name } = names;
    let listened_at = listened_at.filter(|_| is_over);
    Listen::new(artist_name, track_name, release_name, listened_at).map_err(|e| e.to_string())
}

/// A refusal as ListenBrainz words it.
fn failed(status: StatusCode, what: &str) -> Response {
    let body = script_safe(&json!({"code": status.as_u16(), "error": what}));
    (status, [(CONTENT_TYPE, "application/json; charset=utf-8")], body).into_response()
}
