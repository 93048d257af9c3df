//! The origins of pages that were refused, on their way to a log that says what to do.
//!
//! Workers put them here and never wait; the server looks now and then. Bounded by [`WAITING_MAX`]
//! of [`ORIGIN_BYTES_MAX`]: what has no room is left out, and comes again with its page.

use crossbeam_queue::ArrayQueue;
use proto::request;

/// How many may wait.
const WAITING_MAX: usize = 64;
/// Longer ones, which no browser names, are left out. A name has 253 bytes (RFC 1035, section
/// 2.3.4).
const ORIGIN_BYTES_MAX: usize = 270;

/// Those that were refused, each as often as it was.
#[derive(Debug)]
pub struct RefusedOrigins(ArrayQueue<Box<str>>);

impl Default for RefusedOrigins {
    fn default() -> RefusedOrigins {
        RefusedOrigins(ArrayQueue::new(WAITING_MAX))
    }
}

impl RefusedOrigins {
    /// A page of `origin` was refused. What no browser would say is left out: whoever reads the
    /// log may put it into a command line as it stands there.
    pub(crate) fn note(&self, origin: &str) {
        let is_one = || origin == "null" || request::origin(origin).is_some();
        if origin.len() <= ORIGIN_BYTES_MAX && !self.0.is_full() && is_one() {
            // Others may have filled it meanwhile.
            let _ = self.0.push(origin.into());
        }
    }

    /// The next one, if there is any.
    pub fn take(&self) -> Option<Box<str>> {
        self.0.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crowd_of_them_takes_no_memory() {
        let refused = RefusedOrigins::default();
        refused.note(&format!("{}://a.test", "x".repeat(ORIGIN_BYTES_MAX)));
        (0..1000).for_each(|n| refused.note(&format!("http://{n}.test")));
        let taken: Vec<_> = std::iter::from_fn(|| refused.take()).collect();
        assert_eq!((taken.len(), &*taken[0]), (WAITING_MAX, "http://0.test"));
    }

    #[test]
    fn what_a_shell_would_run_is_no_origin() {
        let refused = RefusedOrigins::default();
        for origin in ["https://a.test;id", "https://$(id)", "a b", "`id`", "https://a.test/#", ""]
        {
            refused.note(origin);
        }
        assert_eq!(refused.take(), None);
        refused.note("null");
        refused.note("capacitor://localhost");
        assert_eq!(refused.take().as_deref(), Some("null"));
        assert_eq!(refused.take().as_deref(), Some("capacitor://localhost"));
    }
}
