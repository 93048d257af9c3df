//! Tokens as clients may send them, and claims as whoever signs tokens may write them.
//!
//! The signature's oracle is HMAC (RFC 2104) written a second time on the bare hash.

use std::sync::LazyLock;

use auth::tokens::{Checked, TokenRules, Verifier};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hub::{IdText, PATTERNS_MAX, TokenRefusal};
use sha2::{Digest, Sha256};

/// 32 bytes: the least.
const SECRET: &[u8; 32] = b"a secret that everybody may read";

/// A verifier that takes what [`SECRET`] signs, for ever.
static VERIFIER: LazyLock<Verifier> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let key = dir.path().join("key");
    std::fs::write(&key, SECRET).unwrap();
    let rules = TokenRules { keys: vec![key], exp_required: false, ..TokenRules::default() };
    Verifier::open(rules, None).unwrap()
});

/// Any text as a token: only what the secret has signed is let in, and a secret's token is verified
/// at once.
pub fn token(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let checked = VERIFIER.check(text);
    assert_ne!(checked, Checked::Ask);
    let signed = || {
        let (signed, signature) = text.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        Some(signature == mac(signed.as_bytes()))
    };
    if let Checked::Granted(_) = &checked {
        assert_eq!(signed(), Some(true));
    }
    if checked == Checked::Refused(TokenRefusal::Signature) {
        assert_ne!(signed(), Some(true));
    }
    match (checked, VERIFIER.verify(text)) {
        (Checked::Granted(checked), Ok(verified)) => assert_eq!(checked, verified),
        (Checked::Refused(checked), Err(verified)) => assert_eq!(checked, verified),
        // A second may have passed in between, and with it the token's time.
        (_, Err(TokenRefusal::Expired)) | (Checked::Refused(TokenRefusal::NotYet), Ok(_)) => {}
        (checked, verified) => panic!("{checked:?}, {verified:?}"),
    }
}

/// Any claims, well signed: what is granted are ids, no more than a token may list, and it is a
/// JSON object that says so.
pub fn token_claims(data: &[u8]) {
    let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256"}"#);
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(data));
    let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(mac(signed.as_bytes())));
    let grant = match VERIFIER.check(&token) {
        Checked::Granted(grant) => grant,
        Checked::Refused(TokenRefusal::Malformed) => return assert!(token.len() > 6 << 10),
        Checked::Refused(refusal) => return assert_ne!(refusal, TokenRefusal::Signature),
        Checked::Ask => panic!("it can be said at once"),
    };
    assert!(str::from_utf8(data).unwrap().trim_ascii().starts_with('{'));
    let is_id = |id: &str| IdText::parse(id).is_ok();
    let is_pattern = |id: &str| id == "*" || is_id(id.strip_suffix('*').unwrap_or(id));
    assert!(grant.subject.iter().all(|id| is_id(id)));
    assert!(grant.ids.texts().all(|id| is_pattern(&id)));
    assert!(grant.ids.len() <= PATTERNS_MAX);
    // What is passed over may be a number or an escape that no value can hold.
    let Ok(claims) = serde_json::from_slice::<serde_json::Value>(data) else { return };
    let listed = claims["encke"]["ids"].as_array().map_or(0, Vec::len);
    assert_eq!(grant.ids.len(), listed);
    assert_eq!(grant.subject.is_some(), claims.get("sub").is_some());
}

fn mac(text: &[u8]) -> Vec<u8> {
    let padded = |byte: u8| {
        let mut block = [byte; 64];
        block.iter_mut().zip(SECRET).for_each(|(byte, secret)| *byte ^= secret);
        block
    };
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().to_vec()
}
