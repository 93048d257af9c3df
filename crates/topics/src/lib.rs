//! Topics of the Mercure protocol on the tables of the hub: who hears what is published, and what
//! one who comes back has missed.
//!
//! A topic, and a pattern that somebody listens to, is a [key](hub::Key), and keys follow each
//! other as ids do in the stored graph. So the audience of an update is gathered, and what was
//! missed is found, by the code that does both for ids ([`hub::Followers`]):
//!
//! ```text
//! #t:TOPIC        who listens to the topic            public updates are about it
//! #p:TOPIC        who is granted the topic            private updates are about it; follows #t
//! #r:PATTERN      who listens to a pattern            follows #t of each topic that it matches
//! #v:PATTERN      who is granted that pattern         follows #t and #p of each
//! #gN:SELECTOR    who has the grants N, and listens   follows #p of each, where N grants some
//!                 to a selector that N has not        topic of the update
//! ```
//!
//! A private update is about `#p` alone. Nobody is logged in under that, or under what follows it,
//! without a grant: so it cannot come to an anonymous client, by whatever way. Only for `#g` it
//! must be looked at each update whether the list grants it. The protocol lets an update be matched
//! by one topic and granted by another.
//!
//! Each selector that is listened to is there once, however many listen. A listener of plain topics
//! is not known here at all.
//!
//! What it does not do: read requests, tokens or a clock, or send. Cost of an update: a look for
//! each of its topics, and what it takes to find the patterns that match.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

mod claims;
mod following;
mod handed_over;
mod held_selector;
mod ids;
mod index;
mod kept;
mod keys;
mod let_in_before;
mod listened;
mod lists;
mod places;
mod state;
mod subscription_table;
mod subscriptions;
#[cfg(test)]
mod tests;
mod text;

pub use claims::{HubNames, read_claims};
pub use following::{TopicFollowers, UpdateFollowers};
pub use handed_over::{TopicsDumped, TopicsPart, TopicsRest};
pub use held_selector::{HeldKind, HeldSelector, subscribed};
pub use ids::{granted_id, id_of_selector, id_of_topic};
pub use keys::{Listening, UpdateKeys};
pub use let_in_before::list_number;
pub use places::PublisherIds;
pub use state::{LastUpdate, Topics, TopicsFigures, TopicsFull, TopicsLimits, UnderWay};
pub use subscription_table::{ListedBy, ListedSubscription, SUBSCRIPTIONS_MAX, SubscriptionTable};
pub use subscriptions::{
    SubscriberNote, SubscriberNumber, Subscriptions, SubscriptionsRest, ToldChange, asks_for_paths,
    subscriber_number, subscriber_text,
};
pub use text::{own_id, payload, read_own_id, stream_text};
