//! A JSON value as the body of an answer: one line with its end, so that a terminal's prompt stands
//! on the next one.

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
