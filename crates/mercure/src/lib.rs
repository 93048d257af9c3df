//! Mercure, both dialects that hubs speak: draft 07, which all installed clients know, and draft
//! 08, which becomes 1.0.
//!
//! For Symfony, API Platform and whatever else publishes to a Mercure hub. Requests, claims and
//! documents to meaning and back: this crate does no IO, reads no clock and knows not who is
//! connected. Facts are of the protocol's drafts and of the reference hub's behaviour.
//!
//! Way of a subscriber: [`Presented`] finds its token, [`Claims`] what that grants, [`Subscribe`]
//! what it asks for as [`Selector`]s, [`Subscription`] what others hear of it. Way of a publisher:
//! [`Update`] is its form, [`Grants`] say whether it may, [`Patterns`] which patterns match, and
//! [`push_update`] writes what is heard. [`Refusal`] is the answer where something is wrong.
//!
//! Cost: a match of a template takes at most the topic's bytes for each expression, one of a URL
//! pattern linear time. A publish tries the patterns that begin and end as its topics do.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

mod claims;
mod dialect;
mod discovery;
mod fields;
mod frame;
mod grants;
mod hub_url;
pub mod limits;
mod patterns;
mod presented;
mod refusal;
mod selector;
mod subscribe;
mod subscription;
mod template;
mod topic;
mod topic_rules;
mod update;
mod url_pattern;

pub use claims::{Claims, ClaimsFault, DETAIL_TYPE};
pub use dialect::{Dialect, EARLIEST, PATH};
pub use discovery::{LinkPlace, link, metadata, metadata_address, metadata_path};
pub use frame::{UpdateFrame, push_update};
pub use grants::Grants;
pub use hub_url::HubUrl;
pub use patterns::{Patterns, PatternsFull};
pub use presented::{Presented, PresentedBy, TokenFields};
pub use refusal::{IdFault, KindFault, Refusal};
pub use selector::{MatchType, Selector, SelectorFault, SelectorKind};
pub use subscribe::{Subscribe, SubscribeRequest};
pub use subscription::{
    Subscription, SubscriptionPath, collection, etag, is_not_modified, subscriptions_content_type,
};
pub use topic::Topic;
pub use update::Update;
