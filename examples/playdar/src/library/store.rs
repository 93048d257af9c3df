//! The library's database: artists with an index of trigrams, and their songs.
//!
//! A search finds artists first: those that share the most trigrams with the query, by SQLite's
//! FTS5. Of those it scores all songs. That is exact enough, since a song by somebody whose name
//! has nothing of the asked one scores at most 0.5, which is never told; and it is fast, since
//! there are some ten times fewer artists than songs.

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

/// Trigrams of a name that are looked for.
const TRIGRAMS_MAX: usize = 48;

/// Names stand in the index between spaces, so that short ones have trigrams too.
const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = NORMAL;
    CREATE TABLE IF NOT EXISTS artist (id INTEGER PRIMARY KEY, clean TEXT NOT NULL UNIQUE);
    CREATE VIRTUAL TABLE IF NOT EXISTS artist_index
        USING fts5(clean, content = '', contentless_delete = 1, tokenize = 'trigram');
    CREATE TABLE IF NOT EXISTS song (
        path TEXT PRIMARY KEY, artist_id INTEGER NOT NULL, artist TEXT NOT NULL,
        track TEXT NOT NULL, album TEXT NOT NULL, trackno INTEGER NOT NULL,
        duration INTEGER NOT NULL, bitrate INTEGER NOT NULL, size INTEGER NOT NULL,
        mtime INTEGER NOT NULL);
    CREATE INDEX IF NOT EXISTS song_artist ON song (artist_id);
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
        let mut found = Vec::new();
        let mut scored = 0;
        for artist in self.artists(&query.artist)? {
            let mut songs = self.db.prepare_cached(
                "SELECT path, artist, track, album, trackno, duration, bitrate, size, mtime
                 FROM song WHERE artist_id = ?",
            )?;
            let mut rows = songs.query([artist])?;
            while let Some(row) = rows.next()? {
                let [by, track, album] = [text(row, 1)?, text(row, 2)?, text(row, 3)?];
                let score = score(query, by, track, album, Base::Found);
                if score >= SCORE_MIN {
                    found.push((song(row)?, score));
                }
                scored += 1;
                if scored >= SCORED_MAX {
                    break;
                }
            }
            // The artists come from the best on: the rest cannot be better than exact.
            if scored >= SCORED_MAX || found.iter().any(|(_, score)| *score >= SOLVED) {
                break;
            }
        }
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.path.cmp(&b.0.path)));
        found.truncate(FOUND_MAX);
        Ok(found)
    }

    /// The artists most like `name`: the same first, then by common trigrams.
    fn artists(&self, name: &str) -> Result<Vec<i64>> {
        let clean = name.trim().to_lowercase();
        let mut ids = Vec::new();
        ids.extend(self.artist(&clean)?);
        let mut nearest = self.db.prepare_cached(
            "SELECT rowid FROM artist_index WHERE artist_index MATCH ? ORDER BY rank LIMIT ?",
        )?;
        let trigrams = trigrams(&clean);
        let near = nearest.query_map((trigrams, ARTISTS_MAX as i64), |row| row.get::<_, i64>(0))?;
        for id in near {
            let id = id?;
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        Ok(ids)
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

/// The trigrams of a name as FTS5's language asks for any of them, each a quoted string.
fn trigrams(clean: &str) -> String {
    let characters: Vec<char> = between_spaces(clean).chars().collect();
    let quoted = characters.windows(3).take(TRIGRAMS_MAX).map(|three| {
        let three: String = three.iter().collect();
        format!("\"{}\"", three.replace('"', "\"\""))
    });
    quoted.collect::<Vec<_>>().join(" OR ")
}

#[cfg(test)]
mod tests;
