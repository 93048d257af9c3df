//! All connections go to another process, which goes on with them: a new version, while their
//! clients notice nothing.
//!
//! ```text
//! process that gives                              process that takes
//! worker i: giver ──── worker-j.sock (Unix) ────► worker j: taker
//!   copies of descriptors, while it serves          keeps them
//!   frozen: what it knows of each connection        goes on where that was
//!   listeners, the end                              waits
//!                      "they are yours"  (said by the two processes' control planes)
//!   forgets everything, ends                        serves
//! ```
//!
//! Descriptors are in the workers' own tables, so workers hand them over themselves. Nearly all the
//! time that it takes is spent on copies (`SCM_RIGHTS`), which cross while everything goes on; a
//! connection that ends meanwhile is ended by a call that does not ask who else has a copy. As many
//! workers copy at a time as there are cores: where fifty did on two, an event waited for all of
//! them, and for all who take, at each thread on its way (a million streams: 60 to 200 ms a send).
//! What is left for the pause is a hundred bytes a connection.
//!
//! Writing down changes nothing at the giver, and taking over does nothing to a socket. So until it
//! is said that they are the other's, the giver may [go on](Handover::go_on) as if nothing had
//! been, and from then on it does nothing to them any more.
//!
//! A worker that gives and one that takes agree on nothing but the frames of [`wire`] and the
//! [`state`](crate::state) in them.

mod giver;
mod handing;
mod heritage;
mod taker;
mod taking;
#[cfg(test)]
mod tests;
mod wire;

pub(crate) use self::giver::{Given, Giver};
pub use self::handing::{Copying, Handover};
#[cfg(test)]
pub(crate) use self::heritage::leave_open_out;
pub(crate) use self::heritage::totals;
pub use self::heritage::{Heritage, Inherited};
pub(crate) use self::taker::{Taken, Taker};
pub use self::taking::Inheriting;
pub(crate) use self::taking::Taking;

/// The takers to whom the worker `giver` of `givers` gives: its like where there are as many, or
/// else each of them a part.
fn takers_of(giver: usize, givers: usize, takers: usize) -> std::ops::Range<usize> {
    if givers == takers { giver..giver + 1 } else { 0..takers }
}

/// How many workers give to each taker.
fn givers_of(givers: usize, takers: usize) -> usize {
    if givers == takers { 1 } else { givers }
}
