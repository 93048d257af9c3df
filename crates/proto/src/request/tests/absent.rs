//! What says nothing is as if it were not there.

use super::*;

#[test]
fn parameter_and_field_that_say_nothing_are_as_if_absent() {
    for target in ["/stream/a?last_event_id=&token=", "/poll/a?token=x&after=&token="] {
        let buf = head(&format!("GET {target}"), &["Cookie: t=z"]);
        let request = served(&buf);
        assert_eq!(request.cursor, None, "{target}");
        assert_eq!(request.bearer.token(None, Some("t")), Ok(Some("z".into())), "{target}");
    }
    let mut upgrade = Upgrade::default();
    ["protocol", "Extensions"].iter().for_each(|name| upgrade.read_line(name, b"").unwrap());
    assert_eq!(upgrade, Upgrade::default());
    let asked = ["Access-Control-Request-Private-Network: true"];
    assert!(served(&head("OPTIONS /stream/a", &asked)).private_network);
}

#[test]
fn path_may_name_no_id() {
    for (start, route, ids) in [
        ("GET /stream", Route::Stream, 0),
        ("GET /stream?id=a&id=b", Route::Stream, 2),
        ("GET /poll?wait=0", Route::Poll, 0),
        ("GET /test", Route::Classic, 0),
        ("GET /stream/", Route::Stream, 1),
    ] {
        let buf = head(start, &[]);
        let request = served(&buf);
        assert_eq!((request.route, request.ids.len()), (route, ids), "{start}");
    }
}
