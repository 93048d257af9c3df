//! Ports for programs that cannot take one from the kernel as they begin to listen.

/// A port that nobody has, on no address, and that no program of ours gives out again while this
/// one runs ([`rig::free_port`]).
///
/// # Panics
/// When there is none.
pub fn free_port() -> u16 {
    rig::free_port().unwrap_or_else(|error| panic!("{error}"))
}
