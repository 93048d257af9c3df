//! What problems say, and in which form.

use super::*;

#[test]
fn body_has_the_members_of_the_rfc() {
    let problem = ApiProblem::from(IdError::Empty).on_line(7);
    assert_eq!(
        problem.to_json(),
        "{\"type\":\"errors#bad-id\",\"title\":\"Bad Request\",\"status\":400,\
         \"detail\":\"An id must not be empty.\",\"line\":7}\n"
    );
}

#[test]
fn bad_subject_of_an_event_is_a_bad_id_and_a_long_name_is_not() {
    let kind = |error: EventError| ApiProblem::from(error).problem.kind;
    assert_eq!(kind(EventError::Id(IdError::Empty)), ProblemKind::BadId);
    assert_eq!(kind(EventError::Name(201)), ProblemKind::BadRequest);
}

#[test]
fn bad_json_tells_where() {
    let error = serde_json::from_str::<u32>("{\n  x").unwrap_err();
    let detail = ApiProblem::bad_json(&error).problem.detail;
    assert!(detail.contains("line 1 column 0") || detail.contains("line 2"), "{detail}");
    let error = serde_json::from_str::<serde_json::Value>("[1,]").unwrap_err();
    let detail = ApiProblem::bad_line(&error, 12).problem.detail;
    assert_eq!(detail, "Line 12 cannot be read: trailing comma at column 4.");
}

/// A line may have a megabyte, and thousands of answers wait.
#[test]
fn what_was_found_is_named_by_its_beginning() {
    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}
    let json = format!(r#"{{"{}":1}}"#, "é".repeat(1 << 19));
    let error = serde_json::from_str::<Nothing>(&json).unwrap_err();
    for problem in [ApiProblem::bad_json(&error), ApiProblem::bad_line(&error, 1)] {
        let detail = problem.problem.detail;
        let place = format!("at line 1 column {}.", error.column());
        let end = if detail.starts_with("Line") { &place[10..] } else { &place };
        assert!(detail.len() < 2_048 && detail.ends_with(end), "{} bytes", detail.len());
    }
}

#[test]
fn full_disk_is_insufficient_storage_and_full_mailbox_asks_to_retry() {
    let full = ApiProblem::from(WriteError::DiskFull("no space".into()));
    assert_eq!(full.status(), StatusCode::INSUFFICIENT_STORAGE);
    let response = ApiProblem::mailbox_full().into_response();
    assert_eq!(response.headers()[header::RETRY_AFTER], "1");
    assert_eq!(response.headers()[header::CONTENT_TYPE], CONTENT_TYPE);
}
