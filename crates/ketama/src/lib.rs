//! Consistent hashing as libketama does it: which of some servers has a key, so that nearly all
//! keys stay where they are when a server comes or goes.
//!
//! libketama is the C library that Richard Jones wrote at last.fm in 2007 for their memcached
//! servers. Each server owns points on a circle of 2^32 hashes, the *continuum*, in number after
//! its memory; a key belongs to the first point at or after its own hash. This crate makes the same
//! continuum, point for point, with what single precision does to the numbers of points included.
//! Its tests hold it against rings and keys that the original printed. So clients in C, PHP, Python
//! or Java that use the original find what clients of this crate stored, and the other way round.
//!
//! ```
//! use ketama::{Continuum, parse};
//!
//! let list = "# address          memory\n\
//!             10.0.1.1:11211     600\n\
//!             10.0.1.2:11211     300\n";
//! let continuum = Continuum::new(&parse(list.as_bytes())?)?;
//! assert_eq!(continuum.server(b"user:1").address(), "10.0.1.1:11211");
//!
//! // A list that says nothing good says where, what, and what to do.
//! let error = parse(b"10.0.1.1:11211 lots\n").unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "line 1: \"lots\" is no memory: write a whole number from 1 on, in the unit of all lines"
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! It talks to no server, watches none and reads no file. A list is bytes, a server is a name and a
//! number. MD5 is here because the original took it, to spread keys and not to protect anything.
//!
//! Cost: 160 points a server, eight bytes each and half a byte for a table. Building takes an MD5
//! for every four points and a sort. A look-up takes one MD5 of the key and a search of one or two
//! cache lines, without an allocation.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

mod continuum;
mod list;
mod md5;
mod server;

pub use continuum::{Continuum, ContinuumError, Point, SERVERS_MAX, hash};
pub use list::{Fault, ListError, parse};
pub use server::{ADDRESS_BYTES_MAX, Server, ServerError};
