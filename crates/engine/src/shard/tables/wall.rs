//! How far the wall clock was set forward ([`crate::shard::wall`]).

use crate::timer::Tick;

/// How far the wall clock was set forward since the start.
#[derive(Debug, Default)]
pub(in crate::shard) struct Wall {
    /// What it shows when the other one shows nothing.
    pub(in crate::shard) offset_ms: Option<i64>,
    pub(in crate::shard) ahead: Tick,
}
