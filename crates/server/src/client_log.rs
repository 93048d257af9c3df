//! Tells the log of clients that were refused or too slow. A line for each while they are few, and
//! for the rest how many there were. Workers only note them ([`engine::Notices`]).

use std::sync::Arc;
use std::time::Duration;

use engine::{Notice, Notices};
use tokio::time::{Instant, MissedTickBehavior, interval};

/// How often it is looked whether there are any.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// For so long the lines of a kind are counted, and at its end it is told how many were left out.
const WINDOW: Duration = Duration::from_secs(60);

/// Lines of a kind in that time. With two kinds some 30,000 lines a day at most, whoever comes.
const LINES_MAX: u64 = 10;

/// What clients are told of: in the order of [`Notices::take_left_out`].
const KINDS: [&str; 2] = ["clients were refused", "clients read too slowly"];

/// Looks and tells for as long as the runtime lives.
pub(super) async fn tell(notices: Arc<Notices>) {
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut windows: [Window; 2] = Default::default();
    loop {
        let now = looks.tick().await;
        while let Some(notice) = notices.take() {
            let kind = usize::from(matches!(notice, Notice::Slow { .. }));
            if windows[kind].has_room(now) {
                log(&notice);
            }
        }
        let left_out = notices.take_left_out();
        for (kind, window) in windows.iter_mut().enumerate() {
            if let Some(count) = window.left_out(left_out[kind], now) {
                let (left_out, seconds) = (count, WINDOW.as_secs());
                tracing::info!(left_out, seconds, "more {}, without a line each", KINDS[kind]);
            }
        }
    }
}

fn log(notice: &Notice) {
    let text = |peer: &Option<std::net::SocketAddr>| peer.map_or("-".into(), |at| at.to_string());
    match notice {
        Notice::Refused { peer, status, detail } => {
            tracing::info!(peer = text(peer), status, "a client was refused: {detail}");
        }
        Notice::Slow { peer, id, backlog_bytes } => {
            let (peer, id) = (text(peer), id.as_deref().unwrap_or("-"));
            tracing::info!(
                peer,
                id,
                backlog_bytes,
                "a client read too slowly and was closed (--max-backlog)"
            );
        }
    }
}

/// The lines of one kind in one minute.
#[derive(Default)]
struct Window {
    began: Option<Instant>,
    lines: u64,
    left_out: u64,
}

impl Window {
    /// Whether there may be another line at `now`; else it is counted.
    fn has_room(&mut self, now: Instant) -> bool {
        self.began.get_or_insert(now);
        let has_room = self.lines < LINES_MAX;
        self.lines += u64::from(has_room);
        self.left_out += u64::from(!has_room);
        has_room
    }

    /// `more` were left out besides. How many they are together, once the minute is over.
    fn left_out(&mut self, more: u64, now: Instant) -> Option<u64> {
        if more > 0 {
            self.began.get_or_insert(now);
        }
        self.left_out += more;
        self.began.filter(|began| now >= *began + WINDOW)?;
        Some(std::mem::take(self).left_out).filter(|&count| count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_ones_have_a_line_and_the_others_a_number() {
        let (mut window, start) = (Window::default(), Instant::now());
        let lines = (0..1000).filter(|_| window.has_room(start)).count();
        assert_eq!(lines as u64, LINES_MAX);
        assert_eq!(window.left_out(5, start + WINDOW / 2), None);
        assert_eq!(window.left_out(0, start + WINDOW), Some(1000 - LINES_MAX + 5));
        // A quiet minute says nothing, and the next crowd has its lines again.
        assert_eq!(window.left_out(0, start + 2 * WINDOW), None);
        assert!(window.has_room(start + 3 * WINDOW));
        assert_eq!(window.left_out(0, start + 4 * WINDOW), None);
    }
}
