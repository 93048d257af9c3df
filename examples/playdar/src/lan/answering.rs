//! Queries of others that are being answered: so many places, shared by those who ask.
//!
//! Where all are taken a new one takes the place of the oldest of whoever has the most. So whoever
//! asks without end takes places from itself, and everybody else is answered.

use std::collections::HashMap;
use std::net::IpAddr;

use tokio::task::AbortHandle;

/// The places.
#[derive(Debug)]
pub(super) struct Answering {
    most: usize,
    /// Who asked, the oldest first.
    places: Vec<(IpAddr, AbortHandle)>,
}

impl Answering {
    pub(super) fn new(most: usize) -> Answering {
        Answering { most, places: Vec::with_capacity(most) }
    }

    /// `task` answers whoever is at `from`.
    pub(super) fn begin(&mut self, from: IpAddr, task: AbortHandle) {
        self.places.retain(|(_, task)| !task.is_finished());
        if self.places.len() >= self.most {
            self.end_one(from);
        }
        self.places.push((from, task));
    }

    /// Ends the oldest of whoever has the most, with the place that `from` would have.
    fn end_one(&mut self, from: IpAddr) {
        let mut counts = HashMap::from([(from, 1)]);
        for (address, _) in &self.places {
            *counts.entry(*address).or_insert(0) += 1;
        }
        let most = counts.values().max().copied().unwrap_or_default();
        let oldest = self.places.iter().position(|(address, _)| counts[address] == most);
        // Where each has one it is the oldest of all.
        let (_, task) = self.places.remove(oldest.unwrap_or(0));
        task.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([127, 7, 0, last])
    }

    #[tokio::test]
    async fn who_asks_without_end_takes_places_from_itself() {
        let mut answering = Answering::new(8);
        let mut ask =
            |from: u8| answering.begin(address(from), tokio::spawn(pending::<()>()).abort_handle());
        (0..100).for_each(|_| ask(1));
        (2..6).for_each(&mut ask);
        (0..100).for_each(|_| ask(1));
        let of = |from| answering.places.iter().filter(|(at, _)| *at == address(from)).count();
        assert_eq!([1, 2, 3, 4, 5].map(of), [4, 1, 1, 1, 1]);
    }

    #[tokio::test]
    async fn where_each_has_one_place_the_oldest_goes() {
        let mut answering = Answering::new(4);
        let tasks: Vec<_> = (0..5).map(|_| tokio::spawn(pending::<()>())).collect();
        for (from, task) in (0..).zip(&tasks) {
            answering.begin(address(from), task.abort_handle());
        }
        tokio::task::yield_now().await;
        assert!(tasks[0].is_finished() && !tasks[1].is_finished());
        assert_eq!(answering.places.len(), 4);
    }
}
