//! Every bound of the record layer and of the handshake, with its source.

/// Plain bytes of one record (RFC 8446, section 5.1; RFC 5246, section 6.2.1).
pub const PLAIN_BYTES_MAX: usize = 1 << 14;

/// Bytes before the ones that a record's header counts: type, version, length.
pub const HEADER_BYTES: usize = 5;

/// What a record's header may count (RFC 8446, section 5.2). TLS 1.2 allows 2,048 beside the plain
/// bytes (RFC 5246, section 6.2.3), of which the suites here use 24.
pub const BODY_BYTES_MAX: usize = PLAIN_BYTES_MAX + 256;

/// The largest record: who reads into a buffer of that size has a whole one in it.
pub const RECORD_BYTES_MAX: usize = HEADER_BYTES + BODY_BYTES_MAX;

/// What sealing adds to a record at most: header, then explicit nonce and tag (RFC 5288), or
/// content type and tag.
pub const OVERHEAD_BYTES_MAX: usize = HEADER_BYTES + 8 + 16;

/// A sealed key update: header, message, content type, tag.
pub const KEY_UPDATE_BYTES: usize = HEADER_BYTES + 5 + 1 + 16;

/// A sealed alert, in its longest form.
pub const ALERT_BYTES_MAX: usize = OVERHEAD_BYTES_MAX + 2;

/// What one call of the sealer may write: a record of the largest size behind a key update.
pub const SEALED_BYTES_MAX: usize = KEY_UPDATE_BYTES + PLAIN_BYTES_MAX + OVERHEAD_BYTES_MAX;

/// Records without application data that may come in a row: key updates, empty records, tickets,
/// warnings. Other libraries allow 32 of a kind (BoringSSL's `kMaxKeyUpdates`, `kMaxEmptyRecords`).
pub const IDLE_RECORDS_MAX: u8 = 32;

/// Records that one key seals before we update it: half of what RFC 8446, section 5.5, allows
/// AES-GCM (2^24.5 of full size), rounded down.
pub const RECORDS_PER_KEY: u32 = 1 << 23;

/// Records that one key seals where it cannot be updated, in TLS 1.2: then the connection ends.
pub const RECORDS_PER_CONNECTION: u32 = 1 << 24;

/// Records that a connection of TLS 1.2 may seal beyond its last data: its alerts.
pub(crate) const LAST_RECORDS: u32 = 8;

/// Bytes that a peer may send until its handshake is done: a message of the largest size that
/// rustls takes, 64 KiB, in records of their own, and another record.
pub const HANDSHAKE_BYTES_MAX: usize = (64 << 10) + 2 * RECORD_BYTES_MAX;

/// Bytes of a client that are kept behind its hello until they are whole: early data that is
/// refused, up to a record, and the client's last messages, which are under 300 bytes.
pub const ANSWERED_BYTES_MAX: usize = RECORD_BYTES_MAX + 1024;

const _: () = {
    // A record's length has two bytes.
    assert!(BODY_BYTES_MAX <= u16::MAX as usize);
    assert!(PLAIN_BYTES_MAX + OVERHEAD_BYTES_MAX <= RECORD_BYTES_MAX);
    assert!(ALERT_BYTES_MAX <= SEALED_BYTES_MAX && KEY_UPDATE_BYTES <= SEALED_BYTES_MAX);
    // One more is counted before a peer is told that it sends too many.
    assert!(IDLE_RECORDS_MAX < u8::MAX);
    // A key is given up long before its numbers come to their end, which would show its text.
    assert!(RECORDS_PER_KEY < RECORDS_PER_CONNECTION);
    assert!(RECORDS_PER_CONNECTION + LAST_RECORDS < u32::MAX);
};
