//! Records of a newer version in the log of a node that is still the older one.
//!
//! Whatever such a record says, an event, a change, a join: all others obey it, and this node
//! cannot. So it ends, its clients go on at the others, and whoever runs it is told to start the
//! newer version. What is no record at all is passed over by all nodes alike, and must not end
//! them; a record is known by its sum over the log, which nobody has who has not read it.

use super::Node;
use crate::action::{Action, EndReason};
use crate::pipeline::Item;
use crate::record::Head;

/// A record of a newer version, perhaps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Newer {
    sequence: u64,
    format: u8,
    head: Head,
}

impl Node {
    /// The record just read has a later format.
    pub(super) fn take_newer(&mut self, bytes: &[u8]) {
        let sequence = self.read;
        let newer = Head::of_any(bytes).map(|(format, head)| Newer { sequence, format, head });
        let newer = newer.filter(|newer| newer.head.after < sequence);
        // Until the view is known so is no sum. What comes back to before this place is told a gap.
        let item = match newer {
            Some(_) if !self.roster.is_known() => Item::Gap,
            _ => Item::Nothing,
        };
        self.newer = newer.or(self.newer);
        self.pipeline.push(sequence, bytes.len(), item);
        self.mind_newer();
        if !self.ended {
            self.actions.push_back(Action::Unreadable { sequence });
        }
    }

    /// Ends this node if what it could not read was written by a node of a newer version.
    pub(super) fn mind_newer(&mut self) {
        if !self.roster.is_known() || self.ended {
            return;
        }
        let Some(Newer { sequence, format, head }) = self.newer.take() else { return };
        debug_assert!(head.after < sequence && sequence <= self.read);
        if self.chain.at(head.after) == Some(head.chain) {
            self.end(EndReason::Newer { sequence, format });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::{Epoch, GraphPlace, Known};
    use crate::chain::Chain;
    use crate::message::{Message, MessageBody, View};
    use crate::node::Config;
    use crate::record::{Body, FORMAT, FORMAT_MAX, Order, Record};
    use crate::wire::Malformed;

    /// A node that follows a log of which it has read all up to `first`, minus one.
    fn node(first: u64, head: u64) -> Node {
        let config = Config { name: "old".into(), address: String::new(), nonce: 1, proves: false };
        let epoch = Epoch { number: 1, base: 0 };
        let known = Known::Read { epoch: 1, sequence: u64::MAX };
        let mut node = Node::new(0, config, epoch, GraphPlace::default(), known);
        node.following(0, 1, first, head);
        node
    }

    /// A logout by a member, that knows the sum `chain` at `after`, in `format`.
    fn record(format: u8, after: u64, chain: u64) -> Vec<u8> {
        let head = Head { incarnation: 1, batch: 1, after, chain };
        let mut bytes = Record { head, body: Body::Order(Order::Logout("1".into())) }.encode();
        bytes[0] = format;
        // What a later format may have.
        bytes.push(7);
        bytes
    }

    fn actions(node: &mut Node) -> Vec<Action> {
        std::iter::from_fn(|| node.next_action()).collect()
    }

    #[test]
    fn newer_record_is_told_from_what_is_none() {
        assert_eq!(Record::decode(&record(FORMAT_MAX + 1, 0, 0)), Err(Malformed::Newer));
        assert_eq!(Record::decode(&record(0, 0, 0)), Err(Malformed::Unknown));
        assert_eq!(Record::decode(&record(FORMAT, 0, 0)), Err(Malformed::Long));
    }

    #[test]
    fn node_that_meets_a_newer_record_ends_and_names_it() {
        let mut node = node(1, 0);
        node.record(0, 1, 1, b"no record");
        let sum = node.chain_at(1).unwrap();
        node.record(0, 1, 2, &record(FORMAT_MAX + 1, 1, sum));
        let actions = actions(&mut node);
        assert!(actions.contains(&Action::Unreadable { sequence: 1 }), "{actions:?}");
        let end = Action::End(EndReason::Newer { sequence: 2, format: FORMAT_MAX + 1 });
        assert_eq!(actions.last(), Some(&end));
    }

    #[test]
    fn what_only_looks_like_a_newer_record_ends_nobody() {
        let mut node = node(1, 0);
        node.record(0, 1, 1, b"no record");
        let sum = node.chain_at(1).unwrap();
        // Another sum, a kind that is no letter, and a head that is cut short.
        let mut others = vec![record(FORMAT_MAX + 1, 1, sum + 1), record(FORMAT_MAX + 1, 1, sum)];
        others[1][1] = 0;
        others.push(record(FORMAT_MAX + 1, 1, sum)[..20].to_vec());
        for (bytes, sequence) in others.iter().zip(2..) {
            node.record(0, 1, sequence, bytes);
        }
        let actions = actions(&mut node);
        assert!(!actions.iter().any(|action| matches!(action, Action::End(_))), "{actions:?}");
        assert_eq!(node.read_up_to(), 4);
    }

    #[test]
    fn node_that_begins_among_newer_records_tells_gaps_and_ends_when_it_knows_the_sum() {
        let mut node = node(100, 101);
        let last = record(FORMAT_MAX + 1, 100, 6);
        node.record(0, 1, 100, &record(FORMAT_MAX + 1, 99, 5));
        node.record(0, 1, 101, &last);
        let gap = Action::Gap { after: node.epoch.behind(101) };
        let told = actions(&mut node);
        assert_eq!(told.last(), Some(&gap), "{told:?}");
        assert!(!told.iter().any(|action| matches!(action, Action::End(_))), "{told:?}");
        let chain = 6 + Chain::hash(101, &last);
        let view = View { at: 101, chain, members: Vec::new() };
        node.core_message(0, &Message { epoch: 1, said: MessageBody::View(view) }.encode());
        let end = Action::End(EndReason::Newer { sequence: 101, format: FORMAT_MAX + 1 });
        assert_eq!(actions(&mut node).last(), Some(&end));
    }

    #[test]
    fn newer_message_is_told() {
        let mut node = node(1, 0);
        node.core_message(0, &[FORMAT + 1, b'B', 1]);
        node.core_message(0, &[0, b'B', 1]);
        let told = actions(&mut node);
        assert_eq!(told.iter().filter(|one| **one == Action::NewerMessage).count(), 1);
    }
}
