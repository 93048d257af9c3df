//! A new version of the server takes the place of the one that runs: it takes over its ports, its
//! streams with all that waits for them, the history and the store, and no client notices.
//!
//! ```text
//! encke upgrade, SIGUSR2 ──► the server that runs ── starts ──► the new program (--inherit)
//!        ▲  how far it is   ([control_socket]) ◄── hello ──          ([takeover])
//!        └───────────────────── ([handover])     ── facts ──►          ([check])
//!                                              ◄── ready ──
//!       workers copy descriptors to workers, history so far ──►
//!   nobody sends any more ── the API's ports, the history since, what is left ──►
//!                                              ◄── have ──
//!                      "yours": the point of no return ──►           serves
//!       leaves, passes requests on             ◄── live ──
//! ```
//!
//! [takeover]: crate::takeover
//!
//! All of it goes over one Unix socket in the data directory ([socket]), in words that programs one
//! version apart understand ([messages], [conversation]). Whoever starts the new program, this
//! server or somebody in another container, makes no difference to it.
//!
//! Before the point of no return every failure of either side leaves the server that runs as it
//! was. Not for nodes of a cluster, whose clients have others to go to.

pub(crate) mod check;
mod control_socket;
pub(crate) mod conversation;
mod handover;
pub(crate) mod history;
pub(crate) mod hub_state;
mod leaving;
pub(crate) mod messages;
mod program;
mod serving;
pub(crate) mod socket;
mod starter;

pub(crate) use self::control_socket::Upgrades;
pub use self::messages::{Done, Step};
pub use self::program::{Program, SUCCESSOR};
pub(crate) use self::serving::Serving;
pub use self::starter::{Upgrade, UpgradeError, UpgradeProgress};
