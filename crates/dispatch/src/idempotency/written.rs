//! The keys as one process writes them down, and as the one that goes on with its work reads them.
//!
//! They are written in parts, the oldest first, while sends go on: what is answered does not change
//! any more. When no event is posted any more the rest follows. A key is remembered for as long
//! as it has left where it was written: what the way takes comes on top, so none is forgotten
//! early. A repeat is known by the same hashes, so their secret goes along.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::key::Hasher;
use super::remembered::Outcome;
use super::{Delivered, IdempotencyKeys, KEYS_MAX, Progress, REMEMBERED};

/// What the hashes are made by. It changes with [`Hasher`].
const SCHEME: u32 = 1;

/// Some of the keys.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KeysPart {
    /// How the hashes are made.
    scheme: u32,
    /// The secret in them, in hexadecimal digits.
    secret: String,
    keys: Vec<WrittenKey>,
}

/// A key whose event is posted.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct WrittenKey {
    /// The hashes, in hexadecimal digits.
    key: String,
    body: String,
    /// For how long it is remembered yet.
    left_ms: u64,
    /// The event's id.
    id: String,
    delivered: u32,
    /// Nobody has heard how many more.
    at_least: bool,
    /// It should be on disk, and is not known to be.
    not_durable: bool,
}

/// A part that was written, and how to go on.
#[derive(Debug)]
pub struct KeysRead {
    /// The keys.
    pub part: KeysPart,
    /// Where the next part begins.
    pub next: u64,
    /// Whether this was all that there is so far.
    pub is_all: bool,
}

/// Why keys cannot be taken over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeysFault {
    /// Their hashes are made in another way.
    #[error("its idempotency keys are hashed in another way")]
    Scheme,
    /// They are not those of this secret.
    #[error("its idempotency keys are hashed with another secret")]
    Secret,
    /// They are malformed.
    #[error("its idempotency keys cannot be read")]
    Malformed,
}

impl IdempotencyKeys {
    /// Writes at most `most` keys down, from the place `from` on, which is 0 at first; no further
    /// than to the first whose event is not counted yet. With `uncounted` those are written too:
    /// their repeats will hear that nobody knows the count.
    pub fn write(&self, from: u64, most: usize, uncounted: bool) -> KeysRead {
        let now_ms = self.now_ms();
        let (mut keys, mut next, mut is_all) = (Vec::new(), from, true);
        let table = self.table();
        for (place, entry) in table.remembered_from(from) {
            let some = |id| Delivered { id, count: 0, at_least: true };
            let answer = match &entry.outcome {
                Outcome::Answered(answer) => Some((*answer, false)),
                Outcome::Posted(progress) => match *progress.borrow() {
                    Progress::Answered(answer) => Some((answer, false)),
                    Progress::Posted(id) if uncounted => Some((some(id), false)),
                    Progress::NotDurable(id) => Some((some(id), true)),
                    _ => None,
                },
            };
            let Some((answer, not_durable)) = answer.filter(|_| keys.len() < most) else {
                is_all = false;
                break;
            };
            keys.push(WrittenKey {
                key: format!("{:032x}", entry.key),
                body: format!("{:032x}", entry.body),
                left_ms: entry.until_ms.saturating_sub(now_ms),
                id: String::from_utf8_lossy(&answer.id).into_owned(),
                delivered: answer.count,
                at_least: answer.at_least,
                not_durable,
            });
            next = place + 1;
        }
        let secret = format!("{:032x}", u128::from_be_bytes(self.hasher.secret()));
        KeysRead { part: KeysPart { scheme: SCHEME, secret, keys }, next, is_all }
    }

    /// Keys that go on with those of which `part` is one. It is not taken yet.
    pub fn successor(part: &KeysPart) -> Result<Arc<IdempotencyKeys>, KeysFault> {
        let hasher = Hasher::with(part.secret()?);
        Ok(IdempotencyKeys::with_bounds(hasher, KEYS_MAX, REMEMBERED))
    }

    /// Takes a part; how many keys were new.
    pub fn take_over(&self, part: &KeysPart) -> Result<u64, KeysFault> {
        if part.secret()? != self.hasher.secret() {
            return Err(KeysFault::Secret);
        }
        let (now_ms, mut new) = (self.now_ms(), 0);
        for key in &part.keys {
            let (hash, body) = (hash(&key.key)?, hash(&key.body)?);
            let id = key.id.as_bytes().try_into().map_err(|_| KeysFault::Malformed)?;
            let outcome = match key.not_durable {
                // Nobody says more of it.
                true => Outcome::Posted(watch::channel(Progress::NotDurable(id)).1),
                false => {
                    let (count, at_least) = (key.delivered, key.at_least);
                    Outcome::Answered(Delivered { id, count, at_least })
                }
            };
            // No longer than a key of its own, whatever is written.
            let left_ms = key.left_ms.min(REMEMBERED.as_millis() as u64);
            new += u64::from(self.table().take_over(hash, body, outcome, now_ms + left_ms));
        }
        Ok(new)
    }
}

impl KeysPart {
    fn secret(&self) -> Result<[u8; 16], KeysFault> {
        if self.scheme != SCHEME {
            return Err(KeysFault::Scheme);
        }
        Ok(hash(&self.secret)?.to_be_bytes())
    }
}

fn hash(text: &str) -> Result<u128, KeysFault> {
    u128::from_str_radix(text, 16).map_err(|_| KeysFault::Malformed)
}

#[cfg(test)]
mod tests {
    use super::super::{Claimed, IdempotencyKey, KeyHolder};
    use super::*;

    const ID: [u8; 16] = *b"2F3y6mQsYKmaB3xZ";

    fn claim(keys: &Arc<IdempotencyKeys>, key: &str, data: &str) -> Claimed {
        keys.claim(KeyHolder::Application("me"), &IdempotencyKey::new(key).unwrap(), "rj", data)
            .unwrap()
    }

    fn post(keys: &Arc<IdempotencyKeys>, key: &str) -> super::super::Uncounted {
        match claim(keys, key, "1") {
            Claimed::First(claim) => claim.posted(ID),
            other => panic!("{other:?}"),
        }
    }

    /// A part as it comes over the wire.
    fn sent(part: &KeysPart) -> KeysPart {
        serde_json::from_str(&serde_json::to_string(part).unwrap()).unwrap()
    }

    #[test]
    fn repeat_hears_from_the_successor_what_it_would_have_heard_before() {
        let old = IdempotencyKeys::new().unwrap();
        for (count, key) in ["a", "b", "c"].into_iter().enumerate() {
            post(&old, key).counted(count as u32, false);
        }
        let first = old.write(0, 2, false);
        assert_eq!((first.part.keys.len(), first.next, first.is_all), (2, 2, false));
        let new = IdempotencyKeys::successor(&sent(&first.part)).unwrap();
        assert_eq!(new.take_over(&sent(&first.part)), Ok(2));
        assert_eq!(new.take_over(&sent(&first.part)), Ok(0), "a second time they are known");
        let _claimed = claim(&old, "claimed", "1");
        let uncounted = post(&old, "d");
        let second = old.write(first.next, 100, false);
        assert_eq!((second.next, second.is_all), (3, false), "up to the first without a count");
        assert_eq!(new.take_over(&sent(&second.part)), Ok(1));
        let last = old.write(second.next, 100, true);
        assert_eq!((last.next, last.is_all), (4, true));
        assert_eq!(new.take_over(&sent(&last.part)), Ok(1));
        drop(uncounted);
        for (key, count, at_least) in
            [("a", 0, false), ("b", 1, false), ("c", 2, false), ("d", 0, true)]
        {
            let Claimed::Answered(answer) = claim(&new, key, "1") else { panic!("{key}") };
            assert_eq!(answer, Delivered { id: ID, count, at_least }, "{key}");
        }
        let refused =
            new.claim(KeyHolder::Application("me"), &IdempotencyKey::new("a").unwrap(), "rj", "2");
        assert!(refused.is_err(), "it is no repeat");
        assert!(matches!(claim(&new, "claimed", "1"), Claimed::First(_)), "it was not posted");
    }

    /// A disk that has failed once holds up none of the keys behind it.
    #[test]
    fn key_whose_event_is_perhaps_not_on_disk_goes_along_with_all_behind_it() {
        let old = IdempotencyKeys::new().unwrap();
        post(&old, "a").not_durable();
        post(&old, "b").counted(1, false);
        let read = old.write(0, 100, true);
        assert_eq!((read.part.keys.len(), read.next, read.is_all), (2, 2, true));
        let new = IdempotencyKeys::successor(&sent(&read.part)).unwrap();
        assert_eq!(new.take_over(&sent(&read.part)), Ok(2));
        let Claimed::UnderWay(progress) = claim(&new, "a", "1") else { panic!("it was posted") };
        assert!(matches!(*progress.borrow(), Progress::NotDurable(ID)));
        assert!(matches!(claim(&new, "b", "1"), Claimed::Answered(_)));
    }

    #[test]
    fn no_key_is_forgotten_early_and_the_order_of_their_ends_stays() {
        let old = IdempotencyKeys::new().unwrap();
        post(&old, "a").counted(1, false);
        post(&old, "b").counted(1, false);
        let KeysRead { mut part, .. } = old.write(0, 100, false);
        part.keys[0].left_ms = 9_000;
        part.keys[1].left_ms = 2_000;
        let new = IdempotencyKeys::successor(&part).unwrap();
        let before_ms = new.now_ms();
        new.take_over(&part).unwrap();
        let table = new.table();
        let ends: Vec<u64> = table.remembered_from(0).map(|(_, entry)| entry.until_ms).collect();
        assert!(ends[0] >= before_ms + 9_000 && ends[1] >= ends[0], "{ends:?}");
    }

    #[test]
    fn keys_of_another_kind_are_refused() {
        let old = IdempotencyKeys::new().unwrap();
        let KeysRead { part, .. } = old.write(0, 100, false);
        let other = IdempotencyKeys::new().unwrap();
        assert_eq!(other.take_over(&part), Err(KeysFault::Secret));
        let later = KeysPart { scheme: SCHEME + 1, ..part.clone() };
        assert_eq!(IdempotencyKeys::successor(&later).unwrap_err(), KeysFault::Scheme);
        let malformed = KeysPart { secret: "x".to_owned(), ..part };
        assert_eq!(IdempotencyKeys::successor(&malformed).unwrap_err(), KeysFault::Malformed);
        let nothing: KeysPart = serde_json::from_str("{}").unwrap();
        assert_eq!(IdempotencyKeys::successor(&nothing).unwrap_err(), KeysFault::Scheme);
    }
}
