//! What comes of the parts of a demo that are waited for.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tokio::task::JoinError;
use tokio::time::timeout;

/// What comes of a `start`; `late` says what has not come of it within `time`.
pub(super) async fn in_time<T>(
    time: Duration,
    start: impl Future<Output = Result<T>>,
    late: &str,
) -> Result<T> {
    let seconds = time.as_secs();
    let late = |_| Err(anyhow!("{late} within {seconds} s; see the messages above"));
    timeout(time, start).await.unwrap_or_else(late)
}

/// What comes of a task that has ended.
pub(super) fn unless_panicked<T>(ended: Result<Result<T>, JoinError>) -> Result<T> {
    ended.context("a part of the demo failed; its error is above")?
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn start_that_does_not_come_is_told_with_its_time() {
        let minute = Duration::from_secs(60);
        let told = in_time::<()>(minute, pending(), "node b does not start").await.unwrap_err();
        let expected = "node b does not start within 60 s; see the messages above";
        assert_eq!(told.to_string(), expected);
        assert_eq!(in_time(minute, ready(Ok(7)), "it does not start").await.unwrap(), 7);
    }

    #[tokio::test]
    async fn part_that_panics_is_told_as_a_failure() {
        let part = |fails: bool| async move {
            assert!(!fails, "of a test");
            Ok(7)
        };
        let told = unless_panicked(tokio::spawn(part(true)).await).unwrap_err();
        assert_eq!(told.to_string(), "a part of the demo failed; its error is above");
        assert_eq!(unless_panicked(tokio::spawn(part(false)).await).unwrap(), 7);
    }
}
