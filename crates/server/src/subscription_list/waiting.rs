//! What is still to be told of subscriptions that begin and end: notes that are not in the list
//! yet, and updates that are not posted. It stands apart from the list, so that an upgrade finds
//! it whatever else is under way.

use std::collections::VecDeque;

use hub::ConnectionId;
use mercure::Dialect;
use topics::{ListedSubscription, SubscriberNote, SubscriptionTable, Subscriptions};

use crate::subscription_changes::has_path;

/// A subscription has begun, or ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ListChange {
    pub(super) listed: ListedSubscription,
    pub(super) is_active: bool,
    /// The connection that does not hear of itself.
    pub(super) except: Option<ConnectionId>,
    /// In which form it is told, of those that it has; in all unless set.
    pub(super) only: Option<Dialect>,
}

impl ListChange {
    /// One that is told in all forms.
    pub(super) fn new(listed: ListedSubscription, is_active: bool) -> ListChange {
        ListChange { listed, is_active, except: None, only: None }
    }
}

/// What waits, in its order.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub(super) notes: VecDeque<SubscriberNote>,
    /// They are in the list already.
    pub(super) changes: VecDeque<ListChange>,
    /// Of which period the list is, which is 0 as long as there is none, and its mark.
    pub(super) period: u64,
    pub(super) mark: u64,
    /// The list is being read anew, for notes were lost.
    pub(super) is_making_up: bool,
}

impl Waiting {
    /// There is a list of that period from now on, or of none.
    pub(super) fn set_list(&mut self, period: u64, mark: u64) {
        (self.period, self.mark) = (period, mark);
    }

    /// Takes what workers have noted. Whether some of that was lost.
    pub(super) fn fill(&mut self, subscriptions: &Subscriptions) -> bool {
        let (notes, has_lost) = subscriptions.take();
        self.notes.extend(notes);
        self.is_making_up |= has_lost;
        has_lost
    }

    /// Puts the next note into the list, and what is to be told of it behind the other changes.
    /// Whether there was one.
    pub(super) fn apply_next(&mut self, table: &mut SubscriptionTable) -> bool {
        let Some(note) = self.notes.pop_front() else { return false };
        let SubscriberNote { who, came, selectors, payload } = note;
        let Some(selectors) = selectors else {
            for listed in table.of_subscriber(who) {
                table.remove(listed.kind, &listed.selector, who);
                self.changes.push_back(ListChange::new(listed, false));
            }
            return true;
        };
        for held in selectors.into_iter().filter(has_path) {
            let is_listed = match came {
                Some(_) => table.insert(&held, who, payload.clone()),
                None => table.remove(held.kind, &held.text, who),
            };
            if !is_listed && table.is_whole() {
                // It is left out, as one that no token grants: then its end is not told, either.
                continue;
            }
            let (kind, selector, payload) = (held.kind, held.text.into(), payload.clone());
            let listed = ListedSubscription { kind, selector, subscriber: who, payload };
            let change = ListChange::new(listed, came.is_some());
            self.changes.push_back(ListChange { except: came, ..change });
        }
        true
    }

    /// The list was read anew: what differs is told.
    pub(super) fn make_up(&mut self, before: &SubscriptionTable, now: &SubscriptionTable) {
        // Whose own those are that have begun, is not known any more.
        let change = |is_active| move |listed| ListChange::new(listed, is_active);
        self.changes.extend(before.without(now).into_iter().map(change(false)));
        self.changes.extend(now.without(before).into_iter().map(change(true)));
    }
}
