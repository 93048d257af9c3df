//! Whose name gets which certificate (SNI, RFC 6066, section 3).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rustls::SignatureScheme;
use rustls::sign::CertifiedKey;

use super::pair::Pair;

/// Certificates by name. Two may have one name and keys of two kinds: a client gets the first that
/// it can verify.
#[derive(Debug)]
pub(super) struct Set {
    pairs: Vec<Arc<Pair>>,
    /// Places in `pairs`.
    exact: HashMap<String, Vec<usize>>,
    /// Certificates of wildcard names, by what follows `*.`.
    wildcard: HashMap<String, Vec<usize>>,
}

impl Set {
    pub(super) fn new(pairs: Vec<Arc<Pair>>) -> Set {
        let (mut exact, mut wildcard) = (HashMap::<_, Vec<_>>::new(), HashMap::<_, Vec<_>>::new());
        for (place, pair) in pairs.iter().enumerate() {
            for name in &pair.names {
                let (table, name) = match name.strip_prefix("*.") {
                    Some(rest) => (&mut wildcard, rest),
                    None => (&mut exact, name.as_str()),
                };
                table.entry(name.to_owned()).or_default().push(place);
            }
        }
        Set { pairs, exact, wildcard }
    }

    /// The certificate of the host `name`; a wildcard stands for exactly one label (RFC 9525,
    /// section 6.3).
    pub(super) fn for_name(
        &self,
        name: &str,
        schemes: &[SignatureScheme],
    ) -> Option<Arc<CertifiedKey>> {
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let by_wildcard = || self.wildcard.get(name.split_once('.')?.1);
        let places = self.exact.get(&name).or_else(by_wildcard)?;
        best(places.iter().map(|place| &self.pairs[*place]), schemes)
    }

    /// The certificate for everybody else.
    pub(super) fn first(&self, schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        best(self.pairs.iter(), schemes)
    }

    /// All names of hosts.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.pairs.iter().flat_map(|pair| pair.names.iter().map(String::as_str))
    }

    /// When each ends.
    pub(super) fn ends(&self) -> Vec<(String, i64)> {
        let mut ends = BTreeMap::new();
        for pair in &self.pairs {
            let first = ends.entry(pair.label()).or_insert(pair.ends());
            *first = (*first).min(pair.ends());
        }
        ends.into_iter().collect()
    }
}

/// The first whose signature the client takes, or else the first: that handshake fails with the
/// alert which says so.
fn best<'p>(
    mut pairs: impl Iterator<Item = &'p Arc<Pair>> + Clone,
    schemes: &[SignatureScheme],
) -> Option<Arc<CertifiedKey>> {
    let first = pairs.clone().next();
    let usable = pairs.find(|pair| pair.certified.key.choose_scheme(schemes).is_some());
    usable.or(first).map(|pair| Arc::clone(&pair.certified))
}
