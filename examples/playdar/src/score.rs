//! How well a song answers a query, as the old daemon counts it.
//!
//! Each field is compared in lower case: `s = max(0, len(base) - distance) / len(base)`, where the
//! distance is Levenshtein's, and bent to `1 - cos(s * pi / 2)`, so that a near miss costs a lot.
//! The score is the mean of artist and track, and of the album where the query has one.

use std::f64::consts::FRAC_PI_2;

use crate::model::Query;

/// What a result must have to be told at all.
pub const SCORE_MIN: f64 = 0.6;

/// From here on a query counts as solved.
pub const SOLVED: f64 = 0.99;

/// Whose length the distance is measured by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Base {
    /// The song's: the library's way.
    Found,
    /// The query's: the way of the pipeline, for results that come without a score.
    Query,
}

/// The score of a song, 0 to 1.
pub fn score(query: &Query, artist: &str, track: &str, album: &str, base: Base) -> f64 {
    let mut scores = vec![bent(&query.artist, artist, base), bent(&query.track, track, base)];
    if let Some(wanted) = &query.album {
        scores.push(bent(wanted, album, base));
    }
    let mean = scores.iter().sum::<f64>() / scores.len() as f64;
    if mean > SOLVED { 1.0 } else { mean }
}

fn bent(wanted: &str, found: &str, base: Base) -> f64 {
    let (wanted, found) = (wanted.to_lowercase(), found.to_lowercase());
    let base = if base == Base::Found { &found } else { &wanted };
    let length = base.chars().count();
    if length == 0 {
        return 0.0;
    }
    let same = length.saturating_sub(strsim::levenshtein(&wanted, &found));
    1.0 - (same as f64 / length as f64 * FRAC_PI_2).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(artist: &str, track: &str, album: Option<&str>) -> f64 {
        let query = Query {
            artist: artist.to_owned(),
            track: track.to_owned(),
            album: album.map(str::to_owned),
            ..Query::default()
        };
        score(&query, "Mokele", "abcdefghij", "Album", Base::Found)
    }

    #[test]
    fn check_values_of_the_old_daemon_hold() {
        assert_eq!(of("mokele", "ABCDEFGHIJ", None), 1.0);
        assert!((of("Mokele", "abcdefghiX", None) - 0.9218).abs() < 5e-5);
    }

    #[test]
    fn album_counts_only_where_it_is_asked_for() {
        assert_eq!(of("Mokele", "abcdefghij", Some("album")), 1.0);
        let other = of("Mokele", "abcdefghij", Some("zzzzz"));
        assert!((other - 2.0 / 3.0).abs() < 1e-9, "{other}");
    }

    #[test]
    fn empty_and_hostile_strings_score_nothing() {
        let query = Query { artist: "a".repeat(512), ..Query::default() };
        assert_eq!(score(&query, "", "", "", Base::Found), 0.0);
        assert_eq!(score(&query, "b", "c", "", Base::Query), 0.0);
    }
}
