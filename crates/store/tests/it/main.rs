//! The store as its users see it, on real files.

#![expect(clippy::unwrap_used, reason = "a test that unwraps fails and says where")]

mod rows;
mod support;
