//! Every bound of the Erlang node, with its arithmetic.

use std::time::Duration;

use backon::ExponentialBuilder;

use crate::control::HEAD_BYTES_MAX;

/// The longest frame that is read: 4 million subscriptions in one call. Longer ones are passed over
/// and counted, and their callers told so.
pub(super) const FRAME_BYTES_MAX: usize = 128 << 20;

/// Past this a frame is large: all nodes together may have one of those at a time, so their memory
/// is bounded by one frame and not by as many as there are nodes. 16 MiB are 600,000 subscriptions.
pub(super) const LARGE_FRAME_BYTES: usize = 16 << 20;

/// How long a node is not read from because another one's large frame has the place.
pub(super) const LARGE_FRAME_PAUSE_MAX: Duration = Duration::from_secs(3);

/// How long a large frame may take to come, whose place others want: 128 MiB at 2 MiB a second.
pub(super) const LARGE_FRAME_TIME_MAX: Duration = Duration::from_secs(60);

/// Bytes that are read at once: at some 60 bytes a message a thousand of them.
pub(super) const READ_BYTES: usize = 64 << 10;

/// How long a handshake may take unless the owner says otherwise: Erlang's own `net_setuptime`.
pub const SETUP_TIMEOUT: Duration = Duration::from_secs(7);

/// Handshakes with nodes that connect to us, at one time, of 2 KiB and a descriptor each. They have
/// proved nothing yet, so the oldest makes room for a new one: a node of the same network needs
/// milliseconds, and whoever says nothing keeps nobody out.
pub(super) const HANDSHAKES_MAX: usize = 64;

/// Connected nodes, unless the owner says otherwise. Each may have its queues, a frame and a
/// descriptor; clusters of Erlang nodes that all know each other have a tenth of it.
pub const NODES_MAX: usize = 1024;

/// Connected nodes that wait to be taken up by the owner of ours.
pub(super) const SESSIONS_WAITING_MAX: usize = 16;

/// Ticks within the time after which a silent node counts as gone: as Erlang's `net_ticktime` has
/// it, so that one that is lost does no harm.
pub(super) const TICKS: u32 = 4;

/// How long to wait before epmd, or a node that we are to connect to, is tried again: a second, and
/// twice as long each time, up to 15 s.
pub const RETRIES: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_secs(1))
    .with_max_delay(Duration::from_secs(15))
    .without_max_times();

/// How long to wait after an accept that failed for lack of descriptors or memory.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const _: () = {
    // Its head says whose a long frame is, so that must be there before it is passed over.
    assert!(HEAD_BYTES_MAX < READ_BYTES && HEAD_BYTES_MAX < LARGE_FRAME_BYTES);
    assert!(LARGE_FRAME_BYTES < FRAME_BYTES_MAX && FRAME_BYTES_MAX <= u32::MAX as usize);
    // Several ticks may be late before a node is taken for silent.
    assert!(TICKS > 1);
    assert!(LARGE_FRAME_PAUSE_MAX.as_secs() < LARGE_FRAME_TIME_MAX.as_secs());
};
