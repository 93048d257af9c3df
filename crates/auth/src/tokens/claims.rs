//! What a token says, and what that comes to: a [`Grant`], or why not.
//!
//! The registered claims are those of RFC 7519, section 4.1; `encke` is ours. A claim that is there
//! and has another form than it must have is refused, never passed over: it could be a bound.

use std::mem::take;

use hub::{Grant, INFO_BYTES_MAX, IdPatterns, IdText, Info, TalkGrant, TokenRefusal};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::jws::object;
use super::limits::{JTI_BYTES_MAX, TIME_MAX};

/// Who reads what a token grants, once its signature and its times are found to be good.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReadBy {
    /// We do: ids, and what may be done with them.
    #[default]
    Us,
    /// Another protocol does, out of [`hub::Claims`]. It also looks at the issuer and the audience.
    Others,
}

/// What the server wants of every token.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) issuer: Option<String>,
    pub(super) audiences: Vec<String>,
    /// In seconds.
    pub(super) leeway: u64,
    pub(super) expiry: bool,
    pub(super) read_by: ReadBy,
}

/// A grant, and since when it holds.
#[derive(Debug)]
pub(super) struct CheckedClaims {
    pub(super) grant: Grant,
    /// The first second at which it is good.
    pub(super) from: u64,
}

#[derive(Deserialize)]
struct Claims<'c> {
    #[serde(default, deserialize_with = "there")]
    iss: Option<String>,
    #[serde(borrow, default, deserialize_with = "there")]
    sub: Option<&'c RawValue>,
    #[serde(default, deserialize_with = "there")]
    aud: Option<Audience>,
    #[serde(default, deserialize_with = "there")]
    exp: Option<Time>,
    #[serde(default, deserialize_with = "there")]
    nbf: Option<Time>,
    #[serde(default, deserialize_with = "there")]
    iat: Option<Time>,
    #[serde(default, deserialize_with = "there")]
    jti: Option<String>,
    #[serde(borrow, default, deserialize_with = "there")]
    encke: Option<&'c RawValue>,
}

/// Members that this version does not know could be bounds that it would not keep.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Ours<'c> {
    #[serde(default)]
    ids: Vec<Id>,
    #[serde(default)]
    send: Vec<Id>,
    #[serde(default)]
    members: Vec<Id>,
    #[serde(default)]
    history: Vec<Id>,
    #[serde(default)]
    read: Vec<Id>,
    #[serde(default)]
    write: Vec<Id>,
    #[serde(borrow, default, deserialize_with = "there")]
    info: Option<&'c RawValue>,
    #[serde(default, deserialize_with = "there")]
    max_ids: Option<u32>,
    #[serde(default, deserialize_with = "there")]
    max_connections: Option<u32>,
}

/// `null` is no value: a claim that is there has one.
fn there<'de, T: Deserialize<'de>, D: Deserializer<'de>>(member: D) -> Result<Option<T>, D::Error> {
    T::deserialize(member).map(Some)
}

/// One audience or many (RFC 7519, section 4.1.3).
#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

/// Seconds since 1970, with a fraction or not (NumericDate).
#[derive(Clone, Copy)]
struct Time(f64);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(member: D) -> Result<Time, D::Error> {
        let seconds = f64::deserialize(member)?;
        match (0.0..=TIME_MAX as f64).contains(&seconds) {
            true => Ok(Time(seconds)),
            false => Err(D::Error::custom("no time")),
        }
    }
}

/// An id as JSON has it everywhere in the protocol: a text, or a number.
struct Id(Box<str>);

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(member: D) -> Result<Id, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(Box<str>),
            Number(u64),
        }
        Ok(match Written::deserialize(member)? {
            Written::Text(text) => Id(text),
            // As everywhere: from 2^63 on it would be a name, and was rounded by most writers.
            Written::Number(number) if number < 1 << 63 => Id(number.to_string().into()),
            Written::Number(_) => return Err(D::Error::custom("no id")),
        })
    }
}

impl Claims<'_> {
    /// By what a token is found when it is revoked that others read. What they may have as a name
    /// and we may not, nobody can ask for.
    fn names(&self) -> Grant {
        let subject = self.sub.and_then(|sub| serde_json::from_str(sub.get()).ok());
        let subject = subject.map(|Id(id)| id).filter(|id| IdText::parse(id).is_ok());
        let token = self.jti.as_deref().filter(|jti| is_token_name(jti));
        Grant { subject, token: token.map(Into::into), ..Grant::default() }
    }
}

fn is_token_name(jti: &str) -> bool {
    (1..=JTI_BYTES_MAX).contains(&jti.len())
}

impl Wanted {
    /// Checks the claims in `json` at `now`.
    pub(super) fn check(&self, json: &[u8], now: u64) -> Result<CheckedClaims, TokenRefusal> {
        let claims: Claims<'_> = object(json).map_err(|_| TokenRefusal::Claims)?;
        if self.read_by == ReadBy::Others {
            return self.check_times(&claims, now, || Ok(claims.names()));
        }
        let subject = claims.sub.map(|sub| serde_json::from_str(sub.get())).transpose();
        let subject: Option<Id> = subject.map_err(|_| TokenRefusal::Subject)?;
        let ours = claims.encke.map(|encke| object(encke.get().as_bytes())).transpose();
        let ours: Ours<'_> = ours.map_err(|_| TokenRefusal::Granted)?.unwrap_or_default();
        if self.issuer.is_some() && claims.iss != self.issuer {
            return Err(TokenRefusal::Issuer);
        }
        self.check_audience(claims.aud.as_ref())?;
        self.check_times(&claims, now, || grant(subject, ours, claims.jti.as_deref()))
    }

    /// Says from when on and how long it is good for its `grant`.
    fn check_times(
        &self,
        claims: &Claims<'_>,
        now: u64,
        grant: impl FnOnce() -> Result<Grant, TokenRefusal>,
    ) -> Result<CheckedClaims, TokenRefusal> {
        let expires = claims.exp.map(|exp| exp.0 as u64 + self.leeway);
        if expires.is_none() && self.expiry {
            return Err(TokenRefusal::NoExpiry);
        }
        // What was made in times to come could not be revoked by its time.
        let from = [claims.nbf, claims.iat].into_iter().flatten().map(|time| time.0.ceil() as u64);
        let from = from.max().unwrap_or(0).saturating_sub(self.leeway);
        let issued = claims.iat.map(|iat| iat.0 as u64);
        let checked = CheckedClaims { grant: Grant { expires, issued, ..grant()? }, from };
        in_time(&checked.grant, checked.from, now)?;
        Ok(checked)
    }

    /// A token with an audience is for nobody else, also where none is set (RFC 7519, 4.1.3): an
    /// issuer signs for many services, and one of them must not use a client's token at another.
    fn check_audience(&self, audience: Option<&Audience>) -> Result<(), TokenRefusal> {
        let is_ours = |audience: &String| self.audiences.contains(audience);
        let fits = match audience {
            None => self.audiences.is_empty(),
            Some(Audience::One(one)) => is_ours(one),
            Some(Audience::Many(many)) => many.iter().any(is_ours),
        };
        if fits { Ok(()) } else { Err(TokenRefusal::Audience) }
    }
}

/// Whether a token that is good from `from` on is good at `now`.
pub(super) fn in_time(grant: &Grant, from: u64, now: u64) -> Result<(), TokenRefusal> {
    match grant.expires {
        Some(expires) if expires <= now => Err(TokenRefusal::Expired),
        _ if now < from => Err(TokenRefusal::NotYet),
        _ => Ok(()),
    }
}

/// What `sub` and `encke` grant.
fn grant(
    subject: Option<Id>,
    mut ours: Ours<'_>,
    token: Option<&str>,
) -> Result<Grant, TokenRefusal> {
    let valid = |id: &str| IdText::parse(id).is_ok();
    let talk = talk(&mut ours)?;
    let ids = patterns(ours.ids)?;
    let subject = subject.map(|Id(id)| id);
    if !subject.as_deref().is_none_or(valid) {
        return Err(TokenRefusal::Subject);
    }
    if !token.is_none_or(is_token_name) {
        return Err(TokenRefusal::Claims);
    }
    // One that grants nothing, or is good for nothing, was meant otherwise.
    let good = (subject.is_some() || !ids.is_empty() || talk.is_some())
        && ours.max_ids != Some(0)
        && ours.max_connections != Some(0);
    if !good {
        return Err(TokenRefusal::Granted);
    }
    Ok(Grant {
        subject,
        ids,
        talk,
        token: token.map(Into::into),
        ids_max: ours.max_ids,
        connections_max: ours.max_connections,
        ..Grant::default()
    })
}

fn patterns(ids: Vec<Id>) -> Result<IdPatterns, TokenRefusal> {
    IdPatterns::parse(ids.into_iter().map(|Id(id)| id)).map_err(|_| TokenRefusal::Granted)
}

fn paths(paths: Vec<Id>) -> Result<IdPatterns, TokenRefusal> {
    IdPatterns::parse_paths(paths.into_iter().map(|Id(path)| path))
        .map_err(|_| TokenRefusal::Granted)
}

/// What is granted beside listening, if anything is.
fn talk(ours: &mut Ours<'_>) -> Result<Option<Box<TalkGrant>>, TokenRefusal> {
    let is_good = |info: &str| info.len() <= INFO_BYTES_MAX && info != "null";
    if !ours.info.is_none_or(|info| is_good(info.get())) {
        return Err(TokenRefusal::Granted);
    }
    let talk = TalkGrant {
        send: patterns(take(&mut ours.send))?,
        members: patterns(take(&mut ours.members))?,
        history: patterns(take(&mut ours.history))?,
        read: paths(take(&mut ours.read))?,
        write: paths(take(&mut ours.write))?,
        info: ours.info.map(|info| Info::new(info.get())),
    };
    Ok((talk != TalkGrant::default()).then(|| talk.into()))
}

#[cfg(test)]
mod tests;
