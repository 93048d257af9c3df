//! The demo: songs that the program makes itself.
