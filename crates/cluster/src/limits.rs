//! Every bound of a node in a cluster, with its arithmetic.

/// Events in one record: the lower 10 bits of a number are the event's place in it.
pub const RECORD_EVENTS_MAX: usize = 1 << INDEX_BITS;
/// The greatest sequence that a log can come to, and that is believed: with a hundred thousand
/// records a second after ninety years. What claims to know a later one is no record: the numbers
/// of the next epoch would have to be above it.
pub(crate) const SEQUENCE_MAX: u64 = 1 << 48;
/// Bits of a number that are the event's place in its record.
pub(crate) const INDEX_BITS: u32 = 10;
/// Bytes of one record: a quarter of the 1 MiB that NATS takes by default. At 20 KB a record, which
/// 126,000 events/s make, it is never met; a burst after an election meets it.
pub const RECORD_BYTES_MAX: usize = 256 << 10;
/// Bytes of an event's subject, or of another id: what the API takes is shorter.
pub const ID_BYTES_MAX: usize = 4 << 10;
/// Bytes that the codec keeps free in a record for its head and for an event's lengths.
pub(crate) const RECORD_HEAD_BYTES: usize = 64;
/// The longest event: what a record of it alone can hold. Subject, line and term count.
pub const EVENT_BYTES_MAX: usize = RECORD_BYTES_MAX - 2 * RECORD_HEAD_BYTES;

/// Sums of the log that a node remembers: 1 MiB of 8 bytes. At 1,000 records/s that is two minutes,
/// longer than any beat is on its way.
pub(crate) const SUMS_KEPT: usize = 131_072;

/// Events and orders that wait for their turn in the log: at 16,666/s the senders of ten seconds.
pub const QUEUE_MAX: usize = 1 << 18;
/// Bytes of them: an election of 9 s at 16,666 events/s of 300 bytes is 45 MB.
pub const QUEUE_BYTES_MAX: usize = 64 << 20;
/// Batches that are acknowledged and not read yet: the log is one round trip long.
pub(crate) const OUTSTANDING_MAX: usize = 64;
/// Batches that went back to the queue and are remembered, in case the log says later that it has
/// them where something else was read: those of two joins or leaves.
pub(crate) const BACK_MAX: usize = 2 * OUTSTANDING_MAX;
/// A publish that nobody acknowledges is repeated after this.
pub(crate) const ACK_TIMEOUT_MS: u64 = 500;
/// So long a sender waits: an election of NATS takes 4 to 9 s.
pub const SEND_DEADLINE_MS: u64 = 10_000;
/// A node that proves what it has read publishes so often, if only a record without events: a
/// fifth of [`LEASE_MS`], so that one or two that are late do no harm.
pub(crate) const PROVE_MS: u64 = 2_000;
/// So long after its last proof a node may go by what it knows: as long as an election of NATS.
pub const LEASE_MS: u64 = 10_000;
/// Proofs that are read, of records that are not all posted: the newest is what counts.
pub(crate) const PROOFS_MAX: usize = 64;

/// A record that is acknowledged, and still does not come, is published once more after this.
pub(crate) const ACKED_AGAIN_MS: u64 = 5_000;

/// Notes of rooms in one record: at 32 bytes a record is full with so many.
pub const ROOM_NOTES_MAX: usize = 8_192;
/// Users who come and go in rooms, and wait to be said in the log: past it whole rooms are said.
pub(crate) const ROOM_QUEUE_MAX: usize = 1 << 16;
/// Bytes of them.
pub(crate) const ROOM_QUEUE_BYTES_MAX: usize = 16 << 20;

/// Deliveries that are handed out and not yet posted: enough for the audiences to be gathered in
/// parallel.
pub const WINDOW: usize = 64;
/// Bytes of records that are read and not yet handed out: 32 full records.
pub(crate) const UNREAD_BYTES_MAX: usize = 32 * RECORD_BYTES_MAX;

/// Counts are sent when nothing is left to post, or after so long.
pub(crate) const COUNT_WAIT_MS: u64 = 1;
/// Bytes of a message of counts after which another one begins.
pub(crate) const COUNTS_BYTES: usize = 64 << 10;
/// Counts that are missing are asked for after so long, and again as long as they are.
pub(crate) const NEED_AFTER_MS: u64 = 250;
/// Then the answer is "at least".
pub const COUNT_DEADLINE_MS: u64 = 1_000;
/// A node keeps its counts for so long.
pub(crate) const COUNTS_KEPT_MS: u64 = 10_000;
/// And so many numbers of them at most: 16,666 events/s for 10 s, six times over: 4 MiB.
pub(crate) const COUNTS_KEPT_MAX: usize = 1 << 20;
/// Counts that others have said of records that this node has not read yet: those of a second at
/// 16,666 events/s with three others: 256 KiB, and as much again for where they belong.
pub(crate) const EARLY_COUNTS_MAX: usize = 1 << 16;
/// Records of one question for counts.
pub(crate) const NEED_RECORDS_MAX: usize = 1_024;

/// A member says so often that it lives.
pub const BEAT_MS: u64 = 250;
/// Beats of its own that a node must hear come back before it takes a member for gone that says
/// nothing: 2 s. Counted in these, neither a pause of its own nor a cut of all makes others silent.
pub(crate) const SILENT_BEATS: u32 = 8;
/// A member that is so far behind what others have read leaves.
pub const LAG_MAX_MS: u64 = 10_000;
/// Who declares a member gone waits so long for each one before it in the view.
pub(crate) const RANK_MS: u64 = 100;
/// A node asks so long who is there, and so often.
pub(crate) const FOUND_AFTER_MS: u64 = 1_000;
/// How often it asks.
pub(crate) const ASK_MS: u64 = 250;
/// Members that are behind what the asking node has read hold it up for so long: then they are
/// too slow to be members.
pub(crate) const BEHIND_MAX_MS: u64 = LAG_MAX_MS;
/// After a refused join the next one waits so long.
pub(crate) const JOIN_AGAIN_MS: u64 = 1_000;
/// Refused so often for a newer process of its name, a process ends: a dead one would have been
/// declared gone in a quarter of that time.
pub(crate) const REFUSED_MAX: u32 = 8;
/// Members of a view: beyond some 50 the design is another one. 1,024 fit into one message.
pub const MEMBERS_MAX: usize = 1_024;

/// A version of the graph that is missing is published again after so long, by rank.
pub(crate) const MISSING_MS: u64 = 100;
/// While the graph holds up everything else, the store of record is asked after this: later than
/// others take to publish what is missing.
pub(crate) const BARRIER_MS: u64 = 2 * MISSING_MS;
/// What was asked of the store of record is asked again after so long.
pub(crate) const STORE_AGAIN_MS: u64 = 1_000;
/// Versions of the graph that may come before the one that they follow; further ones are read from
/// the store of record.
pub(crate) const EARLY_VERSIONS_MAX: usize = 1_024;
/// Bytes of them.
pub(crate) const EARLY_BYTES_MAX: usize = 16 << 20;

/// Parts of changes that wait for the log: 64 MiB of the longest, and some times that for their
/// pairs. Those of further changes come from the store of record when it is their turn.
pub(crate) const CHANGES_WAITING_MAX: usize = 256;

/// Places of the graph's parts in the log that a node remembers: 24 KiB. An acknowledgement of an
/// older one is believed.
pub(crate) const PARTS_REMEMBERED: usize = 1_024;

/// Later records are known of, and none comes: the follower begins anew after so long, longer than
/// one of its own takes to find out (1.2 s) and most elections.
pub(crate) const FOLLOW_AGAIN_MS: u64 = 5_000;

/// A new epoch that does not come is proposed again after so long.
pub(crate) const PROPOSE_AGAIN_MS: u64 = 1_000;

// What the docs above say of one bound by another one, and what the code goes by.
const _: () = {
    // The highest base that a clock can make, and all numbers of its epoch, fit into 64 bits.
    assert!(SEQUENCE_MAX << INDEX_BITS < u64::MAX - (1 << 63));
    // Head, kind, format and the number of events of a record: 36 bytes.
    assert!(RECORD_HEAD_BYTES >= 2 + 4 * size_of::<u64>() + size_of::<u16>());
    // A record holds any pair of ids, and any order.
    assert!(EVENT_BYTES_MAX > 2 * ID_BYTES_MAX + RECORD_HEAD_BYTES);
    // `Chain` grows by doubling, up to this.
    assert!(SUMS_KEPT.is_power_of_two());
    // A queue that is full has more than what goes back to it, and one record is never all of it.
    assert!(OUTSTANDING_MAX * RECORD_EVENTS_MAX <= QUEUE_MAX && RECORD_BYTES_MAX < QUEUE_BYTES_MAX);
    assert!(BACK_MAX >= OUTSTANDING_MAX);
    assert!(ACK_TIMEOUT_MS < ACKED_AGAIN_MS && ACKED_AGAIN_MS < SEND_DEADLINE_MS);
    // Two proofs may be late.
    assert!(3 * PROVE_MS < LEASE_MS);
    // One record never fills what it must fit into: else the log would stand still.
    assert!(RECORD_BYTES_MAX < UNREAD_BYTES_MAX && RECORD_BYTES_MAX < EARLY_BYTES_MAX);
    assert!(RECORD_EVENTS_MAX < COUNTS_KEPT_MAX && RECORD_EVENTS_MAX < EARLY_COUNTS_MAX);
    assert!(WINDOW > 0 && WINDOW <= RECORD_EVENTS_MAX);
    // Counts are said, then asked for, then given up, and only then forgotten.
    assert!(COUNT_WAIT_MS < NEED_AFTER_MS && 2 * NEED_AFTER_MS < COUNT_DEADLINE_MS);
    assert!(COUNT_DEADLINE_MS < COUNTS_KEPT_MS);
    // A member is found to be silent before it is found to be slow, and long before a newer process
    // of its name gives up.
    assert!(SILENT_BEATS as u64 * BEAT_MS < LAG_MAX_MS);
    assert!(REFUSED_MAX as u64 * JOIN_AGAIN_MS >= 4 * SILENT_BEATS as u64 * BEAT_MS);
    // Whoever founds a view has asked more than once.
    assert!(2 * ASK_MS < FOUND_AFTER_MS && FOUND_AFTER_MS < BEHIND_MAX_MS);
    assert!(MISSING_MS < BARRIER_MS && BARRIER_MS < STORE_AGAIN_MS);
};
