//! The figures of TLS: families of metrics, and what `/stats` has of them.

use std::collections::BTreeMap;

use ::tls::{Suite, Version};
use engine::TlsSnapshot;
use httpd::tls::Handshakes;
use prometheus::proto::{MetricFamily, MetricType};
use serde::Serialize;

use super::families::{counter, counter_of, family, gauge, gauge_of, metric};
use crate::certs::Certificates;

/// What is known of handshakes. Counts since the start, those of streams but for the last.
#[derive(Debug, Serialize)]
pub(crate) struct TlsStats {
    /// Those that ended well, by version.
    handshakes: BTreeMap<&'static str, u64>,
    /// Those under way.
    handshakes_open: u64,
    /// Those that failed, by who ended them, and why.
    handshake_failures: BTreeMap<&'static str, BTreeMap<&'static str, u64>>,
    /// Streams that broke the rules behind theirs, by the alert that they were sent.
    faults: BTreeMap<&'static str, u64>,
    /// Connections to the API's port, by how their handshake ended.
    api_handshakes: BTreeMap<&'static str, u64>,
}

impl TlsStats {
    /// `None` where there are no certificates.
    pub(super) fn of(
        certificates: &Certificates,
        tls: &TlsSnapshot,
        api: &Handshakes,
    ) -> Option<TlsStats> {
        if certificates.are_none() {
            return None;
        }
        let mut handshakes = BTreeMap::new();
        for (version, _, _, count) in tls.handshakes() {
            *handshakes.entry(name(version)).or_default() += count;
        }
        let mut failures = BTreeMap::<_, BTreeMap<_, _>>::new();
        for (who, reason, count) in tls.failures() {
            failures.entry(who).or_default().insert(reason, count);
        }
        Some(TlsStats {
            handshakes,
            handshakes_open: tls.under_way,
            handshake_failures: failures,
            faults: tls.faults().collect(),
            api_handshakes: api.counts().collect(),
        })
    }
}

fn name(version: Version) -> &'static str {
    if version == Version::Tls13 { "1.3" } else { "1.2" }
}

/// Certificates of all ports, and handshakes of the API's. Nothing where there are none.
pub(super) fn families(certificates: &Certificates, handshakes: &Handshakes) -> Vec<MetricFamily> {
    if certificates.are_none() {
        return Vec::new();
    }
    let ends = certificates.ends();
    let ends = ends.iter().map(|(name, end)| metric(&[("name", name)], gauge_of(*end as f64)));
    let by_outcome = |counts: &mut dyn Iterator<Item = (&'static str, u64)>| {
        counts.map(|(name, n)| metric(&[("outcome", name)], counter_of(n as f64))).collect()
    };
    let ends: Vec<_> = ends.collect();
    let mut families = vec![
        family(
            "encke_tls_certificate_reloads_total",
            "Certificates read again, taken or refused.",
            MetricType::COUNTER,
            by_outcome(&mut certificates.reloads().into_iter()),
        ),
        counter(
            "encke_tls_unmatched_names_total",
            "Handshakes that named a host which no certificate is for.",
            certificates.unmatched() as f64,
        ),
        family(
            "encke_api_tls_handshakes_total",
            "Connections to the API's port of TLS, by how their handshake ended.",
            MetricType::COUNTER,
            by_outcome(&mut handshakes.counts()),
        ),
    ];
    // None before the first automatic one came, and a family without a figure is no family.
    families.extend((!ends.is_empty()).then(|| {
        family(
            "encke_tls_certificate_expiry_timestamp_seconds",
            "When a certificate ends, in seconds since 1970.",
            MetricType::GAUGE,
            ends,
        )
    }));
    families.extend(certificates.acme().map(|acme| {
        family(
            "encke_tls_acme_tries_total",
            "Tries to have an automatic certificate.",
            MetricType::COUNTER,
            by_outcome(&mut acme.tries().into_iter()),
        )
    }));
    families
}

/// Handshakes of streams, and what came of them. Nothing where there are no certificates.
pub(super) fn of_streams(certificates: &Certificates, tls: &TlsSnapshot) -> Vec<MetricFamily> {
    if certificates.are_none() {
        return Vec::new();
    }
    let handshakes = tls.handshakes().map(|(version, suite, resumed, count)| {
        let version = name(version);
        let suite = if suite == Suite::Aes128Gcm { "aes_128_gcm" } else { "chacha20_poly1305" };
        let resumed = if resumed { "true" } else { "false" };
        let labels = [("version", version), ("suite", suite), ("resumed", resumed)];
        metric(&labels, counter_of(count as f64))
    });
    let by_reason =
        |who, reason, count| metric(&[("by", who), ("reason", reason)], counter_of(count as f64));
    let failures: Vec<_> =
        tls.failures().map(|(who, reason, count)| by_reason(who, reason, count)).collect();
    let faults: Vec<_> = tls
        .faults()
        .map(|(alert, count)| metric(&[("alert", alert)], counter_of(count as f64)))
        .collect();
    let mut families = vec![
        family(
            "encke_tls_handshakes_total",
            "Handshakes of streams that ended well, by what was agreed on.",
            MetricType::COUNTER,
            handshakes.collect(),
        ),
        gauge(
            "encke_tls_handshakes_open",
            "Handshakes of streams under way.",
            tls.under_way as f64,
        ),
    ];
    // A family without a figure is no family.
    let some = |name, help, metrics: Vec<_>| {
        (!metrics.is_empty()).then(|| family(name, help, MetricType::COUNTER, metrics))
    };
    families.extend(some(
        "encke_tls_handshake_failures_total",
        "Handshakes of streams that failed, by who ended them and why.",
        failures,
    ));
    families.extend(some(
        "encke_tls_faults_total",
        "Streams that broke the rules of TLS behind their handshake, by the alert.",
        faults,
    ));
    families
}
