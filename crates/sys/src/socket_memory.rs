//! What the kernel keeps for TCP sockets, out of /sys/kernel/slab (slab.rst of the kernel's
//! documentation) and /proc/net/sockstat (proc(5)). For reports: a reading opens two dozen files.
//!
//! The figures are those of the whole machine: of a connection over loopback both ends count, and
//! so do the sockets of other programs. Only root may read the slabs. They are not taken from
//! /proc/slabinfo, since for that the kernel walks the lists of all slabs that have room left.
//! After a million sockets had closed a reading took 0.1 s, at worst 1.7 s; the `slabs` of one, 0.2
//! ms.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

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
    /// The memory of all sockets, in bytes.
    pub fn total(&self) -> u64 {
        self.slabs + self.buffers
    }
}

const SLABS: &str = "/sys/kernel/slab";

/// The slabs of sockets themselves: without these there is no figure.
const SLAB_OF_TCP: &str = "TCP";
const SLAB_OF_INODES: &str = "sock_inode_cache";

/// Slabs of what else belongs to a socket; a kernel may lack some of them.
const SLABS_OF_SOCKETS: [&str; 7] = [
    "TCPv6",
    "eventpoll_epi",
    "request_sock_TCP",
    "request_sock_TCPv6",
    "tcp_bind2_bucket",
    "tw_sock_TCP",
    "tw_sock_TCPv6",
];

/// Slabs that files use, too. Each socket that a program has open takes one object of each.
const SLABS_OF_FILES: [&str; 2] = ["filp", "dentry"];

/// Reads what the kernel keeps for sockets.
///
/// # Errors
/// The slabs may not be read (not root), or this kernel does not show them.
pub fn socket_memory() -> io::Result<SocketMemory> {
    Ok(SocketMemory { slabs: slabs_in(Path::new(SLABS), page_bytes())?, buffers: buffers()? })
}

/// Reads how many bytes wait in TCP sockets to be sent or read. Anybody may.
pub fn buffers() -> io::Result<u64> {
    let pages = parse_sockstat(&fs::read_to_string("/proc/net/sockstat")?);
    let pages = pages.ok_or_else(|| io::Error::other("/proc/net/sockstat has no `TCP: … mem`"))?;
    Ok(pages * page_bytes())
}

/// One kind of slab.
struct Slab {
    directory: PathBuf,
    page: u64,
}

impl Slab {
    /// The slab `name`, which the kernel may have merged with others of its size: the name is then
    /// a link.
    fn find(all: &Path, name: &str, page: u64) -> io::Result<Slab> {
        Ok(Slab { directory: fs::canonicalize(all.join(name))?, page })
    }

    /// Bytes of all its pages.
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.number("slabs")? * self.slab_bytes()?)
    }

    /// Bytes of one of its objects, with its share of what is left over.
    fn object_bytes(&self) -> io::Result<u64> {
        Ok(self.slab_bytes()? / self.number("objs_per_slab")?.max(1))
    }

    fn slab_bytes(&self) -> io::Result<u64> {
        Ok(self.page << self.number("order")?.min(32))
    }

    /// The number that a file begins with; what comes behind it is the same by NUMA node.
    fn number(&self, file: &str) -> io::Result<u64> {
        let text = fs::read_to_string(self.directory.join(file))?;
        let number = text.split_ascii_whitespace().next().and_then(|word| word.parse().ok());
        number.ok_or_else(|| io::Error::other(format!("`{file}` of a slab is no number")))
    }
}

fn slabs_in(all: &Path, page: u64) -> io::Result<u64> {
    let inodes = Slab::find(all, SLAB_OF_INODES, page)?;
    let sockets = inodes.number("total_objects")?;
    let mut bytes = Slab::find(all, SLAB_OF_TCP, page)?.bytes()? + inodes.bytes()?;
    let found = |name: &&str| Slab::find(all, name, page).ok();
    // Merged ones count once.
    let mut seen = BTreeSet::new();
    for slab in SLABS_OF_SOCKETS.iter().filter_map(found) {
        if seen.insert(slab.directory.clone()) {
            bytes += slab.bytes()?;
        }
    }
    for slab in SLABS_OF_FILES.iter().filter_map(found) {
        bytes += sockets * slab.object_bytes()?;
    }
    Ok(bytes)
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
mod tests;
