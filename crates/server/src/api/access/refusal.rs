//! Why a call is not let in: the answer to it, and how often that was.

use std::sync::atomic::{AtomicU64, Ordering};

use auth::keys::Scope;
use axum::http::StatusCode;
use httpd::problem::ApiProblem;
use proto::ProblemKind;

/// Why a call is not let in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// It brings neither a key nor a session.
    Missing,
    /// Its key is none.
    Unknown,
    /// Its key is over.
    Expired,
    /// Its key was revoked.
    Revoked,
    /// Its key is not for that.
    Scope(Scope),
    /// Its key is not for sending about that subject.
    About,
    /// Too many wrong keys came from its address.
    Slowed,
    /// It is a change by the dashboard's session, and does not come from the dashboard.
    ForeignPage,
    /// The file of keys cannot be used.
    Unusable,
    /// Its signature by an app of the Pusher protocol is wrong.
    Signature,
}

/// How often there was each, in the order of [`Refusal::place`]. Relaxed: they are only reported.
#[derive(Debug, Default)]
pub(super) struct Refusals([AtomicU64; REASONS.len()]);

/// Their names in metrics.
const REASONS: [&str; 10] = [
    "missing",
    "unknown",
    "expired",
    "revoked",
    "scope",
    "about",
    "slowed",
    "foreign_page",
    "unusable",
    "signature",
];

impl Refusals {
    pub(super) fn count(&self, refusal: Refusal) {
        self.0[refusal.place()].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.0.iter().map(|count| count.load(Ordering::Relaxed));
        REASONS.into_iter().zip(counts)
    }

    /// Counts on from what another process has counted.
    pub(super) fn count_on(&self, counts: &[(String, u64)]) {
        for (reason, count) in counts {
            if let Some(place) = REASONS.iter().position(|own| own == reason) {
                self.0[place].fetch_add(*count, Ordering::Relaxed);
            }
        }
    }
}

impl Refusal {
    fn place(self) -> usize {
        match self {
            Refusal::Missing => 0,
            Refusal::Unknown => 1,
            Refusal::Expired => 2,
            Refusal::Revoked => 3,
            Refusal::Scope(_) => 4,
            Refusal::About => 5,
            Refusal::Slowed => 6,
            Refusal::ForeignPage => 7,
            Refusal::Unusable => 8,
            Refusal::Signature => 9,
        }
    }

    /// The answer. Nothing of what the request brought is in it.
    pub(crate) fn problem(self) -> ApiProblem {
        match self {
            Refusal::Missing => ApiProblem::of(
                ProblemKind::KeyMissing,
                "This server needs a key. Send Authorization: Bearer KEY; `encke key new` makes \
                 one, and Encke's commands take it as ENCKE_KEY.",
            ),
            Refusal::Unknown => refused(
                "This is no key of this server. Look whether all of it was sent; `encke key new` \
                 makes another one.",
            ),
            Refusal::Expired => refused("This key is over. Make another one: `encke key new`."),
            Refusal::Revoked => refused("This key was revoked. Make another one: `encke key new`."),
            Refusal::Scope(scope) => out_of_scope(format!(
                "This key is not for that. Use one with the scope {scope}: `encke key new --scope \
                 {scope}`."
            )),
            Refusal::About => out_of_scope(
                "This key may not send about that subject. Use one whose --about has it."
                    .to_owned(),
            ),
            Refusal::Slowed => ApiProblem::new(
                StatusCode::TOO_MANY_REQUESTS,
                "Too many wrong keys or signatures came from this address. Wait, and send a right \
                 one.",
            )
            .retry_after(1),
            Refusal::ForeignPage => out_of_scope(
                "The session is for the dashboard alone: what it asks for comes from its own \
                 origin. Programs send a key: Authorization: Bearer KEY."
                    .to_owned(),
            ),
            Refusal::Signature => refused("This request is not signed by an app of this server."),
            Refusal::Unusable => ApiProblem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "The file of keys cannot be read, so nobody is let in. The server's log says what \
                 is wrong with it, and so does `encke key list`.",
            ),
        }
    }
}

fn refused(detail: &'static str) -> ApiProblem {
    ApiProblem::of(ProblemKind::KeyRefused, detail)
}

fn out_of_scope(detail: String) -> ApiProblem {
    ApiProblem::of(ProblemKind::KeyScope, detail)
}
