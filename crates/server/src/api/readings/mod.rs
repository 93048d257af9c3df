//! What the API measures, and what the kernel tells of this process, for who shows it.

pub(super) mod duration;
pub(super) mod process;
pub(super) mod sockets;
