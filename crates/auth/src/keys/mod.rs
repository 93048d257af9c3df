//! The keys of the API: what one may do, the file in which they are kept, and what a running server
//! knows of them.
//!
//! A key is `encke_<id>_<secret>`. The secret is 32 random bytes in base64url, of which only the
//! SHA-256 is kept: what is random needs no slow hash, since nobody can try 2^256 of them. The id
//! is public: it stands in lists, logs and the audit file. The fixed beginning is for the scanners
//! that look for secrets in what is published.
//!
//! `keys.json` in the data directory is the only place of keys. Commands change it under a lock, by
//! a new file that takes the place of the old one. A server at work looks at the file's stamp
//! before each request that needs a key ([`ring`]).

mod file;
mod record;
pub mod ring;

pub use file::{KeyFile, KeyFileError, NewKey};
pub use record::hex;
pub use record::{AboutPattern, KeyRecord, Scope};

/// Keys that one file holds, with those that are revoked or have expired. Past it the oldest of
/// the latter give up their places.
const KEYS_MAX: usize = 1000;

/// Patterns of one key.
const ABOUT_MAX: usize = 16;

/// The largest file that is read: 1,000 keys of 16 patterns of 256 bytes, each byte written as up
/// to two, and 400 bytes beside them, are 8.6 MB.
const FILE_BYTES_MAX: u64 = 16 << 20;

const _: () = {
    assert!(KEYS_MAX * (ABOUT_MAX * 256 * 2 + 400) <= FILE_BYTES_MAX as usize);
};
