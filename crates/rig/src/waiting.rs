//! Waiting for what rings nobody: looking again and again, up to an end.

use std::iter::successors;
use std::thread;
use std::time::{Duration, Instant};

/// The first pause between two looks: most things are there by then.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// The longest. A look may cost the program that is waited for some work, on the same cores.
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// The pauses between looks, one after the other: a millisecond, and then twice as long each time,
/// up to 50 ms. They do not end.
pub fn pauses() -> impl Iterator<Item = Duration> {
    successors(Some(PAUSE_MIN), |pause| Some((*pause * 2).min(PAUSE_MAX)))
}

/// Asks `ready` again and again until it says so or `time` is over; whether it has said so. The
/// last look is taken when the time is over, so that whoever was kept from looking is not wrong.
pub fn wait_within(time: Duration, mut ready: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + time;
    for pause in pauses() {
        let is_last = Instant::now() >= end;
        if ready() {
            return true;
        }
        if is_last {
            break;
        }
        // Leaves the core to the program that is waited for.
        thread::sleep(pause);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let pauses: Vec<u128> = pauses().take(9).map(|pause| pause.as_millis()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 50, 50, 50]);
    }

    #[test]
    fn last_look_is_taken_when_time_is_over() {
        let mut looks = 0;
        assert!(!wait_within(Duration::ZERO, || {
            looks += 1;
            false
        }));
        assert_eq!(looks, 1);
        assert!(wait_within(Duration::ZERO, || true));
        let began = Instant::now();
        let time = Duration::from_millis(5);
        assert!(wait_within(time, || began.elapsed() >= time));
    }
}
