//! What a test logs, as text.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, set_default};
use tracing::{Dispatch, Event, Metadata, Subscriber};

/// The lines of the thread that has started it.
#[derive(Clone, Default)]
pub(crate) struct CapturedLog(Arc<Mutex<String>>);

/// Captures until it is dropped.
pub(crate) struct LogCapture {
    _default: DefaultGuard,
    /// If there were one subscriber alone, a line that another test logs first, on a thread without
    /// one, would be switched off for all threads.
    _second: Dispatch,
}

impl CapturedLog {
    /// Captures from now on.
    pub(crate) fn start() -> (CapturedLog, LogCapture) {
        let log = CapturedLog::default();
        let _second = Dispatch::new(log.clone());
        let _default = set_default(log.clone());
        (log, LogCapture { _default, _second })
    }

    /// What was logged so far.
    pub(crate) fn text(&self) -> String {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct LogFields<'l>(&'l mut String);

impl Visit for LogFields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").expect("a text takes all");
    }
}

impl Subscriber for CapturedLog {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = self.lock();
        event.record(&mut LogFields(&mut text));
        text.push('\n');
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
