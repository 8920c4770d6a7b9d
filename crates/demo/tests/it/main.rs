//! The proof that the demo worker is faithful: the same scripts played against it and against the real codex, the
//! transcripts compared, and every line of both held against upstream's schema.

mod comparison;
mod plays;
mod process;
#[cfg(feature = "real-codex")]
mod real;
mod schema;
