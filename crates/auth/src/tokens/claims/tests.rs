//! Claims by themselves: what they grant, and each form that is refused.

use serde_json::{Value, json};

use super::*;

const NOW: u64 = 1_800_000_000;

fn wanted() -> Wanted {
    let (issuer, audiences, read_by) = (None, Vec::new(), ReadBy::Us);
    Wanted { issuer, audiences, leeway: 10, expiry: true, read_by }
}

fn check(wanted: &Wanted, claims: &Value, now: u64) -> Result<Grant, TokenRefusal> {
    wanted.check(claims.to_string().as_bytes(), now).map(|checked| checked.grant)
}

/// Claims with `more` in the place of what is there.
fn with(more: Value) -> Value {
    let mut claims = json!({ "sub": "bob", "exp": NOW + 100 });
    claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    claims
}

#[test]
fn claims_become_a_grant() {
    let claims = with(json!({
        "iat": NOW as f64 - 5.5, "jti": "x", "other": { "any": [1] },
        "encke": { "ids": ["news", 42, "room:*", "*"], "max_ids": 3, "max_connections": 2,
            "send": ["room:*"], "members": ["lobby", 7], "history": ["*"],
            "read": ["run/*"], "write": ["run/7"],
            "info": { "name": "Bob" } },
    }));
    let list = |texts: &[&str]| IdPatterns::parse(texts.iter().map(|&id| id.into())).unwrap();
    let talk = TalkGrant {
        send: list(&["room:*"]),
        members: list(&["lobby", "7"]),
        history: list(&["*"]),
        read: IdPatterns::parse_paths(["run/*".into()]).unwrap(),
        write: IdPatterns::parse_paths(["run/7".into()]).unwrap(),
        info: Some(Info::new("{\"name\":\"Bob\"}")),
    };
    let grant = Grant {
        subject: Some("bob".into()),
        ids: list(&["42", "news", "room:*", "*"]),
        talk: Some(talk.into()),
        expires: Some(NOW + 110),
        issued: Some(NOW - 6),
        token: Some("x".into()),
        ids_max: Some(3),
        connections_max: Some(2),
        claims: None,
    };
    assert!(grant.allows("anybody"), "* alone is everything");
    assert_eq!(check(&wanted(), &claims, NOW), Ok(grant));
    // An id may be a number, as everywhere; a token may have no subject.
    assert_eq!(
        check(&wanted(), &with(json!({ "sub": 7 })), NOW).unwrap().subject,
        Some("7".into())
    );
    let claims = json!({ "exp": NOW + 1, "encke": { "ids": ["news"] } });
    let grant = check(&wanted(), &claims, NOW).unwrap();
    assert!(grant.allows("news") && grant.subject.is_none());
}

#[test]
fn claim_of_another_form_is_refused_and_not_passed_over() {
    let many: Vec<String> = (0..257).map(|n| n.to_string()).collect();
    for wrong in [
        json!({ "sub": "" }),
        json!({ "sub": "a b" }),
        json!({ "sub": "a/b" }),
        json!({ "sub": "x".repeat(256) }),
        json!({ "sub": null }),
        json!({ "sub": ["bob"] }),
        json!({ "sub": 1.5 }),
        json!({ "sub": -1 }),
        json!({ "sub": 1_u64 << 63 }),
        json!({ "exp": null }),
        json!({ "exp": "1800000100" }),
        json!({ "exp": true }),
        json!({ "exp": -1 }),
        // Milliseconds.
        json!({ "exp": NOW * 1000 }),
        json!({ "exp": 1e300 }),
        json!({ "nbf": "0" }),
        json!({ "iat": [] }),
        json!({ "iat": null }),
        json!({ "jti": 1 }),
        json!({ "jti": "" }),
        json!({ "jti": null }),
        json!({ "jti": "x".repeat(256) }),
        json!({ "iss": 1 }),
        json!({ "aud": 1 }),
        json!({ "aud": [1] }),
        json!({ "encke": null }),
        json!({ "encke": [] }),
        json!({ "encke": { "ids": "news" } }),
        json!({ "encke": { "ids": null } }),
        json!({ "encke": { "ids": ["a b"] } }),
        json!({ "encke": { "ids": ["a b*"] } }),
        json!({ "encke": { "ids": [""] } }),
        json!({ "encke": { "ids": [null] } }),
        json!({ "encke": { "ids": many } }),
        json!({ "encke": { "send": ["a b"] } }),
        json!({ "encke": { "members": many } }),
        json!({ "encke": { "history": "news" } }),
        json!({ "encke": { "info": null } }),
        json!({ "encke": { "info": "x".repeat(1023) } }),
        json!({ "encke": { "max_ids": 0 } }),
        json!({ "encke": { "max_ids": null } }),
        json!({ "encke": { "max_ids": -1 } }),
        json!({ "encke": { "max_connections": 0 } }),
        json!({ "encke": { "max_connections": 1_u64 << 32 } }),
        json!({ "encke": { "max_id": 1 } }),
    ] {
        let checked = check(&wanted(), &with(wrong.clone()), NOW);
        let of = |claim| wrong.get(claim).is_some();
        let expected = match (of("sub"), of("encke")) {
            (true, _) => TokenRefusal::Subject,
            (_, true) => TokenRefusal::Granted,
            _ => TokenRefusal::Claims,
        };
        assert_eq!(checked, Err(expected), "{wrong}");
    }
    for wrong in [
        r#"{"exp":1800000100,"encke":[["*"]]}"#,
        r#"{"exp":1800000100}"#,
        r#"{"exp":1800000100,"encke":{}}"#,
    ] {
        let checked = wanted().check(wrong.as_bytes(), NOW).err();
        assert_eq!(checked, Some(TokenRefusal::Granted), "{wrong}");
    }
    for wrong in [
        "",
        "[]",
        r#"["i",7,"push",1800000100]"#,
        "{",
        "\"sub\"",
        r#"{"sub":"bob","sub":"alice","exp":1800000100}"#,
        r#"{"sub":"bob","exp":1,"exp":1800000100}"#,
        r#"{"sub":"bob","exp":1800000100,"encke":{},"encke":{"ids":["*"]}}"#,
    ] {
        let checked = wanted().check(wrong.as_bytes(), NOW).err();
        assert_eq!(checked, Some(TokenRefusal::Claims), "{wrong}");
    }
    // Bytes that are no text, in a member that is passed over.
    let checked = wanted().check(b"{\"sub\":\"bob\",\"exp\":1800000100,\"x\":\"\x9c\"}", NOW);
    assert_eq!(checked.err(), Some(TokenRefusal::Claims));
    assert!(check(&wanted(), &with(json!({ "encke": { "ids": many[..256] } })), NOW).is_ok());
}

#[test]
fn times_count_to_the_second_with_leeway_on_both_sides() {
    let at = |claims: &Value, now| check(&wanted(), claims, now).err();
    let claims = with(json!({ "exp": NOW }));
    assert_eq!(at(&claims, NOW + 9), None);
    assert_eq!(at(&claims, NOW + 10), Some(TokenRefusal::Expired));
    for claims in [with(json!({ "nbf": NOW + 50 })), with(json!({ "iat": NOW + 50 }))] {
        assert_eq!(at(&claims, NOW + 39), Some(TokenRefusal::NotYet));
        assert_eq!(at(&claims, NOW + 40), None);
    }
    let fractions = with(json!({ "nbf": NOW as f64 + 0.5, "exp": NOW as f64 + 5.9 }));
    assert_eq!(at(&fractions, NOW - 10), Some(TokenRefusal::NotYet));
    assert_eq!(at(&fractions, NOW - 9), None);
    assert_eq!(at(&fractions, NOW + 14), None);
    assert_eq!(at(&fractions, NOW + 15), Some(TokenRefusal::Expired));
}

#[test]
fn token_without_an_end_is_refused_unless_it_may() {
    let claims = json!({ "sub": "bob" });
    assert_eq!(check(&wanted(), &claims, NOW), Err(TokenRefusal::NoExpiry));
    let grant = check(&Wanted { expiry: false, ..wanted() }, &claims, NOW).unwrap();
    assert_eq!(grant.expires, None);
}

#[test]
fn issuer_and_audience_are_the_ones_that_are_wanted() {
    let wanted = Wanted {
        issuer: Some("https://i.example".into()),
        audiences: vec!["push".into(), "chat".into()],
        ..wanted()
    };
    let checked =
        |iss: &str, aud: Value| check(&wanted, &with(json!({ "iss": iss, "aud": aud })), NOW).err();
    assert_eq!(checked("https://i.example", json!("push")), None);
    assert_eq!(checked("https://i.example", json!(["x", "chat"])), None);
    assert_eq!(checked("https://i.example/", json!("push")), Some(TokenRefusal::Issuer));
    assert_eq!(checked("https://i.example", json!("Push")), Some(TokenRefusal::Audience));
    assert_eq!(checked("https://i.example", json!([])), Some(TokenRefusal::Audience));
    assert_eq!(check(&wanted, &with(json!({})), NOW), Err(TokenRefusal::Issuer));
    let claims = with(json!({ "iss": "https://i.example" }));
    assert_eq!(check(&wanted, &claims, NOW), Err(TokenRefusal::Audience));
    // One that is for somebody is for nobody else.
    let claims = with(json!({ "aud": "mail" }));
    assert_eq!(check(&self::wanted(), &claims, NOW), Err(TokenRefusal::Audience));
}
