//! Changes of streams: creations, appends, and their ends.
//!
//! One that tells nobody takes a thread of the [row](crate::api::streams::row); short appends have
//! one [together](crate::api::streams::appends). One whose append is an event has a task beside its
//! thread, which sends that.

use std::sync::Arc;

use streams::{Appended, Refusal, Store, Teller};
use tokio::sync::oneshot;

use super::{Streams, Undone, done, ended};
use crate::api::streams::appends::{ReadyAppend, TaskOutcome, Told};
use crate::api::streams::asked::{AskedAppend, Written, append_in};
use crate::api::streams::events::StreamEvents;
use crate::api::streams::places::{PathTurn, TOLD_REQUESTS_MAX};

/// What became of work in a turn; or both, where it was not done.
type DoneOrBack<T, W> = Result<Result<T, Undone>, (PathTurn, W)>;

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

    /// Appends what is `asked` for to the stream at `path`, and sends it, where that is an event.
    pub(in crate::api::streams) async fn append(
        self: &Arc<Streams>,
        path: &Arc<str>,
        asked: AskedAppend,
    ) -> Result<Written<Appended>, Undone> {
        match self.events_of(path).map(Arc::clone) {
            Some(events) => {
                let of = Arc::clone(path);
                let work = move |store: &Store, teller: Option<&dyn Teller>| {
                    append_in(store, &of, &asked, teller)
                };
                self.change_and_tell(path, events, work).await
            }
            None => self.in_turn(path, asked, Streams::append_in_group).await,
        }
    }

    /// Does `work`, which changes the stream at `path` and tells nobody, when it has a turn and a
    /// thread.
    async fn change_alone<T: Send + 'static, W>(
        self: &Arc<Streams>,
        path: &str,
        work: W,
    ) -> Result<T, Undone>
    where
        W: FnOnce(&Store, Option<&dyn Teller>) -> Result<T, Refusal> + Send + 'static,
    {
        self.in_turn(path, work, Streams::change_in_row).await
    }

    /// Does `work` as `begin` begins it, when it has the turn of the stream at `path`. What has a
    /// turn is done, also for a client that goes away, unless an upgrade is under way.
    async fn in_turn<T, W, F>(
        self: &Arc<Streams>,
        path: &str,
        work: W,
        begin: impl Fn(Arc<Streams>, PathTurn, W) -> F + Send + 'static,
    ) -> Result<T, Undone>
    where
        T: Send + 'static,
        W: Send + 'static,
        F: Future<Output = DoneOrBack<T, W>> + Send,
    {
        let (turn, work) = match self.turns.take_if_free(path) {
            // As a rule, and without a task of its own.
            Some(turn) => match begin(Arc::clone(self), turn, work).await {
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
                match begin(Arc::clone(&streams), left.0, left.1).await {
                    Ok(done) => return done,
                    Err(back) => left = back,
                }
            }
        });
        ended(begun).await
    }

    /// Makes an append with others, or on a thread of its own. It is given back as by
    /// [`Streams::change_in_row`].
    async fn append_in_group(
        self: Arc<Streams>,
        turn: PathTurn,
        asked: AskedAppend,
    ) -> DoneOrBack<Written<Appended>, AskedAppend> {
        let known = self.store.get().filter(|_| asked.is_short());
        let Some(head) = known.and_then(|store| store.known_head(turn.path())) else {
            return self.append_in_row(turn, asked).await;
        };
        let json = match head.and_then(|head| asked.json(&head)) {
            Ok(Written::Done(json)) => json,
            Ok(Written::NoJson(fault)) => return Ok(Ok(Written::NoJson(fault))),
            Err(refusal) => return Ok(Err(Undone::Refused(refusal))),
        };
        let (tell, told) = oneshot::channel();
        let append = ReadyAppend { asked, json, turn, told: Told::Task(tell) };
        if let Some(ReadyAppend { asked, turn, .. }) = self.appender.push(append) {
            return self.append_in_row(turn, asked).await;
        }
        match told.await {
            Ok(TaskOutcome::Done(done)) => Ok(done.map(Written::Done).map_err(Undone::Refused)),
            Ok(TaskOutcome::NotNow(turn, asked)) => Err((turn, asked)),
            Err(_) => Ok(Err(Undone::Unusable("there is no thread for appends".to_owned()))),
        }
    }

    /// Makes an append that others do not wait for.
    async fn append_in_row(
        self: Arc<Streams>,
        turn: PathTurn,
        asked: AskedAppend,
    ) -> DoneOrBack<Written<Appended>, AskedAppend> {
        // It is shared with the work, which is given back undone.
        let asked = Arc::new(asked);
        let (of, path) = (Arc::clone(&asked), Box::<str>::from(turn.path()));
        let work =
            move |store: &Store, teller: Option<&dyn Teller>| append_in(store, &path, &of, teller);
        self.change_in_row(turn, work).await.map_err(|(turn, work)| {
            drop(work);
            let asked = Arc::into_inner(asked).expect("the work was dropped");
            (turn, asked)
        })
    }

    /// Does `work` on a thread. It is given back with its turn, and nothing is done, where that is
    /// not this process's now, or the streams are not open yet.
    async fn change_in_row<T: Send + 'static, W>(
        self: Arc<Streams>,
        turn: PathTurn,
        work: W,
    ) -> DoneOrBack<T, W>
    where
        W: FnOnce(&Store, Option<&dyn Teller>) -> Result<T, Refusal> + Send + 'static,
    {
        let (tell, told) = oneshot::channel();
        let row = Arc::clone(&self.row);
        row.push(move || {
            let streams = self;
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
