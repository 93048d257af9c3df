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
    reason = "written when the file is read again, and held for a look-up or a sum"
)]

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use hub::EventIds;
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
    /// What its backend has sent.
    sent: Mutex<SentEvents>,
}

/// How far the events of a backend take up its rate.
#[derive(Clone, Copy, Debug, Default)]
struct SentEvents {
    /// Until when, in nanoseconds of the monotonic clock.
    until_ns: u64,
    /// The rate by which that was counted; none if nothing counts.
    per_second: Option<u32>,
}

impl SentEvents {
    /// From `now_ns` on it is counted by another rate. Where that is higher, the events that are
    /// left take up less time. Where it is lower they take up no more: what was sent was allowed,
    /// and nobody waits longer for it than was said.
    fn count_by(&mut self, per_second: u32, now_ns: u64) {
        let before = self.per_second.replace(per_second).unwrap_or(per_second);
        if before < per_second {
            let left_ns = u128::from(self.until_ns.saturating_sub(now_ns));
            let left_ns = (left_ns * u128::from(before)).div_ceil(u128::from(per_second));
            self.until_ns = now_ns + left_ns as u64;
        }
    }
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
    /// second's worth may come at once, and whatever its last request has beyond that. What it has
    /// sent before counts by this rate, also if it had another one then, and not at all once it had
    /// none.
    ///
    /// # Errors
    /// It has sent too many: nanoseconds until it may send again.
    pub fn send(&self, events: u32, per_second: Option<u32>, now_ns: u64) -> Result<(), u64> {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(per_second) = per_second else {
            *sent = SentEvents::default();
            return Ok(());
        };
        sent.count_by(per_second, now_ns);
        let from_ns = sent.until_ns.max(now_ns);
        if from_ns - now_ns >= SECOND_NS {
            return Err(from_ns + 1 - SECOND_NS - now_ns);
        }
        sent.until_ns = from_ns + u64::from(events) * (SECOND_NS / u64::from(per_second));
        Ok(())
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
    /// Those that share channels with ids.
    sharing: Vec<Arc<App>>,
    /// Up to which number events were sent while an app, by its id, had other `ids` than now.
    ids_changed: HashMap<String, u64>,
    usages: HashMap<String, Arc<AppUsage>>,
}

impl AppsRead {
    pub(crate) fn by_key(&self, key: &str) -> Option<ServedApp> {
        self.served(self.apps.by_key(key)?)
    }

    /// Those that share channels with ids.
    pub(crate) fn sharing(&self) -> &[Arc<App>] {
        &self.sharing
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
    /// Some app shares channels with ids. Relaxed: an event that is sent while the file is read
    /// goes by what it says now or by what it said before.
    is_sharing: AtomicBool,
    /// Channels for which subscribers sign may be shared, too: nobody hears an id without a token.
    shares_signed: bool,
    /// Who numbers events, once there is one.
    event_ids: OnceLock<Arc<EventIds>>,
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
        let (read, is_sharing) = (RwLock::default(), AtomicBool::new(false));
        let (shares_signed, event_ids) = (false, OnceLock::new());
        let none =
            PusherApps { version, read, is_sharing, shares_signed, event_ids, cached, notes };
        none.replace(apps);
        none
    }

    /// These apps, which share channels for which subscribers sign, too, if they share any. To be
    /// said where streams need tokens.
    #[must_use]
    pub fn sharing_signed(self, shares_signed: bool) -> PusherApps {
        PusherApps { shares_signed, ..self }
    }

    /// `None` if no app shares channels with ids. Else whether those are shared for which
    /// subscribers sign.
    pub(crate) fn shares(&self) -> Option<bool> {
        self.is_sharing.load(Ordering::Relaxed).then_some(self.shares_signed)
    }

    /// From now on events have numbers of `event_ids`.
    pub(crate) fn set_event_ids(&self, event_ids: &Arc<EventIds>) {
        // A second one is of a test.
        let _ = self.event_ids.set(Arc::clone(event_ids));
    }

    /// Up to which number events were sent while the app with this id had other `ids` than now.
    pub(crate) fn ids_changed(&self, app: &str) -> u64 {
        self.read().ids_changed.get(app).copied().unwrap_or(0)
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
        let sharing: Vec<Arc<App>> = apps.iter().filter(|app| app.ids.is_some()).cloned().collect();
        self.is_sharing.store(!sharing.is_empty(), Ordering::Relaxed);
        let mut ids_changed = read.ids_changed.clone();
        ids_changed.retain(|app, _| apps.by_id(app).is_some());
        let last = self.event_ids.get().map_or(0, |event_ids| event_ids.last());
        for app in read.sharing.iter().chain(&sharing) {
            let ids = |apps: &Apps| apps.by_id(&app.id).and_then(|app| app.ids.clone());
            if ids(&read.apps) != ids(&apps) {
                ids_changed.insert(app.id.clone(), last);
            }
        }
        *read = Arc::new(AppsRead { apps, sharing, ids_changed, usages });
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

    #[test]
    fn what_an_app_has_sent_counts_by_the_rate_that_it_has_now() {
        let (usage, now_ns) = (AppUsage::default(), 5 * SECOND_NS);
        usage.send(1_000, Some(10), now_ns).unwrap();
        assert_eq!(usage.send(1, Some(10), now_ns), Err(99 * SECOND_NS + 1));
        // A second later 990 of them are left.
        let now_ns = now_ns + SECOND_NS;
        assert_eq!(usage.send(1, Some(110), now_ns), Err(8 * SECOND_NS + 1));
        assert_eq!(usage.send(1, Some(990), now_ns), Err(1));
        assert_eq!(usage.send(1, Some(1_980), now_ns), Ok(()), "half a second is left");
        // A lower rate holds from then on, and makes nothing longer that was sent before.
        assert_eq!(usage.send(1, Some(1), now_ns), Ok(()));
        let wait_ns = usage.send(1, Some(1), now_ns).unwrap_err();
        assert!(wait_ns < SECOND_NS, "{wait_ns}");
        // Without a rate nothing is left, also for a rate behind it.
        usage.send(1_000, Some(1), now_ns + 2 * SECOND_NS).unwrap();
        usage.send(1, None, now_ns + 2 * SECOND_NS).unwrap();
        assert_eq!(usage.send(1, Some(1), now_ns + 2 * SECOND_NS), Ok(()));
    }
}
