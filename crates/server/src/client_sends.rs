//! Posts what clients send, and tells their connections what became of it.
//!
//! The sends of one connection are posted one after the other, in the order in which they came;
//! those of others do not wait for them, be a mailbox full or a cluster slow. Their counts are
//! awaited beside that, so answers may come in another order. Each send is answered once.
//!
//! A connection that sends by requests may be another one each time. So what is sent by request is
//! bounded by its token too, over all connections.
//!
//! Cost: a task for each connection that sends, as long as it does, and one for each answer; as
//! many as the queue of sends has places. A quarter of a kilobyte for each.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use dispatch::barrier::Barrier;
use dispatch::posting::say;
use dispatch::traces::{Arrival, SendTrace};
use engine::{
    Answered, Answers, ClientSend, ClientSendOutcome, ClientSends, DirectMessage, Engine, Question,
    SentBy,
};
use httpd::problem::ApiProblem;
use hub::ConnRef;
use proto::Problem;
use tokio::task::yield_now;

use crate::api::{Api, push_answer};
use crate::history_reads::PageMaker;
use crate::token_rates::TokenRates;

/// How many sends are begun before others of the control plane have their turn.
const SENDS_AT_ONCE: usize = 32;

/// How long an upgrade waits for what becomes of sends: less than a worker may take to be quiet.
const UPGRADE_WAIT: Duration = Duration::from_secs(1);

/// Who posts what clients send.
struct ClientSendTask {
    api: Arc<Api>,
    sends: Arc<ClientSends>,
    answers: Answers,
    /// What waits of each connection of which something is being posted.
    waiting: Mutex<HashMap<ConnRef, VecDeque<ClientSend>>>,
    rates: Arc<TokenRates>,
}

/// Posts what the clients of `engine` send, and makes the pages that they read, for as long as the
/// runtime lives.
pub(crate) fn answer_all(api: &Arc<Api>, engine: &RwLock<Engine>, rates: Arc<TokenRates>) {
    let engine = engine.read().unwrap_or_else(PoisonError::into_inner);
    let (sends, reads) = (engine.client_sends().clone(), engine.history_reads().clone());
    let task = ClientSendTask::new(api.clone(), sends, engine.answers(), rates.clone());
    tokio::spawn(task.run());
    tokio::spawn(PageMaker::new(api.clone(), reads, engine.answers(), rates).run());
}

impl ClientSendTask {
    fn new(
        api: Arc<Api>,
        sends: Arc<ClientSends>,
        answers: Answers,
        rates: Arc<TokenRates>,
    ) -> Arc<ClientSendTask> {
        Arc::new(ClientSendTask { api, sends, answers, waiting: Mutex::default(), rates })
    }

    /// Posts what comes, for as long as the runtime lives.
    async fn run(self: Arc<ClientSendTask>) {
        loop {
            poll_fn(|context| self.sends.questions().poll_any(context)).await;
            for _ in 0..SENDS_AT_ONCE {
                let Some(send) = self.sends.questions().take_and_count() else { break };
                self.begin(send);
            }
            yield_now().await;
        }
    }

    /// Begins to post `send`, or puts it behind those of its connection.
    fn begin(self: &Arc<ClientSendTask>, send: ClientSend) {
        match self.waiting().entry(send.conn()) {
            Entry::Occupied(mut waiting) => waiting.get_mut().push_back(send),
            Entry::Vacant(place) => {
                place.insert(VecDeque::new());
                tokio::spawn(Arc::clone(self).post_all(send));
            }
        }
    }

    /// Posts `send`, and then what came behind it on its connection.
    async fn post_all(self: Arc<ClientSendTask>, mut send: ClientSend) {
        let conn = send.conn();
        loop {
            self.post(send).await;
            let mut waiting = self.waiting();
            match waiting.get_mut(&conn).and_then(VecDeque::pop_front) {
                Some(next) => send = next,
                None => {
                    waiting.remove(&conn);
                    return;
                }
            }
        }
    }

    async fn post(self: &Arc<ClientSendTask>, send: ClientSend) {
        let arrival = match send.by() {
            SentBy::Request { .. } => Arrival::Request,
            SentBy::Message { .. } | SentBy::Channel(_) => Arrival::Message,
        };
        let trace = self.api.trace_of_client(arrival);
        let posted = match self.bound_token(&send) {
            Ok(()) => self.api.post_of_client(&send, trace.as_ref().map(SendTrace::marks)).await,
            Err(problem) => Err(problem),
        };
        let task = Arc::clone(self);
        match posted {
            Ok(posted) => drop(tokio::spawn(async move {
                let delivered = task.api.delivered_of_client(posted);
                let delivered = known_in_time(task.api.barrier(), delivered).await;
                if let Some(trace) = trace {
                    trace.end_one(delivered.as_ref().map_err(ApiProblem::status));
                }
                let answer = delivered.map(|delivered| {
                    let mut text = Vec::with_capacity(64);
                    push_answer(&mut text, &delivered);
                    String::from_utf8_lossy(&text).into()
                });
                task.answer(send, answer.map_err(Problem::from)).await;
            })),
            Err(problem) => {
                if let Some(trace) = trace {
                    trace.end_one(Err(problem.status()));
                }
                self.answer(send, Err(problem.into())).await;
            }
        }
    }

    /// Tells the connection of `send` what became of it.
    async fn answer(&self, send: ClientSend, outcome: Result<Box<str>, Problem>) {
        let status = outcome.as_ref().map_or_else(|problem| problem.status, |_| 200);
        self.sends.count(ClientSendOutcome::of_status(status));
        let reference = match send.by() {
            SentBy::Message { reference, .. } => reference.clone(),
            SentBy::Request { .. } | SentBy::Channel(_) => None,
        };
        let said = DirectMessage::Sent(Box::new(Answered { outcome, reference }));
        say(&self.answers, send.conn(), said).await;
        self.sends.questions().done(1, send.bytes());
    }

    /// Counts what is sent by request for its token.
    fn bound_token(&self, send: &ClientSend) -> Result<(), ApiProblem> {
        match (send.by(), send.grant()) {
            (SentBy::Request { .. }, Some(grant)) => {
                Ok(self.rates.take(grant, send.limits(), Problem::sends_busy)?)
            }
            _ => Ok(()),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<ConnRef, VecDeque<ClientSend>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What becomes of a send. The log of a cluster may be slow to say, and no upgrade waits for that:
/// whoever sent it is told that it is not known. It may send again with the same key, which the
/// next process knows as soon as the log brings it.
async fn known_in_time<T>(
    barrier: &Barrier,
    outcome: impl Future<Output = Result<T, ApiProblem>>,
) -> Result<T, ApiProblem> {
    tokio::select! {
        biased;
        outcome = outcome => outcome,
        () = barrier.closed_for(UPGRADE_WAIT) => Err(Problem::send_unanswered().into()),
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn upgrade_does_not_wait_for_a_send_whose_outcome_the_log_does_not_tell() {
        let barrier = Barrier::new();
        barrier.close();
        let known = known_in_time(&barrier, ready(Ok(7))).await;
        assert_eq!(known.ok(), Some(7));
        let unknown = known_in_time(&barrier, pending::<Result<u8, ApiProblem>>()).await;
        let problem = Problem::from(unknown.unwrap_err());
        assert_eq!(problem, Problem::send_unanswered());
    }
}
