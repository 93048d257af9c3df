//! Every bound of this room, with its arithmetic.

use std::time::Duration;

/// The longest token that is looked at. A head has at most 8 KiB (`proto`), and what a token lists
/// at most is 256 ids: 6 KiB in base64 are 4.6 KB of claims, 17 bytes for each.
pub(super) const TOKEN_BYTES_MAX: usize = 6 << 10;

/// The longest `jti`: as an id.
pub(super) const JTI_BYTES_MAX: usize = hub::ID_BYTES_MAX;

/// No time of a token is later: the end of the year 9999. What is later was written in milliseconds
/// by mistake, and would never be over.
pub(super) const TIME_MAX: u64 = 253_402_300_799;

/// The largest leeway for clocks that differ. RFC 7519, section 4.1.4, speaks of a few minutes.
pub const LEEWAY_MAX: Duration = Duration::from_secs(600);

/// The longest key file, and the longest answer with a set of keys: 100 RSA keys with their
/// certificates have about 200 KB.
pub(super) const KEY_FILE_BYTES_MAX: usize = 256 << 10;

/// Keys that are used of one file or one set: large issuers have about ten.
pub(super) const KEYS_MAX: usize = 100;

/// Keys that are tried for a token that names none. More of them would be a way to have a bad token
/// cost many verifications.
pub(super) const KEYS_TRIED_MAX: usize = 4;

/// The shortest secret, as long as the hash of HS256 (RFC 7518, section 3.2).
pub(super) const SECRET_BYTES_MIN: usize = 32;

/// Tokens that are remembered as verified. With 1,000 bytes each, which grants of usual size stay
/// far below, that is 65 MB; those of the bound below are 33 MB.
pub(super) const VERIFIED_MAX: usize = 1 << 16;

/// Bytes of all of them.
pub(super) const VERIFIED_BYTES_MAX: usize = 32 << 20;

/// Parts of that memory, each with its own lock: workers that meet in one wait for tens of
/// nanoseconds.
pub(super) const STRIPES: usize = 64;

/// How old a set of keys becomes, unless its server says otherwise.
pub(super) const JWKS_AGE: Duration = Duration::from_secs(300);

/// The least and the most that a set's server may say (`Cache-Control: max-age`).
pub(super) const JWKS_AGE_MIN: Duration = Duration::from_secs(60);
pub(super) const JWKS_AGE_MAX: Duration = Duration::from_secs(3600);

/// The least time between two requests for a set, whatever tokens come, and how long one may take.
pub(super) const JWKS_PAUSE: Duration = Duration::from_secs(10);
pub(super) const JWKS_TIME_MAX: Duration = Duration::from_secs(10);

/// Revocations that are remembered at one time. Each is at most 255 bytes of text, written as up to
/// six times as many, and 100 beside it.
pub(super) const REVOCATIONS_MAX: usize = 100_000;

/// The largest file of them that is read: the product of the line above is 163 MB, and usual ones
/// have 6 MB.
pub(super) const REVOKED_BYTES_MAX: u64 = 192 << 20;

const _: () = {
    // JSON writes a byte in six at most, and a line has some 100 beside its text.
    assert!(REVOCATIONS_MAX * (6 * JTI_BYTES_MAX + 100) <= REVOKED_BYTES_MAX as usize);
    assert!(VERIFIED_MAX.is_multiple_of(STRIPES) && VERIFIED_BYTES_MAX.is_multiple_of(STRIPES));
    assert!(JWKS_AGE_MIN.as_secs() <= JWKS_AGE.as_secs());
    assert!(JWKS_AGE.as_secs() <= JWKS_AGE_MAX.as_secs());
    // Whoever is called looks sooner than whoever is not.
    assert!(JWKS_PAUSE.as_secs() < JWKS_AGE_MIN.as_secs());
    assert!(KEYS_TRIED_MAX <= KEYS_MAX && SECRET_BYTES_MIN < KEY_FILE_BYTES_MAX);
};

/// How long a revocation is kept when it is not known until when the token would have been good. A
/// token without `exp`, or one that lives longer, is good again after that.
pub const REVOCATION_LIFETIME: Duration = Duration::from_secs(30 * 86_400);
