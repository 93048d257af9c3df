//! What the kernel lets this process have.

use std::io;

/// As many as the kernel can have.
pub const UNLIMITED: u64 = libc::RLIM_INFINITY;

/// The descriptor limit of each table (getrlimit(2), `RLIMIT_NOFILE`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DescriptorLimit {
    /// The limit that holds now.
    pub soft: u64,
    /// Up to where the process may raise it.
    pub hard: u64,
}

/// Reads the descriptor limit.
pub fn descriptors() -> io::Result<DescriptorLimit> {
    let mut raw = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `raw` outlives the call.
    crate::check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut raw) })?;
    Ok(DescriptorLimit { soft: raw.rlim_cur, hard: raw.rlim_max })
}

/// Raises the soft limit to the hard one and returns what holds then.
pub fn raise_descriptors() -> io::Result<DescriptorLimit> {
    let DescriptorLimit { hard, .. } = descriptors()?;
    let raw = libc::rlimit { rlim_cur: hard, rlim_max: hard };
    // SAFETY: `raw` outlives the call.
    crate::check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raw) })?;
    descriptors()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raised_limit_is_the_hard_one() {
        let before = descriptors().unwrap();
        let after = raise_descriptors().unwrap();
        assert_eq!((after.soft, after.hard), (before.hard, before.hard));
    }
}
