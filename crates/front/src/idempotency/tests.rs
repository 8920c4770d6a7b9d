use std::future::{pending, ready};
use std::pin::pin;

use axum::body::to_bytes;
use expect_test::expect;
use futures_util::poll;
use futures_util::stream::{once, poll_fn};

use super::*;
use crate::ask::stream_response;
use crate::memory_budget::MemoryBudget;

fn name() -> Name {
    Name { key: "k".into(), called: "one".into() }
}

async fn text(response: Response) -> String {
    String::from_utf8(to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec()).unwrap()
}

/// A stream whose maker ends badly after these events.
fn broken(events: &'static str) -> Response {
    let never = poll_fn(|_| panic!("the maker of this answer fails"));
    stream_response(Body::from_stream(once(ready(Ok::<_, Infallible>(events))).chain(never)))
}

#[tokio::test]
async fn a_stream_that_breaks_off_ends_in_the_words_of_its_api_and_can_be_asked_for_again() {
    let answers = Arc::new(Answers::default());
    let told = "event: response.created\ndata: {}\n\n: ping\n\n";
    for (shape, expected) in [
        (
            Shape::Chat,
            expect![[r#"
                data: {"error":{"message":"this answer cannot be read to its end","type":"server_error","param":null,"code":"internal"}}

            "#]],
        ),
        (
            Shape::Responses,
            expect![[r#"
                event: error
                data: {"type":"error","error":{"message":"this answer cannot be read to its end","type":"server_error","param":null,"code":"internal"},"sequence_number":1}

            "#]],
        ),
    ] {
        let given =
            text(answers.give(name(), shape, RequestHash::of(&[]), |_| async move { broken(told) }).await.unwrap())
                .await;
        expected.assert_eq(given.strip_prefix(told).unwrap());
    }
    let whole =
        answers.give(name(), Shape::Chat, RequestHash::of(&[]), |_| async { "whole".into_response() }).await.unwrap();
    assert_eq!(text(whole).await, "whole");
}

#[tokio::test]
async fn a_kept_answer_holds_no_memory_of_the_budget() {
    let (answers, budget) = (Arc::new(Answers::default()), Arc::new(MemoryBudget::new(100)));
    let lease = budget.lease(&"k".into());
    let make = |progress: Progress| async move {
        progress.begin();
        lease.hold_text("whole".to_owned()).into_response()
    };
    assert_eq!(text(answers.give(name(), Shape::Chat, RequestHash::of(&[]), make).await.unwrap()).await, "whole");
    assert_eq!(budget.used(), 0);
}

#[tokio::test]
async fn a_request_that_joins_an_answer_holds_no_memory_of_the_budget() {
    let (answers, budget) = (Arc::new(Answers::default()), Arc::new(MemoryBudget::new(100)));
    let give = || {
        let mut lease = budget.lease(&"k".into());
        lease.resize(20).unwrap();
        let make = |_| async move { lease.hold_text(pending().await).into_response() };
        answers.give(name(), Shape::Chat, RequestHash::of(&[]), make)
    };
    let (mut first, mut second) = (pin!(give()), pin!(give()));
    assert!(poll!(&mut first).is_pending());
    assert_eq!(budget.used(), 40, "the first is made, the second has not asked yet");
    assert!(poll!(&mut second).is_pending());
    assert_eq!(budget.used(), 20);
}

#[tokio::test]
async fn an_answer_that_is_lost_must_not_be_asked_for_by_itself_but_can_be() {
    let answers = Arc::new(Answers::default());
    let lost =
        answers.give(name(), Shape::Chat, RequestHash::of(&[]), |_| async { panic!("the maker fails") }).await.unwrap();
    assert_eq!((lost.status().as_u16(), &lost.headers()["x-should-retry"]), (500, &"false".parse().unwrap()));
    let whole =
        answers.give(name(), Shape::Chat, RequestHash::of(&[]), |_| async { "whole".into_response() }).await.unwrap();
    assert_eq!(text(whole).await, "whole");
}

#[tokio::test]
async fn only_an_answer_for_which_something_was_begun_is_given_again() {
    for (has_begun, given) in [(false, ["1", "2"]), (true, ["1", "1"])] {
        let answers = Arc::new(Answers::default());
        let mut texts = Vec::new();
        for said in ["1", "2"] {
            let make = |progress: Progress| async move {
                if has_begun {
                    progress.begin();
                }
                said.into_response()
            };
            texts.push(text(answers.give(name(), Shape::Chat, RequestHash::of(&[]), make).await.unwrap()).await);
        }
        assert_eq!(texts, given);
    }
}

#[tokio::test]
async fn one_key_has_a_quarter_of_the_room_and_leaves_the_rest_to_others() {
    let answers = Arc::new(Answers::default());
    let named = |key: &str, number: usize| Name { key: key.into(), called: number.to_string().into() };
    let begin = |key: &str, number: usize| answers.find_or_begin(&named(key, number), RequestHash::of(&[]));
    for key in ["a", "b", "c", "d"] {
        for number in 0..RUNNING_PER_KEY_MAX {
            assert!(begin(key, number).unwrap().1, "{key} {number}");
        }
        if key != "d" {
            let refused = begin(key, RUNNING_PER_KEY_MAX).err().unwrap();
            assert_eq!(refused.code(), Code::ConcurrencyExceeded, "{key}");
        }
        assert!(!begin(key, 0).unwrap().1, "what is in progress can be joined");
    }
    assert_eq!(begin("e", 0).err().unwrap().code(), Code::Busy);
    let answer = begin("a", 0).unwrap().0;
    drop(Giving {
        answers: Arc::downgrade(&answers),
        name: named("a", 0),
        shape: Shape::Chat,
        answer,
        progress: Progress::default(),
        ending: Ending::Broken,
    });
    assert!(begin("a", RUNNING_PER_KEY_MAX).unwrap().1, "what ends makes room for its key");
}
