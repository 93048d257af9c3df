//! The paths in memory: those in use, and some of those that were.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::stream::{Public, Stream};

/// Streams in use that are kept in memory, beside those of requests under way.
pub(crate) const CACHE_MAX: usize = 4_096;

/// Bytes of their states past which those that nobody uses are dropped, too: one with all producers
/// that it may have takes a megabyte.
pub(crate) const STATES_BYTES_MAX: usize = 32 << 20;

/// The paths in memory, whether there is a stream at them or not.
#[derive(Debug)]
pub(crate) struct Cache {
    paths: Mutex<CachedPaths>,
    /// Bytes of all states in memory. Relaxed: a bound may be passed by what is under way.
    states_bytes: AtomicUsize,
}

#[derive(Debug)]
struct CachedPaths {
    streams: HashMap<Box<str>, Arc<Stream>>,
    /// At how many those that nobody uses are dropped, and at how many bytes of states.
    drop_at: usize,
    drop_at_bytes: usize,
}

impl Cache {
    /// A cache of nothing.
    pub(crate) fn new() -> Cache {
        let (streams, drop_at, drop_at_bytes) = (HashMap::new(), CACHE_MAX, STATES_BYTES_MAX);
        let paths = CachedPaths { streams, drop_at, drop_at_bytes };
        Cache { paths: Mutex::new(paths), states_bytes: AtomicUsize::new(0) }
    }

    /// The path, if it is in memory.
    pub(crate) fn find(&self, path: &str) -> Option<Arc<Stream>> {
        self.paths.lock().streams.get(path).map(Arc::clone)
    }

    /// The path in use.
    pub(crate) fn stream(&self, path: &str) -> Arc<Stream> {
        let mut paths = self.paths.lock();
        if let Some(stream) = paths.streams.get(path) {
            return Arc::clone(stream);
        }
        let states = self.states_bytes();
        if paths.streams.len() >= paths.drop_at || states >= paths.drop_at_bytes {
            // Where there is no stream, the next who asks looks into a directory. A stream's file
            // would be read as a whole: whoever asks for what is not there must not bring that on.
            let idle = self.drop_idle(&mut paths, |public| public.meta.is_some());
            if idle >= CACHE_MAX / 2 || states >= paths.drop_at_bytes {
                self.drop_idle(&mut paths, |_| false);
            }
            paths.drop_at = CACHE_MAX.max(2 * paths.streams.len());
            paths.drop_at_bytes = STATES_BYTES_MAX.max(2 * self.states_bytes());
        }
        let stream = Stream::new(path);
        paths.streams.insert(path.into(), Arc::clone(&stream));
        stream
    }

    /// Drops what nobody uses, but for what `stays`; how many that are.
    fn drop_idle(&self, paths: &mut CachedPaths, stays: impl Fn(&Public) -> bool) -> usize {
        let mut idle = 0;
        paths.streams.retain(|_, stream| {
            // Nobody gets another reference meanwhile.
            if Arc::strong_count(stream) > 1 {
                return true;
            }
            let mut public = stream.public.lock();
            let stays = stays(&public);
            if stays {
                idle += 1;
            } else {
                self.count_state(&mut public, 0);
            }
            stays
        });
        idle
    }

    /// Counts the state of a stream, which takes so many bytes now.
    pub(crate) fn count_state(&self, public: &mut Public, bytes: usize) {
        let before = std::mem::replace(&mut public.state_bytes, bytes);
        self.states_bytes.fetch_add(bytes, Ordering::Relaxed);
        let all = self.states_bytes.fetch_sub(before, Ordering::Relaxed);
        debug_assert!(all >= before, "what was counted before is taken out");
    }

    /// Bytes of all states in memory.
    pub(crate) fn states_bytes(&self) -> usize {
        self.states_bytes.load(Ordering::Relaxed)
    }

    /// How many paths are in memory.
    #[cfg(test)]
    pub(crate) fn paths(&self) -> usize {
        self.paths.lock().streams.len()
    }
}
