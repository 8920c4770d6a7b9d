//! The thin loops around a worker: they move bytes and time, and do what it wants done to the process.

pub(crate) mod process;
pub(crate) mod stdio;

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use crate::outputs::Ending;
use crate::run::RunError;

/// The file that every received line is written to.
pub(crate) struct Capture(Option<File>);

impl Capture {
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, RunError> {
        let open = |path: &Path| {
            File::options()
                .create(true)
                .append(true)
                .open(path)
                .map_err(|error| RunError::Capture {
                    path: path.to_owned(),
                    error,
                })
        };
        Ok(Self(path.map(open).transpose()?))
    }

    pub(crate) fn line(&mut self, line: &[u8]) {
        if let Some(file) = &mut self.0 {
            let newline: &[u8] = if line.ends_with(b"\n") { b"" } else { b"\n" };
            // A capture that fails must not change what is captured.
            let _ = file.write_all(&[line, newline].concat());
        }
    }
}

pub(crate) fn end(ending: Ending) -> ExitCode {
    match ending {
        Ending::Exit(code) => ExitCode::from(code),
        Ending::Abort => std::process::abort(),
        Ending::Kill => {
            let _ = rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::KILL,
            );
            ExitCode::FAILURE
        }
    }
}
