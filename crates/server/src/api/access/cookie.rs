//! The cookie of a session of the dashboard in a request, and whether it counts there.

use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};
use httpd::origin;

/// Where the page is.
pub(in crate::api) const PATH: &str = "/session";

pub(in crate::api) const COOKIE: &str = "encke_session";

/// Whether the cookie of a request counts. A change names its own origin, as browsers do with every
/// `POST`. What is only looked at may lack it, but a browser that says that another page asks for
/// it is believed, unless it goes there itself.
pub(super) fn may_use_cookie(method: &Method, uri: &Uri, headers: &HeaderMap) -> bool {
    if *method != Method::GET && *method != Method::HEAD {
        return origin::is_own(uri, headers);
    }
    let mode = headers.get("sec-fetch-mode").map(HeaderValue::as_bytes);
    !origin::is_of_another_page(headers) || mode == Some(b"navigate")
}

/// The session's cookie in a request.
pub(in crate::api) fn cookie(headers: &HeaderMap) -> Option<&str> {
    let fields =
        headers.get_all(header::COOKIE).into_iter().filter_map(|field| field.to_str().ok());
    let mut pairs =
        fields.flat_map(|field| field.split(';')).filter_map(|pair| pair.split_once('='));
    pairs.find(|(name, _)| name.trim() == COOKIE).map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn cookie_is_found_among_others() {
        for (field, found) in [
            ("encke_session=abc", Some("abc")),
            ("a=b; encke_session=abc; c=d", Some("abc")),
            ("not_encke_session=abc", None),
            ("encke_session", None),
        ] {
            assert_eq!(cookie(&headers(&[("cookie", field)])), found, "{field}");
        }
    }

    #[test]
    fn cookie_changes_nothing_without_the_own_origin() {
        let uri = "/send".parse().unwrap();
        let own = ("origin", "http://a.test:1");
        for (method, fields, may) in [
            (Method::POST, &[own][..], true),
            (Method::POST, &[], false),
            (Method::DELETE, &[], false),
            (Method::POST, &[("origin", "http://a.test:2")], false),
            (Method::POST, &[("origin", "null")], false),
            (Method::GET, &[], true),
            (Method::GET, &[("sec-fetch-site", "same-origin")], true),
            (Method::GET, &[("sec-fetch-site", "same-site")], false),
            (Method::GET, &[("sec-fetch-site", "cross-site")], false),
            (Method::GET, &[("sec-fetch-site", "same-site"), ("sec-fetch-mode", "navigate")], true),
        ] {
            let fields = [fields, &[("host", "a.test:1")]].concat();
            assert_eq!(
                may_use_cookie(&method, &uri, &headers(&fields)),
                may,
                "{method} {fields:?}"
            );
        }
    }
}
