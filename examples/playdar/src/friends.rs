//! Queries to friends, over Encke's graph.
