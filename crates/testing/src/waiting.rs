//! Waiting for what rings nobody: looking again and again, up to the one deadline of all tests.
//!
//! A test bounds no time but by [`DEADLINE`], which is no measure of anything. It is there so that
//! what never comes fails a test instead of holding it up. What is to be quick is shown by the
//! order of events, by a count, or by a clock that the test moves.

use std::time::Duration;

pub use rig::{pauses, wait_within};

/// How long anything may take before its test fails: far beyond what a busy machine needs.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// Asks `ready` again and again until it says so. `what` is told when it never does.
///
/// # Panics
/// When it has not said so within [`DEADLINE`].
#[track_caller]
pub fn wait_for(what: &str, ready: impl FnMut() -> bool) {
    assert!(wait_within(DEADLINE, ready), "not within {DEADLINE:?}: {what}");
}
