//! Folders of music, read into the library.
