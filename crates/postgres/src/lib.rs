//! The graph's store of record where there are many nodes: PostgreSQL, 15 or later.
//!
//! How it is driven:
//! 1. [`PostgresConfig::from_url`] reads a URL as libpq has it; [`PostgresStore::connect`] makes or
//!    migrates the schema and returns, or [`PostgresStore::start`] returns at once and connects in
//!    the background.
//! 2. [`PostgresStore::versions`] says every [`limits::POLL`], and at once after a commit of this
//!    node, where the graph is, or that the database is away.
//! 3. A replica that is at a [`Place`] asks [`PostgresStore::changes_after`] for pages until it is
//!    at the place that [`PostgresStore::versions`] says. [`PostgresError::Rebuild`] means that it
//!    must start anew: [`PostgresStore::bootstrap`] gives all pairs, in either order, as of one
//!    place.
//! 4. [`PostgresStore::change`] adds and removes pairs. It is durable when it returns. All callers
//!    that come while one transaction commits share the next one; [`PostgresStore::commits`] tells
//!    each transaction of this node once, so that it can be published.
//! 5. [`PostgresStore::bucket_sums`] for the daily check; [`PostgresStore::load`] for a file of
//!    pairs; [`PostgresStore::install`] makes a table of the application the graph.
//!
//! What it does not do: it knows no NATS, no LMDB and no ids but as text. Applications may change
//! the graph by SQL as well, `encke.change` or an installed table; nodes see that by the version.
//!
//! Why a poll and no `NOTIFY`? A commit with `NOTIFY` takes a lock over the whole database cluster,
//! so the application's commits would wait for each other. And poolers drop `LISTEN`. One row by
//! its key every 250 ms costs a node some 0.1 ms of the server four times a second. Changes by
//! nodes do not wait for it: they are published when they are committed.
//!
//! Cost: three connections a node (writer, poll, pages), one more while a bootstrap, a check or a
//! load runs. A change alone is one round trip and one commit.

mod bootstrap;
mod changes;
mod config;
mod copy;
mod error;
mod hosts;
pub mod limits;
mod load;
mod pair;
mod password;
mod place;
mod schema;
mod session;
mod shared;
mod source;
mod store;
mod sums;
mod tls;
mod url;
mod watch;
mod write;

pub use bootstrap::{Batch, Bootstrap, Node, Order, Rows};
pub use changes::Page;
pub use config::{PostgresConfig, TlsMode};
pub use error::{PostgresError, Rebuild, SchemaFault};
pub use load::{COMMITTING, Load, Loaded};
pub use pair::Pair;
pub use place::{Lineage, Place};
pub use shared::{Change, Changed, Seen};
pub use source::{Differences, Source, Status};
pub use store::{Commits, PostgresStore, Versions};
pub use sums::BucketSums;
