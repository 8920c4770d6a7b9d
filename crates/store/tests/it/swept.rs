//! Retention: the old and the surplus go, in slices; what waits for a decision stays whatever its age.

use std::time::Duration;

use store::{
    Approval, AuditEntry, Change, ClockReading, Keep, Limits, ParkedCall, ParkedCallFilter, ParkedCallState, Response,
    Retention, Store, Swept, Thread, ThreadFilter, ToolCall, ToolCallFilter, TurnState,
};

use crate::support::{Place, allowed, approvals, called, offered, parked, pending, response, run, step, thread, used};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
const ALL: Keep = Keep { age_max: Duration::MAX, rows_max: u32::MAX };
const KEEP_ALL: Retention = Retention {
    approvals: ALL,
    audit: ALL,
    responses: ALL,
    responses_bytes_max: usize::MAX,
    parked_calls: ALL,
    usage: ALL,
    tool_audit: ALL,
    threads: ALL,
};

fn at(time: i64, mut approval: Approval) -> Change {
    approval.created_at = time;
    Change::Approval(approval)
}

#[test]
fn what_is_too_old_goes_but_never_what_is_pending() {
    run(async {
        let place = Place::new();
        let store = place.open();
        let entry = |time: i64| Change::Audit(AuditEntry { at: time, ..step("a", 0, "asked") });
        let made = |id: &str, created_at: i64, expires_at: Option<i64>| {
            Change::Response(Response { created_at, expires_at, ..response(id, "k") })
        };
        let changes = vec![
            at(1_000, pending("old and pending")),
            at(1_000, allowed("old")),
            at(9_000, allowed("young")),
            entry(1_000),
            entry(9_000),
            made("old", 1_000, None),
            made("young", 9_000, Some(10_001)),
            made("expired", 9_000, Some(10_000)),
        ];
        store.commit(changes).await.unwrap();
        let keep = Keep { age_max: Duration::from_secs(5), ..ALL };
        let retention = Retention { approvals: keep, audit: keep, responses: keep, ..KEEP_ALL };
        assert_eq!(store.sweep(10_000, KEEP_ALL).await.unwrap(), Swept { responses: 1, ..Swept::default() });
        assert_eq!(
            store.sweep(10_000, retention).await.unwrap(),
            Swept { approvals: 1, audit: 1, responses: 1, ..Swept::default() }
        );
        assert_eq!(store.sweep(10_000, retention).await.unwrap(), Swept::default());
        let ids: Vec<_> = approvals(&store).await.into_iter().map(|approval| approval.id).collect();
        assert_eq!(ids, ["old and pending", "young"]);
        let left = store.read(|reader| reader.response("young", "k")).await.unwrap();
        assert_eq!(left.map(|left| left.id).as_deref(), Some("young"));
    });
}

#[test]
fn of_responses_that_are_too_long_together_the_oldest_go() {
    run(async {
        let place = Place::new();
        let store = place.open();
        let made = |number: i64| {
            Change::Response(Response {
                created_at: number,
                body: "é".repeat(100),
                ..response(&number.to_string(), "k")
            })
        };
        store.commit((0..10).map(made).collect()).await.unwrap();
        // Twice as many bytes as letters.
        let swept = store.sweep(1_000, Retention { responses_bytes_max: 700, ..KEEP_ALL }).await.unwrap();
        assert_eq!(swept, Swept { responses: 7, ..Swept::default() });
        for number in 0..10 {
            let left = store.read(move |reader| reader.response(&number.to_string(), "k")).await.unwrap();
            assert_eq!(left.is_some(), number >= 7, "{number}");
        }
    });
}

#[test]
fn of_too_many_the_oldest_go_in_slices() {
    run(async {
        let place = Place::new();
        let store = place.open_with(Limits { sweep_rows_max: 10, ..Limits::default() });
        let ended = (0..100).map(|number| at(number, allowed(&format!("{number:03}"))));
        store.commit(ended.chain([at(0, pending("waits"))]).collect()).await.unwrap();
        let before = store.counts().transactions;
        let keep = Keep { rows_max: 7, ..ALL };
        let swept = store.sweep(1_000, Retention { approvals: keep, ..KEEP_ALL }).await.unwrap();
        assert_eq!(swept.approvals, 93);
        assert_eq!(store.counts().transactions - before, 10 + 6, "ten slices, and one look at each other table");
        let ids: Vec<_> = approvals(&store).await.into_iter().map(|approval| approval.id).collect();
        assert_eq!(ids, ["093", "094", "095", "096", "097", "098", "099", "waits"]);
    });
}

#[test]
fn parked_calls_that_have_ended_and_days_of_usage_go_when_they_are_old() {
    run(async {
        let place = Place::new();
        let store = place.open();
        let call = |id: &str, created_at: i64, state: ParkedCallState| {
            Change::ParkedCall(ParkedCall { created_at, state, ..parked(id, "k", "th") })
        };
        let changes = vec![
            call("waits", 1_000, ParkedCallState::Waiting),
            call("answered", 1_000, ParkedCallState::Answered),
            call("orphaned", 1_000, ParkedCallState::Orphaned),
            call("young", 9 * DAY_MS, ParkedCallState::Expired),
            Change::Usage(used("k", "th", "1970-01-01", 1)),
            Change::Usage(used("k", "other", "1970-01-02", 1)),
            Change::Usage(used("k", "th", "1970-01-10", 1)),
        ];
        store.commit(changes).await.unwrap();
        let keep = Keep { age_max: Duration::from_hours(24 * 5), ..ALL };
        let retention = Retention { parked_calls: keep, usage: keep, ..KEEP_ALL };
        assert_eq!(store.sweep(10 * DAY_MS, KEEP_ALL).await.unwrap(), Swept::default());
        let swept = store.sweep(10 * DAY_MS, retention).await.unwrap();
        assert_eq!(swept, Swept { parked_calls: 2, usage: 2, ..Swept::default() });
        let newest = Keep { rows_max: 0, ..ALL };
        let surplus = Retention { parked_calls: newest, usage: newest, ..KEEP_ALL };
        let swept = store.sweep(10 * DAY_MS, surplus).await.unwrap();
        assert_eq!(swept, Swept { parked_calls: 1, usage: 1, ..Swept::default() });
        let left = store.read(|reader| reader.parked_calls(&ParkedCallFilter::default())).await.unwrap();
        assert_eq!(left.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["waits"]);
    });
}

#[test]
fn calls_of_tools_go_when_they_are_old_or_too_many_and_lists_stay() {
    run(async {
        let place = Place::new();
        let store = place.open();
        let call = |number: i64| {
            Change::ToolCall(ToolCall { at: number * 1_000, ..called(&number.to_string(), "files", "read") })
        };
        store.commit((1..=9).map(call).chain([Change::ToolList(offered("files"))]).collect()).await.unwrap();
        let sweep = async |keep: Keep| {
            let swept = store.sweep(10_000, Retention { tool_audit: keep, ..KEEP_ALL }).await.unwrap();
            assert_eq!(swept, Swept { tool_audit: swept.tool_audit, ..Swept::default() });
            let left = store.read(|reader| reader.tool_calls(&ToolCallFilter::default())).await.unwrap();
            (swept.tool_audit, left.into_iter().map(|call| call.id).collect::<String>())
        };
        assert_eq!(sweep(ALL).await, (0, "987654321".into()));
        assert_eq!(sweep(Keep { age_max: Duration::from_secs(5), ..ALL }).await, (4, "98765".into()));
        assert_eq!(sweep(Keep { rows_max: 2, ..ALL }).await, (3, "98".into()));
        let list = store.read(|reader| reader.tool_list("files")).await.unwrap();
        assert_eq!(list, Some(offered("files")), "what a server offers is no history");
    });
}

async fn threads_of(store: &Store) -> Vec<String> {
    let rows = store.read(|reader| reader.threads(&ThreadFilter::default())).await.unwrap();
    let mut ids: Vec<_> = rows.into_iter().map(|row| row.id).collect();
    ids.sort();
    ids
}

#[test]
fn threads_go_when_they_are_long_unused_but_none_that_can_be_continued() {
    run(async {
        let place = Place::new();
        let store = place.open();
        let used = |id: &str, used_at: i64| Change::Thread(Thread { used_at, ..thread(id) });
        let running = Thread { last_turn_state: Some(TurnState::Running), ..thread("running") };
        let call = |id: &str, state: ParkedCallState| Change::ParkedCall(ParkedCall { state, ..parked(id, "k", id) });
        let of_thread = |approval: Approval| Change::Approval(Approval { thread: approval.id.clone(), ..approval });
        let changes = vec![
            used("old", 1_000),
            used("young", 9_000),
            Change::Thread(running),
            used("called", 1_000),
            call("called", ParkedCallState::Waiting),
            used("answered", 1_000),
            call("answered", ParkedCallState::Answered),
            used("asked", 1_000),
            of_thread(pending("asked")),
            used("decided", 1_000),
            of_thread(allowed("decided")),
            used("stored", 1_000),
            Change::Response(Response { thread: "stored".into(), ..response("resp", "k") }),
        ];
        store.commit(changes).await.unwrap();
        let retention = Retention { threads: Keep { age_max: Duration::from_secs(5), ..ALL }, ..KEEP_ALL };
        assert_eq!(store.sweep(10_000, KEEP_ALL).await.unwrap(), Swept::default());
        let swept = store.sweep(10_000, retention).await.unwrap();
        assert_eq!(swept, Swept { threads: 3, ..Swept::default() });
        assert_eq!(threads_of(&store).await, ["asked", "called", "running", "stored", "young"]);

        let without_responses = Retention { responses: Keep { rows_max: 0, ..ALL }, ..retention };
        let swept = store.sweep(10_000, without_responses).await.unwrap();
        assert_eq!(
            swept,
            Swept { responses: 1, threads: 1, ..Swept::default() },
            "a thread goes with its last response"
        );
        assert_eq!(threads_of(&store).await, ["asked", "called", "running", "young"]);
    });
}

#[test]
fn of_too_many_threads_those_that_were_unused_longest_go() {
    run(async {
        let place = Place::new();
        let store = place.open_with(Limits { sweep_rows_max: 10, ..Limits::default() });
        let used = |number: i64| Change::Thread(Thread { used_at: number, ..thread(&format!("{number:03}")) });
        let needed = Change::Response(Response { thread: "000".into(), ..response("resp", "k") });
        store.commit((0..100).map(used).chain([needed]).collect()).await.unwrap();
        let swept = store.sweep(1_000, Retention { threads: Keep { rows_max: 3, ..ALL }, ..KEEP_ALL }).await.unwrap();
        assert_eq!(swept, Swept { threads: 96, ..Swept::default() });
        assert_eq!(threads_of(&store).await, ["000", "097", "098", "099"]);
    });
}

#[test]
fn a_start_with_the_clock_far_ahead_removes_nothing() {
    run(async {
        const TODAY: i64 = 21_000 * DAY_MS;
        const AHEAD: i64 = TODAY + 400 * DAY_MS;
        let place = Place::new();
        let sweep = async |store: &Store, wall_ms: i64, watched: Duration| {
            let now = store.observe_clock(ClockReading { wall_ms, watched }).await.unwrap();
            (now, store.sweep(now, Retention::default()).await.unwrap())
        };
        let old = Response { created_at: TODAY - 31 * DAY_MS, ..response("old", "k") };
        let new = Response { created_at: TODAY, ..response("new", "k") };
        let store = place.open();
        assert_eq!(sweep(&store, TODAY, Duration::ZERO).await, (TODAY, Swept::default()));
        store.commit(vec![Change::Response(old), Change::Response(new)]).await.unwrap();
        store.close().await.unwrap();

        let expired = Swept { responses: 1, ..Swept::default() };
        for swept in [expired, Swept::default()] {
            let store = place.open();
            assert_eq!(sweep(&store, AHEAD, Duration::ZERO).await, (TODAY, swept), "only what had expired before");
            store.close().await.unwrap();
        }

        let store = place.open();
        let hour = Duration::from_hours(1);
        for hours in 1..=30 {
            assert_eq!(sweep(&store, AHEAD, hour).await, (TODAY + hours * DAY_MS, Swept::default()));
        }
        assert_eq!(sweep(&store, AHEAD, hour).await, (TODAY + 31 * DAY_MS, expired), "a clock that stays is believed");
        assert_eq!(sweep(&store, TODAY, hour).await.0, TODAY, "and one that is set right at once");
    });
}

#[test]
fn a_store_from_before_the_trusted_time_begins_with_its_newest_row() {
    run(async {
        const NEWEST: i64 = 21_000 * DAY_MS;
        let place = Place::new();
        let store = place.open();
        store.commit(vec![Change::Response(Response { created_at: NEWEST, ..response("r", "k") })]).await.unwrap();
        store.close().await.unwrap();
        let connection = rusqlite::Connection::open(&place.path).unwrap();
        let earlier = "DROP TABLE clock; DROP INDEX threads_by_use; DROP INDEX responses_by_thread;
                       DROP INDEX parked_calls_waiting_by_thread; ALTER TABLE usage DROP COLUMN estimated;
                       PRAGMA user_version = 4;";
        connection.execute_batch(earlier).unwrap();
        connection.close().unwrap();
        let store = place.open();
        let reading = ClockReading { wall_ms: NEWEST + 400 * DAY_MS, watched: Duration::ZERO };
        assert_eq!(store.observe_clock(reading).await.unwrap(), NEWEST);
    });
}
