//! `/apps/{app_id}/…`: the HTTP API of Pusher Channels, with which backends send events on channels
//! and ask who hears them.
//!
//! Each request is signed by its app's secret, so it needs no key of the API. Its signature is
//! looked at before its body is read: a foreign client makes the server keep nothing. Whoever signs
//! wrong is slowed down by address, as whoever shows wrong keys is.
//!
//! What it does not do: cost a lane. These requests come the library's way, at some 30 µs each.

mod look;
mod trigger;

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{Method, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use engine::{PusherApps, ServedApp, user_key};
use httpd::body::read_whole;
use httpd::problem::ApiProblem;
use hub::IdText;
use proto::Problem;
use pusher::http::{
    ApiRefusal, Call, Route, SignedQuery, Signer, parse_batch, parse_legacy, parse_trigger,
};
use pusher::limits::BATCH_EVENTS_MAX;
use pusher::{App, Channel};
use sys::clock::monotonic_ns;

use super::access::Need;
use super::state::Api;

/// What a body may have beside the data of its events: names of a hundred channels, and members.
const AROUND_BYTES_MAX: usize = 64 * 1024;

/// How much longer data may be as it stands in JSON: a quote has two bytes there, and libraries
/// write what is not ASCII in six.
const ESCAPED: usize = 3;

/// Says how many connections heard what a request has sent.
const DELIVERED: &str = "encke-delivered";

/// Says that a count in an answer may be too low, since a node of the cluster has not answered.
pub(super) const AT_LEAST: &str = "encke-at-least";

/// Its paths, for the router.
pub(super) fn paths() -> Vec<(&'static str, Need, MethodRouter<Arc<Api>>)> {
    let looks = [
        "/apps/{app_id}/channels",
        "/apps/{app_id}/channels/{channel}",
        "/apps/{app_id}/channels/{channel}/users",
        "/apps/{app_id}/connections",
    ];
    let changes = [
        "/apps/{app_id}/events",
        "/apps/{app_id}/batch_events",
        "/apps/{app_id}/channels/{channel}/events",
        "/apps/{app_id}/users/{user_id}/terminate_connections",
        "/users/{user_id}/terminate_connections",
    ];
    let looks = looks.map(|path| (path, Need::Signature, get(call)));
    looks.into_iter().chain(changes.map(|path| (path, Need::Signature, post(call)))).collect()
}

/// Answers a request. One that is refused is told of no other way to say who it is: it signs.
async fn call(State(api): State<Arc<Api>>, request: Request) -> Response {
    answer(api, request).await.unwrap_or_else(|problem| {
        let mut refused = problem.into_response();
        refused.headers_mut().remove(header::WWW_AUTHENTICATE);
        refused
    })
}

/// Answers a request, if there are apps.
async fn answer(api: Arc<Api>, request: Request) -> Result<Response, ApiProblem> {
    let Some(apps) = &api.pusher else { return Err(ApiProblem::not_found()) };
    let peer = api.access.client(&request);
    let (head, body) = request.into_parts();
    // The head goes on as a whole where an upgrade has handed over.
    let uri = head.uri.clone();
    // The router lets nothing else through.
    let method = if head.method == Method::POST { "POST" } else { "GET" };
    let signed = signed(&api, apps, peer, (method, &uri)).await?;
    let bytes = read_whole(body, body_bytes_max(&signed.app.app), &api.idle_limit).await?;
    if let Err(refusal) = signed.query.verify_body(&bytes) {
        api.access.signed_wrong(peer).await;
        return Err(refused(refusal));
    }
    match method {
        "GET" => look::answer(&api, &signed).await.map(|(text, at_least)| json(text, at_least)),
        _ => change(&api, &signed, head, bytes).await,
    }
}

/// A request whose signature is right.
struct SignedRequest<'h> {
    app: ServedApp,
    call: Call<'h>,
    query: SignedQuery,
}

/// Looks at all but the body.
async fn signed<'h>(
    api: &Api,
    apps: &PusherApps,
    peer: IpAddr,
    (method, uri): (&str, &'h Uri),
) -> Result<SignedRequest<'h>, ApiProblem> {
    let path = uri.path();
    let Route { app_id, call } = Route::of(method, path).map_err(refused)?;
    let query = SignedQuery::parse(uri.query().unwrap_or_default()).map_err(refused)?;
    let app = match app_id {
        Some(id) => apps.by_id(id),
        None => query.key().and_then(|key| apps.by_key(key)),
    };
    let app = app.ok_or_else(|| refused(ApiRefusal::NoSuchApp))?;
    api.access.check_pace(peer)?;
    let App { key, secret, is_enabled, .. } = &*app.app;
    let signer = Signer { key, secret, now: sys::clock::unix_ms() / 1000 };
    if let Err(refusal) = query.verify_head(signer, method, path) {
        api.access.signed_wrong(peer).await;
        return Err(refused(refusal));
    }
    match is_enabled {
        true => Ok(SignedRequest { app, call, query }),
        false => Err(refused(ApiRefusal::Disabled)),
    }
}

/// The longest body of a request of this app.
fn body_bytes_max(app: &App) -> usize {
    ESCAPED * BATCH_EVENTS_MAX * app.event_bytes_max + AROUND_BYTES_MAX
}

/// Does what a request asks for, while no upgrade hands over.
async fn change(
    api: &Api,
    signed: &SignedRequest<'_>,
    head: Parts,
    bytes: bytes::Bytes,
) -> Result<Response, ApiProblem> {
    let SignedRequest { app: ServedApp { app, usage }, call, query } = signed;
    let most = app.event_bytes_max;
    let (triggers, is_batch) = match call {
        Call::Events => (parse_trigger(&bytes, most).map(|trigger| vec![trigger]), false),
        Call::BatchEvents => (parse_batch(&bytes, most), true),
        Call::ChannelEvents(channel) => {
            let trigger = parse_legacy(query, channel, &bytes, most);
            (trigger.map(|trigger| vec![trigger]), false)
        }
        _ => (Ok(Vec::new()), false),
    };
    let triggers = triggers.map_err(refused)?;
    let permit = match api.sender.barrier.enter().await {
        Ok(permit) => permit,
        Err(moved) => return moved.answer(head, Body::from(bytes)).await,
    };
    if let Call::TerminateConnections(user) = call {
        let key = user_key(&app.id, user);
        let key = IdText::of_key(&key).map_err(|_| refused(ApiRefusal::UserId))?;
        api.sender.logout(permit, key).await?;
        return Ok(json("{}".to_owned(), false));
    }
    let events = triggers.iter().map(|trigger| trigger.channels.len() as u32).sum();
    usage.send(events, app.events_per_second, monotonic_ns()).map_err(too_many)?;
    let (delivered, is_one_silent) = trigger::post_all(api, permit, app, &triggers).await?;
    let (text, at_least) = trigger::told(api, app, &triggers, is_batch).await;
    let answer = json(text, at_least || is_one_silent);
    Ok(([(DELIVERED, delivered.to_string())], answer).into_response())
}

/// An answer, in which counts may be too low.
fn json(text: String, at_least: bool) -> Response {
    let plain = ([(header::CONTENT_TYPE, "application/json")], text + "\n");
    match at_least {
        true => ([(AT_LEAST, "true")], plain).into_response(),
        false => plain.into_response(),
    }
}

/// A channel that was read and found well formed.
fn well_formed(name: &str) -> Channel<'_> {
    Channel::parse(name).expect("it was checked when it was read")
}

/// The answer to an app that has sent too much and must wait.
fn too_many(wait_ns: u64) -> ApiProblem {
    let seconds = wait_ns.div_ceil(1_000_000_000) as u32;
    let text = "This app sends more events than its max_events_per_second. Send them again later.";
    Problem::too_many(text, seconds).into()
}

/// The answer to what is refused. Libraries show their users its body.
fn refused(refusal: ApiRefusal) -> ApiProblem {
    Problem::new(refusal.status(), refusal.to_string()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_is_one_of_the_protocol() {
        for (path, need, _) in paths() {
            assert_eq!(need, Need::Signature);
            let path = path.replace("{app_id}", "1").replace("{channel}", "presence-a");
            let path = path.replace("{user_id}", "bob");
            let known = ["GET", "POST"].into_iter().filter(|way| Route::of(way, &path).is_ok());
            assert_eq!(known.count(), 1, "{path}");
        }
    }
}
