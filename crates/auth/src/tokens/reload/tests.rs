//! Files of keys that are read again: whose tokens are good then. When that happens is looked at
//! with the real program.

use std::fs;

use hub::TokenRefusal;
use serde_json::json;

use super::*;
use crate::tokens::testing::*;
use crate::tokens::{JwksSource, TokenRules};

fn counts(taken: u64, refused: u64) -> Reloaded {
    Reloaded { taken, refused }
}

#[test]
fn key_that_left_its_file_verifies_nothing_more() {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (Pair::p256(), Pair::p256());
    let (pem, secret) = (file(dir.path(), "pem", old.pem()), file(dir.path(), "secret", SECRET));
    let keys = vec![pem.clone(), secret.clone()];
    let verifier = Verifier::open(TokenRules { keys, ..TokenRules::default() }, None).unwrap();
    let (by_old, by_new) = (token(&old, "a"), token(&new, "a"));
    let by_secret = Pair::Secret(SECRET).token(&json!({ "alg": "HS256" }), &claims());
    let all = |verifier: &Verifier| [&by_old, &by_new, &by_secret].map(|of| verified(verifier, of));
    let bad = Some(TokenRefusal::Signature);
    assert_eq!(all(&verifier), [None, bad, None]);
    fs::write(&pem, old.pem() + &new.pem()).unwrap();
    assert_eq!(verifier.read_files(), counts(2, 0));
    assert_eq!(all(&verifier), [None, None, None]);
    // The old one's token is remembered as verified, which helps it nothing.
    fs::write(&pem, new.pem()).unwrap();
    fs::write(&secret, [b'x'; 32]).unwrap();
    assert_eq!(verifier.read_files(), counts(2, 0));
    assert_eq!(all(&verifier), [bad, None, bad]);
}

#[test]
fn bad_file_is_refused_alone_and_its_keys_stay() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two, three) = (Pair::p256(), Pair::p256(), Pair::p256());
    let first = file(dir.path(), "first", one.pem());
    let set = json!({ "keys": [named(&two, "two")] }).to_string();
    let second = file(dir.path(), "second", &set);
    let rules = TokenRules {
        keys: vec![first.clone()],
        jwks: Some(JwksSource::File(second.clone())),
        ..TokenRules::default()
    };
    let verifier = Verifier::open(rules, None).unwrap();
    let tokens = [token(&one, "one"), token(&two, "two"), token(&three, "three")];
    let all = || tokens.each_ref().map(|token| verified(&verifier, token).is_none());
    assert_eq!(all(), [true, true, false]);
    for bad in ["", "short", "{}", "-----BEGIN PUBLIC KEY-----\nQQ==\n-----END PUBLIC KEY-----"] {
        fs::write(&first, bad).unwrap();
        assert_eq!(verifier.read_files(), counts(1, 1), "{bad:?}");
        assert_eq!(all(), [true, true, false], "{bad:?}");
    }
    fs::remove_file(&first).unwrap();
    fs::write(&second, json!({ "keys": [named(&three, "three")] }).to_string()).unwrap();
    assert_eq!(verifier.read_files(), counts(1, 1));
    assert_eq!(all(), [true, false, true], "the other file is taken");
    fs::write(&second, "{").unwrap();
    assert_eq!(verifier.read_files(), counts(0, 2));
    assert_eq!(all(), [true, false, true]);
    assert_eq!(verifier.files().counts(), counts(5, 7));
    let figures = verifier.figures();
    assert_eq!((figures.jwks_keys, figures.jwks_failures), (1, 1));
    fs::write(&second, json!({ "keys": [] }).to_string()).unwrap();
    verifier.read_files();
    assert_eq!(all(), [true, false, false], "no keys are an answer");
}

#[test]
fn keys_of_a_url_outlast_a_change_of_files() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two, far) = (Pair::p256(), Pair::p256(), Pair::p256());
    let keys = vec![file(dir.path(), "key", one.pem())];
    let jwks = Some("http://127.0.0.1:1/jwks.json".parse().unwrap());
    let verifier =
        Verifier::open(TokenRules { keys, jwks, ..TokenRules::default() }, None).unwrap();
    let set =
        crate::tokens::jwk::key(&named(&far, "far").to_string(), crate::tokens::jwk::Origin::Url);
    verifier.replace_set(vec![Arc::new(set.unwrap())]);
    fs::write(dir.path().join("key"), two.pem()).unwrap();
    verifier.read_files();
    let tokens = [token(&one, "a"), token(&two, "a"), token(&far, "far")];
    let good = tokens.each_ref().map(|token| verified(&verifier, token).is_none());
    assert_eq!(good, [false, true, true]);
}
