//! Commands and the answers to them.

use super::*;
use serde_json::json;

fn ids<'b>(texts: &[&'b str]) -> Vec<IdText<'b>> {
    texts.iter().map(|&text| IdText(Cow::Borrowed(text))).collect()
}

#[test]
fn commands_are_read() {
    let cases = [
        (r#"{"login":["a","b"]}"#, Command::Login(ids(&["a", "b"]))),
        (r#" { "login" : [ 123, -5, 99999999999999999999 ] } "#, {
            Command::Login(ids(&["123", "-5", "99999999999999999999"]))
        }),
        (r#"{"login":["\u0061\"",""]}"#, Command::Login(ids(&["a\"", ""]))),
        (r#"{"logout":[]}"#, Command::Logout(ids(&[]))),
        (r#"{"ping":1}"#, Command::Ping(Number::from(1))),
        (r#"{"ping":1.5}"#, Command::Ping(Number::from_f64(1.5).unwrap())),
    ];
    for (text, command) in cases {
        assert_eq!(parse(text), Ok(command), "{text}");
    }
}

#[test]
fn anything_else_is_a_problem_that_says_what_to_send() {
    for text in [
        "",
        "x",
        "{",
        "[]",
        "null",
        "1",
        "{}",
        "\"login\"",
        r#"{"login":"a"}"#,
        r#"{"login":[null]}"#,
        r#"{"login":[1.5]}"#,
        r#"{"login":[["a"]]}"#,
        r#"{"login":["a"],"logout":["b"]}"#,
        r#"{"login":["a"],"login":["b"]}"#,
        r#"{"send":1,"more":2}"#,
        r#"{"send":1,"send":2}"#,
        r#"[{},1]"#,
        r#"{"ping":"1"}"#,
        r#"{"ping":null}"#,
        r#"{"ping":1} x"#,
        r#"{"ping":1,"more":2}"#,
        r#"{"Login":["a"]}"#,
    ] {
        let problem = parse(text).unwrap_err();
        assert_eq!(problem.status, 400, "{text}");
        assert!(problem.detail.contains(r#"{"login":["id"]}"#), "{}", problem.detail);
    }
    let deep = "[".repeat(4096);
    assert!(parse(&deep).is_err());
}

#[test]
fn send_keeps_its_event_as_written_and_its_reference() {
    let send = |event, reference| Ok(Command::Send(SendText { event, reference }));
    for (text, event, reference) in [
        (r#"{"send":{"about": 1,"data":[1.50]}}"#, r#"{"about": 1,"data":[1.50]}"#, None),
        (r#"{"send":{},"ref":1}"#, "{}", Some("1")),
        (r#" { "ref" : "a\"b" , "send" : 7 }"#, "7", Some(r#""a\"b""#)),
        (r#"{"send":{},"ref":-1.50}"#, "{}", Some("-1.50")),
        (r#"{"send":{},"ref":null}"#, "{}", None),
    ] {
        assert_eq!(parse(text), send(event, reference), "{text}");
    }
    let long = format!("{{\"send\":{{}},\"ref\":\"{}\"}}", "x".repeat(REFERENCE_BYTES_MAX));
    for text in [r#"{"send":{},"ref":true}"#, r#"{"send":{},"ref":[1]}"#, &long] {
        let problem = parse(text).unwrap_err();
        assert!(problem.status == 400 && problem.detail.contains("\"ref\""), "{problem:?}");
    }
}

#[test]
fn answers_to_a_send_repeat_its_reference() {
    let answer = r#"{"delivered":3,"id":"0"}"#;
    assert_eq!(send_ok(answer, None), format!("{{\"ok\":{answer}}}"));
    assert_eq!(send_ok(answer, Some("\"a\"")), format!("{{\"ok\":{answer},\"ref\":\"a\"}}"));
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let refused = value(&send_error(&Problem::too_many("Slowly.", 2), Some("7")));
    assert_eq!(refused["ref"], 7);
    assert_eq!(
        (&refused["error"]["status"], &refused["error"]["retry_after"]),
        (&json!(429), &json!(2))
    );
    let refused = value(&send_error(&Problem::bad_request("No."), None));
    assert_eq!((refused.get("ref"), refused["error"].get("retry_after")), (None, None));
}

#[test]
fn answers_are_json() {
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let login = parse(r#"{"login":["a\"",7]}"#).unwrap();
    assert_eq!(value(&ok(&login, None)), json!({"ok": {"login": ["a\"", "7"]}}));
    let logout = parse(r#"{"logout":[]}"#).unwrap();
    assert_eq!(value(&ok(&logout, Some("1"))), json!({"ok": {"logout": []}}));
    let ping = parse(r#"{"ping":1}"#).unwrap();
    assert_eq!(ok(&ping, Some("00ff")), r#"{"ok":{"ping":1,"next":"00ff"}}"#);
    assert_eq!(ok(&ping, None), r#"{"ok":{"ping":1}}"#);
    let answer = error(&binary_problem());
    assert_eq!(value(&answer)["error"]["status"], 400);
    assert!(!answer.contains('\n'));
    let answer = token_error(&Problem::token_refused("it has expired"));
    assert_eq!(value(&answer)["error"]["status"], 401);
    assert_eq!(value(&answer)["token"], true);
}

#[test]
fn rooms_are_watched_one_by_one_and_a_refusal_names_the_room() {
    for (text, command) in [
        (r#"{"members":"room:7"}"#, Command::Members(IdText("room:7".into()))),
        (r#"{"members":7}"#, Command::Members(IdText("7".into()))),
        (r#"{"unwatch":"a\"b"}"#, Command::Unwatch(IdText("a\"b".into()))),
    ] {
        assert_eq!(parse(text), Ok(command), "{text}");
    }
    let unwatch = parse(r#"{"unwatch":"a\"b"}"#).unwrap();
    assert_eq!(ok(&unwatch, None), r#"{"ok":{"unwatch":"a\"b"}}"#);
    for text in [r#"{"members":["a"]}"#, r#"{"members":null}"#, r#"{"unwatch":true}"#] {
        assert!(parse(text).is_err(), "{text}");
    }
    let told = members_error("a\"b", &Problem::members_off());
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&told["members"], &told["error"]["status"]), (&json!("a\"b"), &json!(404)));
}
