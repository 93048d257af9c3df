//! Where a request carries its token (RFC 6750, section 2): in `Authorization`, in the query, among
//! the sub-protocols of a WebSocket, or in a cookie.
//!
//! What stands in the first three places somebody put there for this request, so there is one of
//! them at most. A cookie comes by itself: it counts where nothing else does, and only with a
//! request of which the caller knows that no page of others has made it. It may be there several
//! times, of several paths and domains, and nobody can tell by looking which is meant (RFC 6265,
//! section 4.2.2). Then the one counts that is good.
//!
//! A token is a secret: nothing here shows it, not even for people who debug.

use std::borrow::Cow;

use super::secret::Secret;
use super::upgrade::Upgrade;
use crate::Problem;

/// How many cookies of one name are tried.
const COOKIES_MAX: usize = 4;

/// The places of a head in which a token may stand.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Bearer<'b> {
    /// `Authorization`.
    pub(super) authorization: Option<Secret<'b>>,
    /// The parameter `token`.
    pub(super) parameter: Option<Secret<'b>>,
    /// `Cookie`.
    pub(super) cookies: Option<Secret<'b>>,
}

impl<'b> Bearer<'b> {
    /// Takes in one more line of cookies.
    pub(super) fn add_cookies(&mut self, line: &'b str) {
        self.cookies = Some(Secret(match self.cookies.take() {
            None => Cow::Borrowed(line),
            Some(Secret(lines)) => {
                // It grows where it is, or a head of many lines would be copied for each of them.
                let mut lines = lines.into_owned();
                lines.push_str("; ");
                lines.push_str(line);
                Cow::Owned(lines)
            }
        }));
    }

    /// The token of a request; the cookie `cookie` counts where there is no other. `None` when
    /// there is none. Of several cookies of that name there are the first four, with a space
    /// between them, as none has in itself: see [`tokens_of`].
    ///
    /// # Errors
    /// It has two of them.
    pub fn token<'t>(
        &'t self,
        upgrade: Option<&'t Upgrade<'_>>,
        cookie: Option<&str>,
    ) -> Result<Option<Cow<'t, str>>, Problem> {
        let header = self.authorization.as_ref().and_then(|value| after_scheme(&value.0));
        let parameter = self.parameter.as_ref().map(|value| &*value.0);
        let protocol = upgrade.and_then(Upgrade::token);
        let mut given = [header, parameter, protocol].into_iter().flatten();
        let token = given.next();
        if given.next().is_some() {
            return Err(Problem::bad_request(
                "The request has two tokens. Send one: in Authorization, in the parameter token, \
                 or as a sub-protocol (RFC 6750, section 2).",
            ));
        }
        Ok(token.map(Cow::Borrowed).or_else(|| cookie.and_then(|name| self.cookie(name))))
    }

    /// The value of `Authorization`, for a protocol with rules of its own.
    pub fn authorization(&self) -> Option<&str> {
        self.authorization.as_ref().map(Secret::text)
    }

    /// The value of `Cookie`, for such a one.
    pub fn cookies(&self) -> Option<&str> {
        self.cookies.as_ref().map(Secret::text)
    }

    /// Whether there are cookies: then a browser asks for leave to read the answer with them.
    pub fn has_cookies(&self) -> bool {
        self.cookies.is_some()
    }

    /// The values of a cookie (RFC 6265, section 4.2.1).
    fn cookie(&self, name: &str) -> Option<Cow<'_, str>> {
        let pairs = self.cookies.as_ref()?.0.split(';');
        let named = pairs.filter_map(|pair| {
            let (named, value) = pair.trim_ascii().split_once('=')?;
            let unquoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
            let value = unquoted.unwrap_or(value);
            (named == name && !value.is_empty()).then_some(value)
        });
        let values: Vec<&str> = named.take(COOKIES_MAX).collect();
        match values[..] {
            [] => None,
            [value] => Some(Cow::Borrowed(value)),
            _ => Some(Cow::Owned(values.join(" "))),
        }
    }
}

/// The tokens in what [`Bearer::token`] has found: one, as a rule, or those of which one counts.
pub fn tokens_of(found: &str) -> impl Iterator<Item = &str> {
    found.split(' ').take(COOKIES_MAX)
}

/// What follows `Bearer`, in any case of letters (RFC 9110, section 11.1). Of another scheme
/// nothing: a proxy may have its own.
fn after_scheme(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Option<Secret<'_>> {
        Some(Secret(text.into()))
    }

    fn upgrade(protocols: &str) -> Upgrade<'_> {
        Upgrade { protocols: secret(protocols), ..Upgrade::default() }
    }

    #[test]
    fn token_is_found_in_each_place() {
        let none = Bearer::default();
        for value in ["Bearer a.b.c", "bearer a.b.c", "BEARER   a.b.c "] {
            let bearer = Bearer { authorization: secret(value), ..Bearer::default() };
            assert_eq!(bearer.token(None, None), Ok(Some("a.b.c".into())), "{value}");
        }
        let bearer = Bearer { parameter: secret("a.b.c"), ..Bearer::default() };
        assert_eq!(bearer.token(None, None), Ok(Some("a.b.c".into())));
        let offered = upgrade("encke, encke.bearer.a.b.c");
        assert_eq!(none.token(Some(&offered), None), Ok(Some("a.b.c".into())));
        for (cookies, found) in [
            ("t=a.b.c", "a.b.c"),
            ("x=1; t=a.b.c; y=2", "a.b.c"),
            ("t=\"a.b.c\"", "a.b.c"),
            ("t=; tt=1;t=a.b.c;t=d.e.f", "a.b.c d.e.f"),
            ("t=1;t=2;t=3;t=4;t=5", "1 2 3 4"),
        ] {
            let bearer = Bearer { cookies: secret(cookies), ..Bearer::default() };
            assert_eq!(bearer.token(None, Some("t")), Ok(Some(found.into())), "{cookies}");
            assert_eq!(bearer.token(None, None), Ok(None), "{cookies}");
            assert_eq!(tokens_of(found).collect::<Vec<_>>().join(" "), found);
        }
        let mut lines = Bearer::default();
        ["a=1", "t=a.b.c; b=2", "t=d.e.f"].iter().for_each(|line| lines.add_cookies(line));
        assert_eq!(lines.token(None, Some("t")), Ok(Some("a.b.c d.e.f".into())));
    }

    #[test]
    fn what_is_no_bearer_is_no_token() {
        for value in ["Basic YTpi", "Bearer", "Bearera.b.c", ""] {
            let bearer = Bearer { authorization: secret(value), ..Bearer::default() };
            assert_eq!(bearer.token(None, None), Ok(None), "{value}");
        }
        for protocols in ["encke", "chat, encke.bearer", "bearer.a.b.c"] {
            let offered = upgrade(protocols);
            assert_eq!(Bearer::default().token(Some(&offered), None), Ok(None), "{protocols}");
        }
    }

    #[test]
    fn two_tokens_are_refused_but_a_cookie_comes_by_itself() {
        let bearer = Bearer {
            authorization: secret("Bearer a.b.c"),
            parameter: secret("a.b.c"),
            cookies: secret("t=d.e.f"),
        };
        assert!(bearer.token(None, Some("t")).is_err());
        let bearer = Bearer { parameter: None, ..bearer };
        assert_eq!(bearer.token(None, Some("t")), Ok(Some("a.b.c".into())));
        assert!(bearer.token(Some(&upgrade("encke.bearer.a.b.c")), None).is_err());
    }

    #[test]
    fn nothing_that_may_hold_a_token_is_shown() {
        let bearer = Bearer {
            authorization: secret("Bearer hidden"),
            parameter: secret("hidden"),
            cookies: secret("t=hidden"),
        };
        let shown = format!("{bearer:?} {:?}", upgrade("encke.bearer.hidden"));
        assert!(!shown.contains("hidden"), "{shown}");
    }
}
