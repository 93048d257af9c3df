//! Replies: JSON, JSONP with a checked name, and errors that say what to do.

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};

use super::Parameters;

/// Bytes of a callback's name.
const CALLBACK_BYTES_MAX: usize = 64;

/// An error and what to do about it. Old clients look at the status alone.
pub(super) fn refuse(status: StatusCode, what: &str) -> Response {
    let kind = [(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"))];
    let (title, number) = (status.canonical_reason(), status.as_u16());
    let body = json!({"title": title, "status": number, "detail": what});
    (status, kind, script_safe(&body)).into_response()
}

/// JSON, or a call of `callback` with it.
pub(super) fn reply(callback: Option<&str>, value: &impl Serialize) -> Response {
    let text = script_safe(value);
    let (kind, text) = match callback {
        Some(callback) => ("text/javascript; charset=utf-8", format!("{callback}({text});\n")),
        None => ("application/json; charset=utf-8", text),
    };
    ([(CONTENT_TYPE, HeaderValue::from_static(kind))], text).into_response()
}

/// JSON that may stand in a script and in HTML: without `<`, `>`, `&` and the two separators that
/// old scripts take for the end of a line. They only occur in strings, where they may be escaped.
pub(super) fn script_safe(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).unwrap_or_else(|_| Value::Null.to_string());
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                safe.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => safe.push(c),
        }
    }
    safe
}

/// The callback that is asked for with `jsonp`, if it is a name.
///
/// # Errors
/// It is none: the refusal.
pub(super) fn callback(parameters: &Parameters) -> Result<Option<&str>, Box<Response>> {
    let callback = parameters.get("jsonp").map(String::as_str);
    if callback.is_none_or(is_callback) {
        return Ok(callback);
    }
    let what = "jsonp is no name of a function: letters, digits, '_', '$' and dots, at most 64";
    Err(Box::new(refuse(StatusCode::BAD_REQUEST, what)))
}

/// Whether a callback is a plain name in script, or names joined by dots: anything else would run
/// in the page as whatever it is.
fn is_callback(name: &str) -> bool {
    let is_start = |byte: u8| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$');
    let is_name = |name: &str| {
        let mut bytes = name.bytes();
        bytes.next().is_some_and(is_start)
            && bytes.all(|byte| is_start(byte) || byte.is_ascii_digit())
    };
    name.len() <= CALLBACK_BYTES_MAX && name.split('.').all(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callback_is_a_name_and_nothing_else() {
        for good in ["a", "Playdar.client.handleStat", "$", "_a.$b.c1"] {
            assert!(is_callback(good), "{good}");
        }
        let long = "a".repeat(CALLBACK_BYTES_MAX + 1);
        for bad in ["", ".", "a.", ".a", "1a", "a b", "a(", "a[0]", "alert(1)//", "ä", &long] {
            assert!(!is_callback(bad), "{bad}");
        }
    }

    #[test]
    fn json_has_nothing_that_ends_a_script() {
        let text = script_safe(&"</script>\u{2028}&");
        assert_eq!(text, r#""\u003c/script\u003e\u2028\u0026""#);
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), "</script>\u{2028}&");
    }
}
