//! Tokens that are revoked: one by its `jti`, or all of a `sub` that were made before a time.
//!
//! They are remembered in `revoked.json` of the data directory until the tokens would have been
//! over anyway. A look-up is one in a table, or two. A change writes the whole file, and is on disk
//! when it is answered: 60 to 80 ms where there are 100,000, which take 6 MB. The table is copied
//! for it, so that those who look wait for no more than the exchange of the two.
//!
//! What is forgotten may be learnt from nobody again. So a wall clock that jumps forward for a
//! moment is not followed: no more time goes by here than on the monotonic clock.

use std::borrow::Cow;
use std::collections::HashMap;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock};

use hub::{Grant, IdText};
use sys::clock;
use thiserror::Error;

use super::limits::{
    JTI_BYTES_MAX, LEEWAY_MAX, REVOCATION_LIFETIME, REVOCATIONS_MAX, REVOKED_BYTES_MAX, TIME_MAX,
};
use crate::checked_file::{CheckedFile, CheckedFileError};

mod line;

pub use line::Line;

const NAME: &str = "revoked.json";

/// Which form the file has.
const FORMAT: &str = "encke-revoked-1";

/// Which tokens are revoked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Revocation {
    /// The one that is called so.
    Token {
        /// Its `jti`.
        jti: String,
        /// Its `exp`, if that is known: it need not be remembered for longer.
        expires: Option<u64>,
    },
    /// All of one subject, that were made before a time, or do not say when.
    Subject {
        /// Their `sub`.
        sub: String,
        /// Tokens with an `iat` from this second on are not meant.
        before: u64,
    },
}

/// Why tokens are not revoked.
#[derive(Debug, Error)]
pub enum RevokedError {
    /// Nothing could be called so.
    #[error("a jti has 1 to 255 bytes, a sub is an id, and times are seconds since 1970")]
    Wish,
    /// There are too many.
    #[error(
        "100000 revocations are remembered, and there is no place for more: revoke all tokens of \
         a `sub` at once, or give tokens a shorter life"
    )]
    Full,
    /// The file cannot be read or written.
    #[error("{}: {error}; check its owner and mode, and that the disk has room", path.display())]
    Io {
        /// Which one.
        path: PathBuf,
        /// What went wrong.
        error: std::io::Error,
    },
    /// The file is not as it was written.
    #[error(
        "{} is damaged ({what}): bring it back from a backup; without one, change the key that \
         tokens are signed with and remove the file, or what was revoked is good again",
        path.display()
    )]
    Damaged {
        /// Which one.
        path: PathBuf,
        /// What was found.
        what: String,
    },
}

impl From<CheckedFileError> for RevokedError {
    fn from(error: CheckedFileError) -> RevokedError {
        match error {
            CheckedFileError::Io { path, error } => RevokedError::Io { path, error },
            CheckedFileError::Damaged { path, what } => RevokedError::Damaged { path, what },
        }
    }
}

/// The revocations of a data directory.
#[derive(Debug)]
pub struct Revocations {
    file: CheckedFile,
    table: RwLock<Table>,
    /// Held while the file is written.
    writing: Mutex<()>,
    /// For how long what has no known end is kept, in seconds.
    lifetime: u64,
    opened: Opened,
}

/// When the revocations were opened, by both clocks.
#[derive(Clone, Copy, Debug)]
struct Opened {
    /// Seconds since 1970.
    wall: u64,
    monotonic_ms: u64,
}

#[derive(Clone, Default, Debug)]
struct Table {
    /// Until when each is kept.
    tokens: HashMap<Box<str>, u64>,
    subjects: HashMap<Box<str>, Before>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Before {
    before: u64,
    until: u64,
}

impl Revocations {
    /// Those of the data directory `dir`, of tokens that live for 30 days at most unless their
    /// expiry is told.
    ///
    /// # Errors
    /// There is a file and it cannot be read: no token is taken then, since it could be a revoked
    /// one.
    pub fn open(dir: &Path) -> Result<Revocations, RevokedError> {
        Revocations::open_at(dir, clock::unix_ms() / 1000)
    }

    /// [`Revocations::open`], while the wall clock stands at `wall`, in seconds since 1970.
    fn open_at(dir: &Path, wall: u64) -> Result<Revocations, RevokedError> {
        let opened = Opened { wall, monotonic_ms: clock::monotonic_ms() };
        let (dir, bytes_max) = (dir.to_owned(), REVOKED_BYTES_MAX);
        let file = CheckedFile { dir, name: NAME, format: FORMAT, bytes_max };
        let lines: Vec<Line<'_>> = file.read()?.unwrap_or_default();
        let table = Table::of(lines).ok_or_else(|| file.damaged("a line has no sense"))?;
        let (table, writing) = (RwLock::new(table), Mutex::new(()));
        let lifetime = REVOCATION_LIFETIME.as_secs();
        Ok(Revocations { file, table, writing, lifetime, opened })
    }

    /// The time at which what is over by then may be forgotten, where the wall clock says `now`: no
    /// later than it can be by a clock that was right at the start, and runs as the monotonic one.
    /// Where it was behind then, things are remembered for longer.
    pub fn forgets_at(&self, now: u64) -> u64 {
        let Opened { wall, monotonic_ms } = self.opened;
        let elapsed = clock::monotonic_ms().saturating_sub(monotonic_ms) / 1000;
        now.min(wall + elapsed + LEEWAY_MAX.as_secs())
    }

    /// Revokes tokens at `now`. They are refused when this returns, also when the file could not be
    /// written: then only until the server ends, and whoever asked for it should ask again.
    pub fn revoke(&self, wishes: &[Revocation], now: u64) -> Result<(), RevokedError> {
        if !wishes.iter().all(Revocation::is_sound) {
            return Err(RevokedError::Wish);
        }
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut table = self.copy();
        table.forget(self.forgets_at(now));
        for wish in wishes {
            table.add(&Line::of(wish, now, self.lifetime));
        }
        if table.len() > REVOCATIONS_MAX {
            return Err(RevokedError::Full);
        }
        let written = self.write(&table);
        // The old one is let go when nobody waits for the lock any more.
        let old =
            mem::replace(&mut *self.table.write().unwrap_or_else(PoisonError::into_inner), table);
        drop(old);
        written
    }

    /// What `wish` comes to for all nodes of a cluster, if there is room for it. It does not count
    /// yet.
    pub fn line(&self, wish: &Revocation, now: u64) -> Result<Line<'static>, RevokedError> {
        if !wish.is_sound() {
            return Err(RevokedError::Wish);
        }
        let line = Line::of(wish, now, self.lifetime);
        let room = |table: &Table| table.len() < REVOCATIONS_MAX || table.says(&line).is_some();
        if room(&self.table.read().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(line);
        }
        let over = self.forgets_at(now);
        self.table.write().unwrap_or_else(PoisonError::into_inner).forget(over);
        match room(&self.table.read().unwrap_or_else(PoisonError::into_inner)) {
            true => Ok(line),
            false => Err(RevokedError::Full),
        }
    }

    /// Refuses what `lines` say from now on; answers those that say something new. It is written by
    /// [`Revocations::save`].
    pub fn learn<'l>(&self, lines: Vec<Line<'l>>) -> Vec<Line<'l>> {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let learnt = lines.into_iter().filter(|line| line.is_sound() && table.add(line));
        learnt.collect()
    }

    /// All that is known.
    pub fn lines(&self) -> Vec<Line<'static>> {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        let table = self.copy();
        let own = |line: Line<'_>| Line {
            jti: line.jti.map(owned),
            sub: line.sub.map(owned),
            before: line.before,
            until: line.until,
        };
        table.lines().map(own).collect()
    }

    /// Writes what was learnt, without what is over at `now`. Blocks.
    pub fn save(&self, now: u64) -> Result<(), RevokedError> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let over = self.forgets_at(now);
        self.table.write().unwrap_or_else(PoisonError::into_inner).forget(over);
        self.write(&self.copy())
    }

    fn copy(&self) -> Table {
        self.table.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn write(&self, table: &Table) -> Result<(), RevokedError> {
        let lines: Vec<Line<'_>> = table.lines().collect();
        Ok(self.file.replace(&lines)?)
    }

    /// Whether a token with this grant is revoked. `None` when that cannot be said at once.
    pub(super) fn covers_at_once(&self, grant: &Grant) -> Option<bool> {
        self.table.try_read().ok().map(|table| table.covers(grant))
    }

    /// Whether a token with this grant is revoked.
    pub fn covers(&self, grant: &Grant) -> bool {
        self.table.read().unwrap_or_else(PoisonError::into_inner).covers(grant)
    }

    /// How many are remembered.
    pub fn count(&self) -> usize {
        self.table.read().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Revocation {
    fn is_sound(&self) -> bool {
        match self {
            Revocation::Token { jti, expires } => {
                (1..=JTI_BYTES_MAX).contains(&jti.len())
                    && expires.is_none_or(|expires| expires <= TIME_MAX)
            }
            Revocation::Subject { sub, before } => {
                IdText::parse(sub).is_ok() && *before <= TIME_MAX
            }
        }
    }
}

impl Table {
    fn of(lines: Vec<Line<'_>>) -> Option<Table> {
        let mut table = Table::default();
        for line in lines {
            if !line.is_sound() {
                return None;
            }
            table.add(&line);
        }
        Some(table)
    }

    fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        let tokens = self.tokens.iter().map(|(jti, &until)| Line {
            jti: Some((**jti).into()),
            sub: None,
            before: None,
            until,
        });
        let subjects = self.subjects.iter().map(|(sub, &Before { before, until })| Line {
            jti: None,
            sub: Some((**sub).into()),
            before: Some(before),
            until,
        });
        tokens.chain(subjects)
    }

    fn len(&self) -> usize {
        self.tokens.len() + self.subjects.len()
    }

    fn forget(&mut self, now: u64) {
        self.tokens.retain(|_, until| *until > now);
        self.subjects.retain(|_, before| before.until > now);
    }

    /// What was said before holds as well: the later of two times counts. Whether that says
    /// something new.
    fn add(&mut self, line: &Line<'_>) -> bool {
        debug_assert!(line.is_sound(), "it would revoke what nobody has named");
        let said = self.says(line);
        let (is_token, text) = line.key();
        if is_token {
            let kept = self.tokens.entry(text.into()).or_default();
            *kept = line.until.max(*kept);
        } else {
            let new = Before { before: line.before.unwrap_or_default(), until: line.until };
            let kept = self.subjects.entry(text.into()).or_insert(new);
            kept.before = kept.before.max(new.before);
            kept.until = kept.until.max(new.until);
        }
        let now = self.says(line);
        debug_assert!(
            now.is_some_and(|now| said
                .is_none_or(|said| { said.before <= now.before && said.until <= now.until })),
            "what was revoked stays revoked"
        );
        said != now
    }

    /// What is said of the same tokens.
    fn says(&self, line: &Line<'_>) -> Option<Before> {
        let (is_token, text) = line.key();
        if !is_token {
            return self.subjects.get(text).copied();
        }
        self.tokens.get(text).map(|&until| Before { before: 0, until })
    }

    fn covers(&self, grant: &Grant) -> bool {
        let token = |jti: &str| self.tokens.contains_key(jti);
        // A token that does not say when it was made counts as an old one.
        let subject = |sub: &str| {
            let all = self.subjects.get(sub);
            all.is_some_and(|all| grant.issued.is_none_or(|issued| issued < all.before))
        };
        !self.tokens.is_empty() && grant.token.as_deref().is_some_and(token)
            || !self.subjects.is_empty() && grant.subject.as_deref().is_some_and(subject)
    }
}

#[cfg(test)]
mod tests;
