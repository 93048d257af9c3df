//! The old daemon's HTTP interface.
