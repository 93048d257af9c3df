//! Who asks for a list is given it, or has to wait for it, or is refused.

use engine::{ToldText, Watch};
use tokio::task::yield_now;

use super::shared::{ListAsker, Shared};
use super::{ANSWERS_SLICE, RoomTeller};

impl RoomTeller<'_> {
    /// Gives a slice of those their lists who have waited for them.
    pub(super) async fn answer_ready(&mut self) {
        let now_ms = self.now_ms();
        let returned = self.shared.as_mut().map(|shared| shared.take_returned(now_ms));
        for (of, watch) in returned.unwrap_or_default() {
            match self.shared.as_ref().is_some_and(|shared| shared.is_full_for(&of, &watch)) {
                true => self.refuse(watch),
                false => self.give_seat(&of, watch).await,
            }
        }
        let mut answers = 0;
        while let Some((of, waiting)) = self.shared.as_mut().and_then(Shared::take_ready) {
            match waiting {
                ListAsker::Watch(watch) => self.give_seat(&of, watch).await,
                ListAsker::Call(_) => self.give(&of, waiting),
            }
            answers += 1;
            if answers % ANSWERS_SLICE == 0 {
                yield_now().await;
            }
        }
    }

    fn give(&mut self, of: &str, waiting: ListAsker) {
        let shared = self.shared.as_ref();
        let waiting = match waiting {
            // Who is refused needs no list.
            ListAsker::Watch(watch) if shared.is_some_and(|all| all.is_full_for(of, &watch)) => {
                return self.turn_away(of, watch);
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

    /// Gives a list. All are told of a member that is let in with it, and of whom nobody was.
    async fn give_seat(&mut self, of: &str, watch: Watch) {
        if let Some(update) = self.shared.as_mut().and_then(|shared| shared.let_in(of, &watch)) {
            self.list = None;
            self.tell_all_updates(&mut vec![update]).await;
        }
        self.give(of, ListAsker::Watch(watch));
    }

    /// The channel is full for the member that `watch` becomes: it waits for its place if it had
    /// one, or is refused.
    fn turn_away(&mut self, of: &str, watch: Watch) {
        let now_ms = self.now_ms();
        let Some(shared) = &mut self.shared else { return };
        if let Some(watch) = shared.put_off(now_ms, of, watch) {
            self.refuse(watch);
        }
    }

    fn refuse(&mut self, watch: Watch) {
        let is_taken = !watch.is_waiting() || self.watches.refuse(&watch);
        self.given(watch, is_taken);
    }

    /// The worker's mailbox has taken the answer, or had no room.
    fn given(&mut self, watch: Watch, is_taken: bool) {
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
