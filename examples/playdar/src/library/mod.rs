//! The songs on this machine.
