//! Progress reaches a caller in the order in which its server reports it, all of it before the end of the call.

use serde_json::json;

use crate::house::{House, Lifecycle, server};
use crate::pipe::Pipe;

#[tokio::test(flavor = "multi_thread")]
async fn progress_comes_in_its_order_and_before_the_end_of_its_call() {
    for name in ["legacy", "modern", "dual"] {
        let house = House::ready(vec![server("g", name)]).await;
        for lifecycle in [Lifecycle::Legacy, Lifecycle::Modern] {
            println!("{lifecycle:?} caller, {name} server");
            let mut pipe = Pipe::open(&house, lifecycle).await;
            let call = json!({ "name": "g__sleep", "arguments": { "ms": 0 }, "_meta": { "progressToken": "mine" } });
            pipe.ask("call", "tools/call", call).await;
            for step in 1..=10 {
                let told = pipe.next().await;
                assert_eq!(told["method"], "notifications/progress", "before step {step}: {told}");
                assert_eq!(told["params"]["progressToken"], "mine", "{told}");
                assert_eq!(told["params"]["progress"].as_f64(), Some(f64::from(step)), "{told}");
            }
            let end = pipe.next().await;
            assert_eq!((&end["id"], crate::house::text(&end["result"])), (&json!("call"), "slept 0 ms"), "{end}");
            // Nothing of it comes after its end.
            pipe.ask("next", "tools/list", json!({})).await;
            assert_eq!(pipe.next().await["id"], "next");
        }
        house.host.stop().await;
    }
}
