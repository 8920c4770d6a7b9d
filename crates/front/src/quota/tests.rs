use std::fmt::Write as _;
use std::num::{NonZeroU32, NonZeroU64};
use std::time::{Duration, Instant};

use approvals::Stamp;
use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::headers::span;
use super::{Left, Moment, Quota, Reached, Share};
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

fn admit(quota: &mut Quota, turns: u32, now: Moment) -> Result<Left, Reached> {
    quota.check(turns, now)?;
    Ok(quota.take(turns, now))
}

/// Plays lines such as `1500 ask`, `0 ask 2`, `10 free`, `20 spend 100`: the time is in milliseconds after noon.
fn check(limits: KeyLimits, spent: u64, script: &str, expected: &Expect) {
    let start = Instant::now();
    let mut quota = Quota::new(limits, spent, after(start, 0));
    let mut told = String::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<_> = line.split(' ').collect();
        let number = |at: usize| words.get(at).map(|word| word.parse::<u32>().unwrap());
        let now = after(start, words[0].parse().unwrap());
        let outcome = match words[1] {
            "ask" => outcome(admit(&mut quota, number(2).unwrap_or(1), now)),
            "resume" => outcome(Ok(quota.resume(1, now))),
            "free" => {
                quota.free(1);
                continue;
            }
            "spend" => {
                quota.spend(number(2).unwrap().into(), now);
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
         0 ask
         1000 spend 1
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
fn a_clock_that_is_set_back_gives_no_tokens_again() {
    let now = after(Instant::now(), 0);
    let mut quota = Quota::new(limits(0, 0, 10), 10, now);
    let yesterday = Moment { utc: Stamp(NOON.0 - 86_400_000), ..now };
    assert!(matches!(admit(&mut quota, 1, yesterday), Err(Reached::Tokens(_))));
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
    Free,
    Spend(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0_u64..30_000).prop_map(Step::Wait),
        (0_u64..8_000_000).prop_map(Step::Wait),
        (1_u32..4).prop_map(Step::Ask),
        Just(Step::Ask(1)),
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
        tokens in 0_u64..2000,
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
            match step {
                Step::Wait(more) => millis += more,
                Step::Free => {
                    if let Some(freed) = running.pop() {
                        quota.free(freed);
                    }
                }
                Step::Spend(more) => {
                    quota.spend(more, now);
                    spent.1 += more;
                }
                Step::Ask(count) => match admit(&mut quota, count, now) {
                    Ok(left) => {
                        running.push(count);
                        admitted.push(millis);
                        prop_assert!(turns == 0 || running.iter().sum::<u32>() <= turns);
                        prop_assert!(tokens == 0 || spent.1 < tokens);
                        prop_assert_eq!(left.tokens.map(|share| share.remaining), limits.tokens_per_day.map(|max| max.get() - spent.1));
                        let in_span = admitted.iter().enumerate().map(|(at, since)| ((admitted.len() - at) as u64, millis - since));
                        for (count, passed) in in_span.filter(|_| requests > 0) {
                            let most = u64::from(requests) + (passed * u64::from(requests)).div_ceil(60_000) ;
                            prop_assert!(count <= most, "{} requests in {} ms", count, passed);
                        }
                    }
                    Err(Reached::Requests(wait)) => {
                        let later = Moment { steady: now.steady + wait, ..now };
                        prop_assert!(wait <= Duration::from_secs(60));
                        prop_assert!(admit(&mut quota, count, later).is_ok());
                        running.push(count);
                        millis += u64::try_from(wait.as_millis()).unwrap() + 1;
                        admitted.push(millis);
                    }
                    Err(Reached::Turns(_)) => prop_assert!(running.iter().sum::<u32>() + count > turns),
                    Err(Reached::Tokens(wait)) => {
                        prop_assert!(spent.1 >= tokens);
                        prop_assert_eq!(now.utc.after(wait).0 % 86_400_000, 0);
                    }
                },
            }
        }
    }
}
