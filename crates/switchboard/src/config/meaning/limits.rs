//! `[limits]`: how much the program holds and how long it waits. The defaults are those of the part that keeps the limit.

use std::time::Duration;

use super::super::Limits;
use super::super::kind::Kind;
use super::super::reading::{Reading, SectionReader};

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) fn limits(reading: &mut Reading<'_>) -> Limits {
    let table = reading.table("limits");
    let mut section = reading.section("[limits]", "[limits]", "limits", table);
    let mut limits = Limits::default();
    set_front(&mut section, &mut limits);
    set_responses(&mut section, &mut limits.responses);
    set_pool(&mut section, &mut limits.pool);
    set_approvals(&mut section, &mut limits.approvals);
    set_tools(&mut section, &mut limits.tools);
    set_store(&mut section, &mut limits.store);
    section.finish();
    limits
}

fn set_front(section: &mut SectionReader<'_, '_>, limits: &mut Limits) {
    let count = Kind::count(1..=1_000_000);
    let moments = Kind::duration(MILLISECOND..=DAY);
    let bytes = Kind::bytes(1024..=1 << 30);
    let Limits { connections, requests, turns, .. } = limits;
    section.set(
        &mut connections.connections_max,
        "connections_max",
        &count,
        "Connections of callers that may be open at once.",
    );
    section.set(
        &mut connections.header_timeout,
        "header_timeout",
        &moments,
        "How long the TLS handshake and the head of a request may take each, and a connection be idle.",
    );
    section.set(
        &mut connections.write_timeout,
        "write_timeout",
        &moments,
        "How long a caller may take nothing of what is sent to it.",
    );
    section.set(
        &mut connections.grace,
        "response_grace",
        &moments,
        "How long other responses than turns may go on at the end.",
    );
    section.set(&mut requests.body_bytes_max, "body_bytes_max", &bytes, "The longest request body.");
    section.set(
        &mut requests.body_timeout,
        "body_timeout",
        &moments,
        "How long it, or a message of a WebSocket, may take to arrive.",
    );
    section.set(
        &mut requests.memory_bytes_max,
        "memory_bytes_max",
        &Kind::bytes((16 << 20)..=1 << 40),
        "How much memory bodies, parsed requests, WebSockets and what requests read from the store may hold together; one key may hold half of it.",
    );
    section.set(&mut turns.finished_max, "turns_finished_max", &count, "Finished turns that can still be read.");
    section.set(&mut turns.finished_bytes_max, "turns_finished_bytes_max", &bytes, "How much of them is kept in all.");
    section.set(&mut turns.log.bytes_max, "turn_bytes_max", &bytes, "How much of one turn is kept for its readers.");
}

fn set_responses(section: &mut SectionReader<'_, '_>, limits: &mut front::ResponseLimits) {
    let count = Kind::count(1..=1_000_000);
    let bytes = Kind::bytes(1024..=1 << 32);
    let waits = Kind::duration(SECOND..=DAY);
    section.set(
        &mut limits.websocket_age_max,
        "websocket_age_max",
        &waits,
        "How old a WebSocket for responses may become; a response that runs then may end first.",
    );
    section.set(
        &mut limits.websocket_idle_timeout,
        "websocket_idle_timeout",
        &waits,
        "How long it may be open with no response running.",
    );
    section.set(
        &mut limits.events_bytes_max,
        "response_events_bytes_max",
        &bytes,
        "How much of the events of one response in the background can be followed.",
    );
    section.set(
        &mut limits.finished_max,
        "responses_finished_max",
        &count,
        "Finished responses of the background that can still be followed.",
    );
    section.set(
        &mut limits.finished_bytes_max,
        "responses_finished_bytes_max",
        &bytes,
        "How much of them is held in all.",
    );
    section.set(
        &mut limits.conversation_responses_max,
        "conversation_responses_max",
        &count,
        "How many responses of a conversation are read, to be told to a new thread or to be listed.",
    );
    section.set(
        &mut limits.conversation_bytes_max,
        "conversation_bytes_max",
        &bytes,
        "How much of them, and how much a WebSocket remembers of what is not stored.",
    );
    section.set(
        &mut limits.references_max,
        "references_max",
        &count,
        "How many responses a request may name items of.",
    );
    section.set(&mut limits.references_bytes_max, "references_bytes_max", &bytes, "How much of them is read.");
}

fn set_pool(section: &mut SectionReader<'_, '_>, limits: &mut workers::Limits) {
    let waits = Kind::duration(SECOND..=30 * DAY);
    let moments = Kind::duration(MILLISECOND..=DAY);
    let queue_max = Kind::count(0..=100_000);
    section.set(
        &mut limits.queue_max,
        "queue_max",
        &queue_max,
        "Turns that may wait for a worker; beyond it callers are told to come back.",
    );
    section.set(&mut limits.queue_timeout, "queue_timeout", &moments, "How long a turn waits for its place.");
    section.set(
        &mut limits.stall_timeout,
        "stall_timeout",
        &waits,
        "How long a running turn that waits for nobody may be silent before it is ended.",
    );
    section.set(
        &mut limits.interrupt_timeout,
        "interrupt_timeout",
        &moments,
        "How long the end of an interrupted turn may take to be told.",
    );
    section.set(
        &mut limits.ping_timeout,
        "ping_timeout",
        &moments,
        "How long a worker whose turn never ends may take to show that it is alive.",
    );
    section.set(
        &mut limits.retire_timeout,
        "retire_timeout",
        &moments,
        "How long such a worker is left to its other turns before it is restarted.",
    );
    section.set(
        &mut limits.tool_call_timeout,
        "tool_call_timeout",
        &waits,
        "How long a turn waits for the result of a caller's tool.",
    );
    section.set(
        &mut limits.parked_max,
        "parked_max",
        &Kind::count(1..=1_000_000),
        "Turns that wait without a reader; one key may have a quarter of them. Beyond either limit the longest waiting \
         turn of that key, or of the key with the most, is cancelled.",
    );
    section.set(
        &mut limits.thread_idle_max,
        "thread_idle_max",
        &Kind::duration(SECOND..=3650 * DAY),
        "How long a thread may be unused before it is put away; it comes back when it is used again.",
    );
    section.set(
        &mut limits.listen_timeout,
        "listen_timeout",
        &moments,
        "How long a worker with a socket may take to listen.",
    );
    section.set(
        &mut limits.settle_timeout,
        "settle_timeout",
        &moments,
        "How long a worker that was found again may take to ask again what it had asked.",
    );
    section.set(
        &mut limits.frames_bytes_max,
        "frames_bytes_max",
        &Kind::bytes(0..=1 << 30),
        "How much of each worker's last frames is kept for an operator.",
    );
}

fn set_approvals(section: &mut SectionReader<'_, '_>, limits: &mut approvals::Limits) {
    let count = Kind::count(1..=1_000_000);
    let bytes = Kind::bytes(1024..=1 << 30);
    let moments = Kind::duration(MILLISECOND..=DAY);
    section.set(
        &mut limits.pending_max,
        "approvals_pending_max",
        &count,
        "Approvals that may wait at once, of one key a quarter of them; the next one is declined.",
    );
    section.set(&mut limits.shown_bytes_max, "approval_bytes_max", &bytes, "How large one request may be.");
    section.set(&mut limits.hooks_running_max, "hooks_running_max", &count, "Hooks that may run at once.");
    section.set(&mut limits.hook_output_bytes_max, "hook_output_bytes_max", &bytes, "How much a hook may say.");
    section.set(
        &mut limits.post_timeout,
        "webhook_timeout",
        &moments,
        "How long one try to tell the webhook may take.",
    );
}

fn set_tools(section: &mut SectionReader<'_, '_>, limits: &mut tools::Limits) {
    let count = Kind::count(1..=1_000_000);
    let bytes = Kind::bytes(1024..=1 << 30);
    section.set(&mut limits.starts_max, "tools_starting_max", &count, "Tool servers that may be starting at once.");
    section.set(&mut limits.line_bytes_max, "tools_line_bytes_max", &bytes, "The longest line of a tool server.");
    section.set(
        &mut limits.calls_max,
        "tools_calls_max",
        &count,
        "Calls of one tool server that may be under way; the next one waits.",
    );
    section.set(
        &mut limits.call_max,
        "tools_call_max",
        &Kind::duration(SECOND..=30 * DAY),
        "How long a call may take in all, however often its server tells of progress.",
    );
    section.set(
        &mut limits.listed_max,
        "tools_listed_max",
        &count,
        "Tools that are taken of one tool server, and likewise resources, templates and prompts.",
    );
    section.set(&mut limits.listed_bytes_max, "tools_listed_bytes_max", &bytes, "How much of them in all.");
    section.set(
        &mut limits.page_max,
        "tools_page_max",
        &count,
        "How many of a list one page holds; many callers never ask for a second one.",
    );
    section.set(
        &mut limits.parked_max,
        "tools_parked_max",
        &count,
        "Calls of tools that may wait for an answer of their callers.",
    );
    section.set(
        &mut limits.input_timeout,
        "tools_input_timeout",
        &Kind::duration(SECOND..=30 * DAY),
        "How long they wait.",
    );
    section.set(
        &mut limits.input_rounds_max,
        "tools_input_rounds_max",
        &count,
        "How often one call may ask its caller something.",
    );
    section.set(
        &mut limits.listeners_max,
        "tools_listeners_max",
        &count,
        "Callers that are told when the tools change.",
    );
    section.set(
        &mut limits.caller_idle_max,
        "tools_caller_idle_max",
        &Kind::duration(SECOND..=30 * DAY),
        "How long a caller of tools may leave its connection (`Mcp-Session-Id`) without any use.",
    );
    section.set(
        &mut limits.ring.latest_bytes_max,
        "tools_frames_bytes_max",
        &Kind::bytes(0..=1 << 30),
        "How much of each tool server's last frames is kept for an operator, beside its first ones.",
    );
}

fn set_store(section: &mut SectionReader<'_, '_>, limits: &mut store::Limits) {
    let readers = Kind::count(1..=64);
    let bytes = Kind::bytes(1 << 20..=1 << 32);
    section.set(
        &mut limits.notes_bytes_max,
        "store_waiting_bytes_max",
        &bytes,
        "How much may wait to be written behind.",
    );
    section.set(
        &mut limits.note_delay,
        "store_delay",
        &Kind::duration(MILLISECOND..=60 * SECOND),
        "How long it may wait: what a crash can cost.",
    );
    section.set(&mut limits.readers_max, "store_readers_max", &readers, "Reads at the same time.");
}
