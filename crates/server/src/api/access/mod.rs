//! Who may call the API: the key of a request, or the session of the dashboard, against what its
//! path needs.
//!
//! While no key was ever made everybody may do everything, and the server listens on loopback only.
//! From the first key on every call needs one, but for probes and the page on which one logs in.
//! Cost of a request: a `stat` of the file of keys and a SHA-256 of 32 bytes, some 2 µs.

mod cookie;
mod failures;
mod refusal;
mod sessions;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use auth::keys::ring::{Fault, KeyRing, Known, find, find_by_id};
use auth::keys::{KeyRecord, Scope};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{Extensions, HeaderMap, Method, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use httpd::exchange::Peer;
use httpd::problem::ApiProblem;
use proto::{Forwarded, Networks};
use tokio::time::Instant;

pub(super) use self::cookie::{COOKIE, PATH, cookie};
use self::failures::Failures;
pub(super) use self::refusal::Refusal;
use self::refusal::Refusals;
use self::sessions::Sessions;
pub(super) use self::sessions::{SESSION_TIME, WrittenSession};

/// What a path needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Need {
    /// Nothing: for probes, and for who has no session yet.
    Nothing,
    /// A key, whatever it is for.
    Key,
    /// A key for this.
    Scope(Scope),
    /// A key that reads for a request that does, else one that sends.
    ByMethod,
    /// A signature of an app of the Pusher protocol, which its handler looks at.
    Signature,
    /// A token of the Mercure protocol, which its handler looks at.
    Token,
}

impl Need {
    /// The scope that a request with this method needs of a key, if it needs one.
    fn scope(self, method: &Method) -> Option<Scope> {
        match self {
            Need::Nothing | Need::Key | Need::Signature | Need::Token => None,
            Need::Scope(scope) => Some(scope),
            Need::ByMethod if method.is_safe() => Some(Scope::Read),
            Need::ByMethod => Some(Scope::Send),
        }
    }
}

/// Who may call.
#[derive(Debug)]
pub(crate) struct Access {
    pub(super) ring: Arc<KeyRing>,
    needs: HashMap<&'static str, Need>,
    failures: Failures,
    pub(super) sessions: Sessions,
    refusals: Refusals,
    /// Peers that are believed for whom they ask.
    trusted: Networks,
}

/// What a request may do.
#[derive(Clone, Debug)]
pub(crate) enum Permission {
    /// Everything: there are no keys.
    Everything,
    /// What this key may.
    Key(Arc<KeyRecord>),
}

impl Permission {
    /// Who it is: the id of the key, or nothing where none is needed.
    pub(crate) fn key_id(&self) -> &str {
        match self {
            Permission::Everything => "",
            Permission::Key(key) => &key.id,
        }
    }

    /// Whether it lets send about `about`.
    pub(crate) fn lets_send_about(&self, about: &str) -> bool {
        match self {
            Permission::Everything => true,
            Permission::Key(key) => key.allows_about(about),
        }
    }

    /// What the guard has granted to a request; without it, nothing.
    pub(crate) fn of(extensions: &Extensions) -> Result<Permission, ApiProblem> {
        extensions.get().cloned().ok_or_else(|| Refusal::Missing.problem())
    }
}

impl Access {
    /// The access to paths with `needs` by the keys of `ring`.
    pub(super) fn new(
        ring: Arc<KeyRing>,
        needs: HashMap<&'static str, Need>,
        trusted: Networks,
    ) -> Access {
        let (failures, sessions) = (Failures::default(), Sessions::default());
        Access { ring, needs, failures, sessions, refusals: Refusals::default(), trusted }
    }

    /// The sessions of the dashboard, for the process that goes on with them.
    pub(super) fn sessions(&self) -> Vec<WrittenSession> {
        self.sessions.write()
    }

    /// Goes on with what the process before has refused, and with its sessions.
    pub(super) fn take_over(&self, refused: &[(String, u64)], sessions: Vec<WrittenSession>) {
        self.refusals.count_on(refused);
        self.sessions.take_over(sessions);
    }

    /// From which address a request comes: its peer's, or the one that a trusted peer names.
    pub(super) fn client(&self, request: &Request) -> IpAddr {
        let peer = Peer::of(request);
        if !self.trusted.contain(peer) {
            return peer;
        }
        let lines = |name: &str| {
            request.headers().get_all(name).iter().map(|line| line.as_bytes()).collect()
        };
        let forwarded =
            Forwarded { elements: lines("forwarded"), addresses: lines("x-forwarded-for") };
        forwarded.client(&self.trusted).unwrap_or(peer)
    }

    /// How often something was refused, by reason.
    pub(super) fn refused(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.refusals.counts()
    }

    /// Counts `refusal`; the answer to it.
    pub(super) fn refuse(&self, refusal: Refusal) -> ApiProblem {
        self.refusals.count(refusal);
        refusal.problem()
    }

    /// What the key or the session of a request grants.
    async fn permission(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        peer: IpAddr,
    ) -> Result<Permission, Refusal> {
        let keys = match self.ring.known() {
            Known::None => return Ok(Permission::Everything),
            Known::Unusable => return Err(Refusal::Unusable),
            Known::Keys(keys) => keys,
        };
        if headers.contains_key(header::AUTHORIZATION) {
            return self.key(bearer(headers), peer).await.map(Permission::Key);
        }
        let id = cookie(headers).and_then(|cookie| self.sessions.key_of(cookie));
        let id = id.ok_or(Refusal::Missing)?;
        if !cookie::may_use_cookie(method, uri, headers) {
            return Err(Refusal::ForeignPage);
        }
        Ok(Permission::Key(find_by_id(&keys, &id, now())?))
    }

    /// What a request to send is granted by its `Authorization` field, without a wait; `None` where
    /// that takes one, or it is refused, which is not counted here. In a request that
    /// `is_forwarded` a trusted peer may say for whom it asks.
    pub(super) fn permission_at_once(
        &self,
        authorization: Option<&str>,
        is_forwarded: bool,
        peer: IpAddr,
    ) -> Option<Permission> {
        let keys = match self.ring.known() {
            Known::None => return Some(Permission::Everything),
            Known::Unusable => return None,
            Known::Keys(keys) => keys,
        };
        let text = bearer_key(authorization?)?;
        if self.may_be_slowed(is_forwarded, peer) {
            return None;
        }
        let key = find(&keys, text, now()).ok()?;
        key.allows(Scope::Send).then_some(Permission::Key(key))
    }

    /// Whether whoever sends a request has shown too many wrong keys, or a trusted peer may say
    /// for whom it asks in one that `is_forwarded`.
    pub(super) fn may_be_slowed(&self, is_forwarded: bool, peer: IpAddr) -> bool {
        is_forwarded && self.trusted.contain(peer) || self.failures.is_full(peer, Instant::now())
    }

    /// The key whose text is `text`, which somebody at `peer` has shown. Who has shown too many
    /// wrong ones waits for the answer, and who shows even more at a time is not heard.
    pub(super) async fn key(
        &self,
        text: Option<&str>,
        peer: IpAddr,
    ) -> Result<Arc<KeyRecord>, Refusal> {
        if self.failures.is_full(peer, Instant::now()) {
            return Err(Refusal::Slowed);
        }
        let found = match self.ring.known() {
            Known::Keys(keys) => find(&keys, text.unwrap_or_default(), now()),
            Known::None | Known::Unusable => return Err(Refusal::Unusable),
        };
        if let Err(fault) = found {
            tokio::time::sleep_until(self.failures.record(peer, Instant::now())).await;
            return Err(fault.into());
        }
        found.map_err(Refusal::from)
    }

    /// Whether a signature of somebody at `peer` is looked at now: too many were wrong.
    pub(super) fn check_pace(&self, peer: IpAddr) -> Result<(), ApiProblem> {
        match self.failures.is_full(peer, Instant::now()) {
            true => Err(self.refuse(Refusal::Slowed)),
            false => Ok(()),
        }
    }

    /// Somebody at `peer` has signed wrong. It waits until that is to be answered.
    pub(super) async fn signed_wrong(&self, peer: IpAddr) {
        self.refusals.count(Refusal::Signature);
        tokio::time::sleep_until(self.failures.record(peer, Instant::now())).await;
    }

    /// Whether what was granted still is: what takes long asks again.
    pub(crate) fn check(&self, permission: &Permission) -> Result<(), ApiProblem> {
        let fault = match (self.ring.known(), permission) {
            (Known::None, Permission::Everything) => return Ok(()),
            (Known::Keys(keys), Permission::Key(key)) => match find_by_id(&keys, &key.id, now()) {
                Ok(_) => return Ok(()),
                Err(fault) => fault.into(),
            },
            // Keys were made since.
            (Known::Keys(_), Permission::Everything) => Refusal::Missing,
            (Known::Unusable | Known::None, _) => Refusal::Unusable,
        };
        Err(self.refuse(fault))
    }

    /// Whether `permission` lets read, too.
    pub(crate) fn check_read(&self, permission: &Permission) -> Result<(), ApiProblem> {
        match permission {
            Permission::Key(key) if !key.allows(Scope::Read) => {
                Err(self.refuse(Refusal::Scope(Scope::Read)))
            }
            Permission::Key(_) | Permission::Everything => Ok(()),
        }
    }

    /// Whether `permission` lets send about each of `subjects`.
    pub(crate) fn check_about<'s>(
        &self,
        permission: &Permission,
        mut subjects: impl Iterator<Item = &'s str>,
    ) -> Result<(), ApiProblem> {
        let may_send = subjects.all(|about| permission.lets_send_about(about));
        if may_send { Ok(()) } else { Err(self.refuse(Refusal::About)) }
    }
}

/// Lets requests through that bring what their path needs.
pub(super) async fn guard(
    State(access): State<Arc<Access>>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiProblem> {
    let path = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let need = path.and_then(|path| access.needs.get(path)).copied().unwrap_or(Need::Key);
    let is_dashboard = path == Some("/");
    if matches!(need, Need::Nothing | Need::Signature | Need::Token) {
        return Ok(next.run(request).await);
    }
    let (peer, headers) = (access.client(&request), request.headers());
    match access.permission(request.method(), request.uri(), headers, peer).await {
        Ok(permission) => {
            if let (Permission::Key(key), Some(scope)) = (&permission, need.scope(request.method()))
                && !key.allows(scope)
            {
                return Err(access.refuse(Refusal::Scope(scope)));
            }
            request.extensions_mut().insert(permission);
            Ok(next.run(request).await)
        }
        // Somebody who opens the dashboard and has no session yet.
        Err(Refusal::Missing) if is_dashboard && takes_pages(headers) => {
            Ok(Redirect::to(PATH).into_response())
        }
        Err(refusal) => Err(access.refuse(refusal)),
    }
}

/// The key in the one `Authorization` field (RFC 6750, section 2.1).
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut fields = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(field), None) = (fields.next(), fields.next()) else { return None };
    bearer_key(field.to_str().ok()?)
}

fn bearer_key(field: &str) -> Option<&str> {
    let (scheme, key) = field.split_once(' ')?;
    scheme.eq_ignore_ascii_case("Bearer").then(|| key.trim_matches(' '))
}

/// Whether it is a browser that wants to show something.
fn takes_pages(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|field| field.to_str().ok());
    accepted.is_some_and(|accepted| accepted.contains("text/html"))
}

/// Seconds since 1970.
fn now() -> u64 {
    sys::clock::unix_ms() / 1000
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Refusal {
        match fault {
            Fault::Unknown => Refusal::Unknown,
            Fault::Expired => Refusal::Expired,
            Fault::Revoked => Refusal::Revoked,
        }
    }
}
