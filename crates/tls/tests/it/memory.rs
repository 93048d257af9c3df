//! What lies in memory after keys are gone.

use std::fs::File;
use std::os::unix::fs::FileExt;

use tls::{Keys, Suite, Version};

use crate::both::{Role, connected};

/// This process' memory from `address` on.
fn look(address: usize, len: usize) -> Vec<u8> {
    let memory = File::open("/proc/self/mem").unwrap();
    let mut bytes = vec![0; len];
    memory.read_exact_at(&mut bytes, address as u64).unwrap();
    bytes
}

#[test]
fn keys_that_are_dropped_are_wiped() {
    for version in [Version::Tls12, Version::Tls13] {
        let (mut ours, _full) = connected(Role::Server, version, Suite::Aes128Gcm);
        let keys = std::mem::take(&mut ours.keys);
        let address = std::ptr::from_ref(&*keys) as usize;
        let before = look(address, size_of::<Keys>());
        assert!(before.iter().filter(|byte| **byte != 0).count() > 40);
        drop(keys);
        let after = look(address, size_of::<Keys>());
        // The allocator writes its own notes over the first of them.
        assert_eq!(&after[16..], [0; size_of::<Keys>() - 16], "{version:?}");
        assert_ne!(&after[..16], &before[..16]);
    }
}
