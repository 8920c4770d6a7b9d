//! Calls that open a thread: a new one, a stored one, a fork.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::history;
use super::paging::{Cursor, Scope};
use super::permissions::Selected;
use super::shapes::{Opened, Resumed, ThreadAlone};
use super::threads::{checked_id, no_rollout};
use super::tools;
use crate::home::{Home, Shelf, Unopened, read_thread};
use crate::lines::Refusal;
use crate::outputs::ConnectionId;
use crate::record::{Collaboration, Settings, Stored, ThreadRecord};
use crate::shapes::{ApprovalPolicy, SandboxMode, Status, TurnShape, Usage};
use crate::speech::Event;
use crate::stage::{Call, Stage};
use crate::thread::{Kept, Thread};
use crate::worker::Worker;

/// What a client may set when it opens a thread.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Overrides {
    cwd: Option<String>,
    model: Option<String>,
    model_provider: Option<String>,
    approval_policy: Option<ApprovalPolicy>,
    sandbox: Option<SandboxMode>,
    config: Option<Map<String, Value>>,
}

impl Overrides {
    /// What is named by a parameter counts more than the same in `config`.
    fn apply(self, settings: &mut Settings) {
        let Self { cwd, model, model_provider, approval_policy, sandbox, config } = self;
        let selected = Selected::of(config.as_ref());
        let config = |key: &str| config.as_ref().and_then(|config| config.get(key).cloned());
        let text = |key: &str| config(key).and_then(|value| value.as_str().map(str::to_owned));
        let model = model.or_else(|| text("model"));
        let approval_policy = approval_policy.or_else(|| serde_json::from_value(config("approval_policy")?).ok());
        let sandbox = sandbox.or_else(|| serde_json::from_value(config("sandbox_mode")?).ok());
        settings.effort = text("model_reasoning_effort").or(settings.effort.take());
        if let Some(cwd) = cwd {
            settings.cwd = absolute(&cwd);
        }
        settings.model = model.unwrap_or_else(|| settings.model.clone());
        settings.model_provider = model_provider.unwrap_or_else(|| settings.model_provider.clone());
        settings.approval_policy = approval_policy.unwrap_or_else(|| settings.approval_policy.clone());
        // A sandbox displaces a profile, and a thread that is opened without one has none.
        (settings.sandbox, settings.permission_profile) = match (sandbox, selected) {
            (Some(sandbox), _) => (sandbox.policy(), None),
            (None, Some(Selected { id, sandbox })) => (sandbox, Some(id)),
            (None, None) => (settings.sandbox.take(), None),
        };
    }

    /// How long the thread stays loaded when nobody listens; of a thread that is loaded already, what it had.
    fn unload_delay(&self, had: Option<Duration>, stage: &Stage) -> Option<Duration> {
        let wanted = self.config.as_ref().and_then(|config| config.get("thread_unload_delay_secs")?.as_u64());
        let usual = || Duration::from_secs(stage.config.thread_unload_delay_secs.into());
        wanted.map(Duration::from_secs).or(had).or_else(|| Some(usual()))
    }
}

/// What to say of configuration that nobody knows, if there is any.
fn config_warning(config: Option<&Map<String, Value>>) -> Option<String> {
    let known = |key: &&str| CONFIG_KEYS.lines().any(|known| known == *key);
    let keys: BTreeSet<&str> =
        config?.keys().filter_map(|key| key.split('.').next()).filter(|key| !known(key)).collect();
    let ignored: String = keys.iter().map(|key| format!("\n  session-flags: `{key}` is ignored.")).collect();
    let settings = if keys.len() == 1 { "setting" } else { "settings" };
    let advice = "Check for typos or deprecated settings.";
    (!keys.is_empty())
        .then(|| format!("Codex is ignoring {} unrecognized configuration {settings}. {advice}{ignored}", keys.len()))
}

/// The keys at the top of a configuration.
const CONFIG_KEYS: &str = include_str!("config_keys.txt");

pub(crate) fn absolute(path: &str) -> String {
    std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.to_string_lossy().into_owned())
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThreadStartParams {
    #[serde(flatten)]
    overrides: Overrides,
    #[serde(default)]
    ephemeral: Option<bool>,
    #[serde(default)]
    experimental_raw_events: bool,
    #[serde(default)]
    dynamic_tools: Option<Vec<Value>>,
}

pub(super) fn start(worker: &mut Worker, call: &Call, params: ThreadStartParams) -> Result<(), Refusal> {
    let tools = tools::declared(&params.dynamic_tools.unwrap_or_default())?;
    let stage = &mut worker.stage;
    let warning = config_warning(params.overrides.config.as_ref());
    let mut settings = default_settings(stage);
    let unload_delay = params.overrides.unload_delay(None, stage);
    params.overrides.apply(&mut settings);
    let record = ThreadRecord {
        id: stage.ids.uuid(),
        forked_from: None,
        created_ms: stage.now.unix_ms,
        originator: stage.originator.clone().unwrap_or_default(),
        tools,
    };
    let kept = if params.ephemeral == Some(true) { Kept::Ephemeral } else { Kept::NotYet };
    let tells_raw = params.experimental_raw_events;
    let mut thread = Thread { unload_delay, tells_raw, ..Thread::new(record, settings, kept) };
    thread.subscribe(call.connection);
    let opened = Opened::of(&thread, stage);
    if let Some(summary) = &warning {
        stage.tell(&[call.connection], "configWarning", &json!({"summary": summary, "details": null}));
    }
    stage.answer(call, &opened);
    if let Some(summary) = &warning {
        thread.say(Event::Warning(summary), stage);
    }
    stage.tell_all("thread/started", &ThreadAlone { thread: &opened.thread });
    worker.threads.insert(thread.id().to_owned(), thread);
    Ok(())
}

pub(crate) fn default_settings(stage: &Stage) -> Settings {
    Settings {
        cwd: absolute("."),
        model: stage.config.model.clone(),
        model_provider: stage.config.model_provider.clone(),
        approval_policy: stage.config.approval_policy.clone(),
        sandbox: stage.config.sandbox_mode.policy(),
        permission_profile: None,
        effort: None,
        summary: None,
        collaboration: Collaboration::default(),
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThreadResumeParams {
    thread_id: String,
    #[serde(flatten)]
    overrides: Overrides,
    #[serde(default)]
    exclude_turns: bool,
}

pub(super) fn resume(worker: &mut Worker, call: &Call, params: ThreadResumeParams) -> Result<(), Refusal> {
    let id = checked_id(&params.thread_id, "session")?;
    let was_loaded = bring_in(worker, call, id, params.exclude_turns)?;
    let (stage, thread) = worker.thread(id);
    thread.unload_delay = params.overrides.unload_delay(thread.unload_delay, stage);
    params.overrides.apply(&mut thread.settings);
    if !was_loaded {
        thread.set_status(Status::Idle, stage);
    }
    thread.subscribe(call.connection);
    let stored = history::stored(thread);
    let turns = stored.map_or_else(Vec::new, |stored| stored.turns);
    let resumed = Resumed {
        initial_turns_page: (),
        turns_backwards_cursor: Cursor::last(id, Scope::Turns, turns.len()),
        items_backwards_cursor: Cursor::last(id, Scope::Items, turns.iter().map(|turn| turn.items.len()).sum()),
    };
    let mut opened = Opened::of(thread, stage).with_resumed(resumed, &thread.settings);
    if !params.exclude_turns {
        opened.thread.turns = turns;
    }
    stage.answer(call, &opened);
    replay_usage(thread, call.connection, stage);
    let subscribers = thread.subscribers.clone();
    stage.tell(&subscribers, "thread/goal/cleared", &json!({"threadId": id}));
    for parked in thread.turn.iter().flat_map(|turn| &turn.parked) {
        stage.outputs.send(call.connection, parked.line.clone());
    }
    Ok(())
}

/// Loads a thread unless it is loaded already, and says whether it was.
fn bring_in(worker: &mut Worker, call: &Call, id: &str, exclude_turns: bool) -> Result<bool, Refusal> {
    let Some(thread) = worker.threads.get(id) else {
        let path = find_file(&worker.stage.home, id)?;
        notice_history(&mut worker.stage, call, exclude_turns);
        worker.threads.insert(id.to_owned(), load(&path, id)?);
        return Ok(false);
    };
    if thread.is_ephemeral() {
        return Err(no_rollout(id));
    }
    notice_history(&mut worker.stage, call, exclude_turns);
    if matches!(thread.kept, Kept::NotYet) && !exclude_turns {
        let message = "list_turns is not supported yet";
        return Err(Refusal::of(Refusal::METHOD_NOT_FOUND, message));
    }
    Ok(true)
}

fn replay_usage(thread: &Thread, to: ConnectionId, stage: &mut Stage) {
    #[derive(serde::Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Replay<'a> {
        thread_id: &'a str,
        turn_id: &'a str,
        token_usage: &'a Usage,
    }
    if let Some((turn_id, usage)) = thread.usage_so_far() {
        let params = Replay { thread_id: thread.id(), turn_id, token_usage: &usage };
        stage.tell(&[to], "thread/tokenUsage/updated", &params);
    }
}

/// The file of a thread that is not archived.
fn find_file(home: &Home, id: &str) -> Result<PathBuf, Refusal> {
    match home.find(id, Shelf::Active) {
        Some(path) => Ok(path),
        None if home.find(id, Shelf::Archived).is_some() => Err(Refusal::invalid(format!(
            "session {id} is archived. Run `codex unarchive {id}` to unarchive it first."
        ))),
        None => Err(no_rollout(id)),
    }
}

fn load(path: &Path, id: &str) -> Result<Thread, Refusal> {
    let stored = read_thread(path).ok_or_else(|| no_rollout(id))?;
    let file = Home::open_thread(path.to_owned()).map_err(|unopened| match unopened {
        Unopened::HasWriter => Refusal::invalid(format!("thread {id} already has an active writer")),
        Unopened::Io(error) => Refusal::invalid(format!("cannot open thread {id}: {error}")),
    })?;
    Ok(Thread::resumed(&stored, file))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThreadForkParams {
    thread_id: String,
    #[serde(flatten)]
    overrides: Overrides,
    #[serde(default)]
    ephemeral: bool,
    #[serde(default)]
    exclude_turns: bool,
    last_turn_id: Option<String>,
}

pub(super) fn fork(worker: &mut Worker, call: &Call, params: ThreadForkParams) -> Result<(), Refusal> {
    let id = checked_id(&params.thread_id, "session")?;
    let mut source = Source::of(worker, id)?;
    if params.ephemeral && !params.exclude_turns {
        return Err(Refusal::invalid("ephemeral paginated thread/fork requires `excludeTurns: true`"));
    }
    let stage = &mut worker.stage;
    notice_history(stage, call, params.exclude_turns);
    if let Some(last) = &params.last_turn_id {
        source.cut_after(last)?;
    }
    let mut settings = source.settings;
    let unload_delay = params.overrides.unload_delay(None, stage);
    params.overrides.apply(&mut settings);
    let record = ThreadRecord {
        id: stage.ids.uuid(),
        forked_from: Some(id.to_owned()),
        created_ms: stage.now.unix_ms,
        ..source.record
    };
    let kept = if params.ephemeral { Kept::Ephemeral } else { Kept::NotYet };
    let mut thread = Thread { unload_delay, ..Thread::new(record, settings, kept) };
    if let (Some(path), false) = (&source.path, params.ephemeral) {
        copy_history(&mut thread, path, params.last_turn_id.as_deref(), stage);
    }
    (thread.usage, thread.usage_turn) = (source.usage, source.usage_turn);
    thread.subscribe(call.connection);
    let mut opened = Opened::of(&thread, stage);
    if !params.exclude_turns {
        opened.thread.turns = source.turns;
    }
    stage.answer(call, &opened);
    if !params.exclude_turns {
        replay_usage(&thread, call.connection, stage);
    }
    opened.thread.turns.clear();
    stage.tell_all("thread/started", &ThreadAlone { thread: &opened.thread });
    worker.threads.insert(thread.id().to_owned(), thread);
    Ok(())
}

fn copy_history(thread: &mut Thread, from: &Path, last_turn: Option<&str>, stage: &mut Stage) {
    let copied = thread.create_file(stage).and_then(|mut file| {
        file.append_turns(from, last_turn).map_err(|error| error.to_string())?;
        Ok(file)
    });
    match copied {
        Ok(file) => thread.kept = Kept::File(file),
        Err(problem) => stage.log(format!("ERROR cannot copy the history of {}: {problem}", from.display())),
    }
}

/// What is forked: a loaded thread, or one that only its file knows.
struct Source {
    record: ThreadRecord,
    settings: Settings,
    path: Option<PathBuf>,
    turns: Vec<TurnShape>,
    usage: Usage,
    usage_turn: Option<String>,
}

impl Source {
    /// Leaves out what came after a turn.
    fn cut_after(&mut self, last: &str) -> Result<(), Refusal> {
        let Some(at) = self.turns.iter().position(|turn| turn.id == last) else {
            return Err(Refusal::invalid(format!("turn not found: {last}")));
        };
        self.turns.truncate(at + 1);
        Ok(())
    }

    fn of(worker: &Worker, id: &str) -> Result<Self, Refusal> {
        if let Some(thread) = worker.threads.get(id) {
            if thread.is_ephemeral() {
                return Err(no_rollout(id));
            }
            let stored = history::stored(thread);
            return Ok(Self {
                record: thread.record.clone(),
                settings: thread.settings.clone(),
                path: history::path(thread).map(Path::to_owned),
                turns: stored.map_or_else(Vec::new, |stored| stored.turns),
                usage: thread.usage,
                usage_turn: thread.usage_turn.clone(),
            });
        }
        let path = find_file(&worker.stage.home, id)?;
        let Stored { thread, settings, turns, usage, .. } = read_thread(&path).ok_or_else(|| no_rollout(id))?;
        let (usage_turn, usage) = usage.map_or((None, Usage::default()), |(turn, usage)| (Some(turn), usage));
        Ok(Self { record: thread, settings, path: Some(path), turns, usage, usage_turn })
    }
}

fn notice_history(stage: &mut Stage, call: &Call, exclude_turns: bool) {
    if !exclude_turns {
        let summary = "Full-history hydration is deprecated for paginated threads; use `excludeTurns: true`, then page \
                       with `thread/turns/list` and `thread/items/list`.";
        stage.tell(&[call.connection], "deprecationNotice", &json!({"summary": summary, "details": null}));
    }
}
