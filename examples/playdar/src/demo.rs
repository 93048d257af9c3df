//! The demo's songs: tunes that the program makes itself, as FLAC with tags.
//!
//! Each is a walk over a pentatonic scale, so it sounds like a tune, and is the same each time.

use std::f64::consts::TAU;
use std::path::Path;
use std::{fs, iter};

use anyhow::{Context, Result, anyhow};
use flacenc::bitsink::ByteSink;
use flacenc::component::BitRepr as _;
use flacenc::error::Verify as _;
use lofty::config::WriteOptions;
use lofty::tag::{Accessor as _, Tag, TagExt as _, TagType};
use serde_json::{Value, json};

/// Who plays what on which album: comets with short ways come back more often.
const ALBUMS: [(&str, &str, [&str; 4]); 5] = [
    (
        "Comet Encke",
        "Short Way Round",
        ["Three Point Three Years", "Taurids", "Perihelion", "Home"],
    ),
    ("The Long Polls", "Held Open", ["Ask Again Later", "Keep Alive", "Chunked", "Void"]),
    ("Halley and the Tails", "Seventy Six", ["Not in My Life", "Ion Tail", "Dust", "Return"]),
    ("Ada Backlog", "Pressure", ["Slow Reader", "Drain", "Sixty Four Kilobytes", "Goodbye"]),
    ("Mokele", "Insides", ["Hiding in your insides", "Multicast", "Roster", "Resolved"]),
];

/// The song that is offered first.
pub const FIRST: (&str, &str) = (ALBUMS[0].0, ALBUMS[0].2[1]);

/// As telephones have it: enough for a tune, and quickly made.
const RATE: usize = 16_000;

const NOTES: usize = 24;

const NOTE_SECONDS: f64 = 0.3;

/// Steps of the scale, in semitones.
const SCALE: [i32; 5] = [0, 2, 4, 7, 9];

/// Makes the songs in `folder`, and answers those that a page may offer to try.
pub fn make_songs(folder: &Path) -> Result<Value> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut number = 0;
    for (artist, album, tracks) in ALBUMS {
        for (at, track) in iter::zip(1.., tracks) {
            number += 1;
            let path = folder.join(format!("{number:02} {track}.flac"));
            fs::write(&path, flac(&tune(number))?).context("cannot write a song")?;
            let mut tag = Tag::new(TagType::VorbisComments);
            tag.set_artist(artist.to_owned());
            tag.set_album(album.to_owned());
            tag.set_title(track.to_owned());
            tag.set_track(at);
            tag.save_to_path(&path, WriteOptions::default()).context("cannot write its tags")?;
        }
    }
    let some = ALBUMS.iter().take(3);
    Ok(some.map(|(artist, _, tracks)| json!({"artist": artist, "track": tracks[1]})).collect())
}

/// A tune of 7 seconds: each note fades as a string does.
fn tune(seed: u32) -> Vec<i32> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let mut step = 2_i32;
    let mut samples = Vec::new();
    for _ in 0..NOTES {
        // Numerical Recipes' generator: enough to wander.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        step = (step + (state >> 24) as i32 % 3 - 1).clamp(-4, 9);
        let semitones = 12 * step.div_euclid(5) + SCALE[step.rem_euclid(5) as usize];
        let hertz = 261.6 * 2_f64.powf(f64::from(semitones) / 12.0);
        let length = (NOTE_SECONDS * RATE as f64) as usize;
        samples.extend((0..length).map(|n| {
            let time = n as f64 / RATE as f64;
            // Neither begins nor ends with a click.
            let attack = (time / 0.01).min(1.0) * ((NOTE_SECONDS - time) / 0.02).min(1.0);
            let wave = (TAU * hertz * time).sin() + 0.3 * (2.0 * TAU * hertz * time).sin();
            (9000.0 * attack * (-4.0 * time).exp() * wave) as i32
        }));
    }
    samples
}

fn flac(samples: &[i32]) -> Result<Vec<u8>> {
    let config = flacenc::config::Encoder::default();
    let config = config.into_verified().map_err(|(_, error)| anyhow!("{error}"))?;
    let source = flacenc::source::MemSource::from_samples(samples, 1, 16, RATE);
    let stream = flacenc::encode_with_fixed_block_size(&config, source, config.block_size);
    let mut sink = ByteSink::new();
    stream.map_err(|error| anyhow!("{error}"))?.write(&mut sink).map_err(|e| anyhow!("{e}"))?;
    Ok(sink.as_slice().to_vec())
}
