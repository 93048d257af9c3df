//! Every bound of this crate, with its arithmetic.

use std::time::Duration;

/// Changes that wait for the writer; further callers wait for a place.
pub const QUEUE_MAX: usize = 1024;

/// A transaction takes no further change once it has this many pairs: some 1 s of PostgreSQL's work
/// at 60,000 pairs/s.
pub const GROUP_PAIRS_MAX: usize = 65_536;

/// Pairs of one change. A group is one version, so at most 131,071 pairs, some 65 MiB of the
/// longest ids, which a field of PostgreSQL (1 GiB) holds.
pub const CHANGE_PAIRS_MAX: usize = 65_536;

/// Versions and bytes after which a page of changes ends. The last change goes over: 4 MiB + 65 MiB
/// at worst.
pub const PAGE_VERSIONS_MAX: i64 = 256;
/// See [`PAGE_VERSIONS_MAX`].
pub const PAGE_BYTES_MAX: i64 = 4 << 20;

/// Rows of one batch of a bootstrap: 64 KiB.
pub const BATCH_ROWS_MAX: usize = 4096;

/// Pairs of one load: 16 GiB of memory where it is made.
pub const LOAD_PAIRS_MAX: usize = 1 << 30;

/// Pairs of one load into a graph that has some: 256 versions, five minutes at 60,000 pairs/s, in
/// which no other change is made.
pub const LOAD_MERGED_MAX: usize = 1 << 24;

/// Bytes that a load hands to the connection at once.
pub const LOAD_CHUNK_BYTES: usize = 1 << 20;

/// Addresses of one host that are tried, one after the other: some 6 s each.
pub const ADDRESSES_MAX: usize = 16;

/// How long a migration waits for another's, and then tries to lock the tables.
pub const MIGRATION_WAIT: Duration = Duration::from_secs(30);

/// How long one try waits for the lock of a table. Transactions that come later wait behind it,
/// those of the application among them.
pub const TABLE_WAIT: Duration = Duration::from_secs(3);

/// The first pause between two tries, in which those pass. Each is twice as long as the one before.
/// With the times above there are five tries.
pub const PAUSE_MIN: Duration = Duration::from_secs(1);

/// The longest.
pub const PAUSE_MAX: Duration = Duration::from_secs(8);

/// How often the version is read.
pub const POLL: Duration = Duration::from_millis(250);

/// Between two tries to connect: doubled from the first to the second, with jitter.
pub const BACKOFF_MIN: Duration = Duration::from_millis(100);
/// See [`BACKOFF_MIN`].
pub const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// How long the changes are kept, and how often and how many at once old ones are deleted.
pub const CHANGES_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// See [`CHANGES_KEPT`].
pub const PRUNE_EVERY: Duration = Duration::from_secs(3600);
/// See [`CHANGES_KEPT`].
pub const PRUNE_ROWS: i64 = 10_000;

/// Commits that a slow reader of [`crate::Commits`] may lag behind; then it misses some, which it
/// finds by the version.
pub const COMMITS_KEPT: usize = 256;

const _: () = {
    // A group holds any change, and each slice of a load is one.
    assert!(CHANGE_PAIRS_MAX <= GROUP_PAIRS_MAX);
    assert!(LOAD_MERGED_MAX <= LOAD_PAIRS_MAX && GROUP_PAIRS_MAX < LOAD_MERGED_MAX);
    // Names on their way have numbers of 32 bits.
    assert!(2 * LOAD_PAIRS_MAX <= u32::MAX as usize);
    assert!(PAGE_VERSIONS_MAX > 0 && PAGE_BYTES_MAX > 0 && PRUNE_ROWS > 0);
    assert!(BACKOFF_MIN.as_millis() < BACKOFF_MAX.as_millis());
    assert!(PRUNE_EVERY.as_secs() < CHANGES_KEPT.as_secs());
};
