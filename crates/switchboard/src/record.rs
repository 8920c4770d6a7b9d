//! `switchboard record`: stands between a client and its worker, passes every byte on as it is, and keeps what was said.

mod passage;
mod recorder;

use std::env;
use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use supervise::{Ending, Exit, Launch, Limits, Owner, Rlimits};

use recorder::{Recorder, Secrets};

/// A worker may read nothing for as long as its client has patience; this is only to be finite.
const WRITE_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);
/// What a shell says of a program that a signal ended: this, plus the signal.
const SIGNALLED: i32 = 128;

/// What to record, and where.
#[derive(Args)]
pub(crate) struct Record {
    /// The file to write, one line of JSON for each line that was said
    file: PathBuf,
    /// Overwrite the file if it is there
    #[arg(long)]
    force: bool,
    /// Write secrets too; otherwise what looks like a key, a token or a password is hidden
    #[arg(long)]
    keep_secrets: bool,
    /// The worker's command line, such as `codex app-server`; it sees all of this program's environment
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs the command, and ends with the worker's own code.
pub(crate) fn run(record: &Record) -> ExitCode {
    let exit = match start(record) {
        Ok(exit) => exit,
        Err(error) => {
            crate::print::complain(&error);
            return ExitCode::FAILURE;
        }
    };
    // It was kept while the worker ran; nobody minds if it cannot be said any more.
    io::stderr().write_all(exit.stderr.text.as_bytes()).ok();
    let code = match exit.ending {
        Ending::Code(code) => code,
        Ending::Signal { number, .. } => SIGNALLED + number,
        Ending::Unknown | Ending::StillRunning => 1,
    };
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

fn start(record: &Record) -> Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    let launch = launch(&record.command)?;
    let file = create(record)?;
    let secrets = if record.keep_secrets { Secrets::Kept } else { Secrets::Hidden };
    let recorder = Recorder::start(file, &record.file, secrets);
    let exit = runtime.block_on(async {
        let limits = Limits { write_timeout: WRITE_TIMEOUT, ..Limits::default() };
        let child = launch.spawn(limits).context("cannot start the worker")?;
        let exit = passage::pass(child, &recorder).await?;
        recorder.finish().await;
        Ok(exit)
    });
    // A read of stdin that nobody waits for any more must not be waited for here.
    runtime.shutdown_background();
    exit
}

/// The worker is to find all that it would find without us.
fn launch(command: &[OsString]) -> Result<Launch> {
    let (program, args) = command.split_first().context("name the worker's command behind `--`")?;
    let native = codex::native::locate(Path::new(program), env::var_os("PATH").as_deref());
    Ok(Launch {
        program: native.binary.into(),
        args: args.into(),
        cwd: env::current_dir().context("the current directory cannot be used")?,
        env: env::vars_os().chain(native.env).collect(),
        owner: Owner::generate(),
        rlimits: Rlimits::default(),
    })
}

/// Only its owner may read what people said to an agent.
fn create(record: &Record) -> Result<File> {
    let path = &record.file;
    let mut options = File::options();
    options.write(true).mode(0o600);
    if record.force {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    let file = options.open(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            anyhow::anyhow!("{} is there already: name another file, or add --force", path.display())
        }
        _ => anyhow::anyhow!("cannot write {}: {error}", path.display()),
    })?;
    // One that was there keeps its mode; a device cannot be given another.
    if file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}
