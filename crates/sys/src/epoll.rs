//! epoll(7), edge-triggered.
//!
//! A socket is added once, for reading and writing, and never changed. With edge triggering the
//! kernel reports a side only when it turns ready, so a silent connection costs no call at all.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// An epoll instance.
#[derive(Debug)]
pub struct Epoll {
    fd: OwnedFd,
}

impl Epoll {
    /// A new instance, closed on exec.
    pub fn new() -> io::Result<Epoll> {
        // SAFETY: no pointers are passed.
        let fd = crate::check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the descriptor was just made and belongs to nobody else.
        Ok(Epoll { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Reports both sides of `socket` under `token`, edge-triggered. Closing the socket removes it.
    pub fn add_stream(&self, socket: &impl AsFd, token: u64) -> io::Result<()> {
        self.add(socket, token, libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET)
    }

    /// Reports `fd` under `token` as long as it can be read (level-triggered): for listeners, of
    /// which a turn takes only a share.
    pub fn add_source(&self, fd: &impl AsFd, token: u64) -> io::Result<()> {
        self.add(fd, token, libc::EPOLLIN)
    }

    /// Reports each time that `fd` turns readable (edge-triggered), read or not: for wakers.
    pub fn add_edges(&self, fd: &impl AsFd, token: u64) -> io::Result<()> {
        self.add(fd, token, libc::EPOLLIN | libc::EPOLLET)
    }

    /// Reports `fd` no more, whoever else has a descriptor of the same thing: a close would leave
    /// it in as long as another lives.
    pub fn remove(&self, fd: &impl AsFd) -> io::Result<()> {
        let (epoll, fd) = (self.fd.as_raw_fd(), fd.as_fd().as_raw_fd());
        // SAFETY: both descriptors are borrowed for the call; DEL takes no event.
        let result =
            unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, fd, std::ptr::null_mut()) };
        crate::check(result).map(drop)
    }

    /// Fills `events` with what is ready; waits at most `timeout_ms`, for ever when `None`. A
    /// signal ends the wait early with nothing.
    pub fn wait(&self, events: &mut Events, timeout_ms: Option<u64>) -> io::Result<()> {
        let timeout = timeout_ms.map_or(-1, |ms| ms.min(i32::MAX as u64) as i32);
        let (fd, buffer) = (self.fd.as_raw_fd(), events.buffer.as_mut_ptr());
        let capacity = events.buffer.len() as i32;
        // SAFETY: `buffer` points at `capacity` events that outlive the call.
        let result = unsafe { libc::epoll_wait(fd, buffer, capacity, timeout) };
        events.ready = waited(crate::check(result))?;
        debug_assert!(events.ready <= events.buffer.len());
        Ok(())
    }

    /// Waits to the nanosecond (epoll_pwait2(2), Linux 5.11), as far as the thread's
    /// [slack](crate::clock::set_timer_slack) allows. Where there is no such call, or a filter of
    /// system calls knows none, to the millisecond.
    pub fn wait_ns(&self, events: &mut Events, timeout_ns: u64) -> io::Result<()> {
        let timeout = libc::timespec {
            tv_sec: (timeout_ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (timeout_ns % 1_000_000_000) as libc::c_long,
        };
        let (fd, buffer) = (self.fd.as_raw_fd(), events.buffer.as_mut_ptr());
        let (capacity, call) = (events.buffer.len() as i32, libc::SYS_epoll_pwait2);
        let no_mask = std::ptr::null::<libc::sigset_t>();
        // SAFETY: `buffer` points at `capacity` events that, as `timeout`, outlive the call.
        let result =
            unsafe { libc::syscall(call, fd, buffer, capacity, &raw const timeout, no_mask, 0) };
        let result = crate::check(result as i32);
        let code = result.as_ref().err().and_then(io::Error::raw_os_error);
        if matches!(code, Some(libc::ENOSYS | libc::EPERM)) {
            return self.wait(events, Some(timeout_ns.div_ceil(1_000_000)));
        }
        events.ready = waited(result)?;
        Ok(())
    }

    fn add(&self, fd: &impl AsFd, token: u64, events: i32) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: token };
        let (epoll, fd) = (self.fd.as_raw_fd(), fd.as_fd().as_raw_fd());
        // SAFETY: both descriptors are borrowed for the call and `event` outlives it.
        let result = unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event) };
        crate::check(result).map(drop)
    }
}

/// How many reports a wait has brought.
fn waited(result: io::Result<libc::c_int>) -> io::Result<usize> {
    match result {
        Ok(ready) => Ok(ready as usize),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
        Err(error) => Err(error),
    }
}

/// What one wait reports, at most a fixed number at a time.
#[derive(Debug)]
pub struct Events {
    buffer: Box<[libc::epoll_event]>,
    ready: usize,
}

impl Events {
    /// Room for `capacity` reports.
    pub fn with_capacity(capacity: usize) -> Events {
        assert!((1..=i32::MAX as usize).contains(&capacity), "epoll_wait(2) would refuse it");
        let empty = libc::epoll_event { events: 0, u64: 0 };
        Events { buffer: vec![empty; capacity].into_boxed_slice(), ready: 0 }
    }

    /// How many reports the last wait has brought.
    pub fn len(&self) -> usize {
        self.ready
    }

    /// Whether it has brought none.
    pub fn is_empty(&self) -> bool {
        self.ready == 0
    }

    /// The report at `index` of the last wait.
    pub fn at(&self, index: usize) -> Option<Event> {
        let raw = self.buffer[..self.ready].get(index)?;
        Some(Event { token: raw.u64, events: raw.events })
    }

    /// The reports of the last wait.
    pub fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        self.buffer[..self.ready].iter().map(|raw| Event { token: raw.u64, events: raw.events })
    }
}

/// One report of epoll.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// The token that the descriptor was added with.
    pub token: u64,
    events: u32,
}

impl Event {
    /// There is something to read, be it the end of the stream or an error.
    pub fn readable(self) -> bool {
        let mask = libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR;
        self.events & mask as u32 != 0
    }

    /// The peer will send no more, or the connection is broken: a read shows which.
    pub fn hung_up(self) -> bool {
        let mask = libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR;
        self.events & mask as u32 != 0
    }

    /// There is room to write.
    pub fn writable(self) -> bool {
        self.events & (libc::EPOLLOUT | libc::EPOLLHUP | libc::EPOLLERR) as u32 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waker::Waker;

    #[test]
    fn removed_descriptor_is_silent_although_another_lives() {
        let (epoll, mut events) = (Epoll::new().unwrap(), Events::with_capacity(1));
        let waker = Waker::new().unwrap();
        let copy = waker.as_fd().try_clone_to_owned().unwrap();
        epoll.add_source(&copy, 7).unwrap();
        waker.ring();
        epoll.wait(&mut events, Some(0)).unwrap();
        assert_eq!(events.iter().map(|event| event.token).collect::<Vec<_>>(), [7]);
        epoll.remove(&copy).unwrap();
        drop(copy);
        epoll.wait(&mut events, Some(0)).unwrap();
        assert_eq!(events.iter().count(), 0);
    }

    #[test]
    fn wait_to_the_nanosecond_ends_by_its_time_or_by_a_report() {
        let (epoll, mut events) = (Epoll::new().unwrap(), Events::with_capacity(1));
        let waker = Waker::new().unwrap();
        epoll.add_edges(&waker, 7).unwrap();
        let before_ns = crate::clock::monotonic_ns();
        epoll.wait_ns(&mut events, 200_000).unwrap();
        assert!(crate::clock::monotonic_ns() - before_ns >= 200_000);
        assert_eq!(events.iter().count(), 0);
        waker.ring();
        epoll.wait_ns(&mut events, 1_000_000_000_000).unwrap();
        assert_eq!(events.iter().map(|event| event.token).collect::<Vec<_>>(), [7]);
    }

    /// A filter of the calling thread's system calls (seccomp(2)), as container engines have them:
    /// `call` fails with `code`.
    fn refuse(call: libc::c_long, code: libc::c_int) {
        let (load, jump) = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, libc::BPF_JMP);
        let step =
            |code: u32, k: u32, jf: u8| libc::sock_filter { code: code as u16, jt: 0, jf, k };
        let mut steps = [
            step(load, 0, 0),
            step(jump | libc::BPF_JEQ | libc::BPF_K, call as u32, 1),
            step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | code as u32, 0),
            step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
        ];
        let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
        // SAFETY: no pointers are passed.
        let tamed = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        let (set, filter) = (libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER);
        // SAFETY: `program` and its steps outlive the call, which holds for this thread alone.
        let filtered = unsafe { libc::prctl(set, filter, &raw const program) };
        assert_eq!((tamed, filtered), (0, 0), "{}", io::Error::last_os_error());
    }

    #[test]
    fn where_there_is_no_wait_to_the_nanosecond_it_is_to_the_millisecond() {
        for code in [libc::ENOSYS, libc::EPERM] {
            let waits = move || {
                refuse(libc::SYS_epoll_pwait2, code);
                let (epoll, mut events) = (Epoll::new().unwrap(), Events::with_capacity(1));
                let before_ns = crate::clock::monotonic_ns();
                epoll.wait_ns(&mut events, 1_200_000).unwrap();
                assert!(crate::clock::monotonic_ns() - before_ns >= 1_200_000);
            };
            std::thread::spawn(waits).join().unwrap();
        }
    }
}
