//! `/auth_1/`, `/auth_2/` and the list of granted tokens.

use axum::Form;
use axum::extract::{Query as Parsed, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::html::{Cell, escaped, form, page, table};
use super::reply::{callback, refuse, reply};
use super::{Parameters, Shared, guard};
use crate::auth::Asker;
use crate::model::FIELD_BYTES_MAX;

/// Bytes of the address that a token is brought to.
const RECEIVER_BYTES_MAX: usize = 2048;

/// What a page says when it asks for a token.
struct AccessRequest {
    asker: Asker,
    receiver: Option<String>,
    wants_json: bool,
}

/// `GET /auth_1/`: shows a person who asks, and a form to allow it; or answers the form's token to
/// a program of this machine.
pub(super) async fn ask(
    State(app): Shared,
    headers: HeaderMap,
    Parsed(parameters): Parsed<Parameters>,
) -> Response {
    let asked = match asked(&parameters) {
        Ok(asked) => asked,
        Err(refusal) => return *refusal,
    };
    // A page opens the form for a person, and never gets hold of its token itself.
    if asked.wants_json && guard::is_foreign(&headers) {
        return refuse(
            StatusCode::FORBIDDEN,
            "a page cannot have the form's token: leave out json",
        );
    }
    let AccessRequest { asker, receiver, wants_json } = asked;
    let form_token = app.parts.auth.form(asker.clone());
    if wants_json {
        return reply(None, &json!({"formtoken": form_token}));
    }
    let Asker { website, name } = &asker;
    let mut fields = vec![("website", &**website), ("name", name), ("formtoken", &form_token)];
    let receiver = receiver.unwrap_or_default();
    let mut brings = String::new();
    if !receiver.is_empty() {
        fields.push(("receiverurl", &receiver));
        brings = format!("<p>The answer is brought to <code>{}</code>.</p>", escaped(&receiver));
    }
    let body = format!(
        "<p><strong>{}</strong> at <code>{}</code> wants to ask this Playdar where songs can be \
         heard, and to play what it finds.</p>{brings}{}<p><a href=\"/\">Deny</a></p>",
        escaped(name),
        escaped(website),
        form("/auth_2/", &fields, "Allow"),
    );
    page("Allow this page?", &body)
}

/// `POST /auth_2/`: grants a token to whom the form was shown for.
pub(super) async fn grant(
    State(app): Shared,
    headers: HeaderMap,
    Form(parameters): Form<Parameters>,
) -> Response {
    if guard::is_foreign(&headers) {
        return refuse(StatusCode::FORBIDDEN, "only the form at /auth_1/ can grant a token");
    }
    let AccessRequest { asker, receiver, wants_json } = match asked(&parameters) {
        Ok(asked) => asked,
        Err(refusal) => return *refusal,
    };
    let form_token = parameters.get("formtoken").map(String::as_str).unwrap_or_default();
    if !app.parts.auth.take_form(form_token, &asker) {
        let what = "the form is not good any more: it can be used once, within ten minutes";
        return refuse(StatusCode::NOT_FOUND, what);
    }
    let token = match app.parts.auth.grant(&asker) {
        Ok(token) => token,
        Err(error) => {
            tracing::error!(%error, "a token cannot be stored");
            return refuse(StatusCode::INTERNAL_SERVER_ERROR, "the token cannot be stored");
        }
    };
    if let Some(receiver) = receiver {
        return brought(&receiver, &token);
    }
    if wants_json {
        return reply(None, &json!({"authtoken": token}));
    }
    let body = format!("<p>Give this code to the page that asked:</p><p><code>{token}</code></p>");
    page("Allowed", &body)
}

/// Leads the browser to where the page waits for its token.
fn brought(receiver: &str, token: &str) -> Response {
    // A fragment of its own would swallow the token.
    let base = receiver.split('#').next().unwrap_or_default();
    let joint = if base.contains('?') { '&' } else { '?' };
    let to = format!("{base}{joint}authtoken={token}#{token}");
    match HeaderValue::try_from(to) {
        Ok(to) => (StatusCode::MOVED_PERMANENTLY, [(LOCATION, to)]).into_response(),
        Err(_) => refuse(StatusCode::BAD_REQUEST, "receiverurl is no address"),
    }
}

fn asked(parameters: &Parameters) -> Result<AccessRequest, Box<Response>> {
    let refuse = |status, what: &str| Err(Box::new(refuse(status, what)));
    let field = |name| {
        let text = parameters.get(name).map(|text| text.trim()).filter(|text| !text.is_empty());
        text.filter(|text| text.len() <= FIELD_BYTES_MAX && !text.chars().any(char::is_control))
    };
    let (Some(website), Some(name)) = (field("website"), field("name")) else {
        let what = "website and name are missing, too long or have control characters";
        return refuse(StatusCode::NOT_FOUND, what);
    };
    let receiver = parameters.get("receiverurl").filter(|url| !url.is_empty());
    if receiver.is_some_and(|url| !is_address(url)) {
        let what = "receiverurl is no address: give http:// or https:// and plain characters";
        return refuse(StatusCode::BAD_REQUEST, what);
    }
    Ok(AccessRequest {
        asker: Asker { website: website.to_owned(), name: name.to_owned() },
        receiver: receiver.cloned(),
        wants_json: parameters.contains_key("json"),
    })
}

/// Whether the address may stand in a header: printable ASCII, so no line's end, and of the web, so
/// no script.
fn is_address(url: &str) -> bool {
    let small = url.to_ascii_lowercase();
    (small.starts_with("http://") || small.starts_with("https://"))
        && url.len() <= RECEIVER_BYTES_MAX
        && url.bytes().all(|byte| byte.is_ascii_graphic())
}

/// `GET /authcodes` and `/settings/auth`: who has a token, as HTML or with `json` as JSON; with
/// `revoke=TOKEN` takes that token back, which only its holder knows. The list is for the daemon's
/// own page: a page with a token has no business with those of others.
pub(super) async fn list(
    State(app): Shared,
    headers: HeaderMap,
    Parsed(parameters): Parsed<Parameters>,
) -> Response {
    let callback = match callback(&parameters) {
        Ok(callback) => callback,
        Err(refusal) => return *refusal,
    };
    if let Some(token) = parameters.get("revoke") {
        app.parts.auth.revoke(token);
        return match callback {
            Some(callback) => reply(Some(callback), &json!({"status": "OK"})),
            None => (StatusCode::FOUND, [(LOCATION, "/authcodes")]).into_response(),
        };
    }
    let wants_json = parameters.contains_key("json");
    if callback.is_some() || wants_json && guard::is_foreign(&headers) {
        let what = "only the daemon's own page can list the tokens: open /authcodes";
        return refuse(StatusCode::FORBIDDEN, what);
    }
    let granted = match app.parts.auth.granted() {
        Ok(granted) => granted,
        Err(error) => {
            tracing::error!(%error, "the tokens cannot be read");
            return refuse(StatusCode::INTERNAL_SERVER_ERROR, "the tokens cannot be read");
        }
    };
    if wants_json {
        return reply(None, &json!({"authcodes": granted}));
    }
    let rows = granted.into_iter().map(|one| {
        let revoke = form("/authcodes", &[("revoke", &one.id)], "Take back");
        vec![Cell::Text(one.name), Cell::Text(one.website), Cell::Html(revoke)]
    });
    page("Granted tokens", &table(&["Name", "Website", "Take back"], rows))
}

/// `POST /authcodes` with `revoke`, a token or its id.
pub(super) async fn revoke_form(
    State(app): Shared,
    headers: HeaderMap,
    Form(parameters): Form<Parameters>,
) -> Response {
    if guard::is_foreign(&headers) {
        return refuse(StatusCode::FORBIDDEN, "only the daemon's own page can take tokens back");
    }
    let named = parameters.get("revoke").map(String::as_str).unwrap_or_default();
    let auth = &app.parts.auth;
    if !auth.revoke(named) && !auth.revoke_id(named) {
        return refuse(StatusCode::NOT_FOUND, "no such token: give revoke, a token or its id");
    }
    (StatusCode::SEE_OTHER, [(LOCATION, "/authcodes")]).into_response()
}
