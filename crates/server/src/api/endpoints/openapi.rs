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
    use proto::ProblemKind;
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

    #[test]
    fn each_kind_of_problem_is_listed_here_and_has_its_heading_on_the_page_of_errors() {
        const PAGE: &str = include_str!("../../../../../docs/errors.md");
        let document: Value = serde_json::from_str(DOCUMENT).unwrap();
        let listed = &document["components"]["schemas"]["Problem"]["properties"]["type"]["enum"];
        let all: Vec<&str> = ProblemKind::ALL.iter().map(|kind| kind.reference()).collect();
        assert_eq!(listed, &serde_json::json!(all));
        let headings: Vec<&str> =
            PAGE.lines().filter_map(|line| line.strip_prefix("### ")).collect();
        assert_eq!(headings.len(), all.len());
        for kind in ProblemKind::ALL {
            let (page, name) = kind.reference().split_once('#').unwrap();
            assert_eq!(page, "errors");
            let says = format!("\n### {name}\n\n{}. ", kind.status());
            assert!(PAGE.contains(&says), "{name} is not on the page, or with another status");
        }
    }
}
