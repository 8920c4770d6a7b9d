//! Every caller before every server, each pair in a house of its own, and what was said between a house and its server.

use std::time::{Duration, Instant};

use serde_json::Value;
use tools::{Frame, Speaker};

use crate::house::{Calling, Can, House, Lifecycle, PATIENCE, server};

/// Plays it for each pair; the server's name is `g`.
pub(crate) async fn each_pair(play: impl AsyncFn(&House, Lifecycle, Calling)) {
    for name in ["legacy", "modern", "dual"] {
        for lifecycle in [Lifecycle::Legacy, Lifecycle::Modern] {
            println!("{lifecycle:?} caller, {name} server");
            let house = House::ready(vec![server("g", name)]).await;
            let caller = house.caller(lifecycle, Can::Everything).await;
            play(&house, lifecycle, caller).await;
            house.host.stop().await;
        }
    }
}

/// What the server `g` was sent of this method, the oldest first.
pub(crate) fn sent(house: &House, method: &str) -> Vec<Value> {
    let is_ours = |frame: &&Frame| frame.from == Speaker::Us;
    let frames = house.host.frames("g").unwrap().frames;
    let messages = frames.iter().filter(is_ours).filter_map(|frame| serde_json::from_str::<Value>(&frame.text).ok());
    messages.filter(|message| message["method"] == method).collect()
}

/// Waits until the server `g` was sent something of this method, and gives the first.
pub(crate) async fn until_sent(house: &House, method: &str) -> Value {
    until(&format!("{method} was sent"), async || sent(house, method).into_iter().next()).await
}

/// Waits until there is something to be seen.
pub(crate) async fn until<T>(what: &str, look: impl AsyncFn() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(begun.elapsed() < PATIENCE, "it never came to be so: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
