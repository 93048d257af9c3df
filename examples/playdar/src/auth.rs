//! Who may ask from a web page: tokens that a person granted.
//!
//! A page asks for one (`/auth_1/`), a person allows it on a form whose own token is good once, and
//! for ten minutes (`/auth_2/`). Of a granted token only the hash is stored, so nobody can take
//! them out of the file, and a token is told from a guess by a look-up of that hash.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use parking_lot::Mutex;
use rusqlite::Connection;
use serde::Serialize;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::model::new_id;

/// The database's file in the daemon's directory.
const FILE: &str = "auth.db";

/// Tokens that are good at once; with one more the oldest ends.
const TOKENS_MAX: i64 = 1000;

/// Forms that wait for a person; with one more the oldest is not good any more.
const FORMS_MAX: usize = 1000;

/// How long a form is good.
const FORM_LIFETIME: Duration = Duration::from_secs(600);

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS token (
        number INTEGER PRIMARY KEY AUTOINCREMENT, hash BLOB NOT NULL UNIQUE,
        id TEXT NOT NULL UNIQUE, website TEXT NOT NULL, name TEXT NOT NULL,
        granted INTEGER NOT NULL);
";

/// Tokens and forms.
pub struct Auth {
    db: Mutex<Connection>,
    /// When each form was asked for.
    forms: Mutex<HashMap<String, (Instant, Asker)>>,
}

/// Who asks for a token, as it says itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asker {
    /// The address of its site.
    pub website: String,
    /// What it calls itself.
    pub name: String,
}

/// A granted token, without the token.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Granted {
    /// By which it can be taken back.
    pub id: String,
    /// Whom it was granted to.
    pub website: String,
    /// What that calls itself.
    pub name: String,
    /// In seconds since 1970.
    pub granted: i64,
}

impl Auth {
    /// Opens the tokens in `dir`.
    pub fn open(dir: &Path) -> Result<Auth> {
        let path = dir.join(FILE);
        let db = Connection::open(&path).and_then(|db| {
            db.execute_batch(SCHEMA)?;
            Ok(db)
        });
        let db = db.with_context(|| format!("cannot open {}", path.display()))?;
        Ok(Auth { db: Mutex::new(db), forms: Mutex::default() })
    }

    /// A token for a form, to be shown to a person.
    pub fn form(&self, asker: Asker) -> String {
        let mut forms = self.forms.lock();
        let now = Instant::now();
        forms.retain(|_, (asked, _)| now.duration_since(*asked) < FORM_LIFETIME);
        if forms.len() >= FORMS_MAX {
            let oldest = forms.iter().min_by_key(|(_, (asked, _))| *asked);
            if let Some(oldest) = oldest.map(|(form, _)| form.clone()) {
                forms.remove(&oldest);
            }
        }
        let form = new_id();
        forms.insert(form.clone(), (now, asker));
        form
    }

    /// Whether the form was shown for this asker and not used yet. Now it is.
    pub fn take_form(&self, form: &str, asker: &Asker) -> bool {
        let mut forms = self.forms.lock();
        let taken = forms.remove(form);
        taken.is_some_and(|(asked, shown)| asked.elapsed() < FORM_LIFETIME && shown == *asker)
    }

    /// A new token.
    pub fn grant(&self, asker: &Asker) -> Result<String> {
        let token = new_id();
        let db = self.db.lock();
        db.execute(
            "INSERT INTO token (hash, id, website, name, granted) VALUES (?, ?, ?, ?, ?)",
            (hash(&token), new_id(), &asker.website, &asker.name, now_s()),
        )?;
        let beyond = "DELETE FROM token WHERE number NOT IN
            (SELECT number FROM token ORDER BY number DESC LIMIT ?)";
        db.execute(beyond, [TOKENS_MAX])?;
        Ok(token)
    }

    /// Whether the token is good.
    pub fn is_good(&self, token: &str) -> bool {
        let db = self.db.lock();
        let find = db.prepare_cached("SELECT 1 FROM token WHERE hash = ?");
        find.and_then(|mut find| find.exists([hash(token)])).unwrap_or(false)
    }

    /// Takes back the token, which only its holder can name; says whether it was good.
    pub fn revoke(&self, token: &str) -> bool {
        let revoke = "DELETE FROM token WHERE hash = ?";
        self.db.lock().execute(revoke, [hash(token)]).is_ok_and(|count| count > 0)
    }

    /// Takes back the token of this id, which stands in the list; says whether there was one.
    pub fn revoke_id(&self, id: &str) -> bool {
        let revoke = "DELETE FROM token WHERE id = ?";
        self.db.lock().execute(revoke, [id]).is_ok_and(|count| count > 0)
    }

    /// All that are good, the last one first.
    pub fn granted(&self) -> Result<Vec<Granted>> {
        let db = self.db.lock();
        let mut all =
            db.prepare_cached("SELECT id, website, name, granted FROM token ORDER BY number DESC")?;
        let all = all.query_map([], |row| {
            let (id, website) = (row.get(0)?, row.get(1)?);
            Ok(Granted { id, website, name: row.get(2)?, granted: row.get(3)? })
        })?;
        Ok(all.collect::<rusqlite::Result<_>>()?)
    }
}

/// Tokens are 122 random bits, so a plain hash of one tells nothing of it.
fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

fn now_s() -> i64 {
    (sys::clock::unix_ms() / 1000).try_into().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asker(name: &str) -> Asker {
        Asker { website: "http://a.example/".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn token_is_good_until_it_is_revoked_and_is_not_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let auth = Auth::open(dir.path()).unwrap();
        let (one, two) = (auth.grant(&asker("a")).unwrap(), auth.grant(&asker("b")).unwrap());
        assert!(auth.is_good(&one) && auth.is_good(&two) && !auth.is_good("guess"));
        let bytes = std::fs::read(dir.path().join(FILE)).unwrap();
        assert!(!bytes.windows(36).any(|window| window == one.as_bytes()));
        let first = auth.granted().unwrap().remove(0);
        assert_eq!(first.name, "b");
        assert!(!auth.revoke(&first.id) && !auth.revoke_id(&one));
        assert!(auth.revoke_id(&first.id) && auth.revoke(&one) && !auth.revoke(&one));
        assert!(!auth.is_good(&one) && !auth.is_good(&two));
    }

    #[tokio::test(start_paused = true)]
    async fn form_is_good_once_for_its_asker_and_for_ten_minutes() {
        let dir = tempfile::tempdir().unwrap();
        let auth = Auth::open(dir.path()).unwrap();
        let form = auth.form(asker("a"));
        assert!(auth.take_form(&form, &asker("a")) && !auth.take_form(&form, &asker("a")));
        let form = auth.form(asker("a"));
        assert!(!auth.take_form(&form, &asker("b")));
        let old = auth.form(asker("a"));
        tokio::time::advance(FORM_LIFETIME).await;
        assert!(!auth.take_form(&old, &asker("a")));
        for _ in 0..FORMS_MAX + 10 {
            auth.form(asker("a"));
        }
        assert_eq!(auth.forms.lock().len(), FORMS_MAX);
    }
}
