//! Logging in and out of the dashboard: `GET` and `POST /session`, `POST /session/end`.
//!
//! The page is one form that works without a script. It posts the key once; what the browser keeps
//! is a cookie that no script can read (`HttpOnly`) and that no page of another site causes to be
//! sent (`SameSite=Strict`, RFC 6265bis). To a browser another port of the same host is the same
//! site, so a change by a cookie must also name the dashboard's own origin: the cookie alone
//! authorizes nothing but looking.

use std::sync::Arc;

use auth::keys::ring::Known;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use httpd::body::read_whole;
use httpd::exchange::Peer;
use httpd::origin;
use httpd::problem::ApiProblem;
use percent_encoding::percent_decode_str;
use sha2::{Digest, Sha256};

use super::access::{Access, COOKIE, PATH, Refusal, SESSION_TIME, cookie};
use super::state::Api;

/// The largest form: a key has 62 bytes.
const FORM_BYTES_MAX: usize = 1024;

const PAGE: &str = include_str!("session.html");

/// What the page says first.
const WELCOME: &str = "This server needs a key. Make one with encke key new, on its host.";
const NOT_NEEDED: &str = "No key was made for this server, so none is needed: open the dashboard.";

/// The page on which one logs in.
pub(super) async fn page(State(api): State<Arc<Api>>) -> Response {
    let note = match api.access.ring.known() {
        Known::None => NOT_NEEDED,
        Known::Keys(_) | Known::Unusable => WELCOME,
    };
    with_note(StatusCode::OK, note)
}

/// Begins a session for who shows a key.
pub(super) async fn begin(
    State(api): State<Arc<Api>>,
    request: Request,
) -> Result<Response, ApiProblem> {
    let access = &api.access;
    own_page(access, &request)?;
    if matches!(access.ring.known(), Known::None) {
        return Ok(Redirect::to("/").into_response());
    }
    let (peer, is_secure) = (access.client(&request), is_over_tls(&request));
    let form = read_whole(request.into_body(), FORM_BYTES_MAX, &api.idle_limit).await?;
    let key = match access.key(key_in(&form).as_deref(), peer).await {
        Ok(key) => key,
        Err(refusal) => {
            let problem = access.refuse(refusal);
            return Ok(with_note(problem.status(), problem.detail()));
        }
    };
    let cookie = access.sessions.begin(&key.id).map_err(|_| ApiProblem::starting_or_stopping())?;
    tracing::info!(id = key.id, "a session of the dashboard begins");
    Ok(with_cookie(&cookie, SESSION_TIME.as_secs(), is_secure, "/"))
}

/// Ends the session.
pub(super) async fn end(
    State(api): State<Arc<Api>>,
    request: Request,
) -> Result<Response, ApiProblem> {
    own_page(&api.access, &request)?;
    if let Some(cookie) = cookie(request.headers()) {
        api.access.sessions.end(cookie);
    }
    Ok(with_cookie("", 0, is_over_tls(&request), PATH))
}

/// Nobody else's page may log somebody in or out.
fn own_page(access: &Access, request: &Request) -> Result<(), ApiProblem> {
    match origin::is_own(request.uri(), request.headers()) {
        true => Ok(()),
        false => Err(access.refuse(Refusal::ForeignPage)),
    }
}

/// Whether the browser came by TLS: to us, or to a proxy before us, when it says so in the origin.
fn is_over_tls(request: &Request) -> bool {
    let origin = request.headers().get(header::ORIGIN).map(HeaderValue::as_bytes);
    Peer::is_over_tls(request) || origin.is_some_and(|origin| origin.starts_with(b"https://"))
}

/// The member `key` of a form (`application/x-www-form-urlencoded`).
fn key_in(form: &[u8]) -> Option<String> {
    let form = str::from_utf8(form).ok()?;
    let key = form.split('&').find_map(|pair| pair.strip_prefix("key="))?.replace('+', " ");
    Some(percent_decode_str(&key).decode_utf8().ok()?.trim().to_owned())
}

fn with_cookie(cookie: &str, seconds: u64, is_secure: bool, to: &str) -> Response {
    let secure = if is_secure { "; Secure" } else { "" };
    let cookie =
        format!("{COOKIE}={cookie}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    let fields = [(header::SET_COOKIE, cookie), (header::CACHE_CONTROL, "no-store".into())];
    (fields, Redirect::to(to)).into_response()
}

/// The page with a sentence of our own. `same-origin` and not `no-referrer`, which would make the
/// form's origin `null` (Fetch Standard, "append a request `Origin` header").
fn with_note(status: StatusCode, note: &str) -> Response {
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; form-action 'self'; base-uri 'none'; \
         frame-ancestors 'none'",
        style_hash()
    );
    let fields = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, policy.as_str()),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "same-origin"),
    ];
    (status, fields, PAGE.replacen("NOTE", note, 1)).into_response()
}

/// Of what stands between the style's tags (CSP Level 3, section 2.3.1).
fn style_hash() -> String {
    let style = PAGE.split_once("<style>").and_then(|(_, rest)| rest.split_once("</style>"));
    STANDARD.encode(Sha256::digest(style.map_or("", |(style, _)| style)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_read_out_of_a_form() {
        for (form, key) in [
            ("key=encke_a_b", Some("encke_a_b")),
            ("x=1&key=+encke_a_b%0A", Some("encke_a_b")),
            ("akey=1", None),
            ("", None),
        ] {
            assert_eq!(key_in(form.as_bytes()).as_deref(), key, "{form}");
        }
    }
}
