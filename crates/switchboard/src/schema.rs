//! `switchboard schema`: the protocol that is built in, and how a codex binary's differs from it.

mod difference;
mod methods;
mod outline;
mod told;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Subcommand;
use codex::protocol::{NEEDS, NEWEST, SCHEMA};
use serde_json::{Value, json};

use crate::worker::located;
use difference::Difference;
use outline::Outline;

/// What to tell of the protocol.
#[derive(Subcommand)]
pub(crate) enum Schema {
    /// List every method: its kind, whether it is experimental, and since which tested version there is one
    Methods {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Compare a codex binary's protocol with the one that is built in
    Diff {
        /// The binary: a path, or a name that is found on PATH
        #[arg(long, value_name = "PATH")]
        codex: PathBuf,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command.
pub(crate) fn run(schema: &Schema) -> ExitCode {
    let text = match schema {
        Schema::Methods { json: false } => Ok(methods::to_text()),
        Schema::Methods { json: true } => Ok(format!("{}\n", methods::to_json())),
        Schema::Diff { codex, json } => diff(codex, if *json { Form::Json } else { Form::Text }),
    };
    match text.and_then(|text| print(&text)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            crate::print::complain(&error);
            ExitCode::FAILURE
        }
    }
}

#[derive(Clone, Copy)]
enum Form {
    Text,
    Json,
}

fn diff(codex: &Path, form: Form) -> Result<String> {
    let program = located(codex)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    let told = runtime.block_on(told::ask(&program, told::ANSWER_TIMEOUT))?;
    let built_in: Value = serde_json::from_str(SCHEMA).context("the built-in schema")?;
    let found =
        Outline::of(&told.bundle).with_context(|| format!("codex {} printed a strange schema", told.version))?;
    let difference = Difference::between(&Outline::of(&built_in)?, &found, NEEDS);
    Ok(match form {
        Form::Json => {
            let report = json!({
                "codex": told.version,
                "built_in": NEWEST,
                "experimental": told.has_experimental,
                "difference": difference,
            });
            format!("{report}\n")
        }
        Form::Text => {
            let note = if told.has_experimental {
                ""
            } else {
                "This version cannot print its experimental part: what is missing may only be hidden.\n"
            };
            let head = format!("codex {} against the built-in protocol of {NEWEST}", told.version);
            format!("{head} (+ it has more, - it has not, ~ it has otherwise)\n{note}\n{}", difference.to_text())
        }
    })
}

/// A reader that has gone away, such as `head`, is no failure.
fn print(text: &str) -> Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("cannot write to stdout"),
        _ => Ok(()),
    }
}
