//! Every bound of this crate, with its arithmetic.

use std::time::Duration;

/// How long the first connection may take unless the owner says otherwise: a name that resolves
/// slowly, a server that just starts.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long one attempt to connect to one server may take: TCP, TLS and the server's greeting. A
/// stopped process accepts and says nothing, and the next server must have its turn soon; a server
/// that is only slow must not be given up again and again.
pub(crate) const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);

/// Between two attempts to connect. The library's own back-off grows to 4 s, which is as long as an
/// election; ten attempts a second cost nothing.
pub(crate) const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

/// Between two pings. The library gives up a connection when two are unanswered and the third is
/// due, so a dead peer is found after 3 s (its own default is 60 s, so 3 minutes).
pub(crate) const PING_INTERVAL: Duration = Duration::from_secs(1);

/// Commands that wait for the connection's task. While there is no connection ours wait outside.
pub(crate) const COMMANDS_WAITING_MAX: usize = 256;

/// Messages of one subscription that wait inside the library; past that it drops. Followers have at
/// most [`PULL_RECORDS`] under way, and everybody else is emptied by a task at once.
pub(crate) const SUBSCRIPTION_WAITING_MAX: usize = 8192;

/// How long a publish waits for its acknowledgement before it is repeated with the same id: 50
/// times what an acknowledgement takes at the median.
pub const ACK_TIMEOUT: Duration = Duration::from_millis(500);

/// Before a publish that was refused for now is repeated: an election takes seconds.
pub(crate) const REPEAT_PAUSE: Duration = Duration::from_millis(50);

/// How long a question to JetStream may take.
pub(crate) const API_TIMEOUT: Duration = Duration::from_secs(2);

/// How long it may take to make or to delete a stream, which three servers agree on.
pub(crate) const STREAM_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a stream may be in the making: a folder and some files.
pub(crate) const MAKING_PAUSE: Duration = Duration::from_millis(500);

/// How long what a core message is written to may be blocked before the message is given up.
pub(crate) const CORE_TIMEOUT: Duration = Duration::from_millis(100);

/// The longest record. NATS takes 1 MiB by default and cuts clients that are 64 MiB behind.
pub const RECORD_BYTES_MAX: usize = 256 << 10;

/// Bytes of an acknowledged publish besides its record: the header with its id.
pub(crate) const HEADER_BYTES_MAX: usize = 256;

/// How long the log keeps a record.
pub const LOG_AGE_MAX: Duration = Duration::from_secs(10 * 60);

/// How many bytes the log keeps: 10 minutes of 7 MB/s, which are 16,666 events/s of 430 bytes.
pub const LOG_BYTES_MAX: i64 = 4 << 30;
/// Bytes that a log which is sealed may take beside what is known to be in it: of records that come
/// while it is. The rest of its room is the next one's.
pub(crate) const SEALED_SPARE: i64 = 64 << 20;

/// How long JetStream knows the ids of what was published: 12 times as long as senders wait.
pub const DUPLICATE_WINDOW: Duration = Duration::from_secs(120);

/// Values of the epoch that are kept, for whoever looks into what happened.
pub(crate) const EPOCHS_KEPT: i64 = 16;

/// The longest value of the epoch: a few numbers and a sentence.
pub(crate) const EPOCH_BYTES_MAX: usize = 4096;

/// How often the epoch is read again. A change rings besides; this is for a ring that was lost.
pub(crate) const EPOCH_POLL: Duration = Duration::from_secs(1);

/// How long a new value is tried until its outcome is known.
pub(crate) const SWAP_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest value: as a record, so that it takes no other setting of NATS.
pub const VALUE_BYTES_MAX: usize = RECORD_BYTES_MAX;

/// Records that a follower has asked for and not got: at [`RECORD_BYTES_MAX`] each 32 MiB, half of
/// what makes NATS cut a client. It asks again when half of them have come, so a round trip of 1 ms
/// bounds it to 64,000 records/s.
pub(crate) const PULL_RECORDS: usize = 128;

/// Records that wait for the follower's owner: 64 of [`RECORD_BYTES_MAX`] are 16 MiB.
pub(crate) const RECORDS_WAITING_MAX: usize = 64;

/// How long a request for records stands; the follower renews it.
pub(crate) const PULL_EXPIRES: Duration = Duration::from_secs(30);

/// How often JetStream says that there is nothing.
pub(crate) const IDLE_HEARTBEAT: Duration = Duration::from_millis(500);

/// How long a follower hears nothing before it makes its consumer anew: two heartbeats and some.
pub(crate) const WATCHDOG: Duration = Duration::from_millis(1200);

/// How long a record that was acknowledged to us may take to come: it takes a millisecond. Senders
/// wait for it.
pub(crate) const OVERDUE: Duration = Duration::from_millis(400);

/// How long a follower's look at its log may take, and the making of its consumer, which the
/// servers agree on. In an election a question is swallowed, and whoever asks again soon hears the
/// new leader soon.
pub(crate) const LOOK_TIMEOUT: Duration = Duration::from_millis(500);

/// See [`LOOK_TIMEOUT`].
pub(crate) const CONSUMER_TIMEOUT: Duration = Duration::from_secs(1);

/// Before a follower that could not make its consumer tries again.
pub(crate) const CONSUMER_PAUSE: Duration = Duration::from_millis(100);

/// How long JetStream keeps a follower's consumer that nobody asks: longer than an owner that is
/// slow, and short enough that those of a node that starts again and again do not pile up.
pub(crate) const CONSUMER_IDLE_MAX: Duration = Duration::from_secs(30);

/// Between two looks at a log that seems to be gone: servers that have just started may not know
/// all of their streams yet.
pub(crate) const GONE_PAUSE: Duration = Duration::from_millis(500);

/// How long a log of several replicas must seem to end too early until that is believed: a leader
/// that has lost the others notices after 10 s.
pub(crate) const BEHIND_MIN: Duration = Duration::from_secs(12);

/// The longest name of a cluster: it stands in the names of streams and in every subject.
pub(crate) const CLUSTER_NAME_MAX: usize = 32;

const _: () = {
    // A record and its headers fit into what NATS takes by default, 1 MiB.
    assert!(RECORD_BYTES_MAX + HEADER_BYTES_MAX < 1 << 20);
    assert!(EPOCH_BYTES_MAX <= VALUE_BYTES_MAX && VALUE_BYTES_MAX <= RECORD_BYTES_MAX);
    // What is known again is in the log still, and an attempt that is repeated is known again.
    assert!(DUPLICATE_WINDOW.as_millis() < LOG_AGE_MAX.as_millis());
    assert!(ACK_TIMEOUT.as_millis() + REPEAT_PAUSE.as_millis() < DUPLICATE_WINDOW.as_millis());
    assert!(SWAP_TIMEOUT.as_millis() > API_TIMEOUT.as_millis());
    // Two heartbeats are missed before a follower begins anew, and it asks again before its
    // consumer is forgotten.
    assert!(2 * IDLE_HEARTBEAT.as_millis() < WATCHDOG.as_millis());
    assert!(WATCHDOG.as_millis() < CONSUMER_IDLE_MAX.as_millis());
    assert!(PULL_RECORDS / 2 > 0 && RECORDS_WAITING_MAX > 0);
    // A full log that is sealed has room for what is on its way.
    assert!(SEALED_SPARE > 0 && SEALED_SPARE < LOG_BYTES_MAX);
};
