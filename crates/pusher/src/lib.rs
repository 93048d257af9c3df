//! Pusher Channels, protocol 7: its names, frames, signatures, HTTP API, webhooks and apps.
//!
//! For pusher-js, Laravel Echo and Pusher's libraries for servers. Bytes to meaning and back: this
//! crate does no IO, reads no clock and knows not who is connected. Facts are of Pusher's public
//! documentation and of the libraries' source.
//!
//! The way of a client: [`app_key`] and [`check_protocol`] read its request, [`ClientFrame`] what
//! it says. [`Asker`] checks its subscriptions and its sign-in, [`EventRules`] the events that it
//! sends. [`server_frame`] and [`presence_frame`] are what it hears. Way of a backend: [`http`].
//! [`Apps`] is the file that says which apps there are, [`webhook`] what they are told.
//!
//! Cost: a frame is one pass over its JSON, a signature some hundred nanoseconds.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

mod app;
mod app_webhook;
mod apps;
mod channel;
mod client_event;
mod client_frame;
mod code;
mod connect;
pub mod http;
mod json;
pub mod limits;
pub mod presence_frame;
pub mod server_frame;
mod signature;
mod socket_id;
mod subscription;
mod user;
pub mod webhook;
mod written;

pub use app::App;
pub use app_webhook::AppWebhook;
pub use apps::{Apps, AppsFault};
pub use channel::{Access, Channel, ChannelFault, USER_PREFIX, is_user_id};
pub use client_event::{EventRefusal, EventRules};
pub use client_frame::{CLIENT_PREFIX, ClientEvent, ClientFrame, FrameFault, SignIn, Subscribe};
pub use code::{Afterwards, Close, ErrorCode};
pub use connect::{app_key, check_protocol};
pub use json::{Given, is_json_but_text, plain_text};
pub use signature::{Auth, Secret, Signed};
pub use socket_id::{SocketId, SocketIdFault};
pub use subscription::{Asker, Granted, SignInRefusal, SubscriptionRefusal};
pub use user::{Member, User, UserFault, UserInfo};
