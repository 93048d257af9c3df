//! The last minutes of the figures, so that a page that is opened or loaded again has charts at
//! once, and one that cannot reach the public port has them too.
//!
//! A second takes 128 bytes, whether or not somebody looks, and [`SECONDS_MAX`] are kept: 38 KB. A
//! page gets them as columns, some 32 KB of JSON.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

/// Seconds that are kept: five minutes, which is what the page's charts show.
const SECONDS_MAX: usize = 300;

const _: () = assert!(size_of::<Second>() <= 128);

/// What charts need of one second. Counts are since the start.
#[derive(Clone, Copy, Debug)]
pub(in crate::api) struct Second {
    pub(in crate::api) unix_seconds: f64,
    pub(in crate::api) uptime_seconds: f64,
    pub(in crate::api) cpu_seconds: f64,
    pub(in crate::api) resident_anonymous_bytes: u64,
    pub(in crate::api) resident_file_bytes: u64,
    pub(in crate::api) kernel_socket_bytes: Option<u64>,
    pub(in crate::api) connections_open: u64,
    pub(in crate::api) events: u64,
    pub(in crate::api) deliveries: u64,
    pub(in crate::api) client_sends: u64,
    pub(in crate::api) client_sends_refused: u64,
    pub(in crate::api) send_p50_seconds: Option<f64>,
    pub(in crate::api) send_p99_seconds: Option<f64>,
}

/// The last seconds, oldest first.
#[derive(Debug, Default)]
pub(in crate::api) struct Past(Mutex<VecDeque<Second>>);

/// The last seconds in columns.
#[derive(Debug, Serialize)]
pub(in crate::api) struct Columns {
    unix_seconds: Vec<f64>,
    uptime_seconds: Vec<f64>,
    cpu_seconds: Vec<f64>,
    resident_anonymous_bytes: Vec<u64>,
    resident_file_bytes: Vec<u64>,
    kernel_socket_bytes: Vec<Option<u64>>,
    connections_open: Vec<u64>,
    events: Vec<u64>,
    deliveries: Vec<u64>,
    client_sends: Vec<u64>,
    client_sends_refused: Vec<u64>,
    send_p50_seconds: Vec<Option<f64>>,
    send_p99_seconds: Vec<Option<f64>>,
}

impl Past {
    /// Keeps a second, and forgets the oldest one when there are too many.
    pub(in crate::api) fn push(&self, second: Second) {
        let mut seconds = self.seconds();
        if seconds.len() == SECONDS_MAX {
            seconds.pop_front();
        }
        seconds.push_back(second);
        debug_assert!(seconds.len() <= SECONDS_MAX);
    }

    pub(in crate::api) fn columns(&self) -> Columns {
        fn column<T>(seconds: &VecDeque<Second>, read: fn(&Second) -> T) -> Vec<T> {
            seconds.iter().map(read).collect()
        }
        let seconds = &*self.seconds();
        Columns {
            unix_seconds: column(seconds, |second| second.unix_seconds),
            uptime_seconds: column(seconds, |second| second.uptime_seconds),
            cpu_seconds: column(seconds, |second| second.cpu_seconds),
            resident_anonymous_bytes: column(seconds, |second| second.resident_anonymous_bytes),
            resident_file_bytes: column(seconds, |second| second.resident_file_bytes),
            kernel_socket_bytes: column(seconds, |second| second.kernel_socket_bytes),
            connections_open: column(seconds, |second| second.connections_open),
            events: column(seconds, |second| second.events),
            deliveries: column(seconds, |second| second.deliveries),
            client_sends: column(seconds, |second| second.client_sends),
            client_sends_refused: column(seconds, |second| second.client_sends_refused),
            send_p50_seconds: column(seconds, |second| second.send_p50_seconds),
            send_p99_seconds: column(seconds, |second| second.send_p99_seconds),
        }
    }

    fn seconds(&self) -> MutexGuard<'_, VecDeque<Second>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(at: usize) -> Second {
        Second {
            unix_seconds: 0.0,
            uptime_seconds: at as f64,
            cpu_seconds: 0.0,
            resident_anonymous_bytes: 0,
            resident_file_bytes: 0,
            kernel_socket_bytes: None,
            connections_open: 0,
            events: 0,
            client_sends: 0,
            client_sends_refused: 0,
            deliveries: 0,
            send_p50_seconds: None,
            send_p99_seconds: None,
        }
    }

    #[test]
    fn last_minutes_are_kept_and_no_more() {
        let past = Past::default();
        (0..SECONDS_MAX + 7).for_each(|at| past.push(second(at)));
        let columns = past.columns();
        assert_eq!(columns.uptime_seconds.len(), SECONDS_MAX);
        assert_eq!(columns.uptime_seconds[0], 7.0);
        assert!(columns.uptime_seconds.is_sorted());
    }
}
