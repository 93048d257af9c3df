//! Cursors, by which a cache joins many waiting readers into one request.

/// 9 October 2024, 00:00 UTC, in milliseconds since 1970.
const CURSOR_EPOCH_MS: u64 = 1_728_432_000_000;

/// One step of the cursor.
const INTERVAL_MS: u64 = 20_000;

/// The cursor at `now_ms`. If the client's own is not lower, the answer is strictly greater: by 1
/// to 180 intervals, an hour at most, chosen by `random`.
pub fn cursor(now_ms: u64, client: Option<&str>, random: u64) -> u64 {
    let now = now_ms.saturating_sub(CURSOR_EPOCH_MS) / INTERVAL_MS;
    match client.and_then(|client| client.parse::<u64>().ok()) {
        Some(client) if client >= now => client.saturating_add(1 + random % 180),
        _ => now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_counts_intervals_and_always_grows_for_a_client() {
        assert_eq!(cursor(1_767_225_600_000, None, 0), 1_939_680);
        assert_eq!(cursor(CURSOR_EPOCH_MS + 19_000, None, 0), 0);
        assert_eq!(cursor(CURSOR_EPOCH_MS + 20_000, None, 0), 1);
        assert_eq!(cursor(CURSOR_EPOCH_MS + 20_000, Some("0"), 7), 1);
        assert_eq!(cursor(CURSOR_EPOCH_MS + 20_000, Some("1"), 0), 2);
        assert_eq!(cursor(CURSOR_EPOCH_MS, Some("9"), 179), 189);
        assert_eq!(cursor(CURSOR_EPOCH_MS, Some("x"), 0), 0);
    }
}
