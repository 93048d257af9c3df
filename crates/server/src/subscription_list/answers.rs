//! Answers of the list: what is asked for, and how many are made and sent at a time.
//!
//! A short answer is made at once. A long one needs a place until its last piece is taken, or for
//! half a minute. Those of the public port have places of their own, so that backends do not wait
//! for slow readers there. What need not be listed is not: whoever knows the newest id, or asks for
//! the head alone, costs a look.
//!
//! Cost: a long list is copied by a thread beside, with the table locked meanwhile.

use std::sync::Arc;
use std::time::Duration;

use mercure::{Dialect, is_not_modified};
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use topics::{HeldKind, ListedBy, ListedSubscription, SubscriberNumber};

use super::{ListState, READ_AGAIN, SubscriptionList};

/// Long lists that are answered at one time at each port.
const LONG_ANSWERS_MAX: usize = 8;

/// Subscriptions of a short list.
const SHORT: usize = 16;

/// How long somebody waits for an answer to begin.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Places of long answers, of the API port and of the public one.
pub(super) type AnswerPlaces = [Arc<Semaphore>; 2];

/// As many places as there are.
pub(super) fn answer_places() -> AnswerPlaces {
    [(); 2].map(|()| Arc::new(Semaphore::new(LONG_ANSWERS_MAX)))
}

/// What somebody asks of the list.
#[derive(Debug)]
pub(crate) struct ListRequest {
    /// In which dialect.
    pub(crate) dialect: Dialect,
    /// Of which kinds of selectors.
    pub(crate) kinds: &'static [HeldKind],
    /// Which of it.
    pub(crate) part: ListPart,
    /// The tags that it knows, as in `If-None-Match`.
    pub(crate) known: Option<String>,
    /// Whether it wants the head of the answer only.
    pub(crate) is_head: bool,
    /// Whether it came to the public port.
    pub(crate) is_public: bool,
}

/// Which subscriptions.
#[derive(Debug)]
pub(crate) enum ListPart {
    /// All.
    All,
    /// Those of a selector.
    Of(String),
    /// One of those.
    One(String, SubscriberNumber),
}

impl ListPart {
    fn selector(&self) -> Option<&str> {
        match self {
            ListPart::All => None,
            ListPart::Of(selector) | ListPart::One(selector, _) => Some(selector),
        }
    }

    fn subscriber(&self) -> Option<SubscriberNumber> {
        match self {
            ListPart::One(_, who) => Some(*who),
            ListPart::All | ListPart::Of(_) => None,
        }
    }
}

/// What somebody has asked for.
pub(crate) struct Answer {
    /// The id of the hub's last update, or [`mercure::EARLIEST`]: behind it all changes of the list
    /// come.
    pub(crate) last_id: String,
    /// What is sent behind the head.
    pub(crate) body: AnswerBody,
}

/// What an answer has beside its head.
pub(crate) enum AnswerBody {
    /// Whoever asks knows it.
    Known,
    /// It was not asked for.
    Omitted,
    /// A few.
    Short(Vec<ListedSubscription>),
    /// Many, with a place among the long answers, until it is sent.
    Long(Vec<ListedSubscription>, OwnedSemaphorePermit),
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// The one that is asked for is not there.
    Nothing,
    /// As many lists are being answered as may be, or it takes too long.
    Busy,
    /// There are more subscriptions than are listed.
    TooMany,
}

impl SubscriptionList {
    /// Answers a request.
    pub(crate) async fn answer(
        self: &Arc<SubscriptionList>,
        request: ListRequest,
    ) -> Result<Answer, NoAnswer> {
        match request.dialect {
            Dialect::Old => self.subscriptions().ask(|| self.newest()),
            Dialect::V1 => self.subscriptions().ask_v1(|| self.newest()),
        }
        let answer = async {
            if let Some(nodes) = &self.nodes {
                nodes.known(request.dialect).await;
            }
            let kept = Arc::clone(&self.kept).lock_owned().await;
            let list = Arc::clone(self);
            // A client that goes meanwhile must not take notes along that are half told.
            tokio::spawn(async move { list.answer_of(kept, request).await }).await
        };
        match timeout(WAIT_MAX, answer).await {
            Ok(Ok(answer)) => answer,
            // The runtime ends.
            Ok(Err(_)) | Err(_) => Err(NoAnswer::Busy),
        }
    }

    /// The last id of a list that is brought to where all is before.
    async fn last_id_here(&self, kept: &mut ListState) -> String {
        self.catch_up(kept).await;
        let is_old = kept.read_at.is_none_or(|at| at.elapsed() > READ_AGAIN);
        if !kept.table.is_whole() && is_old {
            // Some may have gone.
            self.read_into(kept).await;
        }
        self.last_id(kept.mark)
    }

    /// Behind the last change that is in the list the log has all updates of others.
    fn last_id_over_nodes(&self, kept: &ListState, dialect: Dialect) -> Result<String, NoAnswer> {
        let is_known = kept.nodes.known().contains(&dialect);
        is_known.then(|| self.own_id(kept.mark)).ok_or(NoAnswer::Busy)
    }

    async fn answer_of(
        &self,
        mut kept: OwnedMutexGuard<ListState>,
        request: ListRequest,
    ) -> Result<Answer, NoAnswer> {
        let last_id = match self.nodes.is_some() {
            true => self.last_id_over_nodes(&kept, request.dialect)?,
            false => self.last_id_here(&mut kept).await,
        };
        if !kept.table.is_whole() || !kept.nodes.overfull.is_empty() {
            return Err(NoAnswer::TooMany);
        }
        let ListRequest { dialect, kinds, part, known, is_head, is_public } = request;
        let by = ListedBy { kinds, selector: part.selector(), subscriber: part.subscriber() };
        let count = kept.table.count(by);
        let body = if by.subscriber.is_some() && count == 0 {
            return Err(NoAnswer::Nothing);
        } else if known.is_some_and(|tag| is_not_modified(&tag, dialect, &last_id)) {
            AnswerBody::Known
        } else if is_head {
            AnswerBody::Omitted
        } else if count <= SHORT {
            AnswerBody::Short(kept.table.listed(by))
        } else {
            let place = Arc::clone(&self.places[usize::from(is_public)]).try_acquire_owned();
            let place = place.map_err(|_| NoAnswer::Busy)?;
            let copy = move || {
                let by = ListedBy { kinds, selector: part.selector(), subscriber: None };
                kept.table.listed(by)
            };
            AnswerBody::Long(spawn_blocking(copy).await.map_err(|_| NoAnswer::Busy)?, place)
        };
        Ok(Answer { last_id, body })
    }
}
