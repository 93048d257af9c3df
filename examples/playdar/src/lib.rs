//! Playdar on Encke: a daemon that answers where a song can be heard.
//!
//! It is the example of what Encke is for: many asynchronous answers, pushed to whoever asked as
//! they come. A query goes through a [`pipeline`] of [`resolver`]s: the [`library`] on this
//! machine, other daemons on the [`lan`], programs ([`scripts`]) and [`friends`]. What they find is
//! told over the old daemon's [`http`] interface, and over Encke's own [`streams`]. So is what the
//! person at this machine listens to ([`listens`]).
//!
//! It uses Encke as a library and over its public interfaces; nothing in Encke knows of it.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

pub mod auth;
pub mod config;
pub mod daemon;
pub mod demo;
mod foreign;
pub mod friends;
pub mod http;
mod keep_up;
pub mod lan;
pub mod library;
pub mod listens;
pub mod model;
pub mod page;
pub mod pipeline;
mod queries;
pub mod resolver;
pub mod scanner;
pub mod score;
pub mod scripts;
mod sending;
pub mod streams;
