//! The pool over the real codex, with a stand-in for its model.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use approvals::{Person, Verdict};
use codex::{Frame, Json, ThreadOptions, TurnEvent};
use serde_json::json;
use tempfile::TempDir;
use testkit::model::StandIn;
use testkit::workplace::Workplace;
use tokio::task::JoinSet;
use workers::{Order, ThreadChoice, TipClaim, ToolResult, Transport};

use crate::parking::{call_of, with_tool};
use crate::reattach::stop_for_good;
use crate::support::{House, Setup, caller, finish, kill, order, order_in, until, until_event, until_some};

/// A home of the real worker, and its model; that has a runtime of its own, so it is made outside the test's.
struct Real {
    workplace: Workplace,
    _model: StandIn,
}

impl Real {
    fn setup(&self) -> Setup {
        Setup {
            program: testkit::codex::binary().unwrap(),
            real_home: Some(self.workplace.codex_home()),
            turns_max: 64,
            ..Setup::default()
        }
    }
}

fn run(test: impl AsyncFnOnce(&Real)) {
    let (workplace, model) = (Workplace::new().unwrap(), StandIn::start().unwrap());
    testkit::codex::configure(&workplace, &model.base_url()).unwrap();
    let real = Real { workplace, _model: model };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(test(&real));
}

#[test]
fn a_thread_goes_on_and_remembers_after_its_worker_was_killed_in_mid_turn() {
    run(async |real| {
        let house = House::open(real.setup()).await;
        let mut first = house.turn("[[text]]").await;
        let thread = first.at().thread.to_string();
        assert_eq!(finish(&mut first).await.0, "Hello from mock.");
        let mut dying = house.try_turn(order_in("k", &thread, "[[slow 1000 20]]")).await.unwrap();
        until_event(&mut dying, |event| matches!(event, TurnEvent::Text { .. }).then_some(())).await;
        kill(house.pool.workers()[0].pid.unwrap());
        let (_, status, ends) = finish(&mut dying).await;
        assert!(status.starts_with("Lost (worker_lost): ") && ends == 1, "{status}");
        let mut next = house.try_turn(order_in("k", &thread, "[[recall]]")).await.unwrap();
        assert_eq!(finish(&mut next).await, ("You said 2 things before.".into(), "Completed".into(), 1));
        assert_eq!((house.pool.workers()[0].restarts, house.pool.load().turns), (1, 0));
        house.stop().await;
    });
}

#[test]
fn turns_side_by_side_on_one_worker_hear_nothing_of_each_other() {
    const TURNS: usize = 64;
    run(async |real| {
        let house = House::open(real.setup()).await;
        house.until_ready().await;
        let mut turns = JoinSet::new();
        for number in 0..TURNS {
            // Half of them say a word that nobody else does, half stream so many words as nobody else does.
            let (prompt, said) = match number % 2 {
                0 => (format!("[[json word-{number}]]"), format!("word-{number}")),
                _ => (format!("[[slow {number} 20]]"), (0..number).map(|word| format!("s{word} ")).collect()),
            };
            let pool = house.pool.clone();
            turns.spawn(async move {
                let mut turn = pool.start_turn(order(&format!("k{number}"), &prompt)).await.unwrap();
                (finish(&mut turn).await, said)
            });
        }
        until("all run at once", || house.pool.load().turns == TURNS).await;
        for (heard, said) in turns.join_all().await {
            assert_eq!(heard, (said, "Completed".into(), 1));
        }
        assert_eq!(house.pool.load().turns, 0);
        house.stop().await;
    });
}

#[test]
fn surplus_threads_are_unloaded_and_go_on_when_they_are_wanted() {
    run(async |real| {
        let house = House::open(Setup { threads_loaded_max: 2, ..real.setup() }).await;
        let mut threads = Vec::new();
        for _ in 0..4 {
            let mut turn = house.try_turn(fleeting("[[text]]")).await.unwrap();
            threads.push(turn.at().thread.to_string());
            assert_eq!(finish(&mut turn).await.1, "Completed");
        }
        assert_eq!(house.pool.workers()[0].threads_loaded, 2);
        until("the worker has unloaded two", || heard(&house.pool.frames("main-0").unwrap(), "thread/closed") == 2)
            .await;
        for thread in &threads {
            let mut turn = house.try_turn(order_in("k", thread, "[[recall]]")).await.unwrap();
            assert_eq!(finish(&mut turn).await.0, "You said 1 things before.");
        }
        house.stop().await;
    });
}

#[test]
fn a_history_reaches_the_model() {
    run(async |real| {
        let house = House::open(real.setup()).await;
        let said =
            |text: &str| json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]});
        let history = [said("[[text]]"), said("[[text]]")].iter().map(Json::from).collect();
        let mut turn = house.try_turn(Order { history, ..order("k", "[[recall]]") }).await.unwrap();
        assert_eq!(finish(&mut turn).await, ("You said 2 things before.".into(), "Completed".into(), 1));
        let results = [
            said("[[tool ask {}]]"),
            json!({"type": "function_call", "call_id": "call_7", "name": "ask", "arguments": "{}"}),
            json!({"type": "function_call_output", "call_id": "call_7", "output": "42"}),
        ];
        let mut going_on = Order { history: results.iter().map(Json::from).collect(), ..with_tool("k", "") };
        going_on.turn.input.clear();
        let mut turn = house.try_turn(going_on).await.unwrap();
        assert_eq!(finish(&mut turn).await.0, "Done after tool.");
        let refusal =
            json!({"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]});
        let refused = house.try_turn(Order { history: vec![Json::from(&refusal)], ..order("k", "[[text]]") }).await;
        assert!(refused.is_err_and(|refused| !refused.work_may_have_run()));
        house.stop().await;
    });
}

#[test]
fn a_thread_is_forked_while_its_next_turn_runs_and_found_where_its_history_ends() {
    run(async |real| {
        let house = House::open(real.setup()).await;
        let mut first = house.turn("[[text]]").await;
        let (thread, turn) = (first.at().thread.clone(), first.at().turn.clone());
        finish(&mut first).await;
        house.pool.leave_tip(&thread, "h");
        let TipClaim::Free(tip) = house.pool.claim_tip("h").await else { panic!("nobody else knows it") };
        let going_on = Order { after: Some(tip.last_turn().into()), ..order_in("k", &thread, "[[slow 2 60000]]") };
        let mut running = house.try_turn(going_on).await.unwrap();
        until_event(&mut running, |event| matches!(event, TurnEvent::Text { .. }).then_some(())).await;
        let TipClaim::Taken { thread: source, last_turn } = house.pool.claim_tip("h").await else {
            panic!("it goes on")
        };
        assert_eq!((&*source, &*last_turn), (&*thread, &*turn));
        let fork = ThreadChoice::Fork { thread: source, last_turn, options: ThreadOptions::default() };
        let mut fork = house.try_turn(Order { thread: fork, ..order("k", "[[recall]]") }).await.unwrap();
        assert_eq!(finish(&mut fork).await, ("You said 1 things before.".into(), "Completed".into(), 1));
        drop(running);
        house.stop().await;
    });
}

#[test]
fn what_the_model_chose_and_used_is_known_before_a_tool_is_answered() {
    run(async |real| {
        let house = House::open(real.setup()).await;
        let mut order = with_tool("k", "[[tools ask 2]]");
        if let ThreadChoice::New(options) = &mut order.thread {
            options.raw_events = true;
        }
        let mut turn = house.try_turn(order).await.unwrap();
        // The calls may begin before the model has said the rest.
        let (mut chosen, mut wanted, mut usage) = (Vec::new(), Vec::new(), None);
        while usage.is_none() || wanted.len() < 2 {
            until_event(&mut turn, |event| {
                match event {
                    TurnEvent::ToolChosen { call, .. } => chosen.push(call.clone()),
                    TurnEvent::ToolWanted { call, .. } => wanted.push(call.clone()),
                    TurnEvent::ModelAnswered { usage: told } => usage = *told,
                    _ => return None,
                }
                Some(())
            })
            .await;
        }
        wanted.sort();
        assert_eq!(chosen, wanted);
        assert_eq!(usage.map(|usage| (usage.input_tokens, usage.output_tokens)), Some((200, 20)));
        for call in &wanted {
            house.pool.answer_call(call, &caller("k"), ToolResult::text("42")).unwrap();
        }
        assert_eq!(finish(&mut turn).await.0, "Done after tool.");
        house.stop().await;
    });
}

#[test]
fn a_thread_that_was_put_away_comes_back_when_it_is_used() {
    run(async |real| {
        let house = House::open(real.setup()).await;
        let mut turn = house.turn("[[text]]").await;
        let thread = turn.at().thread.to_string();
        finish(&mut turn).await;
        house.store.flush().await.unwrap();
        let put_away = async || Some(house.pool.archive_idle(Duration::ZERO).await.unwrap()).filter(|count| *count > 0);
        assert_eq!(until_some("the thread is put away", put_away).await, 1);
        // The worker says so after its answer.
        let told = async || {
            Some(heard(&house.pool.frames("main-0").unwrap(), "\"thread/archived\"")).filter(|heard| *heard > 0)
        };
        assert_eq!(until_some("the worker tells that it is put away", told).await, 1);
        let mut again = house.try_turn(order_in("k", &thread, "[[recall]]")).await.unwrap();
        assert_eq!(finish(&mut again).await.0, "You said 1 things before.");
        house.stop().await;
    });
}

/// A prompt in a new thread that the worker unloads as soon as nobody listens to it.
fn fleeting(prompt: &str) -> Order {
    let config = [("thread_unload_delay_secs".into(), json!(0))].into();
    Order { thread: ThreadChoice::New(ThreadOptions { config, ..ThreadOptions::default() }), ..order("k", prompt) }
}

fn heard(frames: &[Frame], word: &str) -> usize {
    frames.iter().filter(|frame| frame.text.contains(word)).count()
}

#[test]
fn turns_that_wait_for_a_tool_are_answered_after_their_callers_have_left() {
    const TURNS: usize = 16;
    run(async |real| {
        let house = House::open(real.setup()).await;
        let mut calls = Vec::new();
        for number in 0..TURNS {
            let key = format!("k{number}");
            let mut turn = house.try_turn(with_tool(&key, "[[tool ask {}]]")).await.unwrap();
            calls.push((call_of(&mut turn).await, key));
        }
        assert_eq!(house.pool.load().parked, TURNS);
        // Half of the callers come back for the rest.
        for (at, (call, key)) in calls.iter().enumerate() {
            let back = (at % 2 == 0).then(|| house.pool.parked_by_call(call, &caller(key)).unwrap());
            house.pool.answer_call(call, &caller(key), ToolResult::text(key)).unwrap();
            if let Some(mut turn) = back {
                assert_eq!(finish(&mut turn).await, ("Done after tool.".into(), "Completed".into(), 1));
            }
        }
        until("all places are free", || house.pool.load().turns == 0).await;
        house.stop().await;
    });
}

#[test]
fn what_a_detached_worker_waits_for_is_answered_after_we_were_killed() {
    run(async |real| {
        let state = Arc::new(TempDir::new().unwrap());
        let (approval, call) = killed_while_waiting(real, &state);
        let setup = Setup { transport: Transport::Unix, ..real.setup() };
        let house = House::open_in(setup, Arc::clone(&state)).await;
        house.until_ready().await;
        until("both turns are followed", || house.pool.load().parked == 2).await;

        let view = house.one_pending().await;
        assert_eq!(view.id, approval);
        house.approvals.decide(&approval, &view.shown_hash, Verdict::Allow, Person::operator("ada")).await.unwrap();
        until("the command's turn has ended", || house.pool.load().turns == 1).await;
        assert!(state.path().join("allowed").exists());

        let mut turn = house.pool.parked_by_call(&call, &caller("k")).expect("the same call waits again");
        let thread = turn.at().thread.to_string();
        house.pool.answer_call(&call, &caller("k"), ToolResult::text("42")).unwrap();
        assert_eq!(finish(&mut turn).await, ("Done after tool.".into(), "Completed".into(), 1));
        let mut next = house.try_turn(order_in("k", &thread, "[[recall]]")).await.unwrap();
        assert_eq!(finish(&mut next).await.0, "You said 1 things before.");
        let pid = house.pool.workers()[0].pid.unwrap();
        stop_for_good(house, pid).await;
    });
}

/// Lets another process start two turns, and kills it when both wait: the ids of an approval and of a call.
fn killed_while_waiting(real: &Real, state: &TempDir) -> (String, String) {
    let mut child = start_detached(real, state);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut waiting: Vec<String> = lines.take(2).map(Result::unwrap).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    waiting.sort();
    let [approval, call] = &waiting[..] else { panic!("it told {waiting:?}") };
    let id = |line: &str, kind: &str| line.strip_prefix(kind).unwrap_or_else(|| panic!("it told {line}")).to_owned();
    (id(approval, "approval "), id(call, "call "))
}

#[expect(clippy::disallowed_methods, reason = "it is to be killed in a way that `supervise` has no need of")]
fn start_detached(real: &Real, state: &TempDir) -> Child {
    Command::new(testkit::built::example("workers", "detached"))
        .arg(state.path())
        .args(["[[shell touch allowed]]", "[[tool ask {}]]", "--"])
        .arg(testkit::codex::binary().unwrap())
        .arg("app-server")
        .env("CODEX_HOME", real.workplace.codex_home())
        .current_dir(state.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// By default the worker would try to connect for ever, in threads that are started and in those that are resumed.
#[test]
fn a_turn_whose_provider_cannot_be_reached_is_failed_by_the_worker_itself() {
    run(async |real| {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        testkit::codex::configure(&real.workplace, &format!("http://{closed}/v1")).unwrap();
        let house = House::open(real.setup()).await;
        let mut turn = house.turn("[[text]]").await;
        let thread = turn.at().thread.to_string();
        let said = "Failed (http_connection_failed): Connection failed: error sending request";
        assert_eq!(finish(&mut turn).await.1, said);
        assert!(house.pool.readiness()[0].cannot_reach_provider);
        kill(house.pool.workers()[0].pid.unwrap());
        until("it is restarted", || house.pool.workers()[0].restarts == 1).await;
        let mut resumed = house.try_turn(order_in("k", &thread, "[[text]]")).await.unwrap();
        assert_eq!(finish(&mut resumed).await.1, said);
        house.stop().await;
    });
}
