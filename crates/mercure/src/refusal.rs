//! Why a request is refused, and how each dialect says so.

use std::borrow::Cow;

use thiserror::Error;

use crate::limits::{FIELDS_MAX, ID_BYTES_MAX, KIND_BYTES_MAX, TOPIC_BYTES_MAX};
use crate::{ClaimsFault, Dialect, SelectorFault};

/// Why a request is refused. The text says what was wrong and what to do.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Refusal {
    /// A token is needed, and there is none.
    #[error("A token is needed: send it as `Authorization: Bearer TOKEN`, or in the cookie.")]
    NoToken,
    /// The field `Authorization` holds no token.
    #[error("The field Authorization has no token. Write `Authorization: Bearer TOKEN`, once.")]
    NotBearer,
    /// The query has more than one token.
    #[error("The query has more than one token. Send one.")]
    ManyTokens,
    /// A 1.0 request has its token in the query, which the log of every proxy keeps.
    #[error("In Mercure 1.0 no token may stand in the query. Send it in a header or a cookie.")]
    TokenInQuery,
    /// A 1.0 token is in the cookie of the old dialect.
    #[error("A token of Mercure 1.0 is in the old cookie. Put it into {}.", Dialect::V1.cookie())]
    TokenInOldCookie,
    /// The token is wrong, too old, or not of this hub.
    #[error("The token is invalid: {0}.")]
    BadToken(Cow<'static, str>),
    /// A token of the old dialect came with matchers of 1.0.
    #[error("The token is invalid: Mercure 1.0 takes access tokens of the type at+jwt (RFC 9068).")]
    OldToken,
    /// A publish by cookie that does not say which page it comes from.
    #[error("A publish with the token in a cookie must say which page it is of: send Origin.")]
    NoOrigin,
    /// A publish by cookie from a page that is not listed.
    #[error("The origin {0} may not publish with a cookie. The operator must list it.")]
    ForeignOrigin(String),
    /// The token does not grant this.
    #[error("The token does not grant this: its claims must list each topic of the request.")]
    NoGrant,
    /// A subscription without a topic.
    #[error("No topic is asked for. Add `topic=TOPIC`, or in Mercure 1.0 `match=TOPIC`.")]
    NoSelector,
    /// A subscription to more than one connection may have.
    #[error("Too many topics (limit {0}). Use a pattern, or several connections.")]
    TooManySelectors(usize),
    /// Parameters of both dialects in one request.
    #[error("`topic` is of the old protocol and `{0}` of 1.0. Use one of them in a request.")]
    MixedDialects(String),
    /// `topic=` with a token of 1.0.
    #[error("With a token of Mercure 1.0 use `match=` instead of `topic=`.")]
    OldParameter,
    /// Matchers that take too long to compile.
    #[error(
        "The URL patterns are of too many hosts, or of too many regular expressions. Use fewer."
    )]
    TooCostly,
    /// A parameter that begins as a matcher does.
    #[error("`{0}` is no parameter. Use match, match_exact or match_urlpattern.")]
    UnknownMatcher(String),
    /// A selector that is none.
    #[error(transparent)]
    Selector(#[from] SelectorFault),
    /// A form or a query with more fields than any request has.
    #[error("The request has more than {FIELDS_MAX} fields.")]
    TooManyFields,
    /// A body that is no form.
    #[error("The body must be a form: application/x-www-form-urlencoded.")]
    NotForm,
    /// An update without a topic.
    #[error("The update has no topic. Add the field `topic`.")]
    NoTopic,
    /// An update with more topics than it may have.
    #[error("Too many topics (limit {}).", crate::limits::SELECTORS_MAX)]
    TooManyTopics,
    /// A topic that is longer than any may be.
    #[error("A topic is longer than {TOPIC_BYTES_MAX} bytes.")]
    TopicTooLong,
    /// A topic below the hub's own path.
    #[error("Topics below the path of the hub are its own. Use another topic.")]
    ReservedTopic,
    /// `*` as a topic of 1.0.
    #[error("`*` matches every topic and is none itself. Use another topic.")]
    TopicIsAll,
    /// A topic with a control character, or in 1.0 with one that has no shape.
    #[error("A topic has a control or format character.")]
    TopicCharacter,
    /// A publisher's id that cannot be one.
    #[error("{0}")]
    Id(IdFault),
    /// A type that cannot be one.
    #[error("{0}")]
    Kind(KindFault),
    /// A time to wait that is no number.
    #[error("`retry` must be a number of milliseconds, in digits.")]
    Retry,
}

/// Why a text cannot be an update's id.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum IdFault {
    /// It would end its line, or a terminal would stumble over it.
    #[error("`id` has a control character.")]
    Control,
    /// The hub's own ids begin so.
    #[error("`id` begins with `#`, as the ids that the hub makes do. Use another id.")]
    Reserved,
    /// In 1.0 this place is before everything.
    #[error("`earliest` is no id: it stands for the beginning of what is kept.")]
    Earliest,
    /// No field of an answer could hold it.
    #[error("`id` is longer than {ID_BYTES_MAX} bytes.")]
    TooLong,
}

/// Why a text cannot be an update's type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum KindFault {
    /// It would end its line, or a terminal would stumble over it.
    #[error("`type` has a control character.")]
    Control,
    /// In 1.0 it is the type of the hub's own updates.
    #[error("`type` may not be `mercure`, which is the type of the updates of the hub.")]
    Reserved,
    /// It is longer than any.
    #[error("`type` is longer than {KIND_BYTES_MAX} bytes.")]
    TooLong,
}

impl From<ClaimsFault> for Refusal {
    fn from(fault: ClaimsFault) -> Refusal {
        Refusal::BadToken(Cow::Owned(fault.to_string().trim_end_matches('.').to_owned()))
    }
}

impl Refusal {
    /// The status of the answer.
    pub fn status(&self, dialect: Dialect) -> u16 {
        match (self, dialect) {
            (Refusal::NoToken | Refusal::BadToken(_) | Refusal::OldToken, _) => 401,
            // What is wrong is not the token: it grants other topics.
            (Refusal::NoGrant, _) => 403,
            (Refusal::NotBearer | Refusal::ManyTokens, Dialect::Old) => 401,
            (Refusal::NoOrigin | Refusal::ForeignOrigin(_), Dialect::Old) => 401,
            (Refusal::ReservedTopic, Dialect::Old) => 403,
            (Refusal::NotForm, _) => 415,
            _ => 400,
        }
    }

    /// The error code of the answer (RFC 6750, section 3.1), which only 1.0 has.
    pub fn error_code(&self, dialect: Dialect) -> Option<&'static str> {
        match (self, dialect) {
            (_, Dialect::Old) | (Refusal::NoToken, _) => None,
            (Refusal::BadToken(_) | Refusal::OldToken, _) => Some("invalid_token"),
            (Refusal::NoGrant, _) => Some("insufficient_scope"),
            (Refusal::NotBearer | Refusal::ManyTokens, _) => Some("invalid_request"),
            (Refusal::TokenInQuery | Refusal::TokenInOldCookie, _) => Some("invalid_request"),
            (Refusal::NoOrigin | Refusal::ForeignOrigin(_), _) => Some("invalid_request"),
            _ => None,
        }
    }

    /// The value of `WWW-Authenticate` (RFC 6750, section 3; RFC 9728, section 5.1), where the
    /// answer must have one. `metadata` is the address of [`crate::metadata`].
    pub fn challenge(&self, dialect: Dialect, metadata: Option<&str>) -> Option<String> {
        let code = self.error_code(dialect);
        if self.status(dialect) != 401 && code.is_none() {
            return None;
        }
        let metadata = metadata.filter(|_| dialect == Dialect::V1);
        let code = code.map(|code| format!("error=\"{code}\""));
        let metadata = metadata.map(|address| format!("resource_metadata=\"{address}\""));
        let parts: Vec<String> = [code, metadata].into_iter().flatten().collect();
        Some(format!("Bearer {}", parts.join(", ")).trim_end().to_owned())
    }
}
