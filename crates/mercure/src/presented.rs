//! Where a request has its token.

use std::borrow::Cow;
use std::fmt;

use url::Url;

use crate::fields::Fields;
use crate::{Dialect, Refusal};

/// The fields of a request in which a token, or whose page it is, may stand.
#[derive(Clone, Copy, Default)]
pub struct TokenFields<'r> {
    /// Every value of `Authorization`.
    pub authorization: &'r [&'r str],
    /// Every value of `Cookie`.
    pub cookie: &'r [&'r str],
    /// The value of `Origin`.
    pub origin: Option<&'r str>,
    /// The value of `Referer`.
    pub referer: Option<&'r str>,
}

/// A token that nobody has looked into yet.
#[derive(Clone, PartialEq, Eq)]
pub struct Presented<'r> {
    /// The token.
    pub token: Cow<'r, str>,
    /// Where it stood.
    pub by: PresentedBy,
}

// Tokens are shown nowhere, not even to people who debug.
impl fmt::Debug for TokenFields<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TokenFields { origin, referer, .. } = self;
        let mut shown = formatter.debug_struct("TokenFields");
        shown.field("origin", origin).field("referer", referer).finish_non_exhaustive()
    }
}

impl fmt::Debug for Presented<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Presented").field("by", &self.by).finish_non_exhaustive()
    }
}

/// Where a token stood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PresentedBy {
    /// In `Authorization`.
    Field,
    /// In the query, which only the old dialect allows.
    Query,
    /// In the cookie of this dialect, which a browser sends whatever page the request comes from.
    Cookie(Dialect),
}

impl<'r> Presented<'r> {
    /// Finds the token of a request: the field goes before the query, the query before the cookie.
    /// `dialect` is the request's, where its parameters say it; the cookie has its name. Otherwise
    /// the cookie of 1.0 goes first: an old one may have stayed in the browser.
    ///
    /// # Errors
    /// Something is there that is no token, or more than one is.
    pub fn find(
        fields: TokenFields<'r>,
        query: &'r str,
        dialect: Option<Dialect>,
    ) -> Result<Option<Presented<'r>>, Refusal> {
        if let Some(&first) = fields.authorization.first() {
            let token = bearer(first).filter(|_| fields.authorization.len() == 1);
            // Only 1.0 has its own word for another scheme; otherwise there is no token (RFC 6750,
            // section 3.1).
            let none = || if dialect.is_some() { Refusal::NotBearer } else { Refusal::NoToken };
            let token = Cow::Borrowed(token.ok_or_else(none)?);
            return Ok(Some(Presented { token, by: PresentedBy::Field }));
        }
        let in_query: Vec<String> =
            Fields::read(query.as_bytes())?.all("authorization").map(str::to_owned).collect();
        match (&in_query[..], dialect) {
            ([], _) => {}
            (_, Some(Dialect::V1)) => return Err(Refusal::TokenInQuery),
            ([token], _) if !token.is_empty() => {
                let token = Cow::Owned(token.clone());
                return Ok(Some(Presented { token, by: PresentedBy::Query }));
            }
            _ => return Err(Refusal::ManyTokens),
        }
        let dialects = match dialect {
            Some(dialect) => vec![dialect],
            None => vec![Dialect::V1, Dialect::Old],
        };
        let found = dialects.into_iter().find_map(|dialect| {
            let token = Cow::Borrowed(cookie(fields.cookie, dialect.cookie())?);
            Some(Presented { token, by: PresentedBy::Cookie(dialect) })
        });
        Ok(found)
    }

    /// Whether a token of this dialect may stand where it stood.
    ///
    /// # Errors
    /// It is one of 1.0 and stood in the query or in the old cookie, or it is an old one in the
    /// cookie of 1.0. That is told in 1.0.
    pub fn check(&self, dialect: Dialect) -> Result<(), Refusal> {
        match (self.by, dialect) {
            (PresentedBy::Query, Dialect::V1) => Err(Refusal::TokenInQuery),
            (PresentedBy::Cookie(Dialect::Old), Dialect::V1) => Err(Refusal::TokenInOldCookie),
            (PresentedBy::Cookie(Dialect::V1), Dialect::Old) => Err(Refusal::OldToken),
            _ => Ok(()),
        }
    }

    /// The origin of the page that a publish comes from, which must be a listed one. `None` where
    /// it does not matter: only cookies are sent along by browsers.
    ///
    /// # Errors
    /// It matters, and the request does not say.
    pub fn origin_of_publish(&self, fields: TokenFields<'_>) -> Result<Option<String>, Refusal> {
        if !matches!(self.by, PresentedBy::Cookie(_)) {
            return Ok(None);
        }
        if let Some(origin) = fields.origin.filter(|origin| !origin.is_empty()) {
            return Ok(Some(origin.to_owned()));
        }
        let page = fields.referer.and_then(|page| Url::parse(page).ok());
        let page = page.ok_or(Refusal::NoOrigin)?;
        Ok(Some(page.origin().ascii_serialization()))
    }
}

/// The token in `Bearer TOKEN` (RFC 6750, section 2.1), the scheme in any case.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.trim().split_once(' ')?;
    let token = token.trim_start();
    let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    (scheme.eq_ignore_ascii_case("bearer") && is_token).then_some(token)
}

/// The value of a cookie (RFC 6265, section 4.2.1).
fn cookie<'r>(fields: &[&'r str], name: &str) -> Option<&'r str> {
    let pairs = fields.iter().flat_map(|field| field.split(';'));
    let mut values = pairs.filter_map(|pair| pair.trim().split_once('='));
    values.find(|&(known, value)| known == name && !value.is_empty()).map(|(_, value)| value)
}
