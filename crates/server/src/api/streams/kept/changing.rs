//! Changes of streams: creations, appends, and their ends.
//!
//! One that tells nobody takes a thread of the [row](crate::api::streams::row). One whose append is
//! an event has a task beside its thread, which sends that.

use std::sync::Arc;

use streams::{Refusal, Store, Teller};
use tokio::sync::oneshot;

use super::{Streams, Undone, done, ended};
use crate::api::streams::events::StreamEvents;
use crate::api::streams::places::{PathTurn, TOLD_REQUESTS_MAX};

impl Streams {
    /// Does `work` on the stream at `path`, and sends what is appended, where that is an event.
    pub(in crate::api::streams) async fn change<T: Send + 'static>(
        self: &Arc<Streams>,
        path: &str,
        work: impl FnOnce(&Store, Option<&dyn Teller>) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Undone> {
        match self.events_of(path).map(Arc::clone) {
            Some(events) => self.change_and_tell(path, events, work).await,
            None => self.change_alone(path, work).await,
        }
    }

    /// Does `work`, which changes the stream at `path` and tells nobody, when it has a turn and a
    /// thread. What has a turn is done, also for a client that goes away, unless an
    /// upgrade is under way.
    async fn change_alone<T: Send + 'static, W>(
        self: &Arc<Streams>,
        path: &str,
        work: W,
    ) -> Result<T, Undone>
    where
        W: FnOnce(&Store, Option<&dyn Teller>) -> Result<T, Refusal> + Send + 'static,
    {
        let (turn, work) = match self.turns.take_if_free(path) {
            // As a rule, and without a task of its own.
            Some(turn) => match self.change_in_row(turn, work).await {
                Ok(done) => return done,
                Err((turn, work)) => (Some(turn), work),
            },
            None => (None, work),
        };
        let (streams, path) = (Arc::clone(self), Box::<str>::from(path));
        let begun = tokio::spawn(async move {
            let turn = match turn {
                Some(turn) => Some(turn),
                None => streams.turns.take(&path, usize::MAX).await,
            };
            let mut left = (turn.ok_or(Undone::Refused(Refusal::Pending))?, work);
            loop {
                // Nobody else has the files while they are opened.
                let permit = streams.barrier.enter().await.map_err(Undone::NoPermit)?;
                streams.store().await.map_err(Undone::Unusable)?;
                drop(permit);
                match streams.change_in_row(left.0, left.1).await {
                    Ok(done) => return done,
                    Err(back) => left = back,
                }
            }
        });
        ended(begun).await
    }

    /// Does `work` on a thread. It is given back with its turn, and nothing is done, where that is
    /// not this process's now, or the streams are not open yet.
    async fn change_in_row<T: Send + 'static, W>(
        self: &Arc<Streams>,
        turn: PathTurn,
        work: W,
    ) -> Result<Result<T, Undone>, (PathTurn, W)>
    where
        W: FnOnce(&Store, Option<&dyn Teller>) -> Result<T, Refusal> + Send + 'static,
    {
        let (tell, told) = oneshot::channel();
        let streams = Arc::clone(self);
        self.row.push(move || {
            let done = match (streams.store.get(), streams.barrier.try_enter()) {
                (Some(store), Some(permit)) => {
                    let done = work(store, None);
                    // First: who is told may change it again at once.
                    drop((permit, turn));
                    Ok(done)
                }
                _ => Err((turn, work)),
            };
            // Who asked may have gone.
            let _ = tell.send(done);
        });
        match told.await {
            Ok(Ok(done)) => Ok(done.map_err(Undone::Refused)),
            Ok(Err(left)) => Err(left),
            Err(_) => Ok(Err(Undone::Unusable("the change came to grief".to_owned()))),
        }
    }

    /// Does `work`, which changes the stream at `path`, or tells what was appended to it by
    /// `events`, when it has a turn and a place. What has come is done, whoever goes away, and an
    /// upgrade waits for what is begun.
    pub(super) async fn change_and_tell<T: Send + 'static>(
        self: &Arc<Streams>,
        path: &str,
        events: Arc<StreamEvents>,
        work: impl FnOnce(&Store, Option<&dyn Teller>) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Undone> {
        let (streams, path) = (Arc::clone(self), Box::<str>::from(path));
        let begun = tokio::spawn(async move {
            let turn = streams.turns.take(&path, TOLD_REQUESTS_MAX).await;
            let _turn = turn.ok_or(Undone::Refused(Refusal::Pending))?;
            let _place = events.places.acquire().await;
            let permit = streams.barrier.enter().await.map_err(Undone::NoPermit)?;
            let store = streams.store().await.map_err(Undone::Unusable)?;
            let worked = events.serve(&permit, move |teller| work(&store, Some(teller))).await;
            drop(permit);
            done(worked)
        });
        ended(begun).await
    }
}
