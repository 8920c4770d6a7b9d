//! The thin loops around a worker: they move bytes and time, and do what it wants done to the process.

mod http;
mod process;
pub(crate) mod sockets;
pub(crate) mod stdio;

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use crate::run::RunError;

/// Output that is gathered before it is written, and the pieces a long line is made of.
const CHUNK_BYTES: usize = 64 * 1024;

/// The file that every received line is written to.
pub(crate) struct Capture(Option<File>);

impl Capture {
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, RunError> {
        let open = |path: &Path| {
            File::options()
                .create(true)
                .append(true)
                .open(path)
                .map_err(|error| RunError::Capture { path: path.to_owned(), error })
        };
        Ok(Self(path.map(open).transpose()?))
    }

    fn line(&mut self, line: &[u8]) {
        if let Some(file) = &mut self.0 {
            let newline: &[u8] = if line.ends_with(b"\n") { b"" } else { b"\n" };
            // A capture that fails must not change what is captured.
            let _ = file.write_all(&[line, newline].concat());
        }
    }
}
