//! All streams: where they are, what is known of them, and how much they may be.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::cache::Cache;
use crate::disk::Doubt;
use crate::file::{self, Meta};
use crate::lifetime::Lifetime;
use crate::lineage::Lineage;
use crate::links::{self, FileKind, Remains};
use crate::log::{self, SharedLog};
use crate::long_reads::LongReads;
use crate::notes::{self, Notes};
use crate::offset::Offset;
use crate::open_files::OpenFiles;
use crate::refusal::Refusal;
use crate::state::State;
use crate::stream::{Stream, View};

/// What all streams together may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of all files.
    pub bytes_max: u64,
    /// Bytes of each half of the log that all appends share; without any, each append has a sync of
    /// its own.
    pub log_bytes: u64,
}

/// All streams of a server. Its functions wait for a disk unless they say otherwise.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    limits: Limits,
    /// Milliseconds since 1970.
    clock: fn() -> u64,
    /// Relaxed: a bound may be passed by what is under way.
    pub(crate) bytes: AtomicU64,
    /// Of appends that may not be told yet, if any are told.
    pub(crate) notes: Option<Notes>,
    /// The last number that a stream was given. Relaxed: only its own order counts.
    last_id: AtomicU64,
    /// What may not be on disk: a process before this one has left it, or the disk has failed.
    pub(crate) doubt: Arc<Doubt>,
    /// What appends share, if the disk had room for it.
    pub(crate) log: Option<SharedLog>,
    /// Of streams that are appended to.
    pub(crate) files: OpenFiles,
    pub(crate) cache: Cache,
    /// For who looks whether an offset is one of a stream's: one at a time.
    pub(crate) checking: Mutex<()>,
    /// For who reads a long record.
    pub(crate) long_reads: LongReads,
}

/// What a stream is at one moment.
#[derive(Clone, Debug)]
pub struct Head {
    /// The type of its content.
    pub content_type: Arc<str>,
    /// How long it lives.
    pub lifetime: Lifetime,
    /// Its tail.
    pub next: Offset,
    /// Whether it is closed.
    pub closed: bool,
}

/// What became of a creation.
#[derive(Clone, Debug)]
pub struct Created {
    /// Whether it is new.
    pub is_new: bool,
    /// The stream.
    pub head: Head,
}

impl Store {
    /// Opens the streams in `dir`, which is made if there is none. It reads names and sizes only.
    /// `clock` tells milliseconds since 1970.
    ///
    /// # Errors
    /// The directory cannot be made, read or changed.
    pub fn open(dir: &Path, limits: Limits, clock: fn() -> u64) -> io::Result<Store> {
        // First: it gives files what they have lost.
        let generation = log::settle(dir)?;
        // The clock may have been set back since a file was changed.
        let (mut bytes, mut changed_ms) = (0, 0);
        for number in 0..file::DIRECTORIES {
            let directory = file::directory(dir, number);
            let made = fs::create_dir_all(&directory);
            let opened = named(&directory, made).and_then(|()| open_directory(&directory));
            let (more, changed) = opened?;
            (bytes, changed_ms) = (bytes + more, changed_ms.max(changed));
        }
        fs::File::open(dir)?.sync_all()?;
        let doubt = Arc::new(Doubt::until(changed_ms.max(sys::clock::unix_ms())));
        let log = SharedLog::open_or_none(dir, &doubt, limits.log_bytes, generation);
        Ok(Store {
            dir: dir.into(),
            limits,
            clock,
            bytes: AtomicU64::new(bytes),
            notes: None,
            last_id: AtomicU64::new(0),
            doubt,
            log,
            files: OpenFiles::new(),
            cache: Cache::new(),
            checking: Mutex::new(()),
            long_reads: LongReads::new(),
        })
    }

    /// This store, whose appends are told where somebody is to be told them, or never are.
    ///
    /// # Errors
    /// What is noted of them cannot be read, made or removed.
    pub fn telling(mut self, tells: bool) -> io::Result<Store> {
        if tells {
            self.notes = Some(named(&self.dir.join(notes::FILE), Notes::open(&self.dir))?);
        } else {
            Notes::remove_all(&self.dir)?;
        }
        Ok(self)
    }

    /// Bytes of all files. It does not wait.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// What the stream at `path` is. That is no use of it.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn head(&self, path: &str) -> Result<Head, Refusal> {
        let view = self.look(&self.stream(path))?;
        Ok(head(&view))
    }

    /// Whether the stream at `path` is known, or that there is none: whoever looks at it waits for
    /// nobody then, nor for a disk. It does not wait.
    pub fn is_known(&self, path: &str) -> bool {
        self.cache.find(path).is_some_and(|stream| self.seen(&stream).is_some())
    }

    /// What the stream at `path` is, if that is [known](Store::is_known). It does not wait.
    pub fn known_head(&self, path: &str) -> Option<Result<Head, Refusal>> {
        let stream = self.cache.find(path)?;
        let seen = self.seen(&stream)?;
        Some(seen.map(|view| head(&view)))
    }

    /// Whether a stream is as readers see it, so nobody waits for a disk to look at it.
    pub(crate) fn is_at_hand(&self, stream: &Stream) -> bool {
        self.seen(stream).is_some()
    }

    /// The path in use.
    pub(crate) fn stream(&self, path: &str) -> Arc<Stream> {
        self.cache.stream(path)
    }

    /// The stream as readers see it, for which a disk is waited for only where it is not known.
    pub(crate) fn look(&self, stream: &Stream) -> Result<View, Refusal> {
        if let Some(seen) = self.seen(stream) {
            return seen;
        }
        let mut writer = stream.writer.lock();
        match self.settle(stream, &mut writer) {
            Ok(Some(view)) => Ok(view),
            Ok(None) | Err(Refusal::Pending) => Err(Refusal::Unknown),
            Err(error) => Err(error),
        }
    }

    /// The stream as readers see it, if nobody has to wait for that.
    fn seen(&self, stream: &Stream) -> Option<Result<View, Refusal>> {
        let public = stream.public.lock();
        let is_over = public.is_over(self.now_ms());
        if public.known && !is_over {
            return Some(public.view().ok_or(Refusal::Unknown));
        }
        // Who tells it has the writer, maybe for long.
        (is_over && self.is_noted(&stream.path)).then_some(Err(Refusal::Unknown))
    }

    /// Reads the file if nobody has, and removes it if its lifetime is over; what is there then. A
    /// life that is over before its last append was told is refused as [`Refusal::Pending`].
    pub(crate) fn settle(
        &self,
        stream: &Stream,
        writer: &mut Option<State>,
    ) -> Result<Option<View>, Refusal> {
        let view = self.load(stream, writer)?;
        let is_over = stream.public.lock().is_over(self.now_ms());
        match view {
            // What is told is read from the file.
            Some(_) if is_over && self.is_noted(&stream.path) => Err(Refusal::Pending),
            Some(view) if is_over => {
                self.remove(stream, writer, &view).map_err(Refusal::of_other)?;
                self.load(stream, writer)
            }
            view => Ok(view),
        }
    }

    /// Reads the file if nobody has; what is there, whether its lifetime is over or not.
    pub(crate) fn load(
        &self,
        stream: &Stream,
        writer: &mut Option<State>,
    ) -> Result<Option<View>, Refusal> {
        let is_known = stream.public.lock().known;
        if !is_known {
            match file::load(&self.file(stream), &self.doubt, &self.long_reads)? {
                None => {
                    self.doubt.settle_directory_of(&self.file(stream))?;
                    self.settle_remains(links::settle(&self.file(stream))?)?;
                    self.publish(stream, None, 0, 0);
                }
                Some(loaded) => {
                    let (tail, closed) = (loaded.tail, loaded.state.is_closed());
                    let view = View { meta: Arc::new(loaded.meta), tail, closed };
                    let bytes = loaded.state.bytes();
                    self.count_uncounted(stream, tail);
                    self.publish(stream, Some(&view), bytes, loaded.touched_ms);
                    *writer = Some(loaded.state);
                }
            }
        }
        let view = stream.public.lock().view();
        Ok(view)
    }

    /// Counts what is left of a stream that was deleted.
    ///
    /// # Errors
    /// [`Refusal::Gone`] as long as forks need it.
    pub(crate) fn settle_remains(&self, remains: Remains) -> Result<(), Refusal> {
        match remains {
            Remains::None => {}
            Remains::Needed => return Err(Refusal::Gone),
            Remains::Removed(bytes) => {
                // Of a stream that was dropped from memory the end of an append that failed may not
                // be counted.
                let less = |all: u64| Some(all.saturating_sub(bytes));
                let _ = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
            }
        }
        Ok(())
    }

    /// Begins the lifetime of a stream anew, which was read or written now.
    pub(crate) fn touch(&self, stream: &Stream, meta: &Meta) {
        let now_ms = self.now_ms();
        {
            let mut public = stream.public.lock();
            public.touched_ms = now_ms;
            // The time of change says whether the file is in doubt.
            if !public.known {
                return;
            }
        }
        if matches!(meta.lifetime, Lifetime::Ttl(_)) {
            // A disk that does not take it is no reason to refuse what was asked for.
            let _ = file::touch(&self.file(stream), now_ms);
        }
    }

    /// Shows a stream to readers, or that there is none, and wakes those who wait. Its state takes
    /// so many bytes.
    pub(crate) fn publish(
        &self,
        stream: &Stream,
        view: Option<&View>,
        state_bytes: usize,
        touched_ms: u64,
    ) {
        let lineage = view.and_then(|view| view.meta.lineage.as_ref());
        let state_bytes = state_bytes + lineage.map_or(0, Lineage::bytes);
        let mut public = stream.public.lock();
        public.known = true;
        public.meta = view.map(|view| Arc::clone(&view.meta));
        public.tail = view.map_or(0, |view| view.tail);
        public.closed = view.is_some_and(|view| view.closed);
        public.touched_ms = touched_ms;
        public.counted = None;
        self.cache.count_state(&mut public, state_bytes);
        public.wake();
    }

    /// The disk has failed with a stream: what is on disk of it is not known any more.
    pub(crate) fn fail(&self, stream: &Stream, writer: &mut Option<State>) {
        *writer = None;
        {
            let mut public = stream.public.lock();
            public.counted = public.counted.or(Some(public.tail));
            if let Some(meta) = &public.meta {
                self.files.close((stream.name, meta.id));
            }
        }
        self.forget(stream);
    }

    /// Counts the end of an append that has failed and is there all the same.
    fn count_uncounted(&self, stream: &Stream, tail: u64) {
        if let Some(counted) = stream.public.lock().counted.take() {
            self.bytes.fetch_add(tail.saturating_sub(counted), Ordering::Relaxed);
        }
    }

    /// What is there of a stream is not known any more.
    pub(crate) fn forget(&self, stream: &Stream) {
        let mut public = stream.public.lock();
        public.known = false;
        self.cache.count_state(&mut public, 0);
    }

    pub(crate) fn has_room(&self) -> Result<(), Refusal> {
        let most = self.limits.bytes_max;
        if self.bytes() >= most { Err(Refusal::Full(most)) } else { Ok(()) }
    }

    /// A number that no stream of this server had: the time, or one more than the last, and `least`
    /// at least.
    pub(crate) fn new_id(&self, least: u64) -> u64 {
        let now_ms = self.now_ms().max(least);
        let next = |last: u64| Some(now_ms.max(last + 1));
        let last = self.last_id.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        now_ms.max(last.unwrap_or_else(|last| last) + 1)
    }

    pub(crate) fn file(&self, stream: &Stream) -> PathBuf {
        file::file_named(&self.dir, &stream.name)
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn now_ms(&self) -> u64 {
        (self.clock)()
    }

    pub(crate) fn clock(&self) -> fn() -> u64 {
        self.clock
    }
}

/// Removes from a directory what is left of streams that were being made; the bytes of the others,
/// and when one was changed last.
fn open_directory(directory: &Path) -> io::Result<(u64, u64)> {
    let (mut bytes, mut changed_ms, mut links) = (0, 0, Vec::new());
    for entry in named(directory, fs::read_dir(directory))? {
        let entry = named(directory, entry)?;
        let (entry, path) = (entry.metadata(), entry.path());
        match FileKind::of(&path) {
            FileKind::Unfinished => named(&path, fs::remove_file(&path))?,
            // It is counted with the stream whose file it is.
            FileKind::Link => links.push(path),
            FileKind::Foreign => {}
            FileKind::Stream | FileKind::Gone => {
                let entry = named(&path, entry)?;
                bytes += entry.len();
                changed_ms = changed_ms.max(file::changed_ms(&entry)?);
            }
        }
    }
    for link in links {
        if !links::fork_of(&link).try_exists()? {
            named(&link, fs::remove_file(&link))?;
        }
    }
    Ok((bytes, changed_ms))
}

fn named<T>(path: &Path, done: io::Result<T>) -> io::Result<T> {
    done.map_err(|error| file::named(path, error))
}

pub(crate) fn head(view: &View) -> Head {
    Head {
        content_type: Arc::clone(&view.meta.content_type),
        lifetime: view.meta.lifetime,
        next: view.offset(view.tail),
        closed: view.closed,
    }
}

#[cfg(test)]
mod tests;
