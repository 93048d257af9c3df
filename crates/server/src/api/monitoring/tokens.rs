//! The figures of tokens: what was refused and why, what is remembered of them.

use engine::Snapshot;
use hub::TokenRefusal;
use prometheus::proto::{MetricFamily, MetricType};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::families::{counter, counter_of, family, gauge, metric};
use crate::api::state::Api;

/// What is known of the tokens of streams.
#[derive(Debug, Serialize)]
pub(crate) struct TokenStats {
    /// Requests and tokens that were refused, and log-ins under ids that are not granted.
    refusals: TokenRefusals,
    /// Tokens that wait to be verified.
    waiting: usize,
    /// Those that are remembered as verified, and the memory that they take.
    remembered: usize,
    remembered_bytes: usize,
    /// Tokens, and subjects, that are revoked.
    revocations: usize,
    /// Files of keys that were read again, and those that were refused then.
    key_files_reloaded: u64,
    key_files_refused: u64,
    /// Keys of the set that is looked at again and again.
    jwks_keys: u64,
    /// How often it was looked at, and how often that failed.
    jwks_looks: u64,
    jwks_failures: u64,
}

/// Counts with their reasons.
#[derive(Debug)]
struct TokenRefusals(Vec<(&'static str, u64)>);

impl Serialize for TokenRefusals {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (reason, count) in &self.0 {
            map.serialize_entry(reason, count)?;
        }
        map.end()
    }
}

impl TokenStats {
    /// `None` where streams are open to all.
    pub(crate) fn of(api: &Api, snapshot: &Snapshot) -> Option<TokenStats> {
        let tokens = api.tokens.as_ref()?;
        let (whole, figures) = (snapshot.whole(), tokens.figures());
        let refused = TokenRefusal::ALL.iter().zip(whole.token_refusals);
        let refusals = refused
            .map(|(reason, count)| (reason.as_str(), count))
            .chain([("missing", whole.tokens_missing), ("not_granted", whole.ids_not_granted)]);
        Some(TokenStats {
            refusals: TokenRefusals(refusals.collect()),
            waiting: tokens.waiting(),
            remembered: figures.verified,
            remembered_bytes: figures.verified_bytes,
            revocations: figures.revocations,
            key_files_reloaded: figures.key_files.taken,
            key_files_refused: figures.key_files.refused,
            jwks_keys: figures.jwks_keys,
            jwks_looks: figures.jwks_looks,
            jwks_failures: figures.jwks_failures,
        })
    }
}

pub(super) fn families(stats: &TokenStats) -> Vec<MetricFamily> {
    let refusals = stats.refusals.0.iter();
    let refusals =
        refusals.map(|(reason, count)| metric(&[("reason", reason)], counter_of(*count as f64)));
    let gauges = [
        ("encke_tokens_waiting", "Tokens that wait to be verified.", stats.waiting as f64),
        ("encke_tokens_remembered", "Tokens known as verified.", stats.remembered as f64),
        ("encke_tokens_remembered_bytes", "Memory that they take.", stats.remembered_bytes as f64),
        ("encke_token_revocations", "Revocations remembered.", stats.revocations as f64),
        ("encke_jwks_keys", "Keys of the set that tokens are signed with.", stats.jwks_keys as f64),
    ];
    let counters = [
        ("encke_jwks_looks_total", "Looks at the set of keys.", stats.jwks_looks as f64),
        ("encke_jwks_failures_total", "Those that failed.", stats.jwks_failures as f64),
    ];
    let reloads = [("ok", stats.key_files_reloaded), ("failed", stats.key_files_refused)];
    let reloads =
        reloads.map(|(outcome, count)| metric(&[("outcome", outcome)], counter_of(count as f64)));
    let mut families = vec![
        family(
            "encke_token_refusals_total",
            "Requests, tokens and log-ins that were not let in, by reason.",
            MetricType::COUNTER,
            refusals.collect(),
        ),
        family(
            "encke_token_key_reloads_total",
            "Files of keys that were read again, by outcome.",
            MetricType::COUNTER,
            reloads.into(),
        ),
    ];
    families.extend(gauges.map(|(name, help, value)| gauge(name, help, value)));
    families.extend(counters.map(|(name, help, value)| counter(name, help, value)));
    families
}
