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
