//! The instruments: a crowd of listeners ([`flood`]), a generator of messages ([`spam`]), the
//! reports that join what the two saw ([`report`]), and the pictures of a run ([`plot`]).
//!
//! They run on the machine under test, often on the same two cores. So what counts is that they
//! cost little and tell the truth. Counts are exact, latencies are from the time at which an event
//! was *to be* sent, and no rate sags when the server does. No async runtime; `flood` is epoll
//! loops, `spam` a few threads.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

pub mod delivery;
pub mod findings;
pub mod flood;
pub mod form;
pub mod graph_model;
mod order;
pub mod plot;
mod random;
pub mod report;
mod rows;
mod shared;
pub mod spam;
pub mod stamp;
mod target;
mod trust;
mod zipf;

pub use flood::{Flood, FloodConfig, FloodError, FloodSnapshot};
pub use spam::{Spam, SpamConfig, SpamError, SpamMode, SpamSnapshot};
pub use target::TargetError;
pub use tls::Version;
pub use trust::Trust;
