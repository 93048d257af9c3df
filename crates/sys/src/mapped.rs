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
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};

/// Ranges that can be guarded at once.
const RANGES_MAX: usize = 64;

/// Guarded memory; free while its end is 0. The handler reads it without a lock: the end is
/// written last and cleared first.
struct Guarded {
    start: AtomicUsize,
    end: AtomicUsize,
    faulted: AtomicBool,
}

static RANGES: [Guarded; RANGES_MAX] = [const {
    Guarded {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        faulted: AtomicBool::new(false),
    }
}; RANGES_MAX];

/// Held while a range is taken or given back.
static TAKING: Mutex<()> = Mutex::new(());

/// The size of a page, and what was done about SIGBUS before; written before the handler is set.
static PAGE_BYTES: AtomicUsize = AtomicUsize::new(0);
static INSTALLED: Once = Once::new();

/// Guards a range of memory until it is dropped, which must be before the range is unmapped.
#[derive(Debug)]
pub struct Guard(usize);

impl Guard {
    /// Guards the mapping that holds `address`, one of a file that is only read.
    pub fn around(address: usize) -> io::Result<Guard> {
        let maps = fs::read_to_string("/proc/self/maps")?;
        let range = maps.lines().filter_map(range_of).find(|range| range.contains(&address));
        range.ok_or_else(|| io::Error::other("nothing is mapped there")).and_then(Guard::new)
    }

    fn new(memory: Range<usize>) -> io::Result<Guard> {
        install()?;
        let _taking = TAKING.lock().unwrap_or_else(PoisonError::into_inner);
        let free = |range: &Guarded| range.end.load(Ordering::Acquire) == 0;
        let slot = RANGES.iter().position(free);
        let slot = slot.ok_or_else(|| io::Error::other("too many mapped files are guarded"))?;
        let range = &RANGES[slot];
        range.faulted.store(false, Ordering::Relaxed);
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

/// The addresses at the start of a line of `/proc/self/maps` (proc_pid_maps(5)).
fn range_of(line: &str) -> Option<Range<usize>> {
    let (start, rest) = line.split_once('-')?;
    let (end, _) = rest.split_once(' ')?;
    Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
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
    if let Some(range) = RANGES.iter().find(holds) {
        range.faulted.store(true, Ordering::Release);
        if zero_page(address) {
            return;
        }
    }
    let mut default = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all fields of the structure are valid as zeros, which is SIG_DFL.
    let default = unsafe { default.assume_init_mut() };
    // SAFETY: `default` is a whole structure. The access is tried again, and ends the process.
    unsafe { libc::sigaction(libc::SIGBUS, default, ptr::null_mut()) };
}

/// Puts a page of zeros where `address` lies.
fn zero_page(address: usize) -> bool {
    let bytes = PAGE_BYTES.load(Ordering::Acquire);
    let page = (address & !(bytes - 1)) as *mut libc::c_void;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: the page lies in a range that its owner maps and guards, for reading only.
    let mapped = unsafe { libc::mmap(page, bytes, libc::PROT_READ, flags, -1, 0) };
    mapped != libc::MAP_FAILED
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    use super::*;

    /// A file of `bytes` ones in memory, mapped.
    fn mapped(bytes: usize) -> (File, *const u8) {
        let path = std::env::temp_dir().join(format!("encke-mapped-{}", std::process::id()));
        fs::write(&path, vec![1; bytes]).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let (prot, flags, fd) = (libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd());
        // SAFETY: a new mapping of an open file.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, prot, flags, fd, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        (file, start.cast())
    }

    #[test]
    fn file_that_is_cut_short_under_its_map_reads_as_zeros_and_is_told() {
        let bytes = 64 * 1024;
        let (file, start) = mapped(bytes);
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
        assert!(!Guard::new(8..16).unwrap().has_faulted(), "another range starts without it");
        assert!(Guard::around(8).is_err(), "nothing is ever mapped there");
    }
}
