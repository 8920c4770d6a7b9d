//! `[retention]`: how long the store keeps what has ended.

use std::time::Duration;

use store::Retention;

use super::super::kind::Kind;
use super::super::reading::Reading;

const SECOND: Duration = Duration::from_secs(1);
const YEARS: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);

pub(super) fn retention(reading: &mut Reading<'_>) -> Retention {
    let table = reading.table("retention");
    let mut section = reading.section("[retention]", "[retention]", "retention", table);
    let ages = Kind::duration(SECOND..=YEARS);
    let mut retention = Retention::default();
    let Retention { approvals, audit, responses, responses_bytes_max, parked_calls, usage, tool_audit, threads } =
        &mut retention;
    section.set(&mut approvals.age_max, "approvals", &ages, "How long approvals are kept that are over.");
    section.set(&mut audit.age_max, "audit", &ages, "How long every step of an approval is kept.");
    section.set(
        &mut responses.age_max,
        "responses",
        &ages,
        "How long responses are kept that a caller can ask for again.",
    );
    section.set(
        responses_bytes_max,
        "responses_bytes_max",
        &Kind::bytes(1024..=1 << 40),
        "How much they may have together; beyond, the oldest go.",
    );
    section.set(
        &mut parked_calls.age_max,
        "tool_calls",
        &ages,
        "How long calls of callers' tools are kept that are over.",
    );
    section.set(&mut usage.age_max, "usage", &ages, "How long it is kept what each key used on each day.");
    section.set(&mut tool_audit.age_max, "tool_audit", &ages, "How long each call of a tool server's tool is kept.");
    section.set(
        &mut threads.age_max,
        "threads",
        &ages,
        "How long after its last use a thread is kept that no stored response needs.",
    );
    section.finish();
    retention
}
