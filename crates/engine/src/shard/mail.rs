//! What the router posts: events, ends, and what clients that came back have missed. It is taken in
//! the order of posting, as far as a turn has time for. What has to wait is
//! [parked](super::parked).

use super::parked::Rest;
use super::{Shard, key_of};
use crate::limits;
use crate::mailbox::{Mail, Mailbox};
use crate::sockets::Sockets;

impl<S: Sockets> Shard<S> {
    /// Takes mail, as far as a turn has time for. Whether there was some, and whether some is left.
    pub(crate) fn take_mail(&mut self, mailbox: &Mailbox) -> (bool, bool) {
        let posted = self.core.event_ids.posted();
        let mut weight = self.go_on();
        while weight < limits::DELIVERIES_PER_TURN && !self.parked.is_full() {
            let Some(mail) = mailbox.take() else {
                // All up to there is taken.
                self.core.settle(posted);
                return (weight > 0, false);
            };
            // A mail for nobody costs a little too.
            weight += self.mail(mail).max(1);
        }
        (true, self.takes_mail())
    }

    /// Takes one mail. Returns what it cost, in deliveries.
    pub(crate) fn mail(&mut self, mail: Mail) -> usize {
        if let Mail::Drain { deadline_ms } = mail {
            // That holds from now on, whatever waits.
            self.drain_deadline_ms = Some(deadline_ms);
        }
        let waits = self.fan_outs_wait && mail.is_for_many() || self.parked.holds_up(&mail);
        let (cost, rest) = match waits {
            true => (1, Some(Rest { mail, from: 0 })),
            false => self.hand_over(Rest { mail, from: 0 }),
        };
        // It has nothing to do with what waits, or comes after it.
        rest.into_iter().for_each(|rest| self.parked.push_back(rest));
        self.note_parked();
        cost
    }

    /// Whether mail to large audiences, and what must not overtake it, waits from now on until
    /// this is said again.
    pub(crate) fn let_fan_outs_wait(&mut self, wait: bool) {
        self.fan_outs_wait = wait;
    }

    /// Whether something is left to be handed or written to large audiences.
    pub(crate) fn has_fan_outs(&self) -> bool {
        !self.parked.is_empty() || !self.core.bulk.is_empty()
    }

    /// Whether mail is taken at all: what waits is bounded.
    pub(crate) fn takes_mail(&self) -> bool {
        !self.fan_outs_wait || !self.parked.is_full()
    }

    /// Goes on with what waits. Returns what it cost, in deliveries.
    pub(super) fn go_on(&mut self) -> usize {
        let mut cost = 0;
        while !self.fan_outs_wait
            && cost < limits::DELIVERIES_PER_TURN
            && !self.core.has_no_time_for_full()
            && let Some(rest) = self.parked.pop_front()
        {
            self.note_parked();
            let (its_cost, rest) = self.hand_over(rest);
            cost += its_cost.max(1);
            rest.into_iter().for_each(|rest| self.parked.push_front(rest));
            self.note_parked();
        }
        cost
    }

    fn note_parked(&mut self) {
        let first = self.parked.first_number();
        self.core.settled_max = first.map_or(u64::MAX, |first| first - 1);
    }

    /// Does what a mail says. Returns what it cost, in deliveries, and what there was no time for.
    fn hand_over(&mut self, Rest { mail, from }: Rest) -> (usize, Option<Rest>) {
        let weight = mail.weight() - from;
        match mail {
            Mail::Deliver { event, mut targets, is_last, stub } => {
                if from == 0 {
                    for id in event.except().iter() {
                        self.core.leave_out(id, &mut targets);
                    }
                }
                let (compression, number) =
                    (self.compress_for(&event, &targets[from..]), event.number());
                let (delivered, rest) = self.deliver(event, targets, is_last, from, stub);
                if is_last && rest.is_none() {
                    self.core.settle(number);
                }
                return (compression + delivered, rest);
            }
            Mail::Close { reason, targets, stub } => self.disconnect(reason, targets, stub),
            Mail::CatchUp(catch_up) => {
                let target = catch_up.target;
                // Who is still to be told of a gap is told instead: what it asked for was asked
                // before, and ends before.
                let is_told = !self.core.has_pending_gap(target.slot() as u32);
                if is_told && self.conns.find(key_of(target)).is_some() {
                    self.serve(target.slot() as u32, |core, at| core.catch_up(at, catch_up));
                }
            }
            Mail::TokenResult(result) => self.token_result(result),
            Mail::Say(say) => self.say(say),
            Mail::Room(text) => self.tell_of_room(&text),
            Mail::Text { text, targets, stub } => self.tell_all(&text, &targets, stub),
            Mail::Revoke(revoked) => self.revoke(revoked),
            Mail::Gap { up_to } => self.begin_gap(up_to),
            Mail::Drain { .. } => self.drain(),
        }
        (weight, None)
    }
}
