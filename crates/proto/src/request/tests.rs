//! Tables and properties of request heads.
