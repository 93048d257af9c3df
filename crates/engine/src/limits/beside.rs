//! Bounds of what a worker has beside its connections: descriptors, lanes for senders, and clients
//! without a place.

/// Descriptors of a worker that are no connections: standard streams, epoll, waker, listener, the
/// spare one, and room for whatever the process had open when the worker started.
pub const DESCRIPTORS_RESERVED: u64 = 16;

/// Senders' connections that a worker's lane has at a time, where descriptors are many; where they
/// are few it has a part of them. Others are served by the control plane. One takes some 250 bytes,
/// and backends may have a connection for each stream to which a model writes just now. With what
/// stands below it is less than [`crate::workers::fair_capacity`] leaves free.
pub const LANE_PLACES: u64 = 768;
/// Which part of the descriptors a lane has where they are few: one in so many.
pub const LANE_PLACES_SHARE: u64 = 32;
/// Below so many there are no lanes: clients need the places.
pub const LANE_PLACES_MIN: u64 = 32;
/// Which part of the descriptors may be of bells by which workers wake each other: one in so many.
pub const BELLS_SHARE: u64 = 64;

/// The longest message between a lane and the control plane.
pub const LANE_MESSAGE_BYTES: usize = 64 * 1024;

/// Clients for whom a worker has no place and whose request it waits for all the same, where one
/// may be of an app's client: beside its connections, with a head of 8 KiB or a TLS handshake each,
/// so 2 MiB a worker at most. Who comes past it is refused unheard, as where no apps are served.
pub const UNPLACED_MAX: usize = 64;

/// As a share of the connections that a worker has descriptors for.
pub const UNPLACED_SHARE: usize = 8;

/// How long such a request is waited for at most, in milliseconds.
pub const UNPLACED_MS: u64 = 1_000;

/// How long at least, however many come meanwhile: a round trip to most clients. So who says
/// nothing keeps others away only by coming 640 times a second to each worker.
pub const UNPLACED_MS_MIN: u64 = 100;
