//! Tests of queries: signatures in whatever order they come, and damage.

use super::*;

const NOW: u64 = 1_700_000_000;
const BODY: &[u8] = br#"{"name":"new","channel":"private-rj","data":"x"}"#;
const PATH: &str = "/apps/1/events";

fn secret() -> Secret {
    Secret::new(b"encke-app-secret")
}

/// A query of these parameters, signed as libraries do.
fn signed(method: &str, path: &str, parameters: &str) -> String {
    let text = format!("{method}\n{path}\n{parameters}");
    format!("{parameters}&auth_signature={}", secret().sign(&[text.as_bytes()]))
}

fn parameters(body: &[u8]) -> String {
    format!("auth_key=k&auth_timestamp={NOW}&auth_version=1.0&body_md5={}", hex(&Md5::digest(body)))
}

fn verify(query: &str, path: &str, body: &[u8]) -> Result<(), ApiRefusal> {
    let secret = secret();
    let signer = Signer { key: "k", secret: &secret, now: NOW };
    let query = SignedQuery::parse(query)?;
    query.verify_head(signer, "POST", path)?;
    query.verify_body(body)
}

#[test]
fn signed_request_is_taken_in_whatever_order_it_comes() {
    let query = signed("POST", PATH, &parameters(BODY));
    assert_eq!(verify(&query, PATH, BODY), Ok(()));
    let mut pairs: Vec<&str> = query.split('&').collect();
    pairs.reverse();
    assert_eq!(verify(&pairs.join("&"), PATH, BODY), Ok(()));
    let capitals = query.replace("auth_key", "AUTH_Key");
    assert_eq!(verify(&capitals, PATH, BODY), Ok(()), "keys are signed in small letters");
}

#[test]
fn damage_anywhere_is_refused() {
    let query = signed("POST", PATH, &parameters(BODY));
    let mut random = fastrand::Rng::with_seed(testing::seed());
    for _ in 0..2_000 {
        let mut damaged = query.clone().into_bytes();
        let at = random.usize(..damaged.len());
        let byte = random.alphanumeric() as u8;
        if damaged[at].eq_ignore_ascii_case(&byte) {
            continue;
        }
        damaged[at] = byte;
        let damaged = String::from_utf8(damaged).unwrap();
        assert!(verify(&damaged, PATH, BODY).is_err(), "{damaged}");
    }
    for more in ["&a=b", "&info=cache", "&auth_key=k"] {
        assert!(verify(&format!("{query}{more}"), PATH, BODY).is_err(), "{more}");
    }
    assert_eq!(verify(&query, "/apps/1/batch_events", BODY), Err(ApiRefusal::Signature));
    assert_eq!(verify(&query, PATH, b"{}"), Err(ApiRefusal::BodyMd5));
}

#[test]
fn refusal_says_what_is_missing_or_wrong() {
    let key = |key: &str| parameters(BODY).replace("auth_key=k", key);
    let with = |parameters: &str| verify(&signed("POST", PATH, parameters), PATH, BODY);
    assert_eq!(with(&key("auth_key=other")), Err(ApiRefusal::Key));
    assert_eq!(with(&key("x=k")), Err(ApiRefusal::Unsigned("auth_key")));
    let of_version = parameters(BODY).replace("1.0", "1.1");
    assert_eq!(with(&of_version), Err(ApiRefusal::Version));
    assert_eq!(verify(&parameters(BODY), PATH, BODY), Err(ApiRefusal::Unsigned(SIGNATURE)));
    let without_md5 = parameters(BODY);
    let without_md5 = without_md5.split("&body_md5").next().unwrap();
    assert_eq!(with(without_md5), Err(ApiRefusal::Unsigned("body_md5")));
    assert_eq!(verify("", PATH, b""), Err(ApiRefusal::Unsigned("auth_key")));
    for refusal in [ApiRefusal::Key, ApiRefusal::Signature, ApiRefusal::BodyMd5] {
        assert_eq!(refusal.status(), 401);
    }
}

#[test]
fn time_is_taken_within_ten_minutes() {
    let at = |time: &str| {
        let parameters = parameters(BODY).replace(&NOW.to_string(), time);
        verify(&signed("POST", PATH, &parameters), PATH, BODY)
    };
    for near in [NOW - 600, NOW, NOW + 600] {
        assert_eq!(at(&near.to_string()), Ok(()), "{near}");
    }
    let refused = Err(ApiRefusal::Timestamp { now: NOW });
    for far in [0, NOW - 601, NOW + 601, u64::MAX] {
        assert_eq!(at(&far.to_string()), refused, "{far}");
    }
    for none in ["", "x", "-1", "1e9", "99999999999999999999"] {
        assert_eq!(at(none), refused, "{none}");
    }
}

#[test]
fn list_is_signed_with_commas_and_values_decoded() {
    let parameters = parameters(b"");
    let signed = signed("POST", PATH, &format!("{parameters}&info=user_count,cache&name=a b"));
    let sent = signed
        .replace("info=user_count,cache", "info%5B%5D=user_count&info[1]=cache")
        .replace("a b", "a%20b");
    assert_eq!(verify(&sent, PATH, b""), Ok(()));
    let query = SignedQuery::parse(&sent).unwrap();
    assert_eq!(query.value("info"), Some("user_count,cache"));
    assert_eq!(query.value("name"), Some("a b"));
}

#[test]
fn path_is_signed_before_it_is_escaped_or_behind() {
    let (plain, escaped) = ("/apps/1/channels/a=b@c", "/apps/1/channels/a%3Db%40c");
    for signed_path in [plain, escaped] {
        let query = signed("POST", signed_path, &parameters(b""));
        assert_eq!(verify(&query, escaped, b""), Ok(()), "{signed_path}");
    }
    let query = signed("POST", escaped, &parameters(b""));
    assert_eq!(verify(&query, plain, b""), Err(ApiRefusal::Signature));
}

#[test]
fn hostile_query_is_refused() {
    assert_eq!(SignedQuery::parse("a=%ff"), Err(ApiRefusal::Query("it is not UTF-8")));
    assert_eq!(SignedQuery::parse("%ff=a"), Err(ApiRefusal::Query("it is not UTF-8")));
    assert_eq!(SignedQuery::parse(&"a=b&".repeat(65)), Err(ApiRefusal::TooManyParameters));
    assert!(SignedQuery::parse(&"a=b&".repeat(64)).is_ok());
    for odd in ["=", "&&&", "]", "[", "a]=1&a[=2", "%", "%2", "a=%zz"] {
        assert!(SignedQuery::parse(odd).is_ok(), "{odd}");
    }
}
