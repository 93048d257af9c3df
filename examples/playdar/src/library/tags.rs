//! What a file of music says of itself, by lofty.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use lofty::config::ParseOptions;
use lofty::file::{AudioFile, TaggedFileExt};
use lofty::probe::Probe;
use lofty::tag::Accessor;

use super::store::Song;
use crate::model::FIELD_BYTES_MAX;

/// The media type of a file's ending; nothing for what is no music.
pub fn mimetype(path: &Path) -> Option<&'static str> {
    let ending = path.extension()?.to_str()?.to_ascii_lowercase();
    Some(match ending.as_str() {
        "mp3" => "audio/mpeg",
        "m4a" | "mp4" | "aac" => "audio/mp4",
        "ogg" | "oga" => "application/ogg",
        "opus" => "audio/ogg",
        "flac" => "audio/flac",
        _ => return None,
    })
}

/// The song in a file, without its size and time; nothing where the file cannot be read as music,
/// or has no artist or no title. Files come from anywhere, and a reader of many formats that
/// panics on one must not end the scan.
pub fn read(path: &Path) -> Option<Song> {
    catch_unwind(AssertUnwindSafe(|| read_tags(path))).ok().flatten()
}

fn read_tags(path: &Path) -> Option<Song> {
    let options = ParseOptions::new().read_cover_art(false);
    let file = Probe::open(path).ok()?.options(options).guess_file_type().ok()?.read().ok()?;
    let tag = file.primary_tag().or_else(|| file.first_tag())?;
    let properties = file.properties();
    let bitrate = properties.audio_bitrate().or(properties.overall_bitrate());
    Some(Song {
        path: path.to_str()?.to_owned(),
        artist: some(tag.artist()?.as_ref())?,
        track: some(tag.title()?.as_ref())?,
        album: tag.album().and_then(|album| some(&album)).unwrap_or_default(),
        trackno: tag.track().unwrap_or(0).into(),
        duration: properties.duration().as_secs_f64().round() as u64,
        bitrate: bitrate.unwrap_or(0).into(),
        ..Song::default()
    })
}

/// A field without control characters, at most as long as queries have it.
fn some(text: &str) -> Option<String> {
    let plain: String = text.chars().filter(|c| !c.is_control()).collect();
    let plain = plain.trim();
    let end = plain.floor_char_boundary(FIELD_BYTES_MAX);
    (!plain.is_empty()).then(|| plain[..end].to_owned())
}
