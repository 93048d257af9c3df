//! Whom a request speaks to: the API answers to its own names alone.
//!
//! A page whose name was made to lead to this machine is of the same origin as the API for its
//! browser. So [`super::origin`] hears of no other origin, or of none at all. What tells it apart
//! is the name that its requests use; see [`Hosts`]. So every request must name a host, once, in
//! the way of its version of HTTP, and one that names another is misdirected (RFC 9110, section
//! 15.5.20).

use std::sync::{Arc, PoisonError, RwLock};

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, Version, header};
use axum::middleware::Next;
use axum::response::Response;
use proto::request::Hosts;

use super::problem::ApiProblem;

/// What the API is called, which may be set while it serves.
pub type ApiHosts = Arc<RwLock<Hosts>>;

fn include(hosts: &RwLock<Hosts>, host: &str) -> bool {
    hosts.read().unwrap_or_else(PoisonError::into_inner).include(host)
}

/// Whether the one `Host` field of a request of HTTP/1.1 calls the API by its name.
pub fn is_ours(hosts: &RwLock<Hosts>, field: &str) -> bool {
    is_host(field) && include(hosts, field)
}

/// Refuses requests that call the API by a name that is not its own.
pub async fn guard(
    State(hosts): State<ApiHosts>,
    request: Request,
    next: Next,
) -> Result<Response, ApiProblem> {
    let called = called(request.version(), request.uri(), request.headers());
    match called.map_err(ApiProblem::bad_request)? {
        Some(host) if !include(&hosts, host) => Err(ApiProblem::misdirected()),
        _ => Ok(next.run(request).await),
    }
}

/// Whom the client of a request that [`guard`] has let through believes to speak to; empty when it
/// does not say.
pub fn host<'r>(uri: &'r Uri, headers: &'r HeaderMap) -> &'r str {
    called(Version::HTTP_10, uri, headers).ok().flatten().unwrap_or_default()
}

/// The host of a request, or what is wrong with it. HTTP/1.1 has it in one `Host` field, also where
/// the target names it (RFC 9112, section 3.2); HTTP/2 in the target, and a `Host` field beside
/// that must say the same (RFC 9113, section 8.3.1). HTTP/1.0 may leave it out; no browser speaks
/// that.
fn called<'r>(
    version: Version,
    uri: &'r Uri,
    headers: &'r HeaderMap,
) -> Result<Option<&'r str>, &'static str> {
    let mut fields = headers.get_all(header::HOST).iter();
    let field = match fields.next().map(|field| field.to_str()) {
        Some(Ok(field)) if is_host(field) => Some(field),
        Some(_) => return Err("The Host field is no host. Send a name and perhaps a port."),
        None => None,
    };
    if fields.next().is_some() {
        return Err("A request has one Host field. Leave the other out.");
    }
    let target = uri.authority().map(Authority::as_str);
    match (target, field) {
        (Some(target), Some(field)) if !target.eq_ignore_ascii_case(field) => {
            Err("The Host field and the target name two hosts. Name the same one.")
        }
        (_, None) if version == Version::HTTP_11 => {
            Err("A request of HTTP/1.1 has a Host field. Add one.")
        }
        (None, None) if version > Version::HTTP_11 => {
            Err("A request of HTTP/2 has an :authority. Add one.")
        }
        (target, field) => Ok(target.or(field)),
    }
}

/// Whether it is a host as a field may name it: without a user (RFC 9110, section 4.2.4).
fn is_host(text: &str) -> bool {
    !text.contains('@') && text.parse::<Authority>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `None` for what is refused.
    fn read(version: Version, target: &str, fields: &[&str]) -> Option<Option<String>> {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(header::HOST, field.parse().unwrap());
        }
        let uri = target.parse().unwrap();
        called(version, &uri, &headers).ok().map(|host| host.map(str::to_owned))
    }

    #[test]
    fn host_is_named_once_in_the_way_of_the_version() {
        let push = Some(Some("push.test".to_owned()));
        for (version, target, fields, host) in [
            (Version::HTTP_11, "/", &["push.test"][..], push.clone()),
            (Version::HTTP_11, "http://push.test/", &["push.test"], push.clone()),
            (Version::HTTP_11, "http://push.test/", &["PUSH.test"], push.clone()),
            (Version::HTTP_11, "/", &[], None),
            (Version::HTTP_11, "http://push.test/", &[], None),
            (Version::HTTP_11, "http://push.test/", &["evil.test"], None),
            (Version::HTTP_11, "/", &["push.test", "push.test"], None),
            (Version::HTTP_11, "/", &["push.test", "evil.test"], None),
            (Version::HTTP_11, "/", &["evil@push.test"], None),
            (Version::HTTP_11, "/", &["push.test/x"], None),
            (Version::HTTP_11, "/", &[""], None),
            (Version::HTTP_10, "/", &["push.test"], push.clone()),
            (Version::HTTP_10, "/", &[], Some(None)),
            (Version::HTTP_10, "/", &["push.test", "push.test"], None),
            (Version::HTTP_2, "http://push.test/", &[], push.clone()),
            (Version::HTTP_2, "http://push.test/", &["push.test"], push.clone()),
            (Version::HTTP_2, "http://push.test/", &["evil.test"], None),
            (Version::HTTP_2, "/", &["push.test"], push.clone()),
            (Version::HTTP_2, "/", &[], None),
        ] {
            assert_eq!(read(version, target, fields), host, "{version:?} {target} {fields:?}");
        }
    }
}
