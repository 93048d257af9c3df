//! Keys, algorithms, headers and what is remembered, all through a verifier. The claims have tests
//! of their own.

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::tokens::jwk::{self, Origin};
use crate::tokens::testing::*;
use crate::tokens::{Revocation, TokenRules};

/// RFC 7515, appendix A.1 to A.3, and RFC 8037, appendix A.4: a line with the JWK and one with the
/// token.
const VECTORS: &str = include_str!("vectors.txt");

#[test]
fn vectors_of_the_standards_are_signed_and_no_other_text_is() {
    let lines: Vec<&str> = VECTORS.lines().collect();
    let vectors: Vec<(&str, &str)> = lines.chunks(2).map(|pair| (pair[0], pair[1])).collect();
    for &(jwk, token) in &vectors {
        let key = jwk::key(jwk, Origin::File).unwrap();
        let jws = Jws::parse(token).unwrap();
        assert!(key.is_for(jws.algorithm) && jws.is_signed_with(&key), "{jwk}");
        for (other, _) in vectors.iter().filter(|(other, _)| *other != jwk) {
            let other = jwk::key(other, Origin::File).unwrap();
            assert!(!other.is_for(jws.algorithm) && !jws.is_signed_with(&other), "{jwk}");
        }
        // Each character of claims and signature counts.
        for at in token.find('.').unwrap() + 1..token.len() {
            let mut changed = token.as_bytes().to_vec();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            let signed = Jws::parse(&changed).is_ok_and(|jws| jws.is_signed_with(&key));
            assert!(!signed, "{at}");
        }
    }
    // RFC 7515, appendix A.5: signed by nobody.
    let token = "eyJhbGciOiJub25lIn0.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leG\
                 FtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.";
    assert_eq!(Jws::parse(token).err(), Some(TokenRefusal::Algorithm));
}

/// What a verifier says when it is asked until it says something.
fn verified(verifier: &Verifier, token: &str, now: u64) -> Result<Arc<Grant>, TokenRefusal> {
    match verifier.check_at(token, now) {
        Checked::Granted(grant) => Ok(grant),
        Checked::Refused(refusal) => Err(refusal),
        Checked::Ask => verifier.verify_at(token, now),
    }
}

fn refusal(verifier: &Verifier, token: &str) -> Option<TokenRefusal> {
    let refusal = verified(verifier, token, NOW).err();
    assert_eq!(verifier.verify_at(token, NOW).err(), refusal, "both ways say the same");
    refusal
}

const ALGORITHMS: [&str; 7] = ["HS256", "HS384", "HS512", "RS256", "PS256", "ES256", "EdDSA"];

#[test]
fn each_key_takes_its_own_algorithms_and_no_other() {
    let (p256, ed25519, secret) = (Pair::p256(), Pair::ed25519(), Pair::Secret(SECRET));
    let pairs = [&secret, &*RSA, &p256, &ed25519];
    let own = [&ALGORITHMS[..3], &ALGORITHMS[3..5], &ALGORITHMS[5..6], &ALGORITHMS[6..]];
    for (pair, own) in pairs.into_iter().zip(own) {
        let text = match pair {
            Pair::Secret(secret) => String::from_utf8(secret.to_vec()).unwrap(),
            pair => pair.pem(),
        };
        let jwk = pair.jwk().to_string();
        for file in [text.as_bytes(), jwk.as_bytes()] {
            let verifier = verifier(TokenRules::default(), &[file]);
            for algorithm in ALGORITHMS {
                let token = pair.token(&json!({ "alg": algorithm }), &claims());
                let expected = (!own.contains(&algorithm)).then_some(TokenRefusal::Algorithm);
                assert_eq!(refusal(&verifier, &token), expected, "{algorithm}");
            }
        }
    }
}

#[test]
fn public_key_is_no_secret_though_a_secret_is_there_too() {
    let p256 = Pair::p256();
    let (rsa, ec) = (RSA.pem(), p256.pem());
    let verifier = verifier(TokenRules::default(), &[rsa.as_bytes(), ec.as_bytes(), SECRET]);
    for pair in [&*RSA, &p256] {
        // Signed with the text of the public key, which everybody has.
        let token = pair.token(&json!({ "alg": "HS256" }), &claims());
        assert_eq!(refusal(&verifier, &token), Some(TokenRefusal::Signature));
    }
    for (algorithm, other) in [("RS256", &p256), ("ES256", &*RSA), ("ES256", &Pair::p256())] {
        let token = other.token(&json!({ "alg": algorithm }), &claims());
        assert_eq!(refusal(&verifier, &token), Some(TokenRefusal::Signature), "{algorithm}");
    }
    for (algorithm, own) in [("RS256", &*RSA), ("ES256", &p256), ("HS512", &Pair::Secret(SECRET))] {
        let token = own.token(&json!({ "alg": algorithm }), &claims());
        assert_eq!(refusal(&verifier, &token), None, "{algorithm}");
    }
}

#[test]
fn alg_use_and_key_ops_of_a_jwk_narrow_it() {
    let jwk = |more: Value| {
        let mut jwk = RSA.jwk();
        jwk.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        jwk::key(&jwk.to_string(), Origin::File)
    };
    let key = jwk(json!({ "alg": "PS256", "use": "sig", "key_ops": ["verify"] })).unwrap();
    assert_eq!(key.algorithms(), [jsonwebtoken::Algorithm::PS256]);
    for wrong in [
        json!({ "alg": "RS512" }),
        json!({ "alg": "HS256" }),
        json!({ "alg": "RSA-OAEP" }),
        json!({ "use": "enc" }),
        json!({ "key_ops": ["encrypt"] }),
        json!({ "key_ops": ["sign"] }),
        json!({ "d": "AQAB" }),
        json!({ "kty": "EC", "crv": "P-384" }),
        json!({ "n": "AQAB" }),
        json!({ "e": null }),
    ] {
        assert!(jwk(wrong.clone()).is_err(), "{wrong}");
    }
    let (secret, short) = (Pair::Secret(SECRET).jwk(), Pair::Secret(&SECRET[..31]).jwk());
    assert!(jwk::key(&secret.to_string(), Origin::File).is_ok());
    assert!(jwk::key(&secret.to_string(), Origin::Url).is_err());
    assert!(jwk::key(&short.to_string(), Origin::File).is_err());
    // A point that is not on the curve.
    let mut p256 = Pair::p256().jwk();
    p256["y"] = p256["x"].clone();
    assert_eq!(jwk::key(&p256.to_string(), Origin::File).err(), Some(jwk::JwkError::Unusable));
}

#[test]
fn header_that_is_not_all_understood_is_refused() {
    let verifier = verifier(TokenRules::default(), &[SECRET]);
    let token = |header: Value| Pair::Secret(SECRET).token(&header, &claims());
    use TokenRefusal::{Algorithm, Encrypted, Header, Malformed, Nested, TooLong};
    for (header, expected) in [
        (json!({ "alg": "HS256", "typ": "JWT", "kid": "any", "jwk": {}, "x": 1 }), None),
        (json!({ "alg": "HS256", "typ": "at+jwt" }), None),
        (json!({ "alg": "none" }), Some(Algorithm)),
        (json!({ "alg": "None" }), Some(Algorithm)),
        (json!({ "alg": "hs256" }), Some(Algorithm)),
        (json!({ "alg": "RS512" }), Some(Algorithm)),
        (json!({ "alg": "RSA-OAEP", "enc": "A256GCM" }), Some(Encrypted)),
        (json!({ "alg": "HS256", "cty": "JWT" }), Some(Nested)),
        (json!({ "alg": "HS256", "typ": "secevent+jwt" }), Some(Header)),
        (json!({ "alg": "HS256", "crit": ["exp"], "exp": 1 }), Some(Header)),
        (json!({ "alg": "HS256", "crit": [] }), Some(Header)),
        (json!({ "alg": "HS256", "crit": null }), Some(Header)),
        // RFC 7797: with and without saying that it must be understood.
        (json!({ "alg": "HS256", "b64": false, "crit": ["b64"] }), Some(Header)),
        (json!({ "alg": "HS256", "b64": false }), Some(Header)),
        (json!({ "alg": 1 }), Some(Header)),
        (json!({ "alg": "HS256", "kid": 1 }), Some(Header)),
        (json!({}), Some(Header)),
        (json!([]), Some(Header)),
        (json!(["HS256", null, null, null, null]), Some(Header)),
    ] {
        assert_eq!(refusal(&verifier, &token(header.clone())), expected, "{header}");
    }
    let good = token(json!({ "alg": "HS256" }));
    let parts: Vec<&str> = good.split('.').collect();
    let (header, claims, signature) = (parts[0], parts[1], parts[2]);
    let wrong = [
        String::new(),
        ".".into(),
        "a.b".into(),
        format!("{header}.{claims}"),
        format!("{good}."),
        format!("{good}.x.y.z"),
        format!("{header}=.{claims}.{signature}"),
        format!(" {good}"),
        "é.é.é".into(),
    ];
    let others = [
        ("..".to_owned(), Header),
        // Five parts: encrypted (RFC 7516).
        (format!("{good}.x.y"), Encrypted),
        ("x".repeat(6145), TooLong),
    ];
    for (wrong, expected) in wrong.map(|wrong| (wrong, Malformed)).into_iter().chain(others) {
        assert_eq!(refusal(&verifier, &wrong), Some(expected), "{wrong}");
    }
    for wrong in [format!("{good}="), format!("{good}A"), format!("{header}.{claims}.")] {
        assert_eq!(refusal(&verifier, &wrong), Some(TokenRefusal::Signature), "{wrong}");
    }
}

#[test]
fn key_is_chosen_by_its_name_and_without_one_by_its_algorithm() {
    let (one, two, nameless) = (Pair::p256(), Pair::p256(), Pair::p256());
    let mut keys = [one.jwk(), two.jwk()];
    (keys[0]["kid"], keys[1]["kid"]) = ("one".into(), "two".into());
    let set = json!({ "keys": keys }).to_string();
    let token = |pair: &Pair, kid: &str| match kid {
        "" => pair.token(&json!({ "alg": "ES256" }), &claims()),
        kid => pair.token(&json!({ "alg": "ES256", "kid": kid }), &claims()),
    };
    let named = verifier(TokenRules::default(), &[set.as_bytes()]);
    assert_eq!(refusal(&named, &token(&one, "one")), None);
    assert_eq!(refusal(&named, &token(&two, "")), None);
    assert_eq!(refusal(&named, &token(&two, "one")), Some(TokenRefusal::Signature));
    assert_eq!(refusal(&named, &token(&two, "three")), Some(TokenRefusal::UnknownKey));
    let both = verifier(TokenRules::default(), &[set.as_bytes(), nameless.pem().as_bytes()]);
    assert_eq!(refusal(&both, &token(&nameless, "three")), None);
    assert_eq!(refusal(&both, &token(&two, "three")), Some(TokenRefusal::Signature));
    assert_eq!(refusal(&both, &token(&nameless, "one")), Some(TokenRefusal::Signature));
}

#[test]
fn signature_is_verified_once_and_each_use_looks_at_the_time() {
    let pair = Pair::p256();
    let rules = TokenRules { leeway: Duration::from_secs(10), ..TokenRules::default() };
    let verifier = verifier(rules, &[pair.pem().as_bytes()]);
    let claims = json!({ "sub": "bob", "nbf": NOW, "exp": NOW + 100, "jti": "x" });
    let token = pair.token(&json!({ "alg": "ES256" }), &claims);
    assert_eq!(verifier.check_at(&token, NOW), Checked::Ask);
    let grant = verifier.verify_at(&token, NOW).unwrap();
    assert_eq!(verifier.check_at(&token, NOW), Checked::Granted(Arc::clone(&grant)));
    assert_eq!(grant.expires, Some(NOW + 110));
    let refused = |refusal| Checked::Refused(refusal);
    assert_eq!(verifier.check_at(&token, NOW + 109), Checked::Granted(grant));
    assert_eq!(verifier.check_at(&token, NOW + 110), refused(TokenRefusal::Expired));
    assert_eq!(verifier.check_at(&token, NOW - 11), refused(TokenRefusal::NotYet));
    assert_eq!(verifier.verify_at(&token, NOW + 110), Err(TokenRefusal::Expired));
    // Another signature of the same text is another token, and has to be looked at.
    let other = pair.token(&json!({ "alg": "ES256" }), &claims);
    assert_ne!(token, other);
    assert_eq!(verifier.check_at(&other, NOW), Checked::Ask);
    let wish = Revocation::Token { jti: "x".into(), expires: Some(NOW + 100) };
    verifier.revocations.revoke(&[wish], NOW).unwrap();
    assert_eq!(verifier.check_at(&token, NOW), refused(TokenRefusal::Revoked));
    assert_eq!(verifier.verify_at(&other, NOW), Err(TokenRefusal::Revoked));
}

#[test]
fn known_token_is_good_until_its_time_its_keys_or_a_revocation_say_otherwise() {
    let (pair, other) = (Pair::p256(), Pair::ed25519());
    let rules = TokenRules { leeway: Duration::ZERO, ..TokenRules::default() };
    let verifier = verifier(rules, &[SECRET]);
    let key = |pair: &Pair| Arc::new(jwk::key(&pair.jwk().to_string(), Origin::Url).unwrap());
    verifier.replace_set(vec![key(&pair)]);
    let claims = |jti: &str| json!({ "sub": "bob", "nbf": NOW, "exp": NOW + 100, "jti": jti });
    let of_secret = Pair::Secret(SECRET).token(&json!({ "alg": "HS256" }), &claims("a"));
    let of_pair = pair.token(&json!({ "alg": "ES256" }), &claims("b"));
    let tokens = [of_secret, of_pair];
    let known = |token: &String| verifier.check_or_ask(token, NOW).unwrap();
    assert!(known(&tokens[1]).is_none(), "its signature is not verified yet");
    verifier.verify_at(&tokens[1], NOW).unwrap();
    let first = tokens.each_ref().map(|token| known(token).unwrap());
    assert_eq!(first[1].grant(), &verified(&verifier, &tokens[1], NOW).unwrap());
    let are_good = |of: &[KnownToken; 2], now| of.each_ref().map(|of| verifier.is_good_at(of, now));
    assert_eq!(are_good(&first, NOW), [true; 2]);
    assert_eq!(are_good(&first, NOW + 99), [true; 2]);
    assert_eq!(are_good(&first, NOW + 100), [false; 2]);
    assert_eq!(are_good(&first, NOW - 1), [false; 2]);
    // Other keys: each is looked at again, though its own is still there.
    verifier.replace_set(vec![key(&pair), key(&other)]);
    assert_eq!(are_good(&first, NOW), [false; 2]);
    let second = tokens.each_ref().map(|token| known(token).unwrap());
    assert_eq!(are_good(&second, NOW), [true; 2]);
    let wish = Revocation::Token { jti: "a".into(), expires: Some(NOW + 100) };
    verifier.revocations.revoke(&[wish], NOW).unwrap();
    assert_eq!(are_good(&second, NOW), [false, true]);
    verifier.replace_set(Vec::new());
    assert_eq!(are_good(&second, NOW), [false; 2]);
    assert!(second[0].keys.upgrade().is_none(), "it keeps no key");
}

#[test]
fn what_others_read_is_told_word_for_word_and_grants_nothing_of_ours() {
    let pair = Pair::p256();
    let rules =
        TokenRules { read_by: ReadBy::Others, exp_required: false, ..TokenRules::default() };
    let verifier = verifier(rules, &[pair.pem().as_bytes()]);
    // What is no id to us, and for whom it is, is not ours to say.
    let claims = json!({ "mercure": { "subscribe": ["*"] }, "sub": "b b", "aud": "x", "encke": 1 });
    let token = pair.token(&json!({ "alg": "ES256", "typ": "at+jwt" }), &claims);
    let grant = verified(&verifier, &token, NOW).unwrap();
    assert!(!grant.allows("b b") && !grant.sends() && grant.subject.is_none());
    let told = grant.claims.as_deref().unwrap();
    assert_eq!(told.kind.as_deref(), Some("at+jwt"));
    assert_eq!(serde_json::from_str::<Value>(&told.json).unwrap(), claims);
    let named = json!({ "mercure": {}, "sub": "bob", "jti": "1" });
    let named = verified(&verifier, &pair.token(&json!({ "alg": "ES256" }), &named), NOW).unwrap();
    let names = (named.subject.as_deref(), named.token.as_deref());
    assert_eq!(names, (Some("bob"), Some("1")), "by these it may be revoked");
    let over = pair.token(&json!({ "alg": "ES256" }), &json!({ "mercure": {}, "exp": NOW - 20 }));
    assert_eq!(refusal(&verifier, &over), Some(TokenRefusal::Expired));
    let ours = pair.token(&json!({ "alg": "ES256" }), &json!({ "sub": "bob", "exp": "soon" }));
    assert_eq!(refusal(&verifier, &ours), Some(TokenRefusal::Claims));
}

#[test]
fn key_that_is_gone_takes_its_tokens_along() {
    let (fixed, old, new) = (Pair::ed25519(), Pair::p256(), Pair::p256());
    let verifier = verifier(TokenRules::default(), &[fixed.pem().as_bytes()]);
    let key = |pair: &Pair| Arc::new(jwk::key(&pair.jwk().to_string(), Origin::Url).unwrap());
    let token = |pair: &Pair, alg: &str| pair.token(&json!({ "alg": alg }), &claims());
    let tokens = [token(&fixed, "EdDSA"), token(&old, "ES256"), token(&new, "ES256")];
    let known = |expected: [bool; 3]| {
        let checked = tokens.each_ref().map(|token| verifier.check_at(token, NOW));
        let known = checked.map(|checked| matches!(checked, Checked::Granted(_)));
        assert_eq!(known, expected);
    };
    verifier.replace_set(vec![key(&old)]);
    let verified = tokens.each_ref().map(|token| verifier.verify_at(token, NOW).is_ok());
    assert_eq!(verified, [true, true, false]);
    known([true, true, false]);
    // The same keys once more, and another beside them: nobody is asked again.
    verifier.replace_set(vec![key(&new), key(&old)]);
    known([true, true, false]);
    verifier.verify_at(&tokens[2], NOW).unwrap();
    verifier.replace_set(vec![key(&new)]);
    known([true, false, true]);
    assert_eq!(verifier.verify_at(&tokens[1], NOW), Err(TokenRefusal::Signature));
    // Back again, it is looked at again.
    verifier.replace_set(vec![key(&old)]);
    assert_eq!(verifier.check_at(&tokens[1], NOW), Checked::Ask);
}

#[test]
fn nothing_of_a_key_or_token_stands_in_debug() {
    let verifier = verifier(TokenRules::default(), &[SECRET]);
    let key = Key::secret(SECRET).named(Some("0123456789abcdef".into()));
    for text in [format!("{:?}", *verifier), format!("{key:?}")] {
        assert!(!text.contains("0123456789abcdef"), "{text}");
    }
}

/// Figures for `docs/decisions/0024`: `cargo test --release -p server -- --ignored --nocapture
/// what_a_check_costs`.
#[test]
#[ignore = "it measures"]
fn what_a_check_costs() {
    let p256 = Pair::p256();
    let ed25519 = Pair::ed25519();
    let pems = [RSA.pem(), p256.pem(), ed25519.pem()];
    let keys: Vec<&[u8]> = pems.iter().map(|pem| pem.as_bytes()).chain([SECRET]).collect();
    let claims = json!({
        "iss": "https://issuer.example", "sub": "bob", "iat": NOW, "exp": NOW + 3600,
        "jti": "4f1c09d2a7be", "encke": { "ids": ["news", "room:*"], "max_ids": 8 },
    });
    let secret = Pair::Secret(SECRET);
    for (alg, pair) in [
        ("HS256", &secret),
        ("HS512", &secret),
        ("ES256", &p256),
        ("EdDSA", &ed25519),
        ("RS256", &*RSA),
        ("PS256", &*RSA),
    ] {
        let verifier = verifier(TokenRules::default(), &keys);
        let token = pair.token(&json!({ "alg": alg, "typ": "JWT" }), &claims);
        let time = |count: u32, work: &dyn Fn()| {
            let start = sys::clock::thread_cpu();
            (0..count).for_each(|_| work());
            (sys::clock::thread_cpu() - start) / count
        };
        let full = time(5000, &|| {
            verifier.verified.forget(&hash(&token));
            std::hint::black_box(verifier.verify_at(&token, NOW)).unwrap();
        });
        let cached = time(200_000, &|| {
            let checked = verifier.check_at(&token, NOW);
            assert!(matches!(std::hint::black_box(checked), Checked::Granted(_)));
        });
        let bad = format!("{}A", &token[..token.len() - 1]);
        let bad = if bad == token { format!("{}Q", &token[..token.len() - 1]) } else { bad };
        let refused = time(5000, &|| {
            assert!(std::hint::black_box(verifier.verify_at(&bad, NOW)).is_err());
        });
        println!(
            "{alg}: {} bytes, verified in {full:?} ({:.0} a second), refused in {refused:?}, \
             checked in {cached:?}",
            token.len(),
            1.0 / full.as_secs_f64()
        );
    }
}
