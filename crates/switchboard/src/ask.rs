//! `switchboard ask`: one turn, here, streamed to the terminal.

mod play;
mod printer;
mod remote;
mod screen;
mod told;

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use codex::event::TurnStatus;
use codex::{Client, Options, ThreadOptions};
use tokio::time::Instant;

use crate::config::{self, Config};
use crate::server::Server;
use crate::signals::Signals;
use crate::worker::{Worker, variables_of_ours};
use play::{Play, until};
use remote::{Order, Remote};
use screen::{Form, Screen};

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
    /// The worker: "demo" (built in), "codex" (found on PATH), or the path of a codex binary; without it the running
    /// server answers, or "demo" if none runs
    #[arg(long)]
    worker: Option<Worker>,
    /// Ask this server, such as `https://gateway.example.com`; its key is SWITCHBOARD_KEY
    #[arg(long, value_name = "URL", conflicts_with = "worker")]
    server: Option<String>,
    /// Go on with this thread; its id is in the `turn_started` event that --json prints
    #[arg(long, value_name = "ID")]
    thread: Option<String>,
    /// Where the agent works; it may read there, and whatever more it asks for is
    /// declined, or with a server decided there
    #[arg(long, value_name = "DIR", default_value = ".")]
    cd: PathBuf,
    /// The model, if not the worker's own choice
    #[arg(long)]
    model: Option<String>,
    /// The configuration file, if not the usual one
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Let the worker see this environment variable; may be repeated, and is not for a server's workers
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
            crate::print::complain(&error);
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
    let resolved = config::load(ask.config.as_deref(), Vec::new())?;
    let private = resolved.boundaries().private_paths();
    let config = resolved.config;
    if let Some(server) = server(ask, &config)? {
        ensure!(ask.env.is_empty(), "--env is for a worker of your own: choose one with --worker, or leave --env out");
        let (thread, model) = (ask.thread.as_deref(), ask.model.as_deref());
        let order = Order { prompt: &prompt, cwd: &cwd, thread, model };
        return Remote { server, signals, screen }.run(&order).await;
    }
    let codex_home = config.groups.first().and_then(|group| group.codex_home.as_deref());
    let variables = variables_of_ours(&ask.env).map_err(|error| anyhow!("--env {error}"))?;
    let worker = ask.worker.as_ref().unwrap_or(&Worker::Demo);
    let launch = worker.start(codex_home, &config.state_dir)?.launch(Path::new(&cwd), variables);
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
    let options = workers::confine(&client, &options, &private).await?;
    Play::new(client, signals, screen).run(options, ask.thread.as_deref(), &prompt).await
}

/// The server to ask: the one that is named, or one that runs here if no worker is named.
fn server(ask: &Ask, config: &Config) -> Result<Option<Server>> {
    match (&ask.server, &ask.worker) {
        (Some(_), _) => Ok(Some(Server::find(ask.server.as_deref(), config)?)),
        (None, Some(_)) => Ok(None),
        (None, None) => Ok(Server::running(&config.state_dir).ok()),
    }
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
