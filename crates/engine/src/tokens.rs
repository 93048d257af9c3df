//! Tokens of streams: who verifies them, and what is kept of one.
//!
//! A worker shows a token to a [`TokenCheck`], which answers at once or not at all: a signature
//! takes longer to verify than a turn has for one client. Then the worker asks, as it asks what was
//! missed, and whoever takes the [questions](crate::questions) has the answer posted to it
//! ([`TokenQueue::post_result`](crate::TokenQueue::post_result)). Meanwhile the connection waits in
//! a state of its own ([`crate::conn::state`]).
//!
//! What is kept of a token: its end in the record, and twelve bytes beside it by which it is found
//! when it is revoked. Of a WebSocket, which may log in later, all that is granted.

use std::fmt::{self, Debug};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use hub::{Grant, TokenRefusal, TokenUses};
use proto::Secret;
use siphasher::sip::SipHasher13;

use crate::limits::{TOKEN_QUESTION_BYTES_MAX, TOKEN_QUESTIONS_MAX};
use crate::questions::{Asker, Question, QuestionBounds, Questions};

/// A token that is good.
#[derive(Clone, Debug)]
pub struct Granted {
    /// What for.
    pub grant: Arc<Grant>,
    /// How long, in milliseconds from now on; `None` is for ever.
    pub remaining_ms: Option<u64>,
}

/// What a token is found to be.
pub type Outcome = Result<Granted, TokenRefusal>;

/// Verifies tokens.
pub trait TokenCheck: Send + Sync + Debug {
    /// Verifies one within a worker's turn: a few microseconds, and without waiting for anybody.
    /// `None` when that takes longer; then it is asked for.
    fn check(&self, token: &str) -> Option<Outcome>;
}

/// Streams need tokens, and which.
#[derive(Clone, Debug)]
pub struct TokenConfig {
    /// Who verifies them.
    pub check: Arc<dyn TokenCheck>,
    /// The cookie that may carry one.
    pub cookie: String,
}

/// A token that is to be verified, and the connection that has shown it.
pub struct TokenQuestion {
    pub(crate) asker: Asker,
    pub(crate) token: Box<str>,
}

impl Question for TokenQuestion {
    fn bytes(&self) -> usize {
        self.token.len()
    }
}

impl Debug for TokenQuestion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the token of {:?}", self.asker.conn)
    }
}

impl TokenQuestion {
    /// The token.
    pub fn token(&self) -> Secret<'_> {
        Secret::from(&*self.token)
    }

    /// Who has shown it.
    pub fn asker(&self) -> &Asker {
        &self.asker
    }
}

/// What all workers share of tokens.
pub(crate) struct Tokens {
    pub(crate) questions: Questions<TokenQuestion>,
    pub(crate) uses: TokenUses,
    /// What tokens are hashed under: nobody outside knows it, so nobody can aim at another's.
    key: [u8; 16],
}

/// What is kept of the token of a connection beside its end: enough to find it when it is revoked.
/// In one of four thousand million cases it is found for another's; its client comes back then.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Session {
    token: u32,
    subject: u32,
    /// In which second of Unix time it was made; 0 when it does not say.
    issued: u32,
}

/// Which tokens are good no more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Revocation {
    /// The one with this name (`jti`).
    Token(Box<str>),
    /// Those of this subject (`sub`) that were made before this second of Unix time, or do not say
    /// when they were.
    Subject {
        /// Whose.
        subject: Box<str>,
        /// Since when they are good again.
        before: u64,
    },
}

/// A revocation as workers look for it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Revoked {
    Token(u32),
    Subject { subject: u32, before: u32 },
}

impl Debug for Tokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tokens").field("uses", &self.uses).finish_non_exhaustive()
    }
}

impl Tokens {
    /// Those of a server that has the store with this [`hub::Names::key`], and goes on with what
    /// another process has kept of them.
    pub(crate) fn new(key: [u8; 16]) -> Tokens {
        let bounds =
            QuestionBounds { questions: TOKEN_QUESTIONS_MAX, bytes: TOKEN_QUESTION_BYTES_MAX };
        Tokens { questions: Questions::for_thread(bounds), uses: TokenUses::default(), key }
    }

    pub(crate) fn session(&self, grant: &Grant) -> Session {
        Session {
            token: grant.token.as_deref().map_or(0, |token| self.short(token)),
            subject: grant.subject.as_deref().map_or(0, |subject| self.short(subject)),
            issued: grant.issued.map_or(0, seconds),
        }
    }

    pub(crate) fn revoked(&self, revocation: &Revocation) -> Revoked {
        match revocation {
            Revocation::Token(token) => Revoked::Token(self.short(token)),
            Revocation::Subject { subject, before } => {
                Revoked::Subject { subject: self.short(subject), before: seconds(*before) }
            }
        }
    }

    /// By what the uses of a token are counted: its name, or its subject where it has none.
    pub(crate) fn use_of(&self, grant: &Grant) -> u64 {
        self.hash((&grant.token, grant.token.is_none().then_some(&grant.subject)))
    }

    /// A hash that is equal in each process that has the key.
    fn hash(&self, value: impl Hash) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        value.hash(&mut hasher);
        hasher.finish()
    }

    /// 0 is for what is not there.
    fn short(&self, text: &str) -> u32 {
        (self.hash(text) as u32).max(1)
    }
}

impl Session {
    /// What it is made of, for another process.
    pub(crate) fn parts(self) -> (u32, u32, u32) {
        (self.token, self.subject, self.issued)
    }

    /// The session as the other process has written it.
    pub(crate) fn of_parts((token, subject, issued): (u32, u32, u32)) -> Session {
        Session { token, subject, issued }
    }

    pub(crate) fn is_of(self, revoked: Revoked) -> bool {
        match revoked {
            Revoked::Token(token) => self.token == token,
            Revoked::Subject { subject, before } => self.subject == subject && self.issued < before,
        }
    }

    /// Whether both are about the same subject, or neither is about one.
    pub(crate) fn has_subject_of(self, other: Session) -> bool {
        self.subject == other.subject
    }
}

/// Good until the year 2106.
fn seconds(unix: u64) -> u32 {
    u32::try_from(unix).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(token: Option<&str>, subject: Option<&str>, issued: Option<u64>) -> Grant {
        Grant {
            token: token.map(Into::into),
            subject: subject.map(Into::into),
            issued,
            ..Grant::default()
        }
    }

    #[test]
    fn session_is_found_by_what_is_revoked() {
        let tokens = Tokens::new([0; 16]);
        let session = tokens.session(&grant(Some("t1"), Some("bob"), Some(100)));
        let is_of = |revocation| session.is_of(tokens.revoked(&revocation));
        let before =
            |subject: &str, before| Revocation::Subject { subject: subject.into(), before };
        assert!(is_of(Revocation::Token("t1".into())));
        assert!(!is_of(Revocation::Token("t2".into())));
        assert!(!is_of(before("bob", 100)) && is_of(before("bob", 101)));
        assert!(!is_of(before("alice", 101)));
        let nameless = tokens.session(&grant(None, Some("bob"), None));
        assert!(nameless.is_of(tokens.revoked(&before("bob", 1))));
        assert!(!nameless.is_of(tokens.revoked(&Revocation::Token(String::new().into()))));
    }

    #[test]
    fn uses_are_counted_by_name_or_else_by_subject() {
        let tokens = Tokens::new([0; 16]);
        let use_of = |token, subject| tokens.use_of(&grant(token, subject, None));
        assert_eq!(use_of(Some("t1"), Some("bob")), use_of(Some("t1"), Some("alice")));
        assert_ne!(use_of(Some("t1"), None), use_of(Some("t2"), None));
        assert_ne!(use_of(None, Some("bob")), use_of(None, Some("alice")));
        assert_ne!(use_of(None, Some("bob")), use_of(Some("bob"), None));
    }
}
