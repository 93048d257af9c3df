//! The library's database: artists with an index of trigrams, and their songs.
//!
//! A search finds artists first: the one of the query's name, else those that share the most of its
//! rarest trigrams, by SQLite's FTS5. Of those it scores the songs, up to [`SCORED_MAX`], and those
//! of exactly the query's title first. That is fast, since there are some ten times fewer artists
//! than songs, and it is exact enough. A song by somebody whose name has nothing of the asked one
//! scores at most 0.5, which is never told. Where its title and its album are the query's it scores
//! 2/3, and such a song is not found.

use std::path::Path;

use anyhow::{Context, Result};
use rusqlite::{Connection, OptionalExtension, Row, named_params};

use crate::model::Query;
use crate::score::{Base, SCORE_MIN, SOLVED, score};

/// The database's file in the daemon's directory.
const FILE: &str = "library.db";

/// Artists whose songs are scored.
const ARTISTS_MAX: usize = 10;

/// Songs scored in one search: some 2 µs each.
const SCORED_MAX: usize = 4000;

/// What a search answers at most.
const FOUND_MAX: usize = 10;

/// Trigrams of a name that are counted.
const TRIGRAMS_MAX: usize = 48;

/// Those of them that are looked for: the rarest, which tell most and cost least. A slip of the pen
/// changes three.
const RAREST: usize = 7;

/// Names stand in the index between spaces, so that short ones have trigrams too.
const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = NORMAL;
    CREATE TABLE IF NOT EXISTS artist (id INTEGER PRIMARY KEY, clean TEXT NOT NULL UNIQUE);
    CREATE VIRTUAL TABLE IF NOT EXISTS artist_index
        USING fts5(clean, content = '', contentless_delete = 1, tokenize = 'trigram');
    CREATE VIRTUAL TABLE IF NOT EXISTS artist_trigram USING fts5vocab(artist_index, 'row');
    CREATE TABLE IF NOT EXISTS song (
        path TEXT PRIMARY KEY, artist_id INTEGER NOT NULL, artist TEXT NOT NULL,
        track TEXT NOT NULL, album TEXT NOT NULL, trackno INTEGER NOT NULL,
        duration INTEGER NOT NULL, bitrate INTEGER NOT NULL, size INTEGER NOT NULL,
        mtime INTEGER NOT NULL);
    DROP INDEX IF EXISTS song_artist;
    CREATE INDEX IF NOT EXISTS song_title ON song (artist_id, track COLLATE NOCASE);
    CREATE TABLE IF NOT EXISTS silent (path TEXT PRIMARY KEY, size INTEGER, mtime INTEGER);
";

/// A song in a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Song {
    /// The file.
    pub path: String,
    /// Who plays.
    pub artist: String,
    /// The title.
    pub track: String,
    /// The album, or nothing.
    pub album: String,
    /// Which one on the album, from 1; 0 where that is not told.
    pub trackno: u64,
    /// In seconds.
    pub duration: u64,
    /// In kbit/s.
    pub bitrate: u64,
    /// Of the file, in bytes.
    pub size: u64,
    /// When the file was changed, in milliseconds since 1970.
    pub mtime: i64,
}

/// A connection to the database.
pub struct Store {
    db: Connection,
}

impl Store {
    /// Opens the database in `dir`, and makes it where there is none.
    pub fn open(dir: &Path) -> Result<Store> {
        let path = dir.join(FILE);
        let open = || -> rusqlite::Result<Connection> {
            let db = Connection::open(&path)?;
            db.busy_timeout(std::time::Duration::from_secs(10))?;
            db.execute_batch(SCHEMA)?;
            Ok(db)
        };
        let db = open().with_context(|| format!("cannot open {}", path.display()))?;
        Ok(Store { db })
    }

    /// The songs that answer a query, the best first.
    pub fn search(&self, query: &Query) -> Result<Vec<(Song, f64)>> {
        let clean = query.artist.trim().to_lowercase();
        let (mut found, mut scored) = (Vec::new(), 0);
        let same = self.artist(&clean)?;
        if let Some(artist) = same {
            self.score_songs(artist, query, &mut scored, &mut found)?;
        }
        // Nothing is better than exact.
        if !found.iter().any(|(_, score)| *score >= SOLVED) {
            for artist in self.like(&clean)?.into_iter().filter(|like| Some(*like) != same) {
                self.score_songs(artist, query, &mut scored, &mut found)?;
            }
        }
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.path.cmp(&b.0.path)));
        found.truncate(FOUND_MAX);
        Ok(found)
    }

    /// Adds the songs of an artist that answer a query. Those of its very title come first, so that
    /// the bound never hides them: "Various Artists" may have more songs than are scored.
    fn score_songs(
        &self,
        artist: i64,
        query: &Query,
        scored: &mut usize,
        found: &mut Vec<(Song, f64)>,
    ) -> Result<()> {
        let mut songs = self.db.prepare_cached(
            "SELECT path, artist, track, album, trackno, duration, bitrate, size, mtime
             FROM song WHERE artist_id = :a AND track = :t COLLATE NOCASE
             UNION ALL
             SELECT path, artist, track, album, trackno, duration, bitrate, size, mtime
             FROM song WHERE artist_id = :a AND track <> :t COLLATE NOCASE",
        )?;
        let mut rows = songs.query(named_params! {":a": artist, ":t": query.track})?;
        while *scored < SCORED_MAX
            && let Some(row) = rows.next()?
        {
            let [by, track, album] = [text(row, 1)?, text(row, 2)?, text(row, 3)?];
            let score = score(query, by, track, album, Base::Found);
            if score >= SCORE_MIN {
                found.push((song(row)?, score));
            }
            *scored += 1;
        }
        Ok(())
    }

    /// The artists that have the most of the rarest trigrams of a name.
    fn like(&self, clean: &str) -> Result<Vec<i64>> {
        let mut nearest = self.db.prepare_cached(
            "SELECT rowid FROM artist_index WHERE artist_index MATCH ? ORDER BY rank LIMIT ?",
        )?;
        let wanted = self.rarest(clean)?;
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let near = nearest.query_map((wanted, ARTISTS_MAX as i64), |row| row.get(0))?;
        Ok(near.collect::<rusqlite::Result<_>>()?)
    }

    /// The rarest trigrams of a name, as FTS5's language asks for any of them: each a string in
    /// quotes.
    fn rarest(&self, clean: &str) -> Result<String> {
        let mut count = self.db.prepare_cached("SELECT doc FROM artist_trigram WHERE term = ?")?;
        let mut counted = Vec::new();
        for trigram in trigrams(clean) {
            let artists: Option<i64> = count.query_row([&trigram], |row| row.get(0)).optional()?;
            counted.extend(artists.map(|artists| (artists, trigram)));
        }
        counted.sort();
        let rarest = counted.iter().take(RAREST);
        let quoted = rarest.map(|(_, trigram)| format!("\"{}\"", trigram.replace('"', "\"\"")));
        Ok(quoted.collect::<Vec<_>>().join(" OR "))
    }

    fn artist(&self, clean: &str) -> rusqlite::Result<Option<i64>> {
        let mut find = self.db.prepare_cached("SELECT id FROM artist WHERE clean = ?")?;
        find.query_row([clean], |row| row.get(0)).optional()
    }

    /// Whether the file is a song of the library.
    pub fn holds(&self, path: &str) -> Result<bool> {
        Ok(self.db.prepare_cached("SELECT 1 FROM song WHERE path = ?")?.exists([path])?)
    }

    /// How many songs there are.
    pub fn songs(&self) -> Result<u64> {
        let songs: i64 = self.db.query_row("SELECT count(*) FROM song", [], |row| row.get(0))?;
        Ok(songs.try_into().unwrap_or(0))
    }

    /// Whether the file was read already as it is now, whether it had tags or none.
    pub fn knows(&self, path: &str, size: u64, mtime: i64) -> Result<bool> {
        let mut known = self.db.prepare_cached(
            "SELECT 1 FROM song WHERE path = :p AND size = :s AND mtime = :m
             UNION ALL SELECT 1 FROM silent WHERE path = :p AND size = :s AND mtime = :m",
        )?;
        let what = named_params! {":p": path, ":s": size as i64, ":m": mtime};
        Ok(known.exists(what)?)
    }

    /// All files that were read, in pages: those after `after` by name.
    pub fn paths_after(&self, after: &str, count: usize) -> Result<Vec<String>> {
        let mut paths = self.db.prepare_cached(
            "SELECT path FROM (SELECT path FROM song UNION ALL SELECT path FROM silent)
             WHERE path > ? ORDER BY path LIMIT ?",
        )?;
        let paths = paths.query_map((after, count as i64), |row| row.get(0))?;
        Ok(paths.collect::<rusqlite::Result<_>>()?)
    }

    /// Does several changes at once: all of them, or none.
    pub fn at_once(&mut self, change: impl FnOnce(&Store) -> Result<()>) -> Result<()> {
        self.db.execute_batch("BEGIN IMMEDIATE")?;
        let outcome = change(self);
        self.db.execute_batch(if outcome.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
        outcome
    }

    /// Takes a song in, or what is new of it.
    pub fn put(&self, song: &Song) -> Result<()> {
        self.remove(&song.path)?;
        let clean = song.artist.trim().to_lowercase();
        let artist = match self.artist(&clean)? {
            Some(artist) => artist,
            None => self.add_artist(&clean)?,
        };
        self.db.prepare_cached("INSERT INTO song VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")?.execute(
            (
                &song.path,
                artist,
                &song.artist,
                &song.track,
                &song.album,
                song.trackno as i64,
                song.duration as i64,
                song.bitrate as i64,
                song.size as i64,
                song.mtime,
            ),
        )?;
        Ok(())
    }

    fn add_artist(&self, clean: &str) -> Result<i64> {
        self.db.prepare_cached("INSERT INTO artist (clean) VALUES (?)")?.execute([clean])?;
        let id = self.db.last_insert_rowid();
        self.db
            .prepare_cached("INSERT INTO artist_index (rowid, clean) VALUES (?, ?)")?
            .execute((id, between_spaces(clean)))?;
        Ok(id)
    }

    /// Notes that a file has nothing to say, so that it is not read again until it changes.
    pub fn put_silent(&self, path: &str, size: u64, mtime: i64) -> Result<()> {
        self.remove(path)?;
        let mut put = self.db.prepare_cached("INSERT INTO silent VALUES (?, ?, ?)")?;
        put.execute((path, size as i64, mtime))?;
        Ok(())
    }

    /// Takes a file out, and its artist with the last song.
    pub fn remove(&self, path: &str) -> Result<()> {
        self.db.prepare_cached("DELETE FROM silent WHERE path = ?")?.execute([path])?;
        let mut remove =
            self.db.prepare_cached("DELETE FROM song WHERE path = ? RETURNING artist_id")?;
        let artist: Option<i64> = remove.query_row([path], |row| row.get(0)).optional()?;
        let Some(artist) = artist else { return Ok(()) };
        let mut others = self.db.prepare_cached("SELECT 1 FROM song WHERE artist_id = ?")?;
        if !others.exists([artist])? {
            self.db.prepare_cached("DELETE FROM artist WHERE id = ?")?.execute([artist])?;
            let mut index = self.db.prepare_cached("DELETE FROM artist_index WHERE rowid = ?")?;
            index.execute([artist])?;
        }
        Ok(())
    }
}

fn text<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r str> {
    Ok(row.get_ref(column)?.as_str()?)
}

fn song(row: &Row<'_>) -> Result<Song> {
    let whole = |column| row.get::<_, i64>(column).map(|number| number.try_into().unwrap_or(0));
    Ok(Song {
        path: row.get(0)?,
        artist: row.get(1)?,
        track: row.get(2)?,
        album: row.get(3)?,
        trackno: whole(4)?,
        duration: whole(5)?,
        bitrate: whole(6)?,
        size: whole(7)?,
        mtime: row.get(8)?,
    })
}

fn between_spaces(clean: &str) -> String {
    format!(" {clean} ")
}

/// The trigrams of a name. Control characters are no part of one, and a zero would end the string
/// for SQLite.
fn trigrams(clean: &str) -> Vec<String> {
    let name = between_spaces(clean);
    let characters: Vec<char> = name.chars().filter(|c| !c.is_control()).collect();
    let threes = characters.windows(3).take(TRIGRAMS_MAX);
    threes.map(|three| three.iter().collect()).collect()
}

#[cfg(test)]
mod tests;
