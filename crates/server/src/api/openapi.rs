//! `GET /openapi.json`: the description of the API, a document of its own beside this file.

use axum::http::header;
use axum::response::IntoResponse;

/// OpenAPI 3.1.
const DOCUMENT: &str = include_str!("openapi.json");

pub(super) async fn openapi() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::super::router::paths;
    use super::*;

    #[test]
    fn document_describes_every_path_and_no_other() {
        let document: Value = serde_json::from_str(DOCUMENT).unwrap();
        let described = document["paths"].as_object().unwrap().keys().map(String::as_str);
        let served = paths().into_iter().map(|(path, _)| path);
        assert_eq!(described.collect::<BTreeSet<_>>(), served.collect());
        assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    }

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
