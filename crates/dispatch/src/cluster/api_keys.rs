//! Keys of the API, which are good at all nodes or at none.
//!
//! Each node has a file of them, which commands change ([`auth::keys`]), and beside those there is
//! a value of the cluster in NATS. A node puts both together every two seconds, and before its API
//! takes the first call. What one of them has, the other gets, and a key that is revoked in one is
//! revoked in both. So a node that was away hears of it before it lets anybody in, what NATS has
//! lost comes back, and without NATS each file goes on to be good.
//!
//! Whoever may write in NATS may send and revoke there as well; hashes tell nobody a key.

use std::time::Duration;

use auth::keys::{KeyFile, KeyFileError, KeyRecord};
use nats::{Bytes, LogError, NatsClient, NotSwapped, Proposal, VALUE_BYTES_MAX};
use serde::{Deserialize, Serialize};
use sys::clock;
use tokio::sync::watch;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::{Instant, sleep};

use super::agreement::{AGREE_PAUSE, AGREE_TIMEOUT};
use super::status::NodeStatus;

/// The value in NATS. A thousand keys without patterns are 200 KB of its 256.
const VALUE: &str = "api-keys";

/// Which form it has.
const FORMAT: &str = "encke-api-keys-1";

/// How often file and value are compared.
const EVERY: Duration = Duration::from_secs(2);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeysValue {
    format: String,
    keys: Vec<KeyRecord>,
}

/// Why keys are not those of all nodes.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeysTrouble {
    #[error(transparent)]
    File(#[from] KeyFileError),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    NotKept(#[from] NotSwapped),
    #[error("the cluster's value {VALUE:?} in NATS cannot be read: is it of a newer Encke?")]
    Unreadable,
    #[error(
        "all keys of the cluster are {0} bytes, and NATS keeps {VALUE_BYTES_MAX}: \
         make some with fewer --about, and revoke others"
    )]
    Full(usize),
    #[error(transparent)]
    Ended(#[from] JoinError),
}

impl KeysTrouble {
    fn is_passing(&self) -> bool {
        match self {
            KeysTrouble::Log(error) => error.is_passing(),
            KeysTrouble::NotKept(not) => not.error.is_passing(),
            _ => false,
        }
    }

    /// Whether some keys have no room in the value or in the file, and all else was done.
    fn is_for_room(&self) -> bool {
        matches!(self, KeysTrouble::Full(_) | KeysTrouble::File(KeyFileError::Wish(_)))
    }
}

/// Joins both before the API takes a call. Servers of NATS may be without a leader for a moment.
/// Where there are more keys than all have room for, those of the file are good here.
pub(super) async fn join_first(nats: &NatsClient, file: &KeyFile) -> Result<(), KeysTrouble> {
    let deadline = Instant::now() + AGREE_TIMEOUT;
    loop {
        match join(nats, file).await {
            Err(error) if error.is_passing() && Instant::now() < deadline => {
                sleep(AGREE_PAUSE).await;
            }
            Err(error) if error.is_for_room() => {
                tracing::error!("keys are not the same at all nodes: {error}");
                return Ok(());
            }
            joined => return joined,
        }
    }
}

/// Joins both again and again, for as long as the node lives.
pub(super) async fn join_all(nats: NatsClient, file: KeyFile, status: watch::Receiver<NodeStatus>) {
    let mut told = None;
    while status.has_changed().is_ok() {
        sleep(EVERY).await;
        let trouble = join(&nats, &file).await.err();
        // That NATS is away is told elsewhere.
        let trouble = trouble.filter(|trouble| !trouble.is_passing()).map(|why| why.to_string());
        if let Some(why) = trouble.as_ref().filter(|why| told.as_ref() != Some(*why)) {
            tracing::error!("keys are not the same at all nodes: {why}");
        }
        told = trouble;
    }
}

/// Puts both together. Where another node was quicker, what it wrote counts the next time.
async fn join(nats: &NatsClient, file: &KeyFile) -> Result<(), KeysTrouble> {
    let there = nats.value(VALUE).await?;
    let revision = there.as_ref().map_or(0, |entry| entry.revision);
    let known = there.map_or(Ok(Vec::new()), |entry| read(&entry.value))?;
    let (file, others) = (file.clone(), known.clone());
    let joined = spawn_blocking(move || match file.join(&others, clock::unix_ms() / 1000) {
        Err(full @ KeyFileError::Wish(_)) => {
            let here = file.read()?.unwrap_or_default();
            Ok((with_revoked(others, &here), 0, Some(full)))
        }
        joined => joined.map(|(keys, changes)| (keys, changes, None)),
    });
    let (mut keys, changes, no_room) = joined.await??;
    let no_room = no_room.map(KeysTrouble::File);
    if changes > 0 {
        tracing::info!("{changes} keys were made or revoked at other nodes");
    }
    keys.sort_unstable_by(|one, other| one.id.cmp(&other.id));
    if keys == known {
        return no_room.map_or(Ok(()), Err);
    }
    let (value, full) = to_write(keys, &known)?;
    if let Some(value) = value {
        match nats.swap(VALUE, revision, value).await? {
            Proposal::Taken(_) | Proposal::Lost => {}
        }
    }
    no_room.or(full).map_or(Ok(()), Err)
}

/// The keys of the cluster where new ones have no room in the file: what is revoked `here` is so at
/// all nodes nevertheless. Of two times the file has the first one already.
fn with_revoked(mut others: Vec<KeyRecord>, here: &[KeyRecord]) -> Vec<KeyRecord> {
    for other in &mut others {
        let key = here.iter().find(|key| key.id == other.id);
        other.revoked = key.and_then(|key| key.revoked).or(other.revoked);
    }
    others
}

/// What is to be written of `keys` where `known` is written, if anything, and why it is not all.
/// New ones may have no room. What is revoked is so at all nodes nevertheless.
fn to_write(
    mut keys: Vec<KeyRecord>,
    known: &[KeyRecord],
) -> Result<(Option<Bytes>, Option<KeysTrouble>), KeysTrouble> {
    let full = match written(keys.clone()) {
        Ok(value) => return Ok((Some(value), None)),
        Err(full) => full,
    };
    keys.retain(|key| known.iter().any(|other| other.id == key.id));
    let value = if keys == known { None } else { Some(written(keys)?) };
    Ok((value, Some(full)))
}

fn written(keys: Vec<KeyRecord>) -> Result<Bytes, KeysTrouble> {
    let bytes = serde_json::to_vec(&KeysValue { format: FORMAT.to_owned(), keys });
    let bytes = Bytes::from(bytes.expect("plain values"));
    if bytes.len() > VALUE_BYTES_MAX {
        return Err(KeysTrouble::Full(bytes.len()));
    }
    Ok(bytes)
}

fn read(bytes: &[u8]) -> Result<Vec<KeyRecord>, KeysTrouble> {
    let value: Option<KeysValue> = serde_json::from_slice(bytes).ok();
    let is_ours =
        |value: &KeysValue| value.format == FORMAT && value.keys.iter().all(KeyRecord::is_sound);
    let value = value.filter(is_ours);
    value.map(|value| value.keys).ok_or(KeysTrouble::Unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use auth::keys::{NewKey, Scope};

    fn key() -> KeyRecord {
        let dir = tempfile::tempdir().unwrap();
        let wish = NewKey { scopes: vec![Scope::Read], about: Vec::new(), expires: None };
        KeyFile::in_dir(dir.path()).make(&wish, 1).unwrap().0
    }

    #[test]
    fn value_is_read_back_and_anything_else_is_refused() {
        let good = written(vec![key()]).unwrap();
        assert_eq!(read(&good).unwrap().len(), 1);
        let text = str::from_utf8(&good).unwrap();
        for (part, wrong) in [
            ("encke-api-keys-1", "encke-api-keys-2"),
            ("[\"read\"]", "[]"),
            ("\"id\":\"", "\"id\":\"\\u001b["),
            ("\"created\"", "\"more\":1,\"created\""),
        ] {
            let other = text.replace(part, wrong);
            assert!(other != text && read(other.as_bytes()).is_err(), "{other}");
        }
        assert!(read(b"").is_err() && read(&good[..good.len() - 1]).is_err());
    }

    #[test]
    fn more_keys_than_a_value_holds_are_refused() {
        let key = key();
        assert!(written(vec![key.clone(); 1_000]).is_ok(), "those of one file have room");
        let full = written(vec![key; 2_000]).unwrap_err();
        assert!(matches!(full, KeysTrouble::Full(_)) && full.is_for_room());
        assert!(!KeysTrouble::Unreadable.is_for_room(), "such a value may revoke anything");
    }

    #[test]
    fn what_is_revoked_is_written_where_new_keys_have_no_room() {
        let known = key();
        let (mut revoked, mut new) = (known.clone(), known.clone());
        revoked.revoked = Some(2);
        new.id = "0123456789ab".to_owned();
        let with_new = |key: &KeyRecord| [vec![new.clone(); 2_000], vec![key.clone()]].concat();
        let is_full = |full: Option<KeysTrouble>| matches!(full, Some(KeysTrouble::Full(_)));
        let known = [known];
        let (value, full) = to_write(with_new(&revoked), &known).unwrap();
        assert_eq!(read(&value.unwrap()).unwrap(), std::slice::from_ref(&revoked));
        assert!(is_full(full));
        let (value, full) = to_write(with_new(&known[0]), &known).unwrap();
        assert!(value.is_none() && is_full(full), "there is nothing to be written");
        let others = vec![known[0].clone(), new];
        assert_eq!(with_revoked(others.clone(), &known), others);
        let with_revoked = with_revoked(others.clone(), std::slice::from_ref(&revoked));
        assert_eq!(with_revoked, [revoked, others[1].clone()]);
    }
}
