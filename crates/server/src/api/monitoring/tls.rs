//! The figures of TLS for [`super::metrics`].

use prometheus::proto::{MetricFamily, MetricType};

use super::families::{counter, counter_of, family, gauge_of, metric};
use crate::certs::Certificates;
use crate::http::tls::Handshakes;

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
