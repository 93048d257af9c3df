//! What this program takes of the system it runs on: random bytes, and room for descriptors.

use std::fmt::Write;

use anyhow::{Context, Result};
use sys::limits::{self, DescriptorLimit};

/// Bytes that nobody can foresee.
pub(crate) fn random<const LEN: usize>() -> Result<[u8; LEN]> {
    let mut bytes = [0; LEN];
    getrandom::fill(&mut bytes).context(
        "this system gives no random numbers; see that no filter of system calls (seccomp) \
         forbids getrandom",
    )?;
    Ok(bytes)
}

/// So many of them, in hexadecimal digits.
pub(crate) fn random_digits<const LEN: usize>() -> Result<String> {
    let mut digits = String::with_capacity(2 * LEN);
    for byte in random::<LEN>()? {
        write!(digits, "{byte:02x}")?;
    }
    Ok(digits)
}

/// The limit of descriptors, raised as far as it may be.
pub(crate) fn descriptors() -> Result<DescriptorLimit> {
    limits::raise_descriptors().context(
        "cannot raise the limit of descriptors; see that it (ulimit -n, LimitNOFILE) is not above \
         fs.nr_open, and that no filter of system calls (seccomp) forbids prlimit",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_two_a_byte_and_never_the_same() {
        let (one, other) = (random_digits::<12>().unwrap(), random_digits::<12>().unwrap());
        assert_eq!((one.len(), other.len()), (24, 24));
        assert!(one.chars().all(|c| c.is_ascii_hexdigit()) && one != other, "{one}, {other}");
    }
}
