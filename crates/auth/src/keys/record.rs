//! One key: what is kept of it, what it may do, and how it is written.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hub::IdText;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;

use super::ABOUT_MAX;

/// How every key begins.
const PREFIX: &str = "encke_";

/// Bytes of a secret.
const SECRET_BYTES: usize = 32;

/// Random bytes of an id, which is twice as many hexadecimal digits.
pub(super) const ID_BYTES: usize = 6;

/// What a key may be used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// To send events.
    Send,
    /// To change and to list subscriptions.
    Graph,
    /// To read figures, who is online, and the dashboard.
    Read,
    /// Everything: the other three, and whatever else changes something.
    Admin,
}

impl Scope {
    /// All of them.
    pub const ALL: [Scope; 4] = [Scope::Send, Scope::Graph, Scope::Read, Scope::Admin];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Send => "send",
            Scope::Graph => "graph",
            Scope::Read => "read",
            Scope::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Scope, &'static str> {
        let scope = Scope::ALL.into_iter().find(|scope| scope.as_str() == text);
        scope.ok_or("a scope is send, graph, read or admin")
    }
}

/// Subjects about which a key may send: one id, or with `*` at its end all that begin so.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AboutPattern(String);

impl AboutPattern {
    /// Whether `about` is among them.
    fn covers(&self, about: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(prefix) => about.starts_with(prefix),
            None => about == self.0,
        }
    }
}

impl fmt::Display for AboutPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for AboutPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<AboutPattern, String> {
        let id = text.strip_suffix('*').filter(|prefix| !prefix.is_empty()).unwrap_or(text);
        IdText::parse(id).map_err(|error| error.to_string())?;
        Ok(AboutPattern(text.to_owned()))
    }
}

impl TryFrom<String> for AboutPattern {
    type Error = String;

    fn try_from(text: String) -> Result<AboutPattern, String> {
        text.parse()
    }
}

impl From<AboutPattern> for String {
    fn from(pattern: AboutPattern) -> String {
        pattern.0
    }
}

/// What is kept of a key. Members that this version does not know make the file unusable: they
/// could be bounds that it would not keep.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRecord {
    /// By which it is called.
    pub id: String,
    sha256: Hash,
    /// What it may be used for.
    pub scopes: Vec<Scope>,
    /// About what it may send; empty is about everything.
    pub about: Vec<AboutPattern>,
    /// When it was made, in seconds since 1970, as the two that follow.
    pub created: u64,
    /// From when on it is good for nothing.
    pub expires: Option<u64>,
    /// When it was revoked.
    pub revoked: Option<u64>,
}

impl KeyRecord {
    /// A key out of `secret`, and its text.
    pub(super) fn make(
        id: String,
        secret: [u8; SECRET_BYTES],
        scopes: Vec<Scope>,
        about: Vec<AboutPattern>,
        created: u64,
        expires: Option<u64>,
    ) -> (KeyRecord, String) {
        let text = format!("{PREFIX}{id}_{}", URL_SAFE_NO_PAD.encode(secret));
        debug_assert_eq!(parts(&text), Some((&*id, secret)), "nobody would be let in by it");
        let sha256 = Hash::of(&secret);
        (KeyRecord { id, sha256, scopes, about, created, expires, revoked: None }, text)
    }

    /// Whether it is one as this server makes them. What others write may be anything.
    pub fn is_sound(&self) -> bool {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_id = self.id.len() == 2 * ID_BYTES && self.id.bytes().all(is_digit);
        is_id && !self.scopes.is_empty() && self.about.len() <= ABOUT_MAX
    }

    /// Whether it is good for anything at `now`.
    pub fn is_usable(&self, now: u64) -> bool {
        self.revoked.is_none() && !self.has_expired(now)
    }

    /// Whether its time is over at `now`.
    pub fn has_expired(&self, now: u64) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// Whether a call that needs `scope` may be made with the key.
    pub fn allows(&self, scope: Scope) -> bool {
        self.scopes.iter().any(|&held| held == scope || held == Scope::Admin)
    }

    /// Whether an event about the id may be sent with the key.
    pub fn allows_about(&self, about: &str) -> bool {
        self.about.is_empty() || self.about.iter().any(|pattern| pattern.covers(about))
    }

    pub(super) fn is_made_of(&self, secret: &[u8; SECRET_BYTES]) -> bool {
        self.sha256.is_equal(&Hash::of(secret))
    }
}

/// The SHA-256 of a secret, in hexadecimal digits where it is written.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct Hash([u8; 32]);

impl Hash {
    fn of(secret: &[u8]) -> Hash {
        Hash(Sha256::digest(secret).into())
    }

    /// In a time that does not depend on where they differ.
    fn is_equal(&self, other: &Hash) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hash(…)")
    }
}

impl From<Hash> for String {
    fn from(hash: Hash) -> String {
        hex(&hash.0)
    }
}

impl TryFrom<String> for Hash {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Hash, &'static str> {
        const WRONG: &str = "a hash has 64 hexadecimal digits";
        let mut hash = [0; 32];
        if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(WRONG);
        }
        for (byte, at) in hash.iter_mut().zip((0_usize..).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| WRONG)?;
        }
        Ok(Hash(hash))
    }
}

/// `bytes` in hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The parts of a key's text: its id and its secret. `None` for what is no key.
pub(super) fn parts(text: &str) -> Option<(&str, [u8; SECRET_BYTES])> {
    let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
    let secret = URL_SAFE_NO_PAD.decode(secret).ok()?;
    Some((id, secret.try_into().ok()?))
}

/// The id in `text`, which is a key's id or its whole text.
pub(super) fn id_in(text: &str) -> &str {
    match text.strip_prefix(PREFIX) {
        Some(rest) => rest.split('_').next().unwrap_or_default(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(scopes: &[Scope], about: &[&str]) -> (KeyRecord, String) {
        let about = about.iter().map(|text| text.parse().unwrap()).collect();
        KeyRecord::make("0123456789ab".into(), [7; 32], scopes.to_vec(), about, 100, Some(200))
    }

    #[test]
    fn text_is_read_back_and_told_apart_from_every_other() {
        let (key, text) = key(&[Scope::Send], &[]);
        let (id, secret) = parts(&text).unwrap();
        assert_eq!((id, id_in(&text), id_in(id)), ("0123456789ab", id, id));
        assert!(key.is_made_of(&secret));
        for bit in 0..256 {
            let mut other = secret;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!key.is_made_of(&other), "bit {bit}");
        }
        for cut in 0..text.len() {
            assert!(parts(&text[..cut]).is_none(), "{}", &text[..cut]);
        }
        assert!(!format!("{key:?}").contains(&hex(&[7; 32])), "{key:?}");
        let json = serde_json::to_string(&key).unwrap();
        assert_eq!(serde_json::from_str::<KeyRecord>(&json).unwrap(), key);
    }

    #[test]
    fn admin_is_everything_and_the_others_are_themselves() {
        for held in Scope::ALL {
            for asked in Scope::ALL {
                let allowed = held == asked || held == Scope::Admin;
                assert_eq!(key(&[held], &[]).0.allows(asked), allowed, "{held} {asked}");
            }
            assert_eq!(held.as_str().parse(), Ok(held));
        }
    }

    #[test]
    fn patterns_are_exact_or_a_beginning() {
        let (key, _) = key(&[Scope::Send], &["room:*", "12"]);
        for (about, allowed) in
            [("room:", true), ("room:1", true), ("room", false), ("12", true), ("123", false)]
        {
            assert_eq!(key.allows_about(about), allowed, "{about}");
        }
        for wrong in ["", "a b", "a/b"] {
            assert!(wrong.parse::<AboutPattern>().is_err(), "{wrong:?}");
        }
        assert!("*".parse::<AboutPattern>().unwrap().covers("anything"));
    }

    #[test]
    fn key_is_over_from_its_last_second_on() {
        let (key, _) = key(&[Scope::Read], &[]);
        assert!(key.is_usable(199) && !key.is_usable(200));
        assert!(!KeyRecord { revoked: Some(1), ..key }.is_usable(150));
    }
}
