//! To be written.

pub mod graph_model;
