//! Who may ask from a web page: tokens that a person granted.
