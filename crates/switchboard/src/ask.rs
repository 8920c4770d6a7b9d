//! `switchboard ask`: one turn, here, streamed to the terminal.

mod play;
mod printer;
mod screen;
pub(crate) mod signals;

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use codex::event::TurnStatus;
use codex::{Client, Options, ThreadOptions};
use tokio::time::Instant;

use crate::worker::Worker;
use play::{Play, until};
use screen::{Form, Screen};
use signals::Signals;

/// How long the reader of an interrupted turn may take to read what is left.
const LAST_WORDS_GRACE: Duration = Duration::from_secs(1);
/// What may wait for a reader that stands still, such as a pager, before the turn is interrupted.
const UNREAD_BYTES_MAX: usize = 64 << 20;
/// The longest prompt that is read from stdin; upstream takes about a million characters.
const PROMPT_BYTES_MAX: u64 = 4 << 20;
/// The exit code of a program that its user interrupted.
const INTERRUPTED: u8 = 130;

/// What is asked, and of whom.
#[derive(Args)]
pub(crate) struct Ask {
    /// What to ask; "-" reads it from stdin
    prompt: String,
    /// Print one event per line, as docs/events.md describes them; the last is always `turn_ended`
    #[arg(long)]
    json: bool,
    /// The worker: "demo" (built in), "codex" (found on PATH), or the path of a codex binary
    #[arg(long, default_value = "demo")]
    worker: Worker,
    /// Go on with this thread; its id is in the `turn_started` event that --json prints
    #[arg(long, value_name = "ID")]
    thread: Option<String>,
    /// Where the agent works; it may read there, and whatever more it asks for is declined
    #[arg(long, value_name = "DIR", default_value = ".")]
    cd: PathBuf,
    /// The model, if not the worker's own choice
    #[arg(long)]
    model: Option<String>,
    /// Let the worker see this environment variable; may be repeated
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(ask: &Ask) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    // The prompt comes first: while stdin is read, a signal must still end the program.
    let prompt = prompt(&ask.prompt);
    match runtime.and_then(|runtime| runtime.block_on(answer(ask, prompt))) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("switchboard: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn answer(ask: &Ask, prompt: Result<String>) -> io::Result<ExitCode> {
    let mut signals = Signals::new()?;
    let mut screen = Screen::new(if ask.json { Form::Json } else { Form::of_stdout() });
    // A reader may take its time, but not once its user has had enough.
    let mut patience = None;
    let code = match play(ask, prompt, &mut signals, &mut screen).await {
        Ok(TurnStatus::Completed) => ExitCode::SUCCESS,
        Ok(TurnStatus::Interrupted) => {
            patience = Some(Instant::now() + LAST_WORDS_GRACE);
            ExitCode::from(INTERRUPTED)
        }
        Ok(TurnStatus::Failed | TurnStatus::Lost) => ExitCode::FAILURE,
        Err(error) => {
            screen.fail(&error);
            ExitCode::FAILURE
        }
    };
    tokio::select! {
        biased;
        () = signals.next() => Ok(code),
        () = until(patience) => Ok(code),
        printed = screen.finish() => match printed {
            Ok(()) => Ok(code),
            // A reader that has seen enough is no reason to complain.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::FAILURE),
            Err(error) => Err(error),
        },
    }
}

async fn play(ask: &Ask, prompt: Result<String>, signals: &mut Signals, screen: &mut Screen) -> Result<TurnStatus> {
    let prompt = prompt?;
    let cwd = directory(&ask.cd)?;
    let launch = ask.worker.launch(Path::new(&cwd), &ask.env)?;
    let mut options = Options::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    options.limits.turn_bytes_max = UNREAD_BYTES_MAX;
    let client = tokio::select! {
        biased;
        () = signals.next() => return screen.end(TurnStatus::Interrupted),
        client = Client::start(&launch, options) => client.context("cannot start the worker")?,
    };
    if let Some(cause) = &client.greeting().fallback {
        screen.note(&format!(
            "the worker rejected the v2 parameters ({}) and took the client's name alone",
            cause.message
        ));
    }
    let options = ThreadOptions { model: ask.model.clone(), ..ThreadOptions::in_directory(&cwd) };
    Play::new(client, signals, screen).run(options, ask.thread.as_deref(), &prompt).await
}

/// What is asked: the argument, or what stdin says. An empty one is a mistake, such as a pipe from a program that failed.
fn prompt(argument: &str) -> Result<String> {
    let prompt = if argument == "-" { prompt_on_stdin()? } else { argument.into() };
    ensure!(!prompt.trim().is_empty(), "the prompt is empty: say what to ask");
    Ok(prompt)
}

fn prompt_on_stdin() -> Result<String> {
    let mut text = String::new();
    io::stdin().take(PROMPT_BYTES_MAX + 1).read_to_string(&mut text).context("cannot read the prompt from stdin")?;
    ensure!(text.len() as u64 <= PROMPT_BYTES_MAX, "the prompt on stdin is longer than {PROMPT_BYTES_MAX} bytes");
    Ok(text)
}

/// The directory as the worker is told it: absolute, and UTF-8 because it travels in JSON.
fn directory(cd: &Path) -> Result<String> {
    let absolute =
        cd.canonicalize().with_context(|| format!("cannot work in {}: choose a directory with --cd", cd.display()))?;
    match absolute.into_os_string().into_string() {
        Ok(cwd) => Ok(cwd),
        Err(cwd) => bail!("cannot work in {}: the name is not UTF-8", cwd.display()),
    }
}
