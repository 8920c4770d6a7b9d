//! `switchboard ask`: one turn, here, streamed to the terminal.

mod printer;
mod screen;

use std::future::pending;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use codex::event::{TurnEvent, TurnStatus};
use codex::handshake::Initialize;
use codex::turn::Turn;
use codex::{CallError, Client, ThreadOptions, requests, v2};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep_until};
use wire::{Event, Request};

use crate::worker::Worker;
use screen::{Form, Screen};

/// How long an interrupted turn may take to end before its worker is stopped.
const INTERRUPT_GRACE: Duration = Duration::from_secs(5);
/// How long the reader of an interrupted turn may take to read what is left.
const LAST_WORDS_GRACE: Duration = Duration::from_secs(1);
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
    let initialize = Initialize {
        client_name: env!("CARGO_PKG_NAME").into(),
        client_version: env!("CARGO_PKG_VERSION").into(),
        capabilities: serde_json::json!({}),
    };
    let client = tokio::select! {
        biased;
        () = signals.next() => return screen.end(TurnStatus::Interrupted),
        client = Client::start(&launch, initialize) => client.context("cannot start the worker")?,
    };
    if let Some(cause) = &client.greeting().fallback {
        screen.note(&format!(
            "the worker rejected the v2 parameters ({}) and took the client's name alone",
            cause.message
        ));
    }
    let options = ThreadOptions { cwd, model: ask.model.clone() };
    let mut exchange = Exchange { client, signals, screen };
    let ended = exchange.run(&options, ask.thread.as_deref(), &prompt).await;
    let Exchange { client, signals, screen } = exchange;
    let deafness = client.deafness().map(|cause| cause + ". ").unwrap_or_default();
    let exit = tokio::select! {
        biased;
        // Whoever does not want to wait for the ladder has the worker killed: that is what dropping it does.
        () = signals.next() => "the worker was killed".to_owned(),
        exit = client.stop() => deafness + &exit.to_string(),
    };
    match ended {
        Ok(Ended::ByWorker(status)) => Ok(status),
        Ok(Ended::WorkerGone) => {
            screen.show(&TurnEvent::lost(&exit))?;
            Ok(TurnStatus::Lost)
        }
        Ok(Ended::BeforeTurn) => screen.end(TurnStatus::Interrupted),
        Ok(Ended::Impatiently(why)) => {
            // Perhaps nobody reads: then there is nobody to tell either.
            _ = screen.show(&TurnEvent::lost(why));
            Ok(TurnStatus::Interrupted)
        }
        Err(error) => match error.downcast_ref() {
            Some(CallError::Unanswered { .. } | CallError::Refused(_)) => Err(anyhow!("{error}. {exit}")),
            Some(CallError::Failed { method, .. }) if **method == *"thread/start" => {
                Err(error.context("no thread could be started: is this a codex that speaks the v2 dialect?"))
            }
            _ => Err(error),
        },
    }
}

/// What is asked: the argument, or what stdin says.
fn prompt(argument: &str) -> Result<String> {
    if argument != "-" {
        return Ok(argument.into());
    }
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

/// One turn, from its start to its end.
struct Exchange<'a> {
    client: Client,
    signals: &'a mut Signals,
    screen: &'a mut Screen,
}

/// How the one turn came to its end.
enum Ended {
    ByWorker(TurnStatus),
    WorkerGone,
    /// Interrupted before there was a turn.
    BeforeTurn,
    /// By us, and why.
    Impatiently(&'static str),
}

impl Exchange<'_> {
    async fn run(&mut self, options: &ThreadOptions, thread: Option<&str>, prompt: &str) -> Result<Ended> {
        let start = async {
            let thread = match thread {
                Some(thread) => self.client.resume_thread(thread, options).await?,
                None => self.client.start_thread(options).await?,
            };
            let turn = self.client.start_turn(&thread, prompt).await?;
            Ok::<_, CallError>((thread, turn))
        };
        let (thread, turn) = tokio::select! {
            biased;
            () = self.signals.next() => return Ok(Ended::BeforeTurn),
            started = start => started?,
        };
        self.follow(&thread, &turn).await
    }

    async fn follow(&mut self, thread: &str, turn: &str) -> Result<Ended> {
        let mut shown = Turn::new(thread, turn);
        let mut grace_ends: Option<Instant> = None;
        loop {
            let event = tokio::select! {
                biased;
                () = self.signals.next() => {
                    if grace_ends.is_some() {
                        return Ok(Ended::Impatiently("interrupted twice: the worker was stopped in mid turn"));
                    }
                    self.screen.note("interrupting; once more stops the worker");
                    grace_ends = Some(Instant::now() + INTERRUPT_GRACE);
                    if let Err(refused) = self.client.interrupt(thread, turn) {
                        self.screen.note(&format!("the interrupt could not be sent: {refused}"));
                    }
                    continue;
                }
                () = until(grace_ends) => {
                    return Ok(Ended::Impatiently("interrupted: the worker did not end the turn in time and was stopped"));
                }
                // Once interrupted, the turn's end is waited for even if nobody reads.
                event = self.client.next(), if self.screen.has_room() || grace_ends.is_some() => event,
                () = self.screen.room(), if !self.screen.has_room() => continue,
            };
            let Some(event) = event else {
                return Ok(Ended::WorkerGone);
            };
            if let Some(status) = self.handle(event, &mut shown)? {
                return Ok(Ended::ByWorker(status));
            }
        }
    }

    /// Shows an event; the turn's status if this was its end.
    fn handle(&mut self, event: Event, turn: &mut Turn) -> Result<Option<TurnStatus>> {
        let placed = match &event {
            Event::Notification(told) => told.params.as_ref().and_then(|params| v2::notification(&told.method, params)),
            Event::Request(asked) => {
                asked.params.as_ref().and_then(|params| v2::request(asked.id.as_raw(), &asked.method, params))
            }
            Event::Reported(report) => {
                self.screen.note(&format!("passed over a line of the worker: {report}"));
                None
            }
            Event::Settled { .. } | Event::Closed { .. } => None,
        };
        let shown = placed.and_then(|placed| turn.take(placed));
        if let Some(event) = &shown {
            self.show(event)?;
        }
        if let Event::Request(request) = event {
            self.decline(&request)?;
        }
        match shown {
            Some(TurnEvent::TurnEnded { status, .. }) => Ok(Some(status)),
            _ => Ok(None),
        }
    }

    /// Without room, which happens only after an interrupt, nothing but the end is worth a try.
    fn show(&mut self, event: &TurnEvent) -> Result<()> {
        if self.screen.has_room() {
            return self.screen.show(event);
        }
        if let TurnEvent::TurnEnded { .. } = event {
            _ = self.screen.show(event);
        }
        Ok(())
    }

    fn decline(&mut self, request: &Request) -> Result<()> {
        let reason = "nobody can decide this here: `switchboard ask` only asks";
        self.screen.note(&format!("declined {}: {reason}", request.method));
        let answer = requests::declined(&request.method, reason);
        self.client.answer(&request.id, answer.as_ref())?;
        Ok(())
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}

/// Ctrl-C, the end of the terminal, and the signal of whoever wants this program to end.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}
