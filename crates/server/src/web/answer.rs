//! Answers with a file that the program carries.
//!
//! Browsers keep it and ask each time whether it is still the same (`no-cache` with an entity tag).
//! On a private port that costs less than a page of yesterday's program beside today's API.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use proto::negotiation::{accepts_gzip, entity_tag, has_version};

use super::Asset;

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
    let version = asset.version();
    let values = |name| headers.get_all(name).into_iter().map(HeaderValue::as_bytes);
    let mut known = values(header::IF_NONE_MATCH).filter_map(|value| str::from_utf8(value).ok());
    let mut response = if known.any(|known| has_version(known, &version)) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let content_type = (header::CONTENT_TYPE, asset.content_type);
        if values(header::ACCEPT_ENCODING).any(accepts_gzip) {
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
    let tag = entity_tag(&version).parse();
    fields.insert(header::ETAG, tag.expect("a tag is hexadecimal digits in quotes"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::ICON;

    fn asked(name: HeaderName, values: &[&str]) -> Response {
        let field = |value: &&str| (name.clone(), value.parse().unwrap());
        answer(&ICON, &values.iter().map(field).collect())
    }

    #[test]
    fn gzip_is_sent_to_those_who_take_it() {
        for (accepted, gzip) in
            [(&["gzip"][..], true), (&["br", "gzip;q=0.5"], true), (&["gzip;q=0"], false)]
        {
            let response = asked(header::ACCEPT_ENCODING, accepted);
            let coding = response.headers().get(header::CONTENT_ENCODING);
            assert_eq!(coding.is_some(), gzip, "{accepted:?}");
            assert_eq!(response.headers()[header::VARY], "Accept-Encoding");
        }
    }

    #[test]
    fn version_that_the_client_has_is_not_sent_again() {
        let tag = entity_tag(&ICON.version());
        for (known, status) in
            [(&[tag.as_str()][..], 304), (&["\"a\"", &tag], 304), (&["\"a\""], 200), (&[], 200)]
        {
            let response = asked(header::IF_NONE_MATCH, known);
            assert_eq!(response.status(), status, "{known:?}");
            assert_eq!(response.headers()[header::ETAG], tag.as_str());
        }
    }
}
