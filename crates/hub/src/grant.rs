//! What a token grants to a stream, and why one is refused.
//!
//! How tokens are written and signed (RFC 7519) is not known here.

use std::fmt;

use thiserror::Error;

use crate::id_patterns::IdPatterns;
use crate::key::KEY_BYTES_MAX;
use crate::members::Info;

/// The longest JSON of what others are told of a member, in bytes.
pub const INFO_BYTES_MAX: usize = 1024;

// Infos of channels stand among texts of that length at most.
const _: () = assert!(INFO_BYTES_MAX <= KEY_BYTES_MAX);

/// Under which ids a client may log in, until when, and as whom.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Grant {
    /// The id that the token is about (`sub`): logged in where a request names none.
    pub subject: Option<Box<str>>,
    /// The other ids that it grants to log in under.
    pub ids: IdPatterns,
    /// What else it grants. Apart, since most grant no more.
    pub talk: Option<Box<TalkGrant>>,
    /// From this second of Unix time on the token is good for nothing (`exp`).
    pub expires: Option<u64>,
    /// In which second of Unix time it was made (`iat`).
    pub issued: Option<u64>,
    /// What it is called, if it is called anything (`jti`).
    pub token: Option<Box<str>>,
    /// Under how many ids one connection may be logged in.
    pub ids_max: Option<u32>,
    /// How many connections it is good for at one time.
    pub connections_max: Option<u32>,
    /// All that it says, where another protocol than ours reads that.
    pub claims: Option<Box<Claims>>,
}

/// What a token says, word for word. Nothing shows it, not even for people who debug.
#[derive(Clone, PartialEq, Eq)]
pub struct Claims {
    /// Of which type it is (`typ`).
    pub kind: Option<Box<str>>,
    /// A JSON object.
    pub json: Box<str>,
}

impl fmt::Debug for Claims {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Claims").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// What a client may do beside listening.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TalkGrant {
    /// About which ids it may send.
    pub send: IdPatterns,
    /// Of which ids it may ask who is logged in there.
    pub members: IdPatterns,
    /// Of which ids it may read what was sent about them.
    pub history: IdPatterns,
    /// Which durable streams it may read, by their paths.
    pub read: IdPatterns,
    /// To which durable streams it may append, and which it may close.
    pub write: IdPatterns,
    /// What others are told of it where it is a member. The members keep it with the connection.
    pub info: Option<Info>,
}

impl Grant {
    /// The bytes that it takes up, each of its texts with `overhead` of its own.
    pub fn bytes(&self, overhead: usize) -> usize {
        let text = |text: &str| size_of::<Box<str>>() + text.len() + overhead;
        let named: usize = self.subject.iter().chain(&self.token).map(|name| text(name)).sum();
        let talk = self.talk.as_ref().map_or(0, |talk| {
            let lists = [&talk.send, &talk.members, &talk.history, &talk.read, &talk.write];
            let lists: usize = lists.into_iter().map(|list| list.bytes(overhead)).sum();
            let info = talk.info.as_ref().map_or(0, |info| text(info.json()) + overhead);
            size_of::<TalkGrant>() + overhead + lists + info
        });
        let claims = self
            .claims
            .as_ref()
            .map_or(0, |claims| size_of::<Claims>() + 2 * overhead + claims.json.len());
        size_of::<Grant>() + self.ids.bytes(overhead) + named + talk + claims
    }

    /// Whether a client may log in as `id`.
    pub fn allows(&self, id: &str) -> bool {
        self.subject.as_deref() == Some(id) || self.ids.allows(id)
    }

    /// Whether a client may send about anything.
    pub fn sends(&self) -> bool {
        self.talk.as_ref().is_some_and(|talk| !talk.send.is_empty())
    }

    /// Whether a client may send about `id`.
    pub fn allows_send(&self, id: &str) -> bool {
        self.talk.as_ref().is_some_and(|talk| talk.send.allows(id))
    }

    /// Whether a client may ask who is logged in under `id`.
    pub fn allows_members(&self, id: &str) -> bool {
        self.talk.as_ref().is_some_and(|talk| talk.members.allows(id))
    }

    /// Whether a client may read what was sent about `id`.
    pub fn allows_history(&self, id: &str) -> bool {
        self.talk.as_ref().is_some_and(|talk| talk.history.allows(id))
    }

    /// Whether a client may read the durable stream at `path`.
    pub fn allows_read(&self, path: &str) -> bool {
        self.talk.as_ref().is_some_and(|talk| talk.read.allows(path))
    }

    /// Whether a client may append to the durable stream at `path`, and close it.
    pub fn allows_write(&self, path: &str) -> bool {
        self.talk.as_ref().is_some_and(|talk| talk.write.allows(path))
    }

    /// What others are told of the client where it is a member.
    pub fn info(&self) -> Option<&Info> {
        self.talk.as_ref()?.info.as_ref()
    }
}

/// Why a token is refused. The text says what to do, and tells nothing of the token.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum TokenRefusal {
    /// No JWT in compact form (RFC 7515, section 3.1).
    #[error("it is not a JSON Web Token: three parts in base64url with a dot between each two")]
    Malformed,
    /// Over the bound.
    #[error("it is longer than 6 KiB: shorten its claims")]
    TooLong,
    /// Five parts (RFC 7516), or a header that says so.
    #[error("it is encrypted (JWE), which this server does not read: sign it instead")]
    Encrypted,
    /// Another token is in it (RFC 7519, section 5.2).
    #[error("it holds another token (`cty`), which this server does not look into: send that one")]
    Nested,
    /// Its header is no JSON object with what it must have, or of another type, or names what must
    /// be understood and is not (RFC 7515, section 4.1.11).
    #[error(
        "its header cannot be read, or its `typ` is neither JWT nor at+jwt, or it has `crit` or \
         `b64`, which this server does not know"
    )]
    Header,
    /// Signed in a way that no key of ours is for.
    #[error("it is signed by an algorithm that none of the server's keys is for")]
    Algorithm,
    /// No key of ours has its `kid`, or none is for its algorithm.
    #[error("it is signed with a key that the server does not know")]
    UnknownKey,
    /// The signature is of another key or of another text.
    #[error("its signature is wrong")]
    Signature,
    /// Its time is over.
    #[error("it has expired: get a new one")]
    Expired,
    /// Its time has not come (`nbf`).
    #[error("it is not valid yet: look at the clocks of both machines")]
    NotYet,
    /// It never expires, and the server wants that of tokens.
    #[error("it has no expiry: sign it with `exp`")]
    NoExpiry,
    /// By somebody else (`iss`).
    #[error("its issuer is not the one that the server takes tokens of")]
    Issuer,
    /// For somebody else (`aud`).
    #[error("its audience is not this server")]
    Audience,
    /// They are no JSON object, or one has a form that RFC 7519 does not give it.
    #[error(
        "its claims are no JSON object, or one of `iss`, `aud`, `exp`, `nbf`, `iat` and `jti` has \
         another form than RFC 7519 gives it"
    )]
    Claims,
    /// Its subject (`sub`) cannot be an id.
    #[error("its `sub` is no id: a text or a number by the rules for ids")]
    Subject,
    /// Its `encke` cannot be read, lists too much, or nothing is granted at all.
    #[error(
        "its claim `encke` has a form or a member that this server does not know, or lists too \
         many ids, or nothing is granted: see the page on tokens"
    )]
    Granted,
    /// It was revoked.
    #[error("it was revoked: get a new one")]
    Revoked,
    /// There was no time to look at it, or what is revoked is not known for sure.
    #[error("the server cannot check it now: try again in a moment")]
    Busy,
}

const _: () = {
    let mut index = 0;
    while index < TokenRefusal::ALL.len() {
        assert!(TokenRefusal::ALL[index] as usize == index, "counters are found by the number");
        index += 1;
    }
};

impl TokenRefusal {
    /// Every refusal, in the order of their numbers.
    pub const ALL: [TokenRefusal; 18] = [
        TokenRefusal::Malformed,
        TokenRefusal::TooLong,
        TokenRefusal::Encrypted,
        TokenRefusal::Nested,
        TokenRefusal::Header,
        TokenRefusal::Algorithm,
        TokenRefusal::UnknownKey,
        TokenRefusal::Signature,
        TokenRefusal::Expired,
        TokenRefusal::NotYet,
        TokenRefusal::NoExpiry,
        TokenRefusal::Issuer,
        TokenRefusal::Audience,
        TokenRefusal::Claims,
        TokenRefusal::Subject,
        TokenRefusal::Granted,
        TokenRefusal::Revoked,
        TokenRefusal::Busy,
    ];

    /// The refusal as it stands in metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            TokenRefusal::Malformed => "malformed",
            TokenRefusal::TooLong => "too_long",
            TokenRefusal::Encrypted => "encrypted",
            TokenRefusal::Nested => "nested",
            TokenRefusal::Header => "header",
            TokenRefusal::Algorithm => "algorithm",
            TokenRefusal::UnknownKey => "unknown_key",
            TokenRefusal::Signature => "signature",
            TokenRefusal::Expired => "expired",
            TokenRefusal::NotYet => "not_yet",
            TokenRefusal::NoExpiry => "no_expiry",
            TokenRefusal::Issuer => "issuer",
            TokenRefusal::Audience => "audience",
            TokenRefusal::Claims => "claims",
            TokenRefusal::Subject => "subject",
            TokenRefusal::Granted => "granted",
            TokenRefusal::Revoked => "revoked",
            TokenRefusal::Busy => "busy",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grant_allows_its_subject_and_its_ids_and_sending_is_granted_apart() {
        let list = |texts: &[&str]| IdPatterns::parse(texts.iter().map(|&id| id.into())).unwrap();
        let talk = TalkGrant { send: list(&["lobby", "room:*"]), ..TalkGrant::default() };
        let grant = Grant {
            subject: Some("bob".into()),
            ids: list(&["news"]),
            talk: Some(talk.into()),
            ..Grant::default()
        };
        assert!(["bob", "news"].into_iter().all(|id| grant.allows(id) && !grant.allows_send(id)));
        assert!(
            ["lobby", "room:1"].into_iter().all(|id| grant.allows_send(id) && !grant.allows(id))
        );
        assert!(!grant.allows("bobby") && !grant.allows_members("lobby"));
        assert!(!grant.allows_history("lobby") && !Grant::default().allows("bob"));
    }

    #[test]
    fn every_refusal_is_listed_at_its_number() {
        for (index, refusal) in TokenRefusal::ALL.into_iter().enumerate() {
            assert_eq!(refusal as usize, index);
        }
    }
}
