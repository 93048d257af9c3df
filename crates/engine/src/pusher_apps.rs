//! The apps of the Pusher protocol as they are now: read by workers and by the HTTP API, replaced
//! as a whole when their file is read again.
//!
//! What an app uses lives on over a reload, and also where the app is taken out and put in again:
//! its connections are still there.
//!
//! Cost: a worker looks at one number for each request and each signature, and takes the lock when
//! that has changed.

#![expect(
    clippy::disallowed_types,
    reason = "it is written when the file is read again, and held for a look-up"
)]

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use pusher::{App, Apps};

use crate::cached::CachedEvents;
use crate::channel_notes::ChannelNotes;

const SECOND_NS: u64 = 1_000_000_000;

/// An app, and what it uses.
#[derive(Clone, Debug)]
pub struct ServedApp {
    /// The app as its file has it.
    pub app: Arc<App>,
    /// What it uses.
    pub usage: Arc<AppUsage>,
}

/// What one app uses at all workers together.
#[derive(Debug, Default)]
pub struct AppUsage {
    /// Relaxed: a bound that is good to within what workers let in at one moment.
    connections: AtomicU32,
    /// Until when what its backend has sent takes up its rate, in nanoseconds of the monotonic
    /// clock. Relaxed: it is one number, and nothing else goes by it.
    sent_until_ns: AtomicU64,
}

impl AppUsage {
    /// How many connections it has.
    pub fn connections(&self) -> u32 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Counts one more, unless it has `most`. Whether it did.
    pub(crate) fn take(&self, most: Option<u32>) -> bool {
        let most = most.unwrap_or(u32::MAX);
        let more = |count: u32| (count < most).then(|| count + 1);
        self.connections.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Counts `events` that its backend sends at `now_ns`, if it may have so many a second. A
    /// second's worth may come at once, and whatever its last request has beyond that.
    ///
    /// # Errors
    /// It has sent too many: nanoseconds until it may send again.
    pub fn send(&self, events: u32, per_second: Option<u32>, now_ns: u64) -> Result<(), u64> {
        let Some(per_second) = per_second else { return Ok(()) };
        let takes_ns = u64::from(events) * (SECOND_NS / u64::from(per_second));
        let more = |until_ns: u64| {
            let from_ns = until_ns.max(now_ns);
            (from_ns - now_ns < SECOND_NS).then(|| from_ns + takes_ns)
        };
        match self.sent_until_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(()),
            Err(until_ns) => Err(until_ns + 1 - SECOND_NS - now_ns),
        }
    }

    /// Takes back one [`AppUsage::take`].
    pub(crate) fn give_back(&self) {
        let before = self.connections.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "it is given back once");
    }
}

/// All apps of one reading of the file.
#[derive(Debug, Default)]
pub(crate) struct AppsRead {
    apps: Apps,
    usages: HashMap<String, Arc<AppUsage>>,
}

impl AppsRead {
    pub(crate) fn by_key(&self, key: &str) -> Option<ServedApp> {
        self.served(self.apps.by_key(key)?)
    }

    fn served(&self, app: &Arc<App>) -> Option<ServedApp> {
        let usage = Arc::clone(self.usages.get(&app.key)?);
        Some(ServedApp { app: Arc::clone(app), usage })
    }
}

/// The apps as they are now.
pub struct PusherApps {
    /// Release and acquire: who sees a new version finds its apps behind the lock.
    version: AtomicU64,
    read: RwLock<Arc<AppsRead>>,
    /// The last events of their channels that cache those.
    cached: CachedEvents,
    /// Who comes to their channels and goes.
    notes: ChannelNotes,
}

impl PusherApps {
    /// These apps, which nobody uses yet.
    pub fn new(apps: Apps) -> PusherApps {
        let (version, cached) = (AtomicU64::new(0), CachedEvents::default());
        let notes = ChannelNotes::default();
        let none = PusherApps { version, read: RwLock::default(), cached, notes };
        none.replace(apps);
        none
    }

    /// From now on these are the apps. Connections of those that are gone stay.
    pub fn replace(&self, apps: Apps) {
        let mut read = self.read.write().unwrap_or_else(PoisonError::into_inner);
        // What nobody uses any more is forgotten, or each reload with new keys would leave some.
        let used = read.usages.iter().filter(|(_, usage)| usage.connections() > 0);
        let mut usages: HashMap<_, _> =
            used.map(|(key, usage)| (key.clone(), Arc::clone(usage))).collect();
        for app in apps.iter() {
            let known = read.usages.get(&app.key).cloned();
            usages.entry(app.key.clone()).or_insert_with(|| known.unwrap_or_default());
        }
        *read = Arc::new(AppsRead { apps, usages });
        self.version.fetch_add(1, Ordering::Release);
    }

    /// The app that clients call so.
    pub fn by_key(&self, key: &str) -> Option<ServedApp> {
        self.read().by_key(key)
    }

    /// The app that the HTTP API calls so.
    pub fn by_id(&self, id: &str) -> Option<ServedApp> {
        let read = self.read();
        read.served(read.apps.by_id(id)?)
    }

    /// All of them, in no order.
    pub fn all(&self) -> Vec<ServedApp> {
        let read = self.read();
        read.apps.iter().filter_map(|app| read.served(app)).collect()
    }

    /// The last events of channels that cache them.
    pub(crate) fn cached(&self) -> &CachedEvents {
        &self.cached
    }

    /// Who comes to their channels and goes, for the one who tells the apps.
    pub fn notes(&self) -> &ChannelNotes {
        &self.notes
    }

    /// Which reading of the file this is.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn read(&self) -> Arc<AppsRead> {
        Arc::clone(&self.read.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for PusherApps {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PusherApps({})", self.read().apps.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apps(keys: &[&str]) -> Apps {
        let app = |(id, key): (usize, &&str)| {
            format!(r#"{{"id":"{id}","key":"{key}","secret":"a-secret-of-some-length"}}"#)
        };
        let apps: Vec<String> = keys.iter().enumerate().map(app).collect();
        Apps::parse(format!("[{}]", apps.join(",")).as_bytes(), false).unwrap()
    }

    #[test]
    fn connections_of_an_app_are_counted_over_reloads() {
        let live = PusherApps::new(apps(&["a", "b"]));
        let (version, a) = (live.version(), live.by_key("a").unwrap());
        assert!(a.usage.take(Some(2)) && a.usage.take(Some(2)));
        assert!(!a.usage.take(Some(2)), "it has as many as it may");
        live.replace(apps(&["b"]));
        assert!(live.by_key("a").is_none() && live.version() > version);
        assert_eq!(live.by_id("0").unwrap().app.key, "b");
        live.replace(apps(&["b", "a"]));
        let again = live.by_key("a").unwrap().usage;
        assert!(Arc::ptr_eq(&again, &a.usage) && again.connections() == 2);
        a.usage.give_back();
        a.usage.give_back();
        live.replace(apps(&["b"]));
        assert_eq!(live.read().usages.len(), 1, "of what is gone nothing is kept");
        assert_eq!(live.all().len(), 1);
    }

    #[test]
    fn app_sends_a_second_s_worth_at_once_and_then_at_its_rate() {
        let (usage, rate, start_ns) = (AppUsage::default(), Some(10), 5 * SECOND_NS);
        let send = |events, now_ns| usage.send(events, rate, now_ns);
        (0..10).for_each(|_| send(1, start_ns).unwrap());
        let wait_ns = send(1, start_ns).unwrap_err();
        assert_eq!(send(1, start_ns + wait_ns - 1), Err(1));
        assert_eq!(send(1, start_ns + wait_ns), Ok(()));
        // One request may be larger than a second's worth: those behind it wait the longer.
        let late_ns = start_ns + 60 * SECOND_NS;
        assert_eq!((send(100, late_ns), send(1, late_ns)), (Ok(()), Err(9 * SECOND_NS + 1)));
        assert_eq!(usage.send(1, None, late_ns), Ok(()), "without a rate there is no bound");
    }
}
