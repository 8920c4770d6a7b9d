//! Shell scripts as workers.

use std::ffi::OsString;
use std::time::Duration;

use serde_json::json;
use supervise::{Launch, Limits, Owner, Rlimits};
use wire::{Event, Outcome};

use super::{End, Talk, Transport, run};

fn sh(script: &str) -> Talk {
    let launch = Launch {
        program: "/bin/sh".into(),
        args: ["-c", script].map(OsString::from).into(),
        cwd: "/".into(),
        env: Vec::new(),
        owner: Owner::generate(),
        rlimits: Rlimits::default(),
    };
    Talk::new(Transport::child(launch.spawn(Limits::default()).unwrap()))
}

async fn exit_of(talk: Talk) -> String {
    match talk.stop().await {
        End::Child(exit) => exit.to_string(),
        end => panic!("a process ended otherwise: {end}"),
    }
}

#[test]
fn a_process_answers_and_is_stopped() {
    run(async {
        let mut talk = sh(r#"read call; echo '{"id":1,"result":"heard"}'; cat"#);
        assert_eq!(talk.call("a", &json!({})).await, "heard");
        let exit = exit_of(talk).await;
        assert!(exit.contains("exited with code 0") && exit.contains("stopped by closing its stdin"), "{exit}");
    });
}

#[test]
fn a_process_that_ends_by_itself_is_not_blamed_on_us_and_its_last_words_count() {
    run(async {
        let mut talk = sh(r#"read call; echo '{"method":"last/words"}'; echo broken >&2; exit 7"#);
        let sent = talk.send("a", &json!({}));
        assert!(matches!(talk.next().await, Some(Event::Notification(told)) if &*told.method == "last/words"));
        assert!(matches!(talk.settled(sent).await, Outcome::Closed(_)));
        talk.drain().await;
        assert_eq!(talk.transport.deafness(), None);
        let exit = exit_of(talk).await;
        assert!(exit.contains("exited with code 7") && exit.ends_with("last stderr: broken"), "{exit}");
        assert!(!exit.contains("stopped by"), "{exit}");
    });
}

#[test]
fn a_dead_process_is_noticed_though_something_else_holds_its_stdout() {
    run(async {
        let mut talk = sh("env -i setsid sleep 30 & echo '{\"method\":\"a\"}'; exit 3");
        assert!(matches!(talk.next().await, Some(Event::Notification(_))));
        talk.drain().await;
        let exit = exit_of(talk).await;
        assert!(exit.contains("exited with code 3"), "{exit}");
    });
}

#[test]
fn a_process_that_closed_its_stdin_is_heard_to_its_end_and_then_stopped() {
    run(async {
        let mut talk = sh(r#"exec 0<&-; echo '{"method":"deaf"}'; exec sleep 30"#);
        assert!(matches!(talk.next().await, Some(Event::Notification(_))));
        let sent = talk.send("a", &json!({}));
        // That the first line could not be written is told when the next one is sent.
        while talk.transport.deafness().is_none() {
            talk.connection.notify("again", None).unwrap();
            talk.transport.transmit(&mut talk.connection, None);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let deafness = talk.transport.deafness().unwrap();
        assert!(deafness.starts_with("the process closed its stdin"), "{deafness}");
        assert!(matches!(talk.settled(sent).await, Outcome::Closed(_)));
        let exit = exit_of(talk).await;
        assert!(exit.contains("stopped by"), "{exit}");
    });
}
