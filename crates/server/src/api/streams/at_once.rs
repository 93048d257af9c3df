//! An append as a worker's lane hands it on: without a wait, or not at all.
//!
//! A lane must wake no task, so it lets go of no turn: it takes one only where the append has its
//! place for sure, and the thread of [`appends`](super::appends) gives it back.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use axum::response::Response;
use engine::LaneBell;

use super::Streams;
use super::appends::{LaneOutcome, ReadyAppend, Told};
use super::asked::{AppendTexts, AskedAppend, Written};

/// An append that is under way.
#[derive(Debug)]
pub(crate) struct PostedAppend {
    path: Box<str>,
    /// Whether its writer is told whether it was new.
    tells: bool,
    outcome: Arc<OnceLock<LaneOutcome>>,
}

impl PostedAppend {
    /// Whether it is known what became of it.
    pub(crate) fn is_done(&self) -> bool {
        self.outcome.get().is_some()
    }

    /// The answer to it, when it is done; `None` where nothing was, and the control plane is to do
    /// it.
    pub(in crate::api) fn answer(&self) -> Option<Response> {
        self.outcome.get()?.answer(&self.path, self.tells)
    }
}

impl Streams {
    /// Hands on the append of a request with these fields and this `body`, to the stream at `path`,
    /// if nothing can be said against it now and nobody else changes that stream. `bell` is rung
    /// when it is done.
    pub(in crate::api) fn append_at_once(
        &self,
        path: &str,
        texts: AppendTexts<'_>,
        body: &[u8],
        bell: LaneBell,
    ) -> Option<PostedAppend> {
        let store = self.open_store().filter(|_| !self.has_events(path))?;
        let head = store.known_head(path)?.ok()?;
        let asked = AskedAppend::of_texts(texts, body).filter(AskedAppend::is_short)?;
        let Ok(Written::Done(json)) = asked.json(&head) else { return None };
        let (tells, outcome) = (asked.tells(), Arc::<OnceLock<LaneOutcome>>::default());
        let told = Told::Lane(Arc::clone(&outcome), bell);
        let bytes = body.len() + json.as_ref().map_or(0, Vec::len);
        let is_handed_on = self.appender.push_new(bytes, || {
            let turn = self.turns.take_if_free(path)?;
            Some(ReadyAppend { asked, json, turn, told })
        });
        is_handed_on.then(|| {
            self.appends_at_once.fetch_add(1, Ordering::Relaxed);
            PostedAppend { path: path.into(), tells, outcome }
        })
    }
}
