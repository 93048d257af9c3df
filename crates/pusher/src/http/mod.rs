//! The HTTP API that an app's backend uses: `/apps/{app_id}/…`, signed in the address.
//!
//! A request is looked at in this order: [`Route::of`] the method and the path, the app, then
//! [`SignedQuery::verify_head`], the body, then what is asked. So nobody who has not signed makes
//! the server read a body.

mod answer;
mod info;
mod query;
mod refusal;
mod route;
mod trigger;

pub use answer::{Attributes, Cached, batch, channel, channels, triggered, users};
pub use info::{ChannelsQuery, Info, channel_info};
pub use query::{SignedQuery, Signer};
pub use refusal::ApiRefusal;
pub use route::{Call, Route};
pub use trigger::{Trigger, parse_batch, parse_legacy, parse_trigger};
