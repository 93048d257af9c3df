//! The sessions of the dashboard: which key stands behind a cookie.
//!
//! They live in memory alone: after a start of the server one logs in again, but not after an
//! upgrade, which hands them on. A session holds its
//! key's id and nothing of its own, so it ends with the key. What is kept is the hash of the
//! cookie, so the time of a look-up tells nothing about it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

/// How long a session lasts: a working day.
pub(in crate::api) const SESSION_TIME: Duration = Duration::from_secs(12 * 3600);

/// Sessions at one time, 1,024 of about 100 bytes. Past it the oldest ends.
const SESSIONS_MAX: usize = 1024;

/// All sessions.
#[derive(Debug, Default)]
pub(in crate::api) struct Sessions(Mutex<HashMap<[u8; 32], Session>>);

#[derive(Debug)]
struct Session {
    key_id: String,
    began: Instant,
}

/// A session as one process writes it down and another reads it. The hash opens nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::api) struct WrittenSession {
    /// The hash of its cookie.
    cookie: String,
    key_id: String,
    age_ms: u64,
}

impl Sessions {
    /// Begins one for the key of that id; its cookie.
    pub(in crate::api) fn begin(&self, key_id: &str) -> Result<String, getrandom::Error> {
        let mut cookie = [0; 32];
        getrandom::fill(&mut cookie)?;
        let cookie = URL_SAFE_NO_PAD.encode(cookie);
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.len() >= SESSIONS_MAX {
            sessions.retain(|_, session| session.began.elapsed() < SESSION_TIME);
            let oldest = sessions.iter().min_by_key(|(_, session)| session.began);
            let oldest = oldest.map(|(hash, _)| *hash);
            if let Some(oldest) = oldest.filter(|_| sessions.len() >= SESSIONS_MAX) {
                sessions.remove(&oldest);
            }
        }
        let session = Session { key_id: key_id.to_owned(), began: Instant::now() };
        sessions.insert(hash(&cookie), session);
        debug_assert!(sessions.len() <= SESSIONS_MAX);
        Ok(cookie)
    }

    /// The id of the key behind `cookie`.
    pub(super) fn key_of(&self, cookie: &str) -> Option<String> {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let session = sessions.get(&hash(cookie))?;
        (session.began.elapsed() < SESSION_TIME).then(|| session.key_id.clone())
    }

    /// All that last, for the process that goes on with them.
    pub(super) fn write(&self) -> Vec<WrittenSession> {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let written = |(hash, session): (&[u8; 32], &Session)| WrittenSession {
            cookie: URL_SAFE_NO_PAD.encode(hash),
            key_id: session.key_id.clone(),
            age_ms: session.began.elapsed().as_millis() as u64,
        };
        sessions.iter().map(written).collect()
    }

    /// Goes on with those of the process before; what is none of them is left out.
    pub(super) fn take_over(&self, written: Vec<WrittenSession>) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for WrittenSession { cookie, key_id, age_ms } in written.into_iter().take(SESSIONS_MAX) {
            let hash = URL_SAFE_NO_PAD.decode(cookie).ok().and_then(|hash| hash.try_into().ok());
            let began = Instant::now().checked_sub(Duration::from_millis(age_ms));
            if let (Some(hash), Some(began)) = (hash, began) {
                sessions.insert(hash, Session { key_id, began });
            }
        }
    }

    /// Ends one.
    pub(in crate::api) fn end(&self, cookie: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&hash(cookie));
    }
}

fn hash(cookie: &str) -> [u8; 32] {
    Sha256::digest(cookie).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn sessions_are_bounded_in_number_and_time() {
        let sessions = Sessions::default();
        let first = sessions.begin("a").unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        let rest: Vec<_> = (0..SESSIONS_MAX).map(|_| sessions.begin("b").unwrap()).collect();
        assert_eq!(sessions.0.lock().unwrap().len(), SESSIONS_MAX);
        assert_eq!(sessions.key_of(&first), None, "the oldest has made room");
        assert!(rest.iter().all(|cookie| sessions.key_of(cookie).as_deref() == Some("b")));
        sessions.end(&rest[0]);
        assert_eq!(sessions.key_of(&rest[0]), None);
        tokio::time::advance(SESSION_TIME).await;
        assert_eq!(sessions.key_of(&rest[1]), None, "its time is over");
    }

    #[tokio::test(start_paused = true)]
    async fn session_goes_on_in_another_process_and_ends_when_it_would_have() {
        let (sessions, successor) = (Sessions::default(), Sessions::default());
        tokio::time::advance(SESSION_TIME).await;
        let cookie = sessions.begin("a").unwrap();
        tokio::time::advance(SESSION_TIME / 2).await;
        let mut written = sessions.write();
        written.push(WrittenSession { cookie: "no hash".into(), ..written[0].clone() });
        successor.take_over(written);
        assert_eq!(successor.key_of(&cookie).as_deref(), Some("a"));
        assert_eq!(successor.0.lock().unwrap().len(), 1);
        tokio::time::advance(SESSION_TIME / 2).await;
        assert_eq!(successor.key_of(&cookie), None);
    }
}
