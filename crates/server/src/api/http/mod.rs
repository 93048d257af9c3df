//! The API's HTTP, whatever is asked: connections and their bounds, bodies and lines, ids in paths,
//! who may ask, and how an error is told.

pub(super) mod assets;
mod bodiless;
pub(super) mod body;
mod connection;
pub(super) mod id;
pub(super) mod lines;
pub(crate) mod listener;
pub(super) mod object;
pub(super) mod origin;
pub(super) mod path;
pub(super) mod problem;
