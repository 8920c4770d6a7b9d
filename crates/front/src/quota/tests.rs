use std::fmt::Write as _;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::{Duration, Instant};

use approvals::Stamp;
use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::headers::span;
use super::{Claim, Left, Moment, Quota, Reached, Share};
use crate::keys::KeyLimits;

/// Noon of a day.
const NOON: Stamp = Stamp(1_794_744_000_000);

fn limits(requests: u32, turns: u32, tokens: u64) -> KeyLimits {
    KeyLimits {
        requests_per_minute: NonZeroU32::new(requests),
        turns_max: NonZeroU32::new(turns),
        tokens_per_day: NonZeroU64::new(tokens),
    }
}

fn after(start: Instant, millis: u64) -> Moment {
    let passed = Duration::from_millis(millis);
    Moment { steady: start + passed, utc: NOON.after(passed) }
}

fn admit(quota: &mut Quota, claim: Claim, now: Moment) -> Result<u64, Reached> {
    quota.check(claim, now)?;
    Ok(quota.take(claim, now))
}

/// Plays lines such as `1500 ask`, `0 ask 2` (turns), `0 ask 1 5000` (tokens), `0 steer`, `10 free`, `20 spend 100`, `20 end`:
/// the time is in milliseconds after noon. The turn that is freed is the last one; one turn spends all.
fn check(limits: KeyLimits, spent: u64, script: &str, expected: &Expect) {
    let start = Instant::now();
    let mut quota = Quota::new(limits, spent, after(start, 0));
    let (mut told, mut running, turn) = (String::new(), Vec::new(), Arc::from("turn"));
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<_> = line.split(' ').collect();
        let number = |at: usize| words.get(at).map(|word| word.parse::<u32>().unwrap());
        let now = after(start, words[0].parse().unwrap());
        let outcome = match words[1] {
            "ask" => {
                let turns = number(2).unwrap_or(1);
                let reserved = admit(&mut quota, Claim::turns(turns, number(3).unwrap_or(0).into()), now);
                running.extend(reserved.iter().flat_map(|reserved| (0..turns).map(|_| *reserved)));
                outcome(reserved.map(|_| quota.left(now)))
            }
            "steer" => outcome(admit(&mut quota, Claim::beside_a_turn(), now).map(|_| quota.left(now))),
            "resume" => {
                running.push(quota.resume(0));
                outcome(Ok(quota.left(now)))
            }
            "free" => {
                quota.free(running.pop().unwrap());
                continue;
            }
            "spend" => {
                quota.spend(&turn, number(2).unwrap().into(), now);
                continue;
            }
            "end" => {
                quota.end_answer(&turn);
                continue;
            }
            other => panic!("{other}"),
        };
        writeln!(told, "{line}: {outcome}").unwrap();
    }
    expected.assert_eq(&told);
}

fn outcome(admitted: Result<Left, Reached>) -> String {
    let shown = |name: &str, share: Option<Share>| {
        share.map(|Share { limit, remaining, reset }| format!(" {name} {remaining}/{limit} in {}", span(reset)))
    };
    match admitted {
        Ok(Left { requests, tokens }) => {
            let shares = [shown("requests", requests), shown("tokens", tokens)];
            format!("yes{}", shares.into_iter().flatten().collect::<String>())
        }
        Err(Reached::Requests(wait)) => format!("requests, wait {}", span(wait)),
        Err(Reached::Turns(wait)) => format!("turns, wait {}", span(wait)),
        Err(Reached::Tokens(wait)) => format!("tokens, wait {}", span(wait)),
        Err(Reached::Reserved(wait)) => format!("reserved, wait {}", span(wait)),
        Err(Reached::TokensForChoices(wait)) => format!("tokens for choices, wait {}", span(wait)),
    }
}

#[test]
fn requests_come_back_one_by_one_and_who_is_refused_has_used_none() {
    check(
        limits(3, 0, 0),
        0,
        "0 ask
         0 ask
         0 ask
         0 ask
         19999 ask
         20000 ask
         20000 ask
         120000 ask",
        &expect![[r#"
            0 ask: yes requests 2/3 in 20s
            0 ask: yes requests 1/3 in 40s
            0 ask: yes requests 0/3 in 1m0s
            0 ask: requests, wait 20s
            19999 ask: requests, wait 1ms
            20000 ask: yes requests 0/3 in 1m0s
            20000 ask: requests, wait 20s
            120000 ask: yes requests 2/3 in 20s
        "#]],
    );
}

#[test]
fn turns_count_while_they_run() {
    check(
        limits(0, 2, 0),
        0,
        "0 ask
         0 ask 2
         0 ask
         0 ask
         1 free
         1 ask
         2 resume
         3 free
         3 ask
         3 free
         3 ask",
        &expect![[r#"
            0 ask: yes
            0 ask 2: turns, wait 1s
            0 ask: yes
            0 ask: turns, wait 1s
            1 ask: yes
            2 resume: yes
            3 ask: turns, wait 1s
            3 ask: yes
        "#]],
    );
}

#[test]
fn tokens_are_those_of_the_day_and_are_there_again_after_midnight() {
    check(
        limits(0, 0, 1000),
        400,
        "0 ask
         0 spend 599
         0 free
         0 ask
         1000 spend 1
         1000 free
         1000 ask
         43199999 ask
         43200000 ask
         43200000 spend 5000
         43200001 ask",
        &expect![[r#"
            0 ask: yes tokens 600/1000 in 12h0m0s
            0 ask: yes tokens 1/1000 in 12h0m0s
            1000 ask: tokens, wait 11h59m59s
            43199999 ask: tokens, wait 1ms
            43200000 ask: yes tokens 1000/1000 in 24h0m0s
            43200001 ask: tokens, wait 24h0m0s
        "#]],
    );
}

#[test]
fn each_choice_is_a_request_and_so_is_what_is_said_to_a_turn_that_runs() {
    check(
        limits(6, 5, 0),
        0,
        "0 ask 4
         0 ask
         0 steer
         0 steer
         10000 steer
         10000 ask
         60000 ask
         60000 free
         60000 ask
         60000 free
         60000 free
         60000 ask 2",
        &expect![[r#"
            0 ask 4: yes requests 2/6 in 40s
            0 ask: yes requests 1/6 in 50s
            0 steer: yes requests 0/6 in 1m0s
            0 steer: requests, wait 10s
            10000 steer: yes requests 0/6 in 1m0s
            10000 ask: turns, wait 1s
            60000 ask: turns, wait 1s
            60000 ask: yes requests 4/6 in 20s
            60000 ask 2: yes requests 2/6 in 40s
        "#]],
    );
}

#[test]
fn turns_begin_beside_others_only_if_the_budget_is_thought_to_last_for_all() {
    check(
        limits(0, 0, 10_000),
        0,
        "0 ask 6
         0 ask 2
         0 ask 1 5000
         0 ask 1 4000
         0 ask
         0 spend 3000
         0 free
         0 ask
         0 free
         0 ask
         0 free
         0 end
         0 ask
         0 ask",
        &expect![[r#"
            0 ask 6: tokens for choices, wait 12h0m0s
            0 ask 2: yes tokens 10000/10000 in 12h0m0s
            0 ask 1 5000: reserved, wait 1s
            0 ask 1 4000: reserved, wait 1s
            0 ask: yes tokens 10000/10000 in 12h0m0s
            0 ask: reserved, wait 1s
            0 ask: yes tokens 7000/10000 in 12h0m0s
            0 ask: yes tokens 7000/10000 in 12h0m0s
            0 ask: reserved, wait 1s
        "#]],
    );
}

#[test]
fn until_an_answer_has_ended_one_beside_others_is_taken_for_a_quarter_of_the_budget() {
    let script = "0 ask
        0 ask
        0 ask
        0 ask
        0 spend 3000
        0 ask
        0 end
        0 free
        0 ask";
    check(
        limits(0, 0, 1_000_000),
        0,
        script,
        &expect![[r#"
        0 ask: yes tokens 1000000/1000000 in 12h0m0s
        0 ask: yes tokens 1000000/1000000 in 12h0m0s
        0 ask: yes tokens 1000000/1000000 in 12h0m0s
        0 ask: yes tokens 1000000/1000000 in 12h0m0s
        0 ask: reserved, wait 1s
        0 ask: yes tokens 997000/1000000 in 12h0m0s
    "#]],
    );
    let choices_alone = "0 ask 8
        0 ask";
    check(
        limits(0, 0, 1_000_000),
        0,
        choices_alone,
        &expect![[r#"
        0 ask 8: yes tokens 1000000/1000000 in 12h0m0s
        0 ask: reserved, wait 1s
    "#]],
    );
}

#[test]
fn turns_that_run_are_taken_for_as_long_as_the_longest_answer_since() {
    check(
        limits(0, 0, 20_000),
        0,
        "0 ask
         0 spend 100
         0 end
         0 free
         0 ask 2
         0 ask
         0 spend 6000
         0 ask",
        &expect![[r#"
            0 ask: yes tokens 20000/20000 in 12h0m0s
            0 ask 2: yes tokens 19900/20000 in 12h0m0s
            0 ask: yes tokens 19900/20000 in 12h0m0s
            0 ask: reserved, wait 1s
        "#]],
    );
}

#[test]
fn one_turn_alone_may_begin_as_long_as_anything_is_left() {
    check(
        limits(0, 0, 500),
        499,
        "0 ask 2
         0 ask 1 90000
         0 ask
         0 resume
         0 spend 700
         0 steer
         0 free
         0 free
         0 ask",
        &expect![[r#"
            0 ask 2: tokens for choices, wait 12h0m0s
            0 ask 1 90000: yes tokens 1/500 in 12h0m0s
            0 ask: reserved, wait 1s
            0 resume: yes tokens 1/500 in 12h0m0s
            0 steer: tokens, wait 12h0m0s
            0 ask: tokens, wait 12h0m0s
        "#]],
    );
}

#[test]
fn a_clock_that_is_set_back_gives_no_tokens_again() {
    let now = after(Instant::now(), 0);
    let mut quota = Quota::new(limits(0, 0, 10), 10, now);
    let yesterday = Moment { utc: Stamp(NOON.0 - 86_400_000), ..now };
    assert!(matches!(admit(&mut quota, Claim::turns(1, 0), yesterday), Err(Reached::Tokens(_))));
}

#[test]
fn a_day_begins_at_midnight_also_after_a_clock_that_was_far_ahead() {
    let now = after(Instant::now(), 0);
    let days = |count: i64| Moment { utc: Stamp(NOON.0 + count * 86_400_000), ..now };
    let mut quota = Quota::new(limits(0, 0, 10), 0, now);
    quota.spend(&"turn".into(), 10, days(30));
    assert!(matches!(admit(&mut quota, Claim::turns(1, 0), days(30)), Err(Reached::Tokens(_))));
    assert!(matches!(admit(&mut quota, Claim::turns(1, 0), now), Err(Reached::Tokens(_))), "the clock is right again");
    assert!(admit(&mut quota, Claim::turns(1, 0), days(1)).is_ok());
}

#[test]
fn spans_are_written_as_openai_writes_them_and_never_too_short() {
    let written = [0, 1, 999, 1000, 1001, 59_999, 60_000, 61_000, 3_600_000, 46_921_000];
    let written = written.map(|millis| span(Duration::from_millis(millis))).join(" ");
    expect!["0s 1ms 999ms 1s 2s 1m0s 1m0s 1m1s 1h0m0s 13h2m1s"].assert_eq(&written);
    assert_eq!(span(Duration::from_nanos(1)), "1ms");
}

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Ask(u32),
    Steer,
    Free,
    Spend(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0_u64..30_000).prop_map(Step::Wait),
        (0_u64..8_000_000).prop_map(Step::Wait),
        (1_u32..4).prop_map(Step::Ask),
        Just(Step::Ask(1)),
        Just(Step::Steer),
        Just(Step::Free),
        (0_u64..400).prop_map(Step::Spend),
    ]
}

proptest! {
    /// However callers behave: no more requests than the minute allows on top of a full bucket, never more turns than
    /// allowed, nothing once the day's tokens are gone, and whoever waits as long as it was told is let through.
    #[test]
    fn no_limit_is_ever_broken_and_every_wait_is_enough(
        requests in 0_u32..50,
        turns in 0_u32..5,
        tokens in 0_u64..20_000,
        steps in proptest::collection::vec(step(), 1..200),
    ) {
        let (start, limits) = (Instant::now(), limits(requests, turns, tokens));
        let mut quota = Quota::new(limits, 0, after(start, 0));
        let (mut millis, mut running, mut spent) = (0_u64, Vec::new(), (0, 0));
        let mut admitted: Vec<u64> = Vec::new();
        for step in steps {
            let now = after(start, millis);
            let today = now.utc.0 / 86_400_000;
            if spent.0 != today {
                spent = (today, 0);
            }
            let claim = match step {
                Step::Wait(more) => {
                    millis += more;
                    continue;
                }
                Step::Free => {
                    running.pop().into_iter().for_each(|reserved| quota.free(reserved));
                    continue;
                }
                Step::Spend(more) => {
                    quota.spend(&"turn".into(), more, now);
                    quota.end_answer("turn");
                    spent.1 += more;
                    continue;
                }
                Step::Ask(count) => Claim::turns(count, 0),
                Step::Steer => Claim::beside_a_turn(),
            };
            match admit(&mut quota, claim, now) {
                Ok(reserved) => {
                    running.extend((0..claim.turns).map(|_| reserved));
                    admitted.extend((0..claim.requests).map(|_| millis));
                    prop_assert!(claim.turns == 0 || turns == 0 || running.len() <= turns as usize);
                    prop_assert!(tokens == 0 || spent.1 < tokens);
                    let remaining = quota.left(now).tokens.map(|share| share.remaining);
                    prop_assert_eq!(remaining, limits.tokens_per_day.map(|max| max.get() - spent.1));
                    let in_span = admitted.iter().enumerate().map(|(at, since)| ((admitted.len() - at) as u64, millis - since));
                    for (count, passed) in in_span.filter(|_| requests > 0) {
                        let most = u64::from(requests) + (passed * u64::from(requests)).div_ceil(60_000) ;
                        prop_assert!(count <= most, "{} requests in {} ms", count, passed);
                    }
                }
                Err(Reached::Requests(wait)) if claim.requests <= requests => {
                    let later = Moment { steady: now.steady + wait, ..now };
                    prop_assert!(wait <= Duration::from_secs(60));
                    let reserved = admit(&mut quota, claim, later).unwrap();
                    running.extend((0..claim.turns).map(|_| reserved));
                    millis += u64::try_from(wait.as_millis()).unwrap() + 1;
                    admitted.extend((0..claim.requests).map(|_| millis));
                }
                // More choices than requests in a minute are refused before, as no waiting would help.
                Err(Reached::Requests(_)) => {}
                Err(Reached::Turns(_)) => prop_assert!(running.len() + claim.turns as usize > turns as usize),
                Err(Reached::Reserved(_)) => {
                    prop_assert!(!running.is_empty() && claim.turns > 0 && spent.1 < tokens);
                }
                Err(Reached::TokensForChoices(_)) => prop_assert!(running.is_empty() && claim.turns > 1),
                Err(Reached::Tokens(wait)) => {
                    prop_assert!(spent.1 >= tokens);
                    prop_assert_eq!(now.utc.after(wait).0 % 86_400_000, 0);
                }
            }
        }
    }

    /// However many ask at once: as long as no answer is longer than it is taken for, the budget is passed by one answer at
    /// most; beyond that, only by what the answers that run at the same time are longer than they are taken for.
    #[test]
    fn a_budget_of_tokens_is_passed_by_one_answer_at_most(
        budget in 1_u64..50_000,
        answers in proptest::collection::vec((0_u64..9000, 0_u64..4000, 0_usize..6, 1_u64..4), 1..200),
    ) {
        let (now, limits) = (after(Instant::now(), 0), limits(0, 0, budget));
        let mut quota = Quota::new(limits, 0, now);
        let (mut running, mut spent, mut largest, mut surplus): (Vec<(Arc<str>, u64, u64)>, _, _, _) = (Vec::new(), 0, 0, 0);
        for (at, (length, asked, ending, parts)) in answers.into_iter().enumerate() {
            if let Ok(reserved) = admit(&mut quota, Claim::turns(1, asked), now) {
                // Each is told in parts, of which some come now and the rest at its end.
                let turn: Arc<str> = at.to_string().into();
                let first = length / parts;
                quota.spend(&turn, first, now);
                (spent, largest) = (spent + first, largest.max(length));
                surplus += length.saturating_sub(reserved);
                running.push((turn, length - first, reserved));
            }
            if ending < running.len() {
                let (turn, rest, reserved) = running.remove(ending);
                quota.spend(&turn, rest, now);
                quota.end_answer(&turn);
                quota.free(reserved);
                spent += rest;
            }
        }
        for (turn, rest, _) in running {
            quota.spend(&turn, rest, now);
            spent += rest;
        }
        prop_assert!(spent < budget + largest + surplus, "{} of {}, largest {}, surplus {}", spent, budget, largest, surplus);
    }
}
