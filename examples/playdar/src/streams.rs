//! Results over Encke's own streams.
