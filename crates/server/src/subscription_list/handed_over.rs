//! This is the list over an upgrade. Its place, and what was to be told of it, go to the process
//! that goes on. The list itself is read there from those who came along. So nobody is told of an
//! end or a begin that was none, and of each that was once.

use std::iter::repeat;
use std::sync::Arc;

use hub::ConnectionId;
use mercure::Dialect;
use serde::{Deserialize, Serialize};
use topics::{
    HeldKind, HeldSelector, ListedSubscription, SubscriberNote, TopicsRest, subscriber_number,
    subscriber_text,
};

use super::SubscriptionList;
use super::waiting::{ListChange, Waiting};
use crate::subscription_changes::{ChangeCounts, has_path};

/// What is handed on at most, in bytes of texts, about; where more waits it is lost, and told so.
const BYTES_MAX: usize = 8 << 20;

/// What a change counts for beside its texts.
const CHANGE_BYTES: usize = 128;

/// It, as it is written down.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ListRest {
    /// See [`Waiting::period`].
    period: u64,
    mark: u64,
    changes: Vec<WrittenChange>,
    /// Who has come or gone and is not among the changes.
    notes: Vec<WrittenNote>,
    /// Some changes are known to nobody.
    has_lost: bool,
    counts: ChangeCounts,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct WrittenChange {
    kind: HeldKind,
    selector: String,
    subscriber: String,
    payload: Option<String>,
    is_active: bool,
    except: Option<u64>,
    /// Of a node: whether it is told in the form of 1.0, or in the old one.
    only_v1: Option<bool>,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct WrittenNote {
    subscriber: String,
    came: Option<u64>,
    /// Texts, and whether a token grants each.
    selectors: Vec<(String, bool)>,
    /// The kinds of them, where they are written.
    kinds: Vec<HeldKind>,
    payload: Option<String>,
}

impl ListRest {
    fn of(waiting: &Waiting, noted: Vec<SubscriberNote>) -> ListRest {
        let &Waiting { period, mark, is_making_up, .. } = waiting;
        let changes = waiting.changes.iter().map(WrittenChange::of);
        let notes: Option<Vec<WrittenNote>> =
            waiting.notes.iter().chain(&noted).map(WrittenNote::of).collect();
        let rest = ListRest { period, mark, has_lost: is_making_up, ..ListRest::default() };
        let (changes, notes): (Vec<_>, _) = (changes.collect(), notes.unwrap_or_default());
        let bytes = changes.iter().map(WrittenChange::bytes).sum::<usize>()
            + notes.iter().map(WrittenNote::bytes).sum::<usize>();
        // What one listened to that has gone is known by the list alone, which is not handed on.
        let is_known = noted.iter().chain(&waiting.notes).all(|note| note.selectors.is_some());
        match is_known && bytes <= BYTES_MAX {
            true => ListRest { changes, notes, ..rest },
            false => ListRest { has_lost: true, ..rest },
        }
    }
}

impl WrittenChange {
    fn of(change: &ListChange) -> WrittenChange {
        let ListedSubscription { kind, selector, subscriber, payload } = &change.listed;
        WrittenChange {
            kind: *kind,
            selector: selector.to_string(),
            subscriber: subscriber_text(*subscriber),
            payload: payload.as_deref().map(str::to_owned),
            is_active: change.is_active,
            except: change.except.map(ConnectionId::bits),
            only_v1: change.only.map(|only| only == Dialect::V1),
        }
    }

    fn bytes(&self) -> usize {
        CHANGE_BYTES + self.selector.len() + self.payload.as_ref().map_or(0, String::len)
    }

    fn read(self) -> Option<ListChange> {
        let WrittenChange { kind, selector, subscriber, payload, .. } = self;
        let (is_active, except) = (self.is_active, self.except);
        let only = self.only_v1.map(|is_v1| if is_v1 { Dialect::V1 } else { Dialect::Old });
        let subscriber = subscriber_number(&subscriber)?;
        let payload = payload.map(Arc::from);
        let selector = selector.into();
        let listed = ListedSubscription { kind, selector, subscriber, payload };
        let except = except.and_then(ConnectionId::of_bits);
        Some(ListChange { listed, is_active, except, only })
    }
}

impl WrittenNote {
    /// `None` where it is not known what it listened to.
    fn of(note: &SubscriberNote) -> Option<WrittenNote> {
        let text = |held: &HeldSelector| (held.text.to_string(), held.is_granted);
        Some(WrittenNote {
            subscriber: subscriber_text(note.who),
            came: note.came.map(ConnectionId::bits),
            selectors: note.selectors.as_ref()?.iter().map(text).collect(),
            kinds: note.selectors.as_ref()?.iter().map(|held| held.kind).collect(),
            payload: note.payload.as_deref().map(str::to_owned),
        })
    }

    fn bytes(&self) -> usize {
        let texts = self.selectors.iter().map(|(text, _)| text.len() + CHANGE_BYTES);
        CHANGE_BYTES + texts.sum::<usize>() + self.payload.as_ref().map_or(0, String::len)
    }

    fn read(self) -> Option<SubscriberNote> {
        let WrittenNote { subscriber, came, selectors, kinds, payload } = self;
        // Versions that write none know no URL patterns.
        let kinds = kinds.into_iter().chain(repeat(HeldKind::Plain));
        let held = |((text, is_granted), kind): ((String, bool), HeldKind)| HeldSelector {
            kind,
            text: text.into(),
            is_granted,
        };
        Some(SubscriberNote {
            who: subscriber_number(&subscriber)?,
            came: match came {
                Some(bits) => Some(ConnectionId::of_bits(bits)?),
                None => None,
            },
            selectors: Some(selectors.into_iter().zip(kinds).map(held).collect()),
            payload: payload.map(Arc::from),
        })
    }
}

/// What is to be told of a note, where the list has all who are there. Of one that has come and is
/// not in it nothing is: it was left out.
fn changes_of<'l>(
    note: SubscriberNote,
    is_listed: impl Fn(&HeldSelector) -> bool + 'l,
) -> impl Iterator<Item = ListChange> + 'l {
    let SubscriberNote { who, came, selectors, payload } = note;
    let held = selectors.into_iter().flatten().filter(has_path);
    held.filter(move |held| came.is_none() || is_listed(held)).map(move |held| {
        let (kind, selector, payload) = (held.kind, held.text.into(), payload.clone());
        let listed = ListedSubscription { kind, selector, subscriber: who, payload };
        ListChange { except: came, ..ListChange::new(listed, came.is_some()) }
    })
}

impl SubscriptionList {
    /// What the process that goes on is to know. Nobody has a write permit, and no worker notes
    /// anything any more.
    pub(crate) fn rest(&self) -> ListRest {
        let waiting = self.waiting();
        let (noted, has_lost) = self.subscriptions().waiting();
        let rest = ListRest::of(&waiting, noted);
        drop(waiting);
        let budget = self.budget();
        let has_lost = has_lost || rest.has_lost || budget.has_pending();
        ListRest { has_lost, counts: budget.counts(), ..rest }
    }

    /// Goes on from there: all who were subscribed have come, and are not served yet.
    pub(crate) async fn take_over(&self, topics: TopicsRest, rest: ListRest) {
        // From when it is wanted nobody else begins to keep the list.
        let mut kept = self.kept.lock().await;
        self.topics.take_over_rest(topics);
        let ListRest { period, mark, changes, notes, has_lost, counts } = rest;
        {
            let mut budget = self.budget();
            budget.count_on(counts);
            if has_lost {
                budget.lose_pending();
            }
        }
        let is_listed = period > 0 && period == self.subscriptions().periods();
        if is_listed && self.subscriptions().is_wanted() {
            kept.mark = mark;
            self.read_into(&mut kept).await;
            kept.period = period;
        }
        let mut waiting = self.waiting();
        waiting.set_list(kept.period, kept.mark);
        waiting.changes.extend(changes.into_iter().filter_map(WrittenChange::read));
        let notes = notes.into_iter().filter_map(WrittenNote::read);
        if kept.period == 0 {
            waiting.notes.extend(notes);
            return;
        }
        for note in notes {
            let (table, who) = (&kept.table, note.who);
            let is_listed = move |held: &HeldSelector| table.contains(held.kind, &held.text, who);
            waiting.changes.extend(changes_of(note, is_listed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(who: u128, came: Option<u64>, selectors: &[(&str, bool)]) -> SubscriberNote {
        let held = |(text, is_granted): &(&str, bool)| HeldSelector {
            kind: HeldKind::Template,
            text: (*text).into(),
            is_granted: *is_granted,
        };
        SubscriberNote {
            who,
            came: came.and_then(ConnectionId::of_bits),
            selectors: Some(selectors.iter().map(held).collect()),
            payload: Some("7".into()),
        }
    }

    #[test]
    fn what_waits_is_read_as_it_was_written() {
        let who = (7 << 76) | (0b10 << 62);
        let mut waiting = Waiting::default();
        waiting.set_list(3, 12);
        let listed = ListedSubscription {
            kind: HeldKind::UrlPattern,
            selector: "a{b}".into(),
            subscriber: who,
            payload: None,
        };
        waiting.changes.push_back(ListChange {
            listed,
            is_active: true,
            except: ConnectionId::of_bits(5),
            only: Some(Dialect::V1),
        });
        waiting.notes.push_back(note(who, None, &[("*", true), ("a", false)]));
        let rest = ListRest::of(&waiting, vec![note(who, Some(5), &[("b", false)])]);
        let written = serde_json::to_string(&rest).unwrap();
        let rest: ListRest = serde_json::from_str(&written).unwrap();
        assert_eq!((rest.period, rest.mark, rest.has_lost), (3, 12, false));
        let change = rest.changes[0].clone().read().unwrap();
        assert_eq!(change, waiting.changes[0]);
        let kinds = |note: &WrittenNote| note.kinds.clone();
        assert_eq!(kinds(&rest.notes[0]), [HeldKind::Template; 2]);
        let notes: Vec<SubscriberNote> =
            rest.notes.into_iter().filter_map(WrittenNote::read).collect();
        assert_eq!(
            (notes.len(), notes[0].came, notes[1].came),
            (2, None, ConnectionId::of_bits(5))
        );
        let told: Vec<ListChange> = notes
            .into_iter()
            .flat_map(|note| changes_of(note, |held| &*held.text != "b"))
            .collect();
        let texts: Vec<(&str, bool)> =
            told.iter().map(|told| (&*told.listed.selector, told.is_active)).collect();
        assert_eq!(texts, [("*", false), ("a", false)], "b is not in the list");
    }

    #[test]
    fn what_cannot_be_handed_on_is_told_as_lost() {
        let unknown = SubscriberNote { selectors: None, ..note(1, None, &[]) };
        assert!(ListRest::of(&Waiting::default(), vec![unknown]).has_lost);
        let long = "x".repeat(4_000);
        let note = note(1, None, &[(&long, false)]);
        let rest = ListRest::of(&Waiting::default(), vec![note; 3_000]);
        assert!(rest.has_lost && rest.notes.is_empty());
    }
}
