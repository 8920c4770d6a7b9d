//! Servers start a few at a time.

use std::time::Duration;

use tools::{Limits, Plan, ServerState, ServerView};

use crate::house::{House, plan, server};
use crate::meetings::until;

/// On one thread, so that a look at all servers is a look at one moment.
#[tokio::test(flavor = "current_thread")]
async fn no_more_servers_are_starting_at_once_than_may_and_all_come_up() {
    let servers = (0..6).map(|number| server(&format!("s{number}"), "slow 300")).collect();
    let limits = Limits { starts_max: 2, start_turn_max: Duration::from_secs(3600), ..Limits::default() };
    let house = House::of(Plan { limits, ..plan(servers) });
    let most = std::cell::Cell::new(0);
    until("all are ready", async || {
        let views = house.host.servers();
        let is_starting = |view: &&ServerView| view.state != ServerState::Ready && view.pid.is_some();
        let starting = views.iter().filter(is_starting).count();
        assert!(starting <= 2, "{starting} are starting");
        most.set(starting.max(most.get()));
        views.iter().all(|view| view.state == ServerState::Ready).then_some(())
    })
    .await;
    assert_eq!(most.get(), 2, "as many as may start together do");
    house.host.stop().await;
}
