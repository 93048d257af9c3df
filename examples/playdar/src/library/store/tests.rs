//! Searches against names that are near, far and hostile, and what 100,000 songs cost.

use std::time::{Duration, Instant};

use super::*;

fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    (dir, store)
}

fn song(path: &str, artist: &str, track: &str) -> Song {
    let [path, artist, track] = [path, artist, track].map(str::to_owned);
    Song { path, artist, track, size: 7, mtime: 9, ..Song::default() }
}

fn query(artist: &str, track: &str) -> Query {
    Query { artist: artist.to_owned(), track: track.to_owned(), ..Query::default() }
}

#[test]
fn misspelt_artist_and_title_are_found_with_their_score() {
    let (_dir, store) = store();
    store.put(&song("/a", "Mokele", "Hiding in your insides")).unwrap();
    store.put(&song("/b", "U2", "One")).unwrap();
    let exact = store.search(&query("mokele", "hiding in your INSIDES")).unwrap();
    assert_eq!((exact[0].0.path.as_str(), exact[0].1), ("/a", 1.0));
    let near = store.search(&query("Mokelle", "Hiding in your inside")).unwrap();
    assert!(near[0].1 > 0.7 && near[0].1 < 1.0, "{near:?}");
    assert_eq!(store.search(&query("u2", "one")).unwrap().len(), 1, "names may be short");
    assert!(store.search(&query("Somebody", "Else")).unwrap().is_empty());
}

#[test]
fn language_of_the_index_in_a_query_is_only_text() {
    let (_dir, store) = store();
    store.put(&song("/a", "\" OR NEAR(", "x*")).unwrap();
    for artist in ["\" OR NEAR(", "\"\"\"", "a AND b", "*", "-", "\u{0}", "ﬁ\u{301}"] {
        store.search(&query(artist, "x*")).unwrap();
    }
    assert_eq!(store.search(&query("\" OR NEAR(", "x*")).unwrap().len(), 1);
}

#[test]
fn removed_song_takes_its_artist_along() {
    let (_dir, mut store) = store();
    store.put(&song("/a", "A band", "One")).unwrap();
    store.put(&song("/a", "A band", "Two")).unwrap();
    assert!(store.knows("/a", 7, 9).unwrap() && !store.knows("/a", 7, 10).unwrap());
    assert_eq!((store.songs().unwrap(), store.paths_after("", 9).unwrap().len()), (1, 1));
    let failed = store.at_once(|store| {
        store.remove("/a")?;
        anyhow::bail!("no")
    });
    assert!(failed.is_err() && store.holds("/a").unwrap());
    store.remove("/a").unwrap();
    assert!(store.like("a band").unwrap().is_empty());
    store.put_silent("/b", 1, 2).unwrap();
    assert!(store.knows("/b", 1, 2).unwrap() && !store.holds("/b").unwrap());
}

#[test]
fn exact_title_is_found_among_more_songs_than_are_scored() {
    let (_dir, mut store) = store();
    let title = |n: usize| format!("Title {n:05}");
    let put =
        |store: &Store, n: usize| store.put(&song(&n.to_string(), "Various Artists", &title(n)));
    store.at_once(|store| (0..SCORED_MAX + 9).try_for_each(|n| put(store, n))).unwrap();
    for n in [0, SCORED_MAX + 8] {
        let found = store.search(&query("various artists", &title(n).to_uppercase())).unwrap();
        assert_eq!((found[0].0.track.as_str(), found[0].1), (title(n).as_str(), 1.0));
    }
}

/// A word of two to four syllables, so that names share trigrams as real ones do.
fn word(random: &mut fastrand::Rng) -> String {
    let syllables = ["ka", "ro", "mi", "ten", "sol", "lu", "ban", "der", "vi", "ston", "ea", "ny"];
    (0..random.usize(2..=4)).map(|_| syllables[random.usize(..syllables.len())]).collect()
}

/// The goal is 20 ms; `cargo test -p playdar --lib hundred -- --ignored --nocapture` prints what it
/// is. What it must be here is a small part of a look at each song, on the same machine.
#[test]
#[ignore = "a measurement: it makes 100,000 songs"]
fn hundred_thousand_songs_are_searched_by_their_index() {
    let (_dir, mut store) = store();
    let mut random = fastrand::Rng::with_seed(16);
    let artists: Vec<String> =
        (0..10_000).map(|_| format!("{} {}", word(&mut random), word(&mut random))).collect();
    let songs: Vec<Song> = (0..100_000)
        .map(|n| {
            let track =
                format!("{} {} {}", word(&mut random), word(&mut random), word(&mut random));
            song(&format!("/music/{n}.mp3"), &artists[random.usize(..artists.len())], &track)
        })
        .collect();
    let made = Instant::now();
    store.at_once(|store| songs.iter().try_for_each(|song| store.put(song))).unwrap();
    let made = made.elapsed();
    let mut times: Vec<Duration> = (0..2_000)
        .map(|n| {
            let song = &songs[random.usize(..songs.len())];
            // Half of the queries are exact, half have a slip in the artist.
            let artist =
                if n % 2 == 0 { song.artist.clone() } else { song.artist.replacen('a', "o", 1) };
            let begun = Instant::now();
            let found = store.search(&query(&artist, &song.track)).unwrap();
            let took = begun.elapsed();
            assert!(n % 2 == 1 || found[0].1 == 1.0, "{song:?} is not found");
            took
        })
        .collect();
    times.sort();
    let [p50, p99] = [times[1_000], times[1_980]];
    let begun = Instant::now();
    let asked = query("nobody", "nothing");
    let all = songs.iter().filter(|it| score(&asked, &it.artist, &it.track, "", Base::Found) > 0.9);
    assert_eq!(all.count(), 0);
    let each = begun.elapsed();
    println!("made in {made:.2?}; a search takes p50 {p50:.2?}, p99 {p99:.2?}; all {each:.2?}");
    assert!(4 * p50 < each, "p50 {p50:?} and not a part of {each:?}");
}
