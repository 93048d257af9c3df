//! All problems, and what their bodies say.

use super::*;

fn all() -> Vec<Problem> {
    vec![
        Problem::bad_request("\"quoted\"\n"),
        Problem::bad_id("é"),
        Problem::forbidden_origin("http://a.test"),
        Problem::token_missing(),
        Problem::token_refused("it has expired"),
        Problem::not_granted("\""),
        Problem::members_not_granted("\""),
        Problem::members_off(),
        Problem::members_busy(5),
        Problem::tokens_busy(5),
        Problem::no_such_path(),
        Problem::method_not_allowed("GET"),
        Problem::not_acceptable(),
        Problem::head_timeout(),
        Problem::body_refused(),
        Problem::misdirected(),
        Problem::websocket_version(),
        Problem::sends_are_off(),
        Problem::send_not_granted("\""),
        Problem::no_send_granted(),
        Problem::body_timeout(),
        Problem::length_required(),
        Problem::body_too_large(1),
        Problem::not_json(),
        Problem::not_form(),
        Problem::sends_busy(1),
        Problem::send_unanswered(),
        Problem::too_many("Slowly.", 1),
        Problem::head_too_large(),
        Problem::places_too_long(),
        Problem::unavailable(5),
        Problem::moving(1),
        Problem::http_version(),
    ]
}

#[test]
fn body_is_json_with_the_members_of_the_rfc() {
    for problem in all() {
        let body: serde_json::Value = serde_json::from_str(&problem.to_json()).unwrap();
        let expected = serde_json::json!({
            "type": problem.kind.reference(),
            "title": problem.title(),
            "status": problem.status,
            "detail": problem.detail,
        });
        assert_eq!(body, expected);
        assert_eq!(serde_json::to_value(&problem).unwrap(), expected);
        assert_eq!(problem.kind.status(), problem.status);
        assert_ne!(problem.title(), "Error", "{} has no phrase", problem.status);
    }
}

#[test]
fn each_kind_has_one_name_and_a_status_with_a_phrase() {
    let mut names: Vec<&str> = ProblemKind::ALL.iter().map(|kind| kind.reference()).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    for kind in ProblemKind::ALL {
        assert_ne!(Problem::of(*kind, "").title(), "Error");
        let name = kind.reference().strip_prefix(PAGE).and_then(|rest| rest.strip_prefix('#'));
        let is_plain = |name: &str| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
        assert!(name.is_some_and(is_plain), "{}", kind.reference());
    }
    assert_eq!(ProblemKind::of_status(503), ProblemKind::Unavailable);
    assert_eq!(ProblemKind::of_status(418), ProblemKind::BadRequest);
}
