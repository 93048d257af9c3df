//! The client half: what a load tool reads from a stream. Sans-io, like the rest of this crate.
