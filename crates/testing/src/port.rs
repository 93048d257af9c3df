//! Ports for programs that cannot take one from the kernel as they begin to listen.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::process;
use std::sync::{Mutex, PoisonError};

/// Below those that the kernel gives to whoever asks for any (`net.ipv4.ip_local_port_range`,
/// 32768 to 60999). A port of those may be a stranger's local end a moment after it was free, and
/// tests open thousands of connections while others start their programs.
const FIRST: u16 = 10_000;

/// Ports that one process has for itself, until it ends.
const BLOCK: u16 = 100;

/// From [`FIRST`] to 31,999.
const BLOCKS: u16 = 220;

/// The block that this process holds, and how many of its ports are given.
struct Held {
    first: u16,
    given: u16,
    /// Whose lock says that the block is taken. The kernel lets go of it when the process ends.
    _lock: File,
}

static HELD: Mutex<Option<Held>> = Mutex::new(None);

/// A port that nobody has, on no address, and that no test program of this machine gets while this
/// one runs. Servers of a cluster must know each other's before they start, and a server that is
/// started again takes its own again.
///
/// # Panics
/// When there is none.
pub fn free_port() -> u16 {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let block = held.take_if(|held| held.given == BLOCK);
        // The locks of full blocks stay: their ports are in use.
        std::mem::forget(block);
        let block = held.get_or_insert_with(take_block);
        let port = block.first + block.given;
        block.given += 1;
        if TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() {
            return port;
        }
    }
}

/// A block that no other process holds.
fn take_block() -> Held {
    let folder = std::env::temp_dir().join("encke-test-ports");
    crate::shared_folder(&folder);
    let begin = process::id() % u32::from(BLOCKS);
    for turn in 0..BLOCKS {
        // Those that start one after another begin with blocks beside each other.
        let number = (u16::try_from(begin).expect("it is below 220") + turn) % BLOCKS;
        let path = folder.join(number.to_string());
        let lock = crate::lock_file(&path);
        if lock.try_lock().is_ok() {
            return Held { first: FIRST + number * BLOCK, given: 0, _lock: lock };
        }
    }
    panic!("all {BLOCKS} blocks of ports in {} are taken", folder.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ_past_the_end_of_a_block() {
        let mut ports: Vec<u16> = (0..=BLOCK).map(|_| free_port()).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), usize::from(BLOCK) + 1);
    }
}
