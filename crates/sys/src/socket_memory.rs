//! What the kernel keeps for TCP sockets, out of /proc/slabinfo (slabinfo(5)) and
//! /proc/net/sockstat (proc(5)). For reports, not for the hot path: some 0.5 ms a reading.
//!
//! The figures are those of the whole machine: of a connection over loopback both ends count, and
//! so do the sockets of other programs. Only root may read the slabs.

use std::fs;
use std::io;

/// Bytes of kernel memory in use for sockets, on the whole machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SocketMemory {
    /// The pages of the slabs that hold sockets (`TCP`, `sock_inode_cache`), connections that are
    /// being made or have just ended, bound ports and places in an epoll; and for each socket one
    /// `filp` and one `dentry` of the slabs that sockets share with files.
    pub slabs: u64,
    /// Bytes that wait in sockets to be sent or read, with their overhead.
    pub buffers: u64,
}

impl SocketMemory {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.slabs + self.buffers
    }
}

/// Slabs that hold nothing but what belongs to a socket.
const SLABS_OF_SOCKETS: [&str; 10] = [
    "TCP",
    "TCPv6",
    "sock_inode_cache",
    "eventpoll_epi",
    "eventpoll_pwq",
    "request_sock_TCP",
    "request_sock_TCPv6",
    "tw_sock_TCP",
    "tw_sock_TCPv6",
    "tcp_bind2_bucket",
];

/// Slabs that files use, too. Each socket that a program has open takes one object of each.
const SLABS_OF_FILES: [&str; 2] = ["filp", "dentry"];

/// Reads what the kernel keeps for sockets.
///
/// # Errors
/// /proc/slabinfo may not be read (not root), or this kernel does not name the slab of TCP sockets.
pub fn socket_memory() -> io::Result<SocketMemory> {
    let page = page_bytes();
    let slabs = parse_slabinfo(&fs::read_to_string("/proc/slabinfo")?, page);
    let slabs = slabs.ok_or_else(|| io::Error::other("/proc/slabinfo has no slab `TCP`"))?;
    Ok(SocketMemory { slabs, buffers: buffers()? })
}

/// Reads how many bytes wait in TCP sockets to be sent or read. Anybody may.
pub fn buffers() -> io::Result<u64> {
    let pages = parse_sockstat(&fs::read_to_string("/proc/net/sockstat")?);
    let pages = pages.ok_or_else(|| io::Error::other("/proc/net/sockstat has no `TCP: … mem`"))?;
    Ok(pages * page_bytes())
}

/// One line of /proc/slabinfo.
struct Slab<'a> {
    name: &'a str,
    objects: u64,
    /// Bytes of one slab by objects in it: an object with its share of what is left over.
    bytes_per_object: u64,
    bytes: u64,
}

impl Slab<'_> {
    fn parse(line: &str, page: u64) -> Option<Slab<'_>> {
        let mut words = line.split_ascii_whitespace();
        let name = words.next()?;
        let mut number = |skip| words.nth(skip)?.parse::<u64>().ok();
        // active_objs num_objs objsize objperslab pagesperslab : tunables <3> : slabdata
        // active_slabs num_slabs sharedavail
        let (objects, per_slab) = (number(0)?, number(2)?);
        let (slab_pages, slabs) = (number(0)?, number(8)?);
        let slab = slab_pages * page;
        let bytes_per_object = slab.checked_div(per_slab)?;
        Some(Slab { name, objects, bytes_per_object, bytes: slabs * slab })
    }
}

fn parse_slabinfo(text: &str, page: u64) -> Option<u64> {
    let slabs: Vec<Slab<'_>> = text.lines().filter_map(|line| Slab::parse(line, page)).collect();
    let find = |name: &str| slabs.iter().find(|slab| slab.name == name);
    find("TCP")?;
    let sockets = find("sock_inode_cache")?.objects;
    let own = SLABS_OF_SOCKETS.into_iter().filter_map(find).map(|slab| slab.bytes).sum::<u64>();
    let shared = SLABS_OF_FILES.into_iter().filter_map(find);
    Some(own + shared.map(|slab| sockets * slab.bytes_per_object).sum::<u64>())
}

/// Pages of buffers: the number behind `mem` in the line of TCP.
fn parse_sockstat(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("TCP:"))?;
    let mut words = line.split_ascii_whitespace().skip_while(|&word| word != "mem");
    words.nth(1)?.parse().ok()
}

fn page_bytes() -> u64 {
    // SAFETY: sysconf takes no pointer.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).expect("every system has a page size")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLABINFO: &str = "\
slabinfo - version: 2.1
# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables <limit>
TCP                  105    156   2368   13    8 : tunables    0    0    0 : slabdata   12   12   0
eventpoll_epi        215    320    128   32    1 : tunables    0    0    0 : slabdata   10   10   0
sock_inode_cache     200    285    832   19    4 : tunables    0    0    0 : slabdata   15   15   0
filp                 612    630    192   21    1 : tunables    0    0    0 : slabdata   30   30   0
dentry            219847 230496    192   21    1 : tunables    0    0    0 : slabdata 10976 10976 0
";

    #[test]
    fn slabs_count_by_page_and_shared_ones_by_socket() {
        let own = 12 * 8 * 4096 + 10 * 4096 + 15 * 4 * 4096;
        assert_eq!(parse_slabinfo(SLABINFO, 4096), Some(own + 2 * 200 * (4096 / 21)));
    }

    #[test]
    fn kernel_without_the_slabs_of_sockets_has_no_figure() {
        let without = SLABINFO.replace("TCP ", "tcp ");
        assert_eq!(parse_slabinfo(&without, 4096), None);
        assert_eq!(parse_slabinfo("", 4096), None);
        assert_eq!(parse_slabinfo("TCP 1 2 3 0 8 : tunables 0 0 0 : slabdata 1 1 0", 4096), None);
    }

    #[test]
    fn sockstat_tells_pages_of_buffers() {
        let text = "sockets: used 15\nTCP: inuse 1 orphan 0 tw 0 alloc 1 mem 210\nUDP: mem 3\n";
        assert_eq!(parse_sockstat(text), Some(210));
        assert_eq!(parse_sockstat("TCP: inuse 1\n"), None);
        assert!(buffers().is_ok(), "every Linux has it");
    }

    #[test]
    fn socket_memory_is_that_of_a_listener_at_least() {
        let _listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        match socket_memory() {
            Ok(memory) => assert!(memory.slabs > 2_000 && memory.total() >= memory.slabs),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied),
        }
    }
}
