//! Every bound of the data plane, with its arithmetic. Nothing here grows past one of them.

/// Reports taken from one epoll wait. 12 bytes each, so 12 KiB a worker.
pub const EVENTS_PER_WAIT: usize = 1024;

/// Connections accepted in one turn. At some 25 µs each a turn stays under 2 ms.
pub const ACCEPTS_PER_TURN: usize = 64;

/// The worker's one read buffer: two request heads of the largest size, so that a whole pipelined
/// burst shows in one read.
pub const SCRATCH_BYTES: usize = 16 * 1024;

/// Bytes that a client may push at us within one turn where no input is expected (a stream, or an
/// answered request). More is not a client that means well: the connection ends.
pub const STRAY_BYTES_PER_TURN: usize = 4 * SCRATCH_BYTES;

/// Bytes that WebSocket clients may be read of in one turn, all together; the rest waits for the
/// next one, each client's for its turn. As the shortest messages that are answered, 4 KiB of them
/// are some 600 commands. Tests have few bytes, which must come to the bound too.
pub const CLIENT_BYTES_PER_TURN: usize = if cfg!(test) { 512 } else { 4 * SCRATCH_BYTES };

/// What a compressed message of a client counts for in [`CLIENT_BYTES_PER_TURN`] beside its bytes:
/// a decoder is made for it and dropped, which takes some 10 µs, so a turn has 250 of them.
pub const INFLATE_CLIENT_BYTES: usize = 256;

/// Ids of one connection, 8 bytes each beside the first: more than a request head of 8 KiB can hold
/// (`&id=1` has five bytes), and as many as later log-ins may bring it to.
pub const IDS_PER_CONNECTION_MAX: usize = 2048;

/// How long a connection whose poll is answered may be silent until the next one, in milliseconds.
/// A client that polls without a pause stays; 75 s are nginx' `keepalive_timeout`.
pub const POLL_IDLE_MS: u64 = 75_000;

/// Bytes of further requests that a client may send while its poll waits: two heads of the largest
/// size.
pub const PIPELINED_BYTES_MAX: usize = 2 * proto::request::HEAD_BYTES_MAX;

/// Resumes that wait for the control plane; who comes back past it is told of a gap. 64 bytes each,
/// 16 MiB.
pub const RESUMES_WAITING_MAX: usize = 256 * 1024;

/// Events that a client which comes back is told at once: pointers to what the history keeps
/// anyway, 128 KiB of them. If there are more it is told of a gap and hears the newest. Without a
/// bound a request with a thousand ids would have us queue all that is remembered.
pub const CATCH_UP_EVENTS_MAX: usize = 8 * 1024;

/// What a held connection may have waiting, in events and replies: pointers to what the history
/// keeps anyway, 128 KiB of them. It is held for milliseconds, but a herd may make it seconds.
pub const HELD_PIECES_MAX: usize = 8 * 1024;

/// Mails in a worker's mailbox. At 64 bytes each 128 KiB a worker.
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

/// Bulk connections written in one turn: at about 6 µs a write, 0.2 ms, which is what a small event
/// may have to wait for a large one. A turn around them costs some 2 µs.
pub const BULK_WRITES_PER_TURN: usize = 32;

/// Parts of one `sendmsg`. The kernel's own bound is 1,024 (`IOV_MAX`); 64 parts of 100 bytes are
/// well past the point where the call costs more than its parts.
pub const PARTS_PER_WRITE: usize = 64;

/// Timers handled in one turn: at most one write each.
pub const TIMERS_PER_TURN: usize = 512;

/// How long an answered connection may take to close its side before we do.
pub const LINGER_MS: u64 = 2_000;

/// The pending connections of one listener; the kernel cuts it to `net.core.somaxconn`.
pub const LISTEN_BACKLOG: i32 = 65_535;

/// How long a client that has connected may wait with its request until it gets a descriptor and
/// its time for the head begins (`TCP_DEFER_ACCEPT`). The kernel counts in its retransmissions, of
/// which the first is after a second.
pub const DEFER_ACCEPT_SECONDS: i32 = 1;

/// Seconds after which a refused client may try again (`Retry-After`).
pub const RETRY_AFTER_SECONDS: u32 = 5;

/// Unsent bytes that the kernel may hold for one connection (`TCP_NOTSENT_LOWAT`), beside the
/// backlog of ours: without it a client that does not read makes the kernel keep up to
/// `net.ipv4.tcp_wmem`'s 4 MiB.
pub const KERNEL_UNSENT_BYTES: u32 = 64 * 1024;

/// Descriptors of a worker that are no connections: standard streams, epoll, waker, listener, the
/// spare one, and room for whatever the process had open when the worker started.
pub const DESCRIPTORS_RESERVED: u64 = 16;

/// Places in a worker, past which it has little room and new connections go to those with more. As
/// many clients may wait in its queue when it leaves: at 24,000 connects a second, what comes in
/// 10 ms.
pub const LITTLE_ROOM_MAX: usize = 256;

/// The same as a share of a worker's places, where those are few: an eighth.
pub const LITTLE_ROOM_SHARE: usize = 8;

/// How often a worker that the kernel gave no descriptor looks whether there are some again, in
/// milliseconds. A look tries at most twice [`LITTLE_ROOM_MAX`] of them, some 0.1 ms.
pub const SHORTAGE_LOOK_MS: u64 = 250;

/// How long the client's host may leave sent bytes unacknowledged before the connection counts as
/// gone (`TCP_USER_TIMEOUT`). The kernel's own patience is about 15 minutes.
pub const VANISHED_MS: u32 = 60_000;

/// Naps of the workers of one core together, a second: see [`crate::nap`].
pub const WAKES_PER_CORE_MAX: usize = 5_000;

/// The longest nap, in milliseconds: what a delivery may wait for company.
pub const NAP_MS_MAX: u64 = 5;

/// How late a worker's time-outs may come, in nanoseconds: ends of naps that fall together then
/// take one interrupt. At 16,666 mails a second for 53 workers that saves a fifth of what a mail
/// costs beside its delivery.
pub const TIMER_SLACK_NS: u32 = 500_000;
