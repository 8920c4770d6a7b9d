//! `cargo xtask record`: writes the transcripts of the real worker anew.
//! The tests that compare against them do the writing; this command gives them the binary and tells them to.

use std::time::Duration;

use anyhow::Result;

use crate::codex::{self, Codex};
use crate::run;

const RECORD_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// Tells the tests to write: `1` for every transcript, else the names of some, with commas between.
const RECORD: &str = "SWITCHBOARD_RECORD";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The transcripts to record, by name [default: all]
    names: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let codex = Codex::committed()?;
    let mut cargo = run::cargo("test --package demo --features real-codex -- record");
    cargo.env(codex::PATH_VARIABLE, &codex.binary);
    cargo.env(RECORD, wanted(&arguments.names));
    run::to_end(&mut cargo, RECORD_TIMEOUT)?;
    println!("recorded from codex {}: look at `git diff transcripts/`", codex.version);
    Ok(())
}

fn wanted(names: &[String]) -> String {
    if names.is_empty() { "1".to_owned() } else { names.join(",") }
}

#[cfg(test)]
mod tests {
    use super::wanted;

    #[test]
    fn no_name_means_every_transcript() {
        assert_eq!(wanted(&[]), "1");
        assert_eq!(wanted(&["steer".to_owned(), "tool-one".to_owned()]), "steer,tool-one");
    }
}
