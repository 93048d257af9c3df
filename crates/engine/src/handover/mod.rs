//! All connections go to another process, which goes on with them: a new version, while their
//! clients notice nothing.
//!
//! ```text
//! process that gives                              process that takes
//! worker i: sender ──── worker-j.sock (Unix) ────► worker j: receiver
//!   copies of descriptors, while it serves          keeps them
//!   frozen: what it knows of each connection        goes on where that was
//!   listeners, the end                              waits
//!                      "they are yours"  (said by the two processes' control planes)
//!   forgets everything, ends                        serves
//! ```
//!
//! Descriptors are in the workers' own tables, so workers hand them over themselves. Nearly all the
//! time that it takes is spent on copies (`SCM_RIGHTS`), which cross while everything goes on. A
//! connection that ends meanwhile is ended by a call that does not ask who else has a copy. As many
//! workers copy at a time as there are cores. Where fifty did on two, an event waited for all of
//! them, and for all that take, at each thread on its way (a million streams: 60 to 200 ms a send).
//! What is left for the pause is a hundred bytes a connection.
//!
//! Writing down changes nothing at the sender, and taking over does nothing to a socket. So until
//! it is said that they are the other's, the sender may [go on](Handover::go_on) as if nothing had
//! been. From then on it does nothing to them any more.
//!
//! A worker that gives and one that takes agree on nothing but the frames of [`wire`] and the
//! [`state`](crate::state) in them.

mod facts;
mod handing;
mod receiver;
mod sender;
mod takeover;
#[cfg(test)]
mod tests;
mod wire;

#[cfg(test)]
pub(crate) use self::facts::leave_open_out;
pub(crate) use self::facts::totals;
pub use self::facts::{HandoverFacts, Predecessor};
pub use self::handing::{Copying, Handover};
pub(crate) use self::receiver::{HandoverReceiver, ReceiveOutcome};
pub(crate) use self::sender::{HandoverSender, SendProgress};
pub use self::takeover::Takeover;
pub(crate) use self::takeover::TakeoverState;

/// The receivers to whom the worker `sender` of `senders` gives: its like where there are as many,
/// or else each of them a part.
fn receivers_of(sender: usize, senders: usize, receivers: usize) -> std::ops::Range<usize> {
    if senders == receivers { sender..sender + 1 } else { 0..receivers }
}

/// How many workers give to each receiver.
fn senders_of(senders: usize, receivers: usize) -> usize {
    if senders == receivers { 1 } else { senders }
}
