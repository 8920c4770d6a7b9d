//! Golden files: what comes of a request, seen from three sides. Each file of `golden/` holds requests and, below them, what
//! they became: the plan of the turn, the bytes of the answer, and the lines that the worker was sent.
//!
//! To add a case, write its requests into a file, name it in the list below, and let `UPDATE_EXPECT=1` write the rest: then
//! read whether it is right.

mod capture;
mod case;
mod cases;
mod laws;
mod names;
mod plan;
mod play;
mod response;
mod response_laws;
mod responses;

#[allow(dead_code, reason = "the tests over HTTP use more of it")]
#[path = "../tests/it/http.rs"]
mod http;
#[path = "../tests/it/schemas.rs"]
mod schemas;
#[allow(dead_code, reason = "the tests over HTTP use more of it")]
#[path = "../tests/it/support.rs"]
mod support;

use std::fs;
use std::path::{Path, PathBuf};

use expect_test::expect_file;

/// Plays a case and holds what comes of it against its file.
async fn check(name: &str) {
    let path = directory().join(format!("{name}.txt"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let played = play::play(&text).await;
    expect_file![path].assert_eq(&played);
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")
}
