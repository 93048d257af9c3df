//! What a test logs, as text.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, set_default};
use tracing::{Event, Metadata, Subscriber};

/// The lines of the thread that has started it.
#[derive(Clone, Default)]
pub(crate) struct CapturedLog(Arc<Mutex<String>>);

impl CapturedLog {
    /// Captures until the guard is dropped.
    pub(crate) fn start() -> (CapturedLog, DefaultGuard) {
        let log = CapturedLog::default();
        (log.clone(), set_default(log))
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
