//! The program that goes on after an upgrade, as the one before it sees it: how a request is passed
//! on to it ([`Successor`]), and the rest of one that was half done ([`Rest`]).
//!
//! Standard: RFC 9110, section 7.6, for what is passed on. Cost: a connection over the Unix socket
//! for each request, some 100 µs.

mod fields;
mod lost;
pub mod place;
mod requests;
mod rest;

pub use self::fields::{FirstLine, Statement};
pub use self::lost::upgrade_hangs;
pub use self::requests::Successor;
pub use self::rest::{Rest, SuccessorAnswer};
