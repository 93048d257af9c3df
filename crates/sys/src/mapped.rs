//! Mapped files whose pages cannot be read: instead of a signal that ends the process, a flag.
//!
//! The kernel sends SIGBUS when a page of a mapped file lies past its end, because the file was cut
//! short meanwhile, or when the disk cannot read it. For a guarded range the handler puts a page of
//! zeros in its place, sets the flag of the range and lets the reader go on. Whoever reads must
//! look at the flag before it believes what it read. Any other SIGBUS ends the process.
//!
//! Cost: nothing until it happens, then one mmap(2) a page.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};

/// Ranges that can be guarded at once.
const RANGES_MAX: usize = 128;

/// Guarded memory; free while its end is 0. The handler reads it without a lock: the end is
/// written last and cleared first.
struct Guarded {
    start: AtomicUsize,
    end: AtomicUsize,
    /// Whether it is written to as well.
    is_written: AtomicBool,
    faulted: AtomicBool,
}

static RANGES: [Guarded; RANGES_MAX] = [const {
    Guarded {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        is_written: AtomicBool::new(false),
        faulted: AtomicBool::new(false),
    }
}; RANGES_MAX];

/// Held while a range is taken or given back.
static TAKING: Mutex<()> = Mutex::new(());

/// The size of a page, and what was done about SIGBUS before; written before the handler is set.
static PAGE_BYTES: AtomicUsize = AtomicUsize::new(0);
static INSTALLED: Once = Once::new();

/// Guards a range of memory until it is dropped, about when the range is unmapped: before, or at
/// once behind it where to unmap it takes a look at it.
#[derive(Debug)]
pub struct Guard(usize);

impl Guard {
    /// Guards the mapping that holds `address`, one of a file.
    ///
    /// # Errors
    /// There is none, what is mapped is not told, or too many are guarded.
    pub fn around(address: usize) -> io::Result<Guard> {
        let guard = Guard::of(|mapping| mapping.memory.contains(&address))?;
        guard.ok_or_else(|| io::Error::other("nothing is mapped there"))
    }

    /// Guards the mapping of the file at `path`, which has no link in it, if the system tells of
    /// one. What is written into pages that are gone is read again here, and by nobody else.
    ///
    /// # Errors
    /// What is mapped is not told, or too many are guarded.
    pub fn of_file(path: &Path) -> io::Result<Option<Guard>> {
        let path = path.to_string_lossy();
        Guard::of(|mapping| mapping.path == path)
    }

    fn of(is_meant: impl Fn(&Mapping<'_>) -> bool) -> io::Result<Option<Guard>> {
        // A path need not be text.
        let maps = fs::read("/proc/self/maps")?;
        let maps = String::from_utf8_lossy(&maps);
        maps.lines().filter_map(Mapping::of).find(is_meant).map(Guard::new).transpose()
    }

    fn new(Mapping { memory, is_written, .. }: Mapping<'_>) -> io::Result<Guard> {
        install()?;
        let _taking = TAKING.lock().unwrap_or_else(PoisonError::into_inner);
        let free = |range: &Guarded| range.end.load(Ordering::Acquire) == 0;
        let slot = RANGES.iter().position(free);
        let slot = slot.ok_or_else(|| io::Error::other("too many mapped files are guarded"))?;
        let range = &RANGES[slot];
        range.faulted.store(false, Ordering::Relaxed);
        range.is_written.store(is_written, Ordering::Relaxed);
        range.start.store(memory.start, Ordering::Relaxed);
        range.end.store(memory.end, Ordering::Release);
        Ok(Guard(slot))
    }

    /// Whether a page in the range could not be read: zeros may have been read in its place.
    ///
    /// Ordering: the thread that met the page sees its own store; acquire for all others.
    pub fn has_faulted(&self) -> bool {
        RANGES[self.0].faulted.load(Ordering::Acquire)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _taking = TAKING.lock().unwrap_or_else(PoisonError::into_inner);
        let end = RANGES[self.0].end.swap(0, Ordering::Release);
        debug_assert!(end > 0, "somebody else's memory is no longer guarded");
    }
}

/// A line of `/proc/self/maps` (proc_pid_maps(5)).
struct Mapping<'l> {
    memory: Range<usize>,
    is_written: bool,
    path: &'l str,
}

impl Mapping<'_> {
    fn of(line: &str) -> Option<Mapping<'_>> {
        let (start, rest) = line.split_once('-')?;
        let (end, rest) = rest.split_once(' ')?;
        let (mode, mut path) = rest.split_once(' ')?;
        // Behind its place in the file, the device and the number of the file.
        for _ in 0..3 {
            path = path.split_once(' ').map_or("", |(_, rest)| rest.trim_start());
        }
        let memory = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
        Some(Mapping { memory, is_written: mode.contains('w'), path })
    }
}

fn install() -> io::Result<()> {
    let mut result = Ok(());
    INSTALLED.call_once(|| {
        // SAFETY: the call reads no memory of ours.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        PAGE_BYTES.store(page_bytes.max(4096) as usize, Ordering::Release);
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: all fields of the structure are valid as zeros.
        let action = unsafe { action.assume_init_mut() };
        action.sa_sigaction = on_bus_error as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: `action` is a whole structure, and its handler only does what handlers may.
        let code = unsafe { libc::sigaction(libc::SIGBUS, action, ptr::null_mut()) };
        result = crate::check(code).map(drop);
    });
    result
}

/// Runs on the thread that met the page. It only uses atomics and two system calls that POSIX
/// allows or Linux makes plain system calls (mmap(2), sigaction(2)).
extern "C" fn on_bus_error(
    _signal: libc::c_int,
    info: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    // SAFETY: the kernel hands over a valid structure, as SA_SIGINFO asks for.
    let info = unsafe { &*info };
    // SAFETY: SIGBUS from a fault has an address.
    let address = unsafe { info.si_addr() } as usize;
    let holds = |range: &&Guarded| {
        let end = range.end.load(Ordering::Acquire);
        address < end && range.start.load(Ordering::Relaxed) <= address
    };
    // One of them may be about to be given back, whose memory is another file's by now.
    let (mut is_guarded, mut is_written) = (false, false);
    for range in RANGES.iter().filter(holds) {
        range.faulted.store(true, Ordering::Release);
        is_guarded = true;
        is_written |= range.is_written.load(Ordering::Relaxed);
    }
    if is_guarded && zero_page(address, is_written) {
        return;
    }
    let mut default = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all fields of the structure are valid as zeros, which is SIG_DFL.
    let default = unsafe { default.assume_init_mut() };
    // SAFETY: `default` is a whole structure. The access is tried again, and ends the process.
    unsafe { libc::sigaction(libc::SIGBUS, default, ptr::null_mut()) };
}

/// Puts a page of zeros where `address` lies.
fn zero_page(address: usize, is_written: bool) -> bool {
    let bytes = PAGE_BYTES.load(Ordering::Acquire);
    let page = (address & !(bytes - 1)) as *mut libc::c_void;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let mode = if is_written { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
    // SAFETY: the page lies in a range that its owner maps and guards, and cannot be used as it is.
    let mapped = unsafe { libc::mmap(page, bytes, mode, flags, -1, 0) };
    mapped != libc::MAP_FAILED
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    use super::*;

    /// A file of `bytes` ones, mapped.
    fn mapped(path: &Path, bytes: usize, prot: libc::c_int) -> (File, *mut u8) {
        fs::write(path, vec![1; bytes]).unwrap();
        let file = File::options().read(true).write(true).open(path).unwrap();
        let (flags, fd) = (libc::MAP_SHARED, file.as_raw_fd());
        // SAFETY: a new mapping of an open file.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, prot, flags, fd, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        (file, start.cast())
    }

    #[test]
    fn file_that_is_cut_short_under_its_map_reads_as_zeros_and_is_told() {
        let bytes = 64 * 1024;
        let dir = tempfile::tempdir().unwrap();
        let (file, start) = mapped(&dir.path().join("file"), bytes, libc::PROT_READ);
        let guard = Guard::around(start as usize).unwrap();
        let read = |at: usize| {
            // SAFETY: the byte lies within the mapping.
            unsafe { ptr::read_volatile(start.wrapping_add(at)) }
        };
        assert_eq!((read(0), read(bytes - 1), guard.has_faulted()), (1, 1, false));
        file.set_len(16 * 1024).unwrap();
        assert_eq!((read(0), guard.has_faulted()), (1, false));
        assert_eq!((read(bytes - 1), guard.has_faulted()), (0, true));
        assert_eq!(read(0), 1, "what is there is still read");
        drop(guard);
        let other = Mapping { memory: 8..16, is_written: false, path: "" };
        assert!(!Guard::new(other).unwrap().has_faulted(), "another range starts without it");
        assert!(Guard::around(8).is_err(), "nothing is ever mapped there");
    }

    #[test]
    fn file_that_is_written_by_its_map_can_be_written_when_it_is_cut_short() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("one with spaces");
        assert!(Guard::of_file(&path).unwrap().is_none(), "it is not mapped");
        let (file, start) = mapped(&path, 8192, libc::PROT_READ | libc::PROT_WRITE);
        let guard = Guard::of_file(&path).unwrap().expect("it is mapped");
        let second = start.wrapping_add(4096);
        file.set_len(0).unwrap();
        // SAFETY: the byte lies within the mapping.
        unsafe { ptr::write_volatile(second, 7) };
        // SAFETY: as above.
        let written = unsafe { ptr::read_volatile(second) };
        // SAFETY: as above.
        let begin = unsafe { ptr::read_volatile(start) };
        assert_eq!((written, begin, guard.has_faulted()), (7, 0, true));
    }
}
