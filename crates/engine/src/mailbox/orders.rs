//! Orders: what a worker goes by from its next turn on. A new kind is a variant of [`Order`], its
//! slot, and an arm where the [worker](crate::worker) obeys.
//!
//! An order is no mail. It needs no room, nothing waits for its place among the mail, and of two of
//! one kind the worker finds the later one alone. So an order says all that there is to know of its
//! kind. Texts and settings come whole, and a handover is what both sides see, in which the command
//! stands. Where one says it in steps, or each must be answered, it is a mail.
//!
//! Cost: one look at each slot a turn.

use std::array;
use std::sync::Arc;

use crossbeam_queue::ArrayQueue;

use crate::handover_state::HandoverState;
use crate::lane::Lane;
use crate::settings::Settings;
use crate::texts::Texts;

/// What a worker is told.
pub(crate) enum Order {
    /// Show these texts, and no others.
    Texts(Arc<Texts>),
    /// Go by these settings.
    Settings(Arc<Settings>),
    /// End all connections, over so many milliseconds. What is posted before or behind it is
    /// delivered to all who are still there.
    Move(u64),
    /// All connections go to another process, or there is something new of that. Posted again each
    /// time that there is more to do for it: one that was not found yet says no less by then.
    Handover(Arc<HandoverState>),
    /// Do this for senders. A worker is given one once.
    Lane(Box<dyn Lane>),
}

/// The kinds of orders.
const KINDS: usize = 5;

impl Order {
    fn slot(&self) -> usize {
        match self {
            Order::Texts(_) => 0,
            Order::Settings(_) => 1,
            Order::Move(_) => 2,
            Order::Handover(_) => 3,
            Order::Lane(_) => 4,
        }
    }
}

/// One worker's orders that it has not found yet, of each kind the latest.
#[derive(Debug)]
pub(super) struct Orders([ArrayQueue<Order>; KINDS]);

impl Orders {
    pub(super) fn new() -> Orders {
        Orders(array::from_fn(|_| ArrayQueue::new(1)))
    }

    /// Posts one, in the place of the one of its kind that the worker has not found yet.
    pub(super) fn post(&self, order: Order) {
        drop(self.0[order.slot()].force_push(order));
    }

    /// Takes all, for the worker.
    pub(super) fn take(&self) -> impl Iterator<Item = Order> + use<> {
        let orders: [Option<Order>; KINDS] = array::from_fn(|kind| self.0[kind].pop());
        orders.into_iter().flatten()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(ArrayQueue::is_empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moves(orders: &Orders) -> Vec<u64> {
        let over_ms = |order| match order {
            Order::Move(over_ms) => Some(over_ms),
            _ => None,
        };
        orders.take().filter_map(over_ms).collect()
    }

    #[test]
    fn later_order_of_a_kind_counts_and_those_of_others_stay() {
        let orders = Orders::new();
        orders.post(Order::Move(1));
        orders.post(Order::Texts(Arc::default()));
        orders.post(Order::Move(2));
        assert_eq!(orders.take().map(|order| order.slot()).collect::<Vec<_>>(), [0, 2]);
        assert!(orders.is_empty() && orders.take().next().is_none());
        orders.post(Order::Move(1));
        orders.post(Order::Move(3));
        assert!(!orders.is_empty());
        assert_eq!(moves(&orders), [3]);
    }
}
