//! Every bound of the data plane, with its arithmetic. Nothing here grows past one of them. Those
//! of [room](sync::room) and [permits](sync::permits) stand there.

mod beside;

pub use self::beside::{
    BELLS_SHARE, DESCRIPTORS_RESERVED, LANE_MESSAGE_BYTES, LANE_PLACES, LANE_PLACES_MIN,
    LANE_PLACES_SHARE, UNPLACED_MAX, UNPLACED_MS, UNPLACED_MS_MIN, UNPLACED_SHARE,
};

/// Reports taken from one epoll wait. 12 bytes each, so 3 KiB a worker.
pub const EVENTS_PER_WAIT: usize = 256;

/// How long a turn serves clients, in nanoseconds: clients are accepted and reports dealt with
/// until then, and the rest waits for the next turn. It is looked at between two clients. Either
/// has a quarter of it that the other cannot take.
pub const SERVE_NS: u64 = 2_000_000;

/// How long a turn that finds mail serves clients: what is delivered waits no longer for those who
/// come and go.
pub const SERVE_WITH_MAIL_NS: u64 = 500_000;

/// How often a worker that waits until it may serve clients looks for mail, in nanoseconds: nobody
/// wakes it for that. Those of all workers look at the same times.
pub const LOOK_NS: u64 = 5_000_000;

/// How long a client is told to wait before it comes back (`retry`), in milliseconds: from this on,
/// by its slot a part of the spread longer, and by its place among all a part of a second for each
/// [`RETRIES_PER_SECOND`], up to the most. So ten are back within two seconds, and a crowd of a
/// million that lost its server comes back over thirty.
pub const RETRY_MS: u32 = 1_000;
/// The spread of it.
pub const RETRY_MS_SPREAD: u32 = 600;
/// How many are told to come back in a second.
pub const RETRIES_PER_SECOND: u32 = 33_000;
/// The most that any is told to wait.
pub const RETRY_MS_MAX: u32 = 32_000;

/// Connections accepted in one turn, within [`SERVE_NS`].
pub const ACCEPTS_PER_TURN: usize = 64;

/// The worker's one read buffer: two request heads of the largest size, so that a whole pipelined
/// burst shows in one read.
pub const SCRATCH_BYTES: usize = 16 * 1024;

/// Bytes that a client may push at us within one turn where no input is expected (a stream, or an
/// answered request). More is not a client that means well: the connection ends.
pub const STRAY_BYTES_PER_TURN: usize = 4 * SCRATCH_BYTES;

/// What clients may make a worker do in one turn, in tenths of a microsecond: heads, ids, commands,
/// answers, time-outs and ends of all of them together, a quarter at the least for [each part of
/// it](crate::budget). The rest waits for the next turn, each client's for its own. So a turn
/// spends a millisecond on it, and what is delivered waits no longer for those who talk.
pub const WORK_PER_TURN: u32 = 10_000;

/// What one connection may take of that before it is another's turn: a tenth.
pub const WORK_PER_CONNECTION: u32 = 1_000;

/// What things count for in [`WORK_PER_TURN`], by measurement on one core of the machine that the
/// README names (`cargo bench --bench limit`).
pub mod work {
    /// A read from a socket.
    pub const READ: u32 = 10;
    /// So many bytes are looked at, or handed to the kernel, for one.
    pub const BYTES: u32 = 64;
    /// Of a TLS handshake what the client's hello makes us do: keys are exchanged and signed.
    pub const HANDSHAKE: u32 = 750;
    /// Of the same what its end makes us do.
    pub const HANDSHAKE_END: u32 = 150;
    /// Of the same some bytes that change nothing yet.
    pub const HANDSHAKE_BYTES: u32 = 10;
    /// The key to open a connection's records.
    pub const OPEN: u32 = 6;
    /// A record that is opened, beside its bytes.
    pub const RECORD: u32 = 2;
    /// A request's head beside its bytes, with the answer's.
    pub const REQUEST: u32 = 100;
    /// A message beside its bytes, with its answer's part in a write.
    pub const MESSAGE: u32 = 10;
    /// A decoder for a compressed message, made and dropped.
    pub const INFLATE: u32 = 15;
    /// Compressed bytes for one: a byte takes 60 ns in blocks of tables alone, 10 in a text.
    pub const INFLATE_BYTES: usize = 2;
    /// A log-in or log-out under one id: a lock or two, and a place in two tables.
    pub const ID: u32 = 4;
    /// A token that is verified within the turn: a MAC, or a look into a table.
    pub const TOKEN: u32 = 30;
    /// A signature of the Pusher protocol that is verified: some blocks of SHA-256.
    pub const SIGNATURE: u32 = 20;
    /// A URL pattern of a client of the Mercure protocol that is read, with its regular expression.
    pub const URL_PATTERN: u32 = 900;
    /// A write beside its bytes.
    pub const WRITE: u32 = 50;
    /// The end of a connection: its socket, its record, its timer.
    pub const END: u32 = 60;
}

/// The least time between two slices of connections that are ended because others take them: at a
/// hundred thousand in ten seconds one slice is a hundred of them, and a turn of its own.
pub const MOVE_SLICE_MS: u64 = 10;

/// When a client may try again, in seconds, that meets a node whose clients go to others: a
/// balancer has seen by then that it is not ready.
pub const MOVING_RETRY_AFTER_SECONDS: u32 = 1;

/// Bytes that a WebSocket's client is read of at a time: as the shortest messages that are answered
/// they are some 300, so that [`WORK_PER_CONNECTION`] is kept to.
pub const MESSAGE_READ_BYTES: usize = 2 * 1024;

/// TLS handshakes under way in all workers together for each core, past which the one that has
/// waited longest for its client goes when another begins. A core answers 13,000 hellos a second at
/// most, so each client has 0.3 s at the least, which is a round trip to the other side of the
/// world, whatever the others do.
pub const HANDSHAKES_PER_CORE: usize = 4 * 1024;

/// Handshakes at most, however many cores there are: 5 KB each, and of a record in part 17 KB more.
pub const HANDSHAKES_MAX: usize = 16 * 1024;

/// Clients of TLS in all workers together whose hello is not whole, past which again the one that
/// has waited longest goes. Each has 0.3 KB beside what it has sent of it, so 5 MiB of those that
/// are silent, and 70 MiB at most.
pub const HELLOS_MAX: usize = 16 * 1024;

/// Both bounds as a share of the connections that there may be: a quarter, so that at least half of
/// the places are for those who are done.
pub const HANDSHAKES_SHARE: usize = 4;

/// Of each a worker has so many beside what all share. In tests a few, so that small crowds are
/// past it.
pub const HANDSHAKES_OWN: usize = if cfg!(test) { 4 } else { 64 };

/// What all workers together have so at most: 80 MiB. In 53 workers it is 17.
pub const HANDSHAKES_OWN_IN_ALL: usize = 16 * 1024;

/// Bytes of a hello that are kept before rustls is asked: with a key share of ML-KEM it has some
/// 1,800. A longer one counts as a handshake under way.
pub const HELLO_BYTES_MAX: usize = 4 * 1024;

/// How long a TLS handshake may take, in milliseconds.
pub const HANDSHAKE_TIMEOUT_MS: u64 = 10_000;

/// How long a client may take for one message of a WebSocket, from its first byte on: 10 s, as for
/// a head.
pub const MESSAGE_TIMEOUT_TICKS: u32 = 100;

/// What a connection keeps below this is not entered in the account of all: half a typical head.
pub const CLOSE_TO_NOTHING: usize = 256;

/// Clients that the log is still to be told of, of all workers together: some 100 bytes each. They
/// are taken once a second, and the log has room for fewer.
pub const NOTICES_MAX: usize = 64;

/// Texts under `/.well-known/`: a public directory of certificates asks for one for each of at most
/// 100 names. Some 200 bytes each, 25 KiB.
pub const TEXTS_MAX: usize = 128;

/// Ids in one head, 8 KiB of which could name 1,600: at some 0.4 µs each a head stays under 0.1 ms
/// of a worker, and a resume under 0.2 ms of the control plane. A WebSocket logs further ones in.
pub const IDS_PER_HEAD_MAX: usize = 256;

/// Ids of one connection, 4 to 8 bytes each beside the first: as many as its log-ins may bring it
/// to.
pub const IDS_PER_CONNECTION_MAX: usize = 2048;

/// How long a connection whose poll is answered may be silent until the next one, in milliseconds.
/// A client that polls without a pause stays; 75 s are nginx' `keepalive_timeout`.
pub const POLL_IDLE_MS: u64 = 75_000;

/// Bytes of further requests that a client may send while its poll waits: two heads of the largest
/// size.
pub const PIPELINED_BYTES_MAX: usize = 2 * proto::request::HEAD_BYTES_MAX;

/// Of the form in a `QUERY` of the Mercure protocol, in bytes: one selector of the greatest length,
/// each byte of it escaped, and some more.
pub const HUB_QUERY_BYTES_MAX: usize = 16 * 1024;

/// Resumes of either size that wait for the control plane; who comes back past it is told of a gap.
/// 80 bytes each, 20 MiB; those of ids beside the second are a seventh of what their connection
/// has in the bound on ids.
pub const RESUMES_WAITING_MAX: usize = 256 * 1024;

/// How long a client is held whose place this node of a cluster has not come to, in milliseconds,
/// before it is told of a gap. As many wait as [`RESUMES_WAITING_MAX`], at 150 bytes each 38 MiB.
pub const FUTURE_MS_MAX: u64 = 5_000;

/// How long a client is held at a node of a cluster whose place is an id of a publisher that the
/// node does not know, before that is looked for once more: a healthy node is less behind others.
pub const NAMED_MS: u64 = 500;

/// As many of them begin or end their wait at a time, before others of the control plane have their
/// turn: at some 0.2 µs each 0.1 ms.
pub const FUTURE_STEPS_MAX: usize = 512;

/// What a turn spends on telling connections of a gap in mid-stream, of [`WORK_PER_TURN`]: a
/// quarter, so that clients are served meanwhile. As many as half a million of a worker are told in
/// some ten thousand turns, of a quarter of a millisecond each. In tests one is, so that there are
/// many turns, too.
pub const GAP_WORK_PER_TURN: u32 = if cfg!(test) { 1 } else { WORK_PER_TURN / 4 };

/// Ids up to which a client's resume is a small one: a hundred of these take the control plane as
/// long as one of a client with the most ids that a head has.
pub const SMALL_RESUME_IDS_MAX: usize = 8;

/// Events of one window of what a client has missed: pointers, 8 bytes each. The next window is
/// asked for when this one is written. In tests a few, so that there are many windows.
pub const WINDOW_EVENTS_MAX: usize = if cfg!(test) { 8 } else { 512 };

/// Events that a look into the history takes at a time: at some 20 ns each 40 µs under its lock.
pub const SINCE_EVENTS_MAX: usize = 4 * WINDOW_EVENTS_MAX;

/// Subjects of one question to the archive: their texts are 255 bytes each at most. In tests a few.
pub const ARCHIVE_SUBJECTS_MAX: usize = if cfg!(test) { 2 } else { 64 };

/// As how many bytes, of some 10 ns each, those updates count that a look into the archive goes
/// through for patterns: some 40 ms, in which it reads some ten thousand. In tests a look is one.
pub const SCAN_LOOKS_MAX: usize = if cfg!(test) { 6 } else { 4 << 20 };

/// What an event counts for beside its line in what is put by, and in a window.
pub const HELD_EVENT_BYTES: usize = 64;

/// Of the bytes that may wait for a client, those that a window of what it has missed has.
pub const fn window_bytes(backlog_bytes_max: usize) -> usize {
    backlog_bytes_max / 4 * 3
}

/// Of the bytes that may wait for a client, those of the events that are held meanwhile.
pub const fn held_bytes(backlog_bytes_max: usize) -> usize {
    backlog_bytes_max - window_bytes(backlog_bytes_max)
}

/// Rooms that one connection watches.
pub const WATCHES_PER_CONNECTION_MAX: usize = 100;

/// Questions of one connection for lists that it does not wait for any more and that were not
/// looked at yet: it has asked, stopped and asked anew. Who asks past it is answered 429.
pub const WATCHES_STALE_MAX: usize = 8;

/// Lists of members that connections wait for: 72 bytes each, 18 MiB. Who asks past it is answered
/// 503.
pub const WATCHES_WAITING_MAX: usize = 256 * 1024;

/// How long a poll that is not to wait for events waits for the lists of its rooms, in
/// milliseconds. They come within some, in a cluster within a round through the log.
pub const POLL_LISTS_MS: u64 = 1_000;

/// Tokens that wait to be verified, 64 bytes each beside their text; who comes past it is answered
/// 503. A core verifies some 15,000 signatures a second, so that the last one waits four seconds.
pub const TOKEN_QUESTIONS_MAX: usize = 64 * 1024;

/// Bytes of their text.
pub const TOKEN_QUESTION_BYTES_MAX: usize = 64 << 20;

/// How long a request waits until its token is verified, in milliseconds.
pub const TOKEN_TIMEOUT_MS: u64 = 10_000;

/// What clients send that waits to be posted, of all together, some 100 bytes each beside their
/// text; who comes past it is answered 503.
pub const CLIENT_SENDS_MAX: usize = 16 * 1024;

/// Bytes of their text.
pub const CLIENT_SEND_BYTES_MAX: usize = 16 << 20;

/// Reads of what was sent that wait, of all clients together, their answers among them that no
/// worker has taken yet: 16 MiB of these. Who comes past it is answered 503.
pub const HISTORY_READS_MAX: usize = 256;

/// Bytes of their ids and queries.
pub const HISTORY_READ_BYTES_MAX: usize = 1 << 20;

/// Sends of one connection that are not answered.
pub const CLIENT_SENDS_PER_CONNECTION_MAX: u32 = 64;

/// The longest frame that is read of a client of the Pusher protocol, unless its app takes longer
/// events: those have [`MESSAGE_AROUND_BYTES`] around them.
pub const PUSHER_FRAME_BYTES: usize = 16 * 1024;

/// The longest message that is read of a client that may send events, in bytes.
pub const PUBLISHED_MESSAGE_BYTES: usize = 16 * 1024;

/// What a message that sends has around its payload at most: names, ids, a key.
pub const MESSAGE_AROUND_BYTES: usize = 6 * 1024;

/// How long a request waits for what becomes of its event, in milliseconds: longer than a mailbox
/// may be full, and than the log of a cluster is waited for.
pub const SEND_TIMEOUT_MS: u64 = 30_000;

/// Mails in a worker's mailbox. At 64 bytes each 128 KiB a worker. An event for all connections of
/// a worker is one for each 4,096 of them, so it has room while those are 8 million at the most.
pub const MAILS_MAX: usize = 2048;

/// Deliveries waiting in a worker's mailbox, past which senders wait: 8 bytes each, 2 MiB a worker,
/// about a second of a worker's writes. One mail may stand over it, or a large audience could never
/// be posted.
pub const MAIL_TARGETS_MAX: usize = 256 * 1024;

/// Deliveries that a worker takes out of its mailbox in one turn before it writes. One mail may
/// stand over it. Taking one is a few loads and stores, no call.
pub const DELIVERIES_PER_TURN: usize = 8192;

/// What the compression of an event counts for in [`DELIVERIES_PER_TURN`]: it takes some 15 µs of a
/// short event, so that a turn has 250 of them and stays under 4 ms (`limit -- --deflate`).
pub const COMPRESSION_DELIVERIES: usize = 32;

/// Bytes of an event for which its compression counts for a delivery more.
pub const COMPRESSION_BYTES_PER_DELIVERY: usize = 64;

/// A mail with more targets than this is bulk: it is written in slices behind the small ones.
pub const EXPRESS_TARGETS_MAX: usize = 64;

/// What is written in one turn to connections with small mail: as [`work`] counts it some 250 short
/// events, 1.3 ms.
pub const EXPRESS_WORK_PER_TURN: u32 = 256 * work::WRITE;

/// What is written in one turn to connections with bulk mail: some 30 short events, 0.2 ms, which
/// is what a small event may have to wait for a large one. A turn around them costs some 2 µs.
pub const BULK_WORK_PER_TURN: u32 = 32 * work::WRITE;

/// Bytes that wait for a connection, past which it is written to as one with bulk mail is.
pub const EXPRESS_BYTES_MAX: usize = 4 * 1024;

/// Mails that wait in a shard for a large one that takes many turns, past which no more is taken.
/// Each is searched for the connections of a small one that is to go before: 64 times some 20 ns.
pub const PARKED_MAILS_MAX: usize = 64;

/// Parts of one `sendmsg`. The kernel's own bound is 1,024 (`IOV_MAX`); 64 parts of 100 bytes are
/// well past the point where the call costs more than its parts.
pub const PARTS_PER_WRITE: usize = 64;

/// How long an answered connection may take to close its side before we do, once all is sent.
pub const LINGER_MS: u64 = 2_000;

/// How long a connection's last bytes may stand still, in milliseconds, before it is cut. As long
/// as something moves it goes on.
pub const LAST_BYTES_STILL_MS: u64 = 10_000;

/// How long what waits for a client may stand still, in milliseconds, before it counts as one that
/// does not read. As long as something moves it goes on, within the bound on its backlog.
pub const STILL_MS: u64 = 60_000;

/// The pending connections of one listener; the kernel cuts it to `net.core.somaxconn`.
pub const LISTEN_BACKLOG: i32 = 65_535;

/// How long a client that has connected may wait with its request until it gets a descriptor and
/// its time for the head begins (`TCP_DEFER_ACCEPT`). The kernel counts in its retransmissions, of
/// which the first is after a second.
pub const DEFER_ACCEPT_SECONDS: i32 = 1;

/// Seconds after which a refused client may try again (`Retry-After`).
pub const RETRY_AFTER_SECONDS: u32 = 5;

/// So many clients that wait in a worker's queue when there is no place make that a second longer.
pub const REFUSED_PER_SECOND: u32 = 100;

/// But no longer than that.
pub const RETRY_AFTER_SECONDS_MAX: u32 = 60;

/// As many connections as one address may begin in so many seconds it may begin at once.
pub const CONNECTS_AT_ONCE_SECONDS: u64 = 1;

/// As many bytes of requests as one address may send in so many seconds it may send at once: a page
/// that logs in under thousands of ids, or many pages that come back, send no more than that
/// together.
pub const REQUEST_BYTES_AT_ONCE_SECONDS: u64 = 4;

/// Unsent bytes that the kernel may hold for one connection (`TCP_NOTSENT_LOWAT`), beside the
/// backlog of ours: without it a client that does not read makes the kernel keep up to
/// `net.ipv4.tcp_wmem`'s 4 MiB.
pub const KERNEL_UNSENT_BYTES: u32 = 64 * 1024;

/// Bytes that wait for a stream past which they are not gathered any more but written: what one
/// write takes anyway.
pub const GATHERED_BYTES_MAX: usize = 16 * 1024;

/// How often a worker that the kernel gave no descriptor looks whether there are some again, in
/// milliseconds. A look tries at most twice [`sync::room::LITTLE_CAPACITY_MAX`] of them, some 0.1
/// ms.
pub const SHORTAGE_LOOK_MS: u64 = 250;

/// How long the client's host may leave sent bytes unacknowledged before the connection counts as
/// gone (`TCP_USER_TIMEOUT`). The kernel's own time-out is about 15 minutes.
pub const VANISHED_MS: u32 = 60_000;

/// Short sleeps of the workers of one core together, a second: see [`crate::short_sleep`].
pub const WAKES_PER_CORE_MAX: usize = 5_000;

/// The longest short sleep, in nanoseconds: what a delivery may wait for company.
pub const SHORT_SLEEP_NS_MAX: u64 = 3_000_000;

/// How late a worker's time-outs may come, in nanoseconds: ends of short sleeps that fall together
/// then take one interrupt. At 16,666 mails a second for 53 workers that saves a fifth of what a
/// mail costs beside its delivery.
pub const TIMER_SLACK_NS: u32 = 500_000;
