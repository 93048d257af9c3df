//! Answers with a file that the program carries.
//!
//! Browsers keep it and ask each time whether it is still the same (`no-cache` with an entity tag):
//! on a private port that costs less than a page of yesterday's program beside today's API.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::web::Asset;

/// What every such answer says beside its entity tag. `nosniff`: it is of the type that it says.
const FIELDS: [(HeaderName, &str); 4] = [
    (header::CACHE_CONTROL, "no-cache"),
    (header::VARY, "Accept-Encoding"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
];

/// `asset` for a request with `headers`: compressed where the client takes that, and without a body
/// where it has this version already (RFC 9110, section 13.1.2).
pub(crate) fn answer(asset: &'static Asset, headers: &HeaderMap) -> Response {
    let etag = asset.etag();
    let mut response = if has_already(headers, &etag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let content_type = (header::CONTENT_TYPE, asset.content_type);
        if takes_gzip(headers) {
            ([content_type, (header::CONTENT_ENCODING, "gzip")], asset.gzip.as_slice())
                .into_response()
        } else {
            ([content_type], asset.plain).into_response()
        }
    };
    let fields = response.headers_mut();
    for (name, value) in FIELDS {
        fields.insert(name, HeaderValue::from_static(value));
    }
    fields.insert(header::ETAG, etag.parse().expect("a tag is hexadecimal digits in quotes"));
    response
}

/// The members of all lists in the fields `name`.
fn members(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let lists = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).map(str::trim)
}

fn has_already(headers: &HeaderMap, etag: &str) -> bool {
    let opaque = |tag: &str| tag.trim_start_matches("W/").to_owned();
    members(headers, header::IF_NONE_MATCH).any(|tag| tag == "*" || opaque(tag) == opaque(etag))
}

/// A coding with the weight 0 is one that the client does not take (RFC 9110, section 12.5.3).
fn takes_gzip(headers: &HeaderMap) -> bool {
    members(headers, header::ACCEPT_ENCODING).any(|member| {
        let (coding, parameters) = member.split_once(';').unwrap_or((member, ""));
        let weight = parameters.trim().strip_prefix("q=").map(str::parse::<f32>);
        let refused = matches!(weight, Some(Ok(0.0) | Err(_)));
        coding.trim().eq_ignore_ascii_case("gzip") && !refused
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::ICON;

    fn asked(name: HeaderName, value: &str) -> Response {
        let headers = HeaderMap::from_iter([(name, value.parse().unwrap())]);
        answer(&ICON, &headers)
    }

    #[test]
    fn gzip_is_sent_to_those_who_take_it() {
        for (accepted, gzip) in [
            ("gzip", true),
            ("deflate, gzip;q=0.5, br", true),
            ("GZIP", true),
            ("gzip;q=0", false),
            ("gzip; q=0.000", false),
            ("identity", false),
            ("xgzip", false),
            ("", false),
        ] {
            let response = asked(header::ACCEPT_ENCODING, accepted);
            let coding = response.headers().get(header::CONTENT_ENCODING);
            assert_eq!(coding.is_some(), gzip, "{accepted}");
            assert_eq!(response.headers()[header::VARY], "Accept-Encoding");
        }
    }

    #[test]
    fn version_that_the_client_has_is_not_sent_again() {
        let etag = ICON.etag();
        let strong = etag.trim_start_matches("W/");
        for (known, status) in [
            (etag.as_str(), 304),
            (strong, 304),
            ("*", 304),
            (&format!("\"a\", {etag}"), 304),
            ("\"a\"", 200),
        ] {
            let response = asked(header::IF_NONE_MATCH, known);
            assert_eq!(response.status(), status, "{known}");
            assert_eq!(response.headers()[header::ETAG], etag);
        }
    }
}
