//! Requests for a page of events.

use super::*;

#[test]
fn page_is_of_the_id_in_its_path_and_its_query_is_read_elsewhere() {
    let query = "after=x&last=y&members=z&id=b&limit=3&token=t%2Ex";
    let buf = head(&format!("GET /events/room%3A7?{query}"), &[]);
    let request = served(&buf);
    assert_eq!((request.method, request.route), (Method::Get, Route::Events));
    assert_eq!((&request.ids[..], request.query), (&["room:7".into()][..], query));
    assert_eq!((request.cursor, request.past), (None, Past::Nothing));
    assert_eq!(request.bearer.token(None, None), Ok(Some("t.x".into())));
    assert_eq!(served(&head("HEAD /events/a", &["Accept: image/png"])).method, Method::Head);
    assert_eq!(served(&head("OPTIONS /events/a", &[])).method, Method::Options);
}

#[test]
fn page_of_no_id_is_nowhere_and_has_no_other_method() {
    for (start, status) in [
        ("GET /events", 404),
        ("GET /events/a/b", 404),
        ("POST /events/a", 405),
        ("GET /events/%zz", 400),
    ] {
        assert_eq!(refused(&head(start, &[])).problem.status, status, "{start}");
    }
}

#[test]
fn durable_stream_has_a_path_with_slashes_and_is_appended_to_with_any_body() {
    let buf = head("GET /v1/stream/run/7?offset=-1&id=a&after=x&token=t", &[]);
    let request = served(&buf);
    assert_eq!((request.method, request.route), (Method::Get, Route::Durable));
    assert_eq!((request.path, request.ids.len()), ("/v1/stream/run/7", 0));
    assert_eq!(request.bearer.token(None, None), Ok(Some("t".into())));
    for lines in [&["Content-Length: 3"][..], &["Transfer-Encoding: chunked"]] {
        let buf = head("POST /v1/stream/run/7", lines);
        let request = served(&buf);
        assert_eq!((request.method, request.body), (Method::Post, Body::default()));
    }
    assert_eq!(served(&head("OPTIONS /v1/stream/x", &[])).method, Method::Options);
    for method in ["PUT", "DELETE", "PATCH"] {
        let buf = head(&format!("{method} /v1/stream/run/7"), &["Content-Length: 3"]);
        let problem = refused(&buf).problem;
        assert_eq!((problem.status, problem.allow), (405, Some("GET, HEAD, POST, OPTIONS")));
    }
    assert_eq!(refused(&head("GET /v1/streams/x", &[])).problem.status, 404);
}
