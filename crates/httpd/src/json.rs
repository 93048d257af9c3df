//! JSON: a value as the body of an answer, which is one line with its end, so that a terminal's
//! prompt stands on the next one. Also what is wrong with a value in a request.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// Answers with the value.
#[derive(Debug)]
pub struct Json<T>(pub T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        let Ok(mut text) = serde_json::to_vec(&self.0) else {
            // Only a map with keys that are no strings, which no answer has.
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        };
        text.push(b'\n');
        ([(header::CONTENT_TYPE, "application/json")], text).into_response()
    }
}

/// What is wrong, without the place. A value that is cut out of its body and read alone has places
/// of its own, which nobody could find in the body.
pub fn without_place(error: &serde_json::Error) -> String {
    let mut text = error.to_string();
    text.truncate(text.rfind(" at line ").unwrap_or(text.len()));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use http_body_util::BodyExt;

    #[test]
    fn answer_is_a_line() {
        let (head, body) = Json(serde_json::json!({ "a": 1 })).into_response().into_parts();
        assert_eq!(head.status, StatusCode::OK);
        assert_eq!(head.headers[header::CONTENT_TYPE], "application/json");
        let body = body.collect().now_or_never().unwrap().unwrap().to_bytes();
        assert_eq!(&body[..], b"{\"a\":1}\n");
    }
}
