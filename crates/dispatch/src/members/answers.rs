//! Who asks for a list is given it, or waits for it, or is refused.

use engine::{ToldText, Watch};
use tokio::task::yield_now;

use super::shared::{ListAsker, Shared};
use super::{ANSWERS_SLICE, RoomTeller};

impl RoomTeller<'_> {
    /// Gives a slice of those their lists who have waited for them.
    pub(super) async fn answer_ready(&mut self) {
        let mut answers = 0;
        while let Some((of, waiting)) = self.shared.as_mut().and_then(Shared::take_ready) {
            self.give(&of, waiting);
            answers += 1;
            if answers % ANSWERS_SLICE == 0 {
                yield_now().await;
            }
        }
    }

    pub(super) fn give(&mut self, of: &str, waiting: ListAsker) {
        let shared = self.shared.as_ref();
        let waiting = match waiting {
            // Who is refused needs no list.
            ListAsker::Watch(watch) if shared.is_some_and(|all| all.is_full_for(of, &watch)) => {
                return self.refuse_or_hold(of, watch);
            }
            // Who has gone needs none either, and its room may have no name any more.
            ListAsker::Watch(watch) if !watch.is_waiting() => return self.given(watch, true),
            waiting => waiting,
        };
        let told = match &waiting {
            ListAsker::Watch(watch) if watch.is_poll() => self.told_since(of, watch),
            // The roster knows a room without an id by no name, so nobody is there.
            _ => self.list_given(of).map(ToldText::from),
        };
        match (told, waiting) {
            (None, waiting) => {
                if let Some(shared) = &mut self.shared {
                    shared.again(of, waiting);
                }
            }
            // Who has gone away does not need it.
            (Some(told), ListAsker::Call(reply)) => drop(reply.send(told.text)),
            (Some(told), ListAsker::Watch(watch)) => {
                let is_taken = !watch.is_waiting() || self.watches.answer(&watch, &told);
                self.given(watch, is_taken);
            }
        }
    }

    /// The worker's mailbox has taken the answer, or had no room.
    pub(super) fn given(&mut self, watch: Watch, is_taken: bool) {
        match is_taken {
            true => self.watches.questions().done(1, 0),
            false => self.late.keep(watch),
        }
    }

    /// Answers a slice of those who ask for a list: what changes is told in between.
    pub(super) async fn answer_some(&mut self) {
        for _ in 0..ANSWERS_SLICE {
            let Some(watch) = self.watches.questions().take_and_count() else { return };
            self.answer(watch).await;
        }
        yield_now().await;
    }

    pub(super) async fn answer(&mut self, watch: Watch) {
        // A list is not made for who has asked anew since, or has gone.
        if !watch.is_waiting() {
            return self.watches.questions().done(1, 0);
        }
        let Some(of) = self.watches.name(watch.room()) else {
            return self.watches.questions().done(1, 0);
        };
        if self.shared.is_some() {
            return self.ask(&of, ListAsker::Watch(watch)).await;
        }
        // Who asks was logged in before: it finds itself in the list.
        if self.roster.look_at(watch.room(), self.now_ms(), &mut self.updates) {
            self.list = None;
            self.tell_updates().await;
        }
        self.give(&of, ListAsker::Watch(watch));
    }
}
