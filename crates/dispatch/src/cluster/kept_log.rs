//! The events that a node keeps on disk, as the node sees them. It reads the cluster's log from
//! where its own ends, and says where something is missing.

use std::fmt::Debug;

use hub::Tag;

/// What a node keeps on disk of the cluster's log. All of it may wait for the disk.
pub trait KeptLog: Send + Sync + Debug {
    /// Up to which number of the epoch `tag` all that is to be kept is on disk; `None` where
    /// nothing is known of this epoch.
    fn read_up_to(&self, tag: Tag) -> Option<u64>;

    /// The greatest number on disk, of whichever epoch; 0 where there is none.
    fn last(&self) -> u64;

    /// From now on this node reads what stands behind the number `before` of the epoch `tag`: if
    /// its own log does not reach to there, places before it are gaps.
    fn go_on_behind(&self, tag: Tag, before: u64);

    /// What was to be kept up to the number `up_to` of the epoch `tag` is not all there: places
    /// before it are gaps.
    fn lost(&self, tag: Tag, up_to: u64);
}
