//! The translation of a worker's messages, on what the real worker said.

#![expect(clippy::unwrap_used, reason = "a test that unwraps fails and says where")]

mod translation;
mod v1;
mod v1_laws;
mod v1_types;
