//! A revocation as it is written: in the file, in the log of a cluster, and where its nodes read it
//! at their start.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::Revocation;
use crate::tokens::limits::LEEWAY_MAX;

/// One of them. Of the first two one is there, and `before` beside `sub`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) jti: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sub: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) before: Option<u64>,
    /// How long it is kept, in seconds since 1970.
    pub(super) until: u64,
}

impl Line<'_> {
    /// What `wish` comes to at `now`, where tokens live so many seconds unless they say it.
    pub fn of(wish: &Revocation, now: u64, lifetime: u64) -> Line<'static> {
        match wish {
            Revocation::Token { jti, expires } => {
                // Leeway lets a token in for a while after its end.
                let until =
                    expires.map_or(now + lifetime, |expires| expires + LEEWAY_MAX.as_secs());
                Line { jti: Some(jti.clone().into()), sub: None, before: None, until }
            }
            Revocation::Subject { sub, before } => {
                let (until, before) = (now.max(*before) + lifetime, Some(*before));
                Line { jti: None, sub: Some(sub.clone().into()), before, until }
            }
        }
    }

    /// Whether it says one thing.
    pub fn is_sound(&self) -> bool {
        self.jti.is_some() != self.sub.is_some() && self.sub.is_some() == self.before.is_some()
    }

    /// By which of `jti` and `sub`, and by what.
    pub fn key(&self) -> (bool, &str) {
        match (&self.jti, &self.sub) {
            (Some(jti), _) => (true, jti),
            (None, sub) => (false, sub.as_deref().unwrap_or_default()),
        }
    }

    /// Until when it is kept.
    pub fn until(&self) -> u64 {
        self.until
    }

    /// Takes what `other`, of the same key, says besides: the later of two times counts.
    pub fn join(&mut self, other: &Line<'_>) {
        debug_assert_eq!(self.key(), other.key(), "another token would be revoked");
        self.until = self.until.max(other.until);
        self.before = self.before.max(other.before);
        debug_assert!(self.covers(other));
    }

    /// Whether it says all that `other`, of the same key, says.
    pub fn covers(&self, other: &Line<'_>) -> bool {
        debug_assert_eq!(self.key(), other.key());
        self.until >= other.until && self.before >= other.before
    }

    /// What it revokes, for the streams that are open.
    pub fn streams(&self) -> engine::Revocation {
        let (is_token, text) = self.key();
        if is_token {
            engine::Revocation::Token(text.into())
        } else {
            let before = self.before.unwrap_or_default();
            engine::Revocation::Subject { subject: text.into(), before }
        }
    }
}
