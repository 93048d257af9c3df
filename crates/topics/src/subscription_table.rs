//! The subscriptions that are there, by selector and subscriber.
//!
//! Bounded: past [`SUBSCRIPTIONS_MAX`], or 64 MiB of texts, it is not whole any more, and
//! says so. Cost: some 100 bytes a subscription, and the texts.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::subscriptions::SubscriberNumber;

/// How many subscriptions are listed.
pub const SUBSCRIPTIONS_MAX: usize = 250_000;

/// The bytes of their selectors and payloads, at most.
const SUBSCRIPTION_BYTES_MAX: usize = 64 << 20;

/// What a subscription counts for beside its texts.
const ENTRY_BYTES: usize = 96;

/// A subscription.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ListedSubscription {
    /// What is listened to.
    pub selector: Arc<str>,
    /// Who listens.
    pub subscriber: SubscriberNumber,
    /// What its token tells of it, as JSON.
    pub payload: Option<Arc<str>>,
}

/// Those that are there.
#[derive(Debug, Default)]
pub struct SubscriptionTable {
    of: BTreeMap<Arc<str>, BTreeMap<SubscriberNumber, Option<Arc<str>>>>,
    len: usize,
    bytes: usize,
    is_whole_no_more: bool,
}

impl SubscriptionTable {
    /// One more. One that is there already stays, and gets a payload if it has none: it may have
    /// been found between its log-in and its payload.
    pub fn insert(&mut self, selector: &str, who: SubscriberNumber, payload: Option<Arc<str>>) {
        let known = self.of.get(selector).and_then(|of| of.get(&who));
        if known.is_some_and(|known| known.is_some() || payload.is_none()) {
            return;
        }
        self.remove(selector, who);
        let bytes = bytes(selector, payload.as_deref());
        if self.len >= SUBSCRIPTIONS_MAX || self.bytes + bytes > SUBSCRIPTION_BYTES_MAX {
            self.is_whole_no_more = true;
            return;
        }
        let of = match self.of.get_mut(selector) {
            Some(of) => of,
            None => self.of.entry(selector.into()).or_default(),
        };
        of.insert(who, payload);
        self.len += 1;
        self.bytes += bytes;
    }

    /// One has ended, if it was there.
    pub fn remove(&mut self, selector: &str, who: SubscriberNumber) {
        let Some(of) = self.of.get_mut(selector) else { return };
        let Some(payload) = of.remove(&who) else { return };
        self.len -= 1;
        self.bytes -= bytes(selector, payload.as_deref());
        if of.is_empty() {
            self.of.remove(selector);
        }
    }

    /// All of one subscriber, which is looked for everywhere.
    pub fn of_subscriber(&self, who: SubscriberNumber) -> Vec<ListedSubscription> {
        self.all().filter(|listed| listed.subscriber == who).collect()
    }

    /// Those of a selector, of one subscriber or of all; all without a selector.
    pub fn listed(
        &self,
        selector: Option<&str>,
        who: Option<SubscriberNumber>,
    ) -> Vec<ListedSubscription> {
        let Some(selector) = selector else { return self.all().collect() };
        let Some((selector, of)) = self.of.get_key_value(selector) else { return Vec::new() };
        let listed = |(who, payload): (&SubscriberNumber, &Option<Arc<str>>)| {
            let (selector, payload) = (Arc::clone(selector), payload.clone());
            ListedSubscription { selector, subscriber: *who, payload }
        };
        match who {
            Some(who) => of.get_key_value(&who).map(listed).into_iter().collect(),
            None => of.iter().map(listed).collect(),
        }
    }

    /// How many there are of a selector; of all without one.
    pub fn count(&self, selector: Option<&str>) -> usize {
        let Some(selector) = selector else { return self.len };
        self.of.get(selector).map_or(0, BTreeMap::len)
    }

    /// Whether there is this one.
    pub fn contains(&self, selector: &str, who: SubscriberNumber) -> bool {
        self.of.get(selector).is_some_and(|of| of.contains_key(&who))
    }

    /// Those that are here and not in `other`.
    pub fn without(&self, other: &SubscriptionTable) -> Vec<ListedSubscription> {
        let is_there =
            |listed: &ListedSubscription| other.contains(&listed.selector, listed.subscriber);
        self.all().filter(|listed| !is_there(listed)).collect()
    }

    /// Whether it has all that there are.
    pub fn is_whole(&self) -> bool {
        !self.is_whole_no_more
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn all(&self) -> impl Iterator<Item = ListedSubscription> {
        self.of.iter().flat_map(|(selector, of)| {
            of.iter().map(|(who, payload)| ListedSubscription {
                selector: Arc::clone(selector),
                subscriber: *who,
                payload: payload.clone(),
            })
        })
    }
}

fn bytes(selector: &str, payload: Option<&str>) -> usize {
    ENTRY_BYTES + selector.len() + payload.map_or(0, str::len)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fastrand::Rng;

    use super::*;

    #[test]
    fn table_has_what_a_set_has() {
        let seed = testing::seed();
        let mut rng = Rng::with_seed(seed);
        let texts = ["*", "a", "b{c}", "https://a.test/1"];
        let (mut table, mut model) = (SubscriptionTable::default(), BTreeSet::new());
        let mut before: Option<(SubscriptionTable, BTreeSet<_>)> = None;
        for _ in 0..5_000 {
            let (selector, who) = (texts[rng.usize(..texts.len())], u128::from(rng.u8(..20)));
            let payload: Option<Arc<str>> = rng.bool().then(|| "{}".into());
            match rng.bool() {
                true => {
                    table.insert(selector, who, payload);
                    model.insert((selector, who));
                }
                false => {
                    table.remove(selector, who);
                    model.remove(&(selector, who));
                }
            }
            let pairs = |listed: Vec<ListedSubscription>| -> BTreeSet<(String, u128)> {
                let pair = |of: ListedSubscription| (of.selector.to_string(), of.subscriber);
                listed.into_iter().map(pair).collect()
            };
            let of = |wanted: &dyn Fn(&str, u128) -> bool| -> BTreeSet<(String, u128)> {
                let found = model.iter().filter(|(selector, who)| wanted(selector, *who));
                found.map(|(selector, who)| ((*selector).to_owned(), *who)).collect()
            };
            assert_eq!(table.len(), model.len());
            assert_eq!(pairs(table.listed(None, None)), of(&|_, _| true));
            assert_eq!(pairs(table.listed(Some(selector), None)), of(&|text, _| text == selector));
            let one = of(&|text, name| text == selector && name == who);
            assert_eq!(pairs(table.listed(Some(selector), Some(who))), one);
            assert_eq!(pairs(table.of_subscriber(who)), of(&|_, name| name == who));
            if let Some((old, old_model)) = &before {
                let fresh = of(&|text, name| !old_model.contains(&(text.to_owned(), name)));
                assert_eq!(pairs(table.without(old)), fresh);
            }
            if rng.u8(..50) == 0 {
                let mut copy = SubscriptionTable::default();
                model.iter().for_each(|(selector, who)| copy.insert(selector, *who, None));
                before = Some((copy, of(&|_, _| true)));
            }
        }
        model.iter().for_each(|(selector, who)| table.remove(selector, *who));
        assert!(table.is_empty() && table.bytes == 0 && table.is_whole());
    }

    #[test]
    fn table_past_its_bound_says_that_it_is_not_whole() {
        let mut table = SubscriptionTable::default();
        let long: Arc<str> = "x".repeat(1 << 20).into();
        (0..70).for_each(|who| table.insert("a", who, Some(Arc::clone(&long))));
        assert!(!table.is_whole() && table.len() < 64);
    }
}
