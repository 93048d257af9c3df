//! `--deflate`: what compression costs a worker in processor time, and what it saves.
//!
//! The events are like those of a news feed: a few fields whose names repeat, and words.

use std::time::Duration;

use proto::websocket::deflate::{Deflater, inflate};
use sys::clock;

use crate::Outcome;

const EVENTS: u64 = 2_000;

/// Bytes of an event, about.
const SIZES: [usize; 4] = [100, 300, 1_000, 10_000];

const WORDS: [&str; 16] = [
    "the", "of", "and", "comet", "returns", "in", "three", "years", "with", "its", "tail", "as",
    "seen", "from", "here", "tonight",
];

pub(crate) fn run() -> Outcome<()> {
    let mut deflater = Deflater::default();
    println!(
        "\n{:<24} {:>12} {:>16} {:>16}",
        "bytes", "compressed", "µs to compress", "µs to read"
    );
    for size in SIZES {
        let events: Vec<String> = (0..EVENTS).map(|number| event(number, size)).collect();
        let started = clock::thread_cpu();
        let frames: Vec<_> = events.iter().map(|json| deflater.event(json)).collect();
        let compressing_us = micros_each(started);
        let (mut out, started) = (Vec::new(), clock::thread_cpu());
        for frame in &frames {
            // Behind a head of two bytes or four.
            let body = frame.body();
            let head = if body[1] < 126 { 2 } else { 4 };
            if body[0] & 0x40 != 0 {
                inflate(true, &body[head..], 2 * size, &mut out)?;
            }
        }
        let reading_us = micros_each(started);
        let bytes = |total: usize| total as f64 / EVENTS as f64;
        let plain = bytes(events.iter().map(String::len).sum());
        let compressed = bytes(frames.iter().map(|frame| frame.body().len()).sum());
        println!("{plain:<24.0} {compressed:>12.0} {compressing_us:>16.1} {reading_us:>16.1}");
    }
    Ok(())
}

fn micros_each(started: Duration) -> f64 {
    (clock::thread_cpu() - started).as_nanos() as f64 / 1e3 / EVENTS as f64
}

/// An event of about `size` bytes.
fn event(number: u64, size: usize) -> String {
    let mut json = format!("{{\"id\":\"{number:016x}\",\"about\":\"user:{number}\",");
    json.push_str("\"data\":{\"kind\":\"post\",\"text\":\"");
    let mut random = number;
    while json.len() + 3 < size {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        json.push_str(WORDS[(random >> 60) as usize]);
        json.push(' ');
    }
    json.push_str("\"}}");
    json
}
