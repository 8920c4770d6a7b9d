//! Real hooks: what they say counts, and however they fail, others decide.

use std::time::Duration;

use approvals::{By, Hook, Kind, Powers, Settings, Verdict};
use expect_test::{Expect, expect};
use serde_json::json;
use store::ApprovalState;

use crate::support::{Place, command, request, soon};

fn hook(script: &str) -> Hook {
    Hook {
        name: "guard".into(),
        command: ["/bin/sh", "-c", script].map(Into::into).to_vec(),
        cwd: "/".into(),
        env: Vec::new(),
        kinds: Vec::new(),
        timeout: Duration::from_secs(10),
        powers: Powers { operator: true, ..Powers::default() },
    }
}

fn with(hooks: Vec<Hook>) -> Settings {
    Settings { hooks, ..Settings::default() }
}

#[tokio::test]
async fn a_hook_reads_the_approval_and_decides() {
    let script = r#"read -r line; case "$line" in
        *'"command":["touch","x"]'*) echo '{"verdict":"allow"}' ;;
        *) echo '{"verdict":"deny","reason":"only x"}' ;; esac"#;
    let place = Place::new(with(vec![hook(script)])).await;
    let allowed = soon(place.ask(command(1, &["touch", "x"])).await.decided()).await;
    assert_eq!((allowed.verdict, allowed.by), (Verdict::Allow, By::Hook { name: "guard".into() }));
    let denied = soon(place.ask(command(2, &["touch", "y"])).await.decided()).await;
    assert_eq!(denied.verdict, Verdict::deny("only x"));
}

/// The hook leaves the decision to a person; the audit says why.
async fn check_left_to_people(hook: Hook, expect: Expect) {
    let second = Hook { name: "second".into(), ..self::hook(r#"echo '{"verdict":"ask"}'"#) };
    let place = Place::new(with(vec![hook, second])).await;
    let ticket = place.ask(command(1, &["touch", "x"])).await;
    let history = soon(async {
        loop {
            let history = place.history(ticket.id()).await;
            if history.contains("second") {
                break history;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(place.view(ticket.id()).await.state, ApprovalState::Pending);
    // The number of the process is another each time.
    let history = history.split(" (pid ").map(|part| part.split_once(')').map_or(part, |(_, rest)| rest));
    expect.assert_eq(&without_times(&history.collect::<Vec<_>>().join("")));
    assert!(place.decide(ticket.id(), Verdict::Allow).await.verdict.allows());
}

fn without_times(history: &str) -> String {
    let is_time =
        |word: &str| word.starts_with(|char: char| char.is_ascii_digit()) && word.trim_end_matches(';').ends_with('s');
    let lines = history.lines().map(|line| {
        let words = line.split(' ').map(|word| if is_time(word) { "…" } else { word });
        words.collect::<Vec<_>>().join(" ") + "\n"
    });
    lines.collect()
}

#[tokio::test]
async fn a_hook_that_asks_leaves_it_to_people() {
    check_left_to_people(
        hook(r#"echo 'looked at it' >&2; echo '{"verdict":"ask"}'"#),
        expect![[r#"
        asked by main-0: item/commandExecution/requestApproval
        hook_stderr by guard: last stderr: looked at it
        hook_asks by guard
        hook_asks by second
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_hook_that_fails_allows_nothing_even_if_it_said_so() {
    check_left_to_people(
        hook(r#"echo '{"verdict":"allow"}'; echo broken >&2; exit 3"#),
        expect![[r#"
            asked by main-0: item/commandExecution/requestApproval
            hook_stderr by guard: last stderr: broken
            hook_failed by guard: failed: sh exited with code 3 after … last stderr: broken
            hook_asks by second
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_hook_that_says_no_verdict_allows_nothing() {
    check_left_to_people(
        hook("echo 'sure, allow'"),
        expect![[r#"
        asked by main-0: item/commandExecution/requestApproval
        hook_failed by guard: gave no verdict: expected value at line 1 column 1; it said "sure, allow<newline>"
        hook_asks by second
    "#]],
    )
    .await;
    check_left_to_people(hook(r#"echo '{"verdict":"allowed"}'"#), expect![[r#"
        asked by main-0: item/commandExecution/requestApproval
        hook_failed by guard: gave no verdict: unknown variant `allowed`, expected one of `allow`, `allow_for_session`, `allow_with_amendment`, `answer`, `deny`, `cancel` at line 1 column 20; it said "{\"verdict\":\"allowed\"}<newline>"
        hook_asks by second
    "#]]).await;
    check_left_to_people(hook(r#"echo '{"verdict":"allow"}{"verdict":"deny"}'"#), expect![[r#"
        asked by main-0: item/commandExecution/requestApproval
        hook_failed by guard: gave no verdict: trailing characters at line 1 column 20; it said "{\"verdict\":\"allow\"}{\"verdict\":\"deny\"}<newline>"
        hook_asks by second
    "#]]).await;
    check_left_to_people(
        hook(""),
        expect![[r#"
        asked by main-0: item/commandExecution/requestApproval
        hook_failed by guard: gave no verdict: EOF while parsing a value at line 1 column 0; it said ""
        hook_asks by second
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_hook_that_hangs_is_ended() {
    let slow = Hook { timeout: Duration::from_millis(200), ..hook(r#"echo '{"verdict":"allow"}'; exec sleep 60"#) };
    check_left_to_people(
        slow,
        expect![[r#"
            asked by main-0: item/commandExecution/requestApproval
            hook_failed by guard: has not ended within …
            hook_asks by second
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_hook_that_floods_is_ended() {
    check_left_to_people(
        hook("yes"),
        expect![[r#"
        asked by main-0: item/commandExecution/requestApproval
        hook_failed by guard: said more than 1048576 bytes
        hook_asks by second
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_hook_that_is_missing_allows_nothing() {
    let missing = Hook { command: vec!["/nonexistent/hook".into()], ..hook("") };
    check_left_to_people(
        missing,
        expect![[r#"
        asked by main-0: item/commandExecution/requestApproval
        hook_failed by guard: `/nonexistent/hook` does not exist: install it or correct the path
        hook_asks by second
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_hook_says_only_what_is_offered_and_within_its_powers() {
    let for_session = r#"echo '{"verdict":"allow_for_session"}'"#;
    check_left_to_people(
        hook(for_session),
        expect![[r#"
        asked by main-0: item/commandExecution/requestApproval
        hook_refused by guard: allow_for_session is not offered, or not for it to say
        hook_asks by second
    "#]],
    )
    .await;
    let powers = Powers::ALL;
    let place = Place::new(with(vec![Hook { powers, ..hook(for_session) }])).await;
    let ticket = place.ask(command(1, &["touch", "x"])).await;
    assert_eq!(soon(ticket.decided()).await.verdict, Verdict::AllowForSession);
}

#[tokio::test]
async fn tokens_come_from_a_hook_or_not_at_all_and_are_written_nowhere() {
    let tokens = Hook {
        kinds: vec![Kind::AuthTokens],
        ..hook(r#"echo '{"verdict":"answer","content":{"accessToken":"canary"}}'"#)
    };
    let place = Place::new(with(vec![tokens.clone()])).await;
    let ticket = place.ask(request(Kind::AuthTokens, r#"{"reason":"unauthorized"}"#)).await;
    assert_eq!(soon(ticket.decided()).await.verdict, Verdict::Answer(json!({"accessToken": "canary"})));
    let id = ticket.id().to_owned();
    let row = place.store.read(move |reader| reader.approval(&id)).await.unwrap().unwrap();
    assert!(!format!("{row:?}{}", place.history(ticket.id()).await).contains("canary"));
    let again = place.ask(request(Kind::AuthTokens, r#"{"reason":"unauthorized"}"#)).await;
    assert_ne!(again.id(), ticket.id(), "what was not written down cannot be repeated");

    let place = Place::new(with(vec![Hook { command: vec!["/bin/false".into()], ..tokens }])).await;
    let ticket = place.ask(request(Kind::AuthTokens, "{}")).await;
    let decided = soon(ticket.decided()).await;
    assert_eq!((decided.verdict.allows(), decided.by), (false, By::Nobody));
}
