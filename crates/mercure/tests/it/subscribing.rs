//! What subscribers ask for, and where their tokens stand.

use mercure::{
    Dialect, MatchType, Presented, PresentedBy, Refusal, SelectorFault, SelectorKind, Subscribe,
    SubscribeRequest, TokenFields, limits,
};

use crate::hub;

/// A request, and the field `Last-Event-ID`.
fn asked(query: &str, token: Option<Dialect>) -> Result<Subscribe, Refusal> {
    let hub = hub();
    Subscribe::parse(SubscribeRequest { query, body: None, last_event_id: None, token, hub: &hub })
}

fn texts(asked: &Subscribe) -> Vec<&str> {
    asked.selectors.iter().map(|selector| selector.text()).collect()
}

#[test]
fn url_patterns_are_counted_however_their_parameter_is_written() {
    let hub = hub();
    let count = |query: &str, body: Option<&[u8]>| {
        let request = SubscribeRequest { query, body, last_event_id: None, token: None, hub: &hub };
        request.url_patterns()
    };
    assert_eq!(count("match_urlpattern=a&match=urlpattern&topic=b", None), 1);
    assert_eq!(count("match%5Furlpattern=a&%6Datch_url%70attern=(", None), 2);
    assert_eq!(count("match_urlpattern=a", Some(b"match_urlpattern=b&match_%75rlpattern=c")), 3);
    assert_eq!(count(&"match_urlpattern=a&".repeat(900), None), limits::MATCHERS_MAX);
}

#[test]
fn parameters_decide_the_dialect() {
    let (old, v1) = (Some(Dialect::Old), Some(Dialect::V1));
    for (query, token, dialect) in [
        ("topic=a", None, Dialect::Old),
        ("topic=a", old, Dialect::Old),
        ("match=a", None, Dialect::V1),
        ("match=a", v1, Dialect::V1),
        ("match_exact=a", v1, Dialect::V1),
        ("match_urlpattern=a", v1, Dialect::V1),
        ("topic=a&matter=1&atch=2&matc=3", None, Dialect::Old),
        ("match=a&Topic=b", None, Dialect::V1),
    ] {
        assert_eq!(asked(query, token).unwrap().dialect, dialect, "{query} with {token:?}");
    }
    let mixed = |name: &str| Refusal::MixedDialects(name.to_owned());
    for (query, token, refusal) in [
        ("", None, Refusal::NoSelector),
        ("", v1, Refusal::NoSelector),
        ("topic=", None, Refusal::NoSelector),
        ("match=", None, Refusal::NoSelector),
        ("id=a", None, Refusal::NoSelector),
        ("topic=a&match=b", None, mixed("match")),
        ("match_exact=b&topic=a", v1, mixed("match_exact")),
        ("topic=a&MATCHx=b", None, mixed("MATCHx")),
        ("topic=a", v1, Refusal::OldParameter),
        ("match=a", old, Refusal::OldToken),
        ("match=a&Match=b", None, Refusal::UnknownMatcher("Match".to_owned())),
        ("MATCH=a", None, Refusal::UnknownMatcher("MATCH".to_owned())),
        ("match=a&match_uritemplate=b", None, Refusal::UnknownMatcher("match_uritemplate".into())),
        ("matches=a", None, Refusal::UnknownMatcher("matches".to_owned())),
        ("match=a%0A", None, Refusal::Selector(SelectorFault::Character)),
    ] {
        assert_eq!(asked(query, token).unwrap_err(), refusal, "{query} with {token:?}");
        let status = if refusal == Refusal::OldToken { 401 } else { 400 };
        assert_eq!(refusal.status(Dialect::V1), status, "{query}");
    }
    let refusal = asked("match_urlpattern=%7B", None).unwrap_err();
    assert!(matches!(refusal, Refusal::Selector(SelectorFault::Invalid(_))), "{refusal}");
}

#[test]
fn refusal_is_told_in_the_dialect_of_the_request() {
    let hub = hub();
    let dialect = |query, body, token| {
        let (last_event_id, hub) = (None, &hub);
        Subscribe::dialect_of(SubscribeRequest { query, body, last_event_id, token, hub })
    };
    assert_eq!(dialect("topic=a", None, None), Dialect::Old);
    assert_eq!(dialect("", None, None), Dialect::Old);
    assert_eq!(dialect("MATCHES=a", None, None), Dialect::V1);
    assert_eq!(dialect("topic=a", None, Some(Dialect::V1)), Dialect::V1);
    assert_eq!(dialect("", Some(b""), None), Dialect::V1);
}

#[test]
fn selectors_are_distinct_and_in_their_order() {
    let subscribe = asked("topic=b&topic=a&topic=b&topic=%2A&topic=%7Bid%7D", None).unwrap();
    assert_eq!(texts(&subscribe), ["b", "a", "*", "{id}"]);
    let kinds: Vec<_> = subscribe.selectors.iter().map(|selector| selector.kind()).collect();
    use SelectorKind::{All, Exact, Pattern};
    assert_eq!(kinds, [Exact, Exact, All, Pattern]);

    let subscribe =
        asked("match=a&match_exact=a&match_urlpattern=a&match=%2A&match_urlpattern=*", None);
    let subscribe = subscribe.unwrap();
    assert_eq!(texts(&subscribe), ["a", "a", "*"]);
    let types: Vec<_> = subscribe.selectors.iter().map(|selector| selector.match_type()).collect();
    assert_eq!(types, [MatchType::Exact, MatchType::UrlPattern, MatchType::Exact]);
}

#[test]
fn selectors_have_a_bound() {
    let query = |name: &str, count: usize| {
        let all: Vec<String> = (0..count).map(|number| format!("{name}={number}")).collect();
        all.join("&")
    };
    for (name, most) in [("topic", limits::SELECTORS_MAX), ("match", limits::MATCHERS_MAX)] {
        assert_eq!(asked(&query(name, most), None).unwrap().selectors.len(), most);
        let refusal = asked(&query(name, most + 1), None).unwrap_err();
        assert_eq!(refusal, Refusal::TooManySelectors(most));
    }
    let refusal = asked(&query("x", limits::FIELDS_MAX + 1), None).unwrap_err();
    assert_eq!(refusal, Refusal::TooManyFields);
    assert!(asked(&format!("match_exact={}", "x".repeat(4_096)), None).is_ok());
    let refusal = asked(&format!("topic={}", "x".repeat(4_097)), None).unwrap_err();
    assert_eq!(refusal, Refusal::Selector(SelectorFault::TooLong));
}

#[test]
fn patterns_of_one_request_have_bounds() {
    let query = |count: usize, pattern: &str| -> String {
        let one = |n| format!("match_urlpattern={}&", pattern.replace("N", &format!("{n}")));
        (0..count).map(one).collect()
    };
    for (pattern, most) in [
        ("https://a.example/N/:x(.*a)", limits::REGEX_COST_MAX),
        ("https://a.example/N/:x(%5Cd%7B200%7D)", limits::REGEX_COST_MAX / 4),
        (":aN://*/", limits::SUBSCRIPTION_COST_MAX / limits::ANY_HOST_COST),
        ("https://a.example/N/:x/y/:z", limits::MATCHERS_MAX),
    ] {
        let asked = |count| asked(&query(count, pattern), None);
        assert_eq!(asked(most).unwrap().selectors.len(), most, "{pattern}");
        let refused = asked(most + 1).unwrap_err();
        let is_number = refused == Refusal::TooManySelectors(limits::MATCHERS_MAX);
        assert!(refused == Refusal::TooCostly || is_number, "{pattern}: {refused}");
    }
}

#[test]
fn parameters_say_the_dialect_where_there_are_some() {
    for (query, dialect) in [
        ("topic=a", Some(Dialect::Old)),
        ("match=a&authorization=x", Some(Dialect::V1)),
        ("Matches=a", Some(Dialect::V1)),
        ("topic=a&match=b", None),
        ("authorization=x", None),
        ("", None),
    ] {
        assert_eq!(Subscribe::asked_dialect(query), dialect, "{query}");
    }
}

#[test]
fn place_stands_in_the_field_or_the_query() {
    let hub = hub();
    let place = |query, body, last_event_id| {
        let request = SubscribeRequest { query, body, last_event_id, token: None, hub: &hub };
        Subscribe::parse(request).unwrap().place
    };
    for (query, field, expected) in [
        ("topic=a", None, None),
        ("topic=a", Some("x"), Some("x")),
        ("topic=a&lastEventID=y", None, Some("y")),
        ("topic=a&last_event_id=y", None, Some("y")),
        ("topic=a&Last-Event-ID=y", None, Some("y")),
        ("topic=a&Last-Event-Id=y", None, Some("y")),
        ("topic=a&lasteventid=y", None, None),
        ("topic=a&lastEventID=y", Some("x"), Some("x")),
        ("topic=a&lastEventID=y", Some(""), Some("y")),
        ("topic=a&lastEventID=&last_event_id=z", None, Some("z")),
        ("topic=a&lastEventID=", None, None),
        ("topic=a", Some(""), None),
        ("topic=a&lastEventID=%23abc", None, Some("#abc")),
        ("topic=a&lastEventID=earliest", None, Some("earliest")),
        ("match=a", None, None),
        ("match=a&last_event_id=", None, Some("")),
        ("match=a", Some(""), Some("")),
        ("match=a&last_event_id=y", Some(""), Some("y")),
    ] {
        let found = place(query, None, field);
        assert_eq!(found.as_deref(), expected, "{query} and {field:?}");
    }
    let both = place("match=a&last_event_id=q", Some(&b"match=b&last_event_id=b"[..]), None);
    assert_eq!(both.as_deref(), Some("q"));
    let body = place("", Some(&b"match=b&last_event_id=b"[..]), None);
    assert_eq!(body.as_deref(), Some("b"));
}

#[test]
fn query_and_body_are_one_request() {
    let hub = hub();
    let request = |query, body: &'static [u8]| {
        let (body, last_event_id, token) = (Some(body), None, None);
        Subscribe::parse(SubscribeRequest { query, body, last_event_id, token, hub: &hub })
    };
    let subscribe = request("match=a", b"match_urlpattern=%2Fb&match=a").unwrap();
    assert_eq!((subscribe.dialect, texts(&subscribe)), (Dialect::V1, vec!["a", "/b"]));
    let refusal = request("topic=a", b"match=b").unwrap_err();
    assert_eq!(refusal, Refusal::MixedDialects("match".to_owned()));
}

#[test]
fn token_is_found_where_it_may_stand() {
    let find = |authorization: &[&str], query: &str, cookie: &[&str], dialect| {
        let fields = TokenFields { authorization, cookie, ..TokenFields::default() };
        Presented::find(fields, query, dialect)
            .map(|found| found.map(|found| (found.token.into_owned(), found.by)))
    };
    let (old, v1) = (Some(Dialect::Old), Some(Dialect::V1));
    let cookies = ["a=b; mercureAuthorization=o; __Secure-mercure_access_token=n"];
    let found = |token: &str, by| Ok(Some((token.to_owned(), by)));
    use PresentedBy::{Field, Query};
    let (o, n) = (PresentedBy::Cookie(Dialect::Old), PresentedBy::Cookie(Dialect::V1));
    assert_eq!(find(&[], "topic=a", &[], None), Ok(None));
    assert_eq!(find(&["Bearer x.y.z"], "authorization=q", &cookies, old), found("x.y.z", Field));
    assert_eq!(find(&["bEARER  x"], "", &[], None), found("x", Field));
    assert_eq!(find(&[], "topic=a&authorization=q", &cookies, old), found("q", Query));
    assert_eq!(find(&[], "", &cookies, old), found("o", o));
    assert_eq!(find(&[], "", &cookies, v1), found("n", n));
    assert_eq!(find(&[], "", &cookies, None), found("n", n), "the old one may be stale");
    assert_eq!(find(&[], "", &["x=y", "mercureAuthorization=o=="], None), found("o==", o));
    assert_eq!(find(&[], "", &["XmercureAuthorization=o; mercureAuthorization"], None), Ok(None));
    for fields in [
        &["Basic x"][..],
        &["Bearer"],
        &["Bearer "],
        &["Bearer a b"],
        &["Bearer é"],
        &["x"],
        &[""],
        &["Bearer x", "Bearer x"],
    ] {
        for dialect in [old, v1] {
            let refused = find(fields, "", &cookies, dialect);
            assert_eq!(refused, Err(Refusal::NotBearer), "{fields:?}");
        }
        assert_eq!(find(fields, "", &cookies, None), Err(Refusal::NoToken), "{fields:?}");
    }
    let refusal = find(&[], "authorization=a&authorization=b", &[], old);
    assert_eq!(refusal, Err(Refusal::ManyTokens));
    assert_eq!(find(&[], "authorization=", &[], old), Err(Refusal::ManyTokens));
    assert_eq!(find(&[], "authorization=q", &cookies, v1), Err(Refusal::TokenInQuery));
    let in_query = Presented { token: "q".into(), by: Query };
    assert_eq!(in_query.check(Dialect::V1), Err(Refusal::TokenInQuery));
    assert_eq!(in_query.check(Dialect::Old), Ok(()));
    for (by, of_old, of_v1) in [
        (o, Ok(()), Err(Refusal::TokenInOldCookie)),
        (n, Err(Refusal::OldToken), Ok(())),
        (Field, Ok(()), Ok(())),
    ] {
        let presented = Presented { token: "x".into(), by };
        assert_eq!(presented.check(Dialect::Old), of_old, "{by:?}");
        assert_eq!(presented.check(Dialect::V1), of_v1, "{by:?}");
    }
    let refusal = Refusal::TokenInOldCookie;
    assert_eq!(refusal.status(Dialect::V1), 400);
    assert_eq!(refusal.error_code(Dialect::V1), Some("invalid_request"));
}

#[test]
fn publish_by_cookie_says_its_origin() {
    let origin = |by, origin, referer| {
        let fields = TokenFields { origin, referer, ..TokenFields::default() };
        Presented { token: "x".into(), by }.origin_of_publish(fields)
    };
    use PresentedBy::{Field, Query};
    let cookie = PresentedBy::Cookie(Dialect::V1);
    let app = "https://app.example";
    let is = |origin: &str| Ok(Some(origin.to_owned()));
    assert_eq!(origin(Field, None, None), Ok(None));
    assert_eq!(origin(Query, None, None), Ok(None));
    assert_eq!(origin(cookie, Some(app), None), is(app));
    assert_eq!(origin(cookie, Some(app), Some("https://evil.example/")), is(app));
    assert_eq!(origin(cookie, None, Some("https://app.example:443/a?b#c")), is(app));
    assert_eq!(
        origin(cookie, Some(""), Some("https://app.example:1/")),
        is("https://app.example:1")
    );
    assert_eq!(origin(cookie, Some("null"), None), is("null"));
    assert_eq!(origin(cookie, None, Some("data:x")), is("null"));
    for refused in [origin(cookie, None, None), origin(cookie, None, Some("/page"))] {
        let refusal = refused.unwrap_err();
        assert_eq!(refusal, Refusal::NoOrigin);
        assert_eq!((refusal.status(Dialect::Old), refusal.status(Dialect::V1)), (401, 400));
        assert_eq!(refusal.error_code(Dialect::V1), Some("invalid_request"));
    }
}
