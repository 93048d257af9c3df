//! The API's HTTP, whatever is asked: connections and their bounds, bodies and lines, ids in paths,
//! who may ask, and how an error is told.

pub(crate) mod accept_pace;
pub(crate) mod assets;
pub(crate) mod body;
pub(crate) mod connection;
mod empty_error;
pub(crate) mod exchange;
pub(crate) mod host;
pub(crate) mod id;
pub(crate) mod json;
pub(crate) mod lines;
pub(crate) mod object;
pub(crate) mod origin;
pub(crate) mod path;
pub(crate) mod permits;
pub(crate) mod problem;
pub(crate) mod tls;
mod wire;
