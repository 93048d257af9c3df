//! The subscriptions that are there, by selector and subscriber.
//!
//! Bounded: past [`SUBSCRIPTIONS_MAX`], or 64 MiB of texts, it is not whole any more, and
//! says so. Subscriptions that no token grants have half of both, so that clients without a token
//! cannot take it from others: past that they are left out. Cost: some 100 bytes a subscription,
//! and the texts.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::held_selector::{HeldKind, HeldSelector};
use crate::subscriptions::SubscriberNumber;

/// How many subscriptions are listed.
pub const SUBSCRIPTIONS_MAX: usize = 250_000;

/// The bytes of their selectors and payloads, at most.
const SUBSCRIPTION_BYTES_MAX: usize = 64 << 20;

/// Which part of both those have at most that no token grants: one in two.
const OPEN_SHARE: usize = 2;

/// What a subscription counts for beside its texts.
const ENTRY_BYTES: usize = 96;

/// A subscription.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ListedSubscription {
    /// Which kind of selector that is.
    pub kind: HeldKind,
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
    /// By their kind.
    of: [SubscriptionsOfKind; HeldKind::COUNT],
    /// How many subscriptions have the payload of a subscriber, which counts once.
    payloads: HashMap<SubscriberNumber, usize>,
    all: Taken,
    /// What those take that no token grants.
    open: Taken,
    is_whole_no_more: bool,
}

/// By selector and subscriber.
#[derive(Debug, Default)]
struct SubscriptionsOfKind {
    of: BTreeMap<Arc<str>, BTreeMap<SubscriberNumber, ListedEntry>>,
    len: usize,
}

/// Which subscriptions of a table.
#[derive(Clone, Copy, Debug)]
pub struct ListedBy<'l> {
    /// Of which kinds.
    pub kinds: &'static [HeldKind],
    /// Of which selector; of all without one.
    pub selector: Option<&'l str>,
    /// Of which subscriber; of all without one.
    pub subscriber: Option<SubscriberNumber>,
}

#[derive(Debug)]
struct ListedEntry {
    payload: Option<Arc<str>>,
    is_granted: bool,
}

/// How many subscriptions there are, and what they take.
#[derive(PartialEq, Eq, Debug, Default)]
struct Taken {
    len: usize,
    bytes: usize,
}

impl Taken {
    /// Whether one more of `bytes` fits into one part in `share` of what there may be.
    fn has_room(&self, bytes: usize, share: usize) -> bool {
        self.len < SUBSCRIPTIONS_MAX / share && self.bytes + bytes <= SUBSCRIPTION_BYTES_MAX / share
    }
}

impl SubscriptionTable {
    /// One more. One that is there already stays, and gets a payload if it has none: it may have
    /// been found between its log-in and its payload. Whether it is there now.
    pub fn insert(
        &mut self,
        held: &HeldSelector,
        who: SubscriberNumber,
        payload: Option<Arc<str>>,
    ) -> bool {
        let HeldSelector { kind, text: selector, is_granted } = held;
        let known = self.of[*kind as usize].of.get(&**selector).and_then(|of| of.get(&who));
        if known.is_some_and(|known| known.payload.is_some() || payload.is_none()) {
            return true;
        }
        self.remove(*kind, selector, who);
        let own = ENTRY_BYTES + selector.len();
        if !is_granted && !self.open.has_room(own, OPEN_SHARE) {
            return false;
        }
        let more = payload.as_ref().filter(|_| !self.payloads.contains_key(&who));
        let bytes = own + more.map_or(0, |payload| payload.len());
        if !self.all.has_room(bytes, 1) {
            self.is_whole_no_more = true;
            return false;
        }
        if payload.is_some() {
            *self.payloads.entry(who).or_default() += 1;
        }
        let SubscriptionsOfKind { of, len } = &mut self.of[*kind as usize];
        *len += 1;
        let of = match of.get_mut(&**selector) {
            Some(of) => of,
            None => of.entry((**selector).into()).or_default(),
        };
        of.insert(who, ListedEntry { payload, is_granted: *is_granted });
        self.all.len += 1;
        self.all.bytes += bytes;
        if !is_granted {
            self.open.len += 1;
            self.open.bytes += own;
        }
        true
    }

    /// One has ended. Whether it was there.
    pub fn remove(&mut self, kind: HeldKind, selector: &str, who: SubscriberNumber) -> bool {
        let all = &mut self.of[kind as usize];
        let Some(of) = all.of.get_mut(selector) else { return false };
        let Some(ListedEntry { payload, is_granted }) = of.remove(&who) else { return false };
        if of.is_empty() {
            all.of.remove(selector);
        }
        all.len -= 1;
        let own = ENTRY_BYTES + selector.len();
        self.all.len -= 1;
        self.all.bytes -= own;
        if !is_granted {
            self.open.len -= 1;
            self.open.bytes -= own;
        }
        if let (Some(payload), Some(count)) = (payload, self.payloads.get_mut(&who)) {
            *count -= 1;
            if *count == 0 {
                self.payloads.remove(&who);
                self.all.bytes -= payload.len();
            }
        }
        true
    }

    /// All of one subscriber, which is looked for everywhere.
    pub fn of_subscriber(&self, who: SubscriberNumber) -> Vec<ListedSubscription> {
        self.all().filter(|listed| listed.subscriber == who).collect()
    }

    /// Those that are asked for.
    pub fn listed(&self, by: ListedBy<'_>) -> Vec<ListedSubscription> {
        by.kinds.iter().flat_map(|kind| self.of_kind(*kind, by)).collect()
    }

    fn of_kind(&self, kind: HeldKind, by: ListedBy<'_>) -> Vec<ListedSubscription> {
        let listed = move |selector: &Arc<str>, who: &SubscriberNumber, entry: &ListedEntry| {
            let (selector, payload) = (Arc::clone(selector), entry.payload.clone());
            ListedSubscription { kind, selector, subscriber: *who, payload }
        };
        let all = &self.of[kind as usize].of;
        let Some(selector) = by.selector else {
            let of_each = all.iter().flat_map(|(selector, of)| {
                of.iter().map(move |(who, entry)| listed(selector, who, entry))
            });
            return of_each.collect();
        };
        let Some((selector, of)) = all.get_key_value(selector) else { return Vec::new() };
        match by.subscriber {
            Some(who) => {
                of.get(&who).map(|entry| listed(selector, &who, entry)).into_iter().collect()
            }
            None => of.iter().map(|(who, entry)| listed(selector, who, entry)).collect(),
        }
    }

    /// How many are asked for.
    pub fn count(&self, by: ListedBy<'_>) -> usize {
        let of_kind = |kind: &HeldKind| {
            let all = &self.of[*kind as usize];
            match (by.selector, by.subscriber) {
                (None, _) => all.len,
                (Some(selector), None) => all.of.get(selector).map_or(0, BTreeMap::len),
                (Some(selector), Some(who)) => usize::from(self.contains(*kind, selector, who)),
            }
        };
        by.kinds.iter().map(of_kind).sum()
    }

    /// Whether there is this one.
    pub fn contains(&self, kind: HeldKind, selector: &str, who: SubscriberNumber) -> bool {
        self.of[kind as usize].of.get(selector).is_some_and(|of| of.contains_key(&who))
    }

    /// Those that are here and not in `other`.
    pub fn without(&self, other: &SubscriptionTable) -> Vec<ListedSubscription> {
        let is_there = |listed: &ListedSubscription| {
            other.contains(listed.kind, &listed.selector, listed.subscriber)
        };
        self.all().filter(|listed| !is_there(listed)).collect()
    }

    /// Whether it has all that there are.
    pub fn is_whole(&self) -> bool {
        !self.is_whole_no_more
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.len == 0
    }

    fn all(&self) -> impl Iterator<Item = ListedSubscription> {
        const ALL: &[HeldKind] = &[HeldKind::Plain, HeldKind::Template, HeldKind::UrlPattern];
        let by = ListedBy { kinds: ALL, selector: None, subscriber: None };
        ALL.iter().flat_map(move |kind| self.of_kind(*kind, by))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fastrand::Rng;

    use super::*;

    fn held(text: &str, is_granted: bool) -> HeldSelector {
        HeldSelector { kind: kind(text), text: text.into(), is_granted }
    }

    /// Of the texts of these tests.
    fn kind(text: &str) -> HeldKind {
        if text.contains('{') { HeldKind::Template } else { HeldKind::Plain }
    }

    fn by(selector: Option<&str>, subscriber: Option<SubscriberNumber>) -> ListedBy<'_> {
        let kinds = &[HeldKind::Plain, HeldKind::Template, HeldKind::UrlPattern];
        ListedBy { kinds, selector, subscriber }
    }

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
                    assert!(table.insert(&held(selector, who % 2 == 0), who, payload));
                    model.insert((selector, who));
                }
                false => {
                    assert_eq!(
                        table.remove(kind(selector), selector, who),
                        model.remove(&(selector, who))
                    );
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
            assert_eq!((table.len(), table.count(by(None, None))), (model.len(), model.len()));
            assert_eq!(pairs(table.listed(by(None, None))), of(&|_, _| true));
            assert_eq!(
                pairs(table.listed(by(Some(selector), None))),
                of(&|text, _| text == selector)
            );
            let one = of(&|text, name| text == selector && name == who);
            assert_eq!(pairs(table.listed(by(Some(selector), Some(who)))), one);
            assert_eq!(pairs(table.of_subscriber(who)), of(&|_, name| name == who));
            if let Some((old, old_model)) = &before {
                let fresh = of(&|text, name| !old_model.contains(&(text.to_owned(), name)));
                assert_eq!(pairs(table.without(old)), fresh);
            }
            if rng.u8(..50) == 0 {
                let mut copy = SubscriptionTable::default();
                for (selector, who) in &model {
                    assert!(copy.insert(&held(selector, true), *who, None));
                }
                before = Some((copy, of(&|_, _| true)));
            }
        }
        assert!(model.iter().all(|(selector, who)| table.remove(kind(selector), selector, *who)));
        assert!(table.is_empty() && table.is_whole() && table.payloads.is_empty());
        assert_eq!((table.all, table.open), (Taken::default(), Taken::default()));
    }

    #[test]
    fn table_past_its_bound_says_that_it_is_not_whole() {
        let mut table = SubscriptionTable::default();
        let long: Arc<str> = "x".repeat(1 << 20).into();
        let mut insert =
            |text: &str, who| table.insert(&held(text, true), who, Some(Arc::clone(&long)));
        // The payload of a subscriber counts once.
        assert!((0..70).all(|n: u8| insert(&n.to_string(), 0)));
        assert!((1..63).all(|who| insert("a", who)) && !insert("a", 64));
        assert!(!table.is_whole() && table.len() == 70 + 62);
    }

    #[test]
    fn subscriptions_that_no_token_grants_leave_room_for_others() {
        let mut table = SubscriptionTable::default();
        let half = (SUBSCRIPTIONS_MAX / OPEN_SHARE) as u128;
        assert!((0..half).all(|who| table.insert(&held("a", false), who, None)));
        assert!(
            !table.insert(&held("a", false), half, None)
                && !table.remove(HeldKind::Plain, "a", half)
        );
        assert!(table.is_whole() && table.insert(&held("a", true), half, None));
        assert!(table.remove(HeldKind::Plain, "a", 0) && table.insert(&held("b", false), 0, None));
        let long = "x".repeat(1 << 20);
        let mut table = SubscriptionTable::default();
        assert_eq!((0..64).filter(|who| table.insert(&held(&long, false), *who, None)).count(), 31);
        assert!(table.is_whole() && table.insert(&held(&long, true), 64, None));
    }

    #[test]
    fn payload_that_is_found_later_is_taken_over() {
        let mut table = SubscriptionTable::default();
        assert!(table.insert(&held("a", true), 1, None));
        assert!(table.insert(&held("a", true), 1, Some("{}".into())));
        assert!(table.insert(&held("a", true), 1, None) && table.len() == 1);
        assert_eq!(table.listed(by(Some("a"), None))[0].payload.as_deref(), Some("{}"));
    }
}
