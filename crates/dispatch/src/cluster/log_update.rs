//! An update of the Mercure protocol that the log brings: who hears it at this node, and what is to
//! be known of its topics here from then on.
//!
//! Each node has tables of its own of who listens to what, and of the topics of late. They learn of
//! an update where it is posted, in the log's order: so a client that comes back is told the same
//! at each node.
//!
//! Cost: a copy of its topics, and what an update costs at a server alone.

use std::sync::Arc;

use hub::{Draft, Followers};
use topics::{ToldChange, Topics, UnderWay, UpdateFollowers, UpdateKeys, read_own_id};

/// An update that is being posted here.
pub(super) struct LogUpdate<'r> {
    followers: UpdateFollowers<'r>,
    under_way: UnderWay,
    topics: &'r Topics,
    /// What it tells, if it is of a subscription.
    change: Option<ToldChange>,
    /// The id that its publisher gave it.
    own_id: Option<String>,
}

impl<'r> LogUpdate<'r> {
    /// Begins to post the update of `draft`, that was published `age_ms` ago.
    pub(super) fn begin(
        topics: &'r Arc<Topics>,
        draft: &Draft,
        age_ms: u64,
    ) -> Option<LogUpdate<'r>> {
        let subjects = std::iter::once(draft.about()).chain(draft.also());
        let (of, is_private) = UpdateKeys::topics(subjects)?;
        let then_ms = sys::clock::monotonic_ms().saturating_sub(age_ms);
        let (_, under_way) = topics.begin(&of, is_private, then_ms)?;
        let own_id = draft.own_id().and_then(read_own_id);
        let change = topics.subscriptions().change_of(&of, draft.data());
        let followers = UpdateFollowers::new(topics, of);
        Some(LogUpdate { followers, under_way, topics, change, own_id })
    }

    /// Who hears it.
    pub(super) fn followers(&self) -> &dyn Followers {
        &self.followers
    }

    /// It is posted under this number.
    pub(super) fn posted(self, number: u64) {
        self.under_way.posted(number, self.own_id.as_deref());
        self.change.into_iter().for_each(|change| self.topics.subscriptions().tell(change));
    }
}
