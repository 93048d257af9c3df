//! The time as a `Date` field has it (RFC 9110, section 5.6.7).

use std::io::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use sys::clock;

/// The time, made once a second.
#[derive(Debug, Default)]
pub(super) struct Date {
    second: u64,
    text: Vec<u8>,
}

impl Date {
    pub(super) fn now(&mut self) -> &[u8] {
        let second = clock::unix_ms() / 1_000;
        if second != self.second {
            let time = UNIX_EPOCH + Duration::from_secs(second);
            self.text.clear();
            // Writing to a Vec does not fail.
            let _ = write!(self.text, "{}", httpdate::HttpDate::from(time));
            self.second = second;
        }
        &self.text
    }
}
