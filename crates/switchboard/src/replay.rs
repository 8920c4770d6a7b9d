//! `switchboard replay`: a worker made of a recording. It answers as the recorded worker did, says on stderr what is not
//! in the recording, and ends with its stdin.

mod play;
mod recording;

use std::fs::File;
use std::io::{self, BufRead, Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Args;

use play::Play;
use recording::Recording;

/// The longest recording that is read; all of it is kept in memory.
const RECORDING_BYTES_MAX: u64 = 1 << 30;

/// What to replay.
#[derive(Args)]
pub(crate) struct Replay {
    /// A file that `switchboard record` has written
    file: PathBuf,
    /// What a worker would be told, such as `app-server`; it changes nothing
    #[arg(hide = true)]
    ignored: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(replay: &Replay) -> ExitCode {
    match load(&replay.file).and_then(|recording| answer(Play::new(recording))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            crate::print::complain(&error);
            ExitCode::FAILURE
        }
    }
}

fn load(path: &Path) -> Result<Recording> {
    let unreadable = || format!("cannot read {}", path.display());
    let file = File::open(path).with_context(unreadable)?;
    let mut text = String::new();
    file.take(RECORDING_BYTES_MAX + 1).read_to_string(&mut text).with_context(unreadable)?;
    ensure!(text.len() as u64 <= RECORDING_BYTES_MAX, "{} is larger than {RECORDING_BYTES_MAX} bytes", path.display());
    Recording::parse(&text).with_context(|| path.display().to_string())
}

/// A client that has seen enough is no reason to complain.
fn answer(mut play: Play) -> Result<()> {
    let mut client = io::stdout().lock();
    let mut written = send(&mut client, &play.begin());
    for line in io::stdin().lock().lines() {
        let line = line.context("cannot read stdin")?;
        let lines = play.handle_line(&line);
        play.take_complaints().iter().for_each(|complaint| eprintln!("replay: {complaint}"));
        written = written.and_then(|()| send(&mut client, &lines));
        if written.is_err() {
            break;
        }
    }
    play.finish();
    play.take_complaints().iter().for_each(|complaint| eprintln!("replay: {complaint}"));
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("cannot write to stdout"),
        _ => Ok(()),
    }
}

fn send(client: &mut impl Write, lines: &[String]) -> io::Result<()> {
    for line in lines {
        client.write_all(line.as_bytes())?;
        client.write_all(b"\n")?;
    }
    client.flush()
}
