//! All fuzz bodies under libFuzzer, guided by coverage, for as long as you let them.
//!
//! ```sh
//! cargo install cargo-fuzz
//! ENCKE_FUZZ=request_head \
//!     cargo +nightly fuzz run --fuzz-dir fuzz/libfuzzer any -- -max_total_time=600
//! ```
//!
//! `ENCKE_FUZZ` is one of the names in `fuzz::TARGETS`; without it each input goes through all of
//! them. A finding is kept in `fuzz/libfuzzer/artifacts/`: add it to a table of the room that it
//! was found in, then mend the room.

#![no_main]

use std::sync::LazyLock;

use fuzz::{TARGETS, Target};
use libfuzzer_sys::fuzz_target;

static CHOSEN: LazyLock<Vec<Target>> = LazyLock::new(|| {
    let name = std::env::var("ENCKE_FUZZ").ok();
    let wanted = |target: &&(&str, Target)| name.as_deref().is_none_or(|name| name == target.0);
    let chosen: Vec<Target> = TARGETS.iter().filter(wanted).map(|target| target.1).collect();
    assert!(!chosen.is_empty(), "ENCKE_FUZZ names no target");
    chosen
});

fuzz_target!(|data: &[u8]| CHOSEN.iter().for_each(|target| target(data)));
