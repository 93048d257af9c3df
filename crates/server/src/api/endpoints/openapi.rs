//! `GET /openapi.json`: the description of the API, a document of its own beside this file.

use axum::http::header;
use axum::response::IntoResponse;

/// OpenAPI 3.1.
pub(in crate::api) const DOCUMENT: &str = include_str!("openapi.json");

pub(crate) async fn openapi() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn references_lead_somewhere() {
        fn check(value: &Value, document: &Value) {
            if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
                let pointer = reference.strip_prefix('#').unwrap();
                assert!(document.pointer(pointer).is_some(), "{reference}");
            }
            let members = value.as_object().into_iter().flat_map(|object| object.values());
            let items = value.as_array().into_iter().flatten();
            members.chain(items).for_each(|value| check(value, document));
        }
        let document: Value = serde_json::from_str(DOCUMENT).unwrap();
        check(&document, &document);
    }
}
