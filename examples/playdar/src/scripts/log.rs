//! What a script writes to standard error, in our log: with a bound on each line and on how many.

use std::time::Instant;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

use crate::foreign::{Rate, Rates};

/// Of one line; the rest of it is the next line.
const LINE_BYTES_MAX: u64 = 512;

/// A traceback at once, and a line a second from then on.
const LINES: Rate = Rate { burst: 50.0, per_second: 1.0 };

/// Until the script closes it. What is not logged is read all the same, or the script would stand
/// still.
pub(super) async fn follow(script: &str, output: impl AsyncRead + Unpin) {
    let (mut output, mut lines) = (BufReader::new(output), Rates::new(LINES));
    let mut dropped: u64 = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut output).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        if !lines.allow((), Instant::now()) {
            dropped += 1;
            continue;
        }
        if dropped > 0 {
            tracing::warn!(script, "{} lines of a script are not in the log", dropped);
            dropped = 0;
        }
        // Escaped: a terminal that shows the log obeys nobody.
        let text = String::from_utf8_lossy(&line);
        tracing::info!(script, "a script says: {}", text.trim_end().escape_debug());
    }
    if dropped > 0 {
        tracing::warn!(script, "{} lines of a script are not in the log", dropped);
    }
}
